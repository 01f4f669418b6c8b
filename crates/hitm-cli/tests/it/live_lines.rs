//! `hitm live lines` on real programs of this host.

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::thread::available_parallelism;

use hitm_test::process::{Child, Command, wait_for};
use serde_json::Value;

use crate::programs::{build, hitm, root, say_not_run};

/// The end of a run that the kernel does not allow.
const MISSING: i32 = 3;

fn false_sharing(directory: &Path, defines: &[String]) -> PathBuf {
    let source = root().join("examples/false_sharing.c");
    build(directory, "false_sharing", &source, defines)
}

/// Some two seconds of work by four threads.
fn two_seconds(program: &Path) -> Command {
    let mut command = Command::new(hitm());
    command.args(["live", "lines", "--format", "json", "--"]);
    command.arg(program).arg("40000000").stdin(Stdio::null());
    command
}

/// The report after the program's own output; none where this host cannot tell.
fn report(test: &str, output: &Output) -> Option<Value> {
    let error = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(MISSING) {
        say_not_run(test, error.trim());
        return None;
    }
    assert!(output.status.success(), "{error}");
    if available_parallelism().is_ok_and(|count| count.get() < 2) {
        say_not_run(test, "one CPU, on which nobody contends");
        return None;
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let json = &text[text.find('{').expect("an object")..];
    Some(serde_json::from_str(json).expect("JSON"))
}

/// Members of the first line's object.
fn members(report: &Value) -> Vec<&str> {
    let members = report["lines"][0]["objects"][0]["members"].as_array();
    let members = members.into_iter().flatten();
    members.filter_map(Value::as_str).collect()
}

#[test]
fn what_threads_fight_over_is_named() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let program = false_sharing(directory.path(), &[]);
    let mut seen = None;
    let mut without_hits = 0;
    // On a busy host threads run one after the other. Then there is nothing to see, or not of all of them, or one
    // that writes meets one that reads and nobody else.
    wait_for("a run whose threads meet", || {
        let output = two_seconds(&program).output().expect("hitm starts");
        seen = report("what_threads_fight_over_is_named", &output);
        let Some(watched) = seen.as_ref().map(|report| &report["watched"]) else {
            return true;
        };
        assert!(watched["sample_count"].as_u64() > Some(100), "{watched:#}");
        if watched["hit_count"] == 0 {
            without_hits += 1;
            if without_hits == 5 {
                say_not_run("what_threads_fight_over_is_named", "no debug registers");
                seen = None;
            }
            return without_hits == 5;
        }
        let is_seen = watched["hit_count"].as_u64() > Some(200)
            && watched["most_share"].as_f64() > Some(0.05);
        let is_whole = |report: &Value| {
            members(report) == [".w", ".x", ".y", ".z"]
                && report["lines"][0]["verdict"] == "false-sharing"
        };
        is_seen && seen.as_ref().is_some_and(is_whole)
    });
    let Some(report) = seen else {
        return;
    };
    let first = &report["findings"][0];
    assert_eq!(
        (&first["name"], &first["kind"]),
        (&"f".into(), &"false-sharing".into()),
        "{report:#}"
    );
    let [most, least] =
        ["most_share", "least_share"].map(|key| first[key].as_f64().expect("a share"));
    assert!(0.0 < most && least <= most, "{first:#}");
}

#[test]
fn what_each_thread_has_for_itself_is_no_finding() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let program = false_sharing(directory.path(), &["PADDED".to_owned()]);
    let output = two_seconds(&program).output().expect("hitm starts");
    if let Some(report) = report("what_each_thread_has_for_itself_is_no_finding", &output) {
        assert_eq!(report["findings"], Value::Array(Vec::new()), "{report:#}");
    }
}

/// The kernel's table of files is one for all threads of a program, with a lock of its own.
#[test]
fn members_of_the_kernel_are_named_without_debug_information() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let source = root().join("examples/programs/kernel_work.c");
    let program = build(directory.path(), "kernel_work", &source, &[]);
    wait_for("a run whose threads meet in the kernel", || {
        let mut command = Command::new(hitm());
        command.args(["live", "lines", "--kernel", "-F", "4999"]);
        command.args(["--format", "json", "--"]);
        command
            .arg(&program)
            .args(["open", "2", "300000"])
            .stdin(Stdio::null());
        let output = command.output().expect("hitm starts");
        let test = "members_of_the_kernel_are_named_without_debug_information";
        let Some(report) = report(test, &output) else {
            return true;
        };
        if report["watched"]["hit_count"] == 0 {
            say_not_run(test, "no debug registers for the kernel");
            return true;
        }
        let findings = report["findings"].as_array().expect("a list");
        let table = findings.iter().find(|finding| {
            let name = finding["name"].as_str().expect("a name");
            name.starts_with("files_struct.")
        });
        table.is_some_and(|table| {
            let functions = table["written_in"].to_string();
            functions.contains("alloc_fd") || functions.contains("file_close_fd")
        })
    });
}

