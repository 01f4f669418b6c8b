//! Recordings of which one number grows.

use hitm_base::{CodeAddr, Cycles, ThreadId};
use hitm_trace::{
    Counter, HeapObject, PROCESS_SHIFT, ProcessStart, Record, Region, RegionKind, SHARED_FIRST,
};

use super::touches::{FEW, MANY, Touch, fight, files, files_of, mapping, range, start};
use super::{Files, Input, programs};

const REPORT: &str = "report -i x.hitm";
const JSON: &str = "report -i x.hitm --format json --top 100000";
const PAGE: &str = "report -i x.hitm --format html -o x.html";
const SARIF: &str = "report -i x.hitm --format sarif --fail-on cycles=1 --baseline one.hitm";
const JUNIT: &str = "report -i x.hitm --format junit --fail-on cycles=1 --fail-on false-sharing --baseline one.hitm";
const GITHUB: &str = "report -i x.hitm --format github --fail-on cycles=1";
const C2C: &str = "report -i x.hitm --perf-c2c";
const BY: &str = "report -i x.hitm --by object,function,member,process --top 100000";
const WHATIF: &str = "whatif -i x.hitm --threads-to compact";
const DIFF: &str = "diff x.hitm one.hitm --top 100000";
const DIFF_PAGE: &str = "diff x.hitm one.hitm --format html -o x.html";
const FOLDED: &str = "export x.hitm --folded x.folded";
const FIREFOX: &str = "export x.hitm --firefox x.json";
const PERFETTO: &str = "export x.hitm --perfetto x.trace";
const CSV: &str = "export x.hitm --csv tables";
const PERF_DATA: &str = "export x.hitm --perf-data x.data";
const CALLS: &str = "export x.hitm --calls x.csv";
const TYPE: &str = "report -i x.hitm --type s";
const ADVISE: &str = "layout advise s -i program -p x.hitm";

pub(super) const INPUTS: &[Input] = &[
    Input {
        number: "accesses of a recording",
        size: 100_000,
        make: accesses,
        readers: &[REPORT, C2C, WHATIF, DIFF, FOLDED, PERFETTO, PERF_DATA],
    },
    Input {
        number: "contended lines of a recording",
        size: 2000,
        make: lines,
        readers: &[
            REPORT, JSON, PAGE, SARIF, JUNIT, GITHUB, C2C, BY, WHATIF, DIFF, DIFF_PAGE, FOLDED,
            FIREFOX, PERFETTO, CSV, PERF_DATA,
        ],
    },
    Input {
        number: "instructions that touch one line",
        size: 2500,
        make: instructions,
        readers: &[
            REPORT, JSON, PAGE, SARIF, JUNIT, C2C, BY, WHATIF, DIFF, FOLDED, FIREFOX, PERFETTO, CSV,
        ],
    },
    Input {
        number: "threads of a recording",
        size: 1200,
        make: threads,
        readers: &[
            REPORT, JSON, PAGE, SARIF, C2C, BY, WHATIF, DIFF, DIFF_PAGE, FOLDED, FIREFOX, PERFETTO,
            CSV, PERF_DATA,
        ],
    },
    Input {
        number: "processes of a recording",
        size: 500,
        make: processes,
        readers: &[
            REPORT, JSON, PAGE, C2C, BY, WHATIF, DIFF, FOLDED, PERFETTO, CSV, PERF_DATA,
        ],
    },
    Input {
        number: "mapped files",
        size: 1000,
        make: mapped_files,
        readers: &[
            REPORT, JSON, SARIF, C2C, BY, WHATIF, DIFF, FOLDED, CSV, PERF_DATA,
        ],
    },
    Input {
        number: "mappings within a mapping",
        size: 1500,
        make: mappings_within,
        readers: &[REPORT, JSON, C2C, DIFF, FOLDED],
    },
    Input {
        number: "heap blocks of a site each",
        size: 1000,
        make: heap_blocks,
        readers: &[REPORT, JSON, PAGE, SARIF, BY, WHATIF, DIFF, FOLDED, CSV],
    },
    Input {
        number: "heap blocks of one line",
        size: 8000,
        make: heap_blocks_of_one_site,
        readers: &[REPORT, JSON, BY],
    },
    Input {
        number: "objects of a kernel within each other",
        size: 1000,
        make: kernel_objects,
        readers: &[REPORT, JSON, BY, WHATIF, DIFF, CSV],
    },
    Input {
        number: "call chains",
        size: 2500,
        make: call_chains,
        readers: &[
            REPORT, JSON, PAGE, BY, WHATIF, DIFF, FOLDED, FIREFOX, CSV, PERF_DATA,
        ],
    },
    Input {
        number: "calls of a chain",
        size: 100,
        make: long_chains,
        readers: &[REPORT, JSON, WHATIF, FOLDED, FIREFOX, CSV, PERF_DATA],
    },
    Input {
        number: "counters of a recording",
        size: 6000,
        make: counters,
        readers: &[REPORT, CALLS],
    },
    Input {
        number: "names of a thread",
        size: 10_000,
        make: names,
        readers: &[REPORT, WHATIF, PERFETTO, PERF_DATA],
    },
    Input {
        number: "layouts of a recording",
        size: 2000,
        make: layouts,
        readers: &[REPORT, WHATIF],
    },
    Input {
        number: "functions with inlined calls that accesses are in",
        size: 1500,
        make: named_functions,
        readers: &[REPORT, FOLDED, BY],
    },
    Input {
        number: "inlined calls of one function that accesses are in",
        size: 4000,
        make: inlined_calls,
        readers: &[REPORT, FOLDED],
    },
    Input {
        number: "inlined calls within each other that accesses are in",
        size: 200,
        make: nested_calls,
        readers: &[REPORT, FOLDED],
    },
    // A report shows lines that lose a thousandth of the run, so at most a thousand.
    Input {
        number: "variables on lines that are shown",
        size: 240,
        make: variables,
        readers: &[REPORT, JSON, PAGE, SARIF, JUNIT, GITHUB, BY, DIFF, CSV],
    },
    Input {
        number: "objects of a type",
        size: 1500,
        make: variables,
        readers: &[TYPE, ADVISE],
    },
];

