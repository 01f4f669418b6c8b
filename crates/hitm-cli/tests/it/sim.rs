//! `hitm sim` and `hitm reproduce` as a user meets them.

use hitm_test::process::Command;
use std::fs;
use std::path::Path;
use std::process::{Output, Stdio};

const SCENARIO: &str = r#"
schema = 1
name = "five-for-four"
description = "Five FIFO threads on four CPUs under two policies"
source = "made up for this test"

[machine]
preset = "broadwell-4s"
cpus = 4

[kernel]
balancing = ["passive", "push-ipi"]

[[workload]]
kind = "rt-migrate-test"
loops = 10

[[published]]
id = "rt_migrate.failed_iterations"
balancing = "push-ipi"
value = 0
unit = "count"
source = "made up for this test"
"#;

fn hitm(args: &[&str], directory: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_hitm"))
        .args(args)
        .current_dir(directory)
        .stdin(Stdio::null())
        .env("COLUMNS", "100")
        .output()
        .expect("hitm starts")
}

/// Runs `hitm sim` on a scenario with the options `args`.
fn sim(scenario: &str, args: &[&str]) -> Output {
    let directory = tempfile::tempdir().expect("a temporary directory");
    fs::write(directory.path().join("x.toml"), scenario).expect("the scenario is written");
    let args: Vec<&str> = ["sim", "x.toml"].iter().chain(args).copied().collect();
    hitm(&args, directory.path())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("hitm writes UTF-8")
}

#[test]
fn a_scenario_runs_every_variant_and_its_check_is_a_gate() {
    let output = sim(SCENARIO, &["--check", "--format", "json", "--seeds", "4"]);
    let error = text(&output.stderr);
    // Under passive balancing a higher priority waits for a lower one in some iteration of some
    // seed; under active balancing never.
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(
        error.contains("passive: rt_migrate fails its check"),
        "{error}"
    );
    assert!(!error.contains("push-ipi"), "{error}");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(report["schema"], 1);
    assert_eq!(report["seeds"], serde_json::json!([1, 2, 3, 4]));
    let variants = report["variants"].as_array().expect("a list");
    assert_eq!(variants.len(), 2);
    assert_eq!(variants[1]["balancing"], "push-ipi");
    assert_eq!(variants[1]["runs"].as_array().expect("a list").len(), 4);
    assert_eq!(report["comparisons"][0]["simulated"], 0.0);
}

#[test]
fn a_shipped_scenario_needs_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let args = [
        "sim",
        "001-rt-balancing/open-case",
        "--quick",
        "--seed",
        "1",
    ];
    let output = hitm(&args, folder.path());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let output = hitm(&["sim", "001-rt-balancing/none"], folder.path());
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stdout));
}

#[test]
fn two_processes_give_the_same_bytes() {
    let args = ["--format", "json", "--quick"];
    let first = sim(SCENARIO, &args);
    assert_eq!(first.status.code(), Some(0), "{}", text(&first.stderr));
    assert_eq!(first.stdout, sim(SCENARIO, &args).stdout);
    let other_seed = sim(SCENARIO, &["--format", "json", "--quick", "--seed", "9"]);
    assert_ne!(first.stdout, other_seed.stdout);
}

