//! Recordings of programs without symbols: places in them say more than the names of libraries.

use std::fs;
use std::path::Path;

use hitm_test::process::Command;

use crate::programs;

/// Two locks on lines of their own, each of two threads that sleep for it. `qsort` stands between a thread and its
/// work, as a library's loop of events does.
const SOURCE: &str = r#"
#include <pthread.h>
#include <stdlib.h>

static _Alignas(64) struct { pthread_mutex_t lock; long sum; } one = {PTHREAD_MUTEX_INITIALIZER, 0};
static _Alignas(64) struct { pthread_mutex_t lock; long sum; } other = {PTHREAD_MUTEX_INITIALIZER, 0};
static volatile long work[4][8];

static __attribute__((noinline)) void add(pthread_mutex_t *lock, long *sum) {
    pthread_mutex_lock(lock);
    for (int i = 0; i < 20; i++)
        ++*(volatile long *)sum;
    pthread_mutex_unlock(lock);
}

static int compare(const void *a, const void *b) {
    long me = *(const long *)a;
    for (int i = 0; i < 100; i++)
        if (me & 1)
            add(&one.lock, &one.sum);
        else
            add(&other.lock, &other.sum);
    return work[me][0] += a < b;
}

static void *run(void *me) {
    for (int i = 0; i < 20; i++) {
        long two[2] = {(long)me, (long)me};
        qsort(two, 2, sizeof two[0], compare);
    }
    return 0;
}

int main(void) {
    pthread_t threads[4];
    for (long i = 0; i < 4; i++)
        pthread_create(&threads[i], 0, run, (void *)i);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], 0);
    return one.sum + other.sum != 4 * 20 * 100 * 20;
}
"#;

#[test]
fn locks_and_callers_of_a_stripped_program_have_places() {
    if !programs::has_compiler(Path::new("locks.c")) {
        let test = "locks_and_callers_of_a_stripped_program_have_places";
        return programs::say_not_run(test, "no C compiler");
    }
    let directory = tempfile::tempdir().expect("a temporary directory");
    let source = directory.path().join("locks.c");
    fs::write(&source, SOURCE).expect("the source is written");
    let program = programs::build(directory.path(), "locks", &source, &[]);
    let stripped = Command::new("strip").arg(&program).status();
    assert!(stripped.expect("strip starts").success());
    let recording = programs::record(directory.path(), &program, &[]);

    let report = programs::report(&recording);
    let findings = report["findings"].as_array().expect("findings");
    let is_lock = |name: &str| name.starts_with("locks+0x");
    let names: Vec<&str> = findings
        .iter()
        .filter_map(|one| one["name"].as_str())
        .collect();
    let locks: Vec<&str> = names.iter().copied().filter(|name| is_lock(name)).collect();
    assert_eq!(
        locks.len(),
        2,
        "each lock is a finding of its own: {names:?}"
    );
    for one in findings
        .iter()
        .filter(|one| is_lock(one["name"].as_str().unwrap_or("")))
    {
        let place = one["written_in"].as_str().unwrap_or("");
        assert!(place.starts_with("locks!func@0x"), "{one}");
    }
}
