//! CPUs of this host on which the calling thread may run.

use std::collections::BTreeSet;
use std::io;
use std::mem;

use hitm_base::Topology;

/// A mask of sched_setaffinity(2): one bit a CPU.
type Mask = [u64; Topology::CPUS_MAX / 64];

/// CPUs that the thread may run on, by the operating system's numbers.
pub fn usable() -> BTreeSet<u32> {
    let mut mask: Mask = [0; _];
    // SAFETY: the kernel writes at most the given number of bytes into the array, which lives
    // through the call and for which every bit pattern is valid.
    let result =
        unsafe { libc::sched_getaffinity(0, mem::size_of_val(&mask), mask.as_mut_ptr().cast()) };
    if result != 0 {
        return BTreeSet::new();
    }
    (0..Topology::CPUS_MAX)
        .filter(|cpu| mask[cpu / 64] >> (cpu % 64) & 1 == 1)
        .map(|cpu| cpu as u32)
        .collect()
}

/// Lets the thread run on these CPUs only.
pub fn run_on(cpus: impl IntoIterator<Item = u32>) -> io::Result<()> {
    let mut mask: Mask = [0; _];
    for cpu in cpus {
        let word = mask.get_mut(cpu as usize / 64);
        *word.ok_or(io::ErrorKind::InvalidInput)? |= 1 << (cpu % 64);
    }
    // SAFETY: the kernel reads the given number of bytes of the array, which lives through the call.
    let result =
        unsafe { libc::sched_setaffinity(0, mem::size_of_val(&mask), mask.as_ptr().cast()) };
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The CPU that the thread runs on now.
pub fn current() -> Option<u32> {
    // SAFETY: a plain call.
    u32::try_from(unsafe { libc::sched_getcpu() }).ok()
}
