//! Advice for a contended line: a sentence for each remedy that is worth one, the dearest fight first. The words are
//! in [`sentences`](crate::sentences).
//!
//! It is drawn from the six remedies for false sharing that perf c2c's authors teach. Keep
//! read-mostly members together; give the hottest written members a line of their own; pad; align
//! on line boundaries; lock smaller chunks; assert the placement at compile time. True sharing has
//! no layout remedy, and the sentence says so.

mod java;

use hitm_base::{counted, grouped};
use hitm_coherence::sharing::{FIGHT_SHARE_DIVISOR, Fight, FightKind, Sharing, Verdict};
use hitm_recording::SyncKind;

use crate::build::{LineLock, LineNames};
use crate::model::ObjectUse;
use crate::names::{array_member_of, brief, without_repeats};
use crate::sentences::line as say;

/// Members that a sentence names at most; it counts the rest.
const NAMED_MAX: usize = 4;

/// Elements of a heap block up to this size may as well be members of one struct: nobody but the
/// program's author knows.
const SCALAR_SIZE_MAX: u64 = 8;

/// Everything that advice on one line rests on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Advisor<'a> {
    pub(crate) sharing: &'a Sharing,
    /// The sharing of all lines that the remedy is for: what it saves is the sum.
    pub(crate) together: &'a [&'a Sharing],
    pub(crate) names: &'a LineNames,
    /// The objects by which threads agree in the line, as far as they are known.
    pub(crate) locks: &'a [LineLock],
    /// Threads that use the line.
    pub(crate) thread_count: u64,
    /// Most of its cost is in functions of an allocator.
    pub(crate) is_of_allocator: bool,
    /// Of samples no sum of cycles is known.
    pub(crate) are_samples: bool,
}

/// A change that ends a fight, or makes it cheaper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Remedy {
    /// Another layout, which ends fights of both kinds through the line.
    Layout(FightKind),
    LockLess,
    ShareLess,
}

