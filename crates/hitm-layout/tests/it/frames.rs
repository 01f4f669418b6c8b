//! Variables on the stacks of functions, checked against comments in the source.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use hitm_layout::{Bytes, ObjectFile};

use crate::fixture::Fixture;
use crate::pointers::{PARENTHESES, own_line, rust_linker, wanted};

/// The variable on its function's stack that an instruction accesses, with the member. Those that are marked are given
/// to others.
fn accessed(file: &mut ObjectFile, vaddr: u64) -> Option<String> {
    let access = file.frame_access(vaddr)?;
    let variables = file.frame_variables(access.function);
    let holding = variables.iter().filter_map(|variable| {
        let is_live = (variable.begin..variable.end).contains(&vaddr);
        Some((!is_live, variable, variable.byte_at(access.offset)?))
    });
    let (_, variable, byte) = holding.min_by_key(|(is_dead, ..)| *is_dead)?;
    let is_given = ["count", "pair", "flags", "inner"].contains(&variable.name.rsplit(':').next()?);
    assert!(variable.is_address_taken || !is_given, "{variable:?}");
    let location = file.frame_location(variable, 0, byte, 1);
    Some(location.path.text)
}

fn check(compiler: &str, flags: &[&str]) {
    let source = "frames.c";
    let fixture = Fixture::compile(compiler, source, flags);
    let bytes = Bytes::from(fs::read(&fixture.program).unwrap());
    let mut file = ObjectFile::parse(bytes, "fixture").unwrap();
    let marks = wanted(source, "//$ ");
    assert!(!marks.is_empty());
    let mut found: BTreeMap<u32, BTreeSet<String>> = BTreeMap::new();
    let segments = file.segments().iter();
    let text: Vec<_> = segments.map(|s| s.vaddr..s.vaddr + s.file_size).collect();
    for vaddr in text.into_iter().flatten() {
        let Some(line) = own_line(file.code_location(vaddr), "frames") else {
            continue;
        };
        found
            .entry(line)
            .or_default()
            .extend(accessed(&mut file, vaddr));
    }
    for (line, wanted) in marks {
        let found = found.get(&line).cloned().unwrap_or_default();
        let must: BTreeSet<String> = wanted
            .iter()
            .filter(|name| !name.starts_with('('))
            .cloned()
            .collect();
        let may = wanted
            .iter()
            .map(|name| name.trim_matches(PARENTHESES).to_owned());
        let may: BTreeSet<String> = may.collect();
        assert!(
            must.is_subset(&found) && found.is_subset(&may),
            "{compiler} {flags:?}, {source}:{line}: {found:?}, wanted {wanted:?}"
        );
    }
}

#[test]
fn x86_64() {
    for level in ["-O0", "-O1", "-O2"] {
        for frame in ["-fomit-frame-pointer", "-fno-omit-frame-pointer"] {
            check("gcc", &["-g", level, frame]);
            check("clang", &["-g", level, frame]);
        }
    }
}

#[test]
fn aarch64() {
    let linker = rust_linker();
    // Without optimisation clang counts some variables from another register than the frame's.
    for level in ["-O1", "-O2"] {
        let flags = [
            "--target=aarch64-linux-gnu",
            "-g",
            "-DALONE",
            "-ffreestanding",
            "-nostdlib",
            "-static",
            "-Wl,--unresolved-symbols=ignore-all",
            &linker,
            level,
        ];
        check("clang", &flags);
    }
}
