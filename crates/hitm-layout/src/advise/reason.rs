//! The reason for each member that moves: from whom it gets away, or whom it joins, and what that is worth.

use super::atoms::LINE;
use super::bins::Weigher;
use super::subject::Subject;
use crate::layout_file::FileStruct;

/// A member, or several that move for one reason.
#[derive(Debug, Clone, PartialEq)]
pub struct Move {
    /// Names of the members.
    pub members: Vec<String>,
    /// Line of the first one before and after.
    pub lines: (u64, u64),
    /// Cycles over the profile's period that the reason is worth.
    pub saved_cycles: f64,
    /// Reason of the move.
    pub reason: Reason,
}

/// Reason for which a member moves, with what is done to it and to the member that it leaves or joins.
#[derive(Debug, Clone, PartialEq)]
pub enum Reason {
    /// In one line the member and the one that it leaves cost more than apart.
    GetsAway([Habits; 2]),
    /// Apart the member and the one that it joins cost more; 0 or less where no company costs less.
    Joins([Habits; 2]),
    /// It does not matter that it leaves the other one.
    Leaves([Habits; 2]),
    /// The limit of the search was reached before its reason was found.
    NotSearched,
    /// Nothing in the profile touches it.
    Untouched,
}

/// Accesses to a member over the profile's period, and the cores that make them.
#[derive(Debug, Clone, PartialEq)]
pub struct Habits {
    /// Its name.
    pub name: String,
    /// Loads.
    pub reads: f64,
    /// Stores and locked operations.
    pub writes: f64,
    /// Cores that read it.
    pub readers: f64,
    /// Cores that write it.
    pub writers: f64,
}

/// The moves from the subject's layout to `layout`, the largest gain first; members that nothing
/// touches come last, in one sentence. Members that are left when `until` steps are taken come
/// without a reason of their own.
pub(super) fn moves(
    weigher: &Weigher<'_>,
    subject: &Subject,
    layout: &FileStruct,
    until: u64,
) -> Vec<Move> {
    let offsets = new_offsets(weigher, subject, layout);
    let touched = lodgers(weigher, &offsets);
    let mut moves: Vec<((usize, usize), Move)> = Vec::new();
    let mut unexplained: Vec<usize> = Vec::new();
    for lodger in by_use(weigher, &touched) {
        if weigher.work.is_over(until) {
            unexplained.push(lodger.atom);
        } else if let Some(cause) = cause(weigher, subject, &touched, lodger) {
            let old = weigher.atoms[lodger.atom].old_offset;
            let moved = Move {
                members: names_of(weigher, subject, lodger.atom),
                lines: (old / LINE, lodger.new / LINE),
                saved_cycles: cause.saved_cycles,
                reason: cause.reason,
            };
            moves.push(((lodger.atom, cause.other), moved));
        }
    }
    moves.sort_by(|(a, left), (b, right)| {
        let gains = right.saved_cycles.total_cmp(&left.saved_cycles);
        gains.then(a.cmp(b))
    });
    // Of two members that part from each other, one sentence speaks of both.
    let pairs: Vec<(usize, usize)> = moves.iter().map(|(pair, _)| *pair).collect();
    let mut at = 0;
    moves.retain(|((atom, other), _)| {
        at += 1;
        !pairs[..at - 1].contains(&(*other, *atom))
    });
    let mut moves: Vec<Move> = moves.into_iter().map(|(_, moved)| moved).collect();
    unexplained.sort_unstable();
    let is_cold = |index: &usize| {
        offsets[*index] != weigher.atoms[*index].old_offset && weigher.spots_of(*index).is_empty()
    };
    let cold = (0..weigher.atoms.len()).filter(is_cold).collect();
    for (atoms, reason) in [
        (unexplained, Reason::NotSearched),
        (cold, Reason::Untouched),
    ] {
        let names = atoms
            .iter()
            .flat_map(|atom| names_of(weigher, subject, *atom));
        let members: Vec<String> = names.collect();
        if !members.is_empty() {
            moves.push(Move {
                members,
                lines: (0, 0),
                saved_cycles: 0.0,
                reason,
            });
        }
    }
    moves
}

/// A touched atom and the lines that it lies in.
struct Lodger {
    atom: usize,
    new: u64,
    old_lines: Vec<u64>,
    new_lines: Vec<u64>,
}

