//! The tools: what each asks for, the command line that it stands for, and the part of its result that is answered.

use std::any::Any;

use anyhow::{Context as _, Result};
use rmcp::handler::server::common::schema_for_input;
use rmcp::model::{JsonObject, Tool as Description};
use rmcp::schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::answer::{cut, first_screen, hitm, json_of, listed, output, picked};
use crate::commands::input;

/// A tool and what answers it.
pub(super) struct Tool {
    pub(super) description: Description,
    pub(super) call: fn(JsonObject) -> Result<String>,
}

/// All tools.
pub(super) fn all() -> Vec<Tool> {
    vec![
        tool::<Record>(),
        tool::<Report>(),
        tool::<Findings>(),
        tool::<Advise>(),
        tool::<WhatIf>(),
        tool::<Explain>(),
        tool::<LiveLines>(),
    ]
}

/// Arguments of a tool, and how it answers them.
trait Ask: DeserializeOwned + JsonSchema + Any {
    const NAME: &'static str;
    /// Its description for an agent.
    const ABOUT: &'static str;

    fn answer(self) -> Result<String>;
}

fn tool<A: Ask>() -> Tool {
    let schema = schema_for_input::<A>().expect("arguments are an object");
    Tool {
        description: Description::new(A::NAME, A::ABOUT, schema),
        call: |arguments| {
            let asked: A = serde_json::from_value(Value::Object(arguments))
                .with_context(|| format!("arguments of {}", A::NAME))?;
            asked.answer()
        },
    }
}

/// Words of a command line.
fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// An option with its value, where there is one.
fn option(name: &str, value: Option<&str>) -> Vec<String> {
    value.map_or_else(Vec::new, |value| words(&[name, value]))
}

fn default_recording() -> String {
    input::DEFAULT.to_owned()
}

/// Records a program.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(crate = "rmcp::schemars")]
struct Record {
    /// The program and its arguments, a word each
    command: Vec<String>,
    /// The machine to price accesses on, such as broadwell-4s, milan-2s, or host
    machine: Option<String>,
    /// The file to write
    #[serde(default = "default_recording")]
    recording: String,
    /// Seconds after which the recording, and the program, end
    seconds: Option<u32>,
}

impl Ask for Record {
    const NAME: &'static str = "record";
    const ABOUT: &'static str = "Run a program and record what its threads do to shared cache lines; answers the \
        report's first screen: what is lost, the members, why, the remedy and its gain. Programs run 16 to 110 times \
        slower: record a short run, built with -g.";

    fn answer(self) -> Result<String> {
        let seconds = self.seconds.map(|seconds| format!("{seconds}s"));
        let args = [
            words(&["record", "-o", &self.recording]),
            option("--machine", self.machine.as_deref()),
            option("--duration", seconds.as_deref()),
            words(&["--"]),
            self.command,
        ];
        let recorded = output(&args.concat())?;
        let report = Report {
            recording: self.recording,
        };
        let said = String::from_utf8_lossy(&recorded.stderr);
        let screen = report.answer().with_context(|| said.trim_end().to_owned())?;
        Ok(match recorded.status.code() {
            Some(0) => screen,
            code => {
                let code = code.map_or("a signal".to_owned(), |code| format!("exit code {code}"));
                cut(&format!("The program ended with {code}.\n{screen}"))
            }
        })
    }
}

/// Shows a recording.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(crate = "rmcp::schemars")]
struct Report {
    /// The recording
    #[serde(default = "default_recording")]
    recording: String,
}

impl Ask for Report {
    const NAME: &'static str = "report";
    const ABOUT: &'static str = "The first screen of a recording: what is lost, the dearest findings, why, the \
        remedy, its gain by replay, and the command to run next.";

    fn answer(self) -> Result<String> {
        hitm(&words(&["report", "-i", &self.recording])).map(|text| first_screen(&text))
    }
}

/// Lists findings.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(crate = "rmcp::schemars")]
struct Findings {
    /// The recording
    #[serde(default = "default_recording")]
    recording: String,
    /// Number of the first finding to answer, from 1
    #[serde(default)]
    from: usize,
}

/// Figures of a finding.
const FINDING: &[&str] = &[
    "number",
    "name",
    "kind",
    "run_share",
    "lost_cycles",
    "waited_cycles",
    "line_count",
    "thread_count",
    "written_in",
    "fix",
];

impl Ask for Findings {
    const NAME: &'static str = "findings";
    const ABOUT: &'static str = "The findings of a recording by cost: member, kind, part of the threads' time \
        (run_share), place in the source, remedy.";

    fn answer(self) -> Result<String> {
        let report = json_of(&words(&["report", "-i", &self.recording]))?;
        let findings = report["findings"].as_array().into_iter().flatten();
        let findings = findings.skip(self.from.saturating_sub(1));
        let findings = findings.map(|one| picked(one, FINDING));
        Ok(listed("findings", findings.collect()))
    }
}

/// Proposes layouts.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(crate = "rmcp::schemars")]
struct Advise {
    /// The recording
    #[serde(default = "default_recording")]
    recording: String,
    /// A structure, to get the source text of its best layout; needs `program`
    structure: Option<String>,
    /// The program, or another file with its debug information
    program: Option<String>,
    /// Language of the source text: c, cpp or rust
    language: Option<String>,
}