#[test]
fn a_page_has_the_variants_as_points_and_every_seed() {
    let loads = SCENARIO.replace(
        "[kernel]",
        "[kernel]\nlayouts = [\"linux-6.12\", \"root-domain-restructured\"]",
    );
    let options = ["--format", "html", "--seeds", "3"];
    let output = sim(&loads, &options);
    let html = text(&output.stdout);
    assert_eq!(text(&output.stderr), "");
    assert_eq!(html, text(&sim(&loads, &options).stdout), "the same bytes");
    let (_, data) = html.split_once("id=\"data\">").expect("data");
    let (data, _) = data.split_once("</script>").expect("its end");
    let page: serde_json::Value = serde_json::from_str(data).expect("the data is JSON");
    let scenario = &page["scenarios"][0];
    let keys = scenario["keys"].as_array().expect("keys");
    let names: Vec<&str> = keys.iter().filter_map(|key| key["name"].as_str()).collect();
    assert_eq!(names, ["variant", "layout", "balancing"]);
    assert_eq!(
        scenario["points"],
        serde_json::json!([[0, 0, 0], [1, 1, 0], [2, 0, 1], [3, 1, 1]])
    );
    let values = scenario["values"][0].as_array().expect("values");
    let counts: Vec<usize> = values
        .iter()
        .filter_map(|of| Some(of.as_array()?.len()))
        .collect();
    assert_eq!(counts, [3; 4], "a value for each seed of each variant");
    assert_eq!(
        scenario["published"]["rows"].as_array().map(Vec::len),
        Some(2)
    );
    let output = sim(SCENARIO, &["-o", "page.html"]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(
        text(&output.stderr),
        "hitm: error: -o is for pages: expected --format html\n"
    );
    let options = ["reproduce", "--sensitivity", "--format", "html"];
    let output = hitm(&options, Path::new("/"));
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("--sensitivity has no page"));
}

#[test]
fn another_layout_is_another_run_without_a_change_of_the_scenario() {
    let one = SCENARIO.replace("[\"passive\", \"push-ipi\"]", "\"push-ipi\"");
    let layouts = [
        "--layout",
        "linux-6.12",
        "--layout",
        "root-domain-restructured",
    ];
    let args: Vec<&str> = ["--quick"].iter().chain(&layouts).copied().collect();
    let output = sim(&one, &args);
    let out = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(out.contains("== root-domain-restructured"), "{out}");
    assert!(
        out.contains("rto_push_irq_work_func") || out.contains("cpupri_set"),
        "{out}"
    );
}

#[test]
fn mistakes_name_file_line_and_column() {
    let check = |from: &str, to: &str, expected: &str| {
        let output = sim(&SCENARIO.replace(from, to), &[]);
        assert_eq!(output.status.code(), Some(2));
        assert_eq!(text(&output.stderr), format!("hitm: error: {expected}\n"));
    };
    check(
        "loops = 10",
        "loop = 10",
        "x.toml:16:1: workload[0].loop: found an unknown key, expected one of kind, name, tasks, \
         base_prio, run_time, sleep, max_error, loops, equal, check",
    );
    check(
        "loops = 10",
        "run_time = 20",
        "x.toml:16:12: workload[0].run_time: found 20, expected a time with its unit, such as \
         \"20ms\", 1µs to 1000s",
    );
    check(
        "cpus = 4",
        "cpus = 193",
        "x.toml:9:8: machine.cpus: found 193 CPUs, expected at most 192, which is what \
         broadwell-4s has",
    );
}

