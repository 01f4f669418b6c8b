//! Names of addresses and threads, as the report needs them.

use std::collections::BTreeSet;

use hitm_base::{CodeAddr, ThreadId};
use hitm_recording::{CodeLabel, DataLabel, KnownAs, SyncObject, TypePlace};

/// Names for what a recording knows as numbers only. Every method must answer the same for the same
/// argument, or the report's bytes change from run to run.
pub trait Names {
    /// The object that holds the byte at `addr`, of which `size` bytes are accessed; `None` when
    /// nothing is known about it.
    fn data(&self, addr: u64, size: u8) -> Option<DataLabel>;

    /// The object and member at `addr`, or its address when nothing is known about it.
    fn place(&self, addr: u64, size: u8) -> String {
        match self.data(addr, size) {
            Some(name) => name.whole(),
            None => format!("{:#x}", self.shown(addr)),
        }
    }

    /// The place in the source of the instruction at `code`.
    fn code(&self, code: CodeAddr) -> CodeLabel;

    /// The functions that the instruction at `code` is in, by inlining: the outermost first.
    fn code_frames(&self, code: CodeAddr) -> Vec<CodeLabel> {
        vec![self.code(code)]
    }

    /// The functions that the instruction at `code` is in, from that of [`Names::code`] outwards: one at least.
    fn code_outwards(&self, code: CodeAddr) -> Vec<CodeLabel> {
        let label = self.code(code);
        let mut frames = self.code_frames(code);
        frames.reverse();
        match frames.iter().position(|frame| *frame == label) {
            Some(own) => frames.split_off(own),
            None => vec![label],
        }
    }

    /// The label of a thread: its name if it has one, and its tid.
    fn thread(&self, thread: ThreadId) -> String;

    /// Kind of the object that holds the byte at `addr`: objects of one type, and heap blocks of one
    /// allocation site, are of one kind. `None` when nothing is known about it.
    fn kind(&self, addr: u64) -> Option<String> {
        self.data(addr, 1).map(|name| name.kind())
    }

    /// Returns true for an access that is none of the program's own: by a language's runtime, or by the C
    /// library or the dynamic loader to their own variables.
    fn is_of_runtime(&self, _addr: u64, _code: CodeAddr) -> bool {
        false
    }

    /// Returns true for an instruction of the C library, of what compilers add to it, or of a language's runtime.
    fn is_of_library(&self, _code: CodeAddr) -> bool {
        false
    }

    /// The category of an address of a recorded machine; `None` when nothing identifies it.
    fn known_as(&self, _addr: u64) -> Option<KnownAs> {
        None
    }

    /// The object of type `type_name` that holds the byte at `addr`, and the byte's offset in it.
    fn place_in_type(&self, _addr: u64, _size: u8, _type_name: &str) -> Option<TypePlace> {
        None
    }

    /// The type of the object that holds the byte at `addr`: of an array, its elements'.
    fn type_of(&self, _addr: u64, _size: u8) -> Option<String> {
        None
    }

    /// The program that runs the instruction at `code` in a thread; none where the address does not
    /// tell.
    fn process(&self, _thread: ThreadId, _code: CodeAddr) -> Option<String> {
        None
    }

    /// The member at a place in a type; none when only its objects have names.
    fn member_of_type(&self, _type_name: &str, _place: TypePlace, _size: u8) -> Option<String> {
        None
    }

    /// The object by which threads agree that an access of `size` bytes at `addr` touches, by its type.
    fn sync_object(&self, _addr: u64, _size: u8) -> Option<SyncObject> {
        None
    }

    /// Returns true if the type of the object at `addr` is known, so that [`Names::sync_object`] would
    /// know a lock.
    fn has_type(&self, _addr: u64, _size: u8) -> bool {
        false
    }

    /// An address as its process sees it, where several processes are told apart by theirs.
    fn shown(&self, addr: u64) -> u64 {
        addr
    }
}

/// Longest name that sentences have as it is.
const BRIEF_MAX: usize = 48;

/// A name for a sentence: of a long one, what its types are generic over, and the members of types without a
/// name, are left out.
pub(crate) fn brief(name: &str) -> String {
    if name.chars().count() <= BRIEF_MAX {
        return name.to_owned();
    }
    let (mut kept, mut depth) = (String::new(), 0_usize);
    for c in name.chars() {
        let closes = matches!(c, '>' | '}') && depth > 0;
        depth -= usize::from(closes);
        if depth == 0 {
            kept.push(c);
        }
        if matches!(c, '<' | '{') {
            if depth == 0 {
                kept.push_str("..");
            }
            depth += 1;
        }
    }
    kept
}