impl Ask for Advise {
    const NAME: &'static str = "advise";
    const ABOUT: &'static str = "Better layouts of every structure that is falsely shared, the one that gains most \
        first, each proved by a replay; with a structure, the source text of its best layout.";

    fn answer(self) -> Result<String> {
        let advise = words(&["layout", "advise", "-p", &self.recording]);
        if let Some(structure) = &self.structure {
            let language = self.language.as_deref().unwrap_or("c");
            let args = [
                advise,
                option("-i", self.program.as_deref()),
                words(&["--emit", language, structure]),
            ];
            return hitm(&args.concat()).map(|text| cut(&text));
        }
        let all = json_of(&[advise, words(&["--all"])].concat())?;
        let all = all.as_array().into_iter().flatten();
        Ok(listed("structures", all.map(advised).collect()))
    }
}

/// The best layout of a structure.
fn advised(advice: &Value) -> Value {
    let candidates = advice["candidates"].as_array();
    let Some(best) = candidates.and_then(|all| all.first()) else {
        return json!({ "structure": advice["type"], "best": "no layout is better" });
    };
    let replay = &best["replay"];
    let cycles = |key: &str| replay[key].as_f64();
    let gain = cycles("cycles_before").zip(cycles("cycles_after"));
    let gain = gain.filter(|(before, _)| *before > 0.0);
    let members = best["members"].as_array().into_iter().flatten();
    let members = members.map(|one| json!([one["name"], one["offset_bytes"]]));
    json!({
        "structure": advice["type"],
        "best": best["plan_words"],
        "gain_share": gain.map(|(before, after)| (1000.0 * (1.0 - after / before)).round() / 1000.0),
        "replay": replay,
        "offsets": members.collect::<Vec<Value>>(),
        "other_layouts": candidates.map_or(0, |all| all.len() - 1),
    })
}

/// Runs a recording again.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(crate = "rmcp::schemars")]
struct WhatIf {
    /// The recording
    #[serde(default = "default_recording")]
    recording: String,
    /// A layout file with structures whose members move
    layout: Option<String>,
    /// Another machine, such as genoa-384
    machine: Option<String>,
    /// CPUs for threads: spread, compact, or a list like 0,2,8-11
    threads_to: Option<String>,
}

impl Ask for WhatIf {
    const NAME: &'static str = "whatif";
    const ABOUT: &'static str = "Run a recording again with another layout, machine or placement of threads: cycles \
        and losses before and after.";

    fn answer(self) -> Result<String> {
        let args = [
            words(&["whatif", "-i", &self.recording]),
            option("--layout", self.layout.as_deref()),
            option("--machine", self.machine.as_deref()),
            option("--threads-to", self.threads_to.as_deref()),
        ];
        hitm(&args.concat()).map(|text| cut(&text))
    }
}

/// Explains a word.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(crate = "rmcp::schemars")]
struct Explain {
    /// A word of an answer, such as false sharing, or the number of a finding
    word: String,
    /// The recording that numbers are of
    #[serde(default = "default_recording")]
    recording: String,
}

impl Ask for Explain {
    const NAME: &'static str = "explain";
    const ABOUT: &'static str = "What a word means, or why a finding has its verdict: the rule, and what met it.";

    fn answer(self) -> Result<String> {
        let is_number = self.word.parse::<u64>().is_ok();
        let recording = option("-i", Some(&*self.recording).filter(|_| is_number));
        let args = [words(&["explain"]), recording, words(&["--", &self.word])];
        hitm(&args.concat()).map(|text| cut(&text))
    }
}

/// Looks at a running program.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(crate = "rmcp::schemars")]
struct LiveLines {
    /// Process to look at
    pid: u32,
    /// Seconds
    #[serde(default = "default_seconds")]
    seconds: u32,
}

fn default_seconds() -> u32 {
    10
}

impl Ask for LiveLines {
    const NAME: &'static str = "live_lines";
    const ABOUT: &'static str = "The cache lines that a running program fights over, by samples and watches; needs \
        rights to observe it.";

    fn answer(self) -> Result<String> {
        let (pid, seconds) = (self.pid.to_string(), format!("{}s", self.seconds));
        let args = words(&["live", "lines", "--pid", &pid, "--duration", &seconds]);
        hitm(&args).map(|text| first_screen(&text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_have_names_and_arguments_that_are_checked() {
        let all = all();
        for (index, one) in all.iter().enumerate() {
            let name = &one.description.name;
            assert!(all[..index].iter().all(|other| other.description.name != *name));
            assert_eq!(one.description.input_schema["type"], "object", "{name}");
            let mut unknown = JsonObject::new();
            unknown.insert("no_such_argument".to_owned(), Value::Null);
            let error = (one.call)(unknown).expect_err("it is unknown");
            assert!(error.to_string().contains(&format!("arguments of {name}")));
        }
    }

    #[test]
    fn the_best_layout_has_its_gain() {
        let advice = json!({ "type": "foo", "candidates": [{
            "plan_words": "apart",
            "replay": { "cycles_before": 1000, "cycles_after": 250 },
            "members": [{ "name": "w", "offset_bytes": 64 }],
        }, {}] });
        let advised = advised(&advice);
        assert_eq!(advised["gain_share"], 0.75);
        assert_eq!(advised["offsets"], json!([["w", 64]]));
        assert_eq!(advised["other_layouts"], 1);
    }
}
