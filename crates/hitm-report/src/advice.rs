//! One sentence of advice for a contended line.
//!
//! It is drawn from the six remedies for false sharing that perf c2c's authors teach: keep read-mostly
//! members together; give the hottest written members a line of their own; pad; align on line
//! boundaries; lock smaller chunks; assert the placement at compile time. True sharing has no layout
//! remedy, and the sentence says so.

use hitm_coherence::sharing::{Sharing, Verdict};

use crate::build::LineNames;
use crate::model::ObjectUse;

/// How many members a sentence names before it counts the rest.
const NAMED_MAX: usize = 4;

/// What to do about a line with this verdict.
pub(crate) fn advise(sharing: &Sharing, names: &LineNames) -> String {
    match sharing.verdict {
        Verdict::NoContention => "Nothing to do.".to_owned(),
        Verdict::FalseSharing => separate_writers(sharing, names),
        Verdict::Mixed => format!(
            "{} What is left then is true sharing.",
            separate_writers(sharing, names)
        ),
        Verdict::ReadMostlyWithHotWriter => move_hot_writer(sharing, names),
        Verdict::Lock => lock_less(sharing, names),
        Verdict::TrueSharing => share_less(sharing, names),
    }
}

fn separate_writers(sharing: &Sharing, names: &LineNames) -> String {
    let objects = names.objects_in(sharing.written | sharing.read_mostly);
    let straddling = objects.iter().find(|object| object.straddles);
    match (objects.as_slice(), straddling) {
        ([], _) => "Different threads write different bytes of this line: align what each of them \
                    uses to 64 bytes and pad it to a multiple of 64."
            .to_owned(),
        (_, Some(object)) if object.is_array => format!(
            "Align {} to 64 bytes and pad its elements to a multiple of 64, so that no element \
             shares a line with its neighbour, and assert the size at compile time.",
            object.name
        ),
        ([object], _) if object.is_array => format!(
            "Pad the elements of {} to 64 bytes and align it to 64, so that each thread's element \
             has a line of its own, and assert the size at compile time.",
            object.name
        ),
        ([object], Some(_)) => format!(
            "Align {} to 64 bytes: it starts inside a line and spreads over more lines than it \
             needs; then give each thread's part of it a line of its own.",
            object.name
        ),
        ([object], None) if object.members.is_empty() => format!(
            "Align each thread's part of {} to 64 bytes and pad it to a multiple of 64.",
            object.name
        ),
        ([_], None) => separate_members(sharing, names),
        (several, _) => format!(
            "Separate {}, which lie in one line by accident: align each to 64 bytes.",
            list(
                &several
                    .iter()
                    .map(|object: &&ObjectUse| object.name.as_str())
                    .collect::<Vec<_>>()
            )
        ),
    }
}

fn separate_members(sharing: &Sharing, names: &LineNames) -> String {
    let written = names.written_in(sharing.written);
    let read = names.members_in(sharing.read_mostly);
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
    format!("{apart}{away} (align to 64 bytes), and assert the offsets at compile time.")
}

fn move_hot_writer(sharing: &Sharing, names: &LineNames) -> String {
    let written = names.written_in(sharing.written);
    let read = names.members_in(sharing.read_mostly);
    let written = if written.is_empty() {
        "the written bytes".to_owned()
    } else {
        list(&written)
    };
    if read.is_empty() {
        return format!(
            "Move {written} to a cache line of its own (align to 64 bytes), away from what other \
             threads only read."
        );
    }
    format!(
        "Move {written} to a cache line of its own (align to 64 bytes) and keep {} with other \
         read-mostly data, away from anything that is written often.",
        list(&read)
    )
}

fn lock_less(sharing: &Sharing, names: &LineNames) -> String {
    let lock = names.members_in(sharing.lock_word);
    let lock = if lock.is_empty() {
        "the lock".to_owned()
    } else {
        list(&lock)
    };
    if sharing.guarded == 0 {
        return format!(
            "Take {lock} less often or for less: split it into locks over smaller chunks of the \
             data, or shorten what is done under it."
        );
    }
    format!(
        "Take {lock} less often or for less (locks over smaller chunks of the data, shorter critical \
         sections); waiters that spin on it also steal the line of the data beside it, so move \
         written data to the next line if the lock stays contended."
    )
}

fn share_less(sharing: &Sharing, names: &LineNames) -> String {
    let shared = names.written_in(sharing.written);
    let shared = if shared.is_empty() {
        "these bytes".to_owned()
    } else {
        list(&shared)
    };
    format!(
        "The threads need the same bytes, so no layout helps: write {shared} less often, or give each \
         thread (or node) a copy on a line of its own and combine the copies when they are read."
    )
}

/// `a`, `a and b`, `a, b and c`, `a, b, c, d and 3 more`.
fn list(names: &[&str]) -> String {
    match names {
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
