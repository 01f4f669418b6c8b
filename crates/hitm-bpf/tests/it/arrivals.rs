use std::thread;
use std::time::{Duration, Instant};

use hitm_bpf::{Arrivals, Job};

use crate::with_bpf;

const ROUNDS: usize = 20;
const WORK: Duration = Duration::from_millis(1);

/// kernfs numbers the root folder of each hierarchy 1: its group holds every task.
#[test]
fn each_job_comes_with_its_waking_and_its_cpu_time() {
    with_bpf("arrivals", || {
        let mut programs = Arrivals::attach(1, &[]).unwrap();
        let worker = thread::spawn(|| {
            for _ in 0..ROUNDS {
                thread::sleep(Duration::from_millis(5));
                let begun = Instant::now();
                while begun.elapsed() < WORK {}
            }
            // SAFETY: a plain system call.
            unsafe { libc::gettid() }.unsigned_abs()
        });
        let tid = worker.join().unwrap();
        let mut jobs: Vec<Job> = Vec::new();
        programs.drain(|job| jobs.extend((job.tid == tid).then_some(job)));
        // The first sleep of a thread ends what it did before, and its end is no sleep.
        assert!(jobs.len() >= ROUNDS - 2, "{jobs:?}");
        assert!(
            jobs.windows(2)
                .all(|pair| pair[0].slept_ns <= pair[1].woken_ns)
        );
        assert!(
            jobs.iter()
                .all(|job| job.woken_ns + job.ran_ns <= job.slept_ns + 1_000_000)
        );
        let ran: u64 = jobs.iter().map(|job| job.ran_ns).sum();
        assert!(ran > 0, "{jobs:?}");
        let awake = programs.awake().unwrap();
        assert!(awake.windows(2).all(|pair| pair[0].tid < pair[1].tid));
        let _ = programs.lost().unwrap();
    });
}
