//! Layout files, and rules for layouts.

use std::fmt::Write as _;

use super::{keys, smudge, some_keys, table, value};
use crate::Choices;

const HEAD: &str = r#"
schema = 1
name = "made"
description = "d"
source = "made"
"#;

/// Names of structures: shipped ones, so that a file replaces them, and new ones.
const STRUCTS: [&str; 6] = ["root_domain", "rq", "cpupri", "a", "b", "slot"];
const MEMBERS: [&str; 8] = ["count", "lock", "span", "x", "x[1]", "x.y", "", "rto_count"];

/// Forms of a member of 8 bytes besides a plain one.
const FORMS: [&str; 12] = [
    "bit_offset = 0, bit_size = 1",
    "bit_offset = 3, bit_size = 61",
    "count = 2, stride_bytes = 4",
    "count = 8, stride_bytes = 1",
    "per = \"node\", stride_bytes = 1",
    "per = \"cpu\", storage = \"pointer\", element_bytes = 4, element_align_bytes = 64",
    "per = \"node\", storage = \"pointer\", bits_of = \"cpu\"",
    "bits_of = \"cpu\", storage = \"pointer\"",
    "bits_of = \"cpu\"",
    "type = \"a\", storage = \"pointer\"",
    "type = \"rq\", storage = \"pointer\", per = \"cpu\"",
    "type = \"b\"",
];
/// Keys of a member besides its place.
const MEMBER: &str = r#"
bit_offset = 0 | 3 | 7
bit_size = 1 | 5 | 32
type = "a" | "b" | "rq"
count = 2 | 1 | 16
stride_bytes = 4 | 8 | 64
per = "cpu" | "node"
bits_of = "cpu"
storage = "inline" | "pointer"
element_bytes = 4 | 64 | 2147483648
element_align_bytes = 8 | 64 | 2147483648
"#;

/// The text of a layout file.
pub fn layout(choices: &mut Choices<'_>) -> String {
    choices.draw_soundness();
    let mut out = String::new();
    keys(choices, &mut out, &table(HEAD));
    let first = choices.below(STRUCTS.len());
    for nth in 0..choices.below(4) + 1 {
        out += "[[struct]]\n";
        let name = match choices.odd(16) {
            true => choices.pick(&STRUCTS),
            false => STRUCTS[(first + nth) % STRUCTS.len()],
        };
        let size = 8 * (1 + choices.below(256));
        let _ = writeln!(
            out,
            "name = \"{name}\"\nsize_bytes = {}",
            usual(choices, size)
        );
        if choices.one_in(2) {
            let align = value(choices, &["8", "64", "1", "4096", "2147483648"]);
            let _ = writeln!(out, "align_bytes = {align}");
        }
        members(choices, &mut out, size);
    }
    smudge(choices, out)
}

/// The number, or an extreme one.
fn usual(choices: &mut Choices<'_>, number: usize) -> String {
    value(choices, &[&number.to_string()])
}

/// Members in sequence, with gaps and now and then a place of their own.
fn members(choices: &mut Choices<'_>, out: &mut String, size: usize) {
    *out += "members = [\n";
    let mut offset = 0;
    for nth in 0..choices.below(8) + 1 {
        let len = choices.pick(&[8usize, 4, 1, 64, 16, 0]);
        if offset + len > size {
            break;
        }
        let name = match choices.odd(8) {
            true => choices.pick(&MEMBERS).to_owned(),
            false => format!("m{nth}"),
        };
        let (at, bytes) = (usual(choices, offset), usual(choices, len));
        let _ = write!(
            out,
            "  {{ name = \"{name}\", offset_bytes = {at}, size_bytes = {bytes}"
        );
        if len == 8 && choices.one_in(2) {
            let _ = write!(out, ", {}", choices.pick(&FORMS));
        }
        if choices.odd(8) {
            let member = table(MEMBER);
            let key = &member[choices.below(member.len())];
            let _ = write!(out, ", {} = {}", key.name, value(choices, &key.values));
        }
        *out += " },\n";
        offset += len + choices.pick(&[0, 0, 8, 56]);
    }
    *out += "]\n";
}

const RULE: &str = r#"
separate = [["a"], ["b", "c"]] | [["x"], ["x"]] | [["a"]]
within_lines = { members = ["a"], lines = 1 } | { members = ["a", "b.c"], lines = 4294967295 }
size_max_bytes = 64 | 4096
no_straddle = ["a"] | ["q[3].next", "cfs.load.weight"]
"#;

/// The text of a file of rules.
pub fn rules(choices: &mut Choices<'_>) -> String {
    choices.draw_soundness();
    let mut out = String::new();
    keys(choices, &mut out, &table(HEAD)[..1]);
    if choices.one_in(2) {
        keys(
            choices,
            &mut out,
            &table("line_size_bytes = 64 | 128 | 4096"),
        );
    }
    for _ in 0..choices.below(4) + 1 {
        out += "[[rule]]\n";
        keys(
            choices,
            &mut out,
            &table(r#"struct = "s" | "rq" | "ns::t""#),
        );
        let rule = table(RULE);
        let first = choices.below(rule.len());
        keys(choices, &mut out, &rule[first..=first]);
        some_keys(choices, &mut out, &rule[first + 1..], 2);
    }
    smudge(choices, out)
}
