//! Calendar of the CPUs: the earliest of their times, each of which may be changed at any time.
//!
//! Nearly all events lie within a few hundred cycles. So the near future is a ring of one slot a
//! cycle, with a bitmap of the slots in use. Only what is farther away stands in a winner tree.
//! Equal times go to the lower CPU, so the order of events does not depend on history.
//!
//! **Invariant:** what stands in the ring comes before what stands in the tree. CPUs whose time lies
//! before the ring's beginning (an interrupt that had to wait) stand in its first slot.

use hitm_base::Cycles;
use hitm_coherence::tree::WinnerTree;

/// Cycles of the near future.
const SLOTS: u64 = 4096;
const BITS: u64 = 64;
const WORDS: usize = (SLOTS / BITS) as usize;
/// The end of a slot's list.
const NOBODY: u16 = u16::MAX;
/// In place of a slot: the CPU has no event, or one that is far away.
const NO_SLOT: u16 = u16::MAX;
const FAR: u16 = u16::MAX - 1;

#[derive(Debug, Clone, Copy)]
struct Entry {
    key: Cycles,
    slot: u16,
    /// The next CPU in the slot, by (time, number).
    next: u16,
}

#[derive(Debug)]
pub(super) struct Calendar {
    /// By CPU.
    entries: Vec<Entry>,
    /// The first CPU in each slot.
    heads: Box<[u16; SLOTS as usize]>,
    /// Bits of the slots that have one, and of those of these words that have a bit.
    used: [u64; WORDS],
    used_words: u64,
    /// Time of the ring's first slot.
    base: u64,
    far: WinnerTree,
    /// The earliest, if it is known: it is read more often than it changes.
    first: Option<(usize, Cycles)>,
}

impl Calendar {
    /// For so many CPUs, without events.
    pub(super) fn new(cpu_count: usize) -> Calendar {
        let mut far = WinnerTree::new();
        for _ in 0..cpu_count {
            far.push(Cycles::MAX);
        }
        let nothing = Entry {
            key: Cycles::MAX,
            slot: NO_SLOT,
            next: NOBODY,
        };
        Calendar {
            entries: vec![nothing; cpu_count],
            heads: Box::new([NOBODY; SLOTS as usize]),
            used: [0; WORDS],
            used_words: 0,
            base: 0,
            far,
            first: None,
        }
    }

    /// Changes a CPU's time; `Cycles::MAX` means never.
    #[inline]
    pub(super) fn set(&mut self, cpu: usize, key: Cycles) {
        self.remove(cpu);
        self.insert(cpu, key);
    }

    /// Puts in a CPU that is not there; `Cycles::MAX` means never.
    #[inline]
    pub(super) fn insert(&mut self, cpu: usize, key: Cycles) {
        debug_assert_eq!(self.entries[cpu].slot, NO_SLOT, "CPU {cpu} is there");
        if key == Cycles::MAX {
            return;
        }
        if let Some((first, time)) = self.first {
            // A branch would be mispredicted, so there is none.
            let is_first = (key, cpu) < (time, first);
            self.first = Some(if is_first { (cpu, key) } else { (first, time) });
        }
        let distance = key.0.saturating_sub(self.base);
        self.entries[cpu].key = key;
        if distance >= SLOTS {
            self.entries[cpu].slot = FAR;
            self.far.set(cpu, key);
        } else {
            self.link(cpu, ((self.base + distance) % SLOTS) as u16);
        }
    }

    /// Takes out the CPU that [`Calendar::first`] named.
    #[inline]
    pub(super) fn take_first(&mut self, cpu: usize) {
        self.first = None;
        match std::mem::replace(&mut self.entries[cpu].slot, NO_SLOT) {
            FAR => self.far.set(cpu, Cycles::MAX),
            slot => self.unlink_first(cpu, slot),
        }
    }

    /// Takes a CPU out.
    #[inline]
    pub(super) fn remove(&mut self, cpu: usize) {
        self.first = self.first.filter(|(first, _)| *first != cpu);
        match self.entries[cpu].slot {
            NO_SLOT => {}
            FAR => self.far.set(cpu, Cycles::MAX),
            slot => self.unlink(cpu, slot),
        }
        self.entries[cpu].slot = NO_SLOT;
    }

    /// The CPU with the earliest time, and the time; `Cycles::MAX` when there is none.
    #[inline]
    pub(super) fn first(&mut self) -> (usize, Cycles) {
        if let Some(first) = self.first {
            return first;
        }
        let first = match self.first_slot() {
            Some(slot) => {
                let cpu = usize::from(self.heads[slot as usize]);
                (cpu, self.entries[cpu].key)
            }
            None => self.far.min(),
        };
        self.first = (first.1 < Cycles::MAX).then_some(first);
        first
    }

