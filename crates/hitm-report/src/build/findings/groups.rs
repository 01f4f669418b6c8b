//! Groups that one change cures: lines, lines that are handed over, and waits that have one key.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use hitm_base::{CodeAddr, LineAddr, ThreadId};
use hitm_coherence::sharing::Verdict;
use hitm_recording::{DataLabel, SyncKind, without_numbers};
use hitm_trace::{WaitKind, Waits};

use super::FindingBuilder;
use crate::build::Judged;
use crate::handed::HandedRow;
use crate::model::{FindingKind, share};
use crate::waiting::Halves;
use crate::{Names, WORTH_SHARE_MIN};

/// Part of the threads' time from which on lines that are handed over, of objects that nobody fights over, are worth a
/// change. Assumed 0.05 (0.02 to 0.1): what threads get from those who start them, and results that they hand back,
/// cost short programs less.
const HANDED_SHARE_MIN: f64 = 0.05;

/// Common to all that one change cures.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    /// Kind of the object; an address where nothing is known.
    pub(super) object: String,
    /// Lock or member in it, numbers apart; empty for all of it.
    pub(super) part: String,
    pub(super) is_of_runtime: bool,
}

impl Key {
    pub(super) fn identity(&self) -> Option<String> {
        let name = match self.part.is_empty() {
            true => &self.object,
            false => &self.part,
        };
        (!name.starts_with("0x")).then(|| name.clone())
    }
}

/// Lines and waits that have one key.
#[derive(Default)]
pub(super) struct Group<'a> {
    pub(super) lines: Vec<&'a Judged<'a>>,
    pub(super) waits: Vec<&'a Waits>,
    pub(super) handed: Option<&'a HandedRow>,
}

/// Cycles of waits, by the way to wait.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Waited {
    pub(super) spinning: u64,
    pub(super) asleep: u64,
}

impl Waited {
    pub(super) fn all(self) -> u64 {
        self.spinning.saturating_add(self.asleep)
    }

    /// The way that takes longer.
    pub(super) fn longer(self) -> WaitKind {
        match self.asleep > self.spinning {
            true => WaitKind::Asleep,
            false => WaitKind::Spinning,
        }
    }
}

impl Group<'_> {
    /// The words that threads wait for.
    pub(super) fn words(&self) -> BTreeSet<u64> {
        self.waits.iter().map(|one| one.word).collect()
    }

    pub(super) fn lost(&self) -> u64 {
        let lines = self.lines.iter().map(|one| one.stats.contention_stall.0);
        let handed = self.handed.map_or(0, |row| row.sums.lost.0);
        lines.fold(handed, u64::saturating_add)
    }

    pub(super) fn waited(&self) -> Waited {
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

    pub(super) fn cost(&self) -> u64 {
        self.lost().saturating_add(self.waited().all())
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
    pub(super) fn kind(&self) -> FindingKind {
        let waited = self.waited();
        if waited.all() > self.lost() {
            return FindingKind::Waited(waited.longer());
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
    pub(super) fn first_line(&self) -> Option<&Judged<'_>> {
        let (main, _) = self.main_verdict()?;
        let mut lines = self.lines.iter();
        lines.find(|one| one.sharing.verdict == main).copied()
    }

    pub(super) fn threads(&self) -> Option<u64> {
        let mut threads: BTreeSet<ThreadId> = self.waits.iter().map(|one| one.thread).collect();
        for one in &self.lines {
            threads.extend(one.stats.threads.keys());
        }
        (!threads.is_empty()).then_some(threads.len() as u64)
    }
}

/// A place in data, by its names.
pub(super) struct Place {
    pub(super) addr: u64,
    pub(super) size: u8,
    pub(super) label: DataLabel,
}

impl Place {
    pub(super) fn of(names: &dyn Names, addr: u64, size: u8) -> Place {
        Place {
            addr,
            size,
            label: names.data(addr, size).unwrap_or_default(),
        }
    }

    /// The costliest place of a line.
    pub(super) fn of_line(names: &dyn Names, line: &Judged<'_>) -> Place {
        let (offset, size) = line.dearest_place();
        Place::of(names, line.line.first_byte() + u64::from(offset), size)
    }

    /// The lock or the member at the place; empty for an object without known members.
    pub(super) fn part(&self, names: &dyn Names) -> String {
        if let Some(lock) = names.sync_object(self.addr, self.size)
            && lock.kind != SyncKind::Count
        {
            return lock.name;
        }
        match self.label.member.split('+').next() {
            None | Some("") => String::new(),
            Some(member) => format!("{}{member}", self.label.object),
        }
    }

    pub(super) fn key(&self, names: &dyn Names, is_whole: bool) -> Key {
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
    pub(super) fn groups(&self, judged: &'a [Judged<'a>]) -> BTreeMap<Key, Group<'a>> {
        let mut groups: BTreeMap<Key, Group<'a>> = BTreeMap::new();
        for one in judged {
            let place = Place::of_line(self.names, one);
            let is_whole = one.sharing.verdict.is_curable_by_layout();
            let key = Key {
                is_of_runtime: one.is_of_runtime,
                ..place.key(self.names, is_whole)
            };
            groups.entry(key).or_default().lines.push(one);
        }
        groups
    }

    pub(super) fn add_waits(&self, groups: &mut BTreeMap<Key, Group<'a>>) {
        let halves = Halves::of(self.names, self.waits);
        let mut words: BTreeMap<u64, Vec<&'a Waits>> = BTreeMap::new();
        for one in self.waits.iter().filter(|one| one.word != 0) {
            words.entry(halves.first(one)).or_default().push(one);
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
            let home = home.cloned().unwrap_or_else(|| key.clone());
            // So are the lines of this part alone, of an object that straddles lines.
            let apart = match home == key {
                true => None,
                false => groups.remove(&key),
            };
            let group = groups.entry(home.clone()).or_default();
            group.waits.extend(waits);
            if let Some(apart) = apart {
                homes.extend(apart.lines.iter().map(|one| (one.line, home.clone())));
                group.lines.extend(apart.lines);
                group.waits.extend(apart.waits);
                let lost = |one: &&Judged<'_>| Reverse(one.stats.contention_stall);
                group.lines.sort_by_key(lost);
            }
        }
        let whole = self.waiting.whole_cycles;
        let is_worth = |group: &Group<'_>| share(group.cost(), whole) >= WORTH_SHARE_MIN;
        groups.retain(|_, group| !group.lines.is_empty() || is_worth(group));
    }

    /// Adds the lines that are handed over to the costliest finding of their objects; of others, those that are worth
    /// a word are findings of their own.
    pub(super) fn add_handed(&self, groups: &mut BTreeMap<Key, Group<'a>>) {
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
}

/// Lines of members of an array's elements join those of the array as a whole where that costs more: what pads the
/// elements cures both.
pub(super) fn join_parts(groups: &mut BTreeMap<Key, Group<'_>>) {
    let is_element = |key: &&Key| key.part.starts_with(&format!("{}[]", key.object));
    let parts: Vec<Key> = groups.keys().filter(is_element).cloned().collect();
    for part in parts {
        let whole = Key {
            part: String::new(),
            ..part.clone()
        };
        let costs = [&part, &whole].map(|key| groups.get(key).map(Group::cost));
        if let [Some(of_part), Some(of_whole)] = costs
            && of_part < of_whole
        {
            let lines = groups.remove(&part).map(|group| group.lines);
            let group = groups.entry(whole).or_default();
            group.lines.extend(lines.into_iter().flatten());
        }
    }
}
