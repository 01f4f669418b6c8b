//! Journals that nobody of ours has written, and other things with a journal's name.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::Path;

use super::{command, load, wait_for, with_each};
use crate::programs::{fifo, in_time};

/// Runs `hitm place`; returns its exit code and what it says.
fn run(folder: &Path, args: &[&str]) -> (Option<i32>, String) {
    in_time(&mut command(folder, args))
}

/// A FIFO, a folder and a link with names of journals, which come before those of real ones.
fn obstacles(folder: &Path) {
    fifo(&folder.join("0-1.journal"));
    fs::create_dir(folder.join("0-2.journal")).expect("a folder");
    symlink("/etc/passwd", folder.join("0-3.journal")).expect("a link");
}

/// A journal of this boot for a dead process, with right checksums.
fn journal(lines: &[String]) -> String {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("Linux has one");
    let head = [
        "hitm-place 1".to_owned(),
        format!("boot {}", boot.trim()),
        "tool 4194304 1".to_owned(),
        "since 1".to_owned(),
        "backend cpuset-v2".to_owned(),
        "cpus 0".to_owned(),
        "name forged".to_owned(),
    ];
    let lines = head.iter().chain(lines);
    lines
        .map(|line| format!("{:08x} {line}\n", load::crc32c(line.as_bytes())))
        .collect()
}

#[test]
fn what_is_no_journal_stops_no_undoing() {
    with_each("placement", |trial| {
        let mut child = trial.place(&[]);
        load::kill_both(child.id(), trial.folder());
        child.wait().expect("it ends");
        wait_for("the guard's end", || {
            load::processes_of(trial.folder()).is_empty()
        });
        obstacles(trial.folder());
        let (code, said) = run(trial.folder(), &["undo"]);
        wait_for("undone", || trial.load.difference().is_none());
        assert_eq!(code, Some(2), "{said}");
        for word in [
            "0-1.journal: found a FIFO, expected a regular file",
            "0-2.journal: is a directory",
            "0-3.journal: found a symbolic link, expected a regular file",
        ] {
            assert!(said.contains(word), "{word}: {said}");
        }
        fs::remove_dir_all(trial.folder()).expect("it is the test's");
    });
}

#[test]
fn a_forged_journal_writes_nowhere_else() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let target = folder.path().join("target");
    fs::create_dir_all(target.join("hitm-1")).expect("a folder");
    let before = "before";
    for name in [
        "cgroup.subtree_control",
        "cpuset.cpus.exclusive",
        "cgroup.threads",
    ] {
        fs::write(target.join(name), before).expect("a file");
    }
    let journals = folder.path().join("journals");
    fs::create_dir(&journals).expect("a folder");
    let path = target.display();
    let text_of = journal(&[
        format!("control {path}/cgroup.subtree_control"),
        format!("setting {path}/cpuset.cpus.exclusive 0-3"),
        format!("group {path}/hitm-1"),
    ]);
    fs::write(journals.join("1-1.journal"), text_of).expect("a file");
    let (code, said) = run(&journals, &["status"]);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(said.matches("is left alone: ").count(), 3, "{said}");
    assert!(target.join("hitm-1").is_dir(), "{said}");
    for name in [
        "cgroup.subtree_control",
        "cpuset.cpus.exclusive",
        "cgroup.threads",
    ] {
        assert_eq!(
            fs::read_to_string(target.join(name)).expect("a file"),
            before
        );
    }
    let (code, said) = run(&journals, &["undo"]);
    assert_eq!(code, Some(2), "{said}");
}

#[test]
fn a_journal_that_others_may_write_is_none() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().expect("a temporary directory");
    let path = folder.path().join("1-1.journal");
    fs::write(&path, journal(&[])).expect("a file");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).expect("it is ours");
    let (_, said) = run(folder.path(), &["status"]);
    assert!(said.contains("others may write to it (mode 666)"), "{said}");
    assert!(path.exists());
}

#[test]
fn a_lock_that_is_a_fifo_is_refused_and_other_files_stay() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    File::create(folder.path().join("notes.new")).expect("a file");
    assert_eq!(run(folder.path(), &["status"]).0, Some(0));
    assert!(folder.path().join("notes.new").exists());
    fs::remove_file(folder.path().join("change.lock")).expect("hitm made it");
    fifo(&folder.path().join("change.lock"));
    let (code, said) = run(folder.path(), &["status"]);
    assert_eq!(code, Some(2), "{said}");
}