const BASE: u64 = 0x40_0000;
const DATA: u64 = 0x1_0000_0000;
const HEAP: u64 = 0x2_0000_0000;
fn accesses(size: usize) -> Files {
    let touch = |number: usize| {
        let line = (number / 2 % 16) as u64;
        let thread = number % 2;
        Touch::new(thread, DATA + line * 64 + 8 * thread as u64, BASE + line)
    };
    files(2, Vec::new(), (0..size).map(touch).collect())
}

fn lines(size: usize) -> Files {
    let addrs = (0..size as u64).map(|line| DATA + line * 64);
    files(2, Vec::new(), fight(MANY, addrs, |_| BASE))
}

fn instructions(size: usize) -> Files {
    let addrs = (0..size).map(|_| DATA);
    files(2, Vec::new(), fight(FEW, addrs, |number| BASE + 4 * number))
}

fn threads(size: usize) -> Files {
    let touch = |number: usize| Touch::new(number / 4, DATA + (number % 8) as u64 * 64, BASE);
    files(size.max(2), Vec::new(), (0..4 * size).map(touch).collect())
}

/// Each process has one thread and a file of its own. All of them fight over shared memory.
fn processes(size: usize) -> Files {
    let of = |process: u64| process << PROCESS_SHIFT;
    let processes = (0..size as u32).map(|process| {
        Record::ProcessStart(ProcessStart {
            process,
            pid: 100 + process,
            parent: 0,
            time: Cycles(0),
            program: format!("/nonexistent/program{process}"),
        })
    });
    let mappings = (0..size as u64).map(|process| {
        let range = range(of(process) + BASE, 0x10_0000);
        mapping(range, 0, format!("/nonexistent/program{process}"))
    });
    let touch = |number: usize| {
        let process = number % size;
        let line = of(u64::from(SHARED_FIRST)) + (number / size) as u64 * 64;
        Touch::new(process, line, of(process as u64) + BASE + 0x1000)
    };
    let touches = (0..4 * size).map(touch).collect();
    let before = processes.chain(mappings).collect();
    files_of(size.max(2), |thread| thread, before, touches)
}

fn mapped_files(size: usize) -> Files {
    let start = |number: u64| DATA + number * 0x2000;
    let mappings = (0..size as u64).map(|number| {
        let range = range(start(number), 0x1000);
        mapping(range, 0, format!("/nonexistent/file{number}"))
    });
    let addrs = (0..size as u64).map(start);
    files(
        2,
        mappings.collect(),
        fight(MANY, addrs, |number| start(number) + 0x800),
    )
}

/// Accesses behind all of the inner mappings, which are of one file and of none.
fn mappings_within(size: usize) -> Files {
    let len = 0x2000 * size as u64;
    let outer = mapping(range(DATA, 2 * len), 0, "/nonexistent/file".to_owned());
    let inner = (0..size as u64).map(|number| {
        let range = range(DATA + 0x1000 + number * 0x2000, 0x1000);
        match number % 2 {
            0 => mapping(range, 0x1000, "/nonexistent/other".to_owned()),
            _ => mapping(range, 0, String::new()),
        }
    });
    let addrs = (0..size as u64).map(|number| DATA + len + number * 64);
    files(
        2,
        [outer].into_iter().chain(inner).collect(),
        fight(MANY, addrs, |_| BASE),
    )
}

fn heap_block(start: u64, len: u64, stack: Vec<CodeAddr>) -> Record {
    Record::HeapObject(HeapObject {
        range: range(start, len),
        time: Cycles(0),
        thread: ThreadId(0),
        stack,
        told_type: None,
    })
}

