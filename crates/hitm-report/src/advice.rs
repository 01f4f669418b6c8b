//! One sentence of advice for a contended line.
//!
//! It is drawn from the six remedies for false sharing that perf c2c's authors teach. Keep
//! read-mostly members together; give the hottest written members a line of their own; pad; align
//! on line boundaries; lock smaller chunks; assert the placement at compile time. True sharing has
//! no layout remedy, and the sentence says so.

use hitm_base::grouped;
use hitm_coherence::sharing::{FightKind, Sharing, Verdict};

use crate::build::{LineLock, LineNames};
use crate::model::ObjectUse;
use crate::names::{LockKind, without_repeats};

/// Members that a sentence names at most; it counts the rest.
const NAMED_MAX: usize = 4;

/// Elements of a heap block up to this size may as well be members of one struct: nobody but the
/// program's author knows.
const SCALAR_SIZE_MAX: u64 = 8;

/// Everything that advice on one line rests on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Advisor<'a> {
    pub(crate) sharing: &'a Sharing,
    pub(crate) names: &'a LineNames,
    /// The lock objects in the line, as far as they are known.
    pub(crate) locks: &'a [LineLock],
    /// Of samples no sum of cycles is known.
    pub(crate) are_samples: bool,
}

impl Advisor<'_> {
    /// One sentence: the remedy for the line's main fight, or for its false sharing where neither
    /// dominates.
    pub(crate) fn advise(&self) -> String {
        match self.sharing.verdict {
            Verdict::NoContention => "Nothing to do.".to_owned(),
            Verdict::FalseSharing => self.part(FightKind::FalseSharing),
            Verdict::ReadMostlyWithHotWriter => self.part(FightKind::ReadMostlyWithHotWriter),
            Verdict::Mixed => {
                let mut fights = self.sharing.fights.iter().map(|fight| fight.kind);
                let costliest = fights.find(|kind| kind.is_curable_by_layout());
                self.part(costliest.unwrap_or(FightKind::FalseSharing))
            }
            Verdict::Lock => self.lock_less(),
            Verdict::TrueSharing => self.share_less(),
        }
    }

    /// A new layout, and what it saves: the cycles of the fights that it ends.
    fn part(&self, kind: FightKind) -> String {
        let how = match kind {
            FightKind::ReadMostlyWithHotWriter => self.move_hot_writer(),
            _ => self.separate_writers(),
        };
        match self.sharing.layout_cycles() {
            cycles if cycles > 0 && !self.are_samples => format!(
                "{how}: the false sharing that this ends costs {} cycles.",
                grouped(cycles)
            ),
            _ => format!("{how}."),
        }
    }

    /// The bytes at which threads found the line gone in fights of a kind.
    fn bytes_of(&self, is_wanted: impl Fn(FightKind) -> bool) -> u64 {
        let fights = self.sharing.fights.iter();
        let wanted = fights.filter(|fight| is_wanted(fight.kind));
        wanted.fold(0, |all, fight| all | fight.bytes)
    }

    fn separate_writers(&self) -> String {
        let bytes = self.bytes_of(FightKind::is_curable_by_layout);
        let objects = self.names.objects_in(bytes);
        let straddling = objects.iter().find(|object| object.straddles);
        match (objects.as_slice(), straddling) {
            ([], _) => "Different threads write different bytes of this line: align what each of \
                        them uses to 64 bytes and pad it to a multiple of 64"
                .to_owned(),
            (_, Some(object)) if is_array(object) => format!(
                "Align {} to 64 bytes and pad its elements to a multiple of 64, so that no element \
                 shares a line with its neighbour, and assert the size at compile time",
                object.name
            ),
            ([object], _) if is_array(object) => format!(
                "Pad the elements of {} to 64 bytes and align it to 64, so that each thread's \
                 element has a line of its own, and assert the size at compile time",
                object.name
            ),
            ([object], Some(_)) => format!(
                "Align {} to 64 bytes: it starts inside a line and spreads over more lines than it \
                 needs; then give each thread's part of it a line of its own",
                object.name
            ),
            ([object], None) if object.members.is_empty() || object.is_array => format!(
                "Give what each thread writes in the {} a cache line of its own (align to 64 bytes)",
                object.name
            ),
            ([_], None) => self.separate_members(bytes),
            (several, _) => {
                let names: Vec<&str> = several.iter().map(|object| object.name.as_str()).collect();
                format!(
                    "Separate {}, which lie in one line by accident: align each to 64 bytes",
                    list(&names)
                )
            }
        }
    }

    fn separate_members(&self, bytes: u64) -> String {
        let read = self.names.members_in(bytes & self.sharing.read_mostly);
        let written = self.things_in(bytes & !self.sharing.read_mostly);
        let written: Vec<&str> = written.iter().map(String::as_str).collect();
        let apart = match written.as_slice() {
            [one] => format!("Give {one}, which is written, a cache line of its own"),
            several => format!(
                "Give {}, which different threads write, a cache line each",
                list(several)
            ),
        };
        let away = if read.is_empty() {
            String::new()
        } else {
            format!(", away from {}, which is only read", list(&read))
        };
        format!("{apart}{away} (align to 64 bytes), and assert the offsets at compile time")
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
        let written = self.things_in(self.sharing.written & !read_mostly);
        let written: Vec<&str> = written.iter().map(String::as_str).collect();
        let read = self.names.members_in(bytes & read_mostly);
        let written = match written.is_empty() {
            true => "the written bytes".to_owned(),
            false => list(&written),
        };
        if read.is_empty() {
            return format!(
                "Move {written} to a cache line of its own (align to 64 bytes), away from what \
                 other threads only read"
            );
        }
        format!(
            "Move {written} to a cache line of its own (align to 64 bytes) and keep {} with other \
             read-mostly data, away from anything that is written often",
            list(&read)
        )
    }

    fn lock_less(&self) -> String {
        let word = self.sharing.lock_word;
        let known = self.locks.iter().find(|lock| lock.mask & word != 0);
        let members = self.names.members_in(word);
        let name = match known {
            Some(lock) => lock.name.clone(),
            None if members.is_empty() => "the lock".to_owned(),
            None => list(&members),
        };
        if known.is_some_and(|lock| lock.kind == LockKind::ConditionVariable) {
            return format!(
                "Wait for and signal the condition variable {name} less often: pass more work at a \
                 time, and signal only when what its waiters wait for has come true."
            );
        }
        if self.sharing.guarded == 0 {
            return format!(
                "Take {name} less often or for less: split it into locks over smaller chunks of the \
                 data, or shorten what is done under it."
            );
        }
        format!(
            "Take {name} less often or for less (locks over smaller chunks of the data, shorter \
             critical sections); waiters that spin on it also steal the line of the data beside it, \
             so move written data to the next line if the lock stays contended."
        )
    }

    fn share_less(&self) -> String {
        let shared = self.bytes_of(|kind| kind == FightKind::TrueSharing);
        let shared = self.names.written_in(shared);
        let shared = if shared.is_empty() {
            "these bytes".to_owned()
        } else {
            list(&shared)
        };
        format!(
            "The threads need the same bytes, so no layout helps: write {shared} less often, or give \
             each thread (or node) a copy on a line of its own and combine the copies when they are \
             read."
        )
    }
}

/// Returns true if an object is an array for certain: a variable's members say so, a heap block's stride when
/// no single number has that size.
fn is_array(object: &ObjectUse) -> bool {
    let is_indexed = object.members.iter().all(|member| member.starts_with('['));
    match object.element_size_bytes {
        Some(size) => size > SCALAR_SIZE_MAX,
        None => is_indexed && !object.members.is_empty(),
    }
}

/// `a`, `a and b`, `a, b and c`, `a, b, c, d and 3 more`.
fn list(names: &[&str]) -> String {
    let names = without_repeats(names);
    match names.as_slice() {
        [] => String::new(),
        [one] => (*one).to_owned(),
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
    fn long_lists_are_counted() {
        assert_eq!(list(&["a"]), "a");
        assert_eq!(list(&["a", "b"]), "a and b");
        assert_eq!(list(&["a", "b", "c", "d"]), "a, b, c and d");
        assert_eq!(list(&["a", "b", "c", "d", "e"]), "a, b, c, d and 1 more");
    }
}
