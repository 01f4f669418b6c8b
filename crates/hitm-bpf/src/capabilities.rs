//! Drops the capabilities that only loading needs.

use std::io;

use crate::Error;

/// Numbers of linux/capability.h.
const CAP_SYS_ADMIN: u32 = 21;
const CAP_SYS_RESOURCE: u32 = 24;
const CAP_SYSLOG: u32 = 34;
const CAP_PERFMON: u32 = 38;
const CAP_BPF: u32 = 39;

/// _LINUX_CAPABILITY_VERSION_3: sets of 64 bits in two words.
const VERSION_3: u32 = 0x2008_0522;

#[repr(C)]
struct Header {
    version: u32,
    pid: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Sets {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// Drops the calling thread's capabilities for loading, attaching and finding kernel symbols:
/// CAP_BPF, CAP_PERFMON, CAP_SYS_ADMIN, CAP_SYS_RESOURCE and CAP_SYSLOG. They cannot be regained.
/// Others stay.
///
/// # Errors
/// The kernel refuses, which it never does for sets that only shrink.
pub fn drop_capabilities() -> Result<(), Error> {
    let mut sets = get()?;
    for capability in [
        CAP_SYS_ADMIN,
        CAP_SYS_RESOURCE,
        CAP_SYSLOG,
        CAP_PERFMON,
        CAP_BPF,
    ] {
        let word = &mut sets[capability as usize / 32];
        let others = !(1 << (capability % 32));
        word.effective &= others;
        word.permitted &= others;
        word.inheritable &= others;
    }
    set(&sets)
}

fn header() -> Header {
    Header {
        version: VERSION_3,
        pid: 0,
    }
}

fn get() -> Result<[Sets; 2], Error> {
    let mut header = header();
    let mut sets = [Sets::default(); 2];
    // SAFETY: version 3 says that the kernel writes two elements of `sets`; both outlive the call.
    let result = unsafe { libc::syscall(libc::SYS_capget, &raw mut header, sets.as_mut_ptr()) };
    checked(result).map(|()| sets)
}

fn set(sets: &[Sets; 2]) -> Result<(), Error> {
    let mut header = header();
    // SAFETY: version 3 says that the kernel reads two elements of `sets`; both outlive the call.
    checked(unsafe { libc::syscall(libc::SYS_capset, &raw mut header, sets.as_ptr()) })
}

fn checked(result: libc::c_long) -> Result<(), Error> {
    match result {
        0 => Ok(()),
        _ => Err(Error::Capabilities(io::Error::last_os_error())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_without_them_cannot_get_them_back() {
        // A thread of its own: capabilities belong to threads.
        let after = std::thread::spawn(|| {
            drop_capabilities().unwrap();
            let [low, high] = get().unwrap();
            let mut more = [low, high];
            more[1].permitted |= 1 << (CAP_BPF % 32);
            (low, high, set(&more).is_err())
        });
        let (low, high, is_refused) = after.join().unwrap();
        assert_eq!(low.permitted & (1 << CAP_SYS_ADMIN), 0);
        assert_eq!(high.effective & (1 << (CAP_BPF % 32)), 0);
        assert!(is_refused);
    }
}
