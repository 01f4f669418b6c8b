//! Layouts as they are found, and what becomes an answer.

use std::collections::BTreeMap;

use super::arrange::arrange;
use super::atoms::LINE;
use super::bins::Weigher;
use super::exact::Assignment;
use super::plain::{self, Plan};
use super::reason::{moves, new_offsets};
use super::subject::Subject;
use super::{AdviseError, CANDIDATES_MAX, Candidate, Options, STEPS_MAX};
use crate::layout_file::FileStruct;

/// A layout with more lines must save at least this share of the present layout's cost to be a
/// candidate. Lines that differ by less are equally good for what nothing touches. Less is within
/// the error of the model, and of a profile.
const WORTH_A_LINE: f64 = 0.001;

/// Offset and size of each path.
pub(super) type Places<'d> = BTreeMap<&'d str, (u64, u64)>;

/// A layout, with the cost that the search gives it.
struct Draft {
    plan: Plan,
    layout: FileStruct,
    cycles: f64,
    bound_cycles: Option<f64>,
}

impl Draft {
    fn lines(&self) -> u64 {
        self.layout.size_bytes.div_ceil(LINE)
    }

    fn is_within(&self, options: &Options) -> bool {
        options.max_lines.is_none_or(|max| self.lines() <= max)
    }
}

/// Everything that makes a layout of an assignment of atoms to lines.
pub(super) struct Drafting<'a> {
    pub(super) weigher: &'a Weigher<'a>,
    pub(super) subject: &'a Subject,
    pub(super) options: &'a Options,
    /// Addresses of instances, where they are known.
    pub(super) bases: &'a BTreeMap<u32, u64>,
    /// Places of the profile's paths in the structure as it is.
    pub(super) old: &'a Places<'a>,
    /// Cost of the structure as it is.
    pub(super) now_cycles: f64,
}

