//! A set of CPUs by value: affinities, spans, and the masks that a search builds on its own stack.
//! Masks that CPUs share are places in memory ([`super::mask::SharedMask`]).

use std::cell::RefCell;
use std::rc::Rc;

use hitm_base::CpuId;
use rustc_hash::FxHashSet;

/// A set of CPUs of a machine of a known size.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CpuMask {
    words: Vec<u64>,
}

impl CpuMask {
    /// No CPU of a machine of `cpu_count`.
    pub fn empty(cpu_count: usize) -> CpuMask {
        CpuMask {
            words: vec![0; cpu_count.div_ceil(64)],
        }
    }

    /// All CPUs of a machine of `cpu_count`.
    pub fn all(cpu_count: usize) -> CpuMask {
        CpuMask::of(cpu_count, (0..cpu_count as u16).map(CpuId))
    }

    /// These CPUs.
    pub fn of(cpu_count: usize, cpus: impl IntoIterator<Item = CpuId>) -> CpuMask {
        let mut mask = CpuMask::empty(cpu_count);
        for cpu in cpus {
            mask.set(cpu);
        }
        mask
    }

    /// Adds a CPU.
    pub fn set(&mut self, cpu: CpuId) {
        self.words[cpu.index() / 64] |= 1 << (cpu.index() % 64);
    }

    /// Adds the CPUs that `other` has.
    pub fn add(&mut self, other: &CpuMask) {
        for (mine, theirs) in self.words.iter_mut().zip(&other.words) {
            *mine |= theirs;
        }
    }

    /// Removes the CPUs that `other` does not have.
    pub fn keep(&mut self, other: &CpuMask) {
        for (mine, theirs) in self.words.iter_mut().zip(&other.words) {
            *mine &= theirs;
        }
    }

    /// Replaces 64 CPUs at once.
    pub fn set_word(&mut self, index: usize, word: u64) {
        self.words[index] = word;
    }

    /// 64 CPUs as bits.
    pub fn word(&self, index: usize) -> u64 {
        self.words[index]
    }

    /// Returns the number of words.
    pub fn word_count(&self) -> usize {
        self.words.len()
    }

    /// Returns true if the CPU is in it.
    pub fn contains(&self, cpu: CpuId) -> bool {
        self.words[cpu.index() / 64] >> (cpu.index() % 64) & 1 == 1
    }

    /// Returns the number of CPUs in it.
    pub fn count(&self) -> usize {
        self.words
            .iter()
            .map(|word| word.count_ones() as usize)
            .sum()
    }

    /// Returns true if no CPU is in it.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// The first CPU of both sets after `after`, from the start again behind the last.
    pub fn next_and_wrapping(&self, other: &CpuMask, after: Option<CpuId>) -> Option<CpuId> {
        let from = after.map_or(0, |cpu| cpu.index() + 1);
        let behind = self.next_and(other, from);
        behind.or_else(|| self.next_and(other, 0))
    }

    /// The CPUs, ascending.
    pub fn iter(&self) -> impl Iterator<Item = CpuId> + '_ {
        self.words.iter().enumerate().flat_map(|(index, word)| {
            let mut left = *word;
            std::iter::from_fn(move || {
                if left == 0 {
                    return None;
                }
                let bit = left.trailing_zeros() as usize;
                left &= left - 1;
                Some(CpuId((index * 64 + bit) as u16))
            })
        })
    }

    fn next_and(&self, other: &CpuMask, from: usize) -> Option<CpuId> {
        let mut index = from / 64;
        let mut keep = u64::MAX << (from % 64);
        while index < self.words.len() {
            let word = self.words[index] & other.words[index] & keep;
            if word != 0 {
                let cpu = index * 64 + word.trailing_zeros() as usize;
                return Some(CpuId(cpu as u16));
            }
            keep = u64::MAX;
            index += 1;
        }
        None
    }
}

/// Masks that many own and nobody changes: equal ones are kept once, so that they stay in the host's
/// caches.
#[derive(Debug, Default)]
pub(super) struct KnownMasks {
    known: RefCell<FxHashSet<Rc<CpuMask>>>,
}

impl KnownMasks {
    /// The mask, or the one that was equal to it before.
    pub(super) fn share(&self, mask: CpuMask) -> Rc<CpuMask> {
        let mut known = self.known.borrow_mut();
        if let Some(equal) = known.get(&mask) {
            return Rc::clone(equal);
        }
        let mask = Rc::new(mask);
        known.insert(Rc::clone(&mask));
        mask
    }
}

/// Masks for searches, so that none is allocated in the hot path.
#[derive(Debug)]
pub(super) struct MaskPool {
    cpu_count: usize,
    free: RefCell<Vec<CpuMask>>,
}

impl MaskPool {
    pub(super) fn new(cpu_count: usize) -> MaskPool {
        MaskPool {
            cpu_count,
            free: RefCell::new(Vec::new()),
        }
    }

    /// A mask with anything in it.
    pub(super) fn take(&self) -> CpuMask {
        let free = self.free.borrow_mut().pop();
        free.unwrap_or_else(|| CpuMask::empty(self.cpu_count))
    }

    pub(super) fn give_back(&self, mask: CpuMask) {
        self.free.borrow_mut().push(mask);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_wraps_around() {
        let cpus = |list: &[u16]| CpuMask::of(130, list.iter().copied().map(CpuId));
        let (mask, all) = (cpus(&[3, 64, 129]), CpuMask::all(130));
        let next = |after| mask.next_and_wrapping(&all, after);
        assert_eq!(next(None), Some(CpuId(3)));
        assert_eq!(next(Some(CpuId(3))), Some(CpuId(64)));
        assert_eq!(next(Some(CpuId(129))), Some(CpuId(3)));
        assert_eq!(mask.next_and_wrapping(&cpus(&[5]), None), None);
        assert_eq!(mask.iter().count(), mask.count());
    }
}
