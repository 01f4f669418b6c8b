//! Moved objects, and the new address of each of their bytes.

use std::cmp::Reverse;
use std::ops::Range;

use hitm_base::{AddrRange, LINE_SIZE, LineAddr};
use hitm_layout::member_map::MemberMap;
use hitm_weave::replay::{FRESH, Relocate};

hitm_base::numbered! {
    /// Source of the knowledge of an object.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum ObjectKind {
        /// By a walk over the kernel's memory.
        Walked,
        /// By the kernel's slab cache that it lies in.
        Slab,
        /// As a variable, or a part of one.
        Variable,
        /// As a block of the program's heap.
        Heap,
    }
}

/// An object of the recorded program whose members move.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MovedObject {
    /// Name: a variable, or a heap block and its allocation site.
    pub name: String,
    /// The structure, or that of its elements.
    pub type_name: String,
    /// Source of the knowledge of it.
    pub kind: ObjectKind,
    /// Address of its first byte in the program.
    pub address: u64,
    /// Bytes in the program.
    pub size_bytes: u64,
    /// Structures in it, one after the other.
    pub element_count: u64,
    /// Bytes with the layout.
    pub size_bytes_after: u64,
    /// Accesses with a byte in it.
    pub access_count: u64,
    /// Address of its first byte in the replay.
    pub(super) fresh: u64,
    /// Index of its map.
    pub(super) map: usize,
}

/// Counts of moved objects and of accesses to them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MoveCounts {
    /// Moved objects, in the order of [`ObjectKind::ALL`].
    pub objects: [u64; ObjectKind::ALL.len()],
    /// Accesses with a byte in a moved object.
    pub moved: u64,
    /// Accesses with a byte that belongs to no member: it moved with the member before.
    pub in_holes: u64,
    /// Accesses that were split: they covered members that lie apart now.
    pub split: u64,
}

impl MoveCounts {
    /// Moved objects of a kind.
    pub fn objects_of(&self, kind: ObjectKind) -> u64 {
        self.objects[kind as usize]
    }

    /// All moved objects.
    pub fn object_count(&self) -> u64 {
        self.objects.iter().sum()
    }
}

/// All moves of a replay.
#[derive(Debug, Clone, Default)]
pub(super) struct Moves {
    pub(super) maps: Vec<MemberMap>,
    /// By address; they do not overlap.
    objects: Vec<MovedObject>,
    /// End of the moved objects' addresses.
    end: u64,
    pub(super) counts: MoveCounts,
}

impl Moves {
    /// Gives the objects fresh addresses, each at the start of a line or at its own alignment. Of objects that
    /// overlap, the outer one moves and takes the inner one along; of two with the same bytes, the first moves.
    pub(super) fn new(maps: Vec<MemberMap>, mut objects: Vec<MovedObject>) -> Moves {
        objects.sort_by_key(|object| (object.address, Reverse(object.size_bytes)));
        let mut end_before = 0;
        objects.retain(|object| {
            let is_outer = object.address >= end_before;
            if is_outer {
                end_before = object.address.saturating_add(object.size_bytes);
            }
            is_outer
        });
        let mut counts = MoveCounts::default();
        for object in &objects {
            counts.objects[object.kind as usize] += 1;
        }
        let mut end = FRESH;
        for object in &mut objects {
            let map = &maps[object.map];
            end = end.next_multiple_of(map.align.max(LINE_SIZE));
            let into_line = match map.keeps_line_offset && map.align < LINE_SIZE {
                true => (object.address % LINE_SIZE).next_multiple_of(map.align.max(1)),
                false => 0,
            };
            object.fresh = end + into_line;
            object.size_bytes_after = object.element_count * map.sizes.after;
            end += (into_line + object.size_bytes_after).next_multiple_of(LINE_SIZE);
        }
        Moves {
            maps,
            objects,
            end,
            counts,
        }
    }

    pub(super) fn objects(&self) -> &[MovedObject] {
        &self.objects
    }

    /// Addresses of the objects in the replay.
    pub(super) fn fresh(&self) -> Range<u64> {
        FRESH..self.end
    }

    /// Lines of the objects in the program.
    pub(super) fn lines_before(&self) -> impl Iterator<Item = LineAddr> {
        let objects = self.objects.iter();
        let ranges =
            objects.filter_map(|object| AddrRange::with_len(object.address, object.size_bytes));
        let lines = ranges.map(|range| range.lines());
        lines.flat_map(|(first, last)| (first.0..=last.0).map(LineAddr))
    }

    /// Object that had this byte in the program, and the byte's offset in its element.
    pub(super) fn object_before(&self, addr: u64) -> Option<(&MovedObject, u64)> {
        let object = &self.objects[self.index_before(addr)?];
        let element = self.maps[object.map].sizes.before;
        Some((object, (addr - object.address) % element))
    }

    /// Index of the object that had this byte in the program.
    fn index_before(&self, addr: u64) -> Option<usize> {
        let after = self
            .objects
            .partition_point(|object| object.address <= addr);
        let index = after.checked_sub(1)?;
        let object = &self.objects[index];
        (addr - object.address < object.size_bytes).then_some(index)
    }

    /// Counts an access for each object that it has a byte in; returns true if there is one.
    fn count(&mut self, addr: u64, size: u8) -> bool {
        let end = addr.saturating_add(size.into());
        let after = self
            .objects
            .partition_point(|object| object.address <= addr);
        let first = self.index_before(addr).unwrap_or(after);
        let touched = self.objects[first..]
            .iter_mut()
            .take_while(|object| object.address < end);
        let mut is_moved = false;
        for object in touched {
            object.access_count += 1;
            is_moved = true;
        }
        is_moved
    }

