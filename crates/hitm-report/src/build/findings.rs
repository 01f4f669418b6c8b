//! Contended lines, lines that are handed over, and waits -> findings.
//!
//! All lines of an array, or of the heap blocks of one site or type, are one finding: one change of a type or of an
//! allocation cures them. Locks in a struct, and members that threads truly share, are findings of their own.

mod groups;
mod library;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use hitm_base::{LINE_SIZE, LineAddr, ThreadId};
use hitm_coherence::sharing::{Sharing, Verdict};
use hitm_coherence::stats::{LineStats, RowKey, Statistics, byte_mask};
use hitm_trace::{Waits, WatchedRun};

use groups::{Group, Key, Place, join_parts};

use super::Judged;
use super::functions::Functions;
use super::lines::LineBuilder;
use super::objects::main_threads;
use super::places::Users;
use crate::Names;
use crate::advice::is_array;
use crate::handed::HandedOver;
use crate::model::{
    AccessCounts, CostBounds, Finding, FindingKind, FindingPlace, LineReport, Totals, share,
};
use crate::names::brief;
use crate::sentences::line as say;
use crate::waiting::{WaitRow, Waiting, kind_text};

/// Bytes of one part of a picture.
const PART_BYTES: u8 = 8;

/// Waits are told beside fights from this part (one in ...) of the cost on.
const WAIT_SHARE_DIVISOR: u64 = 10;

/// Of what a runtime keeps for itself, this part (one in ...) of the cost decides its place: who wrote the program can do
/// less about it. Assumed 2 (1 to 4).
const RUNTIME_COST_DIVISOR: u64 = 2;

/// Everything that findings are made of.
pub(super) struct FindingBuilder<'a> {
    pub(super) names: &'a dyn Names,
    pub(super) statistics: &'a Statistics,
    pub(super) functions: &'a Functions<'a>,
    pub(super) lines: &'a LineBuilder<'a>,
    pub(super) totals: &'a Totals,
    pub(super) handed: &'a HandedOver,
    pub(super) waiting: &'a Waiting,
    pub(super) waits: &'a [Waits],
    /// Lines of a running program that were watched.
    pub(super) watched: Option<&'a WatchedRun>,
    /// Findings with all that needs many names; of the others only the cost is told.
    pub(super) shown_max: usize,
}

