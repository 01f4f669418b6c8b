//! The encoder's side of a block's dictionaries: has this value been introduced, and as what?

/// Binary logarithm of the entries of a [`Dictionary`].
const INDEX_BITS: u32 = 12;

#[derive(Debug, Clone, Copy, Default)]
struct Entry {
    key: u64,
    /// The block that the entry belongs to: starting a block empties the table at no cost.
    generation: u32,
    index: u32,
}

/// A direct-mapped table from a value to its index in the block.
///
/// Two values that share an entry push each other out. The one that lost is introduced again when
/// it comes back, which costs bytes and nothing else: the decoder simply knows it twice. So a
/// lookup is one load whatever the program does.
#[derive(Debug)]
pub(super) struct Dictionary {
    entries: Box<[Entry]>,
    generation: u32,
    len: u32,
}

impl Default for Dictionary {
    fn default() -> Dictionary {
        Dictionary {
            entries: vec![Entry::default(); 1 << INDEX_BITS].into_boxed_slice(),
            generation: 1,
            len: 0,
        }
    }
}

impl Dictionary {
    /// Forgets everything: the start of a block.
    pub(super) fn clear(&mut self) {
        self.len = 0;
        self.generation = match self.generation.checked_add(1) {
            Some(next) => next,
            None => {
                self.entries.fill(Entry::default());
                1
            }
        };
    }

    /// The index of `key`, or `None` when it has to be introduced; then it has the next index.
    #[inline(always)]
    pub(super) fn find_or_insert(&mut self, key: u64) -> Option<u32> {
        let hash = key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - INDEX_BITS);
        let entry = &mut self.entries[hash as usize];
        if entry.key == key && entry.generation == self.generation {
            return Some(entry.index);
        }
        *entry = Entry {
            key,
            generation: self.generation,
            index: self.len,
        };
        self.len += 1;
        None
    }
}
