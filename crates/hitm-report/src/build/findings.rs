//! Contended lines, lines that are handed over, and waits -> findings.
//!
//! All lines of an array, or of the heap blocks of one site or type, are one finding: one change of a type or of an
//! allocation cures them. Locks in a struct, and members that threads truly share, are findings of their own.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use hitm_base::{CodeAddr, LINE_SIZE, LineAddr, ThreadId};
use hitm_coherence::sharing::{Sharing, Verdict};
use hitm_coherence::stats::{LineStats, RowKey, Statistics, byte_mask};
use hitm_recording::{DataLabel, SyncKind, without_numbers};
use hitm_trace::{WaitKind, Waits};

use super::Judged;
use super::functions::Functions;
use super::lines::LineBuilder;
use super::objects::main_threads;
use super::places::Users;
use crate::advice::is_array;
use crate::handed::{HandedOver, HandedRow};
use crate::model::{
    AccessCounts, Finding, FindingKind, FindingPlace, LineReport, ObjectUse, Totals, share,
};
use crate::names::brief;
use crate::sentences::line as say;
use crate::waiting::{WaitRow, Waiting, kind_text};
use crate::{Names, WORTH_SHARE_MIN};

/// Part of the threads' time from which on lines that are handed over, of objects that nobody fights over, are worth a
/// change. Assumed 0.05 (0.02 to 0.1): what threads get from those who start them, and results that they hand back,
/// cost short programs less.
const HANDED_SHARE_MIN: f64 = 0.05;

/// Bytes of one part of a picture.
const PART_BYTES: u8 = 8;

/// Waits are told beside fights from this part (one in ...) of the cost on.
const WAIT_SHARE_DIVISOR: u64 = 10;

/// Objects of a line that the name of a finding has.
const NAMED_MAX: usize = 2;

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
    /// Findings with all that needs many names; of the others only the cost is told.
    pub(super) shown_max: usize,
}

/// Common to all that one change cures.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    /// Kind of the object; an address where nothing is known.
    object: String,
    /// Lock or member in it, numbers apart; empty for all of it.
    part: String,
    is_of_runtime: bool,
}

impl Key {
    fn identity(&self) -> Option<String> {
        let name = match self.part.is_empty() {
            true => &self.object,
            false => &self.part,
        };
        (!name.starts_with("0x")).then(|| name.clone())
    }
}

/// What has one key.
#[derive(Default)]
struct Group<'a> {
    lines: Vec<&'a Judged<'a>>,
    waits: Vec<&'a Waits>,
    handed: Option<&'a HandedRow>,
}

/// Cycles of waits, by the way to wait.
#[derive(Debug, Clone, Copy, Default)]
struct Waited {
    spinning: u64,
    asleep: u64,
}

