use expect_test::{Expect, expect};
use proptest::prelude::*;

use super::*;

fn check(text: &str, expected: Expect) {
    let actual = match RtApp::parse(text, "x.json") {
        Ok(app) => describe(&app),
        Err(error) => error.to_string(),
    };
    expected.assert_eq(&actual);
}

/// One line for the whole, each task and each phase.
fn describe(app: &RtApp) -> String {
    let mut text = format!("{:?}\n", app.global);
    for task in &app.tasks {
        let (name, instances, loops) = (&task.name, task.instances, task.loops);
        text += &format!("{name} x{instances} after {:?} {loops:?}", task.delay);
        text += &format!(" {:?}\n", task.sched);
        for phase in &task.phases {
            text += &format!("  {} {:?} {:?}\n", phase.name, phase.loops, phase.sched);
            text += &format!("    {:?}\n", phase.events);
        }
    }
    text
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
            Global { duration: Some(2s), default_policy: Fifo, pi_enabled: true, mem_buffer_size_bytes: 4194304 }
            worker x3 after 5µs Forever SchedParams { policy: None, priority: Some(10), cpus: Some([1, 3]), taskgroup: None, deadline: None }
              busy Times(10) SchedParams { policy: None, priority: None, cpus: None, taskgroup: None, deadline: None }
                [Run(1ms), Run(20µs), Timer(Timer { name: "unique", period: 30ms, mode: Relative })]
              quiet Times(1) SchedParams { policy: Some(Other), priority: Some(-5), cpus: None, taskgroup: None, deadline: None }
                [Sleep(7µs)]
        "#]],
    );
}

