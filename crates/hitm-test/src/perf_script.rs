//! The text of `perf script`.

use std::fmt::Write as _;

use crate::Choices;

const IDS: [&str; 6] = [
    "100/101",
    "-1/-1",
    "0/0",
    "4294967295/4294967295",
    "1/18446744073709551615",
    "7/8",
];
const CPUS: [&str; 5] = ["[002]", "[0]", "[4294967295]", "[4294967296]", "[-1]"];
const TIMES: [&str; 7] = [
    "1.000104",
    "0.000000000",
    "18446744073.709551615",
    "18446744073.709551616",
    "18446744073709551615.0",
    "1.0000000001",
    "2.5",
];
const EVENTS: [&str; 5] = [
    "cpu/mem-loads,ldlat=30/P",
    "cpu/mem-stores/P",
    "",
    "a:b",
    "\u{1b}[31m",
];
const WORDS: [&str; 5] = [
    "|OP LOAD|SNP HitM|BLK  N/A",
    "||",
    "|OP STORE|LVL 7|",
    "|",
    "no bar",
];
const SYMBOLS: [&str; 7] = [
    "main+0x10",
    "",
    "[unknown]",
    "std::vector<int, a>::f(int) const+0xffffffffffffffff",
    "+0x",
    "\u{1b}]0;x\u{7}",
    "a b c",
];

/// Lines of perf, with numbers at the ends and fields that are missing now and then.
pub fn made(choices: &mut Choices<'_>) -> Vec<u8> {
    let mut out = String::new();
    if choices.one_in(4) {
        out += "# perf\n\n";
    }
    let is_sound = !choices.one_in(4);
    let mut lines = 0;
    while !choices.is_empty() && lines < 400 {
        line(choices, &mut out, is_sound);
        lines += 1;
    }
    let mut bytes = out.into_bytes();
    if choices.one_in(16) && !bytes.is_empty() {
        let at = choices.word(2) as usize % bytes.len();
        bytes[at] = choices.byte();
    }
    bytes
}

fn line(choices: &mut Choices<'_>, out: &mut String, is_sound: bool) {
    // The first three are sound.
    let usual = |choices: &mut Choices<'_>, from: &[&'static str]| match is_sound {
        true => choices.pick(&from[..3]),
        false => choices.pick(from),
    };
    let ids = usual(choices, &IDS);
    let (cpu, time, event) = (
        usual(choices, &CPUS),
        usual(choices, &TIMES),
        usual(choices, &EVENTS),
    );
    let (addr, data_src) = (choices.number(), choices.number());
    let words = usual(choices, &WORDS);
    let (weight, ip) = (choices.number(), choices.number());
    let symbol = choices.pick(&SYMBOLS);
    let _ = write!(
        out,
        "{ids} {cpu} {time}: {event}: {addr:x} {data_src:x} {words} {weight} {ip:x} "
    );
    *out += symbol;
    if choices.byte() == 255 && choices.one_in(8) {
        *out += &symbol.repeat(4000);
    }
    out.push('\n');
}
