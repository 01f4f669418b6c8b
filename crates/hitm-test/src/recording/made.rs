//! Whole recordings with extreme numbers: every kind of record, several chunks, damage on purpose.

use serde_json::{Value, json};

use super::wire::{Block, FileWriter, Payload, WireAccess, repair_checksums};
use crate::Choices;
use hitm_trace::{CALLERS_MAX, COUNT_MAX, LATENCY_MAX};

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

/// Numbers that the records of one file share, so that they refer to each other. So accesses hit
/// heap blocks, stacks lie in mappings, and threads have started.
struct Pool {
    addresses: [u64; 4],
    codes: [u64; 4],
    threads: [u64; 4],
    time: u64,
    len: usize,
}

impl Pool {
    fn draw(choices: &mut Choices<'_>) -> Pool {
        let first = choices.number();
        let second = choices.number();
        let is_extreme = choices.one_in(4);
        Pool {
            addresses: [0x5000_0000, 0x5000_0040, first, second],
            codes: [0x40_1000, 0x40_1010, second, first],
            threads: if is_extreme {
                [0, 1, u64::from(u32::MAX), choices.half().into()]
            } else {
                [0, 1, 2, 3]
            },
            time: limited(choices, COUNT_MAX / 2),
            len: 0,
        }
    }

    fn address(&self, choices: &mut Choices<'_>) -> u64 {
        match choices.below(8) {
            7 => choices.number(),
            place => self.addresses[place % 4].wrapping_add(choices.below(128) as u64),
        }
    }

    fn code(&self, choices: &mut Choices<'_>) -> u64 {
        match choices.below(8) {
            7 => choices.number(),
            place => self.codes[place % 4],
        }
    }

    fn thread(&self, choices: &mut Choices<'_>) -> u64 {
        match choices.below(256) {
            254 => choices.half().into(),
            255 if choices.odd(2) => choices.number(),
            place => self.threads[place % 4],
        }
    }

    /// A moment: a little after the last one, or any.
    fn time(&mut self, choices: &mut Choices<'_>) -> u64 {
        self.time = match choices.below(16) {
            15 => limited(choices, COUNT_MAX),
            step if self.time <= COUNT_MAX => (self.time + step as u64 * 100).min(COUNT_MAX),
            _ => self.time,
        };
        self.time
    }
}

/// A recording as bytes. Most parts are well-formed; some are ranges that wrap, chains of 20,000
/// calls, times that run backwards, unknown kinds of records and damaged chunks.
pub fn made(choices: &mut Choices<'_>) -> Vec<u8> {
    choices.draw_soundness();
    let mut file = FileWriter::new(&header(choices));
    let mut pool = Pool::draw(choices);
    let mut blocks = 0;
    while !choices.is_empty() && blocks < BLOCKS_MAX && pool.len < FILE_LEN_MAX {
        let mut block = Block::default();
        let count = 1 + choices.below(64);
        for _ in 0..count {
            if choices.is_empty() || pool.len + block.bytes.len() > FILE_LEN_MAX {
                break;
            }
            record(choices, &mut pool, &mut block);
        }
        pool.len += block.bytes.len();
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
    for _ in 0..choices.below(4) {
        let at = choices.word(3) as usize % bytes.len();
        bytes[at] ^= choices.byte();
    }
    if choices.one_in(4) {
        let kept = choices.word(3) as usize % bytes.len();
        bytes.truncate(kept);
    }
    if choices.one_in(2) {
        repair_checksums(bytes);
    }
}

/// Adds a record of any kind, most often an access.
fn record(choices: &mut Choices<'_>, pool: &mut Pool, block: &mut Block) {
    match choices.below(28) {
        0 => thread(choices, pool, block),
        1 => timed(choices, pool, block, 2, |choices, pool, time, payload| {
            payload.numbers(&[pool.thread(choices), small(choices, 5), time]);
        }),
        2 => timed(choices, pool, block, 3, |choices, pool, time, payload| {
            payload.numbers(&[pool.thread(choices), time]);
            (0..4).for_each(|_| {
                payload.numbers(&[limited(choices, COUNT_MAX)]);
            });
        }),
        3 => repeat(choices, |choices| mapping(choices, pool, block)),
        4 => repeat(choices, |choices| heap_object(choices, pool, block)),
        5 => region(choices, pool, block),
        6 => counters(choices, block),
        7 => end(choices, pool, block),
        8 => work(choices, pool, block),
        9 => turn(choices, pool, block),
        10 => block.record(11, |payload| {
            payload.counted(choices.text().as_bytes());
        }),
        11 => callers(choices, pool, block),
        12 => process(choices, pool, block),
        13 => timed(choices, pool, block, 14, |choices, _, time, payload| {
            let (process, reason) = (small(choices, 4), small(choices, 5));
            payload.numbers(&[process, time, reason, small(choices, 20)]);
        }),
        14 => {
            // An unknown kind, or a kind with the payload of another.
            let kind = match choices.odd(8) {
                true => 1 + choices.below(127) as u8,
                false => 15 + choices.below(113) as u8,
            };
            let len = choices.below(40);
            block.record(kind, |payload| payload.0.extend(choices.bytes(len)));
        }
        _ => repeat(choices, |choices| access(choices, pool, block)),
    }
}

/// Repeats mostly once, sometimes many times.
fn repeat(choices: &mut Choices<'_>, mut write: impl FnMut(&mut Choices<'_>)) {
    let times = choices.pick(&[1, 1, 1, 1, 1, 2, 8, 40]);
    (0..times).for_each(|_| write(choices));
}

