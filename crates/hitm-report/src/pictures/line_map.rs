//! The bytes of a line, and what each thread does with them.

use hitm_fields::fields;
use std::collections::BTreeMap;

use hitm_base::{AccessOp, LINE_SIZE, ThreadId};
use hitm_coherence::stats::{CpuSet, LineStats, RowKey, RowStats, byte_mask};

use super::Sources;
use crate::model::LineReport;

/// Threads with a row of their own; the others share the last one.
const SEATS_MAX: usize = 24;

/// Cells of a map that threads have to themselves.
const CELLS_MAX: usize = 192;

const LINE_BYTES: usize = LINE_SIZE as usize;

/// The bytes of a line as boxes, and a row for each thread.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LineMap {
    /// The bytes, from the first to the last.
    pub boxes: Vec<LineBox>,
    /// The threads, the one that lost most first.
    pub seats: Vec<Seat>,
    /// Accesses of the threads, by seat and box.
    pub cells: Vec<LineCell>,
}

fields! {
    /// Bytes of a line that have one name.
    #[derive(Debug, Clone, PartialEq, Eq, Default)]
    pub struct LineBox in line_box {
        /// First byte, from the start of the line.
        pub offset: u8 => offset "off";
        /// Bytes.
        pub size_bytes: u8 => bytes "size";
        /// Object, null when unknown.
        pub object: String => known label "object";
        /// Part of the object, null when it is the whole or unknown.
        pub member: String => known label "member";
        /// True if it was accessed.
        pub is_accessed: bool => label "accessed";
    }
}

fields! {
    /// A row of the map.
    #[derive(Debug, Clone, PartialEq, Eq, Default)]
    pub struct Seat in seat {
        /// Name of the thread, null for several together.
        pub name: String => known label "thread";
        /// Threads that share the row.
        pub thread_count: u64 => count "threads";
        /// Modelled CPUs that the accesses came from.
        pub cpus: Vec<u64> => number "CPUs";
        /// Cycles lost to other CPUs' use of the line.
        pub lost_cycles: u64 => cycles "lost cycles";
    }
}

fields! {
    /// Accesses of the threads of one row to one box.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct LineCell in cell {
        /// Place of the row in the list of rows, from 0.
        pub seat: u64 => number "row";
        /// Place of the box in the list of boxes, from 0.
        pub place: u64 => number "box";
        /// Plain loads.
        pub load_count: u64 => count "reads";
        /// Plain stores.
        pub store_count: u64 => count "writes";
        /// Locked operations.
        pub locked_count: u64 => count "locked";
        /// Accesses of all kinds that found the line modified in another cache.
        pub hitm_count: u64 => count "HITM";
        /// Cycles lost to other CPUs' use of the line.
        pub lost_cycles: u64 => cycles "lost cycles";
    }
}

impl LineCell {
    fn add(&mut self, op: AccessOp, row: &RowStats) {
        let count = row.sources.total();
        match op {
            AccessOp::Load => self.load_count += count,
            AccessOp::Store => self.store_count += count,
            AccessOp::LockedRmw | AccessOp::Fence => self.locked_count += count,
        }
        self.hitm_count += row.sources.hitm();
        self.lost_cycles = self.lost_cycles.saturating_add(row.contention_stall.0);
    }

    /// Adds the accesses of another one.
    pub(crate) fn merge(&mut self, other: &LineCell) {
        self.load_count += other.load_count;
        self.store_count += other.store_count;
        self.locked_count += other.locked_count;
        self.hitm_count += other.hitm_count;
        self.lost_cycles = self.lost_cycles.saturating_add(other.lost_cycles);
    }
}

