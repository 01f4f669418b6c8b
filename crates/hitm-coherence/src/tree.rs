//! A winner tree: the earliest of N keys, each of which may be changed at any time in O(log N).
//!
//! Ties go to the lower leaf, so the order of events does not depend on history.

use hitm_base::Cycles;

/// One key per leaf, and the leaf with the least.
#[derive(Debug, Clone)]
pub struct WinnerTree {
    leaf_count: usize,
    /// The first half stands for inner nodes: 1 is the root, the children of node i are 2i and
    /// 2i + 1. The second half are the leaves. Each node has the key itself, so that a step up reads
    /// one cache line of the host.
    nodes: Vec<Winner>,
}

/// The leaf that won a node, and its key; `Cycles::MAX` where there is no leaf.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Winner {
    key: Cycles,
    leaf: u32,
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
        let mut node = self.slots() + leaf;
        self.nodes[node].key = key;
        while node > 1 {
            node /= 2;
            let winner = self.winner_below(node);
            if self.nodes[node] == winner {
                return; // Nothing changes above either.
            }
            self.nodes[node] = winner;
        }
    }

    /// The leaf with the least key, and the key. The key is `Cycles::MAX` in an empty tree.
    #[inline]
    pub fn min(&self) -> (usize, Cycles) {
        let Winner { key, leaf } = self.nodes[1];
        (leaf as usize, key)
    }

    /// The least key of all leaves but `leaf`; `Cycles::MAX` when there is no other.
    #[inline]
    pub fn min_except(&self, leaf: usize) -> Cycles {
        let mut node = self.slots() + leaf;
        let mut least = Cycles::MAX;
        while node > 1 {
            least = least.min(self.nodes[node ^ 1].key);
            node /= 2;
        }
        least
    }

    fn slots(&self) -> usize {
        self.nodes.len() / 2
    }

    fn grow(&mut self, slots: usize) {
        let keys: Vec<Cycles> = self.nodes[self.slots()..].iter().map(|n| n.key).collect();
        let keys = keys.into_iter().chain(std::iter::repeat(Cycles::MAX));
        let leaves = (0..slots as u32).zip(keys);
        let empty = Winner {
            key: Cycles::MAX,
            leaf: 0,
        };
        self.nodes = vec![empty; slots];
        self.nodes
            .extend(leaves.map(|(leaf, key)| Winner { key, leaf }));
        for node in (1..slots).rev() {
            self.nodes[node] = self.winner_below(node);
        }
    }

    #[inline]
    fn winner_below(&self, node: usize) -> Winner {
        let (left, right) = (self.nodes[2 * node], self.nodes[2 * node + 1]);
        if right.key < left.key { right } else { left }
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
