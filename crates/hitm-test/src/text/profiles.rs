//! Profiles: the table, and the result of a simulation that is taken as one.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::smudge;
use crate::Choices;

const TITLES: [&str; 9] = [
    "member", "function", "loads", "stores", "cpus", "rmws", "comm", "instance", "unknown",
];
const MEMBERS: [&str; 8] = [
    "enabled",
    "count",
    "slots[2].owner",
    "a.b.c",
    "x[18446744073709551615]",
    "x[",
    "\"a,b\"",
    "",
];
const FUNCTIONS: [&str; 8] = [
    "run",
    "take",
    "f(int)",
    "a b",
    "x",
    "",
    "a\tb",
    "\u{1b}[31m",
];
const CPUS: [&str; 10] = [
    "0",
    "1-3",
    "0-3 8",
    "8-15 24",
    "0-8191",
    "0-65535",
    "3-1",
    "1 1",
    "",
    "99999999999999999999",
];

/// The text of a profile.
pub fn profile(choices: &mut Choices<'_>) -> String {
    choices.draw_soundness();
    let mut out = String::from("# schema: 1\n# name: made\n# source: made\n");
    let period = count(choices);
    let _ = writeln!(out, "# period_cycles: {period}");
    let mut titles = TITLES[..5 + choices.below(4)].to_vec();
    if choices.odd(16) {
        titles.push(TITLES[8]);
    }
    if choices.one_in(8) {
        let (one, other) = (choices.below(titles.len()), choices.below(titles.len()));
        titles.swap(one, other);
    }
    let _ = writeln!(out, "{}", titles.join(","));
    for _ in 0..choices.below(12) + 1 {
        let cells: Vec<String> = titles.iter().map(|title| cell(choices, title)).collect();
        let _ = writeln!(out, "{}", cells.join(","));
    }
    smudge(choices, out)
}

fn cell(choices: &mut Choices<'_>, title: &str) -> String {
    let from: &[&str] = match title {
        "member" => &MEMBERS,
        "function" | "comm" => &FUNCTIONS,
        "cpus" => &CPUS,
        _ => return count(choices),
    };
    // The first five are sound.
    let bound = if choices.odd(32) { from.len() } else { 5 };
    from[choices.below(bound)].to_owned()
}

/// A count: a plain one most often.
fn count(choices: &mut Choices<'_>) -> String {
    match choices.below(16) {
        0 => choices.number().to_string(),
        1 if choices.odd(8) => {
            let odd = ["-1", "", "1e9", "0x10", "1.5", "18446744073709551616"];
            choices.pick(&odd).to_owned()
        }
        _ => (1 + choices.below(1000)).to_string(),
    }
}

/// The JSON of a simulation with rows about `type_name`.
pub fn simulation(choices: &mut Choices<'_>, type_name: &str) -> String {
    let variants: Vec<Value> = (0..choices.below(3) + 1)
        .map(|_| {
            let runs: Vec<Value> = (0..choices.below(3) + 1)
                .map(|seed| run(choices, seed, type_name))
                .collect();
            json!({ "variant": "v", "layout": choices.pick(&["l", "l", "k"]), "runs": runs })
        })
        .collect();
    let document = json!({ "schema": 1, "scenario": "s", "machine": "m", "variants": variants });
    smudge(choices, document.to_string())
}

fn run(choices: &mut Choices<'_>, seed: usize, type_name: &str) -> Value {
    let rows: Vec<Value> = (0..choices.below(5) + 1)
        .map(|_| {
            json!({
                "member": cell(choices, "member"),
                "function": choices.text(),
                "load_count": number(choices),
                "store_count": number(choices),
                "locked_count": number(choices),
                "cpus": cell(choices, "cpus"),
            })
        })
        .collect();
    let object = choices.pick(&[type_name, type_name, type_name, "rq"]);
    let lines = json!([{ "object": object, "object_count": choices.below(3), "rows": rows }]);
    json!({ "seed": seed, "work_cycles_mean": number(choices), "lines": lines })
}

/// A number of any type that JSON has.
fn number(choices: &mut Choices<'_>) -> Value {
    match choices.below(8) {
        0 => json!(choices.number()),
        1 => json!(choices.number() as i64),
        2 => json!(choices.number() as f64 * 1e280),
        3 => json!(1.5),
        _ => json!(1 + choices.below(1000)),
    }
}