impl LineMap {
    /// The map of a line of the report.
    pub(super) fn build(named: &Sources<'_>, line: &LineReport) -> LineMap {
        let Some(stats) = named.statistics.lines.get(&line.line) else {
            return LineMap::default();
        };
        let boxes = boxes(named, line, stats);
        let mut of_byte = [0; LINE_BYTES];
        for (place, one) in boxes.iter().enumerate() {
            let end = usize::from(one.offset) + usize::from(one.size_bytes);
            of_byte[usize::from(one.offset)..end].fill(place);
        }
        let mut threads: BTreeMap<ThreadId, ThreadUse> = BTreeMap::new();
        for (key, row) in &stats.rows {
            let place = of_byte[usize::from(key.offset)];
            threads.entry(key.thread).or_default().add(place, key, row);
        }
        let mut threads: Vec<(ThreadId, ThreadUse)> = threads.into_iter().collect();
        threads.sort_by_key(|(thread, of)| (std::cmp::Reverse(of.lost_cycles), *thread));
        let mut map = LineMap {
            boxes,
            ..LineMap::default()
        };
        let own = own_seats(&threads);
        let others = threads.split_off(own);
        for (thread, of) in threads {
            map.seat(named.names.thread(thread), 1, of);
        }
        if let count @ 1.. = others.len() {
            let mut together = ThreadUse::default();
            others.iter().for_each(|(_, of)| together.merge(of));
            map.seat(String::new(), count as u64, together);
        }
        map
    }

    fn seat(&mut self, name: String, thread_count: u64, of: ThreadUse) {
        let seat = self.seats.len() as u64;
        self.seats.push(Seat {
            name,
            thread_count,
            cpus: of.cpus.iter().map(|cpu| cpu.0.into()).collect(),
            lost_cycles: of.lost_cycles,
        });
        let cells = of.cells.into_iter();
        self.cells.extend(cells.map(|(place, cell)| LineCell {
            seat,
            place: place as u64,
            ..cell
        }));
    }
}

/// One thread's use of a line: accesses by box, CPUs, lost cycles.
#[derive(Default)]
struct ThreadUse {
    cells: BTreeMap<usize, LineCell>,
    cpus: CpuSet,
    lost_cycles: u64,
}

impl ThreadUse {
    fn add(&mut self, place: usize, key: &RowKey, row: &RowStats) {
        self.cells.entry(place).or_default().add(key.op, row);
        self.cpus.merge(&row.cpus);
        self.lost_cycles = self.lost_cycles.saturating_add(row.contention_stall.0);
    }

    fn merge(&mut self, other: &ThreadUse) {
        for (place, cell) in &other.cells {
            self.cells.entry(*place).or_default().merge(cell);
        }
        self.cpus.merge(&other.cpus);
        self.lost_cycles = self.lost_cycles.saturating_add(other.lost_cycles);
    }
}

/// Returns the number of threads that have a row of their own. A single leftover thread gets one
/// too, instead of the row for others.
fn own_seats(threads: &[(ThreadId, ThreadUse)]) -> usize {
    let mut cells = 0;
    let fits = threads.iter().take_while(|(_, of)| {
        cells += of.cells.len();
        cells <= CELLS_MAX
    });
    let own = fits.count().clamp(1, SEATS_MAX).min(threads.len());
    match threads.len() - own {
        1 if own < SEATS_MAX => own + 1,
        _ => own,
    }
}

/// The bytes of a line by name. A byte that accesses of several sizes touch belongs to the smallest, so that
/// a copy of a whole structure hides no member.
fn boxes(named: &Sources<'_>, line: &LineReport, stats: &LineStats) -> Vec<LineBox> {
    let mut places: Vec<(u8, u8)> = stats
        .rows
        .keys()
        .map(|key| (key.size, key.offset))
        .collect();
    places.sort_unstable();
    places.dedup();
    let mut of_bytes: [Option<LineBox>; LINE_BYTES] = [const { None }; LINE_BYTES];
    let first_byte = line.line.first_byte();
    let mut taken = 0;
    for (size, offset) in places {
        let mask = byte_mask(offset, size) & !taken;
        taken |= mask;
        let name = named.names.data(first_byte + u64::from(offset), size);
        let (object, member) = name
            .map(|name| (name.object, name.member))
            .unwrap_or_default();
        for byte in (0..LINE_BYTES).filter(|byte| mask >> byte & 1 == 1) {
            of_bytes[byte] = Some(LineBox {
                offset,
                size_bytes: size,
                object: object.clone(),
                member: member.clone(),
                is_accessed: true,
            });
        }
    }
    for (byte, of_byte) in of_bytes.iter_mut().enumerate() {
        let addr = first_byte + byte as u64;
        // Without a type every byte has a name of its own, which says nothing.
        if of_byte.is_none() && named.names.has_type(addr, 1) {
            let name = named.names.data(addr, 1).unwrap_or_default();
            // Padding is known by its offset only.
            if name.member.contains("+0x") {
                continue;
            }
            *of_byte = Some(LineBox {
                object: name.object,
                member: name.member,
                ..LineBox::default()
            });
        }
    }
    joined(of_bytes)
}

