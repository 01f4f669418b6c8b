//! perf.data with extreme numbers, in every layout.

use std::sync::LazyLock;

use hitm_perf::{CpuMode, DataSrc, Sample};

use super::vendors::{self, CODE, LINE, USER, Words};
use super::{Content, Event, Happened, Layout, Mapped, bits, generate};
use crate::Choices;

/// The words of all vendors.
static WORDS: LazyLock<Words> =
    LazyLock::new(|| [vendors::intel(), vendors::amd(), vendors::arm()].concat());

/// Samples of one file.
const SAMPLES_MAX: usize = 100;
/// Ids of processes and threads: known ones, and those at the ends.
const IDS: [u32; 8] = [100, 101, 100, 0, 1, u32::MAX, 1 << 31, (1 << 31) - 1];
const PATHS: [&str; 8] = [
    "/nonexistent/program",
    "",
    "[vdso]",
    "[kernel.kallsyms]_text",
    "//anon",
    "/memfd:x (deleted)",
    "\u{1b}]0;x\u{7}",
    "a\nb",
];
/// Kinds of records about processes, lost events, traces and rounds, and unknown ones.
const OTHER_KINDS: [u32; 20] = [
    1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 13, 16, 17, 65, 66, 67, 68, 71, 79, 9999,
];
const SECTIONS: [u8; 14] = [2, 3, 6, 7, 8, 9, 11, 12, 13, 14, 16, 22, 27, 63];

/// A file. Samples, mappings and times are anything; most records are whole.
pub fn made(choices: &mut Choices<'_>) -> Vec<u8> {
    let layout = Layout {
        is_big_endian: choices.one_in(4),
        is_pipe: choices.one_in(4),
        compressed_piece: match choices.below(16) {
            14 => 1 + choices.below(64),
            15 => 700,
            _ => 0,
        },
    };
    let mut content = content(choices);
    while !choices.is_empty() && content.samples.len() < SAMPLES_MAX {
        match choices.below(16) {
            0 => content.happened.push((choices.number(), happened(choices))),
            1 => content.mappings.push(mapping(choices)),
            2 => content.others.push(other(choices)),
            3 => {
                let kind = choices.pick(&SECTIONS);
                let section = section(choices, kind, layout.is_big_endian);
                content.sections.push((kind, section));
            }
            4 => {
                let len = choices.pick(&[20, 0, 1, 19]);
                let id = choices.bytes(len).to_vec();
                content.build_ids.push((choices.pick(&PATHS), id));
            }
            _ => sample(choices, &mut content),
        }
    }
    let mut file = generate(&content, layout);
    damage(choices, &mut file);
    file
}

/// Parts of every file: an architecture, events and a program.
fn content(choices: &mut Choices<'_>) -> Content {
    let (arch, weight) = choices.pick(&[
        ("x86_64", bits::WEIGHT),
        ("x86_64", bits::WEIGHT_STRUCT),
        ("aarch64", bits::WEIGHT),
    ]);
    let optional = [
        0,
        bits::CALLCHAIN,
        bits::PHYS_ADDR,
        bits::RAW,
        bits::BRANCH_STACK,
    ];
    let mut sample_type = weight;
    for _ in 0..choices.below(3) {
        sample_type |= choices.pick(&optional);
    }
    if choices.one_in(16) {
        sample_type |= 1 << choices.below(64);
    }
    let mut content = vendors::content(arch, "GenuineIntel,6,85,7", &Words::new(), sample_type);
    content.cpus = choices.pick(&[8, 1, 2, 40]);
    content.nodes = choices.pick(&[1, 1, 2]).min(content.cpus);
    content.chain = choices.pick(&[vendors::chain as fn(&Sample) -> Vec<u64>, long, marks]);
    let blocks = choices.pick(&[0, 0, 4, 64]);
    content.memory = (0..blocks).map(|_| choices.below(2) as u32).collect();
    if choices.one_in(16) {
        let name = choices.pick(&PATHS);
        let event = || Event { name, sample_type };
        content.events = (0..choices.below(40)).map(|_| event()).collect();
    }
    content
}

/// A chain with a length from the sample's weight, around the limit.
fn long(sample: &Sample) -> Vec<u64> {
    let len = match sample.weight % 128 {
        few @ 0..=123 => few % 8,
        124 => 127,
        125 => 128,
        126 => 300,
        _ => 8000,
    };
    let calls = (0..len).map(|nth| CODE.wrapping_add(sample.weight.wrapping_mul(nth)));
    [USER].into_iter().chain(calls).collect()
}

