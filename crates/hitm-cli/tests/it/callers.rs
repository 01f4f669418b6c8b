//! `hitm record -g`: the call chains of accesses, in programs that leave functions in every way there is.

use hitm_test::process::Command;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use hitm_base::{Access, CodeAddr};
use hitm_trace::{ChunkDecoder, Mapping, Record, TraceReader};

use crate::programs;

/// The functions that touch the line, and the functions that call them, innermost first, down to the
/// thread's own or as far as they are the same for all accesses.
const EXPECTED: [(&str, &[&str]); 14] = [
    ("touch_plain", &["plain_inner", "plain", "worker"]),
    (
        "touch_recursion",
        &[
            "recurse",
            "recurse",
            "recurse",
            "recurse",
            "recurse",
            "recursion",
            "worker",
        ],
    ),
    // The compiler makes a jump of the call between them.
    ("touch_tail", &["tail", "worker"]),
    ("touch_sized", &["sized_inner", "sized", "worker"]),
    (
        "touch_deep",
        &["jumps_deep", "jumps_deep", "jumps_deep", "jump", "worker"],
    ),
    // The first access after longjmp, before any call.
    ("jump", &["worker"]),
    ("touch_after_jump", &["after_jump", "jump", "worker"]),
    // The first access after a catch.
    ("exception", &["worker"]),
    ("touch_thrown", &["caught", "exception", "worker"]),
    ("touch_coroutine", &["step_inner", "step", "body"]),
    ("touch_resumer", &["resume", "coroutines", "worker"]),
    ("touch_handler", &["in_handler", "on_signal"]),
    (
        "touch_left_handler",
        &["leaves_handler", "on_leaving_signal"],
    ),
    ("touch_after_signal", &["after_signal", "signals", "worker"]),
];

/// Functions of a program by their first addresses, as its file has them.
struct Symbols(BTreeMap<u64, String>);

impl Symbols {
    fn of(program: &Path) -> Symbols {
        let output = hitm_test::process::Command::new("nm").arg(program).output();
        let text = String::from_utf8(output.expect("nm starts").stdout).expect("names are UTF-8");
        let symbol = |line: &str| {
            let [addr, kind, name] = *line.split(' ').collect::<Vec<_>>() else {
                return None;
            };
            let addr = u64::from_str_radix(addr, 16).ok()?;
            matches!(kind, "t" | "T").then(|| (addr, name.to_owned()))
        };
        Symbols(text.lines().filter_map(symbol).collect())
    }

    fn name(&self, addr: u64) -> &str {
        // The compiler may move what is seldom run apart.
        let found = self.0.range(..=addr).next_back();
        found.map_or("", |(_, name)| name.split('.').next().unwrap_or_default())
    }
}

/// Accesses of a recording with their callers.
#[derive(Default)]
struct Chains {
    mappings: Vec<Mapping>,
    found: Vec<(Access, Option<Vec<CodeAddr>>)>,
}

fn chains(recording: &Path) -> Chains {
    let file = File::open(recording).expect("the recording is there");
    let mut reader = TraceReader::new(file).expect("its header is whole");
    let mut decoder = ChunkDecoder::new().expect("zstd works");
    let mut chains = Chains::default();
    let mut callers = None;
    while let Some(block) = reader.next_block(&mut decoder).expect("the file is whole") {
        for record in block.records() {
            match record.expect("it decodes") {
                Record::Access { access, .. } => chains.found.push((access, callers.take())),
                Record::Callers(known) => callers = Some(known.to_vec()),
                Record::Mapping(mapping) => chains.mappings.push(mapping),
                _ => {}
            }
        }
    }
    chains
}

impl Chains {
    /// Returns the load bias: an address of the program minus the same one in its file.
    fn base(&self, program: &Path) -> u64 {
        let program = fs::canonicalize(program).expect("the program is there");
        let mut mappings = self.mappings.iter();
        // A position-independent program has addresses from 0 in its file.
        let first = mappings
            .find(|mapping| mapping.file_offset == 0 && Path::new(&mapping.path) == program);
        first.expect("the program is mapped").range.start()
    }
}

fn build(directory: &Path, rounds: u32) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/callers.cpp");
    programs::build(directory, "callers", &source, &[format!("ROUNDS={rounds}")])
}

