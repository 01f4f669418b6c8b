//! One sentence for each member that moves: from whom it gets away, or whom it joins, and what that
//! is worth.

use hitm_base::grouped;

use super::atoms::LINE;
use super::bins::Weigher;
use super::subject::Subject;
use crate::layout_file::FileStruct;

/// A member, or several that move for one reason.
#[derive(Debug, Clone, PartialEq)]
pub struct Move {
    /// The members.
    pub members: Vec<String>,
    /// Line of the first one before and after.
    pub lines: (u64, u64),
    /// Cycles over the profile's period that the reason is worth.
    pub saved_cycles: f64,
    /// Why, in one sentence.
    pub reason: String,
}

/// The moves from the subject's layout to `layout`, the largest gain first; members that nothing
/// touches come last, in one sentence.
pub(super) fn moves(weigher: &Weigher<'_>, subject: &Subject, layout: &FileStruct) -> Vec<Move> {
    let touched = touched_atoms(weigher);
    let mut moves: Vec<Move> = Vec::new();
    let mut cold: Vec<String> = Vec::new();
    for (index, atom) in weigher.atoms.iter().enumerate() {
        let names = atom
            .members
            .iter()
            .map(|(member, _)| subject.members[*member].file.name.clone());
        let names: Vec<String> = names.collect();
        let new = layout
            .get(&names[0])
            .map_or(atom.old_offset, |member| member.offset_bytes);
        if !touched.contains(&index) {
            if new != atom.old_offset {
                cold.extend(names);
            }
            continue;
        }
        let lines = (atom.old_offset / LINE, new / LINE);
        if let Some((saved_cycles, reason)) = reason(weigher, subject, layout, (index, new)) {
            moves.push(Move {
                members: names,
                lines,
                saved_cycles,
                reason,
            });
        }
    }
    moves.sort_by(|a, b| b.saved_cycles.total_cmp(&a.saved_cycles));
    if !cold.is_empty() {
        moves.push(Move {
            reason: String::from(
                "nothing in the profile touches them: they fill what the others leave",
            ),
            members: cold,
            lines: (0, 0),
            saved_cycles: 0.0,
        });
    }
    moves
}

fn touched_atoms(weigher: &Weigher<'_>) -> Vec<usize> {
    let mut touched: Vec<usize> = weigher.places.iter().map(|(atom, ..)| *atom).collect();
    touched.sort_unstable();
    touched.dedup();
    touched
}

/// Why the atom is where it is now, when its company has changed.
fn reason(
    weigher: &Weigher<'_>,
    subject: &Subject,
    layout: &FileStruct,
    (index, new): (usize, u64),
) -> Option<(f64, String)> {
    let atom = &weigher.atoms[index];
    let own_lines = lines_of(weigher, index, atom.old_offset);
    let new_lines = lines_of(weigher, index, new);
    let name = name_of(weigher, subject, index);
    let mut left: Option<(f64, usize)> = None;
    let mut joined: Option<(f64, usize)> = None;
    for other in touched_atoms(weigher) {
        if other == index {
            continue;
        }
        let other_member = &subject.members[weigher.atoms[other].members[0].0].file;
        let other_new = layout.get(&other_member.name)?.offset_bytes;
        let were_together = meet(
            &own_lines,
            &lines_of(weigher, other, weigher.atoms[other].old_offset),
        );
        let are_together = meet(&new_lines, &lines_of(weigher, other, other_new));
        let price = conflict(weigher, index, other);
        if were_together && !are_together && left.is_none_or(|(known, _)| price > known) {
            left = Some((price, other));
        }
        if are_together && !were_together && joined.is_none_or(|(known, _)| price < known) {
            joined = Some((price, other));
        }
    }
    let about = |other: usize| habits(weigher, subject, other);
    match (left, joined) {
        (Some((price, other)), _) if price > 0.0 => {
            let other_name = name_of(weigher, subject, other);
            Some((
                price,
                format!(
                    "{name} gets away from {other_name}: {}, and {}; in one line they cost {} cycles more than apart",
                    about(index),
                    about(other),
                    rounded(price)
                ),
            ))
        }
        (_, Some((price, other))) => {
            let other_name = name_of(weigher, subject, other);
            let why = if price < 0.0 {
                format!("apart they cost {} cycles more", rounded(-price))
            } else {
                String::from("of all company it costs least")
            };
            Some((
                -price,
                format!(
                    "{name} joins {other_name}: {}, and {}; {why}",
                    about(index),
                    about(other)
                ),
            ))
        }
        (Some((price, other)), None) => {
            let other_name = name_of(weigher, subject, other);
            Some((
                price,
                format!("{name} leaves {other_name}, which is better off elsewhere"),
            ))
        }
        (None, None) => None,
    }
}

/// What two atoms cost in one line beyond what they cost apart, in cycles.
fn conflict(weigher: &Weigher<'_>, a: usize, b: usize) -> f64 {
    let cost = |atoms: &[usize]| {
        let mut holds = vec![false; weigher.places.len()];
        atoms
            .iter()
            .for_each(|atom| weigher.add_atom(*atom, &mut holds));
        weigher.weigh(&holds) as f64 / 1000.0
    };
    cost(&[a, b]) - cost(&[a]) - cost(&[b])
}

/// The lines that the atom's spots are in when it begins at `start`.
fn lines_of(weigher: &Weigher<'_>, index: usize, start: u64) -> Vec<u64> {
    let spots = weigher.places.iter().filter(|(owner, ..)| *owner == index);
    let lines =
        spots.flat_map(|(_, at, size)| (start + at) / LINE..(start + at + size).div_ceil(LINE));
    let mut lines: Vec<u64> = lines.collect();
    lines.sort_unstable();
    lines.dedup();
    lines
}

fn meet(a: &[u64], b: &[u64]) -> bool {
    a.iter().any(|line| b.contains(line))
}

fn name_of(weigher: &Weigher<'_>, subject: &Subject, index: usize) -> String {
    let member = weigher.atoms[index].members[0].0;
    subject.members[member].file.name.clone()
}

/// Who does what to an atom, in a few words.
fn habits(weigher: &Weigher<'_>, subject: &Subject, index: usize) -> String {
    let (mut reads, mut writes, mut readers, mut writers) = (0.0, 0.0, 0.0, 0.0);
    for class in &weigher.demand.classes {
        let own = class
            .events
            .iter()
            .filter(|event| weigher.places[event.spot].0 == index);
        let (mut load, mut write) = (0.0, 0.0);
        for event in own {
            load += event.load;
            write += event.store + event.rmw;
        }
        reads += class.cores * class.work * load;
        writes += class.cores * class.work * write;
        readers += if load > 0.0 { class.cores } else { 0.0 };
        writers += if write > 0.0 { class.cores } else { 0.0 };
    }
    let name = name_of(weigher, subject, index);
    let by = |count: f64| match count as u64 {
        1 => String::from("1 core"),
        count => format!("{count} cores"),
    };
    match (reads > 0.0, writes > 0.0) {
        (true, true) => format!(
            "{name} is written {} times by {} and read {} times by {}",
            rounded(writes),
            by(writers),
            rounded(reads),
            by(readers)
        ),
        (false, true) => format!(
            "{name} is written {} times by {}",
            rounded(writes),
            by(writers)
        ),
        _ => format!(
            "{name} is only read, {} times by {}",
            rounded(reads),
            by(readers)
        ),
    }
}

/// The nearest whole number, with commas.
fn rounded(number: f64) -> String {
    grouped(number.round().clamp(0.0, 1e18) as u64)
}
