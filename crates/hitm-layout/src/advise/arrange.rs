//! An assignment of atoms to lines as offsets of members.

use std::collections::BTreeSet;

use super::atoms::{Atom, LINE};
use super::bins::{Origin, Weigher, pack};
use super::exact::Assignment;
use super::subject::Subject;
use crate::layout_file::{FileMember, FileStruct};

/// Lines that belong together: atoms with their bytes from the first line's start.
#[derive(Debug, Clone, Default)]
struct Segment {
    atoms: Vec<(usize, u64)>,
    /// The first byte behind what is placed.
    end: u64,
    /// Cost of the last line, in thousandths of a cycle.
    cost: u64,
    /// The line that it must begin at.
    fixed_line: Option<u64>,
    /// Free bytes that are not at the end: pinned lines.
    gap: Option<(u64, u64)>,
}

impl Segment {
    fn lines(&self) -> u64 {
        self.end.div_ceil(LINE).max(1)
    }

    /// Room for an atom behind what is there, or in the gap: where it would begin.
    fn room(&self, atom: &Atom) -> Option<u64> {
        let (from, to) = match self.gap {
            Some((from, length)) => (from, from + length),
            None if self.fixed_line.is_some() => return None,
            None => (self.end, self.lines() * LINE),
        };
        let at = from.next_multiple_of(atom.align);
        (at + atom.size <= to).then_some(at)
    }

    /// Least old offset of its atoms.
    fn first_offset(&self, atoms: &[Atom]) -> Option<u64> {
        let old = self.atoms.iter().map(|(index, _)| atoms[*index].old_offset);
        old.min()
    }

    fn put(&mut self, index: usize, atom: &Atom, at: u64) {
        self.atoms.push((index, at));
        match &mut self.gap {
            Some((from, length)) => {
                let end = at + atom.size;
                *length -= end - *from;
                *from = end;
            }
            None => self.end = self.end.max(at + atom.size),
        }
    }
}

/// The structure with its atoms where the assignment puts them and every other one where room is.
/// Lines whose costs differ by less than `alike`, thousandths of a cycle, count as equally cheap.
pub(super) fn arrange(
    weigher: &Weigher<'_>,
    subject: &Subject,
    found: &Assignment,
    alike: u64,
) -> FileStruct {
    let atoms = weigher.atoms;
    let mut segments = segments(weigher, found);
    let mut cold: Vec<usize> = (0..atoms.len())
        .filter(|index| {
            let atom = &atoms[*index];
            atom.pinned.is_none()
                && !atom.is_tail
                && !weigher.hot.contains(index)
                && !segments
                    .iter()
                    .any(|segment| segment.atoms.iter().any(|(known, _)| known == index))
        })
        .collect();
    fill(&mut segments, weigher, &mut cold, alike);
    segments.sort_by_key(|segment| (segment.fixed_line.is_none(), segment.first_offset(atoms)));
    let mut used: BTreeSet<u64> = pinned_lines(atoms);
    let mut offsets: Vec<Option<u64>> = atoms.iter().map(|atom| atom.pinned).collect();
    for segment in &segments {
        let line = segment.fixed_line.unwrap_or_else(|| {
            let mut line = 0;
            while (line..line + segment.lines()).any(|line| used.contains(&line)) {
                line += 1;
            }
            line
        });
        used.extend(line..line + segment.lines());
        for (index, at) in &segment.atoms {
            offsets[*index] = Some(line * LINE + at);
        }
    }
    let lines = used.last().map_or(1, |line| line + 1);
    to_struct(subject, atoms, &offsets, lines * LINE)
}

fn pinned_lines(atoms: &[Atom]) -> BTreeSet<u64> {
    let spans = atoms
        .iter()
        .filter_map(|atom| Some((atom.pinned?, atom.size.max(1))));
    spans
        .flat_map(|(start, size)| start / LINE..(start + size).div_ceil(LINE))
        .collect()
}

/// One segment for each bin and each line of its own; the whole lines of large atoms.
fn segments(weigher: &Weigher<'_>, found: &Assignment) -> Vec<Segment> {
    let atoms = weigher.atoms;
    let mut segments = Vec::new();
    for (index, (bin, placed)) in weigher.bins.iter().zip(&found.bins).enumerate() {
        let (inner, end) = pack(atoms, placed, bin.free.from).expect("what was weighed fits");
        let cost = weigher.cost(Some(index), placed);
        segments.push(match bin.origin {
            Origin::Pinned(line) => Segment {
                atoms: inner,
                end: LINE,
                cost,
                fixed_line: Some(line),
                gap: Some((end, bin.free.from + bin.free.bytes - end)),
            },
            Origin::Tail(owner) => {
                let head = atoms[owner].size / LINE * LINE;
                let mut all = vec![(owner, 0)];
                all.extend(inner.into_iter().map(|(index, at)| (index, head + at)));
                Segment {
                    atoms: all,
                    end: head + end,
                    cost,
                    ..Segment::default()
                }
            }
        });
    }
    for line in &found.lines {
        let (inner, end) = pack(atoms, line, 0).expect("what was weighed fits");
        segments.push(Segment {
            atoms: inner,
            end,
            cost: weigher.cost(None, line),
            ..Segment::default()
        });
    }
    for (index, atom) in atoms.iter().enumerate() {
        if atom.pinned.is_none() && atom.size > LINE && atom.size.is_multiple_of(LINE) {
            segments.push(Segment {
                atoms: vec![(index, 0)],
                end: atom.size,
                ..Segment::default()
            });
        }
    }
    segments
}

/// Puts the atoms that nothing touches where room is: in the cheapest lines first, and in equally
/// cheap ones in their old order. The rest goes on lines of its own.
fn fill(segments: &mut Vec<Segment>, weigher: &Weigher<'_>, cold: &mut Vec<usize>, alike: u64) {
    let atoms = weigher.atoms;
    let mut order: Vec<usize> = (0..segments.len()).collect();
    order.sort_by_key(|index| {
        let segment = &segments[*index];
        (segment.cost / alike.max(1), segment.first_offset(atoms))
    });
    cold.retain(|index| {
        let atom = &atoms[*index];
        for place in &order {
            let segment = &mut segments[*place];
            let company = segment.atoms.iter().map(|(known, _)| *known);
            let company: Vec<usize> = company.chain([*index]).collect();
            if let Some(at) = segment.room(atom)
                && !weigher.quiet.is_mixed(&company)
            {
                segment.put(*index, atom, at);
                return false;
            }
        }
        true
    });
    let mut rest = Segment::default();
    for index in cold.iter() {
        let at = rest.end.next_multiple_of(atoms[*index].align);
        rest.atoms.push((*index, at));
        rest.end = at + atoms[*index].size;
    }
    if !rest.atoms.is_empty() {
        segments.push(rest);
    }
}

fn to_struct(subject: &Subject, atoms: &[Atom], offsets: &[Option<u64>], size: u64) -> FileStruct {
    let mut members: Vec<FileMember> = Vec::new();
    for (atom, offset) in atoms.iter().zip(offsets) {
        // Only flexible arrays have no place yet: the end.
        let start = offset.unwrap_or(size);
        for (index, within) in &atom.members {
            let mut member = subject.members[*index].file.clone();
            member.offset_bytes = start + within;
            members.push(member);
        }
    }
    members.sort_by_key(FileMember::bit_span);
    FileStruct {
        name: subject.name.clone(),
        size_bytes: size,
        align_bytes: Some(LINE),
        members,
    }
}
