//! Per-thread atomic counters in a vector, each padded to a line: nothing to flag.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};

#[repr(align(64))]
#[derive(Default)]
struct Padded(AtomicU64);

fn main() {
    let arguments: Vec<u64> = std::env::args().skip(1).filter_map(|text| text.parse().ok()).collect();
    let iterations = arguments.first().copied().unwrap_or(20_000);
    let threads = arguments.get(2).copied().unwrap_or(4) as usize;
    let counters: Vec<Padded> = (0..threads).map(|_| Padded::default()).collect();
    std::thread::scope(|scope| {
        for counter in &counters {
            scope.spawn(move || {
                for i in 0..iterations {
                    counter.0.fetch_add(black_box(i) & 1, Ordering::Relaxed);
                }
            });
        }
    });
    let sum: u64 = counters.iter().map(|counter| counter.0.load(Ordering::Relaxed)).sum();
    println!("{sum}");
}
