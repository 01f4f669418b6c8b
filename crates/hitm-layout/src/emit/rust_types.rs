//! Names of types of Rust as source can use them.
//!
//! Debug information has the paths at which types are defined. Some modules of the standard library
//! are private, allocators and hashers that are the default cannot be named, and references have no
//! lifetimes.

/// Paths at which the standard library defines types, and at which it shows them.
const SHOWN: [(&str, &str); 13] = [
    ("core::ops::function::", "core::ops::"),
    ("alloc::collections::btree::map::", "std::collections::"),
    ("alloc::collections::btree::set::", "std::collections::"),
    ("alloc::collections::vec_deque::", "std::collections::"),
    ("alloc::collections::binary_heap::", "std::collections::"),
    ("std::collections::hash::map::", "std::collections::"),
    ("std::collections::hash::set::", "std::collections::"),
    ("std::sync::poison::mutex::", "std::sync::"),
    ("std::sync::poison::rwlock::", "std::sync::"),
    ("std::sync::poison::condvar::", "std::sync::"),
    ("std::sync::poison::once::", "std::sync::"),
    ("std::sync::nonpoison::mutex::", "std::sync::nonpoison::"),
    ("alloc::", "std::"),
];

/// Arguments that are the default.
const DEFAULTS: [&str; 2] = [", alloc::alloc::Global", ", std::hash::random::RandomState"];

/// The name of a type, with paths that other modules can use. What is of `own_crate` is named from its
/// root.
pub(super) fn in_source(name: &str, own_crate: Option<&str>) -> String {
    let mut text = name.to_owned();
    for default in DEFAULTS {
        text = text.replace(default, "");
    }
    for (defined, shown) in SHOWN {
        text = with_path(&text, defined, shown);
    }
    if let Some(own) = own_crate {
        text = with_path(&text, &format!("{own}::"), "crate::");
    }
    with_calls(&with_lifetimes(&bare_objects(&text)))
}

/// Replaces the start of paths.
fn with_path(text: &str, old: &str, new: &str) -> String {
    let mut out = String::new();
    let mut at = 0;
    for (found, _) in text.match_indices(old) {
        let before = text[..found].chars().next_back();
        let is_start = !before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':');
        if is_start && found >= at {
            out += &text[at..found];
            out += new;
            at = found + old.len();
        }
    }
    out + &text[at..]
}

/// References in a structure that has no lifetimes live as long as the program.
fn with_lifetimes(text: &str) -> String {
    let mut out = String::new();
    for (at, c) in text.char_indices() {
        out.push(c);
        if c == '&' && !text[at + 1..].starts_with('\'') {
            out += "'static ";
        }
    }
    out
}

/// `Box<(dyn A + B)>` without the inner brackets, which only a reference needs.
fn bare_objects(text: &str) -> String {
    let Some((head, rest)) = text.split_once("<(dyn ") else {
        return text.to_owned();
    };
    let close = closing(rest, '(', ')');
    match close.filter(|close| rest[close + 1..].starts_with(['>', ','])) {
        Some(close) => {
            let (object, behind) = (&rest[..close], &rest[close + 1..]);
            format!(
                "{head}<dyn {}{}",
                bare_objects(object),
                bare_objects(behind)
            )
        }
        None => format!("{head}<(dyn {}", bare_objects(rest)),
    }
}

/// `Fn<(u32), Output=u8>` as `Fn(u32) -> u8`.
fn with_calls(text: &str) -> String {
    let Some((head, rest)) = ["Fn<(", "FnMut<(", "FnOnce<("]
        .into_iter()
        .find_map(|open| {
            let at = text.find(open)? + open.len();
            Some(text.split_at(at))
        })
    else {
        return text.to_owned();
    };
    let Some(close) = closing(rest, '(', ')') else {
        return text.to_owned();
    };
    let Some(of) = rest[close + 1..].strip_prefix(", Output=") else {
        return text.to_owned();
    };
    let Some(end) = closing(of, '<', '>') else {
        return text.to_owned();
    };
    let head = head.strip_suffix("<(").unwrap_or(head);
    let parameters = with_calls(rest[..close].trim_end_matches(','));
    let given = match &of[..end] {
        "()" => String::new(),
        given => format!(" -> {}", with_calls(given)),
    };
    format!("{head}({parameters}){given}{}", with_calls(&of[end + 1..]))
}

/// The bracket that closes one before the text.
fn closing(text: &str, open: char, close: char) -> Option<usize> {
    let mut depth = 1;
    let mut last = ' ';
    for (at, c) in text.char_indices() {
        // `->` closes nothing.
        depth += i32::from(c == open) - i32::from(c == close && last != '-');
        if depth == 0 {
            return Some(at);
        }
        last = c;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_those_of_source() {
        for (defined, source) in [
            ("u64", "u64"),
            (
                "alloc::vec::Vec<u8, alloc::alloc::Global>",
                "std::vec::Vec<u8>",
            ),
            (
                "std::collections::hash::map::HashMap<alloc::string::String, u32, std::hash::random::RandomState, alloc::alloc::Global>",
                "std::collections::HashMap<std::string::String, u32>",
            ),
            (
                "std::sync::poison::mutex::Mutex<app::inner::Pair>",
                "std::sync::Mutex<crate::inner::Pair>",
            ),
            (
                "core::option::Option<&str>",
                "core::option::Option<&'static str>",
            ),
            (
                "alloc::boxed::Box<(dyn core::ops::function::Fn<(u32), Output=u32> + core::marker::Send), alloc::alloc::Global>",
                "std::boxed::Box<dyn core::ops::Fn(u32) -> u32 + core::marker::Send>",
            ),
            (
                "dyn FnMut<(fn(u8) -> u8, T), Output=()>",
                "dyn FnMut(fn(u8) -> u8, T)",
            ),
            (
                "my_alloc::A<alloc::rc::Rc<u8, alloc::alloc::Global>>",
                "my_alloc::A<std::rc::Rc<u8>>",
            ),
        ] {
            assert_eq!(in_source(defined, Some("app")), source);
        }
    }
}
