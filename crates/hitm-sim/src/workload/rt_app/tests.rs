use expect_test::{Expect, expect};
use proptest::prelude::*;

use super::*;

fn check(text: &str, expected: Expect) {
    let actual = match RtApp::parse(text, "x.json") {
        Ok(app) => format!("{app:#?}\n"),
        Err(error) => error.to_string(),
    };
    expected.assert_eq(&actual);
}

/// A file whose only task has this body.
fn check_task(body: &str, expected: Expect) {
    check(&format!("{{\"tasks\": {{\"t\": {{{body}}}}}}}"), expected);
}

#[test]
fn a_thread_with_phases_and_properties() {
    check(
        r#"{
            /* workgen allows comments, repeated keys and missing commas */
            "global": {"duration": 2, "default_policy": "SCHED_FIFO", "pi_enabled": true},
            "tasks": {
                "worker": {
                    "instance": 3, "delay": 5, "priority": 10, "cpus": [3, 1, 3],
                    "phases": {
                        "busy": {"loop": 10, "run": 1000, "run": 20, "timer": {"ref": "unique", "period": 30000}},
                        "quiet": {"policy": "SCHED_OTHER", "priority": -5, "sleep0": 7}
                    }
                }
            }
        }"#,
        expect![[r#"
            RtApp {
                global: Global {
                    duration: Some(
                        2s,
                    ),
                    default_policy: Fifo,
                    pi_enabled: true,
                    mem_buffer_size_bytes: 4194304,
                },
                tasks: [
                    Task {
                        name: "worker",
                        instances: 3,
                        delay: 5µs,
                        loops: Forever,
                        sched: SchedParams {
                            policy: None,
                            priority: Some(
                                10,
                            ),
                            cpus: Some(
                                [
                                    1,
                                    3,
                                ],
                            ),
                            taskgroup: None,
                        },
                        phases: [
                            Phase {
                                name: "busy",
                                loops: Times(
                                    10,
                                ),
                                sched: SchedParams {
                                    policy: None,
                                    priority: None,
                                    cpus: None,
                                    taskgroup: None,
                                },
                                events: [
                                    Run(
                                        1ms,
                                    ),
                                    Run(
                                        20µs,
                                    ),
                                    Timer(
                                        Timer {
                                            name: "unique",
                                            period: 30ms,
                                            mode: Relative,
                                        },
                                    ),
                                ],
                            },
                            Phase {
                                name: "quiet",
                                loops: Times(
                                    1,
                                ),
                                sched: SchedParams {
                                    policy: Some(
                                        Other,
                                    ),
                                    priority: Some(
                                        -5,
                                    ),
                                    cpus: None,
                                    taskgroup: None,
                                },
                                events: [
                                    Sleep(
                                        7µs,
                                    ),
                                ],
                            },
                        ],
                    },
                ],
            }
        "#]],
    );
}

#[test]
fn every_event_of_the_tutorial_is_known() {
    let text = r#"{"tasks": {"t": {"loop": 1,
        "run": 1, "runtime": 2, "sleep": 3, "mem": 4096,
        "timer": {"ref": "tick", "period": 9, "mode": "absolute"},
        "lock": "m", "wait": {"ref": "c", "mutex": "m"}, "unlock": "m",
        "signal": "c", "broad": "c", "sync": {"ref": "c", "mutex": "m"},
        "barrier": "b", "suspend": "", "resume": "t", "yield": "", "fork": "t"}}}"#;
    let app = RtApp::parse(text, "x.json").unwrap();
    let events = &app.tasks[0].phases[0].events;
    expect![[r#"[Run(1µs), Runtime(2µs), Sleep(3µs), Mem(4096), Timer(Timer { name: "tick", period: 9µs, mode: Absolute }), Lock("m"), Wait(Condition { name: "c", mutex: "m" }), Unlock("m"), Signal("c"), Broadcast("c"), Sync(Condition { name: "c", mutex: "m" }), Barrier("b"), Suspend, Resume("t"), Yield, Fork("t")]"#]]
        .assert_eq(&format!("{events:?}"));
}

#[test]
fn what_is_not_modelled_is_said() {
    check_task(
        r#""run": 1, "policy": "SCHED_DEADLINE""#,
        expect![[r#"x.json:1:28: tasks.t.policy: the deadline class is not modelled"#]],
    );
    check_task(
        r#""dl-runtime": 5, "run": 1"#,
        expect![[r#"x.json:1:18: tasks.t.dl-runtime: the deadline class is not modelled"#]],
    );
    check_task(
        r#""iorun": 5"#,
        expect![[r#"x.json:1:18: tasks.t.iorun: writing to a device (iorun) is not modelled"#]],
    );
    check_task(
        r#""util_min": 5, "run": 1"#,
        expect![[r#"x.json:1:18: tasks.t.util_min: utilisation clamping is not modelled"#]],
    );
    check_task(
        r#""membind_nodes": [0], "run": 1"#,
        expect![[r#"x.json:1:18: tasks.t.membind_nodes: binding memory to nodes is not modelled"#]],
    );
}

#[test]
fn mistakes_are_named_with_their_place() {
    check(
        "",
        expect![[r#"x.json:1:1: found nothing, expected an object with "tasks""#]],
    );
    check(
        "{\n  \"tasks\": [",
        expect![[r#"x.json:2:12: found no JSON (Unterminated array), expected an rt-app file"#]],
    );
    check(
        "{}",
        expect![[r#"x.json:1:1: found no "tasks", expected an object of tasks"#]],
    );
    check(
        "{\"task\": {}}",
        expect![[r#"x.json:1:2: task: found the key "task", expected global, resources or tasks"#]],
    );
    check_task(
        "\n  \"rum\": 5",
        expect![[
            r#"x.json:2:3: tasks.t.rum: found the key "rum", expected an event (run, runtime, sleep, timer, mem, iorun, lock, unlock, wait, signal, broad, sync, barrier, suspend, resume, yield, fork) or a property (loop, policy, priority, cpus, taskgroup)"#
        ]],
    );
    check_task(
        r#""run": -1"#,
        expect![[
            r#"x.json:1:25: tasks.t.run: found -1, expected a whole number from 0 to 864000000000"#
        ]],
    );
    check_task(
        r#""run": 1.5"#,
        expect![[
            r#"x.json:1:25: tasks.t.run: found 1.5, expected a whole number from 0 to 864000000000"#
        ]],
    );
    check_task(
        r#""run": "1ms""#,
        expect![[
            r#"x.json:1:25: tasks.t.run: found "1ms", expected a whole number from 0 to 864000000000"#
        ]],
    );
    check_task(
        r#""run": 1, "cpus": []"#,
        expect![[
            r#"x.json:1:36: tasks.t.cpus: found [], expected a list of whole numbers from 0 to 65535"#
        ]],
    );
    check_task(
        r#""run": 1, "priority": 5, "policy": "SCHED_FIFO", "phases": {"p": {"run": 1}}"#,
        expect![[
            r#"x.json:1:17: tasks.t: found {"run": 1, "priority": 5, "policy": "SCH..., expected either "phases" or events, not both"#
        ]],
    );
    check_task(
        r#""run": 1, "priority": 0, "policy": "SCHED_RR""#,
        expect![[
            r#"x.json:1:17: tasks.t: found {"run": 1, "priority": 0, "policy": "SCH..., expected priorities from 1 to 99 for SCHED_RR"#
        ]],
    );
    check_task(
        r#""resume": "nobody", "run": 1"#,
        expect![[
            r#"x.json:1:17: tasks.t: found resume of "nobody", expected the name of a task of this file"#
        ]],
    );
    check_task(
        r#""timer": {"ref": "x"}"#,
        expect![[
            r#"x.json:1:27: tasks.t.timer: found {"ref": "x"}, expected a timer with "ref" and a "period" of at least 1"#
        ]],
    );
    check_task(
        r#""wait": {"ref": "x"}"#,
        expect![[
            r#"x.json:1:26: tasks.t.wait: found {"ref": "x"}, expected a condition with "ref" and "mutex""#
        ]],
    );
    check_task(
        r#""lock": "m", "unlock": "m""#,
        expect![[
            r#"x.json:1:17: tasks.t: found {"lock": "m", "unlock": "m"}, expected an event that takes time (run, sleep, timer, ...), since the loop has no end"#
        ]],
    );
    check_task(
        r#""run": 1, "instance": 99999999"#,
        expect![[
            r#"x.json:1:40: tasks.t.instance: found 99999999, expected a whole number from 0 to 1048576"#
        ]],
    );
}

proptest! {
    /// Any bytes give a model or an error, never a panic.
    #[test]
    fn any_text_is_read_or_refused(text in r#"([\{\}\[\]",:0-9a-z \n]|"tasks"|"run"|"t"|"timer"|"phases"){0,60}"#) {
        let _ = RtApp::parse(&text, "x.json");
    }
}
