//! Samples of other tools, and of a live host, of which one number grows.

use std::fmt::Write as _;

use hitm_perf::Sample;
use serde_json::{Value, json};

use super::{Files, Input};
use crate::perf_data::{Content, Happened, Layout, Mapped, bits, generate, vendors};

const REPORT: &str = "report -i x.data";
const JSON: &str = "report -i x.data --format json --top 100000";
const C2C: &str = "report -i x.data --perf-c2c";
const IMPORT: &str = "import x.data -o x.hitm";
const KERNEL: &str = "report -i x.data --kallsyms kallsyms";

const ALL: &[&str] = &[REPORT, JSON, C2C, IMPORT];

pub(super) const INPUTS: &[Input] = &[
    Input {
        number: "samples of one line in perf.data",
        size: 40_000,
        make: |size| {
            perf_data(size, &|number, sample| {
                sample.ip = vendors::CODE + number % 64
            })
        },
        readers: ALL,
    },
    Input {
        number: "sampled lines of perf.data",
        size: 20_000,
        make: |size| perf_data(size, &|number, sample| sample.addr += number / 2 * 64),
        readers: ALL,
    },
    Input {
        number: "sampled instructions of perf.data",
        size: 12_000,
        make: |size| {
            perf_data(size, &|number, sample| {
                sample.ip = vendors::CODE + number / 2
            })
        },
        readers: ALL,
    },
    Input {
        number: "sampled threads of perf.data",
        size: 10_000,
        make: |size| perf_data(size, &|number, sample| sample.tid = 100 + number as u32 / 2),
        readers: ALL,
    },
    Input {
        number: "sampled processes of perf.data",
        size: 5000,
        make: processes,
        readers: ALL,
    },
    Input {
        number: "mappings of perf.data",
        size: 6000,
        make: mappings,
        readers: ALL,
    },
    Input {
        number: "processes that began and ended in perf.data",
        size: 5000,
        make: lives,
        readers: ALL,
    },
    Input {
        number: "call chains of perf.data",
        size: 10_000,
        make: chains,
        readers: ALL,
    },
    Input {
        number: "symbols of a kernel",
        size: 20_000,
        make: kernel_symbols,
        readers: &[KERNEL],
    },
    Input {
        number: "lines of perf script",
        size: 20_000,
        make: script,
        readers: ALL,
    },
    Input {
        number: "locks of a live recording",
        size: 2000,
        make: live_locks,
        readers: &[REPORT, JSON],
    },
    Input {
        number: "threads of a live recording",
        size: 5000,
        make: live_threads,
        readers: &[REPORT, JSON],
    },
    Input {
        number: "addresses of a lock of a live recording",
        size: 20_000,
        make: live_addresses,
        readers: &[REPORT, JSON],
    },
    Input {
        number: "stacks of a live recording",
        size: 4000,
        make: live_stacks,
        readers: &[REPORT, JSON],
    },
];

/// So many samples, of which `change` makes each another one.
fn samples(size: usize, change: &dyn Fn(u64, &mut Sample)) -> Content {
    let words = vendors::intel();
    let mut content = vendors::content("x86_64", "GenuineIntel,6,85,7", &words, bits::WEIGHT);
    let made = content.samples.clone();
    let sample = |number: usize| {
        let (event, mut sample) = made[number % made.len()];
        sample.time_ns = 1_000_000 + 1000 * number as u64;
        change(number as u64, &mut sample);
        (event, sample)
    };
    content.samples = (0..size.max(8)).map(sample).collect();
    content
}

fn file(content: &Content) -> Files {
    vec![("x.data".to_owned(), generate(content, Layout::PLAIN))]
}

fn perf_data(size: usize, change: &dyn Fn(u64, &mut Sample)) -> Files {
    file(&samples(size, change))
}

/// A text that lives as long as the process, as names of files do in the builder.
fn path(number: usize) -> &'static str {
    const PATHS: &str = "/nonexistent/file";
    Box::leak(format!("{PATHS}{number}").into_boxed_str())
}

/// One of 64 programs in a process.
fn mapped(pid: u32, number: usize) -> Mapped {
    Mapped::new(pid, 0x40_0000, 0x1_0000, path(number % 64))
}

fn processes(size: usize) -> Files {
    let mut content = samples(2 * size, &|number, sample| {
        sample.pid = 100 + number as u32 / 2;
        sample.tid = sample.pid;
    });
    let mapping = |number: usize| mapped(100 + number as u32, number);
    content.mappings = (0..size).map(mapping).collect();
    file(&content)
}

fn mappings(size: usize) -> Files {
    let at = |number: u64| 0x1000_0000 + number * 0x2000;
    let mut content = samples(2 * size, &|number, sample| {
        sample.addr = at(number / 2) + 8 * (number % 2);
        sample.ip = at(number / 2) + 0x800;
    });
    let mapping = |number: usize| Mapped::new(100, at(number as u64), 0x1000, path(number));
    content.mappings = (0..size).map(mapping).collect();
    file(&content)
}

