use std::sync::Mutex;
static BALANCE: Mutex<u64> = Mutex::new(0);
#[inline(always)]
fn take(amount: u64) {
    *BALANCE.lock().unwrap() += amount;
}
#[inline(never)]
fn deposit(amount: u64) {
    take(amount);
}
fn main() {
    let work = || (0..3000).for_each(deposit);
    let threads: Vec<_> = (0..4).map(|_| std::thread::spawn(work)).collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}
