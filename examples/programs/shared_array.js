// Two workers that count in neighbouring elements of a shared array.
//
// node shared_array.js ITERATIONS
const { Worker, isMainThread, workerData } = require('worker_threads');

const THREADS = 2;

if (isMainThread) {
  const shared = new SharedArrayBuffer(64);
  const iterations = Number(process.argv[2]);
  for (let own = 0; own < THREADS; own++) new Worker(__filename, { workerData: { shared, own, iterations } });
} else {
  const counts = new Int32Array(workerData.shared);
  for (let i = 0; i < workerData.iterations; i++) Atomics.add(counts, workerData.own, 1);
}
