//! Sets of CPU numbers, in the kernel's list format and as masks of sched_setaffinity(2).

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::mem;

use hitm_base::cpu_range;
use hitm_fields::{Reported, Value};

/// Numbers below this can be in a set: `Topology::CPUS_MAX`, and NR_CPUS of every kernel we know.
const NUMBERS: usize = hitm_base::Topology::CPUS_MAX;

/// A mask of sched_setaffinity(2): one bit a CPU.
type Mask = [u64; NUMBERS / 64];

/// CPUs by their numbers.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct CpuSet(BTreeSet<u16>);

impl CpuSet {
    /// None.
    pub const EMPTY: CpuSet = CpuSet(BTreeSet::new());

    /// Parses the kernel's list format, `0-3,8`. An empty line is the empty set.
    pub fn parse(list: &str) -> Option<CpuSet> {
        let mut numbers = BTreeSet::new();
        let list = list.trim();
        if !list.is_empty() {
            for range in list.split(',') {
                numbers.extend(cpu_range(range.trim())?);
            }
        }
        Some(CpuSet(numbers))
    }

    /// Number of CPUs.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true without any CPU.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns true if `cpu` is in the set.
    pub fn contains(&self, cpu: u16) -> bool {
        self.0.contains(&cpu)
    }

    /// Returns true if every CPU of this set is in `other`.
    pub fn is_subset(&self, other: &CpuSet) -> bool {
        self.0.is_subset(&other.0)
    }

    /// CPUs of both sets.
    #[must_use]
    pub fn intersection(&self, other: &CpuSet) -> CpuSet {
        CpuSet(self.0.intersection(&other.0).copied().collect())
    }

    /// CPUs of either set.
    #[must_use]
    pub fn union(&self, other: &CpuSet) -> CpuSet {
        CpuSet(self.0.union(&other.0).copied().collect())
    }

    /// CPUs of this set that are not in `other`.
    #[must_use]
    pub fn difference(&self, other: &CpuSet) -> CpuSet {
        CpuSet(self.0.difference(&other.0).copied().collect())
    }

    /// The CPUs in the order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = u16> {
        self.0.iter().copied()
    }

    /// The lowest CPU.
    pub fn first(&self) -> Option<u16> {
        self.0.first().copied()
    }

    fn mask(&self) -> Mask {
        let mut mask: Mask = [0; NUMBERS / 64];
        for cpu in self.iter() {
            mask[usize::from(cpu) / 64] |= 1 << (cpu % 64);
        }
        mask
    }
}

impl FromIterator<u16> for CpuSet {
    fn from_iter<I: IntoIterator<Item = u16>>(cpus: I) -> CpuSet {
        CpuSet(cpus.into_iter().collect())
    }
}

impl Reported for CpuSet {
    fn value(&self) -> Value {
        Value::Text(self.to_string())
    }
}

impl fmt::Display for CpuSet {
    /// Writes the kernel's list format.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut cpus = self.iter().peekable();
        let mut comma = "";
        while let Some(first) = cpus.next() {
            let mut last = first;
            while let Some(next) = cpus.next_if(|next| *next == last + 1) {
                last = next;
            }
            match last > first {
                true => write!(f, "{comma}{first}-{last}")?,
                false => write!(f, "{comma}{first}")?,
            }
            comma = ",";
        }
        Ok(())
    }
}

/// CPUs on which a task may run now: its mask within its cpuset, online CPUs only.
pub(crate) fn affinity(tid: u32) -> io::Result<CpuSet> {
    let mut mask: Mask = [0; NUMBERS / 64];
    let size = mem::size_of::<Mask>();
    // SAFETY: the kernel writes at most `size` bytes to the mask, which has as many.
    let done = unsafe { libc::sched_getaffinity(pid(tid)?, size, mask.as_mut_ptr().cast()) };
    if done != 0 {
        return Err(io::Error::last_os_error());
    }
    let is_set = |cpu: &u16| mask[usize::from(*cpu) / 64] >> (cpu % 64) & 1 != 0;
    Ok((0..NUMBERS as u16).filter(is_set).collect())
}

/// Sets a task's mask. `None` is the mask of every CPU: then the task's cpuset decides, also when
/// it changes.
pub(super) fn set_affinity(tid: u32, cpus: Option<&CpuSet>) -> io::Result<()> {
    let mask = cpus.map_or([u64::MAX; NUMBERS / 64], CpuSet::mask);
    let size = mem::size_of::<Mask>();
    // SAFETY: the kernel reads at most `size` bytes of the mask, which has as many.
    let done = unsafe { libc::sched_setaffinity(pid(tid)?, size, mask.as_ptr().cast()) };
    match done {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Zero would mean the caller.
fn pid(tid: u32) -> io::Result<libc::pid_t> {
    let pid = libc::pid_t::try_from(tid).ok().filter(|pid| *pid > 0);
    pid.ok_or_else(|| io::Error::from_raw_os_error(libc::ESRCH))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lists_are_those_of_the_kernel() {
        let check = |list: &str, expected: Option<&str>| {
            let found = CpuSet::parse(list).map(|cpus| cpus.to_string());
            assert_eq!(found.as_deref(), expected, "{list}");
        };
        check("0-3,8\n", Some("0-3,8"));
        check("1,0,2,5-5", Some("0-2,5"));
        check("", Some(""));
        check("8191", Some("8191"));
        for wrong in ["8192", "3-1", "a", "1,,2", "-", "0-70000", "+1-"] {
            check(wrong, None);
        }
    }

    #[test]
    fn a_thread_gets_a_mask_and_its_own_back() {
        let thread = std::thread::spawn(|| {
            // SAFETY: a plain system call.
            let tid = unsafe { libc::gettid() } as u32;
            let before = affinity(tid).unwrap();
            let one: CpuSet = before.first().into_iter().collect();
            set_affinity(tid, Some(&one)).unwrap();
            assert_eq!(affinity(tid).unwrap(), one);
            set_affinity(tid, Some(&before)).unwrap();
            assert_eq!(affinity(tid).unwrap(), before);
        });
        thread.join().unwrap();
        let gone = affinity(0).unwrap_err();
        assert_eq!(gone.raw_os_error(), Some(libc::ESRCH));
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(cpus in prop::collection::btree_set(0u16..8192, 0..40)) {
            let set = CpuSet(cpus);
            prop_assert_eq!(CpuSet::parse(&set.to_string()), Some(set));
        }
    }
}
