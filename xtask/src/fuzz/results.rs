//! Results of runs: a line of JSON for each piece, by commit and target.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::root;

/// One piece of a target's run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Row {
    pub(super) target: String,
    pub(super) executions: u64,
    pub(super) seconds: f64,
    pub(super) findings: u64,
    pub(super) sanitizer: String,
}

#[derive(Serialize, Deserialize)]
struct Line {
    commit: String,
    #[serde(flatten)]
    row: Row,
}

/// The pieces of one commit.
#[derive(Debug)]
pub(super) struct Results {
    commit: String,
    rows: Vec<Row>,
}

fn path() -> PathBuf {
    root().join("target/fuzz-results.jsonl")
}

impl Results {
    /// Loads earlier results of this commit, and skips a line that is cut off.
    pub(super) fn load(commit: &str) -> Result<Results> {
        let text = match fs::read_to_string(path()) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(error).with_context(|| format!("{}", path().display())),
        };
        Ok(Results::of_text(commit, &text))
    }

    fn of_text(commit: &str, text: &str) -> Results {
        let lines = text
            .lines()
            .filter_map(|line| serde_json::from_str::<Line>(line).ok());
        let own = lines.filter(|line| line.commit == commit);
        Results {
            commit: commit.to_owned(),
            rows: own.map(|line| line.row).collect(),
        }
    }

    /// Adds a piece, here and in the file.
    pub(super) fn add(&mut self, row: Row) -> Result<()> {
        let line = Line {
            commit: self.commit.clone(),
            row,
        };
        let text = serde_json::to_string(&line)? + "\n";
        let path = path();
        let mut file = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(&path)
            .with_context(|| format!("{}", path.display()))?;
        file.write_all(text.as_bytes())?;
        self.rows.push(line.row);
        Ok(())
    }

    /// Executions of a target at this commit.
    pub(super) fn executions(&self, target: &str) -> u64 {
        self.of(target).map(|row| row.executions).sum()
    }

    fn of(&self, target: &str) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(move |row| row.target == target)
    }

    /// A row of a Markdown table for each target.
    pub(super) fn table(&self, targets: &[String]) -> String {
        let mut out = format!("commit {}\n", self.commit);
        out += "| target | executions | seconds | executions/s | findings |\n|---|---:|---:|---:|---:|\n";
        for target in targets {
            let executions = self.executions(target);
            let seconds: f64 = self.of(target).map(|row| row.seconds).sum();
            let findings: u64 = self.of(target).map(|row| row.findings).sum();
            let rate = executions as f64 / seconds.max(1e-9);
            let _ = writeln!(
                out,
                "| `{target}` | {executions} | {seconds:.0} | {rate:.0} | {findings} |"
            );
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_one_commit_are_added_up() {
        let line = |commit: &str, executions: u64| {
            format!(
                "{{\"commit\":\"{commit}\",\"target\":\"t\",\"executions\":{executions},\
                 \"seconds\":2.0,\"findings\":0,\"sanitizer\":\"address\"}}\n"
            )
        };
        let text = line("a", 100) + &line("b", 7) + &line("a", 300) + "{\"commit\":\"a\",";
        let results = Results::of_text("a", &text);
        assert_eq!(results.executions("t"), 400);
        let table = results.table(&["t".to_owned()]);
        assert!(table.ends_with("| `t` | 400 | 4 | 100 | 0 |\n"), "{table}");
    }
}
