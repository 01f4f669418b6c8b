use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hitm_bpf::{Filter, FutexWaits, LockWait};

use crate::with_bpf;

const PAUSE: Duration = Duration::from_millis(100);

fn futex(word: &AtomicU32, command: libc::c_int, value: u32) -> libc::c_long {
    let none = std::ptr::null::<libc::timespec>();
    // SAFETY: the word outlives the call, which takes no other memory.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), command, value, none) }
}

#[test]
fn a_wait_is_counted_by_its_address_with_its_caller() {
    with_bpf("waits in futex(2)", || {
        let pid = std::process::id();
        let waits = FutexWaits::attach(&Filter::Processes(vec![pid])).unwrap();
        let word = AtomicU32::new(0);
        let address = word.as_ptr() as u64;
        let rows = || -> Vec<LockWait> {
            let table = waits.read().unwrap();
            assert_eq!(table.counts.lost_begins + table.counts.lost_waits, 0);
            let all = table.waits.into_iter();
            all.filter(|wait| wait.lock == address).collect()
        };
        // The value differs, so the call does not wait.
        assert_eq!(futex(&word, libc::FUTEX_WAIT, 7), -1);
        let before = rows();
        let during_rows = thread::scope(|scope| {
            scope.spawn(|| {
                while word.load(Ordering::Acquire) == 0 {
                    futex(&word, libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG, 0);
                }
            });
            let observe = || {
                let is_waiting = || rows().iter().any(|wait| wait.is_waiting);
                hitm_test::process::wait_for("a waiter", is_waiting);
                thread::sleep(PAUSE);
                rows()
            };
            let rows = std::panic::catch_unwind(std::panic::AssertUnwindSafe(observe));
            word.store(1, Ordering::Release);
            futex(&word, libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, 1);
            rows
        });
        let (during, after) = (during_rows.unwrap(), rows());
        assert_eq!(before, []);
        assert!(
            matches!(&during[..], [wait] if wait.is_waiting),
            "{during:?}"
        );
        let [wait] = &after[..] else {
            panic!("{after:?}");
        };
        assert_eq!((wait.pid, wait.count, wait.is_waiting), (pid, 1, false));
        assert_ne!(wait.tid, pid);
        assert!(wait.wait_ns >= PAUSE.as_nanos() as u64 / 2, "{wait:?}");
        assert!(!wait.stack.is_empty(), "{wait:?}");
    });
}

#[test]
fn a_process_that_is_not_observed_has_no_waits() {
    with_bpf("filter of futex waits", || {
        // No process has the highest number there is.
        let waits = FutexWaits::attach(&Filter::Processes(vec![1 << 30])).unwrap();
        thread::spawn(|| thread::park_timeout(Duration::from_millis(20)))
            .join()
            .unwrap();
        assert_eq!(waits.read().unwrap().waits, []);
    });
}

/// Nanoseconds of the cheapest of many system calls, of which some are done at once.
fn cheapest_call_ns() -> f64 {
    const CALLS: u32 = 2000;
    let round = |_| {
        let begun = Instant::now();
        for _ in 0..CALLS {
            // SAFETY: it takes and changes nothing.
            unsafe { libc::syscall(libc::SYS_getppid) };
        }
        begun.elapsed().as_nanos() as f64 / f64::from(CALLS)
    };
    (0..200).map(round).fold(f64::INFINITY, f64::min)
}

/// With a program at each system call of the host one took 2.4 times as long.
#[test]
fn other_system_calls_cost_what_they_did() {
    with_bpf("cost of futex waits", || {
        let before = cheapest_call_ns();
        for pid in [std::process::id(), 1 << 30] {
            let waits = FutexWaits::attach(&Filter::Processes(vec![pid])).unwrap();
            let during = cheapest_call_ns();
            assert!(during < 1.4 * before, "{before} ns, then {during} ns");
            drop(waits);
        }
    });
}
