//! Functions of stripped programs: each address has the name that it has in the program before, or that of
//! its function's begin, and never another one.

use hitm_test::process::Command;
use std::fs;
use std::path::{Path, PathBuf};

use hitm_layout::{Bytes, ObjectFile};
use tempfile::TempDir;

use crate::fixture::Fixture;

fn open(path: &Path) -> ObjectFile {
    let bytes = Bytes::from(fs::read(path).unwrap());
    ObjectFile::parse(bytes, "program").unwrap()
}

fn run(program: &str, args: &[&str], directory: &Path) {
    let status = Command::new(program)
        .args(args)
        .current_dir(directory)
        .status();
    let status =
        status.unwrap_or_else(|error| panic!("{program} is needed for this test: {error}"));
    assert!(status.success(), "{program} {args:?}");
}

/// The functions of a program whose names `is_wanted`, with their first addresses and sizes.
fn functions(program: &Path, is_wanted: impl Fn(&str) -> bool) -> Vec<(String, u64, u64)> {
    let output = Command::new("nm").arg("-S").arg(program).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let parse = |line: &str| {
        let fields: Vec<&str> = line.split(' ').collect();
        let [start, size, kind, name] = fields.as_slice() else {
            return None;
        };
        let number = |hex| u64::from_str_radix(hex, 16).ok();
        let is_function = matches!(*kind, "t" | "T") && is_wanted(name);
        is_function.then_some(((*name).to_owned(), number(start)?, number(size)?))
    };
    text.lines().filter_map(parse).collect()
}

/// The name of each byte of some functions; `name` is what it must be, from the function's name and begin.
fn check(stripped: &Path, functions: &[(String, u64, u64)], name: impl Fn(&str, u64) -> String) {
    let mut file = open(stripped);
    assert!(functions.len() >= 3, "{functions:?}");
    for (own, start, size) in functions {
        for address in [*start, start + size / 2, start + size - 1] {
            let found = file.code_location(address);
            let wanted = name(own, *start);
            assert_eq!(
                found.function,
                Some(wanted.clone()),
                "{own} at {address:#x}"
            );
            assert_eq!(found.symbol, Some((wanted, address - start)));
        }
    }
}

const OWN: &[&str] = &[
    "count", "chain", "loop", "inner", "global", "make", "fill", "pick",
];

#[test]
fn functions_without_symbols_have_the_address_of_their_begin() {
    let fixture = Fixture::compile("cc", "pointers.c", &["-g", "-O2"]);
    let own = functions(&fixture.program, |name| OWN.contains(&name));
    let directory = fixture.program.parent().unwrap();
    run(
        "strip",
        &["-o", "stripped", fixture.program.to_str().unwrap()],
        directory,
    );
    check(&directory.join("stripped"), &own, |_, start| {
        format!("func@{start:#x}")
    });
    // Between functions there is none.
    let mut file = open(&directory.join("stripped"));
    let plt_head = file.segments().iter().map(|s| s.vaddr).max().unwrap();
    assert_eq!(file.code_location(plt_head).function, None);
}

/// Makes `.gnu_debugdata` as Fedora's find-debuginfo does: a file with symbols alone, compressed.
fn with_mini_debug(fixture: &Fixture) -> PathBuf {
    let directory = fixture.program.parent().unwrap();
    let program = fixture.program.to_str().unwrap();
    run(
        "objcopy",
        &["--only-keep-debug", program, "mini"],
        directory,
    );
    run("objcopy", &["--strip-debug", "mini"], directory);
    run("xz", &["--force", "mini"], directory);
    run("strip", &["-o", "stripped", program], directory);
    let args = ["--add-section", ".gnu_debugdata=mini.xz", "stripped"];
    run("objcopy", &args, directory);
    directory.join("stripped")
}

#[test]
fn functions_have_the_names_of_compressed_symbols() {
    let fixture = Fixture::compile("cc", "pointers.c", &["-g", "-O2"]);
    let own = functions(&fixture.program, |name| OWN.contains(&name));
    check(&with_mini_debug(&fixture), &own, |name, _| name.to_owned());
}

proptest::proptest! {
    /// Any bytes in the places of tables, Go's with a sound head.
    #[test]
    fn hostile_tables_name_nothing_wrong(
        mut bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..300),
        table in 0..4usize,
    ) {
        let names = [".gopclntab", ".gopclntab", ".gnu_debugdata", ".eh_frame"];
        if table == 1 && bytes.len() > 80 {
            bytes[..8].copy_from_slice(&[0xf1, 0xff, 0xff, 0xff, 0, 0, 1, 8]);
            for at in [8, 32, 64] {
                bytes[at + 1..at + 8].fill(0);
            }
        }
        let mut elf = hitm_test::elf::Elf::default();
        elf.loaded(".text", 4, 0x1100, vec![0x90; 0x100]);
        elf.loaded(names[table], 0, 0x2000, bytes);
        let mut file = ObjectFile::parse(Bytes::from(elf.finish()), "hostile").unwrap();
        for address in (0x1000..0x1300).step_by(7) {
            if let Some((_, offset)) = file.code_location(address).symbol {
                proptest::prop_assert!(offset <= address);
            }
        }
    }
}

#[test]
fn go_functions_have_the_names_of_gos_own_table() {
    const SOURCE: &str = "package main\n\nimport \"fmt\"\n\n\
        type counter struct{ hits int }\n\n\
        //go:noinline\nfunc (c *counter) count() { c.hits++ }\n\n\
        //go:noinline\nfunc twice(c *counter) { c.count(); c.count() }\n\n\
        func main() {\n\tc := &counter{}\n\ttwice(c)\n\tfmt.Println(c.hits)\n}\n";
    if Command::new("go").arg("version").output().is_err() {
        return;
    }
    let directory: TempDir = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("main.go"), SOURCE).unwrap();
    for mode in ["-buildmode=exe", "-buildmode=pie"] {
        run(
            "go",
            &["build", mode, "-o", "whole", "main.go"],
            directory.path(),
        );
        let args = ["build", mode, "-ldflags=-s -w", "-o", "stripped", "main.go"];
        run("go", &args, directory.path());
        let whole = functions(&directory.path().join("whole"), |name| {
            name.starts_with("main.")
        });
        // Without symbols the linker puts functions at other addresses: by their order they are the same.
        let mut file = open(&directory.path().join("stripped"));
        let text = file
            .segments()
            .iter()
            .find(|s| s.vaddr > 0 && s.file_size > 4096)
            .copied();
        let text = text.unwrap();
        let mut found = Vec::new();
        for address in (text.vaddr..text.vaddr + text.file_size).step_by(16) {
            let name = file.code_location(address).function;
            found.extend(name.filter(|name| name.starts_with("main.")));
        }
        found.dedup();
        let mut wanted: Vec<(u64, String)> = whole.into_iter().map(|f| (f.1, f.0)).collect();
        wanted.sort();
        let wanted: Vec<String> = wanted.into_iter().map(|f| f.1).collect();
        assert_eq!(found, wanted, "{mode}");
    }
}
