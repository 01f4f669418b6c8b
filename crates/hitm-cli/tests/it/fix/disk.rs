//! `hitm fix` on disks that get full: the tree as before, and nothing left.

use std::fs;
use std::path::Path;
use std::process::{Output, Stdio};

use hitm_test::process::Command;

use super::BUILD;
use crate::programs::{hitm, say_not_run};

/// A structure in a header of its own, whose members two threads write.
fn header(name: &str) -> String {
    format!("struct {name} {{\n\tlong one;\n\tlong two;\n}};\n")
}

/// Two threads for each of two structures, each with lines of its own.
const PROGRAM: &str = r#"#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include "a.h"
#include "b.h"

_Alignas(64) static volatile struct left left;
_Alignas(64) static volatile struct right right;
static int rounds;

#define COUNT(function, of) \
	static void *function(void *unused) { for (int i = 0; i < rounds; i++) of++; return unused; }
COUNT(one, left.one)
COUNT(two, left.two)
COUNT(three, right.one)
COUNT(four, right.two)

int main(int argc, char **argv)
{
	void *(*functions[])(void *) = { one, two, three, four };
	pthread_t threads[4];
	rounds = atoi(argv[argc - 1]);
	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, functions[i], NULL);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	printf("%ld\n", left.one + left.two + right.one + right.two);
}
"#;

/// The words of the namespace's shell when this host grants none.
const NO_NAMESPACE: i32 = 99;

/// Runs `hitm fix --apply` in a namespace where `script` may mount; none when this host grants none.
fn fix_mounted(folder: &Path, script: &str) -> Option<Output> {
    let script = format!("mount -t tmpfs none mnt || exit {NO_NAMESPACE}; {script}");
    for name in ["mnt", "tree", "tmp", "source"] {
        fs::create_dir(folder.join(name)).unwrap();
    }
    for (name, text) in [
        ("prog.c", PROGRAM.to_owned()),
        ("a.h", header("left")),
        ("b.h", header("right")),
    ] {
        fs::write(folder.join("source").join(name), text).unwrap();
    }
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c"]);
    command.args([&script, "sh"]).arg(hitm());
    command.args(["fix", "--source", "tree", "--build", BUILD, "--runs", "2"]);
    command.args(["--run", "%/prog 5000", "--apply"]);
    command
        .env("TMPDIR", folder.join("tmp"))
        .current_dir(folder);
    let output = command.stdin(Stdio::null()).output().unwrap();
    // 1 and 127 are unshare's own.
    let is_granted = ![Some(1), Some(127), Some(NO_NAMESPACE)].contains(&output.status.code());
    if !is_granted {
        say_not_run("a full disk", "this host grants no mount namespace");
    }
    is_granted.then_some(output)
}

fn assert_full(output: &Output, parts: &[&str]) {
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    for part in parts.iter().chain(&["No space left on device"]) {
        assert!(error.contains(part), "no {part:?} in {error}");
    }
}

#[test]
fn a_patch_of_which_one_file_finds_no_room_is_not_applied() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    // Room for the three files and one more page.
    let script = r#"mount -t tmpfs -o size=16k none tree; cp source/* tree
        "$@"; code=$?; cat tree/a.h tree/b.h tree/prog.c >texts; ls -A tree >names; exit $code"#;
    let Some(output) = fix_mounted(folder, script) else {
        return;
    };
    assert_full(&output, &["cannot write ", "/tree/b.h"]);
    let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
    assert_eq!(read("texts"), header("left") + &header("right") + PROGRAM);
    assert_eq!(read("names"), "a.h\nb.h\nprog.c\n");
    assert_eq!(fs::read_dir(folder.join("tmp")).unwrap().count(), 0);
}

#[test]
fn copies_that_find_no_room_leave_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let script = r#"mount -t tmpfs -o size=16k none tmp; cp source/* tree
        "$@"; code=$?; ls -A tmp tree >names; exit $code"#;
    let Some(output) = fix_mounted(folder, script) else {
        return;
    };
    assert_full(&output, &[]);
    let names = fs::read_to_string(folder.join("names")).unwrap();
    assert_eq!(names, "tmp:\n\ntree:\na.h\nb.h\nprog.c\n");
}