    /// Object that has this byte in the replay, and the byte's offset in its element.
    pub(super) fn object_after(&self, addr: u64) -> Option<(&MovedObject, u64)> {
        let after = self.objects.partition_point(|object| object.fresh <= addr);
        let object = &self.objects[after.checked_sub(1)?];
        let offset = addr - object.fresh;
        let element = self.maps[object.map].sizes.after;
        (offset < object.size_bytes_after).then_some((object, offset % element))
    }

    /// Returns the new address of the byte at `addr`, the bytes from it on that move together, and
    /// true if it lies in a hole of a moved object.
    fn place(&self, addr: u64) -> Placed {
        let Some((object, offset)) = self.object_before(addr) else {
            let next = self
                .objects
                .partition_point(|object| object.address <= addr);
            let room = self
                .objects
                .get(next)
                .map_or(u64::MAX, |object| object.address - addr);
            return Placed {
                to: addr,
                room,
                is_hole: false,
            };
        };
        let map = &self.maps[object.map];
        let element = (addr - object.address) / map.sizes.before;
        let (to, room, is_hole) = map.place(offset);
        Placed {
            to: object.fresh + element * map.sizes.after + to,
            room,
            is_hole,
        }
    }

    /// Calls `piece` for each part of an access that moves together.
    fn each_piece(&self, addr: u64, size: u8, piece: &mut impl FnMut(Placed, u8)) {
        let end = addr.saturating_add(size.into());
        let mut at = addr;
        while at < end {
            let placed = self.place(at);
            let size = placed.room.min(end - at);
            piece(placed, size as u8);
            at += size;
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Placed {
    to: u64,
    room: u64,
    is_hole: bool,
}

impl Relocate for Moves {
    fn pieces(&self, addr: u64, size: u8, pieces: &mut Vec<(u64, u8)>) {
        let first = pieces.len();
        self.each_piece(addr, size, &mut |placed, size| {
            match pieces[first..].last_mut() {
                // Adjacent pieces that stay adjacent stay one access.
                Some((to, length)) if *to + u64::from(*length) == placed.to => *length += size,
                _ => pieces.push((placed.to, size)),
            }
        });
    }

    fn relocate(&mut self, addr: u64, size: u8, pieces: &mut Vec<(u64, u8)>) {
        let is_moved = self.count(addr, size);
        let mut is_hole = false;
        self.each_piece(addr, size, &mut |placed, _| is_hole |= placed.is_hole);
        let first = pieces.len();
        self.pieces(addr, size, pieces);
        self.counts.moved += u64::from(is_moved);
        self.counts.in_holes += u64::from(is_hole);
        self.counts.split += u64::from(pieces.len() > first + 1);
    }

    fn fresh_line_count(&self) -> usize {
        ((self.end.max(FRESH) - FRESH) / LINE_SIZE) as usize
    }
}

#[cfg(test)]
mod tests {
    use hitm_layout::layout_file::LayoutFile;

    use super::*;

    /// Objects of plain values of 8 bytes that get a line each.
    fn moves(objects: &[(u64, u64, ObjectKind)]) -> Moves {
        let text = "schema = 1\nname = \"apart\"\ndescription = \"d\"\nsource = \"s\"\n[[struct]]\n\
                    name = \"word\"\nsize_bytes = 64\nmembers = [\n\
                    { name = \"value\", offset_bytes = 0, size_bytes = 8 },\n]\n";
        let layout = LayoutFile::parse(text, "a test").unwrap();
        let map = MemberMap::of_values(8, &layout.structs[0]).unwrap();
        let object = |&(address, size_bytes, kind): &(u64, u64, ObjectKind)| MovedObject {
            name: format!("{address:#x}"),
            type_name: "word".to_owned(),
            kind,
            address,
            size_bytes,
            element_count: size_bytes / 8,
            size_bytes_after: 0,
            access_count: 0,
            fresh: 0,
            map: 0,
        };
        Moves::new(vec![map], objects.iter().map(object).collect())
    }

    #[test]
    fn of_overlapping_objects_the_outer_one_moves() {
        let moves = moves(&[
            (0x120, 8, ObjectKind::Slab),
            (0x100, 8, ObjectKind::Variable),
            (0x100, 64, ObjectKind::Walked),
            (0x140, 8, ObjectKind::Slab),
        ]);
        let kept = moves.objects().iter();
        let kept: Vec<(u64, u64)> = kept.map(|one| (one.address, one.size_bytes)).collect();
        assert_eq!(kept, [(0x100, 64), (0x140, 8)]);
        assert_eq!(moves.counts.objects, [1, 1, 0, 0]);
        assert_eq!(moves.counts.object_count(), 2);
    }

    #[test]
    fn an_access_counts_for_each_object_that_it_touches() {
        let mut moves = moves(&[(0x100, 8, ObjectKind::Slab), (0x108, 8, ObjectKind::Slab)]);
        for (addr, size) in [(0x104, 8), (0x108, 1), (0x110, 8), (0xfc, 4)] {
            moves.relocate(addr, size, &mut Vec::new());
        }
        let counts = moves.objects().iter().map(|object| object.access_count);
        assert_eq!(counts.collect::<Vec<_>>(), [1, 2]);
        assert_eq!((moves.counts.moved, moves.counts.split), (2, 1));
    }
}
