//! The host's name of a thread (`comm`), which every process of the host can see in /proc.

/// Bytes of a name, with its end.
const NAME_BYTES: usize = 16;

/// Calls `act` while the calling thread has this name.
pub(crate) fn with<T>(name: &str, act: impl FnOnce() -> T) -> T {
    let mut before = [0u8; NAME_BYTES];
    let mut during = [0u8; NAME_BYTES];
    let len = name.len().min(NAME_BYTES - 1);
    during[..len].copy_from_slice(&name.as_bytes()[..len]);
    // SAFETY: each buffer is as long as the kernel reads or writes, and ends with a 0.
    let is_known = unsafe { libc::prctl(libc::PR_GET_NAME, before.as_mut_ptr()) == 0 };
    // SAFETY: as above.
    unsafe { libc::prctl(libc::PR_SET_NAME, during.as_ptr()) };
    let result = act();
    if is_known {
        // SAFETY: as above.
        unsafe { libc::prctl(libc::PR_SET_NAME, before.as_ptr()) };
    }
    result
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_name_is_there_for_the_time_of_a_call() {
        let name = || fs::read_to_string("/proc/thread-self/comm").unwrap();
        let before = name();
        assert_eq!(with("hm0000010000001", name), "hm0000010000001\n");
        assert_eq!(name(), before);
    }
}
