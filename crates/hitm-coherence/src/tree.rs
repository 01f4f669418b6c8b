//! A winner tree: the earliest of N keys, each of which may be changed at any time in O(log N).
//!
//! Ties go to the lower leaf, so the order of events does not depend on history.

use hitm_base::Cycles;

/// One key per leaf and the index of the least.
#[derive(Debug, Clone)]
pub struct WinnerTree {
    /// A power of two of them; those of leaves not in use are `Cycles::MAX`.
    keys: Vec<Cycles>,
    leaf_count: usize,
    /// `winners[1]` is the root; the children of node i are 2i and 2i + 1, and node
    /// `keys.len() + leaf` stands for the leaf itself.
    winners: Vec<u32>,
}

impl WinnerTree {
    /// A tree without leaves.
    pub fn new() -> WinnerTree {
        let mut tree = WinnerTree {
            keys: Vec::new(),
            leaf_count: 0,
            winners: Vec::new(),
        };
        tree.grow(2);
        tree
    }

    /// Adds a leaf; returns its index.
    pub fn push(&mut self, key: Cycles) -> usize {
        if self.leaf_count == self.keys.len() {
            self.grow(2 * self.leaf_count);
        }
        self.leaf_count += 1;
        self.set(self.leaf_count - 1, key);
        self.leaf_count - 1
    }

    /// The key of a leaf.
    pub fn key(&self, leaf: usize) -> Cycles {
        self.keys[leaf]
    }

    /// Changes the key of a leaf.
    #[inline]
    pub fn set(&mut self, leaf: usize, key: Cycles) {
        self.keys[leaf] = key;
        let mut node = (self.keys.len() + leaf) / 2;
        while node >= 1 {
            let before = self.winners[node];
            let winner = self.winner_below(node);
            if winner == before && winner as usize != leaf {
                return; // The leaf lost here before and loses now: nothing changes above.
            }
            self.winners[node] = winner;
            node /= 2;
        }
    }

    /// The leaf with the least key, and the key. The key is `Cycles::MAX` in an empty tree.
    #[inline]
    pub fn min(&self) -> (usize, Cycles) {
        let leaf = self.winners[1] as usize;
        (leaf, self.keys[leaf])
    }

    /// The least key of all leaves but `leaf`; `Cycles::MAX` when there is no other.
    #[inline]
    pub fn min_except(&self, leaf: usize) -> Cycles {
        let mut node = self.keys.len() + leaf;
        let mut least = Cycles::MAX;
        while node > 1 {
            least = least.min(self.keys[self.winners[node ^ 1] as usize]);
            node /= 2;
        }
        least
    }

    fn grow(&mut self, slots: usize) {
        self.keys.resize(slots, Cycles::MAX);
        self.winners = (0..2 * slots)
            .map(|node| node.saturating_sub(slots) as u32)
            .collect();
        for node in (1..slots).rev() {
            self.winners[node] = self.winner_below(node);
        }
    }

    #[inline]
    fn winner_below(&self, node: usize) -> u32 {
        let (left, right) = (self.winners[2 * node], self.winners[2 * node + 1]);
        if self.keys[right as usize] < self.keys[left as usize] {
            right
        } else {
            left
        }
    }
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
                let others = (0..plain.len()).filter(|other| *other != leaf);
                let second = others.map(|other| Cycles(plain[other])).min();
                prop_assert_eq!(tree.min_except(leaf), second.unwrap_or(Cycles::MAX));
            }
        }
    }
}