impl Advisor<'_> {
    /// A sentence for each remedy that the line's main fights need, the dearest first.
    pub(crate) fn advise(&self) -> String {
        if self.sharing.verdict == Verdict::NoContention {
            return say::nothing();
        }
        if self.is_of_allocator {
            return say::of_allocator(self.fought_over());
        }
        let remedies = self.remedies();
        let is_only = remedies.len() == 1;
        let sentences: Vec<String> = remedies
            .into_iter()
            .map(|remedy| match remedy {
                Remedy::Layout(kind) => self.part(kind),
                Remedy::LockLess => self.lock_less(is_only),
                Remedy::ShareLess => self.share_less(is_only),
            })
            .collect();
        sentences.join(" ")
    }

    fn remedies(&self) -> Vec<Remedy> {
        let mut remedies: Vec<Remedy> = Vec::new();
        for kind in self.sharing.main_kinds() {
            let remedy = match kind {
                FightKind::Lock => Remedy::LockLess,
                FightKind::TrueSharing => Remedy::ShareLess,
                layout => Remedy::Layout(layout),
            };
            let is_layout = |other: &Remedy| matches!(other, Remedy::Layout(_));
            if !(is_layout(&remedy) && remedies.iter().any(is_layout)) {
                remedies.push(remedy);
            }
        }
        remedies
    }

    /// Cycles lost in fights of some kinds, as a part of a sentence; empty where they are not known.
    fn cost(&self, is_wanted: impl Fn(FightKind) -> bool) -> String {
        let together = self.together.iter();
        let cycles = together.map(|sharing| sharing.lost_cycles_of(&is_wanted));
        let cycles = cycles.fold(0, u64::saturating_add);
        match cycles > 0 && !self.are_samples {
            true => say::costs(grouped(cycles)),
            false => String::new(),
        }
    }

    /// A new layout, and what it saves: the cycles of the fights that it ends.
    fn part(&self, kind: FightKind) -> String {
        let how = match kind {
            FightKind::ReadMostlyWithHotWriter => self.move_hot_writer(),
            FightKind::PairSharing => self.align_to_pair(),
            _ => self.separate_writers(),
        };
        match self.cost(FightKind::is_curable_by_layout) {
            cost if cost.is_empty() => say::layout(how),
            cost if kind == FightKind::PairSharing => say::layout_of_pair(how, cost),
            cost => say::layout_worth(how, cost),
        }
    }

    /// The bytes at which threads found the line gone in fights of a kind.
    fn bytes_of(&self, is_wanted: impl Fn(FightKind) -> bool) -> u64 {
        let fights = self.sharing.fights.iter();
        let wanted = fights.filter(|fight| is_wanted(fight.kind));
        wanted.fold(0, |all, fight| all | fight.bytes)
    }

    fn align_to_pair(&self) -> String {
        let objects = self
            .names
            .objects_in(self.bytes_of(|kind| kind == FightKind::PairSharing));
        match objects.as_slice() {
            [object] => say::align_to_pair(brief(&object.name)),
            _ => say::align_parts_to_pair(),
        }
    }

    fn separate_writers(&self) -> String {
        let bytes = self.bytes_of(FightKind::is_curable_by_layout);
        let objects = self.names.objects_in(bytes);
        if let Some(how) = self.separate_in_java(&objects, bytes) {
            return how;
        }
        if let ([_], Some(array)) = (objects.as_slice(), self.array_in(bytes)) {
            return say::pad_elements(brief(&array));
        }
        let straddling = objects.iter().find(|object| object.straddles);
        match (objects.as_slice(), straddling) {
            ([], _) => say::align_parts(),
            (_, Some(object)) if is_array(object) => say::align_elements(brief(&object.name)),
            ([object], _) if is_array(object) => say::pad_elements(brief(&object.name)),
            ([object], Some(_)) => {
                let then = self.separate_members(object, bytes);
                say::align_object(brief(&object.name), then)
            }
            ([object], None) if object.members.is_empty() || object.is_array => {
                say::split_object(brief(&object.name))
            }
            ([object], None) => self.separate_members(object, bytes),
            ([first, others @ ..], _) if others.iter().all(|one| one.name == first.name) => {
                say::align_each(brief(&first.name), objects.len())
            }
            (several, _) => {
                let names: Vec<&str> = several.iter().map(|object| object.name.as_str()).collect();
                say::separate_objects(list(&names))
            }
        }
    }

    /// The array in an object whose elements are all that is written in some bytes.
    fn array_in(&self, bytes: u64) -> Option<String> {
        let written = self.things_in(bytes & !self.sharing.read_mostly);
        let written: Vec<&str> = written.iter().map(String::as_str).collect();
        array_member_of(&written).map(str::to_owned)
    }

    fn separate_members(&self, object: &ObjectUse, bytes: u64) -> String {
        let groups = self.by_writers(object);
        let grouped = groups.iter().fold(0, |all, group| all | group);
        let read = self
            .names
            .members_in(bytes & self.sharing.read_mostly & !grouped);
        let written = self.things_in(bytes & !self.sharing.read_mostly);
        let written: Vec<&str> = written.iter().map(String::as_str).collect();
        let apart = match written.as_slice() {
            _ if !groups.is_empty() => {
                let groups = groups.iter().map(|group| self.group(*group));
                say::line_each_by_writers(groups.collect::<Vec<_>>().join(" | "))
            }
            [] => say::line_for_parts(),
            [one] => say::line_for_one(one),
            several => say::line_for_each(list(several)),
        };
        match read.is_empty() {
            true => say::separate_members(apart),
            false => say::separate_from_read(apart, list(&read)),
        }
    }

    /// The bytes of an object by those who write them; none if each is of another thread anyway, or somebody writes
    /// all of them.
    fn by_writers(&self, object: &ObjectUse) -> Vec<u64> {
        let written = self.sharing.written & !self.sharing.read_mostly;
        let groups = self.names.groups_of_writers(object, written);
        let has_several = |group: &u64| self.names.used_in(*group).len() > 1;
        match groups.len() > 1 && groups.iter().any(has_several) {
            true => groups,
            false => Vec::new(),
        }
    }

    /// The members in some bytes: `a`, `{a and b}`.
    fn group(&self, bytes: u64) -> String {
        match self.names.used_in(bytes)[..] {
            [one] => brief(one),
            ref several => format!("{{{}}}", list(several)),
        }
    }

    /// The written places in some bytes; a lock object is one.
    fn things_in(&self, bytes: u64) -> Vec<String> {
        let touched = self.locks.iter().filter(|lock| lock.mask & bytes != 0);
        let mut things: Vec<(u32, String)> = touched
            .clone()
            .map(|lock| (lock.mask.trailing_zeros(), lock.name.clone()))
            .collect();
        let others = bytes & !touched.fold(0, |all, lock| all | lock.mask);
        let written = self.names.written_in(others).into_iter();
        things.extend(written.map(|name| (others.trailing_zeros(), name.to_owned())));
        things.sort_by_key(|(offset, _)| *offset);
        things.into_iter().map(|(_, name)| name).collect()
    }

    fn move_hot_writer(&self) -> String {
        let read_mostly = self.sharing.read_mostly;
        let bytes = self.bytes_of(|kind| kind == FightKind::ReadMostlyWithHotWriter);
        let objects = self.names.objects_in(self.sharing.written | bytes);
        if let Some(how) = self.separate_in_java(&objects, self.sharing.written | bytes) {
            return how;
        }
        let written = self.things_in(self.sharing.written & !read_mostly);
        let written: Vec<&str> = written.iter().map(String::as_str).collect();
        let read = self.names.members_in(bytes & read_mostly);
        let line = match written.len() {
            0 | 1 => say::line_of_its_own(),
            _ => say::lines_of_their_own(),
        };
        let written = match written.is_empty() {
            true => say::written_bytes(),
            false => list(&written),
        };
        match read.is_empty() {
            true => say::move_away(written, line),
            false => say::move_away_from(written, line, list(&read)),
        }
    }

    /// `is_only`: the line has no other fight that is worth a word, so that its cost needs none here.
    fn lock_less(&self, is_only: bool) -> String {
        let word = self.sharing.lock_word;
        let known = self.locks.iter().find(|lock| lock.mask & word != 0);
        let members = self.names.members_in(word);
        let name = match known {
            Some(lock) => brief(&lock.name),
            None if members.is_empty() => say::the_lock(),
            None => list(&members),
        };
        let cost = match self.cost(|kind| kind == FightKind::Lock) {
            cost if is_only || cost.is_empty() => String::new(),
            cost => say::which_costs(cost),
        };
        if known.is_some_and(|lock| lock.is_only_read) {
            let count = list(&self.names.written_in(word));
            let cost = cost.trim_end_matches(',');
            let threads = counted(self.thread_count, "thread");
            return say::count_of_readers(threads, name, count, cost);
        }
        if known.is_some_and(|lock| lock.kind == SyncKind::ConditionVariable) {
            return say::condition_variable(name, cost);
        }
        if known.is_some_and(|lock| lock.kind == SyncKind::Channel) {
            return say::channel(name, cost);
        }
        match self.sharing.guarded == 0 {
            true => say::lock_less(name, cost),
            false => say::lock_less_with_data(name, cost),
        }
    }

    /// The object of the dearest fight.
    fn fought_over(&self) -> String {
        let bytes = self.sharing.fights.first().map_or(0, |fight| fight.bytes);
        let lock = self.locks.iter().find(|lock| lock.mask & bytes != 0);
        match lock {
            Some(lock) => brief(&lock.name),
            None => list(&self.names.members_in(bytes)),
        }
    }

    /// The bytes of the truly shared places that cost a tenth of all of them, at least.
    fn truly_shared(&self) -> u64 {
        let fights = self.sharing.fights.iter();
        let fights = fights.filter(|fight| fight.kind == FightKind::TrueSharing);
        let cost = |fight: &Fight| (fight.lost_cycles, fight.contended_count);
        let all = fights.clone().map(cost).fold((0_u64, 0_u64), |all, one| {
            (all.0.saturating_add(one.0), all.1.saturating_add(one.1))
        });
        let is_main = |fight: &&Fight| {
            let (part, whole) = match all.0 {
                0 => (fight.contended_count, all.1),
                lost => (fight.lost_cycles, lost),
            };
            part.saturating_mul(FIGHT_SHARE_DIVISOR) >= whole
        };
        fights
            .filter(is_main)
            .fold(0, |bytes, fight| bytes | fight.bytes)
    }

    fn share_less(&self, is_only: bool) -> String {
        let bytes = self.truly_shared();
        let shared = self.names.written_in(bytes);
        let shared = if shared.is_empty() {
            say::these_bytes()
        } else {
            list(&shared)
        };
        let masks_of = |is_wanted: fn(SyncKind) -> bool| {
            let wanted = self.locks.iter().filter(|one| is_wanted(one.kind));
            wanted.fold(0, |all, one| all | one.mask)
        };
        let counts = masks_of(|kind| kind == SyncKind::Count);
        // A lockref's count changes together with the lock beside it.
        let others = bytes & !(counts | masks_of(|kind| kind != SyncKind::Count));
        let less = match others == 0 && bytes & counts != 0 {
            true => {
                let names = self.names.written_in(bytes);
                let pass_on = match names.iter().any(|name| counts_references(name)) {
                    true => say::pass_on(),
                    false => String::new(),
                };
                say::count_less(shared, pass_on)
            }
            false => say::write_less(shared),
        };
        match self.cost(|kind| kind == FightKind::TrueSharing) {
            cost if is_only || cost.is_empty() => say::share_less(less),
            cost => say::share_less_too(cost, less),
        }
    }
}