#[test]
fn every_event_of_the_tutorial_is_known() {
    let text = r#"{"tasks": {"t": {"loop": 1,
        "run": 1, "runtime": 2, "sleep": 3, "mem": 4096, "iorun": 8192,
        "timer": {"ref": "tick", "period": 9, "mode": "absolute"},
        "lock": "m", "wait": {"ref": "c", "mutex": "m"}, "unlock": "m",
        "signal": "c", "broad": "c", "sync": {"ref": "c", "mutex": "m"},
        "barrier": "b", "suspend": "", "resume": "t", "sem_wait0": "s", "sem_post": "s",
        "yield": "", "fork": "t"}}}"#;
    let app = RtApp::parse(text, "x.json").unwrap();
    let events = &app.tasks[0].phases[0].events;
    expect![[r#"[Run(1µs), Runtime(2µs), Sleep(3µs), Mem(4096), Io(8192), Timer(Timer { name: "tick", period: 9µs, mode: Absolute }), Lock("m"), Wait(Condition { name: "c", mutex: "m" }), Unlock("m"), Signal("c"), Broadcast("c"), Sync(Condition { name: "c", mutex: "m" }), Barrier("b"), Suspend, Resume("t"), SemWait("s"), SemPost("s"), Yield, Fork("t")]"#]]
        .assert_eq(&format!("{events:?}"));
}

/// The errors of tasks with these bodies, one a line.
fn check_mistakes(bodies: &[&str], expected: Expect) {
    let error = |body: &&str| {
        let text = format!("{{\"tasks\": {{\"t\": {{{body}}}}}}}");
        RtApp::parse(&text, "x.json").expect_err(body).to_string() + "\n"
    };
    expected.assert_eq(&bodies.iter().map(error).collect::<String>());
}

#[test]
fn what_is_not_modelled_is_said() {
    let bodies = [
        r#""dl-runtime": 5, "run": 1"#,
        r#""phases": {"p": {"dl-runtime": 5, "run": 1}}"#,
        r#""util_min": 5, "run": 1"#,
        r#""membind_nodes": [0], "run": 1"#,
        r#""run": 1, "dl-reclaim": true"#,
        r#""memrun_a": {"type": "chase"}, "run": 1"#,
        r#""phases": {"p": {"run": 1, "taskgroup": "/a"}}"#,
        r#""cpus": [0], "phases": {"p": {"run": 1, "cpus": [0]}, "q": {"cpus": [1], "run": 1}}"#,
        r#""phases": {"p": {"policy": "SCHED_DEADLINE", "run": 1}}"#,
        r#""policy": "SCHED_DEADLINE", "dl-runtime": 5, "phases": {"p": {"policy": "SCHED_RR", "run": 1}}"#,
    ];
    check_mistakes(
        &bodies,
        expect![[r#"
            x.json:1:18: tasks.t.dl-runtime: a slice of its own (without SCHED_DEADLINE) is not modelled
            x.json:1:35: tasks.t.phases.p.dl-runtime: a phase with times of SCHED_DEADLINE is not modelled
            x.json:1:18: tasks.t.util_min: utilisation clamping is not modelled
            x.json:1:18: tasks.t.membind_nodes: binding memory to nodes is not modelled
            x.json:1:28: tasks.t.dl-reclaim: reclaiming the runtime that others leave (GRUB) is not modelled
            x.json:1:18: tasks.t.memrun_a: a pattern of memory accesses is not modelled
            x.json:1:45: tasks.t.phases.p.taskgroup: a phase in a task group of its own is not modelled
            x.json:1:78: tasks.t.phases.q.cpus: a phase on CPUs of its own is not modelled
            x.json:1:35: tasks.t.phases.p.policy: a phase that enters or leaves SCHED_DEADLINE is not modelled
            x.json:1:80: tasks.t.phases.p.policy: a phase that enters or leaves SCHED_DEADLINE is not modelled
        "#]],
    );
}

#[test]
fn keys_without_effect_are_listed() {
    let text = r#"{"global": {"logdir": "./", "duration": 1, "io_device": "/dev/null", "frag": 1},
                   "tasks": {"t": {"run": 1, "period": 100, "iorun": 5, "dl-reclaim": false,
                                   "resume": "nobody"}}}"#;
    let app = RtApp::parse(text, "x.json").unwrap();
    let inert = [
        "global.logdir",
        "global.frag",
        "tasks.t.period",
        "tasks.t.t.resume",
    ];
    assert_eq!(app.inert, inert);
    let elsewhere = text.replace("/dev/null", "/tmp/out");
    let error = RtApp::parse(&elsewhere, "x.json").unwrap_err().to_string();
    let said = "x.json:2:61: tasks.t.iorun: writing to a device other than /dev/null (iorun) is not modelled";
    assert_eq!(error, said);
}

#[test]
fn times_of_the_deadline_class_have_defaults_and_old_names() {
    let times = |keys: &str| {
        let text =
            format!(r#"{{"tasks": {{"t": {{"policy": "SCHED_DEADLINE", "run": 1, {keys}}}}}}}"#);
        let app = RtApp::parse(&text, "x.json").unwrap();
        let times = app.tasks[0].sched.deadline.unwrap();
        [times.runtime, times.deadline, times.period].map(|time| time.as_micros())
    };
    assert_eq!(times(r#""dl-runtime": 10"#), [10, 10, 10]);
    assert_eq!(times(r#""dl-runtime": 10, "dl-period": 30"#), [10, 30, 30]);
    assert_eq!(
        times(r#""dl-runtime": 10, "period": 30, "deadline": 20"#),
        [10, 20, 30]
    );
}

#[test]
fn a_document_that_is_no_workload_is_refused() {
    check(
        "",
        expect![[r#"x.json:1:1: found nothing, expected an object with "tasks""#]],
    );
    check(
        "{\n  \"tasks\": [",
        expect!["x.json:2:12: found no JSON (Unterminated array), expected an rt-app file"],
    );
    check(
        "{}",
        expect![[r#"x.json:1:1: found no "tasks", expected an object of tasks"#]],
    );
    check(
        "{\"task\": {}}",
        expect![[r#"x.json:1:2: task: found the key "task", expected global, resources or tasks"#]],
    );
}

#[test]
fn mistakes_are_named_with_their_place() {
    let bodies = [
        "\n  \"rum\": 5",
        r#""run": -1"#,
        r#""run": 1.5"#,
        r#""run": "1ms""#,
        r#""run": 1, "cpus": []"#,
        r#""run": 1, "phases": {"p": {"run": 1}}"#,
        r#""run": 1, "priority": 0, "policy": "SCHED_RR""#,
        r#""run": 1, "policy": "SCHED_DEADLINE""#,
        r#""run": 1, "policy": "SCHED_DEADLINE", "dl-runtime": 5, "priority": 1"#,
        r#""fork": "nobody", "run": 1"#,
        r#""timer": {"ref": "x"}"#,
        r#""wait": {"ref": "x"}"#,
        r#""lock": "m", "unlock": "m""#,
        r#""run": 1, "instance": 99999999"#,
    ];
    check_mistakes(
        &bodies,
        expect![[r#"
        x.json:2:3: tasks.t.rum: found the key "rum", expected an event (run, runtime, sleep, timer, mem, iorun, lock, unlock, wait, signal, broad, sync, barrier, suspend, resume, sem_wait, sem_post, yield, fork) or a property (loop, policy, priority, cpus, taskgroup)
        x.json:1:25: tasks.t.run: found -1, expected a whole number from 0 to 864000000000
        x.json:1:25: tasks.t.run: found 1.5, expected a whole number from 0 to 864000000000
        x.json:1:25: tasks.t.run: found "1ms", expected a whole number from 0 to 864000000000
        x.json:1:36: tasks.t.cpus: found [], expected a list of whole numbers from 0 to 65535
        x.json:1:17: tasks.t: found {"run": 1, "phases": {"p": {"run": 1}}}, expected either "phases" or events, not both
        x.json:1:17: tasks.t: found {"run": 1, "priority": 0, "policy": "SCH..., expected priorities from 1 to 99 for SCHED_RR
        x.json:1:17: tasks.t: found {"run": 1, "policy": "SCHED_DEADLINE"}, expected "dl-runtime" beside the policy SCHED_DEADLINE
        x.json:1:17: tasks.t: found {"run": 1, "policy": "SCHED_DEADLINE", "..., expected priorities from 0 to 0 for SCHED_DEADLINE
        x.json:1:17: tasks.t: found fork of "nobody", expected the name of a task of this file
        x.json:1:27: tasks.t.timer: found {"ref": "x"}, expected a timer with "ref" and a "period" of at least 1
        x.json:1:26: tasks.t.wait: found {"ref": "x"}, expected a condition with "ref" and "mutex"
        x.json:1:17: tasks.t: found {"lock": "m", "unlock": "m"}, expected an event that takes time (run, sleep, timer, ...), since the loop has no end
        x.json:1:40: tasks.t.instance: found 99999999, expected a whole number from 0 to 1048576
    "#]],
    );
}

proptest! {
    /// Any bytes give a model or an error, never a panic.
    #[test]
    fn any_text_is_read_or_refused(text in r#"([\{\}\[\]",:0-9a-z \n]|"tasks"|"run"|"t"|"timer"|"phases"){0,60}"#) {
        let _ = RtApp::parse(&text, "x.json");
    }
}
