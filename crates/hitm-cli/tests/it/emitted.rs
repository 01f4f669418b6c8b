//! What `hitm layout advise --emit` writes is compiled: members lie where the layout file has them, and
//! the program prints what it printed before.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use hitm_layout::layout_file::LayoutFile;
use hitm_test::process::Command;
use serde_json::Value;

use crate::programs;

/// A program of `fixtures/emit` and its structure.
struct Fixture {
    file: &'static str,
    of: &'static str,
    language: &'static str,
}

const fn fixture(file: &'static str, of: &'static str, language: &'static str) -> Fixture {
    Fixture { file, of, language }
}

fn output(command: &mut Command) -> (bool, String, String) {
    let output = command
        .within(Duration::from_secs(120))
        .stdin(Stdio::null())
        .output();
    let output = output.expect("the process starts");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    (
        output.status.success(),
        text(output.stdout),
        text(output.stderr),
    )
}

/// Compiles without a warning; values that are left out are meant to be.
fn compile(directory: &Path, file: &str, name: &str) {
    let of_c = [
        "-g",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-Wno-missing-field-initializers",
    ];
    let (compiler, options) = match Path::new(file).extension().and_then(|of| of.to_str()) {
        Some("rs") => ("rustc", &["--edition", "2024", "-g", "-Dwarnings"][..]),
        Some("cpp") => ("c++", &of_c[..]),
        _ => ("cc", &of_c[..]),
    };
    let mut command = Command::new(compiler);
    command
        .args(options)
        .args(["-o", name, file])
        .current_dir(directory);
    let (is_well, _, error) = output(&mut command);
    let text = || fs::read_to_string(directory.join(file)).unwrap_or_default();
    assert!(is_well, "{file}: {error}\n{}", text());
}

/// Offsets of members that have names, as the compiler that made the program laid them out.
fn compiled(directory: &Path, program: &str, of: &str) -> BTreeMap<String, u64> {
    let args = ["layout", "show", of, "-i", program, "--format", "json"];
    let shown = programs::run(directory, &args);
    let shown: Value = serde_json::from_slice(&shown.stdout).expect("the layout is JSON");
    let members = shown["members"].as_array().expect("members").iter();
    let place = |member: &Value| {
        let name = member["name"].as_str()?.to_owned();
        Some((name, member["offset_bytes"].as_u64()?))
    };
    members.filter_map(place).collect()
}

/// Advises, puts the answer into the source, compiles that and compares.
fn check(fixture: &Fixture, is_diff: bool) {
    let Fixture { file, of, language } = *fixture;
    let directory = tempfile::tempdir().expect("a temporary directory");
    let directory = directory.path();
    for name in [file, "profile.csv"] {
        let from = programs::root()
            .join("crates/hitm-cli/tests/fixtures/emit")
            .join(name);
        fs::copy(from, directory.join(name)).expect("the fixture is there");
    }
    compile(directory, file, "now");
    let mut args = vec!["layout", "advise", of, "-i", "now", "-p", "profile.csv"];
    args.extend(["-m", "broadwell-4s", "-o", "new.toml", "--emit", language]);
    args.extend(is_diff.then_some(["--source", file]).into_iter().flatten());
    let emitted = programs::run(directory, &args);
    let error = String::from_utf8_lossy(&emitted.stderr);
    assert!(emitted.status.success(), "{file}: {error}");
    let text = String::from_utf8(emitted.stdout).expect("source is UTF-8");
    let source = directory.join(file);
    if is_diff {
        fs::write(directory.join("a.diff"), text).expect("a temporary file");
        let mut patch = Command::new("patch");
        patch
            .args(["-s", "-p0", "-i", "a.diff"])
            .current_dir(directory);
        let (is_well, said, _) = output(&mut patch);
        assert!(is_well && said.is_empty(), "{file}: {said}");
    } else {
        let old = fs::read_to_string(&source).expect("the fixture");
        let (before, rest) = old.split_once("// begin\n").expect("a mark");
        let (_, behind) = rest.split_once("// end\n").expect("a mark");
        fs::write(&source, format!("{before}{text}{behind}")).expect("a temporary file");
    }
    compile(directory, file, "then");

    let layout = fs::read_to_string(directory.join("new.toml")).expect("the layout file");
    let layout = LayoutFile::parse(&layout, "new.toml").expect("the layout file is well");
    let got = compiled(directory, "then", of);
    let mut count = 0;
    for member in layout.structs[0]
        .members
        .iter()
        .filter(|member| member.bits.is_none())
    {
        if !member.name.starts_with('(') {
            assert_eq!(
                got.get(&member.name),
                Some(&member.offset_bytes),
                "{file}: {}",
                member.name
            );
            count += 1;
        }
    }
    assert!(count > 1, "{file} compares nothing");
    assert_ne!(got, compiled(directory, "now", of), "{file}: nothing moved");
    let [now, then] = ["now", "then"].map(|name| output(&mut Command::new(directory.join(name))));
    assert!(now.0 && !now.1.is_empty(), "{file} prints nothing");
    assert_eq!(now, then, "{file}: the program does something else");
}

#[test]
fn whole_declarations_lie_as_the_layout_file_says() {
    for fixture in [
        fixture("members.c", "box", "c"),
        fixture("members.cpp", "app::Box", "cpp"),
        fixture("slots.rs", "Crate", "rust"),
    ] {
        check(&fixture, false);
    }
}

#[test]
fn patched_c_means_what_it_meant() {
    check(&fixture("members.c", "box", "c"), true);
    check(&fixture("values.c", "box", "c"), true);
}

#[test]
fn patched_cpp_means_what_it_meant() {
    check(&fixture("classes.cpp", "app::Box", "cpp"), true);
    check(&fixture("values.cpp", "Box", "cpp"), true);
}

#[test]
fn patched_rust_means_what_it_meant() {
    check(&fixture("slots.rs", "Crate", "rust"), true);
    check(&fixture("slots.rs", "slots::Slot<u64>", "rust"), true);
}