impl Drafting<'_> {
    /// The candidates among what a search has found, each with its bound in thousandths of a cycle.
    pub(super) fn searched(
        &self,
        found: Vec<(Assignment, u64)>,
    ) -> Result<Vec<Candidate>, AdviseError> {
        let drafts = found.into_iter().map(|(assignment, bound)| Draft {
            plan: Plan::Searched,
            cycles: assignment.cost as f64 / 1000.0,
            bound_cycles: Some(bound as f64 / 1000.0),
            layout: self.arranged(&assignment),
        });
        let drafts = drafts.filter(|draft| self.is_known(&draft.layout));
        let drafts = self.within(drafts.collect())?;
        let drafts = front(drafts, self.now_cycles, self.worth());
        drafts
            .into_iter()
            .map(|draft| self.weighed(draft))
            .collect()
    }

    /// The candidates that need no search. One that the search has found, too, gets its plan. There are fewer where
    /// half of the steps that are left is used up.
    pub(super) fn plain(&self, searched: &mut [Candidate]) -> Result<Vec<Candidate>, AdviseError> {
        let now = self.subject.to_file_struct();
        let until = self.weigher.work.part_until(self.steps_max(), 2);
        let mut candidates: Vec<Candidate> = Vec::new();
        for (plan, groups) in plain::plans(self.weigher, self.subject) {
            if self.weigher.work.is_over(until) {
                break;
            }
            let layout = match plan {
                Plan::Padded => plain::padded(self.subject, self.options, self.bases),
                _ => Some(self.arranged(&plain::assignment(self.weigher, groups))),
            };
            let is_new = |layout: &FileStruct| *layout != now && self.is_known(layout);
            let Some(layout) = layout.filter(is_new) else {
                continue;
            };
            let mut known = searched.iter_mut().chain(&mut candidates);
            if let Some(known) = known.find(|known| known.layout == layout) {
                if known.plan != Plan::Padded {
                    known.plan = plan;
                }
                continue;
            }
            let draft = Draft {
                plan,
                layout,
                cycles: 0.0,
                bound_cycles: None,
            };
            if draft.is_within(self.options) {
                candidates.push(self.weighed(draft)?);
            }
        }
        Ok(candidates)
    }

    /// Returns true if no member of which little is known comes to a written one.
    fn is_known(&self, layout: &FileStruct) -> bool {
        let offsets = new_offsets(self.weigher, self.subject, layout);
        let quiet = &self.weigher.quiet;
        !quiet.is_mixed_at(self.weigher.atoms, &offsets)
    }

    fn worth(&self) -> f64 {
        self.now_cycles * WORTH_A_LINE
    }

    fn steps_max(&self) -> u64 {
        self.options.steps_max.unwrap_or(STEPS_MAX)
    }

    fn arranged(&self, assignment: &Assignment) -> FileStruct {
        let alike = (self.worth() * 1000.0) as u64;
        arrange(self.weigher, self.subject, assignment, alike)
    }

    /// Says of each candidate why its members move, in equal parts of the steps that are left.
    pub(super) fn explain(&self, candidates: Vec<&mut Candidate>) {
        let count = candidates.len();
        for (at, candidate) in candidates.into_iter().enumerate() {
            let work = self.weigher.work;
            let until = work.part_until(self.steps_max(), count - at);
            candidate.moves = moves(self.weigher, self.subject, &candidate.layout, until);
        }
    }

    fn weighed(&self, draft: Draft) -> Result<Candidate, AdviseError> {
        let new = new_places(self.subject, &draft.layout, self.old);
        let demand = self.weigher.demand;
        let weighed = demand.weigh_layout(draft.layout.size_bytes, &BTreeMap::new(), &|path| {
            new.get(path).copied()
        });
        let weighed = weighed.map_err(|member| self.subject.no_member(member))?;
        self.weigher.work.spend(weighed.steps);
        Ok(Candidate {
            plan: draft.plan,
            weighed,
            moves: Vec::new(),
            bound_cycles: draft.bound_cycles,
            layout: draft.layout,
        })
    }

    /// The drafts with no more lines than the options allow.
    fn within(&self, mut all: Vec<Draft>) -> Result<Vec<Draft>, AdviseError> {
        let least = all.iter().map(Draft::lines).min().unwrap_or(0);
        all.retain(|draft| draft.is_within(self.options));
        match self.options.max_lines {
            Some(max) if all.is_empty() => Err(AdviseError::TooFewLines {
                name: self.subject.name.clone(),
                max,
                least,
            }),
            _ => Ok(all),
        }
    }
}

/// Their places after their members have moved.
fn new_places<'d>(subject: &Subject, layout: &FileStruct, old: &Places<'d>) -> Places<'d> {
    let members = layout.by_name();
    let moved = |(path, (offset, size)): (&&'d str, &(u64, u64))| {
        let member = &subject.members[subject.member_at(*offset)?].file;
        let new = members.get(&*member.name)?;
        let at = new.offset_bytes + (offset - member.offset_bytes);
        Some((*path, (at, *size)))
    };
    old.iter().filter_map(moved).collect()
}

/// The drafts that no other one beats in both lines and cycles, and that beat the present layout in
/// one of them. If there are too many, those with the largest steps stay.
fn front(mut all: Vec<Draft>, original_cycles: f64, worth: f64) -> Vec<Draft> {
    all.sort_by(|a, b| {
        let cycles = a.cycles.total_cmp(&b.cycles);
        a.lines().cmp(&b.lines()).then(cycles)
    });
    let mut kept: Vec<Draft> = Vec::new();
    for draft in all {
        let beats_present = draft.cycles < original_cycles - worth;
        let beats_last = kept
            .last()
            .is_none_or(|last| draft.cycles < last.cycles - worth);
        if beats_present && beats_last {
            kept.push(draft);
        }
    }
    while kept.len() > CANDIDATES_MAX {
        // The ends stay; of the rest goes the one that the step to its successor makes needless.
        let step = |at: &usize| kept[at - 1].cycles - kept[*at].cycles;
        let inner = (1..kept.len() - 1).min_by(|a, b| step(a).total_cmp(&step(b)));
        match inner {
            Some(at) => drop(kept.remove(at)),
            None => break,
        }
    }
    kept
}
