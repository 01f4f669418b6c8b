use expect_test::{Expect, expect};
use hitm_base::Machine;
use hitm_base::machine::preset;

use super::*;

const HEAD: &str = "schema = 1\nname = \"x\"\ndescription = \"x\"\nsource = \"x\"\n";
const REST: &str =
    "[machine]\npreset = \"xeon-480\"\ncpus = 8\n[[workload]]\nkind = \"rt-migrate-test\"\n";

/// Checks the error about a scenario, or its variants.
fn check(text: &str, expected: Expect) {
    let machine = Machine::from_toml(preset("xeon-480").unwrap(), "xeon-480").unwrap();
    let read = Scenario::parse(text, "x.toml");
    let actual = match read.and_then(|read| read.check(&machine).map(|_| read)) {
        Ok(scenario) => format!("{:?}", scenario.variants()),
        Err(error) => error.to_string(),
    };
    expected.assert_eq(&actual);
}

#[test]
fn the_least_scenario_has_one_variant() {
    check(
        &format!("{HEAD}{REST}"),
        expect![[
            r#"[Variant { balancing: PushIpi, throttling: Async, preempt: None, placement: Default, mechanisms: [], layout: "linux-6.12", wakeups_per_second: None }]"#
        ]],
    );
}

#[test]
fn an_unknown_key_is_an_error_at_its_place() {
    check(
        &format!("{HEAD}{REST}loop = 3\n"),
        expect![
            "x.toml:10:1: workload[0].loop: found an unknown key, expected one of kind, name, tasks, base_prio, run_time, sleep, max_error, loops, equal, check"
        ],
    );
    check(
        &format!("{HEAD}{REST}[kernl]\n"),
        expect![
            "x.toml:10:2: kernl: found an unknown key, expected one of schema, name, description, source, machine, kernel, group, workload, run, assumed, published"
        ],
    );
}

#[test]
fn a_unit_is_needed() {
    check(
        &format!("{HEAD}{REST}run_time = 20\n"),
        expect![[
            r#"x.toml:10:12: workload[0].run_time: found 20, expected a time with its unit, such as "20ms", 1µs to 1000s"#
        ]],
    );
    check(
        &format!("{HEAD}{REST}run_time = \"20\"\n"),
        expect![[
            r#"x.toml:10:12: workload[0].run_time: found "20", expected a time with its unit, such as "20ms", 1µs to 1000s"#
        ]],
    );
}

#[test]
fn more_cpus_than_the_machine_are_refused() {
    let text = format!("{HEAD}{REST}").replace("cpus = 8", "cpus = 481");
    check(
        &text,
        expect![
            "x.toml:7:8: machine.cpus: found 481 CPUs, expected at most 480, which is what xeon-480 has"
        ],
    );
}

#[test]
fn impossible_affinity_is_refused() {
    let hogs = |keys: &str| {
        let run = "[run]\nduration = \"1s\"\n";
        format!("{HEAD}{REST}[[workload]]\nkind = \"hogs\"\n{keys}\n{run}")
    };
    check(
        &hogs("cpus = \"0-8\""),
        expect!["x.toml:12:8: workload[1].cpus: found CPU 8, expected CPUs from 0 to 7"],
    );
    check(
        &hogs("cpus = \"0-3\"\npinned = true\nthreads = 5"),
        expect![
            "x.toml:14:11: workload[1].threads: found 5 threads, each with a CPU to itself, expected at most 4"
        ],
    );
    let two = format!(
        "{}[kernel]\ncpusets = [\"0-3\", \"4-7\"]\n",
        hogs("cpus = \"3-4\"")
    );
    check(
        &two,
        expect![
            "x.toml:12:8: workload[1].cpus: found CPUs 3 and 4 of two cpusets, expected CPUs of one cpuset: no task may run in two"
        ],
    );
    let overlapping = two.replace("\"4-7\"", "\"3-7\"");
    check(
        &overlapping,
        expect![
            "x.toml:16:11: kernel.cpusets: found CPU 3 in cpuset 1 and in an earlier one, expected cpusets without common CPUs, or `overlapping_cpusets = true`"
        ],
    );
}

#[test]
fn a_run_that_nothing_ends_is_refused() {
    let text = format!("{HEAD}{REST}").replace("rt-migrate-test", "hogs");
    check(
        &text,
        expect![
            "x.toml:1:1: run: found no `duration`, expected `duration`: none of these workloads ends by itself"
        ],
    );
}

