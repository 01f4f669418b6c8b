//! Names from outside that a terminal would act on: in programs, types, samples, scenarios, machines
//! and arguments. Text shows them escaped and in their line; JSON has them as they are.

use hitm_test::process::Command;
use std::path::Path;
use std::process::{Output, Stdio};

use crate::programs::root;
use hitm_test::btf::{Assembler, Info};
use hitm_test::perf_data::{Happened, Layout, bits, generate, vendors};

/// A title, a newline, a colour, C1, a right-to-left override, the end of a comment and of a field.
pub(crate) const HOSTILE: &str = "a\x1b]0;x\x07\nFORGED */ \x1b[2J\u{9b}31m\u{202e}\",;{";

/// The same as a file may be called.
pub(crate) fn file_name() -> String {
    HOSTILE.replace('/', "|")
}

/// Fails when text acts on a terminal, or when a name has begun a line. Tabs may indent.
fn assert_printable(text: &str, what: &str) {
    for line in text.lines() {
        let shown = line.trim_start_matches('\t');
        let acts = |c: char| c.is_control() || ('\u{2028}'..='\u{202e}').contains(&c);
        assert!(!shown.contains(acts), "{what}: {line:?}");
        assert!(!shown.trim_start().starts_with("FORGED"), "{what}: {text}");
    }
}

/// Runs `hitm` and returns exit code and both outputs, which must be printable.
fn printed(directory: &Path, args: &[&str]) -> (i32, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_hitm"))
        .args(args)
        .current_dir(directory)
        .env("PERF_BUILDID_DIR", directory.join("cache"))
        .env("DEBUGINFOD_CACHE_PATH", directory.join("none"))
        .stdin(Stdio::null())
        .output()
        .expect("hitm starts");
    text_of(&output, args)
}

pub(crate) fn text_of(output: &Output, args: &[&str]) -> (i32, String, String) {
    let code = output.status.code().expect("hitm ends by itself");
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("hitm prints UTF-8");
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_printable(&out, &format!("{args:?}"));
    assert_printable(&err, &format!("{args:?}"));
    (code, out, err)
}

pub(crate) fn temporary() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

pub(crate) fn write(directory: &Path, name: &str, bytes: impl AsRef<[u8]>) {
    std::fs::write(directory.join(name), bytes).expect("a temporary file");
}

/// `struct subject { int MEMBER; TYPE second; enum { VALUE } third; ... }` in BTF.
fn btf(member: &str, type_name: &str, moved: u32) -> Vec<u8> {
    let mut btf = Assembler::new(false);
    let int = btf.int("int", 4);
    let inner = btf.structure(type_name, 8, &[(member, int, 0), ("low", int, 32)]);
    let pointer = btf.of(hitm_test::btf::kind::PTR, "", inner);
    let value = btf.string(member);
    let info = Info::new(hitm_test::btf::kind::ENUM, false, 1);
    let unnamed = btf.record("", info, 4, &[value, 1]);
    let named = btf.record(type_name, info, 4, &[value, 1]);
    let members = [
        (member, int, 0),
        ("second", inner, 32),
        ("third", unnamed, 96),
        ("fourth", named, 128),
        ("fifth", pointer, 192 + moved),
    ];
    btf.structure("subject", 128, &members);
    btf.finish()
}

const PROFILE: &str = "\
# schema: 1
# name: two sides
# source: made up
# period_cycles: 1000000
member,function,loads,stores,rmws,cpus
third,ask,30000,0,0,1-3
fourth,count,0,10000,0,0
";

/// Plain names that take the room of escaped ones, so that text has as many lines.
pub(crate) fn same_room(text: &str) -> String {
    "n".repeat(hitm_base::printable(text).chars().count())
}

fn types(member: &str, type_name: &str) -> tempfile::TempDir {
    let directory = temporary();
    let path = directory.path();
    write(path, "a.btf", btf(member, type_name, 0));
    write(path, "b.btf", btf(member, type_name, 512));
    write(path, "p.csv", PROFILE);
    let name: String = type_name
        .chars()
        .map(|c| format!("\\U{:08x}", u32::from(c)))
        .collect();
    let rules = format!("schema = 1\n[[rule]]\nstruct = \"{name}\"\nsize_max_bytes = 4\n");
    write(path, "rules.toml", rules);
    directory
}

