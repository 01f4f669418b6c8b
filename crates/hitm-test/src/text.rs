//! Text files: TOML, JSON and CSV, built from the keys that the parsers know.
//!
//! Most values are valid, so that parsing gets further; the others are numbers at the ends, wrong
//! units and wrong types. Keys are missing, repeated or unknown now and then.

mod layouts;
mod machine;
mod plan;
mod profiles;
mod rt_app;
mod scenario;

use std::fmt::Write as _;

pub use layouts::{layout, rules};
pub use machine::machine;
pub use plan::plan;
pub use profiles::{profile, simulation};
pub use rt_app::rt_app;
pub use scenario::{WorkloadKeys, scenario};

use crate::Choices;

/// A key and values that it may have, as they stand in the file.
struct Key {
    name: &'static str,
    values: Vec<&'static str>,
}

/// Keys of a table, and its name.
struct Section {
    name: &'static str,
    keys: Vec<Key>,
}

/// Values that several keys have, and the words that stand for them.
const LISTS: [(&str, &str); 7] = [
    ("NEAR", r#""5cycles" | "5cycles" | "6cycles" | "0.3ns""#),
    ("TIMES", r#""50ns" | "50ns" | "51ns" | "50.5ns" | "2000ns""#),
    (
        "FAR",
        r#""100ns" | "100ns" | "107.7ns" | "1000ns" | "99000ns""#,
    ),
    (
        "SIZES",
        r#""64KiB" | "64KiB" | "32KiB" | "1MiB" | "4GiB" | "64B" | "1.5MiB""#,
    ),
    ("NUMBERS", "1000 | 1 | 20 | 0"),
    ("NAMES", r#""m" | "c" | "t0" | "t1" | "unique""#),
    ("TASKS", r#""t0" | "t0" | "t0" | "t1" | "u""#),
];

/// The values that a text such as `1 | 2` lists.
fn values(text: &'static str) -> Vec<&'static str> {
    let known = LISTS.iter().find(|(word, _)| *word == text);
    known.map_or(text, |(_, list)| list).split(" | ").collect()
}

/// Keys from lines such as `cpus = 4 | 8`.
fn table(lines: &'static str) -> Vec<Key> {
    let key = |line: &'static str| {
        let (name, text) = line.split_once(" = ").expect("a key and its values");
        let values = values(text);
        Key { name, values }
    };
    lines.trim().lines().map(key).collect()
}

/// Tables with their names in brackets, as in TOML.
fn sections(text: &'static str) -> Vec<Section> {
    let section = |text: &'static str| {
        let (name, lines) = text.split_once(']').expect("a table has a name");
        let keys = table(lines);
        Section { name, keys }
    };
    text.split("\n[").skip(1).map(section).collect()
}

/// Values of the wrong type or at the end of a range.
const EXTREMES: [&str; 40] = [
    "0",
    "1",
    "-1",
    "2147483647",
    "2147483648",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "18446744073709551615",
    "1e308",
    "-1e308",
    "5e-324",
    "0.0",
    "-0.0",
    "nan",
    "inf",
    "true",
    "\"\"",
    "[]",
    "{}",
    "[[]]",
    "1979-05-27",
    "\"18446744073709551615ns\"",
    "\"18446744073709551616s\"",
    "\"0ns\"",
    "\"1e300s\"",
    "\"0.0000000001ns\"",
    "\"584y\"",
    "\"99999999999/s\"",
    "\"0/s\"",
    "\"16EiB\"",
    "\"4GiB\"",
    "\"0-65535\"",
    "\"0-18446744073709551615\"",
    "\"5-3\"",
    "\"\\u001b]0;x\\u0007\"",
    "\"a\\nb\"",
    "\"\\u0000\"",
];

/// Chooses a value: one of the usual ones most often.
fn value(choices: &mut Choices<'_>, usual: &[&str]) -> String {
    match (choices.odd(16), choices.below(2)) {
        (true, 0) => choices.pick(&EXTREMES).to_owned(),
        (true, _) => number(choices),
        (false, _) => choices.pick(usual).to_owned(),
    }
}

/// Any number as text.
fn number(choices: &mut Choices<'_>) -> String {
    let number = choices.number();
    match choices.below(3) {
        0 => number.to_string(),
        1 => (number as i64).to_string(),
        _ => format!("{:e}", number as f64),
    }
}

/// A text in quotes, escaped as TOML and JSON have it.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => out.extend(['\\', character]),
            control if control < ' ' || control == '\u{7f}' => {
                let _ = write!(out, "\\u{:04x}", u32::from(control));
            }
            other => out.push(other),
        }
    }
    out + "\""
}

