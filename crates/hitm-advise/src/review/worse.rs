//! Everything that gets worse: memory, machines, lines and members.

use std::collections::{BTreeMap, BTreeSet};

use hitm_layout::advise::Weighed;
use hitm_layout::structs::{MemberDiff, MemberPlace};

use super::coverage::owner;
use super::{LINE, MachineCost, MemberReview, TypeReview};

/// A rise of less than this share of the type's cost is within the error of the model, as in the
/// advisor.
const RISE_MIN: f64 = 0.001;

/// Something that gets worse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum WorseKind {
    /// The type costs more on a machine.
    Machine,
    /// A line costs more than the lines that its members were on.
    Line,
    /// A member is on lines that cost more than those it was on.
    Member,
    /// The structure takes more bytes.
    Memory,
    /// A member lies in two lines that was in one.
    Straddle,
}

impl WorseKind {
    /// The word in text and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            WorseKind::Machine => "machine",
            WorseKind::Line => "line",
            WorseKind::Member => "member",
            WorseKind::Memory => "memory",
            WorseKind::Straddle => "straddle",
        }
    }
}

/// One thing that gets worse.
#[derive(Debug, Clone, PartialEq)]
pub struct Worse {
    /// Its kind.
    pub kind: WorseKind,
    /// The machine, the number of the line, the member or the type.
    pub name: String,
    /// Machines on which cost rises, the one with the largest rise first.
    pub machines: Vec<String>,
    /// Cycles on the first machine; bytes of memory; lines of a member that straddles.
    pub before: u64,
    /// The same after the change.
    pub after: u64,
}

/// Cost before and after, and the machine.
type Rise = (f64, f64, String);

/// Collects what gets worse, by kind and name.
pub(super) fn worse(review: &TypeReview) -> Vec<Worse> {
    let mut rises: BTreeMap<(WorseKind, String), Vec<Rise>> = BTreeMap::new();
    for cost in &review.costs {
        let [before, after] = cost.cycles();
        let least = before.max(1.0) * RISE_MIN;
        let mut add = |kind, name: String, before: f64, after: f64| {
            if after - before > least {
                let of = rises.entry((kind, name)).or_default();
                of.push((before, after, cost.machine.clone()));
            }
        };
        add(WorseKind::Machine, cost.machine.clone(), before, after);
        // A replay says nothing of single lines, and the model's estimates do not stand beside it.
        if cost.replay.is_some() {
            continue;
        }
        for (line, before, after) in line_costs(cost) {
            add(WorseKind::Line, line.to_string(), before, after);
        }
        let costs = [0, 1].map(|side| member_costs(&review.members, &cost.weighed[side]));
        for (at, member) in review.members.iter().enumerate() {
            if let (Some(before), Some(after)) = (costs[0][at], costs[1][at]) {
                add(WorseKind::Member, member.places.name.clone(), before, after);
            }
        }
    }
    let mut worse: Vec<Worse> = rises
        .into_iter()
        .map(|((kind, name), rises)| joined(kind, name, rises))
        .collect();
    // Lines by number, not by digits.
    worse.sort_by_key(|one| (one.kind, one.name.parse::<u64>().unwrap_or(0)));
    let [old, new] = review.memory;
    if new.size_bytes > old.size_bytes {
        worse.push(Worse {
            kind: WorseKind::Memory,
            name: review.name.clone(),
            machines: Vec::new(),
            before: old.size_bytes,
            after: new.size_bytes,
        });
    }
    worse.extend(review.members.iter().filter_map(straddle));
    worse
}

/// Joins the rises of one thing on several machines.
fn joined(kind: WorseKind, name: String, mut rises: Vec<Rise>) -> Worse {
    rises.sort_by(|a, b| (b.1 - b.0).total_cmp(&(a.1 - a.0)));
    let (before, after) = (rises[0].0, rises[0].1);
    Worse {
        kind,
        name,
        machines: rises.into_iter().map(|(_, _, machine)| machine).collect(),
        before: before.round() as u64,
        after: after.round() as u64,
    }
}

/// Cost of each new line, and of the lines together that its members were on.
fn line_costs(cost: &MachineCost) -> Vec<(u64, f64, f64)> {
    let [before, after] = &cost.weighed;
    let mut lines: BTreeMap<u64, (f64, BTreeSet<&str>)> = BTreeMap::new();
    for line in &after.per_line {
        let of = lines.entry(line.line).or_default();
        of.0 += line.cost.cycles();
        of.1.extend(line.members.iter().map(String::as_str));
    }
    let was = |members: &BTreeSet<&str>| -> f64 {
        let is_theirs = |line: &&hitm_layout::advise::LineReport| {
            let mut on = line.members.iter();
            on.any(|member| members.contains(member.as_str()))
        };
        let lines = before.per_line.iter().filter(is_theirs);
        lines.map(|line| line.cost.cycles()).sum()
    };
    let lines = lines.into_iter();
    lines
        .map(|(line, (cycles, members))| (line, was(&members), cycles))
        .collect()
}

/// Cost of the lines that each member is on; none when no line is touched for it.
fn member_costs(members: &[MemberReview], weighed: &Weighed) -> Vec<Option<f64>> {
    let places: Vec<&MemberDiff> = members.iter().map(|member| &member.places).collect();
    let mut costs = vec![None; members.len()];
    for line in &weighed.per_line {
        let paths = line.members.iter();
        let on: BTreeSet<usize> = paths.filter_map(|path| owner(&places, path)).collect();
        for at in on {
            *costs[at].get_or_insert(0.0) += line.cost.cycles();
        }
    }
    costs
}

/// A member that fits one line, was in one, and is in two.
fn straddle(member: &MemberReview) -> Option<Worse> {
    let lines = |place: &MemberPlace| place.last_line - place.first_line + 1;
    let (old, new) = (
        member.places.before.as_ref()?,
        member.places.after.as_ref()?,
    );
    let is_worse = lines(old) == 1 && lines(new) > 1 && new.size_bytes <= LINE;
    is_worse.then(|| Worse {
        kind: WorseKind::Straddle,
        name: member.places.name.clone(),
        machines: Vec::new(),
        before: lines(old),
        after: lines(new),
    })
}