#[test]
fn policies_layouts_and_loads_multiply() {
    let text = format!(
        "{HEAD}[machine]\npreset = \"xeon-480\"\n[kernel]\nbalancing = [\"push-pull\", \
         \"push-ipi\"]\n[[workload]]\nkind = \"ffmpeg\"\ncores_per_instance = 4\nworkers = 12\n\
         runnable = 8\nwakeups = [\"500/s\", \"1000/s\"]\n[run]\nduration = \"1ms\"\n"
    );
    let scenario = Scenario::parse(&text, "x.toml").unwrap();
    let loads = scenario.variants().into_iter();
    let loads: Vec<Option<u64>> = loads.map(|variant| variant.wakeups_per_second).collect();
    assert_eq!(loads, [Some(500), Some(1000), Some(500), Some(1000)]);
    let many = text.replace(
        "cores_per_instance = 4",
        "cores_per_instance = 4\ninstances = 61",
    );
    check(
        &many,
        expect![
            "x.toml:12:13: workload[0].instances: found 61 of 4 cores, expected at most 60: the machine has 240 cores"
        ],
    );
}

#[test]
fn every_shipped_scenario_fits_its_machine() {
    for file in shipped() {
        let scenario = Scenario::parse(file.text, file.name).unwrap();
        let ModelChoice::Preset(name) = &scenario.machine.model else {
            panic!("{}: a shipped scenario runs on a preset", file.name);
        };
        let machine = Machine::from_toml(preset(name).unwrap(), name).unwrap();
        scenario.check(&machine).unwrap();
        let stem = file.name.trim_end_matches(".toml");
        assert_eq!(scenario.name, format!("{}/{stem}", file.folder));
    }
}

/// Checks the error about settings, or what they leave of the scenario.
fn check_settings(settings: &[&str], expected: Expect) {
    let settings: Vec<String> = settings.iter().map(|text| (*text).to_owned()).collect();
    let text = format!("{HEAD}{REST}");
    let actual = match Scenario::parse_with(&text, "x.toml", &settings) {
        Ok(scenario) => {
            let WorkloadKind::RtMigrateTest(test) = &scenario.workloads[0].kind else {
                panic!("the workload is the test's");
            };
            format!(
                "{:?} {} {} {:?}",
                scenario.kernel.balancing,
                scenario.kernel.shared.hz,
                test.config.loops,
                scenario.run.duration
            )
        }
        Err(error) => error.to_string(),
    };
    expected.assert_eq(&actual);
}

#[test]
fn a_setting_replaces_a_key_or_adds_it_with_its_table() {
    check_settings(
        &[
            "kernel.balancing=push-pull",
            "kernel.tick = \"1000/s\"",
            "workload.loops=3",
            "workload.0.loops=4",
            "run.duration=20ms",
        ],
        expect!["[PushPull] 1000 4 Some(20ms)"],
    );
}

