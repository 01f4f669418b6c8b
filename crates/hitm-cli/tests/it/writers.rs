//! Writers of results that end half-way: each file is the former one or the new one, never a part.

mod bench;
mod killed;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Output, Stdio};

use hitm_test::process::Command;

use self::bench::{Bench, WRITERS};
use crate::programs::{hitm, say_not_run};

/// Seconds that a writer may take, on the busiest host.
const PATIENCE_S: &str = "300";

/// Runs `hitm` in `folder` by a shell that does something before: `exec "$@"` in it stands for the
/// command.
fn run_by(folder: &Path, shell: &[&str], script: &str, args: &str) -> Output {
    let mut command = Command::new("timeout");
    command
        .arg(PATIENCE_S)
        .args(shell)
        .args(["sh", "-c", script, "sh"]);
    command.arg(hitm()).args(args.split(' '));
    command.current_dir(folder).stdin(Stdio::null());
    command.output().expect("timeout(1) starts")
}

fn check_refused(output: &Output, expected: &str) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains(expected), "'{expected}' is not in: {said}");
}

/// Each writer at its first byte, and then as far as some kilobytes reach.
#[test]
fn a_writer_that_fails_leaves_the_former_result() {
    let bench = Bench::new();
    for args in WRITERS {
        let new = bench.results_of(args);
        for blocks in [0, 8] {
            bench.place_former(&new);
            let script = format!(r#"ulimit -f {blocks}; exec "$@""#);
            let output = run_by(bench.folder(), &[], &script, args);
            let found = bench.find(&new);
            assert_eq!(found.torn, 0, "{args}");
            assert_eq!(found.left, 0, "{args}");
            if blocks == 0 || output.status.code() != Some(0) {
                check_refused(&output, "the file size limit (ulimit -f) of");
            } else {
                assert_eq!(found.former, 0, "{args}");
            }
        }
    }
}

/// A command that writes a file, and what it writes.
const SMALL: &str = "machine import lstopo.xml --like broadwell-4s -o out/machine.toml";

/// The words of the namespace's shell when this host grants none.
const NO_NAMESPACE: i32 = 99;

/// Runs [`SMALL`] after `script`, which may mount; none when this host grants no namespace.
fn run_mounted(bench: &Bench, script: &str) -> Option<Output> {
    let script = format!(r#"mount -t tmpfs none mnt || exit {NO_NAMESPACE}; {script}; exec "$@""#);
    fs::create_dir_all(bench.folder().join("mnt")).expect("a folder");
    let namespace = ["unshare", "--user", "--map-root-user", "--mount"];
    let output = run_by(bench.folder(), &namespace, &script, SMALL);
    // 1 and 127 are unshare's own.
    let is_granted = ![Some(1), Some(127), Some(NO_NAMESPACE)].contains(&output.status.code());
    is_granted.then_some(output)
}

#[test]
fn a_full_disk_leaves_the_former_result() {
    let bench = Bench::new();
    fs::create_dir(bench.folder().join("out")).expect("a folder");
    // The former result is copied out of the namespace by the shell that made it.
    let full = r#"
        mount -t tmpfs -o size=8k none out
        printf former >out/machine.toml; printf %4096s x >out/x
        "$@"; code=$?; cat out/machine.toml >result; ls -A out >names; exit $code; :"#;
    let Some(output) = run_mounted(&bench, full) else {
        return say_not_run("a full disk", "this host grants no mount namespace");
    };
    check_refused(&output, "No space left on device");
    let read = |name: &str| fs::read_to_string(bench.folder().join(name)).expect("a result");
    assert_eq!(read("result"), "former");
    assert_eq!(read("names"), "machine.toml\nx\n");
}

/// A container's mount of one file: nothing can be renamed to it.
#[test]
fn a_name_that_cannot_be_given_away_is_rewritten() {
    let bench = Bench::new();
    let new = bench.results_of(SMALL);
    bench.place_former(&new);
    let mount = "cp out/machine.toml mounted; mount --bind mounted out/machine.toml";
    let Some(output) = run_mounted(&bench, mount) else {
        return say_not_run("a mounted file", "this host grants no mount namespace");
    };
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let mounted = fs::read(bench.folder().join("mounted")).expect("a file");
    assert_eq!(Some(&mounted), new.values().next());
    assert_eq!(bench.find(&new).left, 0);
}

/// A file that can be written is written in place if no file can be made beside it.
#[test]
fn a_folder_that_takes_no_file_has_its_files_rewritten() {
    const NOBODY: u32 = 65534;
    let bench = Bench::new();
    let new = bench.results_of(SMALL);
    bench.place_former(&new);
    let chmod = |name: &str, mode| {
        let path = bench.folder().join(name);
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("it is ours");
    };
    chmod("", 0o755);
    chmod("out/machine.toml", 0o666);
    chmod("out", 0o555);
    let run = |args: &str| {
        let mut command = Command::new("timeout");
        command.arg(PATIENCE_S).arg(hitm()).args(args.split(' '));
        command.current_dir(bench.folder()).stdin(Stdio::null());
        // SAFETY: a plain system call.
        if unsafe { libc::geteuid() } == 0 {
            command.uid(NOBODY).gid(NOBODY);
        }
        command.output().expect("timeout(1) starts")
    };
    let is_allowed = run("--version").status.success();
    let rewritten = run(SMALL);
    let refused = run(&SMALL.replace("machine.toml", "other.toml"));
    chmod("out", 0o755);
    if !is_allowed {
        return say_not_run(
            "a folder that takes no file",
            "another user cannot run this hitm",
        );
    }
    assert_eq!(rewritten.status.code(), Some(0), "{rewritten:?}");
    let found = bench.find(&new);
    assert_eq!((found.new, found.left), (1, 0));
    check_refused(&refused, "Permission denied");
}
