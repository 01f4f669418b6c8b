//! Types of memory that is reached through pointers, checked against comments in the source.

use hitm_test::process::Command;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use hitm_layout::{Bytes, CodeLocation, ObjectFile, ResultUse, TypeId};

use crate::fixture::Fixture;

/// The comments of a source file, by line: accesses (`//=`) and results of calls (`//@`).
pub(crate) fn wanted(source: &str, mark: &str) -> BTreeMap<u32, BTreeSet<String>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/it/fixtures")
        .join(source);
    let text = fs::read_to_string(path).unwrap();
    let lines = (1..).zip(text.lines());
    let marked = lines.filter_map(|(line, text)| {
        let names = text.split(mark).nth(1)?.split(" & ");
        let names = names
            .map(|name| name.trim().to_owned())
            .filter(|name| name != "-");
        Some((line, names.collect()))
    });
    marked.collect()
}

/// Around what the compiler may do on another line.
pub(crate) const PARENTHESES: &[char] = &['(', ')'];

fn bare(name: &str) -> &str {
    let name = name.strip_prefix("const ").unwrap_or(name);
    name.strip_prefix("struct ").unwrap_or(name)
}

fn member(file: &mut ObjectFile, type_id: TypeId, offset: u64) -> String {
    let of = file.types().get(type_id);
    let (mut name, size) = (bare(&of.name).to_owned(), of.size.unwrap_or(0));
    // C++'s libraries know a type by many names.
    if let Some(own) = file
        .types()
        .layout(type_id)
        .and_then(|layout| layout.name.clone())
    {
        name = own.to_string();
    }
    file.members_of(&name, type_id, size, offset..offset + 1)
        .text
}

/// The line of the file called `stem` that an instruction comes from, perhaps by inlined calls.
pub(crate) fn own_line(location: CodeLocation, stem: &str) -> Option<u32> {
    let innermost = (location.file, location.line);
    let callers = location
        .inlined_from
        .into_iter()
        .map(|frame| (frame.file, frame.line));
    let mut all = std::iter::once(innermost).chain(callers);
    all.find(|(file, _)| file.as_ref().is_some_and(|file| file.contains(stem)))?
        .1
}

/// Compares what is found for the instructions of each marked line with the line's comment.
fn check(compiler: &str, source: &str, flags: &[&str]) {
    check_found(compiler, source, flags, true);
}

/// The same; where functions of libraries are not inlined, names may be missing, but not wrong.
fn check_found(compiler: &str, source: &str, flags: &[&str], is_complete: bool) {
    let fixture = Fixture::compile(compiler, source, flags);
    let bytes = Bytes::from(fs::read(&fixture.program).unwrap());
    let mut file = ObjectFile::parse(bytes, "fixture").unwrap();
    let stem = source.split('.').next().unwrap();
    let (accesses, calls) = (wanted(source, "//= "), wanted(source, "//@ "));
    let mut found: BTreeMap<u32, BTreeSet<String>> = BTreeMap::new();
    let mut results: BTreeMap<u32, BTreeSet<String>> = BTreeMap::new();
    let text: Vec<_> = file
        .segments()
        .iter()
        .map(|s| s.vaddr..s.vaddr + s.file_size)
        .collect();
    let mut passed = 0;
    for vaddr in text.into_iter().flatten() {
        if vaddr < passed {
            continue;
        }
        let location = file.code_location(vaddr);
        let owner = location.symbol.as_ref().map_or("", |symbol| &symbol.0);
        let Some(line) = own_line(location.clone(), stem) else {
            // Functions of Rust's libraries are many, and begin at multiples of 16.
            let is_rust = source.ends_with(".rs") && owner.contains("::");
            let is_library = is_rust && !owner.starts_with(stem);
            passed = if is_library { (vaddr | 15) + 1 } else { passed };
            continue;
        };
        if let Some(accessed) = file.accessed_type(vaddr) {
            let name = member(&mut file, accessed.type_id, accessed.offset);
            found.entry(line).or_default().insert(name);
        }
        let result = match file.result_use(vaddr + 1) {
            ResultUse::PointsAt(to) => bare(&file.types().get(to).name).to_owned(),
            ResultUse::Returned => "returned".to_owned(),
            ResultUse::Unknown => continue,
        };
        results.entry(line).or_default().insert(result);
    }
    for (marks, found) in [(accesses, found), (calls, results)] {
        assert!(!marks.is_empty());
        let different = marks.iter().filter_map(|(line, wanted)| {
            let found = found.get(line).cloned().unwrap_or_default();
            let is_hoisted = |name: &&String| !found.contains(name.trim_matches(PARENTHESES));
            let missing = wanted
                .iter()
                .filter(is_hoisted)
                .any(|name| !name.starts_with('('));
            let named: Vec<&str> = wanted
                .iter()
                .map(|name| name.trim_matches(PARENTHESES))
                .collect();
            let is_wrong = found.iter().any(|name| !named.contains(&name.as_str()));
            ((missing && is_complete) || is_wrong)
                .then(|| format!("{source}:{line}: {found:?}, wanted {wanted:?}"))
        });
        let different: Vec<String> = different.collect();
        assert!(different.is_empty(), "{compiler} {flags:?}: {different:#?}");
    }
}

#[test]
fn c() {
    for level in ["-O0", "-O1", "-O2", "-O3"] {
        for format in ["-gdwarf-4", "-gdwarf-5"] {
            check("gcc", "pointers.c", &["-g", format, level]);
        }
        check("clang", "pointers.c", &["-g", level]);
    }
}

#[test]
fn c_aarch64() {
    let linker = rust_linker();
    for level in ["-O0", "-O1", "-O2", "-O3"] {
        let mut flags = vec![
            "--target=aarch64-linux-gnu",
            "-g",
            "-DALONE",
            "-ffreestanding",
            // Beside a GCC for it, clang calls that one's functions.
            "-mno-outline-atomics",
            level,
        ];
        flags.extend([
            "-nostdlib",
            "-static",
            "-Wl,--unresolved-symbols=ignore-all",
            &linker,
        ]);
        check("clang", "pointers.c", &flags);
    }
}

#[test]
fn cpp() {
    for level in ["-O0", "-O1", "-O2"] {
        for format in ["-gdwarf-4", "-gdwarf-5"] {
            let flags = ["-g", format, level];
            check_found("g++", "pointers.cpp", &flags, level != "-O0");
        }
    }
}

#[test]
fn rust() {
    for level in ["-Copt-level=0", "-Copt-level=2", "-Copt-level=3"] {
        // The third level hands parts of parameters to functions.
        let is_inlined = level == "-Copt-level=2";
        let flags = ["--edition=2024", "-Cdebuginfo=2", level];
        check_found("rustc", "pointers.rs", &flags, is_inlined);
    }
}

/// The linker of all platforms that comes with the Rust compiler, as the compiler's flag.
pub(crate) fn rust_linker() -> String {
    let output = Command::new("rustc")
        .args(["--print", "target-libdir"])
        .output()
        .unwrap();
    let library = PathBuf::from(String::from_utf8(output.stdout).unwrap().trim());
    let linker = library.with_file_name("bin").join("gcc-ld/ld.lld");
    format!("--ld-path={}", linker.display())
}