    #[inline]
    fn first_slot(&self) -> Option<u64> {
        let start = self.base % SLOTS;
        let word = start / BITS;
        let rest = self.used[word as usize] >> (start % BITS);
        if rest != 0 {
            return Some(start + u64::from(rest.trailing_zeros()));
        }
        if self.used_words == 0 {
            return None;
        }
        // The words after this one, around the ring; what is left of it comes last.
        let after = (word + 1) % BITS;
        let skipped = self.used_words.rotate_right(after as u32).trailing_zeros();
        let word = (after + u64::from(skipped)) % BITS;
        let bit = self.used[word as usize].trailing_zeros();
        Some(word * BITS + u64::from(bit))
    }

    /// Nothing happens before `time` any more. Returns a CPU whose time is in the near future now;
    /// to be called until there is none.
    #[inline]
    pub(super) fn advance(&mut self, time: Cycles) -> Option<usize> {
        self.base = self.base.max(time.0);
        let (cpu, key) = self.far.min();
        if key.0 - self.base.min(key.0) >= SLOTS {
            return None;
        }
        self.far.set(cpu, Cycles::MAX);
        self.link(cpu, (key.0 % SLOTS) as u16);
        Some(cpu)
    }

    #[inline]
    fn link(&mut self, cpu: usize, slot: u16) {
        let order = (self.entries[cpu].key, cpu as u16);
        let first = self.heads[usize::from(slot)];
        let mut before = NOBODY;
        let mut after = first;
        while after != NOBODY && (self.entries[usize::from(after)].key, after) < order {
            before = after;
            after = self.entries[usize::from(after)].next;
        }
        self.entries[cpu].slot = slot;
        self.entries[cpu].next = after;
        if before == NOBODY {
            self.heads[usize::from(slot)] = cpu as u16;
        } else {
            self.entries[usize::from(before)].next = cpu as u16;
        }
        let word = usize::from(slot) / BITS as usize;
        self.used[word] |= 1 << (u64::from(slot) % BITS);
        self.used_words |= 1 << word;
    }

    #[inline]
    fn unlink(&mut self, cpu: usize, slot: u16) {
        let mut before = self.heads[usize::from(slot)];
        if usize::from(before) == cpu {
            return self.unlink_first(cpu, slot);
        }
        while usize::from(self.entries[usize::from(before)].next) != cpu {
            before = self.entries[usize::from(before)].next;
        }
        self.entries[usize::from(before)].next = self.entries[cpu].next;
    }

    #[inline]
    fn unlink_first(&mut self, cpu: usize, slot: u16) {
        let after = self.entries[cpu].next;
        self.heads[usize::from(slot)] = after;
        if after == NOBODY {
            let word = usize::from(slot) / BITS as usize;
            self.used[word] &= !(1 << (u64::from(slot) % BITS));
            if self.used[word] == 0 {
                self.used_words &= !(1 << word);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Far and near, and again and again the same time.
    fn spans() -> impl Strategy<Value = i64> {
        prop_oneof![-20i64..20, 0i64..300, 3000i64..9000, Just(i64::MAX)]
    }

    proptest! {
        #[test]
        fn the_first_is_the_lowest_cpu_of_the_earliest_time(
            changes in proptest::collection::vec((0usize..40, spans(), any::<bool>()), 1..400),
        ) {
            let mut calendar = Calendar::new(40);
            let mut plain = [Cycles::MAX; 40];
            let mut now = 0u64;
            for (cpu, span, takes) in changes {
                let key = match span {
                    i64::MAX => Cycles::MAX,
                    span => Cycles(now.saturating_add_signed(span)),
                };
                plain[cpu] = key;
                calendar.set(cpu, key);
                let least = *plain.iter().min().unwrap();
                let first = plain.iter().position(|key| *key == least).unwrap();
                let found = calendar.first();
                prop_assert_eq!(found.1, least);
                if least < Cycles::MAX {
                    prop_assert_eq!(found.0, first);
                }
                if let ((cpu, key), true) = (found, takes && least < Cycles::MAX) {
                    calendar.take_first(cpu);
                    plain[cpu] = Cycles::MAX;
                    now = now.max(key.0);
                    while let Some(near) = calendar.advance(key) {
                        prop_assert!(plain[near].0 < now + SLOTS);
                    }
                    let far = calendar.far.min().1;
                    prop_assert!(far.0 >= now + SLOTS, "{far:?} at {now}");
                }
            }
        }
    }
}