/// Parts of the names of members that count references; other counts have no holder who could pass one on.
const REFERENCES: &[&str] = &[
    "ref",
    "usage",
    "users",
    "use_count",
    "strong",
    "weak",
    "mm_count",
    "f_count",
    "i_count",
    "mapcount",
];

/// Returns true if a member counts references, by its name.
fn counts_references(member: &str) -> bool {
    REFERENCES.iter().any(|part| member.contains(part))
}

/// Returns true if an object is an array for certain: a variable's members say so, a heap block's stride when
/// no single number has that size.
pub(crate) fn is_array(object: &ObjectUse) -> bool {
    let is_indexed = object.members.iter().all(|member| member.starts_with('['));
    match object.element_size_bytes {
        Some(size) => size > SCALAR_SIZE_MAX,
        None => is_indexed && !object.members.is_empty(),
    }
}

/// `a`, `a and b`, `a, b and c`, `a, b, c, d and 3 more`, each in brief.
fn list(names: &[&str]) -> String {
    let names: Vec<String> = without_repeats(names).into_iter().map(brief).collect();
    match names.as_slice() {
        [] => String::new(),
        [one] => one.clone(),
        [head @ .., last] if names.len() <= NAMED_MAX => format!("{} and {last}", head.join(", ")),
        _ => {
            let (named, rest) = names.split_at(NAMED_MAX);
            format!("{} and {} more", named.join(", "), rest.len())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_references_are_known_by_their_names() {
        for name in [
            "dentry.d_lockref.lock_count",
            "page 0x1._mapcount.counter",
            "file.f_count.counter",
        ] {
            assert!(counts_references(name), "{name}");
        }
        for name in [
            "mm_struct.context.tlb_gen.counter",
            "lruvec.nonresident_age.counter",
        ] {
            assert!(!counts_references(name), "{name}");
        }
    }

    #[test]
    fn long_lists_are_counted() {
        assert_eq!(list(&["a"]), "a");
        assert_eq!(list(&["a", "b"]), "a and b");
        assert_eq!(list(&["a", "b", "c", "d"]), "a, b, c and d");
        assert_eq!(list(&["a", "b", "c", "d", "e"]), "a, b, c, d and 1 more");
    }
}