/// A chain of marks and addresses at the ends.
fn marks(sample: &Sample) -> Vec<u64> {
    let mark = |nth: u64| 0u64.wrapping_sub(128 * (nth % 48));
    (0..sample.weight % 32)
        .map(mark)
        .chain([sample.ip, 0, u64::MAX])
        .collect()
}

fn sample(choices: &mut Choices<'_>, content: &mut Content) {
    if content.events.is_empty() {
        choices.byte();
        return;
    }
    let event = choices.below(content.events.len());
    let known = WORDS[choices.below(WORDS.len())].1;
    let is_usual = !choices.one_in(4);
    let nth = content.samples.len() as u64;
    let mut number = |usual: u64| match is_usual {
        true => usual,
        false => choices.number(),
    };
    let (time_ns, addr) = (number(1_000_000 + nth * 1000), number(LINE + nth % 8 * 8));
    let (ip, data_src) = (number(CODE + nth % 16 * 16), number(known));
    let (weight, period, phys_addr) = (number(10 + nth), number(1), number(0x1_0000_1040));
    let cpu = number(nth % 8) as u32;
    let modes = [
        CpuMode::User,
        CpuMode::Kernel,
        CpuMode::User,
        CpuMode::GuestKernel,
    ];
    let sample = Sample {
        pid: choices.pick(&IDS),
        tid: choices.pick(&IDS),
        cpu,
        mode: choices.pick(&modes),
        time_ns,
        ip,
        addr,
        data_src: DataSrc(data_src),
        weight,
        period,
        phys_addr,
        ..Sample::default()
    };
    content.samples.push((event, sample));
}

/// A mapping: of a page, of nothing, or one that wraps.
fn mapping(choices: &mut Choices<'_>) -> Mapped {
    let start = match choices.below(3) {
        0 => LINE & !4095,
        1 => CODE,
        _ => choices.number(),
    };
    let len = match choices.one_in(2) {
        true => 4096,
        false => choices.number(),
    };
    Mapped::new(choices.pick(&IDS), start, len, choices.pick(&PATHS))
}

fn happened(choices: &mut Choices<'_>) -> Happened {
    let id = choices.pick(&IDS);
    match choices.below(4) {
        0 => Happened::Began(id),
        1 => Happened::Ended(id, choices.pick(&IDS)),
        2 => Happened::Named(id, choices.pick(&PATHS)),
        _ => Happened::Mapped(Mapped {
            pid: id,
            ..mapping(choices)
        }),
    }
}

/// A record of another kind, whose contents are numbers.
fn other(choices: &mut Choices<'_>) -> (u32, u16, Vec<u8>) {
    let kind = choices.pick(&OTHER_KINDS);
    let misc = choices.pick(&[0u16, 2, 1, 1 << 13, 1 << 14, 1 << 15, u16::MAX]);
    let mut body = Vec::new();
    for _ in 0..choices.below(10) {
        body.extend(choices.number().to_le_bytes());
    }
    let odd = choices.below(8);
    body.extend(choices.bytes(odd));
    (kind, misc, body)
}

/// A feature section of an odd size, whose counts and lengths are anything.
fn section(choices: &mut Choices<'_>, kind: u8, is_big_endian: bool) -> Vec<u8> {
    let mut out = super::out::Out::new(Layout {
        is_big_endian,
        ..Layout::PLAIN
    });
    for _ in 0..choices.below(12) {
        match choices.below(4) {
            0 => out.u64(choices.number()),
            1 => out.u32(choices.half()),
            2 if kind == 14 => out.counted(choices.pick(&["0-7", "0-4294967295", "7-0", "65535"])),
            2 => out.counted(choices.pick(&PATHS)),
            _ => {
                let small = choices.below(4);
                out.u32(small as u32);
            }
        }
    }
    let odd = choices.below(9);
    out.bytes.extend(choices.bytes(odd));
    out.bytes
}

/// Changes some bytes of one file in eight, and cuts some short.
fn damage(choices: &mut Choices<'_>, file: &mut Vec<u8>) {
    if choices.one_in(8) {
        choices.damage(file);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use hitm_perf::read::read;

    use super::*;
    use crate::noise;

    #[test]
    fn most_files_are_read_and_have_samples() {
        let (mut files, mut samples) = (0, 0);
        for seed in 0..300 {
            let bytes = noise(seed, 1000);
            let file = made(&mut Choices::new(&bytes));
            assert_eq!(file, made(&mut Choices::new(&bytes)));
            let mut count = 0;
            let result = read(Cursor::new(file), &mut |_, _, _| count += 1, &mut |_, _| {});
            files += u32::from(result.is_ok());
            samples += count;
        }
        assert!(
            files > 150 && samples > 1000,
            "{files} files, {samples} samples"
        );
    }
}