#[test]
fn types_are_shown_in_as_many_lines() {
    let plain = same_room(HOSTILE);
    let folders = [types(HOSTILE, HOSTILE), types(&plain, &format!("{plain}t"))];
    let question = ["layout", "advise", "subject", "-i", "a.btf", "-p", "p.csv"];
    let advise = [&question[..], &["-m", "xeon-480"]].concat();
    for args in [
        &["layout", "show", "subject", "-i", "a.btf"][..],
        &["layout", "show", "subject", "-i", "a.btf", "--expand"],
        &["layout", "list", "-i", "a.btf"],
        &["layout", "diff", "a.btf", "b.btf", "subject"],
        &["layout", "check", "a.btf", "--rules", "rules.toml"],
        &advise,
    ] {
        let [hostile, plain] =
            [&folders[0], &folders[1]].map(|folder| printed(folder.path(), args));
        assert_eq!(hostile.0, plain.0, "{args:?}: {hostile:?}");
        let lines = |text: &str| text.lines().count();
        assert!(lines(&hostile.1) > 0, "{args:?}: {hostile:?}");
        assert_eq!(
            lines(&hostile.1),
            lines(&plain.1),
            "{args:?}: {}",
            hostile.1
        );
        let json = [args, &["--format", "json"]].concat();
        let (_, json, _) = printed(folders[0].path(), &json);
        assert!(
            serde_json::from_str::<serde_json::Value>(&json).is_ok(),
            "{json}"
        );
    }
    let list = ["layout", "list", "-i", "a.btf", "--format", "json"];
    let (_, json, _) = printed(folders[0].path(), &list);
    let list: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let names = list["structs"].as_array().expect("a list");
    assert!(names.iter().any(|row| row["name"] == HOSTILE), "{json}");
}

#[test]
fn c_of_hostile_names_compiles() {
    let directory = types(HOSTILE, "t */ int forged(void) { return 0; } /*");
    let args = ["layout", "show", "subject", "-i", "a.btf", "--format", "c"];
    let (code, source, error) = printed(directory.path(), &args);
    assert_eq!(code, 0, "{error}");
    write(directory.path(), "a.c", &source);
    let program = directory.path().join("a.o");
    let mut cc = Command::new("cc");
    cc.args(["-c", "-Werror", "-Wno-comment", "-o"]);
    cc.arg(&program).arg(directory.path().join("a.c"));
    assert!(cc.status().expect("cc is installed").success(), "{source}");
    let symbols = Command::new("nm").arg(&program).output().expect("nm runs");
    assert!(symbols.stdout.is_empty(), "{source}");
}

#[test]
fn names_that_are_none_are_not_put_into_source() {
    for (member, type_name, named) in [
        ("x; int forged", "plain", "x; int forged"),
        ("x\n#include", "plain", "x\\n#include"),
        ("x", "t */ int forged; /*", "t */ int forged; /*"),
    ] {
        let directory = types(member, type_name);
        for language in ["c", "cpp", "kernel"] {
            let question = ["layout", "advise", "subject", "-i", "a.btf", "-p", "p.csv"];
            let emit = ["-m", "xeon-480", "--emit", language];
            let args = [&question[..], &emit].concat();
            let (code, out, error) = printed(directory.path(), &args);
            assert_eq!((code, out.as_str()), (2, ""), "{error}");
            assert!(error.contains(named), "{error}");
        }
    }
}

/// perf.data in which processes, files and events go by these names.
fn samples(process: &'static str, file: &'static str, event: &'static str) -> Vec<u8> {
    let words = vendors::intel();
    let mut content = vendors::content("x86_64", "GenuineIntel,6,85,7", &words, bits::WEIGHT);
    let pids: Vec<u32> = content.mappings.iter().map(|mapping| mapping.pid).collect();
    for mapping in &mut content.mappings {
        mapping.path = file;
    }
    for pid in pids {
        content.happened.push((0, Happened::Named(pid, process)));
    }
    content.events[0].name = event;
    generate(&content, Layout::PLAIN)
}

#[test]
fn samples_are_shown_in_as_many_lines() {
    const PROCESS: &str = "e\x1b[2J\nFORGED";
    const EVENT: &str = "load\x1b[2J\nFORGED";
    let (hostile, plain) = (temporary(), temporary());
    write(hostile.path(), "x.data", samples(PROCESS, HOSTILE, EVENT));
    // Advice breaks names at blanks, and of a path it has what is behind the last slash.
    let alike = |c: char| if matches!(c, '/' | ' ') { c } else { 'n' };
    let room = |text: &str| {
        let plain: String = hitm_base::printable(text).chars().map(alike).collect();
        &*Box::leak(plain.into_boxed_str())
    };
    let bytes = samples(room(PROCESS), room(HOSTILE), room(EVENT));
    write(plain.path(), "x.data", bytes);
    for args in [
        // So wide that no sentence is wrapped for the length of a name.
        &["report", "-i", "x.data", "--width", "1000"][..],
        &["report", "--perf-c2c", "-i", "x.data"],
        &["import", "x.data", "-o", "x.hitm"],
        &["report", "-i", "x.hitm", "--width", "1000"],
    ] {
        let (code, out, error) = printed(hostile.path(), args);
        assert_eq!(code, 0, "{args:?}: {error}");
        let text = format!("{out}{error}");
        assert!(text.contains(r"load\x1b[2J\nFORGED"), "{args:?}: {text}");
        let (_, out, error) = printed(plain.path(), args);
        let plain = format!("{out}{error}");
        let lines = |text: &str| text.lines().count();
        assert_eq!(lines(&text), lines(&plain), "{args:?}: {text}\n{plain}");
    }
    let args = ["report", "-i", "x.data", "--format", "json"];
    let (_, json, _) = printed(hostile.path(), &args);
    let report: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert!(all_strings(&report).any(|text| text == EVENT), "{json}");
}