fn record(directory: &Path, program: &Path, options: &[&str]) -> PathBuf {
    let recording = program.with_extension("hitm");
    let (recording_text, program) = (recording.to_str().unwrap(), program.to_str().unwrap());
    let mut args = vec!["record", "-o", recording_text];
    args.extend(options);
    args.push(program);
    let output = programs::run(directory, &args);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "hitm record fails: {error}");
    recording
}

/// Of the accesses of each function that the test knows: how many there are, and how many have the callers
/// that they must have.
#[test]
fn call_chains_are_right_however_functions_end() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let program = build(directory.path(), 60);
    let recording = record(directory.path(), &program, &["-g"]);
    let chains = chains(&recording);
    let (symbols, base) = (Symbols::of(&program), chains.base(&program));
    let name = |code: u64| symbols.name(code.wrapping_sub(base));
    let mut found: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    let mut wrong: BTreeMap<(&str, Vec<&str>), u64> = BTreeMap::new();
    for (access, callers) in &chains.found {
        let own = name(access.code.0);
        let Some((own, expected)) = EXPECTED.iter().find(|(function, _)| *function == own) else {
            continue;
        };
        // Calls and returns touch memory too, but none that is shared.
        let callers = callers.as_deref().unwrap_or_default();
        let names: Vec<&str> = callers.iter().map(|code| name(code.0 - 1)).collect();
        let counts = found.entry(own).or_default();
        counts.0 += 1;
        match names.starts_with(expected) {
            true => counts.1 += 1,
            false => *wrong.entry((own, names)).or_default() += 1,
        }
    }
    println!("{found:#?}\n{wrong:#?}");
    for (function, _) in EXPECTED {
        let (all, right) = found.get(function).copied().unwrap_or_default();
        assert!(all >= 50, "{function}: {all} accesses");
        assert!(right * 100 >= all * 99, "{function}: {right} of {all}");
    }
}

/// Two functions take one lock: which of them waits is not in the lock's own code.
const LOCKED: &str = r#"
#include <pthread.h>

#define APART __attribute__((noinline))
#define AFTER __asm__ volatile("" ::: "memory")

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long total;

APART static void take(void) { pthread_mutex_lock(&lock); AFTER; }
APART static void give(void) { pthread_mutex_unlock(&lock); AFTER; }
APART static void deposit(int round) { take(); total += round; give(); AFTER; }
APART static void audit(int round) { take(); total ^= round; give(); AFTER; }

static void *work(void *argument) {
    for (int round = 0; round < 20000; round++)
        (round % 4 ? deposit : audit)(round);
    return argument;
}

int main(void) {
    pthread_t other;
    pthread_create(&other, NULL, work, NULL);
    work(NULL);
    return pthread_join(other, NULL);
}
"#;

/// Accesses of the rows of a table of totals, by name.
fn totals(recording: &Path, options: &[&str]) -> BTreeMap<String, u64> {
    let recording = recording.to_str().unwrap();
    let mut args = vec!["report", "-i", recording, "--format", "json"];
    args.extend(options);
    let output = programs::run(Path::new("/"), &args);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let rows = report["totals_by"][0]["rows"].as_array().expect("a table");
    let row = |row: &serde_json::Value| {
        let name = row["name"].as_str().expect("a name").to_owned();
        (name, row["access_count"].as_u64().expect("a count"))
    };
    rows.iter().map(row).collect()
}