impl Group<'_> {
    fn lost(&self) -> u64 {
        let lines = self.lines.iter().map(|one| one.stats.contention_stall.0);
        let handed = self.handed.map_or(0, |row| row.sums.lost.0);
        lines.fold(handed, u64::saturating_add)
    }

    fn waited(&self) -> Waited {
        let mut waited = Waited::default();
        for one in &self.waits {
            let sum = match one.kind {
                WaitKind::Spinning => &mut waited.spinning,
                WaitKind::Asleep => &mut waited.asleep,
            };
            *sum = sum.saturating_add(one.cycles.0);
        }
        waited
    }

    fn cost(&self) -> u64 {
        let Waited { spinning, asleep } = self.waited();
        let all = [self.lost(), spinning, asleep];
        all.into_iter().fold(0, u64::saturating_add)
    }

    /// Lost cycles of the lines of each verdict.
    fn verdicts(&self) -> BTreeMap<Verdict, u64> {
        let mut lost: BTreeMap<Verdict, u64> = BTreeMap::new();
        for one in &self.lines {
            let sum = lost.entry(one.sharing.verdict).or_default();
            *sum = sum.saturating_add(one.stats.contention_stall.0);
        }
        lost
    }

    /// The kind that costs most: waits where threads wait longer than for lines.
    fn kind(&self) -> FindingKind {
        let Waited { spinning, asleep } = self.waited();
        if spinning.saturating_add(asleep) > self.lost() {
            return FindingKind::Waited(match asleep > spinning {
                true => WaitKind::Asleep,
                false => WaitKind::Spinning,
            });
        }
        let handed = self.handed.map_or(0, |row| row.sums.lost.0);
        match self.main_verdict() {
            Some((verdict, lost)) if lost >= handed => FindingKind::Contended(verdict),
            _ => FindingKind::HandedOver,
        }
    }

    /// The verdict on the lines that lose most, and what they lose.
    fn main_verdict(&self) -> Option<(Verdict, u64)> {
        let verdicts = self.verdicts().into_iter();
        verdicts.max_by_key(|(verdict, lost)| (*lost, Reverse(*verdict)))
    }

    /// Its costliest line: of those of its own verdict, where lines cost most.
    fn first_line(&self) -> Option<&Judged<'_>> {
        let verdicts = self.verdicts().into_iter();
        let main = verdicts
            .max_by_key(|(verdict, lost)| (*lost, Reverse(*verdict)))?
            .0;
        let mut lines = self.lines.iter();
        lines.find(|one| one.sharing.verdict == main).copied()
    }

    fn threads(&self) -> Option<u64> {
        let mut threads: BTreeSet<ThreadId> = self.waits.iter().map(|one| one.thread).collect();
        for one in &self.lines {
            threads.extend(one.stats.threads.keys());
        }
        (!threads.is_empty()).then_some(threads.len() as u64)
    }
}

/// A place in data, by its names.
struct Place {
    addr: u64,
    size: u8,
    label: DataLabel,
}

impl Place {
    fn of(names: &dyn Names, addr: u64, size: u8) -> Place {
        Place {
            addr,
            size,
            label: names.data(addr, size).unwrap_or_default(),
        }
    }

    /// The lock or the member at the place; empty for an object without known members.
    fn part(&self, names: &dyn Names) -> String {
        if let Some(lock) = names.sync_object(self.addr, self.size)
            && lock.kind != SyncKind::Count
        {
            return lock.name;
        }
        match self.label.member.split("+0x").next() {
            None | Some("") => String::new(),
            Some(member) => format!("{}{member}", self.label.object),
        }
    }

    fn key(&self, names: &dyn Names, is_whole: bool) -> Key {
        let kind = names.kind(self.addr).filter(|kind| !kind.is_empty());
        Key {
            object: kind.unwrap_or_else(|| format!("{:#x}", names.shown(self.addr))),
            part: match is_whole {
                true => String::new(),
                false => without_numbers(&self.part(names)),
            },
            is_of_runtime: false,
        }
    }
}