#[test]
fn errors_stay_in_their_line() {
    let directory = temporary();
    let scenario = "schema = 1\nname = \"a\"\n\"k\\u001b]0;x\\u0007\\nFORGED\" = 1\n";
    write(directory.path(), "s.toml", scenario);
    let hostile = file_name();
    let hostile = hostile.as_str();
    write(directory.path(), hostile, "not a machine");
    write(directory.path(), "l.toml", scenario);
    let set = format!("kernel.{hostile}={hostile}");
    for args in [
        &["report", "-i", hostile][..],
        &["report", "-i", "\x1b]0;x\x07"],
        &["report", "--fail-on", hostile],
        &["report", hostile],
        &[hostile],
        &[&format!("--{hostile}")],
        &["report", "--format", hostile],
        &["diff", hostile, hostile],
        &["whatif", "-i", hostile, "-l", hostile],
        &["whatif", "-m", hostile],
        &["record", "-m", hostile, "--", "true"],
        &["machine", "show", hostile],
        &["machine", "import", hostile],
        &["sim", "s.toml"],
        &["sim", hostile],
        &["sim", "s.toml", "--set", &set],
        &["reproduce", hostile],
        &["layout", "show", hostile, "-i", "l.toml"],
        &["layout", "list", "-i", hostile],
        &["export", hostile, "--calls", hostile],
        &["import", hostile],
    ] {
        let (code, out, error) = printed(directory.path(), args);
        assert_eq!((code, out.as_str()), (2, ""), "{args:?}: {error}");
        assert!(error.starts_with("hitm: error: "), "{args:?}: {error}");
        let is_usage = error.contains("\nUsage: ") || error.contains("For more information");
        assert!(is_usage || error.lines().count() == 1, "{args:?}: {error}");
    }
}

#[test]
fn machines_and_scenarios_are_shown_with_their_names() {
    // Their files take no control characters, but those of text direction.
    let directory = temporary();
    let path = directory.path();
    let preset = root().join("machines/broadwell-4s.toml");
    let preset = std::fs::read_to_string(preset).expect("the preset is there");
    let machine = preset.replacen("\"broadwell-4s\"", "\"m\u{202e}n\"", 1);
    write(path, "m.toml", machine);
    let (code, out, error) = printed(path, &["machine", "show", "m.toml"]);
    assert_eq!(code, 0, "{error}");
    assert!(out.starts_with(r"m\u{202e}n: "), "{out}");
    let (_, json, _) = printed(path, &["machine", "show", "m.toml", "--format", "json"]);
    let machine: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(machine["name"], "m\u{202e}n");
}

#[test]
fn scenarios_and_variants_keep_their_line() {
    let directory = temporary();
    let scenario = "\
schema = 1
name = \"s\u{202e}n\"
description = \"d\u{2066}n\"
source = \"made up for this test\"
[machine]
preset = \"broadwell-4s\"
cpus = 4
[kernel]
balancing = \"passive\"
[[workload]]
kind = \"rt-migrate-test\"
loops = 1
";
    write(directory.path(), "s.toml", scenario);
    let (code, out, error) = printed(directory.path(), &["sim", "s.toml", "--output"]);
    assert_eq!(code, 0, "{error}");
    assert!(
        out.starts_with("hitm sim: s\\u{202e}n\n  d\\u{2066}n\n"),
        "{out}"
    );
    let json = printed(directory.path(), &["sim", "s.toml", "--format", "json"]).1;
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json["scenario"], "s\u{202e}n");
}

/// Every text in JSON.
pub(crate) fn all_strings(value: &serde_json::Value) -> Box<dyn Iterator<Item = &str> + '_> {
    match value {
        serde_json::Value::String(text) => Box::new(std::iter::once(text.as_str())),
        serde_json::Value::Array(items) => Box::new(items.iter().flat_map(all_strings)),
        serde_json::Value::Object(items) => Box::new(items.values().flat_map(all_strings)),
        _ => Box::new(std::iter::empty()),
    }
}
