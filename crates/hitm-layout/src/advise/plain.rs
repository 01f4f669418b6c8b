//! Layouts that need no search: what a colleague would try first.
//!
//! The search weighs layouts by a model of independent accesses. Where threads answer each other the model
//! can miss the best one, so these are always among the candidates of a replay.

use std::collections::{BTreeMap, BTreeSet};

use super::atoms::LINE;
use super::bins::{Weigher, pack};
use super::exact::Assignment;
use super::{Options, Subject};
use crate::layout_file::FileStruct;

/// Bytes that are read so many times as often as they are written are read-mostly, as for the verdict on a
/// line (`hitm_coherence::sharing`).
const READS_PER_WRITE_MIN: f64 = 10.0;

/// Users with less than one in so many of a member's accesses do not count: they set it up, or look at its end.
const USER_SHARE_DIVISOR: f64 = 20.0;

/// The most members that are tried alone on a line: the most written ones.
const ALONE_MAX: usize = 12;

/// Users, each with the instance of what it uses.
type Users = BTreeSet<(u32, usize)>;

/// Idea behind a layout.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Plan {
    /// Members with the same writers share a line, and no others.
    ByWriters,
    /// Each written member has a line of its own.
    Apart,
    /// The present order, aligned to lines and padded to whole ones.
    Padded,
    /// One written member has a line of its own, and the others stay as they are.
    Alone(String),
    /// The least cost by the model.
    Searched,
}

/// Use of one atom.
pub(super) struct Used {
    pub(super) atom: usize,
    reads: f64,
    writes: f64,
    /// Accesses and writes of each user, by instance and number.
    by: BTreeMap<(u32, usize), (f64, f64)>,
}

impl Used {
    /// Returns true if it is written often.
    pub(super) fn is_written(&self) -> bool {
        self.writes > 0.0 && self.reads < self.writes * READS_PER_WRITE_MIN
    }

    /// The users that count, by what they do.
    fn main(&self, count: impl Fn(&(f64, f64)) -> f64) -> Users {
        let most = self.by.values().map(&count).fold(0.0, f64::max);
        let is_main = |by: &&(f64, f64)| {
            let own = count(by);
            own > 0.0 && own * USER_SHARE_DIVISOR >= most
        };
        let main = self.by.iter().filter(|(_, by)| is_main(by));
        main.map(|(user, _)| *user).collect()
    }

    fn writers(&self) -> Users {
        self.main(|(_, writes)| *writes)
    }

    fn users(&self) -> Users {
        self.main(|(accesses, _)| *accesses)
    }
}

/// The ideas that need no search, each with the atoms that belong together: those of most use first. Of two with one
/// layout, the later one says it more plainly.
pub(super) fn plans(weigher: &Weigher<'_>, subject: &Subject) -> Vec<(Plan, Vec<Vec<usize>>)> {
    let used = used(weigher, &weigher.hot);
    let mut plans = vec![
        (Plan::Padded, Vec::new()),
        (Plan::ByWriters, by_writers(weigher, &used)),
        (Plan::Apart, apart(&used)),
    ];
    let mut written: Vec<&Used> = used.iter().filter(|used| used.is_written()).collect();
    written.sort_by(|a, b| b.writes.total_cmp(&a.writes).then(a.atom.cmp(&b.atom)));
    for used_alone in written.into_iter().take(ALONE_MAX) {
        let first = weigher.atoms[used_alone.atom].members[0].0;
        let name = subject.members[first].file.name.clone();
        plans.push((Plan::Alone(name), alone(weigher, &used, used_alone.atom)));
    }
    plans
}

/// The present layout, aligned and padded to lines; none where the options move something, or where every
/// instance has lines of its own already.
pub(super) fn padded(
    subject: &Subject,
    options: &Options,
    bases: &BTreeMap<u32, u64>,
) -> Option<FileStruct> {
    let is_free = options.pins.is_empty() && options.keep_together.is_empty();
    let shares_lines = bases.values().any(|base| !base.is_multiple_of(LINE));
    let is_whole = subject.size_bytes.is_multiple_of(LINE);
    (is_free && (shares_lines || !is_whole)).then(|| FileStruct {
        size_bytes: subject.size_bytes.next_multiple_of(LINE),
        align_bytes: Some(subject.align_bytes.max(LINE)),
        ..subject.to_file_struct()
    })
}

