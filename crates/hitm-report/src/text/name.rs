//! Names that fit: the middle of a path gives way, and its last member stays whole.
//!
//! A path is a member of an object (`rd.cpupri.count`), a function with its scope (`a::b::c`) or a file
//! (`src/a.c:12`). What stands in brackets is no path of its own.

use hitm_base::printable;

use super::table::shorten;

/// The longest last member that a column keeps whole. Assumed 32 (24 to 48): longer ones, such as functions with
/// their type parameters, would leave no room for figures.
const LAST_MAX: usize = 32;
/// The shortest part of a beginning that says something: `heap..count`.
const HEAD_MIN: usize = 4;
/// Stands for what is left out.
const GAP: usize = 2;

/// `text`, printable, in at most `width` characters. Keeps, in this order: the last member, the one before it, the
/// first, and the others from the end.
pub(crate) fn shorten_name(text: &str, width: usize) -> String {
    let text: Vec<char> = printable(text).chars().collect();
    if text.len() <= width {
        return text.into_iter().collect();
    }
    let starts = starts(&text);
    let (Some(last), Some(first_end)) = (starts.last(), starts.first()) else {
        return shorten(&text.iter().collect::<String>(), width);
    };
    let tail = |from: usize| without_separator(&text[from..]);
    let join = |head: &[char], tail: &[char]| -> String {
        head.iter().chain(&['.', '.']).chain(tail).collect()
    };
    let before = starts.len() - 1;
    let fits = |head: usize, from: &usize| head + GAP + tail(*from).len() <= width;
    let head = &text[..*first_end];
    let of_several = &starts[..before];
    let with_head = of_several.iter().find(|from| fits(head.len(), from));
    if let Some(from) = with_head {
        return join(head, tail(*from));
    }
    if let Some(from) = of_several.iter().find(|from| fits(0, from)) {
        return join(&[], tail(*from));
    }
    let room = width.saturating_sub(GAP + tail(*last).len());
    if fits(HEAD_MIN, last) {
        return join(without_blanks(&head[..room.min(head.len())]), tail(*last));
    }
    match fits(0, last) {
        true => join(&[], tail(*last)),
        false => shorten(&tail(*last).iter().collect::<String>(), width),
    }
}

/// The least width at which the last member of a printable name stays whole, or as much of it as columns keep.
pub(crate) fn width_min(text: &str) -> usize {
    let text: Vec<char> = text.chars().collect();
    match starts(&text).last() {
        None => text.len().min(LAST_MAX),
        Some(last) => (GAP + without_separator(&text[*last..]).len()).min(LAST_MAX),
    }
}

fn without_blanks(head: &[char]) -> &[char] {
    let blanks = head.iter().rev().take_while(|c| " ,".contains(**c));
    &head[..head.len() - blanks.count()]
}

fn without_separator(tail: &[char]) -> &[char] {
    let separator = tail.iter().take_while(|c| ".:/!".contains(**c)).count();
    match tail {
        ['-', '>', rest @ ..] => rest,
        _ => &tail[separator..],
    }
}

/// Places at which a part of the path begins, with its separator. The first part is not among them.
fn starts(text: &[char]) -> Vec<usize> {
    // An operator's name has brackets of one kind only.
    let count = |c: char| text.iter().filter(|other| **other == c).count();
    let has_parameters = count('<') > 0 && count('<') == count('>');
    let (mut depth, mut is_file) = (0_usize, false);
    let mut starts = Vec::new();
    for (at, c) in text.iter().enumerate() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            '<' if has_parameters => depth += 1,
            '>' if has_parameters => depth = depth.saturating_sub(1),
            _ if depth > 0 => continue,
            ' ' | ',' => is_file = false,
            '/' => is_file = true,
            _ => {}
        }
        if depth == 0 && at > 0 && is_separator(text, at, is_file) {
            starts.push(at);
        }
    }
    starts
}

fn is_separator(text: &[char], at: usize, is_file: bool) -> bool {
    let rest = &text[at..];
    match rest {
        ['.', next, ..] => {
            let is_name = next.is_ascii_alphabetic() || *next == '_';
            is_name && !is_file && !is_extension(&rest[1..])
        }
        [':', ':', _, ..] | ['+', '0', 'x', ..] | ['!', 'f', 'u', 'n', 'c', '@', ..] => true,
        ['-', '>', _, ..] => true,
        ['/', _, ..] => text[at - 1] != ' ',
        _ => false,
    }
}

/// Returns true for `c:12`, and for `so` with what may follow it.
fn is_extension(rest: &[char]) -> bool {
    let length = rest.iter().take_while(|c| c.is_ascii_alphanumeric());
    match (&rest[..length.clone().count()], &rest[length.count()..]) {
        (_, [':', line, ..]) => line.is_ascii_digit(),
        (['s', 'o'], [] | ['.' | ' ', ..]) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, width: usize, expected: &str) {
        assert_eq!(shorten_name(text, width), expected, "{text} in {width}");
    }

    #[test]
    fn the_last_member_stays_whole() {
        let name = "root_domain.cpupri.pri_to_cpu[0].count";
        check(name, 38, name);
        check(name, 33, "root_domain..pri_to_cpu[0].count");
        check(name, 31, "..cpupri.pri_to_cpu[0].count");
        check(name, 21, "..pri_to_cpu[0].count");
        check(name, 20, "root_domain..count");
        check(name, 12, "root_..count");
        check(name, 10, "..count");
        check(name, 7, "..count");
        assert_eq!(width_min(name), 7);
    }

    #[test]
    fn a_name_without_a_path_gives_way_in_the_middle() {
        check("dequeue_pushable_task", 12, "deque.._task");
        assert_eq!(width_min("dequeue_pushable_task"), 21);
        let long = "x".repeat(100);
        assert_eq!(width_min(&long), LAST_MAX);
        check(&format!("a.{long}"), 9, "xxxx..xxx");
        check("abc", 0, "..");
        check("memcached!func@0x16260", 21, "memcach..func@0x16260");
    }

    #[test]
    fn what_lies_in_brackets_is_no_path() {
        check("map<std::string, a.b>::find", 12, "map<st..find");
        check("operator<(a::b)", 12, "opera..a::b)");
        check("heap [1.x.y].count", 14, "heap [1..count");
        check("a->b->c->d", 7, "a..c->d");
    }

    #[test]
    fn files_keep_their_extension_and_line() {
        check(
            "heap 1,024 B, worker.c:123.count",
            20,
            "heap 1,024 B..count",
        );
        check("/usr/src/app/worker.c:123", 15, "..worker.c:123");
        check("/usr/lib/libz.so.1", 12, "..libz.so.1");
        check("libz.so.1 (no function known)", 16, "libz.so.. known)");
        check("heap 64 B, worker.c:1+0x8", 18, "heap 64 B, w..+0x8");
    }
}
