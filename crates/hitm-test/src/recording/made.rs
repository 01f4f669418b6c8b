//! Whole recordings with extreme numbers: every kind of record, several chunks, damage on purpose.

use serde_json::{Value, json};

use super::payload::{KINDS, add};
use super::pool::{Pool, limited, small};
use super::wire::{Block, FileWriter, WireAccess, repair_checksums};
use crate::Choices;
use hitm_trace::LATENCY_MAX;

/// A machine of four CPUs in two packages: short, because many inputs parse it.
pub const MACHINE: &str = r#"schema = 1
name = "small"
description = "two packages of two cores"
protocol = { value = "mesif", assumed = "test" }
clock = { value = "3GHz", assumed = "test" }
[topology]
assumed = "test"
packages = 2
cores = 2
threads = 1
numbering = "cores-first"
[caches.l1]
size = { value = "32KiB", assumed = "test" }
ways = { value = 8, assumed = "test" }
latency = { value = "4cycles", assumed = "test" }
[caches.l2]
size = { value = "1MiB", assumed = "test" }
ways = { value = 16, assumed = "test" }
latency = { value = "14cycles", assumed = "test" }
[caches.llc]
size = { value = "8MiB", assumed = "test" }
ways = { value = 16, assumed = "test" }
latency = { value = "20ns", assumed = "test" }
[occupancy_ratio]
package = { value = 0.5, assumed = "test" }
remote = { value = 0.5, assumed = "test" }
[transfers.llc]
clean = { value = "50ns", assumed = "test" }
dirty = { value = "51ns", assumed = "test" }
[transfers.remote]
clean = { value = "99ns", assumed = "test" }
dirty = { value = "107ns", assumed = "test" }
[dram]
local = { value = "90ns", assumed = "test" }
remote = { value = "150ns", assumed = "test" }
[core]
cpi = { value = 1.0, assumed = "test" }
store_buffer = { value = "4 entries", assumed = "test" }
load_window = { value = "32 instructions", assumed = "test" }
fill_buffers = { value = "2 lines", assumed = "test" }
locked_hit = { value = "20cycles", assumed = "test" }
"#;

/// Chunks of one file.
const BLOCKS_MAX: usize = 24;
/// Bytes after which a file gets no further record: a few input bytes can demand long chains.
const FILE_LEN_MAX: usize = 256 << 10;

/// A recording as bytes. Most parts are well-formed; some are ranges that wrap, chains of 20,000
/// calls, times that run backwards, unknown kinds of records and damaged chunks.
pub fn made(choices: &mut Choices<'_>) -> Vec<u8> {
    choices.draw_soundness();
    let mut file = FileWriter::new(&header(choices));
    let mut pool = Pool::draw(choices);
    let (mut blocks, mut len) = (0, 0);
    while !choices.is_empty() && blocks < BLOCKS_MAX && len < FILE_LEN_MAX {
        let mut block = Block::default();
        let count = 1 + choices.below(64);
        for _ in 0..count {
            if choices.is_empty() || len + block.bytes.len() > FILE_LEN_MAX {
                break;
            }
            record(choices, &mut pool, &mut block);
        }
        len += block.bytes.len();
        file.block(&block, choices.one_in(4));
        blocks += 1;
    }
    let mut bytes = match choices.one_in(8) {
        true => file.cut(),
        false => file.finish(),
    };
    damage(choices, &mut bytes);
    bytes
}

/// The header's JSON.
fn header(choices: &mut Choices<'_>) -> Value {
    let is_plain = !choices.one_in(4);
    let mut number = |usual: u64| if is_plain { usual } else { choices.number() };
    let (window, seed, clock) = (number(10_000), number(1), number(3_000_000));
    let page = number(4096);
    let mut text = |usual: &str| match is_plain {
        true => usual.to_owned(),
        false => choices.text(),
    };
    let mut header = json!({
        "schema": 1,
        "hitm_version": "0.1.0",
        "args": [text("./a")],
        "arch": "x86_64",
        "qemu_version": text("7.2.0"),
        "placement": "spread",
        "seed": seed,
        "window_cycles": window,
        "clock_khz": clock.max(1),
        "page_size_bytes": page as u32,
        "machine_toml": MACHINE,
    });
    if choices.one_in(4) {
        let event = json!({
            "name": choices.text(), "sample_count": choices.number(), "period_sum": choices.number(),
        });
        let process = json!({
            "pid": choices.half(), "name": choices.text(),
            "life": choices.number(), "began_ns": choices.number(),
        });
        header["sampled"] = json!({
            "events": [event],
            "processes": [process],
            "notes": [choices.text()],
            "tlb_known_count": choices.number(),
            "tlb_miss_count": choices.number(),
        });
    }
    header
}

