//! `hitm sweep`: the same table however it was made, and mistakes with their place.

use hitm_test::process::{Command, wait_for};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use expect_test::{Expect, expect};
use tempfile::TempDir;

/// A machine of four CPUs with two kinds of threads: a run of some milliseconds.
pub(crate) const SCENARIO: &str = "schema = 1\nname = \"small\"\ndescription = \"d\"\nsource = \"made\"\n\
    [machine]\npreset = \"broadwell-4s\"\ncpus = 4\n\
    [kernel]\nbalancing = [\"passive\", \"push-ipi\"]\n\
    [[workload]]\nkind = \"cyclic\"\nname = \"timers\"\n[[workload]]\nkind = \"hogs\"\n\
    [run]\nduration = \"20ms\"\n";

/// 2 x 3 x 2 x 5 = 60 runs, with the policies of the scenario.
const PLAN: &str = "schema = 1\nname = \"p\"\nscenarios = \"small.toml\"\nseeds = 5\n\
    [[vary]]\nkey = \"kernel.tick\"\nfrom = \"100/s\"\nto = \"1000/s\"\nsteps = 3\nscale = \"log\"\n\
    [[vary]]\nkey = \"workload.0.sleep\"\nvalues = [\"50us\", \"100us\"]\n";
const RUN_COUNT: usize = 60;

struct Bench {
    folder: TempDir,
}

impl Bench {
    fn new(plan: &str) -> Bench {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("small.toml"), SCENARIO).unwrap();
        fs::write(folder.path().join("plan.toml"), plan).unwrap();
        Bench { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// `hitm sweep plan.toml`, in the bench's folder.
    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hitm"));
        command.args(["sweep", "plan.toml"]).args(args);
        command.current_dir(self.folder.path()).stdin(Stdio::null());
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// Runs to the end and returns the table.
    fn table(&self, output: &str, args: &[&str]) -> Vec<u8> {
        let done = self.run(&[&["-o", output], args].concat());
        assert!(
            done.status.success(),
            "{}",
            String::from_utf8_lossy(&done.stderr)
        );
        fs::read(self.path(output).join("results.parquet")).unwrap()
    }

    /// Names of the runs that were begun.
    fn started(&self, output: &str) -> Vec<String> {
        let text = fs::read_to_string(self.path(output).join("runs/started"));
        text.unwrap_or_default()
            .lines()
            .map(str::to_owned)
            .collect()
    }
}

/// Files below a folder, by name.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(files(&path)),
            false => found.push(path),
        }
    }
    found.sort();
    found
}

#[test]
fn a_sweep_killed_again_and_again_gives_the_same_table() {
    const KILLS: usize = 5;
    let bench = Bench::new(PLAN);
    let whole = bench.table("whole", &["--jobs", "1"]);
    assert_eq!(bench.started("whole").len(), RUN_COUNT);
    for kill in 1..=KILLS {
        let mut driver = bench
            .command(&["-o", "killed", "--jobs", "2"])
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let enough = kill * RUN_COUNT / (KILLS + 2);
        wait_for("runs", || bench.started("killed").len() >= enough);
        driver.kill().unwrap();
        assert!(
            !driver.wait().unwrap().success(),
            "the driver was killed before its end"
        );
        assert!(!bench.path("killed/results.parquet").exists());
    }
    assert_eq!(bench.table("killed", &["--jobs", "2"]), whole);
    // Each kill costs at most the runs under way.
    let started = bench.started("killed").len();
    assert!(
        (RUN_COUNT..=RUN_COUNT + 2 * KILLS).contains(&started),
        "{started}"
    );
    // Nothing is run again, and the table is the same.
    assert_eq!(bench.table("killed", &[]), whole);
    assert_eq!(bench.started("killed").len(), started);
}

#[test]
fn parts_and_damaged_results_give_the_same_table() {
    let bench = Bench::new(PLAN);
    let whole = bench.table("whole", &[]);
    for part in ["2/3", "1/3", "3/3"] {
        let done = bench.run(&["-o", "parts", "--part", part]);
        assert!(done.status.success());
    }
    assert!(!bench.path("parts/results.parquet").exists());
    assert_eq!(bench.started("parts").len(), RUN_COUNT);
    assert_eq!(bench.table("parts", &[]), whole);
    assert_eq!(bench.started("parts").len(), RUN_COUNT);
    let is_result = |path: &PathBuf| path.file_name().is_some_and(|name| name.len() == 32);
    let results = files(&bench.path("parts/runs"));
    let results: Vec<&PathBuf> = results.iter().filter(|path| is_result(path)).collect();
    assert_eq!(results.len(), RUN_COUNT);
    let text = fs::read(results[7]).unwrap();
    fs::write(results[7], &text[..text.len() - 9]).unwrap();
    assert_eq!(bench.table("parts", &[]), whole);
    assert_eq!(bench.started("parts").len(), RUN_COUNT + 1);
}

