//! rt-app files.

use super::{Key, quoted, smudge, table, value, values};
use crate::Choices;

/// Keys of a phase or a task, and values that may stand behind them.
const ENTRIES: &str = r#"
run = NUMBERS
run1 = NUMBERS
runtime = NUMBERS
sleep = NUMBERS
timer = { "ref": "tm", "period": 1000 } | { "ref": "unique", "period": 1, "mode": "absolute" }
dl-runtime = NUMBERS
mem = NUMBERS
iorun = NUMBERS
lock = NAMES
unlock = NAMES
wait = { "ref": "c", "mutex": "m" }
sync = { "ref": "c", "mutex": "m" }
signal = NAMES
broad = NAMES
barrier = "b"
sem_wait = NAMES
sem_post = NAMES
suspend = ""
resume = TASKS
yield = ""
fork = TASKS
loop = 1 | -1 | 100
cpus = [0] | [0, 1, 2] | [8191]
policy = "SCHED_FIFO" | "SCHED_OTHER" | "SCHED_RR" | "SCHED_BATCH" | "SCHED_IDLE" | "SCHED_DEADLINE"
priority = 10 | 1 | 19 | 99
taskgroup = "/a" | "/a/b" | "/"
"#;

/// Keys that are refused: not modelled, or not known.
const REFUSED: &str = r#"
util_min = NUMBERS
nodes_membind = [0]
dl-reclaim = true | false
memrun = { "type": "chase" }
unknown = NUMBERS
"#;

const GLOBALS: &str = r#"
duration = 1 | -1 | 2
default_policy = "SCHED_OTHER" | "SCHED_FIFO"
pi_enabled = true | false
mem_buffer_size = NUMBERS
calibration = "CPU0" | 100
lock_pages = true
logdir = "./"
gnuplot = false
io_device = "/dev/null"
"#;

/// The text of an rt-app file.
pub fn rt_app(choices: &mut Choices<'_>) -> String {
    choices.draw_soundness();
    let mut out = String::from("{\n");
    if choices.one_in(2) {
        let globals = table(GLOBALS);
        let mut parts = Vec::new();
        for _ in 0..choices.below(4) {
            parts.push(entry(choices, &globals));
        }
        out += &format!("\"global\": {{ {} }},\n", parts.join(", "));
    }
    let tasks: Vec<String> = (0..choices.below(4) + 1)
        .map(|nth| task(choices, nth))
        .collect();
    out += &format!("\"tasks\": {{\n{}\n}}", tasks.join(",\n"));
    if choices.one_in(4) {
        out += ",\n\"resources\": { \"m\": { \"type\": \"mutex\" }, \"m\": {} }";
    }
    out += if choices.one_in(8) {
        "\n} // end"
    } else {
        "\n}"
    };
    smudge(choices, out)
}

fn entry(choices: &mut Choices<'_>, from: &[Key]) -> String {
    let refused = table(REFUSED);
    let from = if choices.odd(32) { &refused } else { from };
    let key = &from[choices.below(from.len())];
    format!("\"{}\": {}", key.name, value(choices, &key.values))
}

/// A name and its object: events at the task itself or in phases, some of them nested too deep.
fn task(choices: &mut Choices<'_>, nth: usize) -> String {
    let name = match choices.odd(8) {
        true => quoted(&choices.text()),
        false => format!("\"t{nth}\""),
    };
    let entries = table(ENTRIES);
    let mut parts: Vec<String> = Vec::new();
    let has_phases = choices.one_in(3);
    if !has_phases || choices.odd(16) {
        parts.push(entry(choices, &entries[..4]));
        for _ in 0..choices.below(6) {
            parts.push(entry(choices, &entries));
        }
    }
    if choices.one_in(4) {
        let (instance, delay) = (
            value(choices, &["1", "2"]),
            value(choices, &values("NUMBERS")),
        );
        parts.push(format!("\"instance\": {instance}, \"delay\": {delay}"));
    }
    if has_phases {
        let phases: Vec<String> = (0..choices.below(4) + 1)
            .map(|phase| {
                let count = choices.below(5) + 1;
                let mut events = vec![entry(choices, &entries[..4])];
                events.extend((0..count).map(|_| entry(choices, &entries)));
                format!("\"p{phase}\": {{ {} }}", events.join(", "))
            })
            .collect();
        parts.push(format!("\"phases\": {{ {} }}", phases.join(", ")));
    }
    if choices.odd(32) {
        let depth = choices.pick(&[10usize, 100, 600]);
        parts.push(format!(
            "\"deep\": {}1{}",
            "[".repeat(depth),
            "]".repeat(depth)
        ));
    }
    format!("{name}: {{ {} }}", parts.join(", "))
}