/// Adds the keys of a table, each on a line. A few are left out, repeated or unknown.
fn keys(choices: &mut Choices<'_>, out: &mut String, keys: &[Key]) {
    for Key { name, values } in keys {
        let times = match (choices.odd(64), choices.below(3)) {
            (false, _) => 1,
            (true, 0) => 0,
            (true, 1) => 2,
            (true, _) => {
                let _ = writeln!(out, "{name}_ = 1");
                1
            }
        };
        for _ in 0..times {
            let _ = writeln!(out, "{name} = {}", value(choices, values));
        }
    }
}

/// Some of the keys that a table may have, at most `max`.
fn some_keys(choices: &mut Choices<'_>, out: &mut String, from: &[Key], max: usize) {
    let mut used = 0u64;
    for _ in 0..choices.below(max + 1).min(from.len()) {
        let place = choices.below(from.len());
        if used >> place & 1 == 0 {
            used |= 1 << place;
            keys(choices, out, &from[place..=place]);
        }
    }
}

/// Changes a few bytes of one text in eight, like a slip in an editor.
fn smudge(choices: &mut Choices<'_>, text: String) -> String {
    if !choices.odd(4) || text.is_empty() {
        return text;
    }
    let mut bytes = text.into_bytes();
    for _ in 0..=choices.below(3) {
        let at = choices.word(2) as usize % bytes.len();
        bytes[at] = choices.byte();
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use hitm_base::machine::MachineFile;
    use hitm_layout::layout_file::LayoutFile;
    use hitm_layout::profile::Profile;
    use hitm_sim::scenario::{Scenario, workload_kinds};
    use hitm_sim::workload::rt_app::RtApp;

    use super::*;
    use crate::noise;

    /// Returns the number of 300 texts that a parser accepts.
    fn accepted(takes: impl Fn(&mut Choices<'_>) -> bool) -> usize {
        let is_taken = |seed: &u64| takes(&mut Choices::new(&noise(*seed, 300)));
        (0..300).filter(is_taken).count()
    }

    #[test]
    fn parsers_take_some_of_each_format_and_refuse_some() {
        let kinds = workload_kinds().map(|kind| WorkloadKeys {
            kind: kind.name,
            needed: kind.needed,
            optional: kind.optional,
        });
        let kinds: Vec<WorkloadKeys> = kinds.collect();
        let counts = [
            accepted(|choices| {
                let (text, settings) = scenario(choices, &kinds);
                Scenario::parse_with(&text, "made", &settings).is_ok()
            }),
            accepted(|choices| MachineFile::parse(&machine(choices), "made").is_ok()),
            accepted(|choices| LayoutFile::parse(&layout(choices), "made").is_ok()),
            accepted(|choices| Profile::parse(&profile(choices), "made").is_ok()),
            accepted(|choices| RtApp::parse(&rt_app(choices), "made").is_ok()),
        ];
        assert!(
            counts.iter().all(|count| (20..280).contains(count)),
            "{counts:?}"
        );
    }

    #[test]
    fn texts_are_escaped() {
        assert_eq!(quoted("a\"b\\\n\u{7f}"), r#""a\"b\\\u000a\u007f""#);
    }
}