impl<'a> FindingBuilder<'a> {
    /// The findings, those of the program's own first, by cost. `shown` are the lines that are known in detail.
    pub(super) fn build(&self, judged: &'a [Judged<'a>], shown: &[LineReport]) -> Vec<Finding> {
        let shown = shown.iter().map(|line| (line.line, line));
        let shown: BTreeMap<LineAddr, &LineReport> = shown.collect();
        let mut groups = self.groups(judged);
        join_parts(&mut groups);
        self.add_waits(&mut groups);
        self.add_handed(&mut groups);
        let mut groups: Vec<(Key, Group<'a>)> = groups.into_iter().collect();
        // Stable: what costs the same stays in the order of names.
        groups.sort_by_key(|(key, group)| {
            let divisor = if key.is_of_runtime {
                RUNTIME_COST_DIVISOR
            } else {
                1
            };
            Reverse(group.cost() / divisor)
        });
        let is_shown = |place: usize| place < self.shown_max;
        let findings = groups.iter().enumerate();
        let findings = findings.map(|(place, (key, group))| {
            let report = group.first_line().filter(|_| is_shown(place)).map(|first| {
                let known = shown.get(&first.line).copied();
                known.cloned().unwrap_or_else(|| self.lines.build(first, 0))
            });
            Finding {
                is_shown: is_shown(place),
                places: match is_shown(place) {
                    true => self.code_places(group),
                    false => Vec::new(),
                },
                ..self.finding(key, group, report.as_ref())
            }
        });
        let mut findings: Vec<Finding> = findings.collect();
        // Stable: of one rank, what costs most comes first.
        findings.sort_by_key(Finding::rank);
        for (finding, number) in findings.iter_mut().zip(1..) {
            finding.number = number;
        }
        findings
    }

    fn finding(&self, key: &Key, group: &Group<'a>, report: Option<&LineReport>) -> Finding {
        let first = group.first_line();
        let waited_cycles = group.waited().all();
        let fights = group.lines.iter().map(|one| &one.sharing);
        let fights = fights.filter(|sharing| sharing.has_layout_fight());
        let layout_cycles = fights.clone().map(Sharing::layout_cycles);
        let lost_cycles = group.lost();
        let mut counts = AccessCounts::default();
        for one in &group.lines {
            counts.merge(&AccessCounts::of(one.stats));
        }
        let kind = group.kind();
        let name = self.name(key, group, report);
        let wait = self.wait_row(group, &name);
        Finding {
            number: 0,
            fix: self.fix(&name, group, report, wait.as_ref()),
            name,
            kind,
            kind_brief: kind_brief(kind, report, group),
            lost_cycles,
            waited_cycles,
            lost_share: share(lost_cycles, self.totals.lost_cycles),
            run_share: share(
                lost_cycles.saturating_add(waited_cycles),
                self.whole_cycles(),
            ),
            false_sharing_cycles: layout_cycles.fold(0, u64::saturating_add),
            line_count: group.lines.len() as u64,
            handed_line_count: group.handed.and_then(|row| row.line_count).unwrap_or(0),
            thread_count: group.threads(),
            is_of_runtime: key.is_of_runtime,
            has_false_sharing: fights.count() > 0,
            picture: first.map_or_else(Vec::new, |first| picture(first.stats)),
            verdict_text: report.map_or_else(String::new, |line| line.verdict_text.clone()),
            identity: key.identity(),
            lines: group.lines.iter().map(|one| one.line).collect(),
            places: Vec::new(),
            is_shown: false,
            counts,
            address: first.map(|first| self.names.shown(first.line.first_byte())),
            wait,
            bounds: self.bounds(group),
        }
    }

    /// Bounds of what a group's lines cost.
    fn bounds(&self, group: &Group<'_>) -> Option<CostBounds> {
        let run = self.watched?;
        let own: BTreeSet<u64> = group
            .lines
            .iter()
            .map(|one| one.line.first_byte())
            .collect();
        let lines = run.lines.iter().filter(|line| own.contains(&line.address));
        Some(CostBounds::of(run, lines))
    }

    fn whole_cycles(&self) -> u64 {
        match self.waiting.whole_cycles {
            0 => self.totals.thread_cycles,
            whole => whole,
        }
    }

    /// The row of the waits for the same thing: of several elements one row, with the functions of the dearest.
    fn wait_row(&self, group: &Group<'_>, name: &str) -> Option<WaitRow> {
        let words = group.words().into_iter();
        let words: BTreeSet<u64> = words.map(|word| self.names.shown(word)).collect();
        let rows = self.waiting.rows.iter();
        let mut own = rows.filter(|row| words.contains(&row.address));
        let mut all = own.next()?.clone();
        for row in own.filter(|row| row.kind == all.kind) {
            all.wait_count = all.wait_count.saturating_add(row.wait_count);
            all.cycles = all.cycles.saturating_add(row.cycles);
            all.run_share += row.run_share;
            name.clone_into(&mut all.name);
        }
        let waits = group.waits.iter();
        let of_kind = waits.filter(|one| Some(one.kind) == all.kind);
        let threads: BTreeSet<ThreadId> = of_kind.map(|one| one.thread).collect();
        all.thread_count = threads.len() as u64;
        Some(all)
    }

    /// The costliest places of a group's lines and words, the first line's first.
    fn data_places(&self, group: &Group<'a>) -> Vec<Place> {
        let first = group.first_line();
        let others = group.lines.iter().copied();
        let others = others.filter(|one| first.is_none_or(|first| first.line != one.line));
        let lines = first.into_iter().chain(others);
        let lines = lines.map(|one| Place::of_line(self.names, one));
        let words = group.words().into_iter();
        let words = words.map(|word| Place::of(self.names, word, 1));
        lines.chain(words).collect()
    }

    /// Name of what a group is about.
    fn name(&self, key: &Key, group: &Group<'a>, line: Option<&LineReport>) -> String {
        let places = self.data_places(group);
        let Some(first) = places
            .first()
            .filter(|place| !place.label.object.is_empty())
        else {
            return key.object.clone();
        };
        let is_same = |place: &Place| {
            place.label.object == first.label.object
                && place.label.object_addr == first.label.object_addr
        };
        let is_one = places.iter().all(is_same);
        if !key.part.is_empty() {
            let part = first.part(self.names);
            let is_same = places.iter().all(|place| place.part(self.names) == part);
            return if is_same { part } else { key.part.clone() };
        }
        let objects = line.map_or_else(Vec::new, LineReport::main_objects);
        match (objects.as_slice(), line) {
            ([one, ..], _) if is_one && is_array(one) => self.array(first),
            ([_, _, ..], Some(line)) if places.len() == 1 => line.name(),
            _ if is_one => first.label.object.clone(),
            _ => key.object.clone(),
        }
    }

    /// Advice on a group, whose costliest line is `line`.
    fn fix(
        &self,
        name: &str,
        group: &Group<'a>,
        line: Option<&LineReport>,
        wait: Option<&WaitRow>,
    ) -> String {
        if let Some(advice) = self.library_advice(name, group, wait) {
            return advice;
        }
        let is_lock = line.is_some_and(|line| line.verdict == Verdict::Lock);
        match (group.kind(), line, wait) {
            (FindingKind::Waited(_), _, Some(wait)) if !is_lock => wait.advice(),
            (FindingKind::HandedOver, _, _) => say::pass_nearer(brief(name)),
            (_, Some(line), _) => match (group.lines.len(), group.first_line()) {
                (2.., Some(first)) => self.lines.advice_together(&group.lines, first),
                _ => line.advice.clone(),
            },
            _ => String::new(),
        }
    }

    /// An array with its type: `acc[] (stats, 16 B)`.
    fn array(&self, first: &Place) -> String {
        let object = first.label.object.trim_end_matches("[]");
        let type_name = self.names.type_of(first.addr, first.size);
        let type_name = type_name.filter(|name| !object.contains(name.as_str()));
        let size = first.label.element.map(|(_, size)| format!("{size} B"));
        let about: Vec<String> = type_name.into_iter().chain(size).collect();
        match about.is_empty() {
            true => format!("{object}[]"),
            false => format!("{object}[] ({})", about.join(", ")),
        }
    }

    /// The places in the program that contend most: those that write, if there are any.
    fn code_places(&self, group: &Group<'a>) -> Vec<FindingPlace> {
        let mut users = Users::new(self.functions, &self.statistics.calls);
        let has_writes = group.lines.iter().any(|one| {
            let mut rows = one.stats.rows.iter();
            rows.any(|(key, row)| key.op.is_write() && row.sources.contended() > 0)
        });
        for one in &group.lines {
            let is_wanted = |key: &RowKey| key.op.is_write() || !has_writes;
            users.add_rows(one.line, one.stats, is_wanted);
        }
        if !users.is_empty() {
            return users.into_places();
        }
        // Of what threads wait for without a contended line: those who change it, else those who wait.
        for word in group.words() {
            let line = LineAddr::of(word);
            let bit = byte_mask((word % LINE_SIZE) as u8, 1);
            if let Some(stats) = self.statistics.lines.get(&line) {
                let covers = |key: &RowKey| byte_mask(key.offset, key.size) & bit != 0;
                users.add_rows(line, stats, |key| key.op.is_write() && covers(key));
            }
        }
        if users.is_empty() {
            let waits = group.waits.iter();
            waits.for_each(|one| users.add_code(one.code, one.cycles.0, one.count));
        }
        users.into_places()
    }
}

