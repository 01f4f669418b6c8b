//! Machine files.

use std::fmt::Write as _;

use super::{smudge, value};
use crate::Choices;

/// Keys of a table, and the values that they usually have.
type Keys = &'static [(&'static str, &'static [&'static str])];

const NEAR: &[&str] = &["\"5cycles\"", "\"5cycles\"", "\"6cycles\"", "\"0.3ns\""];
const TIMES: &[&str] = &[
    "\"50ns\"",
    "\"50ns\"",
    "\"51ns\"",
    "\"50.5ns\"",
    "\"2000ns\"",
];
const FAR: &[&str] = &[
    "\"100ns\"",
    "\"100ns\"",
    "\"107.7ns\"",
    "\"1000ns\"",
    "\"99000ns\"",
];

const SIZES: &[&str] = &[
    "\"64KiB\"",
    "\"64KiB\"",
    "\"32KiB\"",
    "\"1MiB\"",
    "\"4GiB\"",
    "\"64B\"",
    "\"1.5MiB\"",
];

/// Tables of every machine, but for its topology.
const NEEDED: [(&str, Keys); 10] = [
    (
        "",
        &[
            ("protocol", &["\"mesif\"", "\"mesi\"", "\"moesi\""]),
            ("clock", &["\"3GHz\"", "\"1MHz\"", "\"20GHz\""]),
        ],
    ),
    (
        "caches.l1",
        &[("size", SIZES), ("ways", &["8", "1"]), ("latency", NEAR)],
    ),
    (
        "caches.l2",
        &[("size", SIZES), ("ways", &["16", "1"]), ("latency", NEAR)],
    ),
    (
        "caches.llc",
        &[("size", SIZES), ("ways", &["16", "1"]), ("latency", TIMES)],
    ),
    (
        "occupancy_ratio",
        &[("package", &["0.5", "1"]), ("remote", &["0.5", "1.0"])],
    ),
    ("transfers.llc", &[("clean", TIMES), ("dirty", TIMES)]),
    ("transfers.remote", &[("clean", FAR), ("dirty", FAR)]),
    ("transfers.smt", &[("clean", NEAR), ("dirty", NEAR)]),
    ("dram", &[("local", TIMES), ("remote", FAR)]),
    (
        "core",
        &[
            ("cpi", &["1.0", "0.05", "100"]),
            ("store_buffer", &["\"56 entries\"", "\"1 entries\""]),
            (
                "load_window",
                &["\"224 instructions\"", "\"1 instructions\""],
            ),
            ("fill_buffers", &["\"10 lines\"", "\"1 lines\""]),
            ("locked_hit", NEAR),
            (
                "retire_width",
                &["\"4 instructions\"", "\"0 instructions\""],
            ),
            ("ordering_clear", NEAR),
        ],
    ),
];

/// Tables that a machine may have.
const OPTIONAL: [(&str, Keys); 7] = [
    (
        "contention",
        &[
            ("owner_hold", &["0.125", "0.5", "1", "0"]),
            ("hold_jitter", &["0.5", "1", "0"]),
            (
                "visit",
                &["\"1 requests\"", "\"8 requests\"", "\"0 requests\""],
            ),
        ],
    ),
    (
        "upgrade_ratio",
        &[
            ("package", &["1.14", "1", "10"]),
            ("remote", &["2.0", "1", "0.9"]),
        ],
    ),
    ("transfers.cluster", &[("clean", TIMES), ("dirty", TIMES)]),
    (
        "transfers.die",
        &[("clean", TIMES), ("dirty", TIMES), ("occupancy", TIMES)],
    ),
    ("transfers.package", &[("clean", TIMES), ("dirty", TIMES)]),
    ("transfers.far_remote", &[("clean", FAR), ("dirty", FAR)]),
    (
        "transfers_away_from_home.die",
        &[("clean", TIMES), ("dirty", TIMES)],
    ),
];

const TREE: [&str; 9] = [
    "halves",
    "packages",
    "nodes",
    "dies",
    "llcs",
    "clusters",
    "cores",
    "threads",
    "numbering",
];

/// The text of a machine file.
pub fn machine(choices: &mut Choices<'_>) -> String {
    choices.draw_soundness();
    let mut out = String::new();
    let name = value(choices, &["\"box\""]);
    let _ = writeln!(out, "schema = {}\nname = {name}", value(choices, &["1"]));
    let _ = writeln!(out, "description = {}", value(choices, &["\"d\""]));
    let [(name, keys), needed @ ..] = &NEEDED;
    table(choices, &mut out, name, keys);
    topology(choices, &mut out);
    for (name, keys) in needed {
        table(choices, &mut out, name, keys);
    }
    for (name, keys) in &OPTIONAL {
        if choices.one_in(8) {
            table(choices, &mut out, name, keys);
        }
    }
    smudge(choices, out)
}

/// A table of sourced values. A few keys are left out or repeated.
fn table(choices: &mut Choices<'_>, out: &mut String, name: &str, keys: Keys) {
    if !name.is_empty() {
        let _ = writeln!(out, "[{name}]");
    }
    for (key, usual) in keys {
        let times = match (choices.odd(128), choices.below(2)) {
            (true, 0) => 0,
            (true, _) => 2,
            (false, _) => 1,
        };
        for _ in 0..times {
            let value = value(choices, usual);
            let origin = choices.pick(&[
                "source", "source", "source", "source", "source", "source", "source", "assumed",
            ]);
            let _ = match choices.odd(64) {
                true => writeln!(out, "{key} = {value}"),
                false => writeln!(out, "{key} = {{ value = {value}, {origin} = \"t\" }}"),
            };
        }
    }
}

fn topology(choices: &mut Choices<'_>, out: &mut String) {
    *out += "[topology]\nassumed = \"t\"\n";
    if choices.one_in(4) {
        *out += "cpus = [\n";
        for cpu in 0..choices.below(9) {
            let package = value(choices, &["0", "1"]);
            let _ = writeln!(out, "  [0, {package}, 0, 0, 0, 0, {cpu}, 0],");
        }
        *out += "]\n";
        return;
    }
    for key in TREE {
        let is_usual = matches!(key, "packages" | "cores" | "threads" | "numbering");
        if is_usual || choices.odd(8) {
            let usual: &[&str] = match key {
                "numbering" => &["\"cores-first\"", "\"threads-adjacent\""],
                _ => &["1", "2", "4", "8"],
            };
            let _ = writeln!(out, "{key} = {}", value(choices, usual));
        }
    }
}