#[test]
fn a_lock_costs_those_who_take_it() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let source = directory.path().join("locked.c");
    fs::write(&source, LOCKED).expect("a temporary file");
    let program = programs::build(directory.path(), "locked", &source, &[]);
    let without = record(directory.path(), &program, &["-g", "0"]);
    let found = totals(&without, &["--by", "function"]);
    assert!(
        found.keys().any(|name| name.contains("pthread_mutex_lock")),
        "{found:?}"
    );

    let recording = record(directory.path(), &program, &["-g"]);
    let found = totals(&recording, &["--by", "function"]);
    assert!(
        !found.keys().any(|name| name.contains("pthread_mutex")),
        "{found:?}"
    );
    assert!(found["take"] > 1000 && found["give"] > 1000, "{found:?}");
    // Functions of the program that only lock.
    let skip = ["--skip-function", "take", "--skip-function", "g?ve"];
    let skipped = totals(&recording, &[&["--by", "function"], &skip[..]].concat());
    assert!(!skipped.contains_key("take") && !skipped.contains_key("give"));
    let of = |name: &str| skipped[name];
    assert!(
        of("deposit") > of("audit") && of("audit") > 500,
        "{skipped:?}"
    );
    let all = |rows: &BTreeMap<String, u64>| rows.values().sum::<u64>();
    assert_eq!(
        all(&found),
        all(&skipped),
        "nothing is lost or counted twice"
    );
    // With all that they call.
    let children = totals(&recording, &["--by", "children"]);
    assert!(children["deposit"] >= of("deposit"), "{children:?}");
    assert!(children["work"] >= children["deposit"] + children["audit"]);
    let callers = totals(&recording, &[&["--by", "caller"], &skip[..]].concat());
    // Who takes the lock, and who calls those for what they do without it.
    assert!(
        callers["deposit"] > 1000 && callers["audit"] > 200,
        "{callers:?}"
    );
    let of_work = ["deposit", "audit", "work"].map(|name| callers[name]);
    assert!(
        of_work.iter().sum::<u64>() >= of("deposit") + of("audit"),
        "{callers:?}"
    );

    let text = programs::run(
        Path::new("/"),
        &["report", "-i", recording.to_str().unwrap(), "-g", "2"],
    );
    let text = String::from_utf8(text.stdout).expect("text");
    assert!(text.contains("take < deposit < work"), "{text}");
    let folded = directory.path().join("folded");
    let export = [
        recording.to_str().unwrap(),
        "--folded",
        folded.to_str().unwrap(),
    ];
    let output = programs::run(Path::new("/"), &[&["export"], &export[..]].concat());
    assert!(output.status.success());
    let folded = fs::read_to_string(folded).expect("the stacks are there");
    // Which of the two waits is the scheduler's choice.
    let callers = ["deposit", "audit"].map(|caller| format!(";work;{caller};take;"));
    assert!(
        callers.iter().any(|caller| folded.contains(caller)),
        "{folded}"
    );
}

/// Adds by functions of the compiler's: atomic operations are none of the instructions there.
const OUTLINED: &str = r#"
#include <pthread.h>

static struct { _Alignas(64) long hits; long misses; } counters;

__attribute__((noinline)) static void hit(void) {
    __atomic_fetch_add(&counters.hits, 1, __ATOMIC_SEQ_CST);
}

__attribute__((noinline)) static void miss(void) {
    __atomic_fetch_add(&counters.misses, 1, __ATOMIC_SEQ_CST);
}

static pthread_barrier_t both;

static void *work(void *argument) {
    pthread_barrier_wait(&both);
    for (int round = 0; round < 20000; round++)
        (argument ? hit : miss)();
    return argument;
}

int main(void) {
    pthread_t other;
    pthread_barrier_init(&both, NULL, 2);
    pthread_create(&other, NULL, work, &counters);
    work(NULL);
    return pthread_join(other, NULL);
}
"#;

#[test]
fn outlined_atomics_of_aarch64_cost_those_who_call_them() {
    const COMPILER: &str = "aarch64-linux-gnu-gcc";
    let directory = tempfile::tempdir().expect("a temporary directory");
    let source = directory.path().join("outlined.c");
    fs::write(&source, OUTLINED).expect("a temporary file");
    let program = source.with_extension("");
    let mut compiler = Command::new(COMPILER);
    compiler.args(["-O2", "-g", "-static", "-moutline-atomics", "-o"]);
    let Ok(status) = compiler.arg(&program).arg(&source).status() else {
        let test = "outlined_atomics_of_aarch64_cost_those_who_call_them";
        return programs::say_not_run(test, &format!("no {COMPILER}"));
    };
    assert!(status.success(), "it does not compile");
    let recording = record(directory.path(), &program, &["-g"]);
    let found = totals(&recording, &["--by", "function"]);
    assert!(found["hit"] > 1000 && found["miss"] > 1000, "{found:?}");
    let is_outlined = |name: &String| name.starts_with("__aarch64");
    assert!(!found.keys().any(is_outlined), "{found:?}");
}
