//! Recordings that do not get their name, or lose it: to the recorded program, or to a QEMU that starts none.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Stdio;

use crate::programs::{self, hitm};
use hitm_test::process::Command;

/// Waits until the recording has its name, and then does something to it.
const HOSTILE: &str = r#"
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

int main(int count, char **args)
{
	while (access("x.hitm", F_OK))
		usleep(1000);
	switch (count > 1 ? args[1][0] : 0) {
	case 'd':
		return unlink("x.hitm");
	case 'm':
		return rename("x.hitm", "moved");
	case 'r':
		return rename("other", "x.hitm");
	case 'c':
		return write(open("x.hitm", O_RDWR | O_TRUNC), "junk", 4) != 4;
	}
	return 0;
}
"#;

/// `hitm record -o x.hitm` with more arguments; its exit code, and what it says.
fn record(directory: &Path, args: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new("timeout");
    command
        .arg("120")
        .arg(hitm())
        .args(["record", "-o", "x.hitm"]);
    command
        .args(args)
        .current_dir(directory)
        .stdin(Stdio::null());
    let output = command.output().expect("timeout(1) starts");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), said)
}

#[test]
fn a_program_that_takes_its_recording_away_is_found_out() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let directory = directory.path();
    let source = directory.join("hostile.c");
    fs::write(&source, HOSTILE).expect("a temporary file");
    programs::build(directory, "hostile", &source, &[]);
    let record = |action: &str| {
        let _ = fs::remove_file(directory.join("x.hitm"));
        fs::write(directory.join("other"), "no recording").expect("a temporary file");
        record(directory, &["--", "./hostile", action])
    };
    let (code, said) = record("nothing");
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("read it with"), "{said}");
    for (action, reason) in [
        ("delete", "deleted or moved it"),
        ("move", "deleted or moved it"),
        ("replace", "put another file in its place"),
        ("change", "changed it"),
    ] {
        let (code, said) = record(action);
        assert_eq!(code, Some(2), "{action}: {said}");
        let expected = format!("the recording x.hitm is lost: another process {reason}");
        assert!(said.contains(&expected), "{action}: {said}");
        assert!(!said.contains("read it with"), "{action}: {said}");
    }
}

/// A QEMU that takes the recorder when it is asked, and runs no program.
const BROKEN_QEMU: &str = r#"#!/bin/sh
case "$*" in
*probe=on*|--version|-help) exec qemu-x86_64 "$@";;
esac
exit 3
"#;

#[test]
fn a_program_that_does_not_start_leaves_the_former_recording() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let directory = directory.path();
    let qemu = directory.join("qemu");
    fs::write(&qemu, BROKEN_QEMU).expect("a temporary file");
    fs::set_permissions(&qemu, fs::Permissions::from_mode(0o755)).expect("it is ours");
    fs::write(directory.join("x.hitm"), "former").expect("a temporary file");
    let (code, said) = record(directory, &["--qemu", "./qemu", "--", "true"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("did not start"), "{said}");
    let former = fs::read(directory.join("x.hitm")).expect("it is there");
    assert!(former == b"former", "{} bytes", former.len());
    assert!(!directory.join(".x.hitm.part").exists());
}