/// Neighbouring bytes of one name as one box. Accessed ones without a name are apart by their places.
fn joined(of_bytes: [Option<LineBox>; LINE_BYTES]) -> Vec<LineBox> {
    let mut boxes: Vec<LineBox> = Vec::new();
    let mut last: Option<LineBox> = None;
    for (byte, of_byte) in of_bytes.into_iter().enumerate() {
        let one = of_byte.unwrap_or_default();
        let is_same = last.as_ref().is_some_and(|last| {
            let is_named = !one.object.is_empty();
            let same_name = last.object == one.object && last.member == one.member;
            let same_place = (last.offset, last.size_bytes) == (one.offset, one.size_bytes);
            last.is_accessed == one.is_accessed && same_name && (is_named || same_place)
        });
        match boxes.last_mut().filter(|_| is_same) {
            Some(current) => current.size_bytes += 1,
            None => boxes.push(LineBox {
                offset: byte as u8,
                size_bytes: 1,
                ..one.clone()
            }),
        }
        last = Some(one);
    }
    without_single_bytes(boxes)
}

/// Neighbouring bytes of an object that nobody accesses as one box: unions name each of theirs.
fn without_single_bytes(boxes: Vec<LineBox>) -> Vec<LineBox> {
    let mut merged: Vec<LineBox> = Vec::new();
    for one in boxes {
        let goes_on = merged.last().is_some_and(|last| {
            let is_run = last.size_bytes == 1 || last.member.is_empty();
            let are_idle = !last.is_accessed && !one.is_accessed;
            are_idle && is_run && one.size_bytes == 1 && last.object == one.object
        });
        match merged.last_mut().filter(|_| goes_on) {
            Some(last) => {
                last.size_bytes += 1;
                last.member.clear();
            }
            None => merged.push(one),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    fn byte(object: &str, member: &str, place: Option<(u8, u8)>) -> Option<LineBox> {
        let (offset, size_bytes) = place.unwrap_or_default();
        Some(LineBox {
            offset,
            size_bytes,
            object: object.into(),
            member: member.into(),
            is_accessed: place.is_some(),
        })
    }

    fn shown(of_bytes: Vec<Option<LineBox>>) -> Vec<(u8, u8, String, bool)> {
        let mut line = [const { None }; LINE_BYTES];
        for (at, of_byte) in of_bytes.into_iter().enumerate() {
            line[at] = of_byte;
        }
        let boxes = joined(line).into_iter();
        let flat = boxes.map(|one| {
            let name = one.object + &one.member;
            (one.offset, one.size_bytes, name, one.is_accessed)
        });
        flat.collect()
    }

    #[test]
    fn neighbouring_bytes_of_one_name_are_a_box() {
        let mut line = vec![byte("a", ".lock", Some((0, 4))); 4];
        line.extend((0..3).map(|at| byte("a", &format!(".size[{at}]"), None)));
        line.extend(vec![byte("a", ".count", None); 2]);
        // Two accesses to bytes without a name.
        line.extend(vec![byte("", "", Some((9, 2))); 2]);
        line.extend(vec![byte("", "", Some((11, 2))); 2]);
        let expected = [
            (0, 4, "a.lock", true),
            (4, 3, "a", false),
            (7, 2, "a.count", false),
            (9, 2, "", true),
            (11, 2, "", true),
            (13, 51, "", false),
        ];
        let expected = expected.map(|(at, size, name, used)| (at, size, name.to_owned(), used));
        assert_eq!(shown(line), expected);
    }
}