impl<'a> FindingBuilder<'a> {
    /// The findings, those of the program's own first, by cost. `shown` are the lines that are known in detail.
    pub(super) fn build(&self, judged: &'a [Judged<'a>], shown: &[LineReport]) -> Vec<Finding> {
        let mut groups = self.groups(judged);
        join_parts(&mut groups);
        self.add_waits(&mut groups);
        self.add_handed(&mut groups);
        let mut groups: Vec<(Key, Group<'a>)> = groups.into_iter().collect();
        // Stable: what costs the same stays in the order of names.
        groups.sort_by_key(|(_, group)| Reverse(group.cost()));
        let is_shown = |place: usize| place < self.shown_max;
        let findings = groups.iter().enumerate();
        let findings = findings.map(|(place, (key, group))| {
            let report = group.first_line().filter(|_| is_shown(place)).map(|first| {
                let known = shown.iter().find(|line| line.line == first.line);
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

    fn groups(&self, judged: &'a [Judged<'a>]) -> BTreeMap<Key, Group<'a>> {
        let mut groups: BTreeMap<Key, Group<'a>> = BTreeMap::new();
        for one in judged {
            let (offset, size) = one.dearest_place();
            let place = Place::of(self.names, one.line.first_byte() + u64::from(offset), size);
            let is_whole = one.sharing.verdict.is_curable_by_layout();
            let key = Key {
                is_of_runtime: one.is_of_runtime,
                ..place.key(self.names, is_whole)
            };
            groups.entry(key).or_default().lines.push(one);
        }
        groups
    }

    fn add_waits(&self, groups: &mut BTreeMap<Key, Group<'a>>) {
        let mut words: BTreeMap<u64, Vec<&'a Waits>> = BTreeMap::new();
        for one in self.waits.iter().filter(|one| one.word != 0) {
            words.entry(one.word).or_default().push(one);
        }
        let mut homes: BTreeMap<LineAddr, Key> = BTreeMap::new();
        for (key, group) in groups.iter() {
            homes.extend(group.lines.iter().map(|one| (one.line, key.clone())));
        }
        for (word, waits) in words {
            let first = waits
                .iter()
                .max_by_key(|one| (one.cycles, Reverse(one.code)));
            let code = first.map_or(CodeAddr(0), |one| one.code);
            let key = Key {
                is_of_runtime: self.names.is_of_runtime(word, code),
                ..Place::of(self.names, word, 1).key(self.names, false)
            };
            // What threads look at and fight over is one thing, whatever part of the object has the line's name.
            let home = homes.get(&LineAddr::of(word));
            let home = home.filter(|home| {
                home.object == key.object && home.is_of_runtime == key.is_of_runtime
            });
            let key = home.cloned().unwrap_or(key);
            groups.entry(key).or_default().waits.extend(waits);
        }
        let whole = self.waiting.whole_cycles;
        let is_worth = |group: &Group<'_>| share(group.cost(), whole) >= WORTH_SHARE_MIN;
        groups.retain(|_, group| !group.lines.is_empty() || is_worth(group));
    }

    /// Adds the lines that are handed over to the costliest finding of their objects; of others, those that are worth
    /// a word are findings of their own.
    fn add_handed(&self, groups: &mut BTreeMap<Key, Group<'a>>) {
        for row in self
            .handed
            .objects
            .iter()
            .filter(|row| !row.name.is_empty())
        {
            let own = groups.iter_mut().filter(|(key, _)| key.object == row.name);
            let dearest = own.max_by_key(|(key, group)| (group.cost(), Reverse((*key).clone())));
            if let Some((_, group)) = dearest {
                group.handed = Some(row);
            } else if share(row.sums.lost.0, self.totals.thread_cycles) >= HANDED_SHARE_MIN {
                let key = Key {
                    object: row.name.clone(),
                    part: String::new(),
                    is_of_runtime: false,
                };
                groups.entry(key).or_default().handed = Some(row);
            }
        }
    }

    fn finding(&self, key: &Key, group: &Group<'a>, report: Option<&LineReport>) -> Finding {
        let first = group.first_line();
        let wait = self.wait_row(group);
        let waited = group.waited();
        let waited_cycles = waited.spinning.saturating_add(waited.asleep);
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
        Finding {
            number: 0,
            fix: self.fix(&name, group, report),
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
            wait: wait.cloned(),
        }
    }

    fn whole_cycles(&self) -> u64 {
        match self.waiting.whole_cycles {
            0 => self.totals.thread_cycles,
            whole => whole,
        }
    }

    /// The row of the waits for the same thing.
    fn wait_row(&self, group: &Group<'_>) -> Option<&'a WaitRow> {
        let words: BTreeSet<u64> = group.waits.iter().map(|one| one.word).collect();
        let rows = self.waiting.rows.iter();
        let mut own = rows.filter(|row| {
            words
                .iter()
                .any(|word| self.names.shown(*word) == row.address)
        });
        own.next()
    }
}

impl<'a> FindingBuilder<'a> {
    /// The costliest places of a group's lines and words, the first line's first.
    fn data_places(&self, group: &Group<'a>) -> Vec<Place> {
        let first = group.first_line();
        let others = group.lines.iter().copied();
        let others = others.filter(|one| first.is_none_or(|first| first.line != one.line));
        let lines = first.into_iter().chain(others).map(|one| {
            let (offset, size) = one.dearest_place();
            Place::of(self.names, one.line.first_byte() + u64::from(offset), size)
        });
        let words: BTreeSet<u64> = group.waits.iter().map(|one| one.word).collect();
        let words = words.into_iter().map(|word| Place::of(self.names, word, 1));
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
        match objects.as_slice() {
            [one, ..] if is_one && is_array(one) => self.array(first),
            [_, _, ..] if places.len() == 1 => names_of(&objects),
            _ if is_one => first.label.object.clone(),
            _ => key.object.clone(),
        }
    }

    /// Advice on a group, whose costliest line is `line`.
    fn fix(&self, name: &str, group: &Group<'a>, line: Option<&LineReport>) -> String {
        let is_lock = line.is_some_and(|line| line.verdict == Verdict::Lock);
        match (group.kind(), line, self.wait_row(group)) {
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
        let words: BTreeSet<u64> = group.waits.iter().map(|one| one.word).collect();
        for word in words {
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

/// Lines of members of an array's elements join those of the array as a whole where that costs more: what pads the
/// elements cures both.
fn join_parts(groups: &mut BTreeMap<Key, Group<'_>>) {
    let whole = groups.iter().filter(|(key, _)| key.part.is_empty());
    let whole: Vec<(Key, u64)> = whole
        .map(|(key, group)| (key.clone(), group.cost()))
        .collect();
    for (key, cost) in whole {
        let elements = format!("{}[]", key.object);
        let mut lines = Vec::new();
        groups.retain(|other, group| {
            let is_part = other.object == key.object
                && other.is_of_runtime == key.is_of_runtime
                && other.part.starts_with(&elements)
                && group.cost() < cost;
            if is_part {
                lines.append(&mut group.lines);
            }
            !is_part
        });
        groups.entry(key).or_default().lines.append(&mut lines);
    }
}

/// Names of objects, the first ones written out.
fn names_of(objects: &[&ObjectUse]) -> String {
    let named = objects.iter().take(NAMED_MAX).map(|one| one.name.as_str());
    let named = named.collect::<Vec<_>>().join(", ");
    match objects.len().saturating_sub(NAMED_MAX) {
        0 => named,
        more => format!("{named} +{more} more"),
    }
}

/// A kind for tables.
fn kind_brief(kind: FindingKind, line: Option<&LineReport>, group: &Group<'_>) -> String {
    let Waited { spinning, asleep } = group.waited();
    let wait = match asleep > spinning {
        true => kind_text(WaitKind::Asleep),
        false => kind_text(WaitKind::Spinning),
    };
    let fight = match (kind, line) {
        (FindingKind::HandedOver, _) => "handed over".to_owned(),
        (_, Some(line)) => line.verdict_brief(),
        (FindingKind::Contended(verdict), None) => verdict.facts().words.to_owned(),
        (FindingKind::Waited(_), None) => return wait.to_owned(),
    };
    let waited = spinning.saturating_add(asleep);
    match waited.saturating_mul(WAIT_SHARE_DIVISOR) >= group.cost() && waited > 0 {
        true => format!("{fight}, {wait}"),
        false => fight,
    }
}

/// The users of each eighth of a line: the number of the thread that writes it, `**` if several do, `r` if threads
/// only read it, `.` if it is not used.
fn picture(stats: &LineStats) -> Vec<String> {
    let parts = (0..64).step_by(PART_BYTES.into());
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