#[test]
fn a_longer_plan_makes_only_what_is_new() {
    let bench = Bench::new(PLAN);
    bench.table("out", &[]);
    let longer = PLAN.replace("seeds = 5", "seeds = 6\nmetrics = [\"time.idle\"]");
    fs::write(bench.path("plan.toml"), longer).unwrap();
    bench.table("out", &[]);
    assert_eq!(bench.started("out").len(), RUN_COUNT + RUN_COUNT / 5);
}

#[test]
fn what_cannot_run_is_a_row() {
    let plan = "schema = 1\nname = \"p\"\nscenarios = \"small.toml\"\n\
        [[vary]]\nkey = \"machine.cpus\"\nvalues = [4, 5000]\n\
        [[vary]]\nkey = \"run.events_max\"\nvalues = [10, 100000000]\n";
    let bench = Bench::new(plan);
    let done = bench.run(&["-o", "out"]);
    let text = String::from_utf8(done.stderr).unwrap();
    let expected = "hitm: 4 runs made, 0 found, 2 failed, 2 points that cannot be run\n\
        hitm: wrote out/results.parquet\n";
    assert_eq!((text.as_str(), done.status.code()), (expected, Some(0)));
}

#[test]
fn a_dry_run_counts_and_writes_nothing() {
    let bench = Bench::new(PLAN);
    let done = bench.run(&["-o", "out", "--dry-run"]);
    let text = String::from_utf8(done.stdout).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[..2], ["runs         60", "to make      60"]);
    assert!(lines[2].starts_with("a run        ") && lines[2].ends_with("(16 tried)"));
    assert!(lines[3].starts_with("CPU hours    0.0"), "{text}");
    assert!(!bench.path("out").exists());
    let done = bench.run(&[
        "-o",
        "out",
        "--dry-run",
        "--engine",
        "slurm",
        "--tasks",
        "3",
    ]);
    let script = String::from_utf8(done.stdout).unwrap();
    assert!(script.contains("#SBATCH --array=1-3\n"), "{script}");
    assert!(
        script.contains(" sweep plan.toml -o out --jobs"),
        "{script}"
    );
    assert!(!bench.path("out").exists());
}

/// `hitm report`, in the bench's folder.
fn report(bench: &Bench, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hitm"));
    command.arg("report").args(args).stdin(Stdio::null());
    command.current_dir(bench.folder.path()).output().unwrap()
}

#[test]
fn a_sweep_is_reported_as_text_json_and_page() {
    let bench = Bench::new(PLAN);
    bench.table("out", &[]);
    let folder = report(&bench, &["-i", "out"]);
    let text = String::from_utf8(folder.stdout).unwrap();
    assert!(text.contains("  60 runs at 12 points, "), "{text}");
    let effect = text
        .lines()
        .find(|line| line.starts_with("  timers.wakeups "));
    assert!(
        effect.is_some_and(|line| line.contains(" count ")),
        "{text}"
    );
    let json = report(&bench, &["-i", "out/results.parquet", "--format", "json"]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json["run"]["run_count"], RUN_COUNT);
    let effects = json["effects"].as_array().unwrap();
    let of_wakeups = effects
        .iter()
        .find(|one| one["metric"] == "timers.wakeups")
        .unwrap();
    // Threads that sleep half as long wake twice as often.
    assert_eq!(of_wakeups["key"], "workload.0.sleep");
    assert_eq!(
        (&of_wakeups["least_at"], &of_wakeups["most_at"]),
        (&"100000".into(), &"50000".into())
    );
    let page = |name: &str| {
        let done = report(&bench, &["-i", "out", "--format", "html", "-o", name]);
        assert_eq!(done.status.code(), Some(0));
        fs::read(bench.path(name)).unwrap()
    };
    assert_eq!(page("one.html"), page("two.html"));
}

