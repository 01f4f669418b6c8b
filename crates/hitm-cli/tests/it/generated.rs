//! Code that a program generates has the names of its perf map.

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

int main(void) {
    char name[64];
    pthread_t threads[2];
    void *code = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(code, CODE, sizeof CODE);
    generated = code;
    snprintf(name, sizeof name, "/tmp/perf-%d.map", getpid());
    FILE *map = fopen(name, "w");
    fprintf(map, "%lx %zx LazyCompile:*increment counter.js:3\n", (long)code, sizeof CODE);
    fclose(map);
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], 0, run, 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], 0);
    printf("%s\n", name);
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
    assert_eq!(function(), "LazyCompile:*increment counter.js:3");
    // Without the map there is no name, and none of a neighbour.
    fs::remove_file(&kept).expect("it is there");
    let bare = function();
    let bare = bare.as_str().expect("text");
    assert!(
        bare.starts_with("[anon]+0x") || bare.starts_with("0x"),
        "{bare}"
    );
}
