//! The record of this process.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::clock;
use crate::layout::{self, WORD, header};
use crate::region::Region;
use crate::{modules, thread};

/// Number of this process's record, plus 1; 0 before its first lock.
static NUMBER: AtomicU64 = AtomicU64::new(0);
/// There is no room for a record.
const NONE: u64 = u64::MAX;
/// A thread takes the record.
const BUSY: u64 = u64::MAX - 1;

/// Returns the number of this process's record, which the first caller takes.
pub(crate) fn number(region: Region) -> Option<usize> {
    loop {
        match NUMBER.load(Ordering::Acquire) {
            NONE => return None,
            BUSY => std::hint::spin_loop(),
            0 => {
                let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
                if NUMBER.compare_exchange(0, BUSY, success, failure).is_ok() {
                    let taken = register(region);
                    NUMBER.store(
                        taken.map_or(NONE, |number| number as u64 + 1),
                        Ordering::Release,
                    );
                }
            }
            number => return Some(number as usize - 1),
        }
    }
}

fn register(region: Region) -> Option<usize> {
    let number = region.take(header::PROCESSES, layout::process::MAX)?;
    let record = region.process(number);
    // SAFETY: these calls always succeed; the name has 16 bytes.
    unsafe {
        let mut comm = [0_u8; 2 * WORD];
        libc::prctl(libc::PR_GET_NAME, comm.as_mut_ptr());
        for (index, bytes) in comm.chunks_exact(WORD).enumerate() {
            let bytes = bytes.try_into().unwrap_or_default();
            record[layout::process::COMM + index].set(u64::from_ne_bytes(bytes));
        }
        record[layout::process::PARENT].set(libc::getppid() as u64);
        record[layout::process::STARTED].set(clock::now());
        record[layout::process::PID].publish(libc::getpid() as u64);
    }
    Some(number)
}

/// Makes a forked child take records of its own.
pub(crate) fn follow_forks() {
    // SAFETY: the function is one of this library, which is never unloaded.
    unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
}

unsafe extern "C" fn in_child() {
    NUMBER.store(0, Ordering::Release);
    modules::forget();
    thread::forget();
}
