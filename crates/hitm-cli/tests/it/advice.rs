//! `hitm layout advise` and `compare` as a user meets them.

use hitm_test::process::Command;
use std::fs;
use std::path::Path;
use std::process::Stdio;

use expect_test::{Expect, expect};
use serde_json::Value;

use crate::whatif::{per_iteration, whatif};
use crate::{check, programs};

fn path(below: &str) -> String {
    programs::root().join(below).display().to_string()
}

#[test]
fn root_domain_is_compared_line_by_line() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let ours = directory.path().join("ours.toml").display().to_string();
    let profile = path("profiles/root-domain-c2c.csv");
    let common = ["-i", "linux-6.12", "-p", &profile, "-m", "xeon-480"];
    let advise = [
        "layout",
        "advise",
        "root_domain",
        "--max-lines",
        "31",
        "-o",
        &ours,
    ];
    let mut command = hitm_test::process::Command::new(env!("CARGO_BIN_EXE_hitm"));
    let status = command
        .args(advise)
        .args(common)
        .output()
        .expect("hitm starts")
        .status;
    assert!(status.success());
    let compare = [
        "layout",
        "compare",
        "root_domain",
        "-l",
        "root-domain-restructured",
        "-l",
        &ours,
    ];
    let all: Vec<&str> = compare.into_iter().chain(common).collect();
    check(
        &all,
        expect![[r#"
            exit code 0
            -- stdout
            root_domain on xeon-480 by profile root-domain-c2c
            note: cycles are estimated by a model of independent accesses

            now: 29 lines, 77,254,851 cycles
              line      cycles       stall   transfers  cycles each  members
                 0  36,528,016  36,453,388       1,198       30,917  overloaded rto_count
                 2  40,726,836  40,637,204       1,427       28,969  cpupri.pri_to_cpu[0].count rto_cpu rto_loop_next rto_loop_start rto_mask

            root-domain-restructured: 31 lines, an estimated 51,960,445 cycles, 32.7 % less
              line      cycles       stall   transfers  cycles each  members
                 0  26,959,832  26,909,619         818       33,380  rto_count
                 2   2,357,440   2,345,003         198       12,303  rto_cpu rto_loop_next rto_loop_start
                 3  22,641,647  22,586,633         873       26,369  cpupri.pri_to_cpu[0].count
                29         763           0           0            0  rto_mask
                30         763           0           0            0  overloaded

            ours: 29 lines, an estimated 51,959,682 cycles, 32.7 % less
              line      cycles       stall   transfers  cycles each  members
                 0         763           0           0            0  overloaded rto_mask
                 1  22,641,647  22,586,633         873       26,369  cpupri.pri_to_cpu[0].count
                26  26,959,832  26,909,619         818       33,380  rto_count
                27   2,357,440   2,345,003         198       12,303  rto_cpu rto_loop_next rto_loop_start
            -- stderr
        "#]],
    );
}

fn check_refused(rest: &[&str], expected: Expect) {
    let profile = path("profiles/root-domain-c2c.csv");
    let head = ["layout", "advise", "-i", "linux-6.12", "-p", &profile];
    let all: Vec<&str> = head.into_iter().chain(rest.iter().copied()).collect();
    check(&all, expected);
}

#[test]
fn what_cannot_be_advised_is_named() {
    check_refused(
        &["rq", "-m", "xeon-480"],
        expect![[r#"
        exit code 2
        -- stdout
        -- stderr
        hitm: error: no structure rq
    "#]],
    );
    check_refused(
        &["root_domain", "-m", "broadwell-4s"],
        expect![[r#"
        exit code 2
        -- stdout
        -- stderr
        hitm: error: the profile has CPU 479, machine broadwell-4s has 192 CPUs
    "#]],
    );
    check_refused(
        &["root_domain", "-m", "xeon-480", "--max-lines", "20"],
        expect![[r#"
            exit code 2
            -- stdout
            -- stderr
            hitm: error: no layout of root_domain takes at most 20 lines: the smallest found takes 29
        "#]],
    );
    check_refused(
        &["root_domain", "-m", "xeon-480", "--pin", "nothing@0"],
        expect![[r#"
            exit code 2
            -- stdout
            -- stderr
            hitm: error: root_domain has no member nothing
        "#]],
    );
    check_refused(
        &["root_domain", "-m", "xeon-480", "--emit", "c"],
        expect![[r#"
            exit code 2
            -- stdout
            -- stderr
            hitm: error: root_domain comes from a layout file, which has no types: expected a file with debug information
        "#]],
    );
}

fn advise(directory: &Path, of: &str, rest: &[&str]) -> String {
    let args = [&["layout", "advise", of], rest].concat();
    let output = programs::run(directory, &args);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {error}");
    String::from_utf8(output.stdout).expect("the answer is UTF-8")
}

/// Records an example, applies the advice to its source, compiles that and records again. The
/// replay predicts the second recording within 15 %, and what threads lost to each other is gone.
fn check_loop(name: &str, of: &str, allocated_in: Option<&str>) {
    const ITERATIONS: &str = "20000";
    let directory = tempfile::tempdir().expect("a temporary directory");
    let directory = directory.path();
    let source = directory.join(format!("{name}.c"));
    for file in [&*format!("{name}.c"), "common.h"] {
        let example = programs::root().join("examples").join(file);
        fs::copy(example, directory.join(file)).expect("the example is there");
    }
    let program = programs::build(directory, "now", &source, &[]);
    let recording = programs::record(directory, &program, &[ITERATIONS.to_owned()]);

    let input = ["-i", "now", "-p", "now.hitm"];
    let at: Vec<&str> = allocated_in
        .iter()
        .flat_map(|site| ["--at", site])
        .collect();
    let shown = advise(directory, of, &[&input[..], &at].concat());
    assert!(shown.contains(" less by replay: threads take "), "{shown}");
    let file = source.file_name().and_then(|file| file.to_str());
    let emit = [
        "-o",
        "new.toml",
        "--emit",
        "c",
        "--source",
        file.expect("a name"),
    ];
    let diff = advise(directory, of, &[&input[..], &at, &emit].concat());

    fs::write(directory.join("a.diff"), diff).expect("a temporary file");
    let diff = fs::File::open(directory.join("a.diff")).expect("it was just written");
    let mut patch = Command::new("patch");
    patch.args(["-s", "-p0"]).current_dir(directory);
    let status = patch
        .stdin(Stdio::from(diff))
        .status()
        .expect("patch starts");
    assert!(status.success(), "{name}: the diff does not apply");
    let program = programs::build(directory, "then", &source, &[]);
    let again = programs::record(directory, &program, &[ITERATIONS.to_owned()]);

    let layout = directory.join("new.toml").display().to_string();
    let instances = allocated_in.map(|site| format!("heap:{site}"));
    let mut options = vec!["--per", ITERATIONS, "--layout", &layout];
    options.extend(instances.iter().flat_map(|site| ["--instances", site]));
    let predicted = whatif(&recording, &options);
    let recorded = whatif(&again, &["--per", ITERATIONS]);
    let ratio = per_iteration(&predicted, "after") / per_iteration(&recorded, "before");
    assert!((0.85..1.15).contains(&ratio), "{name}: {ratio}");
    let lost = |answer: &Value| answer["run"]["before"]["lost_cycles"].as_u64();
    let (then, now) = (lost(&predicted), lost(&recorded));
    assert!(
        now.zip(then).is_some_and(|(now, then)| now * 20 < then),
        "{name}: threads lost {then:?} cycles, and {now:?} with the advice"
    );
}

#[test]
fn applied_advice_records_as_it_was_foretold() {
    check_loop("false_sharing", "foo", None);
    check_loop("counter_array", "counters", None);
    check_loop("flag_beside_counter", "control", None);
    check_loop("heap_straddle", "worker", Some("main"));
}

/// Members of anonymous structures move, but for one that the source marks `__randomize_layout`: debug
/// information does not tell.
#[test]
fn anonymous_structures_are_laid_out_unless_they_are_randomized() {
    const SOURCE: &str = "
#define __randomize_layout
struct space {
	struct {
		struct { long refs; } __attribute__((aligned(64)));
		long users;
		long top;
		long peak;
	} __randomize_layout;
	unsigned long bitmap[];
};
struct space of;
int main(void) { return (int)(of.refs + of.users + of.top + of.peak); }
";
    const PROFILE: &str = "\
# schema: 1
# name: writers
# source: made up
# period_cycles: 3000000
member,function,comm,cpus,loads,stores,rmws
refs,put,p,0-3,0,0,4000
users,get,p,4-7,0,0,4000
top,look,p,0-7,8000,0,0
";
    let directory = tempfile::tempdir().expect("a temporary directory");
    let directory = directory.path();
    let source = directory.join("a.c");
    fs::write(&source, SOURCE).expect("a temporary file");
    fs::write(directory.join("a.csv"), PROFILE).expect("a temporary file");
    programs::build(directory, "a", &source, &[]);
    let asked = ["-i", "a", "-p", "a.csv", "-m", "broadwell-4s"];
    let free = advise(directory, "space", &[&asked[..], &["--emit", "c"]].concat());
    assert!(
        free.contains("\n\t_Alignas(64) long int users;\n"),
        "{free}"
    );
    assert!(!free.contains("struct {"), "{free}");
    let whole = [&asked[..], &["--source", "a.c"]].concat();
    let whole = advise(directory, "space", &whole);
    let note = "note: the members of an anonymous structure marked __randomize_layout at byte 0 stay together: \
                refs, users, top, peak\n";
    assert!(whole.contains(note), "{whole}");
    assert!(whole.contains("No layout is better"), "{whole}");
}

/// Two threads that fight over two structures, four times as often over the second.
const TWO_STRUCTURES: &str = r"
#include <pthread.h>

static struct few { volatile long one, two; } few __attribute__((aligned(64)));
static struct many { volatile long one, two; } many __attribute__((aligned(64)));

static void *count(void *unused)
{
	for (int i = 0; i < 8000; i++) {
		many.two++;
		if (i % 4 == 0)
			few.two++;
	}
	return unused;
}

int main(void)
{
	pthread_t thread;

	pthread_create(&thread, 0, count, 0);
	for (int i = 0; i < 8000; i++) {
		many.one++;
		if (i % 4 == 0)
			few.one++;
	}
	return pthread_join(thread, 0);
}
";

#[test]
fn all_structures_of_a_recording_are_advised_on_the_most_gain_first() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let directory = directory.path();
    let source = directory.join("two.c");
    fs::write(&source, TWO_STRUCTURES).expect("a source");
    let program = programs::build(directory, "two", &source, &[]);
    let recording = directory.join("two.hitm");
    let run = |args: &[&Path]| {
        let done = Command::new(programs::hitm()).args(args).output();
        let done = done.expect("hitm runs");
        let errors = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{errors}");
        String::from_utf8(done.stdout).expect("text")
    };
    let path = Path::new;
    run(&[path("record"), path("-o"), &recording, &program]);
    let all = run(&[
        path("layout"),
        path("advise"),
        path("--all"),
        path("-p"),
        &recording,
    ]);
    let one = |name: &str| {
        let advise = [
            path("layout"),
            path("advise"),
            path(name),
            path("-i"),
            &program,
        ];
        run(&[&advise[..], &[path("-p"), &recording]].concat())
    };
    // The best layout is the first, so the second time is the one with it.
    let cycles = |advice: &String| {
        let best = advice.split("threads take ").nth(2).expect("a layout");
        let cycles = best.split(' ').next().expect("a number");
        cycles.replace(',', "").parse::<u64>().expect("a number")
    };
    let mut each = [one("many"), one("few")];
    each.sort_by_key(cycles);
    assert_eq!(all, each.join("\n"));
    let advise = ["layout", "advise", "--all", "--format", "json", "-p"].map(path);
    let json = run(&[&advise[..], &[&recording]].concat());
    let json: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json.as_array().expect("a list").len(), 2);
}