/// Processes of one number after each other, each with a mapping and a sample.
fn lives(size: usize) -> Files {
    let mut content = samples(size, &|_, _| {});
    let lives = (0..size).flat_map(|number| {
        let time = 1_000_000 + 1000 * number as u64 - 500;
        [
            (time, Happened::Began(100)),
            (time + 1, Happened::Named(100, "program")),
            (time + 2, Happened::Mapped(mapped(100, number))),
            (time + 900, Happened::Ended(100, 100)),
        ]
    });
    content.happened = lives.collect();
    file(&content)
}

fn chains(size: usize) -> Files {
    let mut content = samples(size, &|number, sample| sample.period = 1 + number);
    for event in &mut content.events {
        event.sample_type |= bits::CALLCHAIN;
    }
    content.chain = |sample| {
        let of = |depth: u64| vendors::CODE + 0x100 * depth + (sample.period >> depth);
        [vendors::USER, sample.ip]
            .into_iter()
            .chain((1..8).map(of))
            .collect()
    };
    file(&content)
}

fn kernel_symbols(size: usize) -> Files {
    const FIRST: u64 = 0xffff_ffff_8100_0000;
    let content = samples(size, &|number, sample| {
        sample.mode = hitm_perf::CpuMode::Kernel;
        sample.ip = FIRST + number * 16;
        sample.addr = FIRST + 0x100_0000 + number / 2 * 64;
    });
    let mut symbols = String::new();
    for number in 0..size as u64 {
        let _ = writeln!(symbols, "{:016x} T f{number}", FIRST + number * 16);
        let _ = writeln!(
            symbols,
            "{:016x} D v{number}",
            FIRST + 0x100_0000 + number * 64
        );
    }
    let mut files = file(&content);
    files.push(("kallsyms".to_owned(), symbols.into()));
    files
}

fn script(size: usize) -> Files {
    let mut text = String::new();
    for number in 0..size.max(8) {
        let (thread, line) = (100 + number % 2, 0x1000 + number / 2 * 64);
        let _ = writeln!(
            text,
            "100/{thread} [00{}] 1.{number:09}: cpu/mem-loads,ldlat=30/P: {line:x} 10c2a100a42 \
             |OP LOAD|LVL LFB hit|SNP HitM|TLB L1 hit|LCK No|BLK  N/A 400 {:x} f{}+0x10",
            number % 2,
            0x40_1000 + number / 4,
            number / 4
        );
    }
    vec![("x.data".to_owned(), text.into())]
}

/// A recording of waits and samples: of each its thread, stack and lock.
fn live(
    names: Vec<String>,
    thread_count: usize,
    stacks: Vec<Value>,
    places: impl Iterator<Item = [usize; 3]>,
) -> Files {
    let thread = |number: usize| {
        json!({
            "pid": 100, "tid": 100 + number, "comm": format!("t{number}"), "start_ticks": 1,
        })
    };
    let threads: Vec<Value> = (0..thread_count).map(thread).collect();
    let (mut samples, mut waits) = (Vec::new(), Vec::new());
    for [thread, stack, lock] in places {
        samples.push(json!({ "thread": thread, "stack": stack, "count": 3 }));
        waits.push(json!({
            "thread": thread, "stack": stack, "lock": 0x1000 + 64 * lock, "count": 2,
            "wait_ns": 2_000_000, "longest_ns": 1_000_000,
        }));
    }
    let recording = json!({
        "kernel": "6.12", "cpu_count": 4, "target": "all", "layers": ["samples"],
        "missing": [], "period_ns": 1_000_000, "duration_ns": 10_000_000_000_u64, "lost_count": 0,
        "threads": threads, "names": names, "stacks": stacks, "objects": [], "samples": samples,
        "waits": waits,
    });
    // By its first key the file is known as one.
    let text = recording.to_string().replacen('{', "{\"hitm_live\":1,", 1);
    vec![("x.data".to_owned(), text.into())]
}

/// Functions of a lock's slow path, and others.
fn functions(size: usize) -> Vec<String> {
    let slow = ["native_queued_spin_lock_slowpath", "_raw_spin_lock"];
    let slow = slow.into_iter().map(str::to_owned);
    slow.chain((0..size).map(|number| format!("f{number}")))
        .collect()
}

fn live_locks(size: usize) -> Files {
    let stack = |number: usize| json!({ "kernel": [0, 1, 2 + number], "user": [] });
    let stacks = (0..size).map(stack).collect();
    let places = (0..2 * size).map(|number| [number % 2, number / 2, number / 2]);
    live(functions(size), 2, stacks, places)
}

fn live_threads(size: usize) -> Files {
    let stacks = vec![json!({ "kernel": [0, 1, 2], "user": [] })];
    let places = (0..size).map(|number| [number, 0, 0]);
    live(functions(1), size, stacks, places)
}

fn live_addresses(size: usize) -> Files {
    let stacks = vec![json!({ "kernel": [0, 1, 2], "user": [] })];
    let places = (0..size).map(|number| [number % 2, 0, number]);
    live(functions(1), 2, stacks, places)
}

fn live_stacks(size: usize) -> Files {
    let stack = |number: usize| json!({ "kernel": [0, 1, 2], "user": [3 + number] });
    let stacks = (0..size).map(stack).collect();
    let places = (0..size).map(|number| [number % 2, number, 0]);
    live(functions(size + 1), 2, stacks, places)
}