#[test]
fn lines_are_shown_as_perf_would_sample_them() {
    let output = sim(SCENARIO, &["--perf-c2c", "--format", "json"]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let run = &json["variants"][0]["runs"][0];
    let sum = |lines: &str, key: &str| -> u64 {
        let lines = run[lines].as_array().expect("lines");
        lines
            .iter()
            .map(|line| line[key].as_u64().expect("a count"))
            .sum()
    };
    assert!(sum("sampled_lines", "load_count") * 2 < sum("lines", "load_count"));
    assert_eq!(
        sum("sampled_lines", "store_count"),
        sum("lines", "store_count")
    );
    let hitm = ["remote_hitm_count", "local_hitm_count"];
    let hitm = |lines| hitm.iter().map(|key| sum(lines, key)).sum::<u64>();
    assert!(hitm("sampled_lines") < hitm("lines") && hitm("sampled_lines") > 0);
    let output = text(&sim(SCENARIO, &["--perf-c2c"]).stdout);
    assert!(output.contains("The same lines as perf c2c would have sampled them"));
    assert!(!text(&sim(SCENARIO, &[]).stdout).contains("perf c2c"));
}

#[test]
fn published_figures_have_intervals() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let args = [
        "reproduce",
        "003/one-thread",
        "003/schbench",
        "--quick",
        "--sensitivity",
        "--samples",
        "1",
        "--format",
        "json",
    ];
    let first = hitm(&args, directory.path());
    assert_eq!(first.status.code(), Some(0), "{}", text(&first.stderr));
    let json: serde_json::Value = serde_json::from_slice(&first.stdout).expect("JSON");
    let all = json["sensitivity"].as_array().expect("scenarios");
    let many = all
        .iter()
        .find(|one| one["scenario"] == "003-lock-affinity/one-thread");
    let many = many.expect("the case with published figures");
    let numbers = many["numbers"].as_array().expect("numbers");
    let has = |key: &str| numbers.iter().any(|number| number["key"] == key);
    assert!(has("machine.transfers.remote.dirty") && has("kernel.costs.context_switch"));
    // hold_percent is an input, cycles of an instruction take no part.
    assert!(!has("machine.core.cpi"));
    let singles = many["single_count"].as_u64().expect("a count");
    assert_eq!(singles, 2 * numbers.len() as u64);
    for figure in many["figures"].as_array().expect("figures") {
        let at = |key: &str| figure[key].as_f64().expect("a number");
        assert!((at("interval_min")..=at("interval_max")).contains(&at("value")));
        assert_eq!(figure["all_count"], singles + 1 + 4);
    }
    // Nothing is published: its own number alone, with the figures of its workload.
    let unpublished = all
        .iter()
        .find(|one| one["scenario"] == "003-lock-affinity/schbench");
    let unpublished = unpublished.expect("the case with an assumed number");
    let numbers = unpublished["numbers"].as_array().expect("numbers");
    let keys: Vec<&str> = numbers
        .iter()
        .filter_map(|one| one["key"].as_str())
        .collect();
    assert_eq!(keys, ["workload.0.work"]);
    let figures = unpublished["figures"].as_array().expect("figures");
    let of_requests = figures.iter().find(|one| {
        (one["id"].as_str(), one["variant"].as_str())
            == (Some("schbench.requests"), Some("default"))
    });
    let of_requests = of_requests.expect("a figure of the workload");
    assert_eq!(of_requests["published_min"], serde_json::Value::Null);
    assert_eq!(of_requests["effects"][0]["key"], "workload.0.work");
}

#[test]
fn a_case_is_reproduced_by_its_number() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    for name in ["007", "003/nothing"] {
        let unknown = hitm(&["reproduce", name], directory.path());
        assert_eq!(unknown.status.code(), Some(2), "{name}");
    }
    let part = ["reproduce", "003/schbench", "--write", "page.md"];
    let part = hitm(&part, directory.path());
    assert_eq!(part.status.code(), Some(2));
    assert!(text(&part.stderr).contains("expected whole cases"));
    let unknown = hitm(&["reproduce", "007"], directory.path());
    assert_eq!(unknown.status.code(), Some(2));
    assert!(text(&unknown.stderr).contains("000-root-domain, 001-rt-balancing"));
}

#[test]
fn the_published_failure_is_shown_and_fails_the_check() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let output = hitm(
        &["reproduce", "001", "--quick", "--check"],
        directory.path(),
    );
    let (out, error) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{error}");
    let failed = error
        .lines()
        .filter(|line| line.contains("fails its check"));
    for line in failed {
        assert!(line.contains(": passive: rt_migrate"), "{line}");
    }
    let (_, shown) = out
        .split_once("  passive, rt_migrate: fails with 5 of 10 seeds; seed 2:\n")
        .unwrap_or_else(|| panic!("{out}"));
    let starts = shown.lines().nth(1).expect("a row of starts");
    let starts = starts.split_whitespace().skip(1);
    let starts: Vec<u64> = starts.map(|one| one.parse().expect("a number")).collect();
    let (lowest, higher) = starts.split_first().expect("five threads");
    assert!(*lowest < 1000, "the lowest starts at once: {starts:?}");
    let late = higher
        .iter()
        .filter(|start| (19_000..22_000).contains(*start));
    assert_eq!(late.count(), 1, "{starts:?}");
    assert!(
        out.contains("  push-ipi, rt_migrate: passes with 10 seeds\n"),
        "{out}"
    );
}

