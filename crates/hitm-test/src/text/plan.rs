//! Plans of many runs.

use super::{keys, smudge, some_keys, table};
use crate::Choices;

const HEAD: &str = r#"
schema = 1
name = "p"
"#;

const REST: &str = r#"
description = "d"
quick = true | false
seeds = 1 | 3 | 1000
first_seed = 1 | 0
metrics = ["time.kernel_of_busy"] | "wakeup.latency_us_p99"
"#;

const SOURCES: [&str; 4] = [
    "scenarios = \"a.toml\"\n",
    "scenarios = [\"a.toml\", \"b.toml\"]\n",
    "recordings = [\"a.hitm\"]\n",
    "",
];

const VALUES: &str = r#"
key = "a" | "b" | "kernel.tick" | "machine"
values = [1, 2] | ["1us", "2ms"] | ["100/s"] | [[1, 2], ["x"]] | [true, 0.5, "x"]
"#;

const TIED: &str = r#"
keys = ["c", "d"] | ["e", "f"]
values = [[1, 2], [3, 4]] | [["m", 8]]
"#;

const RANGE: &str = r#"
key = "g" | "h" | "i"
from = 1 | 0 | "1us" | "100/s" | 0.5
to = 10 | 100 | "1ms" | "5000/s" | 2.5
scale = "linear" | "log"
"#;

const SAMPLE: &str = r#"
method = "sobol" | "latin-hypercube"
points = 1 | 8 | 1000
seed = 0 | 7
"#;

/// The text of a plan.
pub fn plan(choices: &mut Choices<'_>) -> String {
    choices.draw_soundness();
    let mut out = String::new();
    keys(choices, &mut out, &table(HEAD));
    let source_count = 3 + usize::from(choices.odd(16));
    out += choices.pick(&SOURCES[..source_count]);
    some_keys(choices, &mut out, &table(REST), 3);
    for _ in 0..choices.below(3) {
        out += "[[vary]]\n";
        match choices.below(3) {
            0 => keys(choices, &mut out, &table(VALUES)),
            1 => keys(choices, &mut out, &table(TIED)),
            _ => {
                keys(choices, &mut out, &table(RANGE));
                keys(choices, &mut out, &table("steps = 2 | 7 | 100"));
            }
        }
    }
    if choices.one_in(3) {
        out += "[sample]\n";
        keys(choices, &mut out, &table(SAMPLE));
        for _ in 0..choices.below(3) + 1 {
            out += "[[sample.range]]\n";
            keys(choices, &mut out, &table(RANGE));
        }
    }
    smudge(choices, out)
}