#[test]
fn threads_that_were_not_asked_for_are_not_looked_at() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let program = false_sharing(directory.path(), &[]);
    let mut program = Command::new(program);
    program.arg("4000000000").stdin(Stdio::null());
    let mut program = program
        .stdout(Stdio::null())
        .spawn()
        .expect("the program starts");
    let mut tids = Vec::new();
    wait_for("its threads", || {
        tids = threads_of(program.id());
        tids.len() == 5
    });
    let chosen = [tids[1], tids[3]];
    let mut command = Command::new(hitm());
    command.args(["live", "lines", "-d", "1s", "--format", "json", "--tid"]);
    command.arg(format!("{},{}", chosen[0], chosen[1]));
    let output = command.stdin(Stdio::null()).output().expect("hitm starts");
    program.kill().expect("it is killed");
    program.wait().expect("it ends");
    let Some(report) = report("threads_that_were_not_asked_for_are_not_looked_at", &output) else {
        return;
    };
    let threads = report["threads"].as_array().expect("a list").iter();
    let seen: Vec<u64> = threads
        .filter_map(|thread| thread["tid"].as_u64())
        .collect();
    assert!(!seen.is_empty(), "{report:#}");
    assert!(seen.iter().all(|tid| chosen.contains(tid)), "{report:#}");
    assert_eq!(
        report["run"]["command"][0],
        format!("threads {}, {}", chosen[0], chosen[1])
    );
}

fn threads_of(pid: u32) -> Vec<u64> {
    let listed = std::fs::read_dir(format!("/proc/{pid}/task")).expect("it runs");
    let names = listed.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut tids: Vec<u64> = names.filter_map(|name| name.parse().ok()).collect();
    tids.sort_unstable();
    tids
}

/// Looks at a program, keeps what it sees, and returns how it ended.
fn watch(program: &Child, file: &Path, duration: &str) -> Command {
    let mut command = Command::new(hitm());
    command.args([
        "live",
        "lines",
        "-p",
        &program.id().to_string(),
        "-d",
        duration,
        "--record",
    ]);
    command.arg(file).stdin(Stdio::null());
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command
}

#[test]
fn a_program_goes_on_when_who_watched_it_is_killed() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let program = false_sharing(directory.path(), &[]);
    let mut program = Command::new(program);
    program
        .arg("100000000")
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    let mut program = program.spawn().expect("the program starts");
    let file = directory.path().join("lines.hitm");
    for _ in 0..5 {
        let mut watcher = watch(&program, &file, "60s").spawn().expect("hitm starts");
        std::thread::sleep(std::time::Duration::from_millis(100));
        watcher.kill().expect("it is killed");
        watcher.wait().expect("it ends");
    }
    let status = program.wait().expect("the program ends");
    assert!(status.success(), "{status}");
    assert!(!file.exists(), "what is not whole is no result");
}

#[test]
fn what_was_kept_is_read_as_a_report() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let program = false_sharing(directory.path(), &[]);
    let file = directory.path().join("lines.hitm");
    let mut command = Command::new(hitm());
    command
        .args(["live", "lines", "--record"])
        .arg(&file)
        .arg("--");
    command.arg(&program).arg("20000000").stdin(Stdio::null());
    let output = command.output().expect("hitm starts");
    if output.status.code() == Some(MISSING) {
        say_not_run(
            "what_was_kept_is_read_as_a_report",
            "the kernel allows no samples",
        );
        return;
    }
    let own = String::from_utf8_lossy(&output.stdout);
    let mut again = Command::new(hitm());
    again.args(["report", "-i"]).arg(&file);
    let again = again.output().expect("hitm starts");
    let again = String::from_utf8_lossy(&again.stdout);
    assert!(again.starts_with("hitm live lines: "), "{again}");
    let first_screen = |text: &str| {
        let from = text.find("hitm live lines: ").expect("the title");
        let to = text.find("== Run").expect("the run");
        text[from..to].to_owned()
    };
    assert_eq!(first_screen(&own), first_screen(&again));
}

