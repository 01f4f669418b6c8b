//! Names of members that stay the same from run to run, from build to build, and when the program is renamed.

use std::collections::BTreeSet;

use crate::Report;

/// Stands for the file of every recorded program.
const PROGRAM: &str = "program";

/// Beginning of a stack's name. A thread has its program's name until it takes another.
const STACK: &str = "stack of ";

/// Text behind a file's name: of all its memory without names, of a place in it, of a function without a name.
const PLACES: [&str; 3] = [" (no name)", "+0x", "!"];

/// Turns names into keys. Programs lose their names where those are names of files: a variable or a
/// function may have the same one, and keeps it. Libraries keep theirs.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    programs: BTreeSet<String>,
}

impl Keys {
    /// The keys of a report.
    pub(crate) fn of(report: &Report) -> Keys {
        let command = report.run.command.first().map(String::as_str);
        let processes = report.processes.iter();
        Keys::new(
            command
                .into_iter()
                .chain(processes.map(|one| &*one.program)),
        )
    }

    /// The keys of a recording of these files.
    pub(crate) fn new<'a>(programs: impl Iterator<Item = &'a str>) -> Keys {
        let names = programs.filter_map(|path| path.rsplit('/').next());
        let names = names.filter(|name| !name.is_empty());
        Keys {
            programs: names.map(str::to_owned).collect(),
        }
    }

    /// The name without lines in the source, ids of threads and names of programs.
    pub(crate) fn key(&self, name: &str) -> String {
        let name = without_lines(name);
        for program in &self.programs {
            if let Some(place) = place_of_program(&name, program) {
                let (before, after) = (&name[..place], &name[place + program.len()..]);
                return format!("{before}{PROGRAM}{after}");
            }
        }
        name
    }
}

/// Offset of a program's name in the name of a stack, of a place in its file, or of a block that a
/// place in its file has allocated.
fn place_of_program(name: &str, program: &str) -> Option<usize> {
    if let Some(thread) = name.strip_prefix(STACK) {
        let after = thread.strip_prefix(program)?;
        return (after.is_empty() || after.starts_with([' ', '+'])).then_some(STACK.len());
    }
    let is_place = |after: &str, marks: &[&str]| marks.iter().any(|mark| after.starts_with(mark));
    if name
        .strip_prefix(program)
        .is_some_and(|after| is_place(after, &PLACES))
    {
        return Some(0);
    }
    let is_memory = name.starts_with("heap block of ") || name.starts_with("mapping from ");
    let site = name.find(" from ").filter(|_| is_memory)? + " from ".len();
    // `from main (no name)` is a function.
    let after = name[site..].strip_prefix(program)?;
    is_place(after, &PLACES[1..]).then_some(site)
}

/// The name without lines in the source and ids of threads: `heap block of 64 B from main.c:12` without `:12`,
/// `stack of server:17/19` without `:17/19`.
fn without_lines(name: &str) -> String {
    let mut kept = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(at) = rest.find(':') {
        let (before, after) = (&rest[..at], &rest[at + 1..]);
        let behind = without_number(after);
        let is_line = behind.len() < after.len() && before.ends_with(|c: char| c != ':');
        kept.push_str(before);
        if !is_line {
            kept.push(':');
        }
        rest = if is_line { behind } else { after };
    }
    kept.push_str(rest);
    kept
}

/// The text behind a number, or behind two with a slash between them.
fn without_number(text: &str) -> &str {
    let behind = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let Some(second) = behind
        .strip_prefix('/')
        .filter(|_| behind.len() < text.len())
    else {
        return behind;
    };
    let behind_both = second.trim_start_matches(|c: char| c.is_ascii_digit());
    match behind_both.len() < second.len() {
        true => behind_both,
        false => behind,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(programs: &[&str]) -> Keys {
        Keys::new(programs.iter().copied())
    }

    #[test]
    fn lines_in_the_source_and_ids_are_left_out_of_names() {
        let of = |name| keys(&[]).key(name);
        assert_eq!(
            of("heap block of 64 B from main.c:12+0x8"),
            "heap block of 64 B from main.c+0x8"
        );
        assert_eq!(of("std::vector::x"), "std::vector::x");
        assert_eq!(of("a::1b"), "a::1b");
        assert_eq!(of("f.x:"), "f.x:");
        assert_eq!(of("stack of a:12 (no name)"), "stack of a (no name)");
        assert_eq!(of("stack of a:12/345 (no name)"), "stack of a (no name)");
        assert_eq!(of("a:1/b"), "a/b");
    }

    #[test]
    fn programs_lose_their_names_wherever_these_are_files() {
        let of = |name| keys(&["./bin/packed", "sh"]).key(name);
        for (name, key) in [
            ("packed (no name)", "program (no name)"),
            ("sh (no name)", "program (no name)"),
            ("stack of packed:12 (no name)", "stack of program (no name)"),
            (
                "heap block of 64 B from packed+0x119f[] (no name)",
                "heap block of 64 B from program+0x119f[] (no name)",
            ),
            (
                "mapping from packed!func@0x12 (no name)",
                "mapping from program!func@0x12 (no name)",
            ),
        ] {
            assert_eq!(of(name), key);
            assert_eq!(of(key), key, "a key is its own");
        }
    }

    #[test]
    fn variables_functions_and_libraries_keep_their_names() {
        let keys = keys(&["packed"]);
        for name in [
            "packed",
            "packed.x",
            "packed[].x",
            "packed::x",
            "packed2 (no name)",
            "libpacked.so (no name)",
            "stack of packed2",
            "stack of worker (no name)",
            "heap block of 64 B from packed (packed.c)[]",
            "heap block of 64 B from packed (no name)",
        ] {
            assert_eq!(keys.key(name), name);
        }
    }
}