/// A number within the format's limit `max`; rarely any.
fn limited(choices: &mut Choices<'_>, max: u64) -> u64 {
    let number = choices.number();
    match choices.odd(16) {
        true => number,
        false => number.min(max),
    }
}

/// A number below `bound`; now and then any of 16 bits, or of 64.
fn small(choices: &mut Choices<'_>, bound: usize) -> u64 {
    match choices.below(256) {
        254 => choices.half().into(),
        255 if choices.odd(2) => choices.number(),
        240..=253 => choices.word(2),
        _ => choices.below(bound) as u64,
    }
}

/// A record of a kind that has a time.
fn timed(
    choices: &mut Choices<'_>,
    pool: &mut Pool,
    block: &mut Block,
    kind: u8,
    write: impl FnOnce(&mut Choices<'_>, &mut Pool, u64, &mut Payload),
) {
    let time = pool.time(choices);
    block.note_time(time);
    block.record(kind, |payload| write(choices, pool, time, payload));
}

fn thread(choices: &mut Choices<'_>, pool: &mut Pool, block: &mut Block) {
    timed(choices, pool, block, 1, |choices, pool, time, payload| {
        let (tid, cpu) = (small(choices, 256), small(choices, 5));
        payload.numbers(&[pool.thread(choices), tid, cpu, time]);
        payload.counted(choices.text().as_bytes());
        payload.numbers(&[small(choices, 8)]);
        if choices.one_in(4) {
            payload.numbers(&[small(choices, 4)]);
        }
    });
}

fn process(choices: &mut Choices<'_>, pool: &mut Pool, block: &mut Block) {
    timed(choices, pool, block, 13, |choices, _, time, payload| {
        let (process, pid, parent) = (small(choices, 4), small(choices, 256), small(choices, 4));
        payload.numbers(&[process, pid, parent, time]);
        payload.counted(choices.text().as_bytes());
    });
}

/// A first address and a length; seldom one that wraps or ends before it begins.
fn range(choices: &mut Choices<'_>, pool: &Pool) -> (u64, u64) {
    let start = pool.address(choices) & !63;
    let len = match choices.below(4) {
        0 => 64,
        1 => 4096,
        2 => choices.number(),
        _ => u64::MAX - start / 2,
    };
    match choices.odd(8) {
        true => (start, len),
        false => (start, len.min(u64::MAX - start)),
    }
}

fn mapping(choices: &mut Choices<'_>, pool: &Pool, block: &mut Block) {
    let (start, len) = range(choices, pool);
    let build_id_len = choices.pick(&[0, 20, 1, 64]);
    block.record(4, |payload| {
        payload.numbers(&[start, start.wrapping_add(len), choices.number()]);
        payload.counted(choices.text().as_bytes());
        payload.counted(choices.bytes(build_id_len));
        payload.byte(choices.byte() & 1);
    });
}

/// Addresses of a chain: a few from the pool, or a long row.
fn addresses(choices: &mut Choices<'_>, pool: &Pool) -> Vec<u64> {
    let count = choices.count(20_000);
    let count = match choices.odd(2) {
        true => count,
        false => count.min(CALLERS_MAX),
    };
    if count > 8 {
        let (first, step) = (pool.code(choices), choices.number());
        let nth = |nth: u64| first.wrapping_add(step.wrapping_mul(nth));
        return (0..count as u64).map(nth).collect();
    }
    (0..count).map(|_| pool.code(choices)).collect()
}

fn heap_object(choices: &mut Choices<'_>, pool: &mut Pool, block: &mut Block) {
    let (start, len) = range(choices, pool);
    timed(choices, pool, block, 5, |choices, pool, time, payload| {
        payload.numbers(&[start, len, time, pool.thread(choices)]);
        payload.stack(&addresses(choices, pool));
    });
}

fn region(choices: &mut Choices<'_>, pool: &Pool, block: &mut Block) {
    let (start, len) = range(choices, pool);
    let kind = (choices.below(64) % 15 % 8) as u8 % 7;
    block.record(6, |payload| {
        payload
            .numbers(&[start, start.wrapping_add(len)])
            .byte(kind);
        match kind {
            0 => {
                payload.numbers(&[pool.thread(choices)]);
            }
            1 => {
                payload.stack(&addresses(choices, pool));
            }
            3 | 4 => {
                payload.counted(choices.text().as_bytes());
                payload.counted(choices.text().as_bytes());
                if kind == 4 {
                    payload.numbers(&[choices.number()]);
                }
            }
            5 => {
                payload.numbers(&[choices.half().into()]);
            }
            6 => {
                let address = choices.number();
                let is_sound = !choices.odd(8);
                payload.numbers(&[if is_sound {
                    address.min(u64::MAX - len)
                } else {
                    address
                }]);
            }
            _ => {}
        }
    });
}

fn counters(choices: &mut Choices<'_>, block: &mut Block) {
    let count = choices.count(1000);
    let (name, value) = (choices.text(), choices.number());
    block.record(7, |payload| {
        payload.numbers(&[count as u64]);
        for nth in 0..count {
            payload.counted(format!("{name}{nth}").as_bytes());
            payload.numbers(&[value.wrapping_add(nth as u64)]);
        }
    });
}

fn end(choices: &mut Choices<'_>, pool: &mut Pool, block: &mut Block) {
    timed(choices, pool, block, 8, |choices, _, time, payload| {
        payload.numbers(&[time]).byte(choices.below(6) as u8);
        payload.signed(choices.number() as i64);
        (0..6).for_each(|_| {
            payload.numbers(&[choices.number()]);
        });
    });
}

fn work(choices: &mut Choices<'_>, pool: &Pool, block: &mut Block) {
    let adoptions = choices.below(4);
    let steps = choices.below(12);
    block.record(9, |payload| {
        payload.numbers(&[pool.thread(choices), adoptions as u64]);
        let mut last = 0;
        for _ in 0..adoptions {
            let line = match choices.one_in(16) {
                true => choices.number(),
                false => pool.address(choices) / 64,
            };
            let owner = pool.thread(choices).wrapping_mul(2) | 1;
            payload
                .signed(line.wrapping_sub(last) as i64)
                .numbers(&[owner]);
            last = line;
        }
        payload.numbers(&[steps as u64]);
        for _ in 0..steps {
            let first = choices.byte();
            payload.byte(first);
            if first >> 3 == 31 {
                payload.numbers(&[choices.number()]);
            }
            if first & 3 == 3 {
                payload.numbers(&[choices.number()]);
            }
        }
        payload.numbers(&[choices.number(), choices.number()]);
    });
}

fn turn(choices: &mut Choices<'_>, pool: &Pool, block: &mut Block) {
    let how = (choices.below(64) % 15 % 6) as u8 % 5;
    block.record(10, |payload| {
        payload.byte(how);
        match how {
            0 | 1 => {
                payload.numbers(&[pool.thread(choices)]);
            }
            2 => {
                let (thread, waker) = (pool.thread(choices), pool.thread(choices));
                payload.numbers(&[thread, waker, choices.number()]);
                payload.signed(choices.number() as i64);
            }
            4 => {
                payload.numbers(&[limited(choices, COUNT_MAX)]);
            }
            _ => {}
        }
    });
}

fn callers(choices: &mut Choices<'_>, pool: &Pool, block: &mut Block) {
    let known = match choices.below(64) {
        0 if choices.odd(2) => Some(choices.number()),
        1..=31 if block.chain_count > 0 => Some(choices.below(block.chain_count) as u64),
        _ => None,
    };
    let chain = addresses(choices, pool);
    block.chain_count += usize::from(known.is_none());
    block.record(12, |payload| match known {
        Some(known) => {
            payload.numbers(&[known.wrapping_add(1)]);
        }
        None => {
            payload.callers(&chain);
        }
    });
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
    use std::collections::BTreeSet;

    use hitm_base::Machine;
    use hitm_trace::{Record, TraceReader};

    use super::*;
    use crate::noise;
    use crate::recording::Collect;

    #[test]
    fn the_machine_is_one() {
        let machine = Machine::from_toml(MACHINE, "small").unwrap();
        assert_eq!(machine.topology.cpu_count(), 4);
    }

    /// Its place among the kinds of records.
    fn kind(record: &Record) -> usize {
        let is_kind = [
            matches!(record, Record::Access { .. }),
            matches!(record, Record::ThreadStart(_)),
            matches!(record, Record::ProcessStart(_)),
            matches!(record, Record::ProcessExit(_)),
            matches!(record, Record::ThreadPlaced(_)),
            matches!(record, Record::ThreadExit(_)),
            matches!(record, Record::Mapping(_)),
            matches!(record, Record::HeapObject(_)),
            matches!(record, Record::Region(_)),
            matches!(record, Record::Counters(_)),
            matches!(record, Record::Work(_)),
            matches!(record, Record::Turn(_)),
            matches!(record, Record::Callers(_)),
            matches!(record, Record::Layout(_)),
            matches!(record, Record::End(_)),
        ];
        is_kind
            .iter()
            .position(|is_it| *is_it)
            .expect("it is a known kind")
    }

    #[test]
    fn most_files_are_read_whole_and_have_every_kind_of_record() {
        let mut whole = 0;
        let mut kinds = BTreeSet::new();
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
            kinds.extend(records.0.iter().map(kind));
        }
        assert!(kinds.len() == 15 && whole > 100, "{kinds:?}, {whole} files");
    }
}
