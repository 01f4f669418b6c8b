//! rt-app files on the simulated kernel: every event type, with exact results.

use expect_test::{Expect, expect};
use hitm_base::machine::Quantity;
use hitm_base::{CpuId, Cycles, Nanos};
use hitm_sim::kernel::{Balancing, KernelConfig, KernelCost};
use hitm_sim::workload::rt_app::{GroupPaths, RtApp, Running};

use crate::rt::{boot, machine};

/// Runs a file on two cores for at most a second; says what each task did and when the run ended.
fn check(text: &str, expected: Expect) {
    let app = RtApp::parse(text, "x.json").unwrap();
    let config = KernelConfig::new(Balancing::PushIpi);
    let machine = machine("broadwell-4s", 2);
    let clock = machine.clock;
    let (kernel, mut executor) = boot(machine, 1, Nanos(1e9), config);
    let running = match Running::spawn(&kernel, &app, GroupPaths::default(), true) {
        Ok(running) => running,
        Err(error) => return expected.assert_eq(&error.to_string()),
    };
    executor.run().unwrap();
    let micros = |span| (clock.nanos(span).0 / 1e3).round();
    let mut text = format!("ends at {} us\n", micros(executor.totals().end));
    for task in running.results() {
        let (name, threads, phases) = (task.name, task.threads, task.phases);
        text += &format!("{name}: {threads} threads, {phases} phases");
        if task.timers > 0 {
            let (timers, missed) = (task.timers, task.missed);
            text += &format!(", {timers} timers, {missed} missed, ");
            text += &format!("late at most {} us", micros(task.late_max));
        }
        text.push('\n');
    }
    expected.assert_eq(&text);
}

#[test]
fn a_periodic_thread_keeps_its_period() {
    check(
        r#"{"tasks": {"t": {"loop": 20, "run": 1000, "timer": {"ref": "unique", "period": 10000}}}}"#,
        expect![[r#"
            ends at 200006 us
            t: 1 threads, 20 phases, 20 timers, 0 missed, late at most 2 us
        "#]],
    );
}

#[test]
fn a_thread_that_is_pushed_takes_its_lines_along() {
    // The lower thread is preempted on CPU 0, goes on on CPU 1, and ends as the last one.
    let text = r#"{"tasks": {
        "first": {"policy": "SCHED_FIFO", "priority": 50, "cpus": [1], "loop": 1, "run": 1000},
        "low": {"policy": "SCHED_FIFO", "priority": 10, "cpus": [0, 1], "loop": 1, "run": 5000},
        "high": {"policy": "SCHED_FIFO", "priority": 50, "cpus": [0], "delay": 2000, "loop": 1, "run": 1000}
    }}"#;
    let end = |lines: u64| {
        let mut config = KernelConfig::new(Balancing::PushIpi);
        let lines = Quantity::Count(lines, "lines");
        config.costs.set(KernelCost::TaskLines.parameter(), lines);
        let (kernel, mut executor) = boot(machine("broadwell-4s", 2), 1, Nanos(1e9), config);
        let app = RtApp::parse(text, "x.json").unwrap();
        Running::spawn(&kernel, &app, GroupPaths::default(), true).unwrap();
        executor.run().unwrap();
        (executor.totals().end, kernel.counts().migrations)
    };
    let machine = machine("broadwell-4s", 2);
    let distance = machine.topology.distance(CpuId(0), CpuId(1));
    let line = machine.transfers[distance.index()].dirty;
    let ((few, moves), (many, _)) = (end(10), end(60));
    // One of them is before it has run.
    assert_eq!(moves, 2);
    assert_eq!(many, few + Cycles(50 * line.0));
}