/// A function without what it stands in: `add` of `<main::Sum as Counter>::add` and of `main::add::{{closure}}`.
pub(crate) fn without_scope(function: &str) -> &str {
    let mut name = function;
    while let Some(outer) = name.strip_suffix("::{{closure}}") {
        name = outer;
    }
    // `operator<<` and `operator->` are no brackets.
    if name.matches('<').count() != name.matches('>').count() || name.contains("operator") {
        return name;
    }
    let (mut depth, mut start) = (0_usize, 0);
    for (at, c) in name.char_indices() {
        match c {
            '<' | '(' | '{' => depth += 1,
            '>' | ')' | '}' => depth = depth.saturating_sub(1),
            ':' if depth == 0 => start = at + 1,
            _ => {}
        }
    }
    match &name[start..] {
        "" => name,
        own => own,
    }
}

/// Names for one sentence: of places in one heap block, mapping or stack, all but the first are their
/// offsets alone.
pub(crate) fn without_repeats<T: AsRef<str>>(names: &[T]) -> Vec<&str> {
    let mut block = None;
    let names = names.iter().map(AsRef::as_ref);
    names
        .map(|name: &str| {
            let at = name.rfind("+0x").filter(|_| name.contains(' '));
            let of = at.map(|at| &name[..at]);
            let is_known = of.is_some() && of == block;
            block = of;
            match at {
                Some(at) if is_known => &name[at..],
                _ => name,
            }
        })
        .collect()
}

/// The array inside an object, if places are in several elements of it and nowhere else: `requests.shards` of
/// `requests.shards[0].n` and `requests.shards[1].n`.
pub(crate) fn array_member_of<'n>(places: &[&'n str]) -> Option<&'n str> {
    let (first, others) = places.split_first()?;
    let is_common = |at: &usize| {
        others
            .iter()
            .all(|other| other.get(..=*at) == first.get(..=*at))
    };
    let mut brackets = first.match_indices('[').map(|(at, _)| at);
    let at = brackets.rfind(is_common)?;
    let index = |place: &&str| {
        let (index, _) = place[at + 1..].split_once(']')?;
        index.parse::<u64>().ok()
    };
    let indices: Option<BTreeSet<u64>> = places.iter().map(index).collect();
    let array = &first[..at];
    (indices?.len() > 1 && array.contains('.')).then_some(array)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_array_is_known_by_places_in_several_elements() {
        let shards = ["requests.shards[0].n", "requests.shards[12].n"];
        assert_eq!(array_member_of(&shards), Some("requests.shards"));
        assert_eq!(
            array_member_of(&["s.a[1].b[0]", "s.a[1].b[2]"]),
            Some("s.a[1].b")
        );
        assert_eq!(
            array_member_of(&["s.a[1].b[0]", "s.a[2].b[0]"]),
            Some("s.a")
        );
        for none in [
            vec!["s.a[1]", "s.b[2]"],
            vec!["s.a[1].x", "s.a[1].y"],
            vec!["s.a[1]", "s.last"],
            vec!["s.a[1]"],
            // An array that is an object by itself.
            vec!["shards[0].n", "shards[1].n"],
            vec![],
        ] {
            assert_eq!(array_member_of(&none), None, "{none:?}");
        }
    }

    #[test]
    fn long_names_lose_what_they_are_generic_over() {
        assert_eq!(brief("Vec<u8>.len"), "Vec<u8>.len");
        let long = "ArcInner<std::sync::rwlock::RwLock<alloc::vec::Vec<u8>>>.data.inner";
        assert_eq!(brief(long), "ArcInner<..>.data.inner");
        let shape = "go.shape.struct { main.buf []main.frame; main.next sync/atomic.Int64 }.next.v";
        assert_eq!(brief(shape), "go.shape.struct {..}.next.v");
        assert_eq!(brief(&"a->b".repeat(20)), "a->b".repeat(20));
    }

    #[test]
    fn a_function_without_its_scope() {
        let names = [
            ("count", "count"),
            ("std_rwlock::main::{{closure}}::{{closure}}", "main"),
            ("<main::Sum as main::Counter<u64>>::add", "add"),
            ("ns::Pool<int, std::less<int>>::take(int)", "take(int)"),
            ("main.(*Pool).Take", "main.(*Pool).Take"),
            ("std::operator<<", "std::operator<<"),
            ("a::", "a::"),
            ("", ""),
        ];
        for (name, own) in names {
            assert_eq!(without_scope(name), own);
        }
    }

    #[test]
    fn a_block_is_named_once() {
        let names = [
            "heap block of 16 B from f+0x8",
            "heap block of 16 B from f+0x9",
            "a.b",
            "x+0x1",
            "x+0x2",
        ];
        let wanted = [
            "heap block of 16 B from f+0x8",
            "+0x9",
            "a.b",
            "x+0x1",
            "x+0x2",
        ];
        assert_eq!(without_repeats(&names), wanted);
    }
}