/// Words of a run with this cache about the host; none where the kernel allows nothing.
fn host_by(test: &str, program: &Path, cache: &Path) -> Option<String> {
    let mut command = Command::new(hitm());
    command.args(["live", "lines", "--format", "json", "--"]);
    command.arg(program).arg("2000000").stdin(Stdio::null());
    let output = command.env("XDG_CACHE_HOME", cache).output();
    let report = report(test, &output.expect("hitm starts"))?;
    let host = report["watched"]["host"].as_str().expect("a text");
    assert!(host.starts_with("samples stand "), "{host}");
    Some(host.to_owned())
}

/// Figures that two runs measure are never all the same.
#[test]
fn a_host_is_measured_once() {
    let test = "a_host_is_measured_once";
    let directory = tempfile::tempdir().expect("a temporary directory");
    let program = false_sharing(directory.path(), &[]);
    let cache = directory.path().join("cache");
    let folder = cache.join("hitm/calibrations");
    // On a busy host there may be too few samples.
    let mut first = None;
    wait_for("a calibration that is kept", || {
        first = host_by(test, &program, &cache);
        first.is_none() || folder.exists()
    });
    let Some(first) = first else {
        return;
    };
    assert!(!first.contains("assumed"), "{first}");
    assert_eq!(host_by(test, &program, &cache), Some(first.clone()));
    let mut files = std::fs::read_dir(&folder).expect("a folder");
    let file = files.next().expect("a file").expect("it is there").path();
    assert!(files.next().is_none(), "one host has one file");
    let whole = |file: &Path| {
        let text = std::fs::read_to_string(file).expect("it is there");
        serde_json::from_str::<Value>(&text).is_ok()
    };
    assert!(whole(&file));
    std::fs::write(&file, "{").expect("it is written");
    wait_for("a calibration in the place of a damaged one", || {
        host_by(test, &program, &cache);
        whole(&file)
    });
    // A folder that cannot be made is no error.
    let nowhere = file.join("below a file");
    assert!(host_by(test, &program, &nowhere).is_some());
}

/// Samples of perf, which is installed where these tests run.
#[test]
fn samples_of_perf_make_candidates() {
    let test = "samples_of_perf_make_candidates";
    let directory = tempfile::tempdir().expect("a temporary directory");
    let program = false_sharing(directory.path(), &[]);
    let file = directory.path().join("perf.data");
    let read = |verb: &[&str]| {
        let mut command = Command::new(hitm());
        command.args(verb).arg("-i").arg(&file);
        let output = command.output().expect("hitm starts");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{error}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    wait_for("samples of all threads", || {
        let mut perf = Command::new("perf");
        perf.args(["record", "-q", "-d", "-g", "-e", "cpu-clock", "-F", "4999"]);
        perf.args(["--user-regs", "-o"]).arg(&file).arg("--");
        perf.arg(&program).arg("20000000").stdin(Stdio::null());
        let output = perf.output().expect("perf is installed: scripts/setup");
        if !output.status.success() {
            say_not_run(test, &String::from_utf8_lossy(&output.stderr));
            return true;
        }
        let report: Value =
            serde_json::from_str(&read(&["report", "--format", "json"])).expect("JSON");
        let watched = &report["watched"];
        assert_eq!(watched["is_by_samples"], true, "{watched:#}");
        assert_eq!(watched["hit_count"], 0, "{watched:#}");
        assert_eq!(watched["least_share"], 0.0, "{watched:#}");
        let first = &report["findings"][0];
        first["name"] == "f"
            && first["kind"] == "false-sharing"
            && members(&report) == [".w", ".x", ".y", ".z"]
    });
    if file.exists() {
        let text = read(&["report"]);
        assert!(text.starts_with("hitm live lines: "), "{text}");
        assert!(text.contains("a candidate by samples alone."), "{text}");
        assert!(
            text.contains("stand behind loads and locked operations, at stores (assumed)"),
            "{text}"
        );
    }
}

#[test]
fn who_is_not_there_is_wrong_usage() {
    let of = |args: &[&str]| {
        let mut command = Command::new(hitm());
        let output = command.args(["live", "lines"]).args(args).output();
        let output = output.expect("hitm starts");
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{error}");
        error
    };
    assert!(of(&["-p", "4194304"]).contains("process 4194304 has no threads"));
    assert!(of(&[]).contains("expected --pid, --tid, --cgroup, a program or --kernel"));
    assert!(of(&["-t", "4194304"]).contains("there is no thread 4194304"));
    assert!(of(&["-t", "1", "-p", "1"]).contains("cannot be used with"));
    assert!(of(&["--cgroup", "/no/such/group"]).contains("/no/such/group"));
}