/// A kind for tables.
fn kind_brief(kind: FindingKind, line: Option<&LineReport>, group: &Group<'_>) -> String {
    let waited = group.waited();
    let wait = kind_text(waited.longer());
    let fight = match (kind, line) {
        (FindingKind::HandedOver, _) => "handed over".to_owned(),
        (_, Some(line)) => line.verdict_brief().replace("a lock's count", "count"),
        (FindingKind::Contended(verdict), None) => verdict.facts().words.to_owned(),
        (FindingKind::Waited(_), None) => return wait.to_owned(),
    };
    let waited = waited.all();
    match waited.saturating_mul(WAIT_SHARE_DIVISOR) >= group.cost() && waited > 0 {
        true => format!("{fight}, {wait}"),
        false => fight,
    }
}

/// The users of each eighth of a line: the number of the thread that writes it, `**` if several do, `r` if threads
/// only read it, `.` if it is not used.
fn picture(stats: &LineStats) -> Vec<String> {
    let parts = (0..LINE_SIZE as u8).step_by(PART_BYTES.into());
    let parts = parts.map(|offset| {
        let mask = byte_mask(offset, PART_BYTES);
        let rows = stats.rows.iter();
        let touching = rows.filter(|(key, _)| byte_mask(key.offset, key.size) & mask != 0);
        let mut writes: BTreeMap<ThreadId, u64> = BTreeMap::new();
        let mut is_used = false;
        for (key, row) in touching {
            is_used = true;
            if key.op.is_write() {
                *writes.entry(key.thread).or_default() += row.sources.total();
            }
        }
        let writers: Vec<ThreadId> = main_threads(&writes).into_iter().collect();
        match writers.as_slice() {
            [] if is_used => "r".to_owned(),
            [] => ".".to_owned(),
            [one] => one.0.to_string(),
            _ => "**".to_owned(),
        }
    });
    parts.collect()
}
