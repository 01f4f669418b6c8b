//! Folders in which others may have left something: of `hitm vm`, and of a sweep.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use crate::programs::{fifo, in_time};
use crate::sweep::SCENARIO;
use hitm_test::process::Command;

/// Runs `hitm vm run` without a home; returns exit code and what it says.
fn vm(temporary: &Path, cache: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hitm"));
    command.args(["vm", "run", "--kernel", "/dev/null"]);
    command.args(["--qemu", "/nonexistent"]);
    command.args(cache).args(["--", "true"]);
    command.env_remove("HOME").env_remove("XDG_CACHE_HOME");
    in_time(command.env("TMPDIR", temporary).current_dir(temporary))
}

#[test]
fn a_cache_that_others_may_write_boots_nothing() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let directory = directory.path();
    // SAFETY: a plain system call.
    let user = unsafe { libc::geteuid() };
    let cache = directory.join(format!("hitm-{user}"));
    let check = |args: &[&str], why: &str| {
        let (code, said) = vm(directory, args);
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains("--snapshot-cache chooses another"), "{said}");
        assert!(said.contains(why), "{said}");
    };
    fs::create_dir(&cache).expect("a folder");
    fs::set_permissions(&cache, Permissions::from_mode(0o777)).expect("it is ours");
    check(&[], "others may write to it (mode 777)");
    fs::rename(&cache, directory.join("other")).expect("it is ours");
    symlink("other", &cache).expect("a link");
    check(&[], "found a symbolic link, expected a folder");
    check(&["--snapshot-cache", "other"], "others may write to it");
    // One that is ours alone is used, with folders that are, too.
    let (code, said) = vm(directory, &["--snapshot-cache", "mine"]);
    assert_eq!(code, Some(3), "{said}");
    let mode = fs::metadata(directory.join("mine")).expect("it was made");
    assert_eq!(mode.permissions().mode() & 0o777, 0o700);
}

/// Four runs of some milliseconds.
const PLAN: &str = "schema = 1\nname = \"p\"\nscenarios = \"small.toml\"\n\
    [[vary]]\nkey = \"kernel.tick\"\nvalues = [\"100/s\", \"1000/s\"]\n";

/// Files of a sweep's results.
fn results(folder: &Path) -> Vec<std::path::PathBuf> {
    let files = |folder: &Path| {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect::<Vec<_>>()
    };
    let folders = files(&folder.join("runs")).into_iter();
    let mut found: Vec<_> = folders.flat_map(|folder| files(&folder)).collect();
    found.sort();
    found
}

#[test]
fn a_changed_result_is_made_again_and_a_fifo_is_refused() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let directory = directory.path();
    fs::write(directory.join("plan.toml"), PLAN).expect("a temporary file");
    fs::write(directory.join("small.toml"), SCENARIO).expect("a temporary file");
    let sweep = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hitm"));
        command.args(["sweep", "plan.toml", "-o", "out"]);
        in_time(command.current_dir(directory))
    };
    let out = directory.join("out");
    let (code, said) = sweep();
    assert_eq!(code, Some(0), "{said}");
    let table = fs::read(out.join("results.parquet")).expect("the table");
    let files = results(&out);
    let text = fs::read_to_string(&files[0]).expect("a result");
    let last = text.lines().rfind(|line| line.starts_with("figure\t"));
    let last = last.expect("a figure");
    let changed = format!("{}\t123456.5", last.rsplit_once('\t').expect("a value").0);
    fs::write(&files[0], text.replace(last, &changed)).expect("it is ours");
    let (code, said) = sweep();
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(fs::read_to_string(&files[0]).expect("a result"), text);
    assert!(table == fs::read(out.join("results.parquet")).expect("the table"));
    for place in [
        &files[0],
        &out.join("runs/started"),
        &out.join("results.parquet"),
    ] {
        let kept = fs::read(place).expect("a file");
        fs::remove_file(place).expect("it is ours");
        fifo(place);
        let (code, said) = match place.ends_with("results.parquet") {
            false => {
                // So that there is something to do.
                if place.ends_with("started") {
                    fs::remove_file(&files[0]).expect("it is ours");
                }
                sweep()
            }
            true => {
                let mut report = Command::new(env!("CARGO_BIN_EXE_hitm"));
                in_time(report.args(["report", "-i"]).arg(&out))
            }
        };
        assert_eq!(code, Some(2), "{said}");
        assert!(
            said.contains("found a FIFO, expected a regular file"),
            "{said}"
        );
        fs::remove_file(place).expect("it is ours");
        fs::write(place, kept).expect("it is ours");
    }
}