#[test]
fn a_damaged_table_is_an_error_and_no_bug() {
    let bench = Bench::new(PLAN);
    let table = bench.table("out", &[]);
    let check = |bytes: &[u8]| {
        fs::write(bench.path("bad.parquet"), bytes).unwrap();
        let done = report(&bench, &["-i", "bad.parquet"]);
        let text = String::from_utf8(done.stderr).unwrap();
        assert!(!text.contains("internal error"), "{text}");
        let code = done.status.code().unwrap();
        assert!(
            code == 0 || code == 2 && text.starts_with("hitm: error: cannot read bad.parquet: "),
            "{text}"
        );
        code
    };
    assert_eq!(check(&table[..table.len() / 2]), 2);
    let step = table.len() / 60;
    let codes: Vec<i32> = (4..table.len())
        .step_by(step)
        .map(|at| {
            let mut bytes = table.clone();
            bytes[at] ^= 0xff;
            check(&bytes)
        })
        .collect();
    assert!(codes.contains(&2), "{codes:?}");
}

#[test]
fn what_a_sweep_has_not_is_refused() {
    let bench = Bench::new(PLAN);
    let refused = |args: &[&str], expected: &str| {
        let done = report(&bench, args);
        let text = String::from_utf8(done.stderr).unwrap();
        assert_eq!((text.as_str(), done.status.code()), (expected, Some(2)));
    };
    fs::create_dir_all(bench.path("empty/runs")).unwrap();
    refused(
        &["-i", "empty"],
        "hitm: error: cannot read empty/results.parquet: there is no such table: run the sweep to its end first\n",
    );
    refused(
        &["-i", "empty", "--fail-on", "false-sharing"],
        "hitm: error: empty is a sweep, which has no lines to choose from: expected --format and --output only\n",
    );
    refused(
        &["-i", "empty", "--format", "sarif"],
        "hitm: error: a sweep has no findings for services: expected --format text, json or html\n",
    );
}