#[test]
fn a_timer_that_is_too_short_is_missed() {
    check(
        r#"{"tasks": {"t": {"loop": 5, "run": 3000, "timer": {"ref": "unique", "period": 1000}}}}"#,
        expect![[r#"
            ends at 15005 us
            t: 1 threads, 5 phases, 5 timers, 5 missed, late at most 0 us
        "#]],
    );
}

#[test]
fn a_mutex_serialises_its_holders() {
    check(
        r#"{"tasks": {"t": {"instance": 2, "loop": 10, "lock": "m", "run": 2000, "unlock": "m"}}}"#,
        expect![[r#"
            ends at 40018 us
            t: 2 threads, 20 phases
        "#]],
    );
}

#[test]
fn a_barrier_holds_the_fast_until_the_slow_come() {
    check(
        r#"{"tasks": {
            "fast": {"loop": 4, "run": 1000, "barrier": "b"},
            "slow": {"loop": 4, "run": 5000, "barrier": "b"}
        }}"#,
        expect![[r#"
            ends at 20011 us
            fast: 1 threads, 4 phases
            slow: 1 threads, 4 phases
        "#]],
    );
}

#[test]
fn conditions_pass_work_to_and_fro() {
    check(
        r#"{"tasks": {
            "ping": {"loop": 5, "lock": "m", "wait": {"ref": "c", "mutex": "m"}, "unlock": "m", "run": 1000},
            "pong": {"loop": 5, "sleep": 2000, "lock": "m", "signal": "c", "unlock": "m"}
        }}"#,
        expect![[r#"
            ends at 11022 us
            ping: 1 threads, 5 phases
            pong: 1 threads, 5 phases
        "#]],
    );
}

#[test]
fn sync_hands_over() {
    check(
        r#"{"tasks": {
            "a": {"loop": 3, "run": 1000, "sync": {"ref": "c", "mutex": "m"}},
            "b": {"loop": 3, "sleep": 3000, "sync": {"ref": "c", "mutex": "m"}, "broad": "c"}
        }}"#,
        expect![[r#"
            ends at 1000000 us
            a: 1 threads, 3 phases
            b: 1 threads, 1 phases
        "#]],
    );
}

#[test]
fn a_semaphore_remembers_what_was_posted() {
    // The first three posts come before anybody waits; the last two wake the waiter.
    check(
        r#"{"tasks": {
            "poster": {"loop": 1, "phases": {
                "early": {"loop": 3, "sem_post": "s", "run": 10},
                "late": {"loop": 2, "sleep": 2000, "sem_post": "s"}}},
            "waiter": {"loop": 5, "delay": 500, "sem_wait": "s", "run": 10}}}"#,
        expect![[r#"
            ends at 4053 us
            poster: 1 threads, 5 phases
            waiter: 1 threads, 5 phases
        "#]],
    );
}

#[test]
fn suspended_threads_are_resumed_and_forked_ones_begin() {
    check(
        r#"{"tasks": {
            "sleeper": {"loop": 3, "suspend": "sleeper", "run": 1000},
            "waker": {"loop": 3, "sleep": 5000, "resume": "sleeper", "yield": ""},
            "parent": {"loop": 2, "run": 1000, "fork": "child"},
            "child": {"instance": 0, "loop": 1, "mem": 8000000}
        }}"#,
        expect![[r#"
            ends at 16017 us
            sleeper: 1 threads, 3 phases
            waker: 1 threads, 3 phases
            parent: 1 threads, 2 phases
            child: 2 threads, 2 phases
        "#]],
    );
}

#[test]
fn what_is_not_modelled_is_named() {
    let task = |keys: &str| format!(r#"{{"tasks": {{"t": {{{keys}, "run": 10}}}}}}"#);
    check(
        &task(r#""cpus": [2]"#),
        expect![[r#"rt-app task "t": CPU 2 does not exist: there are 0 to 1"#]],
    );
    check(
        &task(r#""loop": -1, "fork": "t""#),
        expect![[r#"rt-app task "t": forks without end are not modelled"#]],
    );
    check(
        &task(r#""loop": 1, "fork": "t""#),
        expect!["rt-app tasks that fork each other for ever are not modelled"],
    );
}

#[test]
fn a_taskgroup_has_its_part_of_the_cpu() {
    // Three threads that never stop and one that needs 10 of 25 ms, all on one CPU: a group of its own
    // has half of it for the one, among the three it has a quarter.
    let text = |group: &str| {
        format!(
            r#"{{"tasks": {{
                "many": {{"instance": 3, "cpus": [0], "loop": -1, "taskgroup": "/a", "run": 30000}},
                "one": {{"cpus": [0], "loop": 8, "taskgroup": "{group}", "run": 10000,
                         "timer": {{"ref": "unique", "period": 25000}}}}
            }}}}"#
        )
    };
    check(
        &text("/b/c"),
        expect![[r#"
        ends at 1000000 us
        many: 3 threads, 30 phases
        one: 1 threads, 8 phases, 8 timers, 0 missed, late at most 1 us
    "#]],
    );
    check(
        &text("/a"),
        expect![[r#"
        ends at 1000000 us
        many: 3 threads, 30 phases
        one: 1 threads, 8 phases, 8 timers, 8 missed, late at most 0 us
    "#]],
    );
}

#[test]
fn an_idle_thread_has_what_others_leave() {
    // Weight 3 beside 1024: 0.3 % of the CPU. The other one's wake-ups do not wait for its slice.
    check(
        r#"{"tasks": {
            "idle": {"cpus": [0], "loop": -1, "policy": "SCHED_IDLE", "run": 1000},
            "busy": {"cpus": [0], "loop": 20, "run": 10000, "timer": {"ref": "unique", "period": 20000}}
        }}"#,
        expect![[r#"
            ends at 1000000 us
            idle: 1 threads, 799 phases
            busy: 1 threads, 20 phases, 20 timers, 0 missed, late at most 1 us
        "#]],
    );
    // Of two beside each other it is the batch thread that waits for the tick.
    check(
        r#"{"tasks": {
            "hog": {"cpus": [0], "loop": -1, "run": 1000},
            "batch": {"cpus": [0], "loop": 20, "policy": "SCHED_BATCH", "run": 10,
                      "timer": {"ref": "unique", "period": 10000}},
            "other": {"cpus": [1], "loop": 20, "run": 10, "timer": {"ref": "unique", "period": 10000}},
            "hog1": {"cpus": [1], "loop": -1, "run": 1000}
        }}"#,
        expect![[r#"
            ends at 1000000 us
            hog: 1 threads, 999 phases
            batch: 1 threads, 20 phases, 20 timers, 0 missed, late at most 4000 us
            other: 1 threads, 20 phases, 20 timers, 0 missed, late at most 1 us
            hog1: 1 threads, 999 phases
        "#]],
    );
}

#[test]
fn a_phase_changes_policy_and_priority() {
    // The low thread has the CPU while its phase is above the middle one.
    check(
        r#"{"global": {"default_policy": "SCHED_FIFO"}, "tasks": {
            "low": {"cpus": [0], "loop": 1, "priority": 1, "phases": {
                "up": {"priority": 30, "run": 10000},
                "down": {"policy": "SCHED_OTHER", "run": 10000},
                "same": {"run": 1000, "timer": {"ref": "unique", "period": 1000}}
            }},
            "middle": {"cpus": [0], "loop": 1, "priority": 20, "delay": 1000, "run": 20000}
        }}"#,
        expect![[r#"
            ends at 41015 us
            low: 1 threads, 3 phases, 1 timers, 1 missed, late at most 0 us
            middle: 1 threads, 1 phases
        "#]],
    );
}

#[test]
fn a_deadline_thread_has_its_runtime_and_no_more() {
    // 20 ms in 100: it never ends by itself, and the other one has the rest.
    check(
        r#"{"tasks": {
            "own": {"policy": "SCHED_DEADLINE", "dl-runtime": 20000, "dl-period": 100000,
                    "loop": -1, "run": 10000},
            "hog": {"instance": 2, "loop": -1, "run": 10000}
        }}"#,
        expect![[r#"
            ends at 1000000 us
            own: 1 threads, 20 phases
            hog: 2 threads, 178 phases
        "#]],
    );
    // Each has its runtime within each period, the one with the short deadline first.
    check(
        r#"{"tasks": {
            "long": {"policy": "SCHED_DEADLINE", "dl-runtime": 60000, "dl-period": 100000,
                     "instance": 2, "loop": 8, "run": 50000, "timer": {"ref": "unique", "period": 100000}},
            "short": {"policy": "SCHED_DEADLINE", "dl-runtime": 4000, "dl-period": 10000,
                      "loop": 80, "run": 2000, "timer": {"ref": "unique", "period": 10000}},
            "fifo": {"policy": "SCHED_FIFO", "priority": 99, "instance": 2, "loop": -1, "run": 1000}
        }}"#,
        expect![[r#"
            ends at 1000000 us
            long: 2 threads, 16 phases, 16 timers, 0 missed, late at most 2004 us
            short: 1 threads, 80 phases, 80 timers, 0 missed, late at most 2 us
            fifo: 2 threads, 1038 phases
        "#]],
    );
}

#[test]
fn admission_keeps_a_part_of_the_cpus_for_others() {
    let text = |runtime: u64, more: &str| {
        format!(
            r#"{{"tasks": {{"t": {{"policy": "SCHED_DEADLINE", "dl-runtime": {runtime},
                "dl-period": 100000, "instance": 2, "loop": 1, {more} "run": 10}}}}}}"#
        )
    };
    check(
        &text(95_000, ""),
        expect![[r#"
        ends at 15 us
        t: 2 threads, 2 phases
    "#]],
    );
    check(
        &text(95_100, ""),
        expect![
            "task t-1 of SCHED_DEADLINE: found 0.951 CPUs beside 0.951 that others have, expected at most 1.900 of 2 in all (sched_setattr refuses it, EBUSY)"
        ],
    );
    check(
        &text(10, r#""cpus": [0],"#),
        expect![
            "task t-0 of SCHED_DEADLINE: found fewer CPUs than its root domain has, expected all of them (sched_setattr refuses it, EPERM)"
        ],
    );
    check(
        &text(1, ""),
        expect!["task t-0 of SCHED_DEADLINE: found a runtime of 1 us, expected at least 1.024 us"],
    );
    check(
        &text(100_001, ""),
        expect![
            "task t-0 of SCHED_DEADLINE: found runtime 100001 us, deadline 100000 us and period 100000 us, expected none longer than the next"
        ],
    );
}

#[test]
fn iorun_writes_the_buffer_out() {
    check(
        r#"{"global": {"mem_buffer_size": 1000}, "tasks": {"t": {"loop": 1, "iorun": 10000001}}}"#,
        expect![[r#"
            ends at 1373 us
            t: 1 threads, 1 phases
        "#]],
    );
}

#[test]
fn a_mutex_with_inheritance_lends_its_holder_the_priority_of_who_waits() {
    // Both cores are taken by the middle ones when the high thread comes for the mutex: without
    // inheritance it would wait for them to finish.
    let text = |inherits: bool| {
        format!(
            r#"{{"global": {{"pi_enabled": {inherits}, "default_policy": "SCHED_FIFO"}}, "tasks": {{
                "low": {{"priority": 1, "cpus": [0], "loop": 1, "lock": "m", "run": 5000, "unlock": "m"}},
                "middle": {{"priority": 2, "cpus": [0], "loop": 1, "delay": 1000, "run": 50000}},
                "high": {{"priority": 3, "cpus": [0], "loop": 2, "sleep": 2000, "lock": "m", "unlock": "m",
                          "timer": {{"ref": "unique", "period": 10000}}}}
            }}}}"#
        )
    };
    check(
        &text(true),
        expect![[r#"
            ends at 55030 us
            low: 1 threads, 1 phases
            middle: 1 threads, 1 phases
            high: 1 threads, 2 phases, 2 timers, 0 missed, late at most 1 us
        "#]],
    );
    check(
        &text(false),
        expect![[r#"
            ends at 65023 us
            low: 1 threads, 1 phases
            middle: 1 threads, 1 phases
            high: 1 threads, 2 phases, 2 timers, 1 missed, late at most 2 us
        "#]],
    );
}
