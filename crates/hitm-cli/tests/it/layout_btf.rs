//! `hitm layout` on raw BTF, as in /sys/kernel/btf, of either byte order: every command.

use std::path::Path;
use std::process::{Command, Stdio};

use expect_test::{Expect, expect};

use crate::btf_assembler::Assembler;

/// `struct counters { int kind; long hits; char name[60]; struct rate rate; }`, `hits` at its bit
/// offset.
fn counters(big_endian: bool, hits: u32) -> Vec<u8> {
    let mut btf = Assembler::new(big_endian);
    let int = btf.int("int", 4);
    let long = btf.int("long int", 8);
    let char = btf.int("char", 1);
    let name = btf.array(char, 60);
    let rate = btf.structure("rate", 16, &[("events", long, 0), ("since", long, 64)]);
    let size = hits / 8 + 88;
    let members = [
        ("kind", int, 0),
        ("hits", long, hits),
        ("name", name, hits + 64),
        ("rate", rate, hits + 64 + 512),
    ];
    btf.structure("counters", size, &members);
    btf.finish()
}

const RULES: &str = "\
schema = 1

[[rule]]
struct = \"counters\"
separate = [[\"kind\"], [\"hits\"]]
";

const PROFILE: &str = "\
# schema: 1
# name: two sides
# source: made up
# period_cycles: 1000000
member,function,loads,stores,rmws,cpus
kind,ask,30000,0,0,1-3
hits,count,0,10000,0,0
rate.events,ask,100,0,0,1-3
";

fn folder(big_endian: bool) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let write = |name: &str, bytes: &[u8]| {
        std::fs::write(folder.path().join(name), bytes).expect("a file in it");
    };
    write("before.btf", &counters(big_endian, 64));
    write("after.btf", &counters(big_endian, 512));
    write("rules.toml", RULES.as_bytes());
    write("profile.csv", PROFILE.as_bytes());
    folder
}

fn run(folder: &Path, args: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_hitm"))
        .arg("layout")
        .args(args)
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .expect("hitm starts");
    let text = |bytes| String::from_utf8(bytes).expect("hitm prints UTF-8");
    let code = output.status.code().expect("no signal");
    format!(
        "exit code {code}\n{}-- stderr\n{}",
        text(output.stdout),
        text(output.stderr)
    )
}

/// Both byte orders give the same.
fn check(args: &[&str], expected: Expect) {
    let found = run(folder(false).path(), args);
    expected.assert_eq(&found);
    assert_eq!(found, run(folder(true).path(), args));
}

#[test]
fn every_command_reads_raw_btf() {
    check(&["show", "counters", "-i", "before.btf"], expect![[""]]);
    check(&["list", "-i", "before.btf"], expect![[""]]);
    check(
        &["diff", "before.btf", "after.btf", "counters"],
        expect![[""]],
    );
    check(
        &["check", "before.btf", "--rules", "rules.toml"],
        expect![[""]],
    );
    check(
        &["check", "after.btf", "--rules", "rules.toml"],
        expect![[""]],
    );
    let question = [
        "counters",
        "-i",
        "before.btf",
        "-p",
        "profile.csv",
        "-m",
        "xeon-480",
    ];
    let advise = |rest: &[&'static str]| [&["advise"], &question[..], rest].concat();
    check(&advise(&[]), expect![[""]]);
    check(&advise(&["--open", "rate", "--emit", "c"]), expect![[""]]);
    let compare = [
        "compare",
        "counters",
        "-i",
        "before.btf",
        "-p",
        "profile.csv",
    ];
    let rest = ["-m", "xeon-480", "-l", "linux-6.12"];
    check(&[&compare[..], &rest].concat(), expect![[""]]);
}