#[test]
fn a_sample_takes_the_ranges_that_a_machine_file_states() {
    let plan = "schema = 1\nname = \"p\"\nscenarios = \"small.toml\"\nmetrics = \"time.kernel_of_busy\"\n\
        [sample]\npoints = 12\nstated = [\"machine.transfers\", \"machine.dram\", \"kernel.costs.context_switch\"]\n";
    let bench = Bench::new(plan);
    let once = bench.table("out", &[]);
    assert_eq!(bench.table("again", &["--jobs", "1"]), once);
    // Two policies at each point.
    assert_eq!(bench.started("out").len(), 24);
    let json = report(&bench, &["-i", "out", "--format", "json"]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    let keys = json["keys"].as_array().unwrap();
    let key = keys
        .iter()
        .find(|key| key["key"] == "kernel.costs.context_switch")
        .unwrap();
    assert_eq!(
        (&key["unit"], &key["value_count"]),
        (&"ns".into(), &12.into())
    );
    let end = |end: &str| key[end].as_str().unwrap().parse::<f64>().unwrap();
    assert!(end("first") >= 400.0 && end("first") < 460.0, "{key}");
    assert!(end("last") <= 2_000.0 && end("last") > 1_700.0, "{key}");
    // The runs differ: the values reached them.
    assert!(json["metrics"][0]["most"].as_f64() > json["metrics"][0]["least"].as_f64());
    // The plan of more points of the same kind begins anew; that of another metric does not.
    fs::write(
        bench.path("plan.toml"),
        plan.replace("time.kernel_of_busy", "time.idle"),
    )
    .unwrap();
    bench.table("out", &[]);
    assert_eq!(bench.started("out").len(), 24);
}

/// Compares the message about a plan; nothing may have run.
fn check_mistake(rest: &str, expected: Expect) {
    let bench = Bench::new(&format!("schema = 1\nname = \"p\"\n{rest}"));
    for args in [&["-o", "out"][..], &["-o", "out", "--dry-run"]] {
        let done = bench.run(args);
        assert_eq!(done.status.code(), Some(2));
        expected.assert_eq(&String::from_utf8(done.stderr).unwrap());
        assert!(!bench.path("out").exists());
    }
}

#[test]
fn mistakes_have_a_place_before_anything_runs() {
    let small = |rest: &str| format!("scenarios = \"small.toml\"\n{rest}");
    check_mistake(
        &small("[[vary]]\nkey = \"kernel.tock\"\nvalues = [1]\n"),
        expect![[r#"
            hitm: error: plan.toml:5:7: kernel.tock: found an unknown key, expected one of balancing, throttling, preempt, placement, load_balancing, wake_lists, layouts, tick, cpusets, overlapping_cpusets, rt_runtime, rt_period, cfs_bandwidth_slice, balance_interval, idle, idle_wake, spinlock, osq, load_avg_interval, costs, idle_exit, visit_instructions, lock_window, mechanisms
        "#]],
    );
    check_mistake(
        &small("[[vary]]\nkey = \"kernel.tick\"\nfrom = \"300/s\"\nto = \"100/s\"\nsteps = 3\n"),
        expect![[r#"
            hitm: error: plan.toml:7:6: vary[0].to: found "300/s" to "100/s", expected more than `from`
        "#]],
    );
    check_mistake(
        &small("[[vary]]\nkey = \"kernel.tick\"\nvalues = [\"250/s\", \"250ms\"]\n"),
        expect![[r#"
            hitm: error: plan.toml:6:20: kernel.tick: found "250ms", expected a rate with its unit, such as "250/s", from 1/s to 10000/s
        "#]],
    );
    check_mistake(
        &small("seeds = 500000000\n"),
        expect![[r#"
            hitm: error: plan.toml:4:9: seeds: found 500000000 runs, expected at most 1000000 runs
        "#]],
    );
    check_mistake(
        &small("metrics = [\"time.idle\", \"timers.late\"]\n"),
        expect![[r#"
            hitm: error: plan.toml:4:25: metrics: found "timers.late", a metric that no run has, expected one of timers.operations_per_second, timers.wakeups, timers.late_us_min, timers.late_us_mean, timers.late_us_max, hogs.used_ms, time.kernel_of_busy, time.user, time.kernel, time.spin, time.irq, time.idle, time.irqs_off_us_max, time.irqs_off_us_max_mean, sched.wakeups_per_cpu_second, sched.switches_per_cpu_second, sched.migrations_per_cpu_second, sched.pushes_per_cpu_second, sched.pulls_per_cpu_second, sched.ipis_per_cpu_second, sched.stale_overloads, wakeup.latency_us_mean, wakeup.latency_us_p50, wakeup.latency_us_p99, wakeup.latency_us_max, root_domain.line_N.load_cycles_mean, root_domain.line_N.load_cycles_row_min, root_domain.line_N.load_cycles_row_max
        "#]],
    );
    check_mistake(
        &small("[[vary]]\nkey = \"machine\"\nvalues = [\"xeon-480\", \"xeon-481\"]\n"),
        expect![[r#"
            hitm: error: plan.toml:6:23: machine: no machine model named "xeon-481": there is no such file, and the presets are broadwell-4s, cascadelake-2s, genoa-384, icelake-2s, kunpeng920-96, milan-2s, xeon-480, xeon8176-8s
        "#]],
    );
    check_mistake(
        "scenarios = [\"small.toml\", \"none.toml\"]\n",
        expect![[r#"
            hitm: error: plan.toml:3:28: scenarios: cannot read none.toml: No such file or directory (os error 2)
        "#]],
    );
    check_mistake(
        &small("[sample]\npoints = 4\nstated = \"kernel.cost\"\n"),
        expect![[r#"
            hitm: error: plan.toml:6:10: sample.stated: found "kernel.cost", which no number of the scenarios lies in, expected a number with a range, or a table: machine, machine.caches.llc, machine.occupancy_ratio, machine.contention, machine.transfers.smt, machine.transfers.llc, machine.transfers.remote, machine.dram, machine.core, kernel.costs
        "#]],
    );
    check_mistake(
        "recordings = \"small.toml\"\n[sample]\npoints = 4\nstated = \"machine\"\n",
        expect![[r#"
            hitm: error: plan.toml:6:10: sample.stated: found recordings, expected `scenarios`: a replay takes the machine as it is
        "#]],
    );
    check_mistake(
        "recordings = \"small.toml\"\nmetrics = \"time.idle\"\n",
        expect![[r#"
            hitm: error: plan.toml:4:11: metrics: found "time.idle", a metric that no run has, expected one of whatif.end_cycles, whatif.access_count, whatif.local_hitm_count, whatif.remote_hitm_count, whatif.stall_cycles, whatif.lost_cycles
        "#]],
    );
}
