//! Physical addresses of samples: their nodes, and how often they changed.
//!
//! Source: tools/perf/builtin-c2c.c (`c2c_he__set_node`) and tools/perf/util/mem2node.c, Linux 6.1.
//! perf's "PA cnt" is the number of changes from one sample to the next, not of distinct addresses.
//! Addresses in memory that the file does not describe are not counted.

use std::collections::BTreeMap;

use super::NumberSet;

/// Physical memory of each node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MemoryNodes {
    /// First address, and first address after the range, and the node.
    ranges: BTreeMap<u64, (u64, u32)>,
}

impl MemoryNodes {
    /// Adds a range of a node's memory; extends the node's last range when it is adjacent.
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

    /// Returns true if the file describes no memory.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The node that has the byte at `addr`.
    fn node(&self, addr: u64) -> Option<u32> {
        let (_, (end, node)) = self.ranges.range(..=addr).next_back()?;
        (addr < *end).then_some(*node)
    }
}

/// Physical addresses of a row or a line.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Physical {
    /// Samples whose address differed from that of the sample before.
    pub change_count: u64,
    /// The nodes whose memory it was.
    pub nodes: NumberSet,
    last: u64,
}

impl Physical {
    /// Counts an address, if a node has it.
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

    /// Adds other counts. perf never does; here rows of different processes in one file's line
    /// become one.
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
        // An address in no node's memory is not counted, and does not break a run of equal ones.
        for addr in [0x10, 0x10, 0x1fff, 0x2000, 0x1fff, 0x3010, 0x10] {
            physical.add(addr, &memory);
        }
        assert_eq!(physical.change_count, 4);
        assert_eq!(physical.nodes.iter().collect::<Vec<_>>(), [0, 1]);
    }
}
