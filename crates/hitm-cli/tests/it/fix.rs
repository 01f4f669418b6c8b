//! `hitm fix` on programs: what is kept, what is refused, and that the tree stays as it is.

mod disk;
mod java;
mod rust;

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Output, Stdio};

use hitm_test::process::{Command, wait_for};
use serde_json::Value;

use crate::programs::{hitm, root, run};

/// A tree with a program of one file.
struct Tree {
    folder: tempfile::TempDir,
    /// Folder of temporary files of the runs.
    temporary: tempfile::TempDir,
    source: String,
}

const BUILD: &str = "cc -O2 -g -Wall -pthread -o %/prog %/prog.c";

impl Tree {
    fn of(files: &[(&str, &str)]) -> Tree {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        Tree {
            folder,
            temporary: tempfile::tempdir().unwrap(),
            source: files[0].1.to_owned(),
        }
    }

    /// An example of this repository.
    fn example(name: &str) -> Tree {
        let read = |name: &str| fs::read_to_string(root().join("examples").join(name)).unwrap();
        let (source, common) = (read(name), read("common.h"));
        Tree::of(&[("prog.c", &source), ("common.h", &common)])
    }

    fn command(&self, build: &str, iterations: &str, options: &[&str]) -> Command {
        let mut command = Command::new(hitm());
        command.args(["fix", "--source"]).arg(self.folder.path());
        command.args(["--build", build]);
        if !options.contains(&"--run") {
            command.args(["--run", &format!("%/prog {iterations}")]);
        }
        command.args(["--runs", "2"]).args(options);
        command.env("TMPDIR", self.temporary.path());
        command.current_dir("/").stdin(Stdio::null());
        command
    }

    fn fix(&self, iterations: &str, options: &[&str]) -> Output {
        let output = self.command(BUILD, iterations, options).output().unwrap();
        self.assert_clean();
        output
    }

    fn answer(&self, iterations: &str, options: &[&str]) -> Value {
        let output = self.fix(iterations, &[&["--format", "json"], options].concat());
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "hitm fix fails: {error}");
        serde_json::from_slice(&output.stdout).expect("the answer is JSON")
    }

    fn text(&self) -> String {
        self.text_of("prog.c")
    }

    fn text_of(&self, file: &str) -> String {
        fs::read_to_string(self.folder.path().join(file)).unwrap()
    }

    /// Asserts that the tree is as it was, and nothing is left.
    fn assert_clean(&self) {
        assert_eq!(self.text(), self.source);
        assert!(!self.folder.path().join("prog").exists());
        assert_eq!(self.left().len(), 0, "{:?}", self.left());
    }

    fn left(&self) -> Vec<String> {
        let entries = fs::read_dir(self.temporary.path()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.starts_with("hitm-fix-")).collect()
    }
}

fn only<'a>(answer: &'a Value, list: &str) -> &'a Value {
    let all = answer[list].as_array().unwrap();
    assert!(!all.is_empty(), "{answer:#}");
    &all[0]
}

#[test]
fn falsely_shared_members_get_lines_and_the_patch_repeats() {
    let tree = Tree::example("false_sharing.c");
    let answer = tree.answer("5000", &[]);
    let remedy = only(&answer, "remedies");
    assert_eq!(remedy["fate"], "kept", "{answer:#}");
    assert_eq!(remedy["file"], "prog.c");
    assert!(answer["gain"].as_f64().unwrap() > 0.3, "{answer:#}");
    assert_eq!(
        answer["varying_words"], 1,
        "the time of an iteration: {answer:#}"
    );
    // The patch applies, and its assertions hold.
    let patch = tree.folder.path().join("a.patch");
    fs::write(&patch, answer["diff"].as_str().unwrap()).unwrap();
    let git = |args: &[&str]| {
        let mut command = Command::new("git");
        let status = command.args(args).current_dir(tree.folder.path()).status();
        assert!(status.unwrap().success(), "git {args:?}");
    };
    git(&["apply", "a.patch"]);
    let text = tree.text() + "#include <stddef.h>\n" + answer["assertions"].as_str().unwrap();
    fs::write(tree.folder.path().join("prog.c"), text).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args([
        "-O2", "-pthread", "-Wall", "-Werror", "-o", "prog", "prog.c",
    ]);
    assert!(
        compiler
            .current_dir(tree.folder.path())
            .status()
            .unwrap()
            .success()
    );
}

#[test]
fn elements_of_an_array_of_values_and_of_heap_blocks_get_lines() {
    for (example, file) in [
        ("counter_array.c", "counters"),
        ("heap_straddle.c", "worker"),
    ] {
        let answer = Tree::example(example).answer("5000", &[]);
        let remedy = only(&answer, "remedies");
        assert_eq!(remedy["fate"], "kept", "{answer:#}");
        assert!(
            remedy["what"].as_str().unwrap().starts_with(file),
            "{answer:#}"
        );
        // malloc aligns to 16 bytes: no alignment may be promised of what it gives.
        let is_aligned = answer["diff"].as_str().unwrap().contains("_Alignas");
        assert_eq!(is_aligned, file == "counters", "{answer:#}");
    }
}

#[test]
fn a_lock_is_left_with_the_reason() {
    let tree = Tree::example("lock_beside_data.c");
    let output = tree.fix("2000", &[]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        text.contains("No patch") && text.contains("Left as it is:"),
        "{text}"
    );
    assert!(
        text.contains("account.lock (lock with its data), at most"),
        "{text}"
    );
}

