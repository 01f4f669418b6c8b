//! Threads take one lock in a function that the compiler puts into its caller.

use std::sync::Mutex;

static LOCK: Mutex<()> = Mutex::new(());

#[inline(always)]
fn take() {
    drop(LOCK.lock().unwrap());
}

#[inline(never)]
fn deposit(_: u64) {
    take();
}

fn main() {
    let work = || (0..3000).for_each(deposit);
    let threads: Vec<_> = (0..4).map(|_| std::thread::spawn(work)).collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}