#[test]
fn figures_go_into_their_section_of_a_page() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let page = directory.path().join("page.md");
    let args = ["reproduce", "001", "--quick", "--write", "page.md"];
    fs::write(&page, "# Mine\n").expect("the page is written");
    let refused = hitm(&args, directory.path());
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("page.md: found no section for 001-rt-balancing"));

    let (begin, end) = (
        "<!-- hitm reproduce: 001-rt-balancing -->\n",
        "<!-- end of hitm reproduce: 001-rt-balancing -->\n",
    );
    fs::write(&page, format!("# Mine\n{begin}{end}last\n")).expect("the page is written");
    let output = hitm(&args, directory.path());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let written = fs::read_to_string(&page).expect("the page is there");
    assert!(
        written.starts_with(&format!("# Mine\n{begin}")),
        "{written}"
    );
    assert!(written.ends_with(&format!("{end}last\n")), "{written}");
    for expected in [
        "Written by `hitm reproduce 001 --quick`.",
        "- passive, rt_migrate: fails with 5 of 10 seeds; seed 2\n",
        "| `rt_migrate.failed_start_us` | passive | 20,041 | 20,00",
        "| `low.used_ms` | push-ipi | 10 | ",
        "| `sched.stale_overloads` | 0 | ",
    ] {
        assert!(written.contains(expected), "{expected}: {written}");
    }
}