#[test]
fn a_promised_layout_is_refused_by_name() {
    let example = fs::read_to_string(root().join("examples/false_sharing.c")).unwrap();
    let common = fs::read_to_string(root().join("examples/common.h")).unwrap();
    let written = example + "\nvoid keep(FILE *out) { fwrite(&f, sizeof(struct foo), 1, out); }\n";
    let tree = Tree::of(&[("prog.c", &written), ("common.h", &common)]);
    let answer = tree.answer("3000", &[]);
    let remedy = only(&answer, "remedies");
    assert_eq!(remedy["fate"], "refused");
    let reason = remedy["reason"].as_str().unwrap();
    assert!(
        reason.starts_with("foo is written or read as bytes (prog.c:"),
        "{reason}"
    );
    assert_eq!(answer["diff"], "");
    let answer = tree.answer("3000", &["--allow-abi", "--remedies", "1"]);
    assert_eq!(only(&answer, "remedies")["fate"], "kept", "{answer:#}");
}

#[test]
fn builds_that_fail_and_hang_and_checks_that_fail_leave_nothing() {
    let tree = Tree::example("false_sharing.c");
    let run = |build: &str, options: &[&str]| {
        let output = tree.command(build, "3000", options).output().unwrap();
        tree.assert_clean();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), error)
    };
    let (code, error) = run("echo no such compiler >&2; exit 7", &[]);
    assert_eq!(code, Some(2), "{error}");
    assert!(
        error.contains("--build: exit code 7: no such compiler"),
        "{error}"
    );
    let (code, error) = run("sleep 1000", &["--timeout", "200ms"]);
    assert_eq!(code, Some(2), "{error}");
    assert!(error.contains("(--timeout)"), "{error}");
    let (code, error) = run(BUILD, &["--check", "exit 3"]);
    assert_eq!(code, Some(2), "{error}");
    assert!(error.contains("--check: exit code 3"), "{error}");
    // The check of the changed version alone fails.
    let check = ["--check", "! grep -q _Alignas %/prog.c", "--format", "json"];
    let output = tree.command(BUILD, "3000", &check).output().unwrap();
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    let reason = only(&answer, "remedies")["reason"].as_str().unwrap();
    assert!(
        reason.starts_with("its check fails: exit code 1"),
        "{reason}"
    );
    tree.assert_clean();
}

#[test]
fn a_signal_removes_the_copies_and_a_kill_leaves_them_to_the_next_run() {
    let tree = Tree::example("false_sharing.c");
    for signal in [libc::SIGINT, libc::SIGKILL] {
        let begun = tree.folder.path().join(format!("begun{signal}"));
        // The shell becomes the sleeper, which ends with whoever started it.
        let build = format!("touch {}; exec sleep 1000", begun.display());
        let mut child = tree
            .command(&build, "3000", &[])
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        wait_for("a build", || begun.exists());
        assert_eq!(tree.left().len(), 1);
        // SAFETY: a plain system call, to a child that has not been waited for.
        assert_eq!(unsafe { libc::kill(child.id() as libc::pid_t, signal) }, 0);
        let status = child.wait().unwrap();
        match signal {
            libc::SIGINT => assert_eq!(status.code(), Some(130)),
            _ => assert_eq!(status.signal(), Some(signal)),
        }
        assert_eq!(tree.left().len(), usize::from(signal == libc::SIGKILL));
        assert_eq!(tree.text(), tree.source);
    }
    let output = tree.command("exit 1", "3000", &[]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    tree.assert_clean();
}

#[test]
fn a_clean_tree_takes_the_patch_and_a_changed_one_does_not() {
    let tree = Tree::example("flag_beside_counter.c");
    let git = |args: &[&str]| {
        let mut command = Command::new("git");
        command
            .args(["-c", "user.name=a", "-c", "user.email=a@b"])
            .args(args);
        let output = command.current_dir(tree.folder.path()).output().unwrap();
        assert!(output.status.success(), "git {args:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    git(&["init", "--quiet"]);
    git(&["add", "."]);
    git(&["commit", "--quiet", "-m", "a"]);
    let file = tree.folder.path().join("prog.c");
    fs::write(&file, tree.source.clone() + "\n").unwrap();
    let refused = tree.command(BUILD, "3000", &["--apply"]).output().unwrap();
    let error = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{error}");
    assert!(error.contains("found changes of prog.c"), "{error}");
    fs::write(&file, &tree.source).unwrap();
    let output = tree.command(BUILD, "3000", &["--apply"]).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && error.contains("wrote prog.c"),
        "{error}"
    );
    assert!(tree.text().contains("_Alignas(64)"));
    assert_eq!(git(&["status", "--porcelain"]), " M prog.c\n");
    assert_eq!(git(&["worktree", "list"]).lines().count(), 1);
}

#[test]
fn wrong_usage_is_told_before_anything_runs() {
    let fix = |args: &[&str]| {
        let args = [&["fix", "--build", "true"], args].concat();
        let output = run(Path::new("/tmp"), &args);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{error}");
        error
    };
    assert!(fix(&["--run", "a | b"]).contains("--run: found |, expected a program"));
    assert!(fix(&["--run", "a", "--source", "/none"]).contains("cannot read the folder /none"));
    assert!(fix(&["--run", "a", "--min-gain", "200%"]).contains("expected a part from 0%"));
    assert!(fix(&["--run", "a", "-m", "none"]).contains("cannot use the machine 'none'"));
}
