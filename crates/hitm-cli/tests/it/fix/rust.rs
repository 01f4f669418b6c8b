//! `hitm fix` on programs of Rust.

use std::process::Stdio;

use hitm_test::process::Command;

use super::{Tree, only};
use crate::programs::say_not_run;

const MANIFEST: &str = r#"[package]
name = "prog"
version = "0.1.0"
edition = "2021"

[dependencies]
crossbeam-utils = "0.8"

[profile.release]
debug = true

[workspace]
"#;

/// Two threads, each with a count of its own in one structure; `reach` is how they get at a field.
fn program(reach: fn(&str) -> String) -> String {
    r#"use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

#[derive(Debug)]
struct Stats {
    hits: AtomicU64,
    misses: AtomicU64,
    limit: u64,
}

static STATS: Stats = Stats {
    hits: AtomicU64::new(0),
    misses: AtomicU64::new(0),
    limit: 7,
};

fn count(of: &AtomicU64, rounds: u64) {
    for _ in 0..rounds {
        of.fetch_add(STATS.limit, Relaxed);
    }
}

fn main() {
    let rounds: u64 = std::env::args().nth(1).unwrap().parse().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || count(HITS, rounds));
        scope.spawn(move || count(MISSES, rounds));
    });
    println!("{}", STATS.hits.load(Relaxed) + STATS.misses.load(Relaxed));
}
"#
    .replace("HITS", &reach("hits"))
    .replace("MISSES", &reach("misses"))
}

const BUILD: &str = "cargo build --quiet --offline --release --manifest-path %/Cargo.toml && \
                     cp %/target/release/prog %/prog";

/// The answer about a crate that depends on crossbeam; none, with a word about it, where that is not at hand.
fn answer(reach: fn(&str) -> String) -> Option<serde_json::Value> {
    let program = program(reach);
    let tree = Tree::of(&[("src/main.rs", &program), ("Cargo.toml", MANIFEST)]);
    let mut cargo = Command::new("cargo");
    cargo.args(["generate-lockfile", "--quiet", "--offline"]);
    cargo.current_dir(tree.folder.path()).stderr(Stdio::null());
    if !cargo.status().is_ok_and(|status| status.success()) {
        say_not_run(
            "CachePadded",
            "cargo has no crossbeam-utils without a network",
        );
        return None;
    }
    let mut command = tree.command(BUILD, "4000", &["--format", "json"]);
    let output = command.env_remove("CARGO_TARGET_DIR").output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "hitm fix fails: {error}");
    Some(serde_json::from_slice(&output.stdout).expect("the answer is JSON"))
}

#[test]
fn a_crate_with_crossbeam_gets_its_wrapper() {
    let Some(answer) = answer(|field| format!("&STATS.{field}")) else {
        return;
    };
    let remedy = only(&answer, "remedies");
    assert_eq!(remedy["fate"], "kept", "{answer:#}");
    assert_eq!(remedy["file"], "src/main.rs");
    // One of them on a line of its own is enough, and either is as good.
    let what = remedy["what"].as_str().unwrap();
    let field = what.strip_prefix("Stats: ").unwrap_or_default();
    let field = field.split([',', ' ']).next().unwrap();
    assert!(["hits", "misses"].contains(&field), "{what}");
    assert!(what.ends_with(" in CachePadded"), "{what}");
    let diff = answer["diff"].as_str().unwrap();
    for line in [
        format!("+    {field}: crossbeam_utils::CachePadded<AtomicU64>,\n"),
        format!("+    {field}: crossbeam_utils::CachePadded::new(AtomicU64::new(0)),\n"),
    ] {
        assert!(diff.contains(&line), "{diff}");
    }
    assert_eq!(remedy["instance_count"], 1);
    assert_eq!(remedy["memory_before_bytes"], 24);
    assert_eq!(remedy["memory_after_bytes"], remedy["size_after_bytes"]);
}

/// The wrapper is no number to a conversion: the compiler says so, and the next form of the layout is tried.
#[test]
fn a_wrapper_that_does_not_compile_gives_way_to_padding() {
    let Some(answer) =
        answer(|field| format!("Option::<&AtomicU64>::from(&STATS.{field}).unwrap()"))
    else {
        return;
    };
    let remedy = only(&answer, "remedies");
    assert_eq!(remedy["fate"], "refused", "{answer:#}");
    let reason = remedy["reason"].as_str().unwrap();
    assert!(reason.starts_with("it does not build: "), "{reason}");
    assert!(
        reason.contains("error[E0277]") && reason.contains("src/main.rs:"),
        "{reason}"
    );
    assert_eq!(answer["remedies"][1]["fate"], "kept", "{answer:#}");
    let diff = answer["diff"].as_str().unwrap();
    assert!(
        diff.contains("#[repr(C, align(64))]") && !diff.contains("CachePadded<A"),
        "{diff}"
    );
}
