//! Lines that go from one thread to the next, and are not fought over: each hand-over is recorded,
//! what the new owner does alone is not.

use std::fs;
use std::path::{Path, PathBuf};

use crate::programs::{self, record, report};

/// Two threads in turn: each goes over all lines of a buffer and reads and writes every word of it,
/// eight times, before the other one may.
const TURNS: &str = r#"
#include <pthread.h>
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
    return 0;
}
"#;

const LINES: u64 = 1000;
const TURN_COUNT: u64 = 12;

fn build(directory: &Path, name: &str, source: &str) -> PathBuf {
    let path = directory.join(name).with_extension("c");
    fs::write(&path, source).expect("a temporary file");
    programs::build(directory, name, &path, &[])
}

fn count(report: &serde_json::Value, op: &str, source: &str) -> u64 {
    let count = &report["totals"]["counts"][op][source];
    count.as_u64().expect("a count")
}

#[test]
fn a_buffer_that_changes_hands_costs_two_records_a_line() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let program = build(directory.path(), "turns", TURNS);
    let report = report(&record(directory.path(), &program, &[]));
    // The first turn takes lines that nobody had.
    let hand_overs = LINES * (TURN_COUNT - 1);
    let hitms = count(&report, "loads", "local_hitm") + count(&report, "loads", "remote_hitm");
    // At the end main reads what the other thread wrote.
    let expected = hand_overs + LINES;
    assert!(
        hitms.abs_diff(expected) < LINES / 20,
        "{hitms} HITM loads, expected {expected}"
    );
    let upgrades =
        count(&report, "stores", "local_upgrade") + count(&report, "stores", "remote_upgrade");
    assert!(
        upgrades.abs_diff(hand_overs) < LINES / 20,
        "{upgrades} upgrades, expected {hand_overs}"
    );
    let recorded = report["totals"]["access_count"].as_u64().expect("a count");
    let most = 2 * hand_overs + LINES + 5000;
    assert!(
        recorded < most,
        "{recorded} accesses recorded, expected at most {most}"
    );
}
