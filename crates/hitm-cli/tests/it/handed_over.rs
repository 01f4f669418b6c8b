//! Lines that go from one thread to the next, and are not fought over: each hand-over is recorded,
//! what the new owner does alone is not.

use std::fs::{self, File};
use std::path::Path;

use hitm_base::{AccessOp, DataSource};
use hitm_trace::{ChunkDecoder, Record, TraceReader};

use crate::programs;

/// Two threads in turn: each goes over all lines of a buffer and reads and writes every word of it,
/// eight times, before the other one may.
const TURNS: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define LINES 1000
#define TURNS 12

static struct { _Alignas(64) volatile long words[8]; } lines[LINES];
static pthread_barrier_t barrier;

static void *take_turns(void *argument) {
    long me = (long)argument;
    for (int turn = 0; turn < TURNS; turn++) {
        if (turn % 2 == me)
            for (int line = 0; line < LINES; line++)
                for (int pass = 0; pass < 8; pass++)
                    for (int word = 0; word < 8; word++)
                        lines[line].words[word] += me + 1;
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}

int main(void) {
    pthread_t other;
    pthread_barrier_init(&barrier, NULL, 2);
    pthread_create(&other, NULL, take_turns, (void *)1);
    take_turns((void *)0);
    pthread_join(other, NULL);
    for (int line = 0; line < LINES; line++)
        for (int word = 0; word < 8; word++)
            if (lines[line].words[word] != TURNS / 2 * 8 * 3)
                abort();
    printf("%lu\n", (unsigned long)lines);
    return 0;
}
"#;

const LINES: usize = 1000;
const TURN_COUNT: usize = 12;

/// The recorded accesses to the buffer.
fn buffer_accesses(directory: &Path) -> Vec<(AccessOp, DataSource)> {
    let source = directory.join("turns.c");
    fs::write(&source, TURNS).expect("a temporary file");
    let program = programs::build(directory, "turns", &source, &[]);
    let program = program.to_str().expect("a temporary path is UTF-8");
    let output = programs::run(directory, &["record", "-o", "x.hitm", "--", program]);
    assert!(output.status.success());
    let printed = String::from_utf8_lossy(&output.stdout);
    let start: u64 = printed.trim().parse().expect("the buffer's address");
    let buffer = start..start + LINES as u64 * 64;

    let file = File::open(directory.join("x.hitm")).expect("the recording is there");
    let mut reader = TraceReader::new(file).expect("its header is whole");
    let mut decoder = ChunkDecoder::new().expect("zstd works");
    let mut accesses = Vec::new();
    while let Some(block) = reader.next_block(&mut decoder).expect("the file is whole") {
        let records = block.records().map(|record| record.expect("it decodes"));
        accesses.extend(records.filter_map(|record| match record {
            Record::Access { access, outcome } if buffer.contains(&access.addr) => {
                Some((access.op, outcome.source))
            }
            _ => None,
        }));
    }
    accesses
}

#[test]
fn a_buffer_that_changes_hands_costs_two_records_a_line() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let accesses = buffer_accesses(directory.path());
    // The first turn takes lines that nobody had. At the end main reads what the other thread wrote.
    let written = LINES * (TURN_COUNT - 1);
    let reads = accesses
        .iter()
        .filter(|(op, source)| *op == AccessOp::Load && source.is_hitm());
    assert_eq!(reads.count(), written + LINES);
    let is_upgrade =
        |source| matches!(source, DataSource::LocalUpgrade | DataSource::RemoteUpgrade);
    let writes = accesses
        .iter()
        .filter(|(op, source)| *op == AccessOp::Store && is_upgrade(*source));
    assert_eq!(writes.count(), written);
    assert_eq!(accesses.len(), 2 * written + LINES, "and nothing else");
}