#[test]
fn mistakes_in_a_setting_name_it() {
    check_settings(
        &["kernel.tick=1000"],
        expect![[
            r#"--set kernel.tick=1000: kernel.tick: found 1000, expected a rate with its unit, such as "250/s", from 1/s to 10000/s"#
        ]],
    );
    check_settings(
        &["kernel.tack=1"],
        expect![
            "--set kernel.tack=1: kernel.tack: found an unknown key, expected one of balancing, throttling, preempt, placement, load_balancing, wake_lists, layouts, tick, cpusets, overlapping_cpusets, rt_runtime, rt_period, cfs_bandwidth_slice, balance_interval, idle, idle_wake, spinlock, osq, load_avg_interval, costs, idle_exit, visit_instructions, lock_window, mechanisms"
        ],
    );
    check_settings(
        &["workload.1.loops=1"],
        expect![
            "--set workload.1.loops=1: workload.1.loops: found no such table, expected workload.N with N from 0 to 0"
        ],
    );
    check_settings(
        &["name.x=1"],
        expect![
            "--set name.x=1: name.x: found name is no table, expected a key of a table, such as kernel.tick"
        ],
    );
    check_settings(
        &["kernel"],
        expect![[
            r#"--set kernel: the setting: found "kernel", expected KEY=VALUE, such as kernel.tick=1000/s"#
        ]],
    );
    check_settings(
        &["kernel.tick=1\nb=2"],
        expect![[r#"
        --set kernel.tick=1
        b=2: kernel.tick: found several lines, expected one value in one line"#]],
    );
    check_settings(
        &["kernel.tick=it's"],
        expect![
            "--set kernel.tick=it's: kernel.tick: found no value (unexpected key or value, expected newline, `#`), expected a value as in a scenario file"
        ],
    );
}

/// Each of the keys is within its own limit.
#[test]
fn what_keys_make_together_has_limits() {
    let workloads = |workloads: &str| {
        let run = "[run]\nduration = \"1ms\"\n";
        format!("{HEAD}[machine]\npreset = \"xeon-480\"\n{workloads}{run}")
    };
    check(
        &workloads("[[workload]]\nkind = \"hackbench\"\ngroups = 4096\npairs = 256\n"),
        expect![
            "x.toml:10:9: workload[0].pairs: found 2097152 (2 x 4096 groups x 256 pairs) tasks, expected at most 65536 in all workloads"
        ],
    );
    check(
        &workloads(
            "[[workload]]\nkind = \"hackbench\"\ngroups = 100\npairs = 256\nsize_bytes = 4096\n",
        ),
        expect![
            "x.toml:11:14: workload[0].size_bytes: found 104857600 (100 groups x 256 pairs x 4096 size_bytes) bytes in pipes, expected at most 33554432 in all workloads"
        ],
    );
    check(
        &workloads("[[workload]]\nkind = \"schbench\"\nmessage_threads = 4096\nworkers = 4096\n"),
        expect![
            "x.toml:10:11: workload[0].workers: found 16781312 (4096 message_threads x 4097 (1 + workers)) tasks, expected at most 65536 in all workloads"
        ],
    );
    let groups = "children = 4096\nleaves = 0\nhogs = 1\nquota = \"10ms\"\n";
    check(
        &workloads(&format!("[[workload]]\nkind = \"cgroup-hogs\"\n{groups}")),
        expect![
            "x.toml:9:12: workload[0].children: found 1966560 (1 subtrees x 4097 (1 + children + children x leaves) x 480 CPUs) queues of groups, expected at most 1048576 in all workloads"
        ],
    );
    let hogs =
        |name: &str| format!("[[workload]]\nkind = \"hogs\"\nname = \"{name}\"\nthreads = 16384\n");
    let five: String = ["a", "b", "c", "d", "e"].map(hogs).concat();
    check(
        &workloads(&five),
        expect![
            "x.toml:26:11: workload[4].threads: found 16384 tasks beside 65536 of workloads before, expected at most 65536 in all workloads"
        ],
    );
}

#[test]
fn assumed_numbers_are_stated_and_lie_in_their_ranges() {
    let mut count = 0;
    for file in super::shipped() {
        let scenario = Scenario::parse(file.text, file.name).unwrap();
        for assumed in &scenario.assumed {
            let range = assumed.low.raw()..=assumed.high.raw();
            assert!(range.contains(&assumed.value.raw()), "{}", assumed.key);
            count += 1;
        }
        let says_assumed = |line: &str| line.starts_with('#') && line.contains("ssumed, as below");
        let comments = file.text.lines().filter(|line| says_assumed(line)).count();
        assert!(
            scenario.assumed.len() >= comments,
            "{}: an assumed number has no range",
            file.name
        );
    }
    assert!(count >= 40, "{count}");
}

#[test]
fn mistakes_of_assumed_numbers_have_a_place() {
    let error = |key: &str, range: &str| {
        let text = format!(
            "schema = 1\nname = \"n\"\ndescription = \"d\"\nsource = \"s\"\n\
             [machine]\npreset = \"broadwell-4s\"\n[kernel]\ntick = \"250/s\"\n\
             balance_interval = \"64ms\"\n[[workload]]\nkind = \"hogs\"\nthreads = 3\n\
             [run]\nduration = \"1ms\"\n[[assumed]]\nkey = \"{key}\"\nrange = {range}\neffect = \"e\"\n"
        );
        Scenario::parse(&text, "x.toml")
            .err()
            .map(|error| error.to_string())
    };
    assert_eq!(error("workload.0.threads", "[1, 8]"), None);
    assert_eq!(
        error("kernel.balance_interval", "[\"16ms\", \"256ms\"]"),
        None
    );
    let expected = "x.toml:16:7: assumed[0].key: found \"kernel.tick\", expected a key of this file \
                    with a whole number or a time";
    assert_eq!(error("kernel.tick", "[1, 2]").as_deref(), Some(expected));
    for wrong in ["workload.1.threads", "workload.x", "machine", "none"] {
        assert!(error(wrong, "[1, 2]").is_some(), "{wrong}");
    }
    for wrong in ["[8, 1]", "[\"1ms\", \"2ms\"]", "[1]", "3"] {
        assert!(error("workload.0.threads", wrong).is_some(), "{wrong}");
    }
}