/// The runs of the only variant of a scenario with sleepers.
fn sleepers(duration: &str, warm_up: &str) -> serde_json::Value {
    let scenario = format!(
        "schema = 1\nname = \"x\"\ndescription = \"x\"\nsource = \"made up for this test\"\n\
         [machine]\npreset = \"broadwell-4s\"\ncpus = 4\n\
         [[workload]]\nkind = \"cyclic\"\nthreads = 12\nsleep = \"10us\"\n\
         [run]\nduration = \"{duration}\"\nwarm_up = \"{warm_up}\"\n"
    );
    let output = sim(&scenario, &["--format", "json"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    report["variants"][0]["runs"][0].clone()
}

#[test]
fn a_warm_up_is_left_out_of_counts_and_changes_no_event() {
    let (whole, first) = (sleepers("4ms", "0s"), sleepers("2ms", "0s"));
    let second = sleepers("4ms", "2ms");
    assert_eq!(second["event_hash"], whole["event_hash"]);
    let loads = |run: &serde_json::Value| -> u64 {
        let lines = run["lines"].as_array().expect("a list").iter();
        let count = |line: &serde_json::Value| line["load_count"].as_u64().expect("a count");
        lines.map(count).sum()
    };
    let count = |run: &serde_json::Value, key: &str| run[key].as_u64().expect("a count");
    for key in ["wakeup_count", "switch_count", "ipi_count"] {
        assert!(count(&first, key) > 0 && count(&second, key) > 0, "{key}");
        assert_eq!(
            count(&first, key) + count(&second, key),
            count(&whole, key),
            "{key}"
        );
    }
    // Between the two each of four CPUs may be 50 cycles ahead: ten loads.
    let both = loads(&first) + loads(&second);
    assert!(both.abs_diff(loads(&whole)) <= 4 * 10, "{both}");
}

#[test]
fn a_seed_alone_runs_alone() {
    let several = format!("{SCENARIO}\n[run]\nseed = 3\nseeds = 2\n");
    let check = |args: &[&str], expected: &str| {
        let args: Vec<&str> = ["--quick"].iter().chain(args).copied().collect();
        let output = sim(&several, &args);
        let out = text(&output.stdout);
        assert!(out.contains(expected), "{out}{}", text(&output.stderr));
    };
    check(&[], "; seeds 3-4;");
    check(&["--seed", "7"], "; seeds 7;");
    check(&["--seed", "7", "--seeds", "3"], "; seeds 7-9;");
}

#[test]
fn a_kernels_types_move_members() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    // The count moves from the first line to the second one; what the model does not use is left out.
    let source = "struct cpumask; struct cpupri_vec { int count; struct cpumask *mask; };\n\
        struct cpupri { struct cpupri_vec pri_to_cpu[101]; int *cpu_to_pri; };\n\
        struct root_domain { char pad[64]; int rto_count; union { char overloaded; char another; }; char overutilized; int dlo_count;\n\
        char rto_push_work[32]; int rto_lock, rto_loop, rto_cpu, rto_loop_next, rto_loop_start;\n\
        struct cpumask *span, *online, *rto_mask; struct cpupri cpupri; void *pd; } domain;\n";
    fs::write(directory.path().join("domain.c"), source).expect("the source is written");
    let status = Command::new("cc")
        .args(["-g", "-shared", "-o", "domain.so", "domain.c"])
        .current_dir(directory.path())
        .status();
    assert!(status.expect("cc is installed").success());
    let one = SCENARIO.replace("[\"passive\", \"push-ipi\"]", "\"push-ipi\"");
    fs::write(directory.path().join("x.toml"), one).expect("the scenario is written");
    let args = [
        "sim",
        "x.toml",
        "--quick",
        "--layout",
        "domain.so",
        "--top",
        "1000",
    ];
    let output = hitm(&args, directory.path());
    let out = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(out.contains("  root_domain + 0x40\n"), "{out}");
    assert!(!out.contains("  root_domain + 0x0\n"), "{out}");
    let empty = hitm(&["sim", "x.toml", "--layout", "x.o"], directory.path());
    assert_eq!(empty.status.code(), Some(2));
}

const QUOTA: &str = r#"
schema = 1
name = "quota"
description = "A service in a group with a quota, in a group without one"
source = "made up for this test"

[machine]
preset = "genoa-384"
cpus = 4

[kernel]
load_balancing = "domains"
mechanisms = [[], ["expiring-slices"]]

[[group]]
name = "pod"

[[group]]
name = "app"
parent = "pod"
quota = "20ms"
period = "50ms"

[[workload]]
kind = "requests"
group = "app"
trace = "requests.txt"
threads = 2

[run]
duration = "400ms"
"#;

/// Runs `hitm sim` on a service with these requests.
fn served(scenario: &str, requests: &str, args: &[&str]) -> Output {
    let directory = tempfile::tempdir().expect("a temporary directory");
    fs::write(directory.path().join("x.toml"), scenario).expect("the scenario is written");
    fs::write(directory.path().join("requests.txt"), requests).expect("the trace is written");
    let args: Vec<&str> = ["sim", "x.toml"].iter().chain(args).copied().collect();
    hitm(&args, directory.path())
}

#[test]
fn a_service_under_a_quota_has_cpu_stat_and_the_causes_of_its_latency() {
    let requests = "# two at once, then one\n5ms 30ms\n5ms 30ms\n150ms 1ms\n";
    let output = served(QUOTA, requests, &["--format", "json"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let variants = report["variants"].as_array().expect("a list");
    let labels: Vec<&str> = variants
        .iter()
        .filter_map(|variant| variant["variant"].as_str())
        .collect();
    assert_eq!(labels, ["usual", "expiring-slices"]);
    for variant in variants {
        let metrics = variant["metrics"].as_array().expect("a list");
        let of = |id: &str| {
            let found = metrics.iter().find(|metric| metric["id"] == id);
            let found = found.unwrap_or_else(|| panic!("no {id}"));
            found["mean"].as_f64().expect("a number")
        };
        assert_eq!(of("requests.requests"), 3.0);
        assert_eq!(of("requests.unfinished"), 0.0);
        // 60 of 20 ms, on two CPUs: two periods are not enough.
        assert!(of("app.nr_throttled") >= 1.0);
        assert!(of("requests.throttled_requests") > 30.0);
        let parts = [
            "run",
            "wait_thread",
            "wait_quota",
            "wait_timer",
            "wait_interrupt",
            "wait_cpu",
        ];
        let parts: f64 = parts
            .iter()
            .map(|part| of(&format!("requests.{part}_us_mean")))
            .sum();
        let mean = of("requests.latency_us_mean");
        assert!((parts - mean).abs() < 1e-6 * mean, "{parts} and {mean}");
        assert!(
            (61e3..62e3).contains(&of("pod.usage_usec")),
            "{}",
            of("pod.usage_usec")
        );
        assert_eq!(of("pod.usage_usec"), of("app.usage_usec"));
        let cpus = variant["runs"][0]["cpus"].as_array().expect("a list");
        let ids: Vec<&str> = cpus.iter().filter_map(|one| one["id"].as_str()).collect();
        assert_eq!(
            ids,
            ["time.irq", "sched.ipis_per_second", "sched.rq_lock_wait"]
        );
    }
    let shown = text(&served(QUOTA, requests, &["--set", "group.1.quota=50ms"]).stdout);
    assert!(shown.contains("app.nr_throttled"), "{shown}");
}

#[test]
fn mistakes_of_groups_and_traces_have_their_place() {
    let wrong = [
        (
            QUOTA.replace("group = \"app\"", "group = \"ap\""),
            "1ms 1ms",
            "workload[0].group: found \"ap\", expected one of pod, app",
        ),
        (
            QUOTA.replace("parent = \"pod\"", "parent = \"app\""),
            "1ms 1ms",
            "group[1].parent: found \"app\", expected one of pod",
        ),
        (
            QUOTA.replace("name = \"app\"", "name = \"pod\""),
            "1ms 1ms",
            "group[1].name: found a second \"pod\"",
        ),
        (
            QUOTA.replace("period = \"50ms\"", "burst = \"21ms\""),
            "1ms 1ms",
            "group[1].burst: found more than the quota",
        ),
        (
            QUOTA.replace("threads = 2", "threads = 2\nrate = \"5/s\""),
            "1ms 1ms",
            "expected one of `rate`, `think` and `trace`",
        ),
        (
            QUOTA.replace("threads = 2", "threads = 2\narrival_cpus = \"4\""),
            "1ms 1ms",
            "workload[0].arrival_cpus: found CPU 4",
        ),
        (
            QUOTA.to_owned(),
            "1ms 1ms\n0ms 1ms",
            "requests.txt:2: found \"0ms 1ms\"",
        ),
        (QUOTA.to_owned(), "", "requests.txt:1: found no request"),
        (
            QUOTA.replace("[[], [\"expiring-slices\"]]", "[[], []]"),
            "1ms 1ms",
            "kernel.mechanisms",
        ),
        (
            QUOTA.replace(
                "[run]",
                "[[workload]]\nkind = \"hogs\"\npolicy = \"fifo\"\ngroup = \"app\"\n[run]",
            ),
            "1ms 1ms",
            "workload[1].group: found a real-time policy",
        ),
    ];
    for (scenario, requests, expected) in wrong {
        let output = served(&scenario, requests, &[]);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{expected}: {error}");
        assert!(error.contains(expected), "{expected}: {error}");
    }
}

/// Three FIFO threads for two CPUs and sleepers on all others: chains of interrupts visit the one CPU that is
/// overloaded.
#[test]
fn a_storm_of_interrupts_names_its_cpu() {
    let scenario = r#"
schema = 1
name = "storm"
description = "Sleepers on six CPUs pull from the one that is overloaded"
source = "made up for this test"
[machine]
preset = "genoa-384"
cpus = 8
[[workload]]
kind = "hogs"
name = "bound"
cpus = "5-6"
threads = 3
policy = "fifo"
priority = 1
[[workload]]
kind = "cyclic"
cpus = "0-4,7"
pinned = true
priority = 50
sleep = "100us"
[run]
duration = "20ms"
"#;
    let output = sim(scenario, &["--format", "json"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let cpus = report["variants"][0]["runs"][0]["cpus"]
        .as_array()
        .expect("a list");
    for one in cpus.iter().take(2) {
        assert_eq!(one["cpu"], 5, "{one}");
        let (mean, max) = (one["mean"].as_f64().unwrap(), one["max"].as_f64().unwrap());
        assert!(max > 2.0 * mean, "{one}");
    }
}
