//! Stacks of threads that sleep in a system call.
//!
//! The C library is built without frame pointers, so that the kernel finds no caller of what waits in it. The address
//! that this one returns to lies near the top of the stack.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;

/// Words that are looked at: glibc's functions that wait have frames of up to 200 bytes.
const WORDS: usize = 64;
const WORD_BYTES: usize = 8;

/// The words on top of a sleeping thread's stack; none of a thread that runs, or whose memory is not ours to read.
pub(super) fn words(pid: u32, tid: u32) -> Vec<u64> {
    let call = fs::read_to_string(format!("/proc/{pid}/task/{tid}/syscall"));
    let top = call.ok().and_then(|call| stack_pointer(&call));
    let memory = File::open(format!("/proc/{pid}/mem"));
    let (Some(top), Ok(memory)) = (top, memory) else {
        return Vec::new();
    };
    let mut bytes = [0; WORDS * WORD_BYTES];
    let read = memory.read_at(&mut bytes, top).unwrap_or(0);
    let words = bytes[..read].as_chunks::<WORD_BYTES>().0.iter();
    words.map(|word| u64::from_ne_bytes(*word)).collect()
}

/// The last but one number of a line of proc_pid_syscall(5), which a thread that runs does not have.
fn stack_pointer(call: &str) -> Option<u64> {
    let number = call.split_ascii_whitespace().rev().nth(1)?;
    u64::from_str_radix(number.strip_prefix("0x")?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It waits for work, in a function of the C library that the kernel's walk does not find.
    #[test]
    fn a_thread_that_waits_for_a_condition_is_known_by_its_stack() {
        use super::super::programs::{Programs, mappings};

        let mut wait = Box::new((
            libc::PTHREAD_MUTEX_INITIALIZER,
            libc::PTHREAD_COND_INITIALIZER,
            false,
        ));
        let shared = (&raw mut *wait) as usize;
        let (sender, receiver) = std::sync::mpsc::channel();
        let sleeper = std::thread::spawn(move || {
            let wait = shared as *mut (libc::pthread_mutex_t, libc::pthread_cond_t, bool);
            // SAFETY: the test joins this thread before it drops them, and the mutex guards the flag.
            unsafe {
                sender.send(libc::gettid() as u32).expect("the test waits");
                libc::pthread_mutex_lock(&raw mut (*wait).0);
                while !(*wait).2 {
                    libc::pthread_cond_wait(&raw mut (*wait).1, &raw mut (*wait).0);
                }
                libc::pthread_mutex_unlock(&raw mut (*wait).0);
            }
        });
        let tid = receiver.recv().expect("it starts");
        let pid = std::process::id();
        let mut programs = Programs::new([(pid, mappings(pid))].into());
        let mut found = None;
        hitm_test::process::wait_for("a sleeping thread", || {
            found = programs.library_wait(pid, &words(pid, tid));
            found.is_some()
        });
        // SAFETY: as above.
        unsafe {
            libc::pthread_mutex_lock(&raw mut wait.0);
            wait.2 = true;
            libc::pthread_cond_signal(&raw mut wait.1);
            libc::pthread_mutex_unlock(&raw mut wait.0);
        }
        sleeper.join().expect("it ends");
        let function = found.unwrap_or_default();
        assert!(function.contains("pthread_cond_wait"), "{function}");
    }

    #[test]
    fn a_thread_in_a_call_has_a_stack_pointer() {
        let call = "202 0x7f10 0x189 0x0 0x0 0x0 0xffffffff 0x7f55d0 0x7f55aa\n";
        assert_eq!(stack_pointer(call), Some(0x7f55d0));
        assert_eq!(stack_pointer("running\n"), None);
        assert_eq!(stack_pointer(""), None);
    }
}
