//! Call stacks of allocations: unwound once a call site, and no part of the recorded program.

use hitm_test::process::Command;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use hitm_trace::{ChunkDecoder, HeapObject, Record, TraceReader};

use crate::programs::{self, record, report};

/// Allocates at each of 3,000 depths of a recursion.
const DEEP: &str = r#"
#include <stdlib.h>

__attribute__((noinline)) static long at_depth(int depth) {
    volatile long *block = malloc(32);
    *block = depth;
    long deeper = depth ? at_depth(depth - 1) : 0;
    long sum = *block + deeper;
    free((void *)block);
    return sum;
}

int main(void) {
    return at_depth(3000) != 3000l * 3001 / 2;
}
"#;

/// Two threads share blocks that came from one place, below a frame of many sizes.
const FRAMES: &str = r#"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define BLOCKS 20

static volatile long *blocks[BLOCKS];
static pthread_barrier_t barrier;

__attribute__((noinline)) static long *allocate(void) {
    long *block = malloc(192);
    *block = 1;
    return block;
}

__attribute__((noinline)) static long *below_a_buffer(int size) {
    volatile char buffer[size];
    memset((char *)buffer, size, size);
    long *block = allocate();
    *block += buffer[size - 1] != (char)size;
    return block;
}

static void *add(void *argument) {
    pthread_barrier_wait(&barrier);
    for (int round = 0; round < 100; round++)
        for (int index = 0; index < BLOCKS; index++)
            *blocks[index] += 1;
    return argument;
}

int main(void) {
    pthread_t other;
    for (int index = 0; index < BLOCKS; index++)
        blocks[index] = below_a_buffer(16 + 160 * (index * 7 % BLOCKS));
    pthread_barrier_init(&barrier, NULL, 2);
    pthread_create(&other, NULL, add, NULL);
    add(NULL);
    return pthread_join(other, NULL);
}
"#;

fn build(directory: &Path, name: &str, source: &str) -> PathBuf {
    let path = directory.join(name).with_extension("c");
    fs::write(&path, source).expect("a temporary file");
    programs::build(directory, name, &path, &[])
}

/// The heap blocks of a recording that lie on recorded lines.
fn heap_objects(recording: &Path) -> Vec<HeapObject> {
    let file = File::open(recording).expect("the recording is there");
    let mut reader = TraceReader::new(file).expect("its header is whole");
    let mut decoder = ChunkDecoder::new().expect("zstd works");
    let mut objects = Vec::new();
    while let Some(block) = reader.next_block(&mut decoder).expect("the file is whole") {
        let records = block.records().map(|record| record.expect("it decodes"));
        objects.extend(records.filter_map(|record| match record {
            Record::HeapObject(object) => Some(object),
            _ => None,
        }));
    }
    objects
}

#[test]
fn unwinding_takes_no_time_of_the_program() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let program = build(directory.path(), "deep", DEEP);
    let report = report(&record(directory.path(), &program, &[]));
    let insns = report["threads"][0]["instruction_count"].as_u64();
    // Some 200,000 are the dynamic loader's; malloc and free take 100 to 200 each time.
    let insns = insns.expect("a count");
    assert!((300_000..1_500_000).contains(&insns), "{insns}");
}

#[test]
fn one_call_chain_is_one_stack_whatever_its_frames_take() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let program = build(directory.path(), "frames", FRAMES);
    let objects = heap_objects(&record(directory.path(), &program, &[]));
    let stacks = objects.iter().filter(|object| object.range.len() == 192);
    let mut stacks: Vec<_> = stacks.map(|object| object.stack.clone()).collect();
    assert!(stacks.len() >= 20, "{}", stacks.len());
    stacks.sort();
    stacks.dedup();
    // allocate, below_a_buffer, main, two frames of the C library and the program's start.
    assert_eq!(stacks.len(), 1, "{stacks:x?}");
    assert!(stacks[0].len() >= 4, "{stacks:x?}");
}

#[test]
fn a_heap_that_nobody_observed_is_named_as_such() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("frames.c");
    fs::write(&path, FRAMES).expect("a temporary file");
    let says_so = |name: &str, link: &[&str]| {
        let program = directory.path().join(name);
        let mut compiler = Command::new("cc");
        compiler
            .args(["-O2", "-g", "-pthread", "-o"])
            .arg(&program)
            .args(link);
        let status = compiler.arg(&path).status().expect("the compiler starts");
        assert!(status.success(), "{name} does not compile");
        let report = report(&record(directory.path(), &program, &[]));
        let notes = report["diagnostics"].to_string();
        notes.contains("lines without names of heap blocks")
    };
    assert!(!says_so("dynamic", &["-pie"]));
    assert!(!says_so("static", &["-static"]));
    assert!(says_so("stripped", &["-static", "-s"]));
}

/// Says where its first block lies in its page, and which libraries are preloaded.
const FIRST_BLOCK: &str = r#"
#include <stdio.h>
#include <stdlib.h>

int main(void) {
    size_t place = (size_t)malloc(24) % 4096;
    const char *preloaded = getenv("LD_PRELOAD");
    printf("%zx %s\n", place, preloaded ? preloaded : "none");
}
"#;

/// Allocators place blocks by what was allocated before: the observer allocates nothing.
#[test]
fn blocks_lie_where_they_lie_natively() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let source = directory.path().join("first.c");
    fs::write(&source, FIRST_BLOCK).expect("a temporary file");
    let program = programs::build(directory.path(), "first", &source, &[]);
    let said = |mut command: Command, preloaded: Option<&str>| {
        command.current_dir(directory.path()).arg(&program);
        command.env_remove("LD_PRELOAD");
        command.envs(preloaded.map(|preloaded| ("LD_PRELOAD", preloaded)));
        let output = command.output().expect("it starts");
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    for preloaded in [None, Some("libm.so.6"), Some("libm.so.6:libdl.so.2")] {
        let native = said(Command::new("env"), preloaded);
        let mut recorder = Command::new(programs::hitm());
        recorder.args(["record", "-o", "first.hitm", "--"]);
        assert_eq!(said(recorder, preloaded), native);
        assert!(native.ends_with(&format!("{}\n", preloaded.unwrap_or("none"))));
    }
}
