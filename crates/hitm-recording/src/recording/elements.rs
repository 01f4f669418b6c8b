//! Arrays on the heap: the size of an element, from the places that threads touch.
//!
//! A heap block may have no type that is known. One instruction, run by several threads, may touch
//! it at addresses that lie multiples of some size apart. Then the block is an array of elements of
//! that size, one for each thread. The size is the greatest common divisor of the distances.

use std::collections::BTreeMap;

use hitm_base::{AddrRange, CodeAddr, ThreadId};
use hitm_coherence::stats::{LineStats, Statistics};

/// Elements smaller than this are members of one object rather than objects.
const ELEMENT_SIZE_MIN: u64 = 8;

/// A block of more elements than this has not one for each thread: it is memory of many objects. Assumed, from the
/// threads of a large machine to 2^20.
const ELEMENTS_MAX: u64 = 1 << 16;

/// The size of an element of the block at `range`, if it looks like an array.
pub(super) fn element_size(range: AddrRange, statistics: &Statistics) -> Option<u64> {
    let (first_line, last_line) = range.lines();
    let mut places: BTreeMap<CodeAddr, BTreeMap<ThreadId, u64>> = BTreeMap::new();
    for (line, stats) in statistics.lines.range(first_line..=last_line) {
        note_places(range, line.first_byte(), stats, &mut places);
    }
    let distances = places.values().flat_map(|by_thread| {
        let first = by_thread.values().next().copied().unwrap_or(0);
        by_thread.values().map(move |addr| addr.abs_diff(first))
    });
    let size = distances.fold(0, gcd);
    let is_array = size >= ELEMENT_SIZE_MIN
        && size < range.len()
        && range.len().is_multiple_of(size)
        && range.len() / size <= ELEMENTS_MAX;
    is_array.then_some(size)
}

/// The first place that each instruction touches in the block, by thread.
fn note_places(
    range: AddrRange,
    line_start: u64,
    stats: &LineStats,
    places: &mut BTreeMap<CodeAddr, BTreeMap<ThreadId, u64>>,
) {
    for key in stats.rows.keys() {
        let addr = line_start + u64::from(key.offset);
        if range.contains(addr) {
            let of_code = places.entry(key.code).or_default();
            let first = of_code.entry(key.thread).or_insert(addr);
            *first = (*first).min(addr);
        }
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use hitm_base::{Access, AccessOp, CpuId, Cycles, DataSource, Outcome};
    use hitm_coherence::stats::Collector;

    use super::*;

    fn touch(collector: &mut Collector, thread: u32, addr: u64, code: u64) {
        let access = Access {
            thread: ThreadId(thread),
            cpu: CpuId(0),
            time: Cycles(0),
            addr,
            size: 8,
            op: AccessOp::Store,
            code: CodeAddr(code),
        };
        let cycles = Cycles(0);
        let outcome = Outcome::by_source(DataSource::L1, cycles, cycles, cycles);
        collector.add(&access, &outcome);
    }

    #[test]
    fn one_element_for_each_thread() {
        let range = AddrRange::with_len(0x1010, 192).unwrap();
        let mut collector = Collector::default();
        for thread in 0..4 {
            touch(&mut collector, thread, 0x1010 + 48 * u64::from(thread), 1);
            touch(&mut collector, thread, 0x1018 + 48 * u64::from(thread), 2);
        }
        assert_eq!(element_size(range, &collector.finish()), Some(48));
        // All threads at one place: no array.
        let mut collector = Collector::default();
        (0..4).for_each(|thread| touch(&mut collector, thread, 0x1010, 1));
        assert_eq!(element_size(range, &collector.finish()), None);
    }
}