fn heap_blocks(size: usize) -> Files {
    let blocks = (0..size as u64).map(|number| {
        let stack = [BASE + number, BASE + 0x10_0000 + number / 2].map(CodeAddr);
        heap_block(HEAP + number * 64, 64, stack.to_vec())
    });
    let addrs = (0..size as u64).map(|number| HEAP + number * 64);
    files(2, blocks.collect(), fight(MANY, addrs, |_| BASE))
}

/// One block after the other at the same address.
fn heap_blocks_of_one_site(size: usize) -> Files {
    let block = |number: u64| heap_block(HEAP + number % 4 * 16, 16, vec![CodeAddr(BASE)]);
    let addrs = (0..size).map(|_| HEAP);
    let blocks = (0..size as u64).map(block);
    files(2, blocks.collect(), fight(FEW, addrs, |_| BASE))
}

fn kernel_objects(size: usize) -> Files {
    let object = |number: u64| {
        let kind = RegionKind::Object {
            name: format!("object{number}"),
            type_name: "s".to_owned(),
        };
        let len = (2 * size as u64 - 2 * number) * 64;
        let range = range(HEAP + number * 64, len);
        Record::Region(Region { range, kind })
    };
    let addrs = (0..size as u64).map(|number| HEAP + number * 64);
    let objects = (0..size as u64).map(object);
    files(2, objects.collect(), fight(MANY, addrs, |_| BASE))
}

fn with_callers(touches: &mut [Touch], callers: impl Fn(usize) -> Vec<CodeAddr>) {
    for (number, touch) in touches.iter_mut().enumerate() {
        touch.callers = Some(callers(number).into());
    }
}

fn call_chains(size: usize) -> Files {
    let mut touches = fight(FEW, (0..size / 4 + 1).map(|_| DATA), |_| BASE);
    with_callers(&mut touches, |number| {
        let of = |depth: usize| CodeAddr(BASE + 0x1000 * depth as u64 + (number >> depth) as u64);
        (1..8).map(of).collect()
    });
    files(2, Vec::new(), touches)
}

fn long_chains(size: usize) -> Files {
    let mut touches = fight(FEW, (0..64).map(|_| DATA), |_| BASE);
    with_callers(&mut touches, |number| {
        let of = |depth: usize| CodeAddr(BASE + (number + depth) as u64);
        (0..size).map(of).collect()
    });
    files(2, Vec::new(), touches)
}

fn counters(size: usize) -> Files {
    let counter = |number: usize| {
        Record::Counters(vec![Counter {
            name: format!("calls_of_0x{:x}", BASE + number as u64),
            value: 7,
        }])
    };
    let addrs = (0..size as u64).map(|number| DATA + number % 64 * 64);
    let touches = fight(FEW, addrs, |number| BASE + number);
    files(2, (0..size).map(counter).collect(), touches)
}

fn names(size: usize) -> Files {
    let name = |number: usize| start(number % 2, 0, &format!("name{number}"));
    let addrs = (0..size as u64).map(|number| DATA + number % 64 * 64);
    files(
        2,
        (0..size).map(name).collect(),
        fight(FEW, addrs, |_| BASE),
    )
}

fn layouts(size: usize) -> Files {
    let layout = |number: usize| {
        Record::Layout(format!(
            "schema = 1\nname = \"l{number}\"\n[[struct]]\nname = \"s{number}\"\nsize_bytes = 8\n\
             members = [{{ name = \"m\", offset_bytes = 0, size_bytes = 8 }}]\n"
        ))
    };
    let addrs = (0..size as u64).map(|number| DATA + number % 64 * 64);
    files(
        2,
        (0..size).map(layout).collect(),
        fight(FEW, addrs, |_| BASE),
    )
}

/// Accesses by code and to data of `program`.
fn of_program(program: Vec<u8>, touches: Vec<Touch>) -> Files {
    let mapped = mapping(range(BASE, 0x1000_0000), 0, "program".to_owned());
    let mut files = files(2, vec![mapped], touches);
    files.push(("program".to_owned(), program));
    files
}

/// The runtime address of one in the program.
fn loaded(address: u64) -> u64 {
    BASE - programs::FIRST + address
}

fn by_code(program: Vec<u8>, size: usize) -> Files {
    let code = |number| loaded(programs::CODE + number);
    let addrs = (0..size).map(|_| DATA);
    of_program(program, fight(FEW, addrs, code))
}

fn named_functions(size: usize) -> Files {
    by_code(programs::functions(size), size)
}

fn inlined_calls(size: usize) -> Files {
    by_code(programs::inlined_calls(size), size)
}

fn nested_calls(size: usize) -> Files {
    by_code(programs::nested_calls(size), size)
}

fn variables(size: usize) -> Files {
    let addrs = (0..size as u64).map(|number| loaded(programs::DATA + number * 64));
    of_program(programs::variables(size), fight(MANY, addrs, |_| BASE))
}
