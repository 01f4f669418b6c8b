//! `hitm mcp`: an agent that knows a program alone gets to the member, the remedy and its gain.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{ChildStdin, ChildStdout, Stdio};

use hitm_test::process::{Child, Command};
use serde_json::{Value, json};

use crate::programs;

/// Bytes of an answer's text.
const ANSWER_MAX: usize = 2_000;

/// A client of the real program.
struct Agent {
    server: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    /// Calls of tools.
    calls: u64,
    /// Bytes of what they answered.
    bytes: usize,
}

impl Agent {
    fn start(directory: &Path) -> Agent {
        let mut command = Command::new(programs::hitm());
        command.arg("mcp").current_dir(directory);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut server = command.spawn().expect("hitm starts");
        let input = server.stdin.take().expect("it is piped");
        let output = server.stdout.take().expect("it is piped");
        let mut agent = Agent {
            server,
            input,
            output: BufReader::new(output),
            calls: 0,
            bytes: 0,
        };
        let client = json!({ "name": "test", "version": "1" });
        let hello = agent.ask(
            "initialize",
            json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client }),
        );
        assert_eq!(hello["result"]["serverInfo"]["name"], "hitm", "{hello}");
        agent.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        agent
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.input, "{message}").expect("the server reads");
    }

    /// Asks and waits for the answer; a server that hangs is killed at its deadline, which ends its output.
    fn ask(&mut self, method: &str, params: Value) -> Value {
        self.calls += u64::from(method == "tools/call");
        let id = self.calls + 100;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        let mut line = String::new();
        self.output
            .read_line(&mut line)
            .expect("the server answers");
        let answer: Value = serde_json::from_str(&line).expect("JSON on a line");
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }

    /// Calls a tool. Returns its text, and whether it is an error.
    fn call(&mut self, tool: &str, arguments: Value) -> Result<String, String> {
        let answer = self.ask(
            "tools/call",
            json!({ "name": tool, "arguments": arguments }),
        );
        let result = &answer["result"];
        let text = result["content"][0]["text"].as_str();
        let text = text.unwrap_or_else(|| panic!("{answer}")).to_owned();
        assert!(text.len() <= ANSWER_MAX, "{} bytes: {text}", text.len());
        self.bytes += text.len();
        match result["isError"] == true {
            true => Err(text),
            false => Ok(text),
        }
    }

    /// Ends the session as a client does: it closes the server's input.
    fn end(self) {
        let Agent {
            mut server, input, ..
        } = self;
        drop(input);
        assert!(server.wait().expect("it ends").success());
    }
}

/// Contended programs, their member, and a word of their remedy.
const CASES: [(&str, &[&str], &str); 5] = [
    ("false_sharing.c", &["2000"], "f"),
    ("counter_array.c", &["2000"], "counters"),
    ("lock_beside_data.c", &["2000"], "account"),
    ("flag_beside_counter.c", &["2000"], "control"),
    ("heap_straddle.c", &["2000"], "worker"),
];

#[test]
fn five_calls_lead_from_a_program_to_member_remedy_and_gain() {
    for (source, args, member) in CASES {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let directory = directory.path();
        let code = programs::root().join("examples").join(source);
        programs::build(directory, "program", &code, &[]);
        let mut agent = Agent::start(directory);
        let command: Vec<&str> = ["./program"].iter().chain(args).copied().collect();
        let recorded = agent.call("record", json!({ "command": command }));
        let recorded = recorded.expect("it is recorded");
        for label in ["  Lost   ", "  Why    ", "  Do     ", "  Gain   "] {
            assert!(
                recorded.contains(label),
                "{source}: no {label} in\n{recorded}"
            );
        }
        assert!(recorded.contains(member), "{source}: {recorded}");
        let findings = agent.call("findings", json!({})).expect("there are some");
        let findings: Value = serde_json::from_str(&findings).expect("JSON");
        assert!(findings["findings"][0]["fix"].is_string(), "{findings}");
        match agent.call("advise", json!({})) {
            Ok(advised) => assert!(advised.contains("gain_share"), "{source}: {advised}"),
            Err(refused) => assert!(
                refused.contains("no falsely shared line"),
                "{source}: {refused}"
            ),
        }
        assert!(agent.calls <= 5 && agent.bytes <= 10_000);
        println!("{source}: {} calls, {} bytes", agent.calls, agent.bytes);
        agent.end();
    }
}

#[test]
fn tools_are_listed_and_mistakes_are_answers() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let mut agent = Agent::start(directory.path());
    let listed = agent.ask("tools/list", json!({}));
    let tools = listed["result"]["tools"].as_array().expect("a list");
    let names: Vec<&str> = tools
        .iter()
        .filter_map(|tool| tool["name"].as_str())
        .collect();
    assert_eq!(
        names,
        [
            "record",
            "report",
            "findings",
            "advise",
            "whatif",
            "explain",
            "live_lines"
        ]
    );
    let meaning = agent.call("explain", json!({ "word": "false sharing" }));
    assert!(meaning.expect("a word").contains("false sharing"));
    let error = agent.call("report", json!({ "recording": "none.hitm" }));
    assert!(error.expect_err("there is none").contains("none.hitm"));
    let error = agent.call("report", json!({ "file": 1 }));
    assert!(
        error
            .expect_err("no such argument")
            .contains("arguments of report")
    );
    let unknown = agent.ask("tools/call", json!({ "name": "x", "arguments": {} }));
    assert!(unknown["error"]["message"].is_string(), "{unknown}");
    agent.end();
}