/// Use of atoms, in their present order.
pub(super) fn used(weigher: &Weigher<'_>, atoms: &[usize]) -> Vec<Used> {
    let mut atoms = atoms.to_vec();
    atoms.sort_by_key(|atom| (weigher.atoms[*atom].old_offset, *atom));
    let of_atom = |atom: usize| {
        let mut used = Used {
            atom,
            reads: 0.0,
            writes: 0.0,
            by: BTreeMap::new(),
        };
        for spot in weigher.spots_of(atom) {
            let instance = weigher.demand.spots[*spot].instance;
            for (user, counts) in &weigher.demand.users[*spot] {
                let writes = (counts.stores + counts.rmws) as f64;
                let accesses = counts.total() as f64;
                used.reads += accesses - counts.stores as f64;
                used.writes += writes;
                let by = used.by.entry((instance, *user)).or_default();
                *by = (by.0 + accesses, by.1 + writes);
            }
        }
        used
    };
    atoms.into_iter().map(of_atom).collect()
}

/// Written atoms by who writes them, each group with what nobody else uses; the others together.
fn by_writers(weigher: &Weigher<'_>, used: &[Used]) -> Vec<Vec<usize>> {
    let mut groups: Vec<(Users, Vec<usize>)> = Vec::new();
    for one in used.iter().filter(|used| used.is_written()) {
        let writers = one.writers();
        match groups.iter_mut().find(|(known, _)| *known == writers) {
            Some((_, atoms)) => atoms.push(one.atom),
            None => groups.push((writers, vec![one.atom])),
        }
    }
    let mut others = Vec::new();
    for one in used.iter().filter(|used| !used.is_written()) {
        let users = one.users();
        let mut own = groups.iter_mut();
        let may_join = |writers: &BTreeSet<_>, atoms: &[usize]| {
            users.is_subset(writers) && !weigher.quiet.is_mixed(&[atoms, &[one.atom]].concat())
        };
        match own.find(|(writers, atoms)| may_join(writers, atoms)) {
            Some((_, atoms)) => atoms.push(one.atom),
            None => others.push(one.atom),
        }
    }
    let groups = groups.into_iter().map(|(_, atoms)| atoms);
    groups.chain([others]).collect()
}

/// Each written atom by itself, the others together.
fn apart(used: &[Used]) -> Vec<Vec<usize>> {
    let (written, read): (Vec<&Used>, Vec<&Used>) = used.iter().partition(|used| used.is_written());
    let written = written.into_iter().map(|used| vec![used.atom]);
    let read = read.into_iter().map(|used| used.atom).collect();
    written.chain([read]).collect()
}

/// One atom by itself, the others by their present lines; on lines of their own those that are quiet.
fn alone(weigher: &Weigher<'_>, used: &[Used], atom: usize) -> Vec<Vec<usize>> {
    let mut lines: BTreeMap<(bool, u64), Vec<usize>> = BTreeMap::new();
    for other in used.iter().filter(|used| used.atom != atom) {
        let line = weigher.atoms[other.atom].old_offset / LINE;
        let is_quiet = weigher.quiet.is_quiet(other.atom);
        lines.entry((is_quiet, line)).or_default().push(other.atom);
    }
    lines.into_values().chain([vec![atom]]).collect()
}

/// Groups as lines; one that does not fit into a line becomes several.
pub(super) fn assignment(weigher: &Weigher<'_>, groups: Vec<Vec<usize>>) -> Assignment {
    let mut lines: Vec<Vec<usize>> = Vec::new();
    for group in groups {
        let mut line: Vec<usize> = Vec::new();
        for atom in group {
            line.push(atom);
            if pack(weigher.atoms, &line, 0).is_none() {
                line.pop();
                lines.push(std::mem::replace(&mut line, vec![atom]));
            }
        }
        lines.push(line);
    }
    lines.retain(|line| !line.is_empty());
    let costs = lines.iter().map(|line| weigher.cost(None, line));
    let bins = weigher.bins.iter().enumerate();
    let of_bins = bins.map(|(bin, _)| weigher.cost(Some(bin), &[]));
    Assignment {
        cost: weigher.constant + costs.sum::<u64>() + of_bins.sum::<u64>(),
        bins: vec![Vec::new(); weigher.bins.len()],
        lines,
    }
}
