//! Published tables of `perf c2c report` as profiles.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::programs;

fn text(name: &str) -> String {
    let path = programs::root().join("crates/hitm-cli/tests/fixtures/published");
    path.join(name).display().to_string()
}

fn answer(directory: &Path, args: &[&str]) -> Value {
    let output = programs::run(directory, &[args, &["--format", "json"]].concat());
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {error}");
    serde_json::from_slice(&output.stdout).expect("the answer is JSON")
}

/// Lines of members of the best proposal.
fn lines(answer: &Value, members: &[&str]) -> Vec<u64> {
    let all = answer["candidates"][0]["members"]
        .as_array()
        .expect("members");
    let line = |name: &str| {
        let found = all.iter().find(|member| member["name"] == name);
        let offset = found.expect(name)["offset_bytes"].as_u64();
        offset.expect("an offset") / 64
    };
    members.iter().map(|name| line(name)).collect()
}

#[test]
fn a_mail_gives_the_advice_of_the_same_figures_as_a_table() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let directory = directory.path();
    let mail = text("root-domain.txt");
    let question = [
        "layout",
        "advise",
        "root_domain",
        "-i",
        "linux-6.12",
        "-m",
        "xeon-480",
    ];
    let of_mail = ["-p", &mail, "--at", "0x1000"];
    let of_mail = answer(directory, &[&question[..], &of_mail].concat());
    // As many accesses as the table of the repository has.
    let table = programs::root().join("profiles/root-domain-c2c.csv");
    let of_table = ["-p", &table.display().to_string()];
    let of_table = answer(directory, &[&question[..], &of_table].concat());
    assert_eq!(of_mail["accesses"], 3544);
    assert_eq!(of_mail["accesses"], of_table["accesses"]);
    let members = [
        "rto_count",
        "overloaded",
        "rto_mask",
        "rto_loop_next",
        "rto_loop_start",
        "cpupri",
    ];
    assert_eq!(lines(&of_mail, &members), lines(&of_table, &members));
    // 55,116,710 cycles of the loads, on 480 CPUs.
    let notes = of_mail["notes"].to_string();
    let period = "as long as it waited for these lines, 114826 cycles (assumed;";
    assert!(notes.contains(period), "{notes}");
    assert!(
        notes.contains("the text does not say which are locked"),
        "{notes}"
    );
}

#[test]
fn a_patch_is_reviewed_by_a_mail() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let mail = text("root-domain.txt");
    let question = [
        "review",
        "linux-6.12",
        "root-domain-restructured",
        "-p",
        &mail,
    ];
    let of_type = ["-t", "root_domain", "--at", "0x1000"];
    let review = answer(directory.path(), &[&question[..], &of_type].concat());
    let of_type = &review["types"][0];
    assert_eq!(of_type["type"], "root_domain");
    assert_eq!(of_type["coverage"]["counted"], "sampled");
    assert_eq!(of_type["coverage"]["access_count"], 3544);
    let notes = of_type["coverage"]["notes"].to_string();
    assert!(notes.contains("the text states no time"), "{notes}");
    let first = &of_type["costs"][0];
    assert_eq!(first["machine"], "xeon-480");
    // 41.08 million cycles become 11.73.
    assert_eq!(first["cycles_change"], -0.714_459);
}

#[test]
fn a_table_without_titles_is_of_the_object_that_is_named() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let directory = directory.path();
    // Members of Linux 6.4 up to the semaphore; the table's line begins in the middle of i_mmap.
    let layout = r#"schema = 1
name = "fs"
description = "the front of address_space"
source = "include/linux/fs.h of Linux 6.4"
[[struct]]
name = "address_space"
size_bytes = 136
align_bytes = 8
members = [
  { name = "invalidate_lock", offset_bytes = 24, size_bytes = 40 },
  { name = "i_mmap", offset_bytes = 80, size_bytes = 16 },
  { name = "i_mmap_rwsem", offset_bytes = 96, size_bytes = 40 },
]
"#;
    fs::write(directory.join("fs.toml"), layout).expect("the layout is written");
    let mail = text("address-space.txt");
    let question = [
        "layout",
        "advise",
        "address_space",
        "-i",
        "fs.toml",
        "-m",
        "xeon-480",
        "-p",
        &mail,
    ];
    let named = ["--at", "0xff1ddd3f0c8a3aa8"];
    let answer = answer(directory, &[&question[..], &named].concat());
    // 5,490 loads of i_mmap; 63,034 records of the semaphore.
    assert_eq!(answer["accesses"], 68_524);
    let notes = answer["notes"].to_string();
    assert!(
        notes.contains("another table from line 21 on, which is left out"),
        "{notes}"
    );
    let apart = lines(&answer, &["i_mmap", "i_mmap_rwsem"]);
    assert_ne!(
        apart[0], apart[1],
        "the patch puts them on lines of their own"
    );

    let refused = programs::run(directory, &question);
    assert_eq!(refused.status.code(), Some(2));
    let error = String::from_utf8_lossy(&refused.stderr);
    assert!(
        error.contains("found no --at, expected --at with an address, such as 0xffff888004a81000"),
        "{error}"
    );
    assert!(
        error.contains("its lines: 0xff1ddd3f0c8a3b00 (33034 HITM)"),
        "{error}"
    );
}

#[test]
fn lines_with_hitm_and_no_store_are_written_by_locked_operations() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let directory = directory.path();
    let layout = r#"schema = 1
name = "go"
description = "two counters"
source = "the page's Go source"
[[struct]]
name = "Metrics"
size_bytes = 16
align_bytes = 8
members = [
  { name = "RequestsTotal", offset_bytes = 0, size_bytes = 8 },
  { name = "CronJobRuns", offset_bytes = 8, size_bytes = 8 },
]
"#;
    fs::write(directory.join("go.toml"), layout).expect("the layout is written");
    let page = text("counters.txt");
    let question = [
        "layout", "advise", "Metrics", "-i", "go.toml", "-m", "milan-2s", "-p", &page,
    ];
    let answer = answer(
        directory,
        &[&question[..], &["--at", "0x20ea080340b0"]].concat(),
    );
    assert_eq!(answer["accesses"], 3152);
    let notes = answer["notes"].to_string();
    assert!(
        notes.contains("taken as written by locked operations"),
        "{notes}"
    );
    let apart = lines(&answer, &["RequestsTotal", "CronJobRuns"]);
    assert_ne!(apart[0], apart[1]);
}
