//! Physical addresses of samples: which nodes' memory they lie in, and how often they changed.
//!
//! Source: tools/perf/builtin-c2c.c (`c2c_he__set_node`) and tools/perf/util/mem2node.c, Linux 6.1.
//! perf's "PA cnt" is how often an address differs from the one before it, not how many there are;
//! addresses in memory that the file does not describe count for nothing.

use std::collections::BTreeMap;

use super::NumberSet;

/// Which node has which physical memory.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MemoryNodes {
    /// First address, and first address after the range, and the node.
    ranges: BTreeMap<u64, (u64, u32)>,
}

impl MemoryNodes {
    /// Adds a range of a node's memory; one that goes on where the node's last one ended makes it longer.
    pub(crate) fn insert(&mut self, start: u64, end: u64, node: u32) {
        if let Some((_, (last_end, last_node))) = self.ranges.range_mut(..start).next_back()
            && (*last_end, *last_node) == (start, node)
        {
            *last_end = end;
            return;
        }
        self.ranges.insert(start, (end, node));
    }

    /// Ranges that are kept.
    pub(crate) fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The node that has the byte at `addr`.
    fn node(&self, addr: u64) -> Option<u32> {
        let (_, (end, node)) = self.ranges.range(..=addr).next_back()?;
        (addr < *end).then_some(*node)
    }
}

/// What the physical addresses of a row or a line come to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Physical {
    /// How often the address was another one than before.
    pub change_count: u64,
    /// The nodes whose memory it was.
    pub nodes: NumberSet,
    last: u64,
}

impl Physical {
    /// Counts an address that is known.
    pub(super) fn add(&mut self, addr: u64, memory: &MemoryNodes) {
        let Some(node) = memory.node(addr) else {
            return;
        };
        if let Ok(node) = u16::try_from(node) {
            self.nodes.insert(node);
        }
        if self.last != addr {
            self.change_count += 1;
            self.last = addr;
        }
    }

    /// Adds what was counted apart. perf never does; rows of different processes in one file's line
    /// are one.
    pub(super) fn merge(&mut self, other: &Physical) {
        self.change_count += other.change_count;
        self.nodes.merge(&other.nodes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_comes_back_counts_again() {
        let mut memory = MemoryNodes::default();
        for (start, end, node) in [(0, 0x1000, 0), (0x1000, 0x2000, 0), (0x3000, 0x4000, 1)] {
            memory.insert(start, end, node);
        }
        assert_eq!(memory.len(), 2);
        let mut physical = Physical::default();
        // What lies in no node's memory does not count, and does not come between.
        for addr in [0x10, 0x10, 0x1fff, 0x2000, 0x1fff, 0x3010, 0x10] {
            physical.add(addr, &memory);
        }
        assert_eq!(physical.change_count, 4);
        assert_eq!(physical.nodes.iter().collect::<Vec<_>>(), [0, 1]);
    }
}