/// The touched atoms, by number.
fn lodgers(weigher: &Weigher<'_>, offsets: &[u64]) -> Vec<Lodger> {
    let touched = (0..weigher.atoms.len()).filter(|atom| !weigher.spots_of(*atom).is_empty());
    let lodger = |atom: usize| Lodger {
        atom,
        new: offsets[atom],
        old_lines: lines_of(weigher, atom, weigher.atoms[atom].old_offset),
        new_lines: lines_of(weigher, atom, offsets[atom]),
    };
    touched.map(lodger).collect()
}

/// The lodgers that the search distributed, the most used first; then the others.
fn by_use<'l>(weigher: &Weigher<'_>, touched: &'l [Lodger]) -> Vec<&'l Lodger> {
    let mut rank = vec![usize::MAX; weigher.atoms.len()];
    for (at, atom) in weigher.hot.iter().enumerate() {
        rank[*atom] = at;
    }
    let mut order: Vec<&Lodger> = touched.iter().collect();
    order.sort_by_key(|lodger| rank[lodger.atom]);
    order
}

/// First byte of each atom in `layout`.
pub(super) fn new_offsets(
    weigher: &Weigher<'_>,
    subject: &Subject,
    layout: &FileStruct,
) -> Vec<u64> {
    let members = layout.by_name();
    let new_offset = |atom: usize| {
        let found = members.get(&*name_of(weigher, subject, atom));
        found.map_or(weigher.atoms[atom].old_offset, |member| member.offset_bytes)
    };
    (0..weigher.atoms.len()).map(new_offset).collect()
}

fn names_of(weigher: &Weigher<'_>, subject: &Subject, atom: usize) -> Vec<String> {
    let members = weigher.atoms[atom].members.iter();
    members
        .map(|(member, _)| subject.members[*member].file.name.clone())
        .collect()
}

/// Reason for a member's place.
struct Cause {
    /// Atom that it left or joined.
    other: usize,
    saved_cycles: f64,
    reason: Reason,
}

/// Reason for the atom's place, when its company has changed.
fn cause(
    weigher: &Weigher<'_>,
    subject: &Subject,
    touched: &[Lodger],
    lodger: &Lodger,
) -> Option<Cause> {
    let index = lodger.atom;
    let mut left: Option<(f64, usize)> = None;
    let mut joined: Option<(f64, usize)> = None;
    for other in touched {
        let were_together = meet(&lodger.old_lines, &other.old_lines);
        let are_together = meet(&lodger.new_lines, &other.new_lines);
        if other.atom == index || were_together == are_together {
            continue;
        }
        let price = conflict(weigher, index, other.atom);
        if were_together && left.is_none_or(|(known, _)| price > known) {
            left = Some((price, other.atom));
        }
        if are_together && joined.is_none_or(|(known, _)| price < known) {
            joined = Some((price, other.atom));
        }
    }
    type Why = fn([Habits; 2]) -> Reason;
    let (other, saved_cycles, why) = match (left, joined) {
        (Some((price, other)), _) if price > 0.0 => (other, price, Reason::GetsAway as Why),
        (_, Some((price, other))) => (other, -price, Reason::Joins as Why),
        (Some((price, other)), None) => (other, price, Reason::Leaves as Why),
        (None, None) => return None,
    };
    Some(Cause {
        other,
        saved_cycles,
        reason: why([index, other].map(|atom| habits(weigher, subject, atom))),
    })
}

/// Cost of two atoms in one line beyond their costs apart, in cycles.
fn conflict(weigher: &Weigher<'_>, a: usize, b: usize) -> f64 {
    let cost = |atoms: &[usize]| weigher.cost(None, atoms) as f64 / 1000.0;
    cost(&[a, b]) - cost(&[a]) - cost(&[b])
}

/// The lines that the atom's spots are in when it begins at `start`.
fn lines_of(weigher: &Weigher<'_>, index: usize, start: u64) -> Vec<u64> {
    let spots = weigher.spots_of(index).iter();
    let lines = spots.flat_map(|spot| {
        let (_, at, size) = weigher.places[*spot];
        (start + at) / LINE..(start + at + size).div_ceil(LINE)
    });
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

/// Accesses to an atom.
fn habits(weigher: &Weigher<'_>, subject: &Subject, index: usize) -> Habits {
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
    Habits {
        name: name_of(weigher, subject, index),
        reads,
        writes,
        readers,
        writers,
    }
}