/// Flips, cuts and repairs: one file in four is damaged.
fn damage(choices: &mut Choices<'_>, bytes: &mut Vec<u8>) {
    if !choices.one_in(4) {
        return;
    }
    choices.damage(bytes);
    if choices.one_in(2) {
        repair_checksums(bytes);
    }
}

/// Adds a record of any kind, most often an access.
fn record(choices: &mut Choices<'_>, pool: &mut Pool, block: &mut Block) {
    match choices.below(2 * KINDS.len()) {
        nth if nth < KINDS.len() => {
            repeat(choices, |choices| add(choices, pool, &KINDS[nth], block));
        }
        nth if nth == KINDS.len() => {
            // An unknown kind, or a kind with the payload of another.
            let unknown = KINDS.len() + 1 + choices.below(127 - KINDS.len());
            let kind = match choices.odd(8) {
                true => 1 + choices.below(127),
                false => unknown,
            };
            let len = choices.below(40);
            block.record(kind as u8, |payload| payload.0.extend(choices.bytes(len)));
        }
        _ => repeat(choices, |choices| access(choices, pool, block)),
    }
}

/// Repeats mostly once, sometimes many times.
fn repeat(choices: &mut Choices<'_>, mut write: impl FnMut(&mut Choices<'_>)) {
    let times = choices.pick(&[1, 1, 1, 1, 1, 2, 8, 40]);
    (0..times).for_each(|_| write(choices));
}

fn access(choices: &mut Choices<'_>, pool: &mut Pool, block: &mut Block) {
    // The last line of the address space holds nothing.
    let address = pool.address(choices).min(u64::MAX - 64);
    let offset = (address % 64) as u8;
    let op = choices.below(4) as u8;
    let size = choices.pick(&[8u8, 4, 1, 2, 64, 3]).min(64 - offset);
    let is_slow = choices.one_in(4);
    let mut cycles = |usual: u64, max: u64| match is_slow {
        true => limited(choices, max),
        false => usual,
    };
    // Latency is the sum of the first two.
    let (base, queued) = (cycles(300, LATENCY_MAX / 2), cycles(20, LATENCY_MAX / 2));
    let stall = cycles(320, LATENCY_MAX);
    block.access(&WireAccess {
        op,
        size: if op == 3 { 0 } else { size },
        time: pool.time(choices),
        thread: pool.thread(choices),
        cpu: small(choices, 4),
        code: pool.code(choices),
        line: address / 64,
        offset,
        source: choices.below(13) as u8,
        base,
        queued,
        stall: choices.one_in(2).then_some(stall),
    });
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::mem::discriminant;

    use hitm_base::Machine;
    use hitm_trace::TraceReader;

    use super::*;
    use crate::noise;
    use crate::recording::Collect;

    #[test]
    fn the_machine_is_one() {
        let machine = Machine::from_toml(MACHINE, "small").unwrap();
        assert_eq!(machine.topology.cpu_count(), 4);
    }

    #[test]
    fn most_files_are_read_whole_and_have_every_kind_of_record() {
        let mut whole = 0;
        let mut kinds = HashSet::new();
        for seed in 0..400 {
            let bytes = noise(seed, 2000);
            let file = made(&mut Choices::new(&bytes));
            let again = made(&mut Choices::new(&bytes));
            assert_eq!(file, again);
            let Ok(reader) = TraceReader::new(&file[..]) else {
                continue;
            };
            let mut reader = reader.resync();
            let mut records = Collect::default();
            whole += u32::from(
                reader
                    .visit(&mut records)
                    .is_ok_and(|found| found.is_complete()),
            );
            kinds.extend(records.0.iter().map(discriminant));
        }
        // A path is read as callers, and an access is no kind of the table.
        assert_eq!(kinds.len(), KINDS.len(), "{kinds:?}");
        assert!(whole > 100, "{whole} files");
    }
}
