//! Two threads that add to one sum behind a mutex.
//!
//! rustc --edition 2024 -O -g mutex.rs; ./mutex ITERATIONS

use std::sync::Mutex;
use std::thread;

static SUM: Mutex<u64> = Mutex::new(0);

fn add(iterations: u64) {
    for number in 0..iterations {
        *SUM.lock().expect("no thread panics with it") += number;
    }
}

fn main() {
    let iterations = std::env::args().nth(1).and_then(|count| count.parse().ok());
    let iterations = iterations.unwrap_or(1000);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| add(iterations));
        }
    });
}
