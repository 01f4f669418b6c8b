//! One atomic counter that every thread increments: true sharing, which no layout cures.

use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

#[repr(align(64))]
struct Aligned(AtomicU64);

static EVENTS: Aligned = Aligned(AtomicU64::new(0));

fn private_work(rounds: u64, mut hash: u64) -> u64 {
    for _ in 0..rounds {
        hash = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        hash ^= hash >> 29;
        hash = black_box(hash.wrapping_mul(0xbf58_476d_1ce4_e5b9));
    }
    hash
}

fn main() {
    let arguments: Vec<u64> = std::env::args().skip(1).filter_map(|text| text.parse().ok()).collect();
    let argument = |index: usize, default| arguments.get(index).copied().unwrap_or(default);
    let (iterations, work, threads) = (argument(0, 20_000), argument(1, 3), argument(2, 4));
    let ready = Barrier::new(threads as usize);
    let nanoseconds: f64 = std::thread::scope(|scope| {
        let start = |id| {
            let ready = &ready;
            scope.spawn(move || {
                let mut hash = id + 1;
                ready.wait();
                let began = Instant::now();
                for _ in 0..iterations {
                    EVENTS.0.fetch_add(1, Ordering::Relaxed);
                    hash = private_work(work, hash);
                }
                black_box(hash);
                began.elapsed().as_nanos() as f64
            })
        };
        let running: Vec<_> = (0..threads).map(start).collect();
        running.into_iter().map(|thread| thread.join().expect("no thread panics")).sum()
    });
    assert_eq!(EVENTS.0.load(Ordering::Relaxed), iterations * threads);
    let per_iteration = nanoseconds / threads as f64 / iterations as f64;
    println!("{per_iteration:.2} ns per iteration (mean of {threads} threads)");
}
