//! Machine files.

use std::fmt::Write as _;

use super::{Key, Section, sections, smudge, table, value};
use crate::Choices;

/// Keys of every machine.
const HEAD: &str = r#"
protocol = "mesif" | "mesi" | "moesi"
clock = "3GHz" | "1MHz" | "20GHz"
"#;

/// Tables of every machine, but for its topology.
const NEEDED: &str = r#"
[caches.l1]
size = SIZES
ways = 8 | 1
latency = NEAR
[caches.l2]
size = SIZES
ways = 16 | 1
latency = NEAR
[caches.llc]
size = SIZES
ways = 16 | 1
latency = TIMES
[occupancy_ratio]
package = 0.5 | 1
remote = 0.5 | 1.0
[transfers.llc]
clean = TIMES
dirty = TIMES
[transfers.remote]
clean = FAR
dirty = FAR
[transfers.smt]
clean = NEAR
dirty = NEAR
[dram]
local = TIMES
remote = FAR
[core]
cpi = 1.0 | 0.05 | 100
store_buffer = "56 entries" | "1 entries"
load_window = "224 instructions" | "1 instructions"
fill_buffers = "10 lines" | "1 lines"
locked_hit = NEAR
retire_width = "4 instructions" | "0 instructions"
ordering_clear = NEAR
"#;

/// Tables that a machine may have.
const OPTIONAL: &str = r#"
[contention]
owner_hold = 0.125 | 0.5 | 1 | 0
hold_jitter = 0.5 | 1 | 0
visit = "1 requests" | "8 requests" | "0 requests"
read_occupancy = 0.001 | 0.5 | 1 | 0
[upgrade_ratio]
package = 1.14 | 1 | 10
remote = 2.0 | 1 | 0.9
[prefetch]
adjacent_line = 1 | 0.5 | 0 | 1.5
[transfers.cluster]
clean = TIMES
dirty = TIMES
[transfers.die]
clean = TIMES
dirty = TIMES
occupancy = TIMES
[transfers.package]
clean = TIMES
dirty = TIMES
[transfers.far_remote]
clean = FAR
dirty = FAR
[transfers_away_from_home.die]
clean = TIMES
dirty = TIMES
"#;

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
    sourced(choices, &mut out, &table(HEAD));
    topology(choices, &mut out);
    for section in sections(NEEDED) {
        named(choices, &mut out, &section);
    }
    for section in sections(OPTIONAL) {
        if choices.one_in(8) {
            named(choices, &mut out, &section);
        }
    }
    smudge(choices, out)
}

fn named(choices: &mut Choices<'_>, out: &mut String, section: &Section) {
    let _ = writeln!(out, "[{}]", section.name);
    sourced(choices, out, &section.keys);
}

/// Sourced values. A few keys are left out or repeated.
fn sourced(choices: &mut Choices<'_>, out: &mut String, keys: &[Key]) {
    for Key { name, values } in keys {
        let times = match (choices.odd(128), choices.below(2)) {
            (true, 0) => 0,
            (true, _) => 2,
            (false, _) => 1,
        };
        for _ in 0..times {
            let value = value(choices, values);
            let origin = choices.pick(&[
                "source", "source", "source", "source", "source", "source", "source", "assumed",
            ]);
            let _ = match choices.odd(64) {
                true => writeln!(out, "{name} = {value}"),
                false => writeln!(out, "{name} = {{ value = {value}, {origin} = \"t\" }}"),
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
