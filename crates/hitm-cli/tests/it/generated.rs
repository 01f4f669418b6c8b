//! Code that a program generates has the names of its perf map, or of its jitdump.

use std::fs;

use crate::programs::{self, record, report};

/// Two threads run a generated function, which increments a counter, and write down what it is called.
const GENERATES: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* lock incq (%rdi); dec %rsi; jne back; ret */
static const unsigned char CODE[] = {
    0xf0, 0x48, 0xff, 0x07, 0x48, 0xff, 0xce, 0x75, 0xf7, 0xc3,
};

static long counter __attribute__((aligned(64)));
static void (*generated)(long *, long);

static void *run(void *argument) {
    generated(&counter, 20000);
    return argument;
}

/* A jitdump: its header, and a record that loads the code under a name. */
static void dump(void *code) {
    static const char NAME[] = "increment@dumped.js:7";
    char name[64];
    unsigned header[] = {0x4a695444, 1, 40, 62, 0, getpid(), 0, 0, 0, 0};
    unsigned size = 16 + 8 + 4 * 8 + sizeof NAME + sizeof CODE;
    unsigned load[] = {0, size, 0, 0, getpid(), getpid()};
    unsigned long fields[] = {(long)code, (long)code, sizeof CODE, 1};
    snprintf(name, sizeof name, "jit-%d.dump", getpid());
    FILE *file = fopen(name, "w");
    fwrite(header, sizeof header, 1, file);
    fwrite(load, sizeof load, 1, file);
    fwrite(fields, sizeof fields, 1, file);
    fwrite(NAME, sizeof NAME, 1, file);
    fwrite(CODE, sizeof CODE, 1, file);
    fclose(file);
}

static void map(void *code) {
    char name[64];
    snprintf(name, sizeof name, "/tmp/perf-%d.map", getpid());
    FILE *file = fopen(name, "w");
    fprintf(file, "%lx %zx LazyCompile:*increment counter.js:3\n", (long)code, sizeof CODE);
    fclose(file);
}

int main(int argc, char **argv) {
    pthread_t threads[2];
    void *code = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(code, CODE, sizeof CODE);
    generated = code;
    if (argc > 1 && !strcmp(argv[1], "dump"))
        dump(code);
    else
        map(code);
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], 0, run, 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], 0);
    return 0;
}
"#;

#[test]
fn generated_functions_have_the_names_of_the_map() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let source = directory.path().join("generates.c");
    fs::write(&source, GENERATES).expect("a temporary file");
    let program = programs::build(directory.path(), "generates", &source, &[]);
    let recording = record(directory.path(), &program, &[]);
    let kept = directory.path().join("generates.hitm.jit");
    let text = fs::read_to_string(&kept).expect("the map is kept");
    assert!(
        text.contains("LazyCompile:*increment counter.js:3"),
        "{text}"
    );
    let function = || report(&recording)["lines"][0]["rows"][0]["function"].clone();
    assert_eq!(function(), "increment");
    let source = report(&recording)["lines"][0]["rows"][0]["source"].clone();
    assert_eq!(source, "counter.js:3");
    // Without the map there is no name, and none of a neighbour.
    fs::remove_file(&kept).expect("it is there");
    let bare = function();
    let bare = bare.as_str().expect("text");
    assert!(
        bare.starts_with("[anon]+0x") || bare.starts_with("0x"),
        "{bare}"
    );
}

#[test]
fn a_child_of_the_command_dumps_its_functions() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let source = directory.path().join("generates.c");
    fs::write(&source, GENERATES).expect("a temporary file");
    programs::build(directory.path(), "generates", &source, &[]);
    let command = ["sh", "-c", "./generates dump; exit 3"];
    let args = [&["record", "-o", "shell.hitm", "--"], &command[..]].concat();
    let run = programs::run(directory.path(), &args);
    assert_eq!(run.status.code(), Some(3), "{run:?}");
    let report = report(&directory.path().join("shell.hitm"));
    let function = &report["lines"][0]["rows"][0]["function"];
    assert_eq!(function, "increment@dumped.js:7");
}
