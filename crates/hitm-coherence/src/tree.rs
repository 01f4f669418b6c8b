//! A winner tree: the earliest of N keys, each of which may be changed at any time in O(log N).
//!
//! Ties go to the lower leaf, so the order of events does not depend on history.

use hitm_base::Cycles;

/// One key per leaf, and the leaf with the least.
#[derive(Debug, Clone)]
pub struct WinnerTree {
    leaf_count: usize,
    /// The first half stands for inner nodes: 1 is the root, the children of node `i` are `2i` and
    /// `2i + 1`. The second half are the leaves. Each node has the key of its winner, and below it
    /// the leaf, in one word. The least word is the least key, and of equal keys the lower leaf.
    nodes: Vec<u128>,
}

impl WinnerTree {
    /// A tree without leaves.
    pub fn new() -> WinnerTree {
        let mut tree = WinnerTree {
            leaf_count: 0,
            nodes: Vec::new(),
        };
        tree.grow(2);
        tree
    }

    /// Adds a leaf; returns its index.
    pub fn push(&mut self, key: Cycles) -> usize {
        if self.leaf_count == self.slots() {
            self.grow(2 * self.leaf_count);
        }
        self.leaf_count += 1;
        self.set(self.leaf_count - 1, key);
        self.leaf_count - 1
    }

    /// Changes the key of a leaf.
    #[inline]
    pub fn set(&mut self, leaf: usize, key: Cycles) {
        let mut winner = word(leaf, key);
        let mut node = self.slots() + leaf;
        self.nodes[node] = winner;
        // To the root, even when nothing changes above: whether it does cannot be predicted.
        while node > 1 {
            winner = winner.min(self.nodes[node ^ 1]);
            node /= 2;
            self.nodes[node] = winner;
        }
    }

    /// The leaf with the least key, and the key. The key is `Cycles::MAX` in an empty tree.
    #[inline]
    pub fn min(&self) -> (usize, Cycles) {
        leaf_and_key(self.nodes[1])
    }

    #[inline]
    fn slots(&self) -> usize {
        self.nodes.len() / 2
    }

    fn grow(&mut self, slots: usize) {
        let leaves = &self.nodes[self.slots()..];
        let keys: Vec<Cycles> = leaves.iter().map(|word| leaf_and_key(*word).1).collect();
        self.nodes = vec![u128::MAX; 2 * slots];
        for leaf in 0..slots {
            self.set(leaf, keys.get(leaf).copied().unwrap_or(Cycles::MAX));
        }
    }
}

#[inline]
fn word(leaf: usize, key: Cycles) -> u128 {
    u128::from(key.0) << 64 | leaf as u128
}

#[inline]
fn leaf_and_key(word: u128) -> (usize, Cycles) {
    (word as u64 as usize, Cycles((word >> 64) as u64))
}

impl Default for WinnerTree {
    fn default() -> WinnerTree {
        WinnerTree::new()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_winner_is_the_first_least_key(
            keys in proptest::collection::vec(0u64..50, 1..40),
            changes in proptest::collection::vec((0usize..40, 0u64..50), 0..200),
        ) {
            let mut tree = WinnerTree::new();
            let mut plain: Vec<u64> = Vec::new();
            for key in keys {
                plain.push(key);
                tree.push(Cycles(key));
            }
            for (leaf, key) in changes {
                let leaf = leaf % plain.len();
                plain[leaf] = key;
                tree.set(leaf, Cycles(key));
                let least = *plain.iter().min().unwrap();
                let first = plain.iter().position(|key| *key == least).unwrap();
                prop_assert_eq!(tree.min(), (first, Cycles(least)));
            }
        }
    }
}
