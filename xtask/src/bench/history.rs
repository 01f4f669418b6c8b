//! The history of speed: docs/performance/history.jsonl, one figure a line, the newest last.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use super::host::Run;
use crate::root;

/// Its path from the root.
pub(super) const PATH: &str = "docs/performance/history.jsonl";

/// A benchmark's figure. What is not known of an old one is none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Figure {
    /// Name of the benchmark.
    pub(super) bench: String,
    /// Unit of the three figures.
    pub(super) unit: String,
    /// Middle sample.
    pub(super) median: f64,
    /// Smallest sample.
    pub(super) min: Option<f64>,
    /// Largest sample.
    pub(super) max: Option<f64>,
    /// Number of samples.
    pub(super) run_count: Option<usize>,
    /// Further facts about the samples, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) note: Option<String>,
}

impl Figure {
    /// The figure of these samples.
    pub(super) fn of(bench: &str, unit: &str, mut samples: Vec<f64>) -> Result<Figure> {
        ensure!(!samples.is_empty(), "{bench} has no samples");
        ensure!(
            samples.iter().all(|sample| sample.is_finite()),
            "{bench}: a sample is no number"
        );
        samples.sort_by(f64::total_cmp);
        Ok(Figure {
            bench: bench.to_owned(),
            unit: unit.to_owned(),
            median: samples[samples.len() / 2],
            min: samples.first().copied(),
            max: samples.last().copied(),
            run_count: Some(samples.len()),
            note: None,
        })
    }
}

/// A line of the history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Entry {
    #[serde(flatten)]
    pub(super) figure: Figure,
    #[serde(flatten)]
    pub(super) run: Run,
}

pub(super) fn path() -> PathBuf {
    root().join(PATH)
}

/// Reads the checkout's history.
pub(super) fn read() -> Result<Vec<Entry>> {
    let text = fs::read_to_string(path()).with_context(|| format!("cannot read {PATH}"))?;
    parse(&text)
}

/// The entries of a history, or the number of the line that is damaged.
pub(super) fn parse(text: &str) -> Result<Vec<Entry>> {
    let mut entries = Vec::new();
    for (number, line) in (1..).zip(text.split_inclusive('\n')) {
        ensure!(line.ends_with('\n'), "{PATH}:{number} is cut off");
        let entry = serde_json::from_str(line);
        entries.push(entry.with_context(|| format!("{PATH}:{number} is damaged"))?);
    }
    Ok(entries)
}

/// Adds an entry at the end of a history.
pub(super) fn append(path: &Path, entry: &Entry) -> Result<()> {
    let line = serde_json::to_string(entry)? + "\n";
    let file = OpenOptions::new().create(true).append(true).open(path);
    file.and_then(|mut file| file.write_all(line.as_bytes()))
        .with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = r#"{"bench":"toy","unit":"ns","median":4.0,"min":null,"max":null,"run_count":null,"date":"unknown","commit":"unknown","host":{"cpu":"AMD EPYC","cpu_count":2,"kernel":"unknown","rustc":"unknown"}}"#;

    #[test]
    fn the_median_is_the_middle_sample() {
        let figure = Figure::of("toy", "ns", vec![9.0, 1.0, 4.0]).unwrap();
        let three = (figure.min, figure.median, figure.max);
        assert_eq!(three, (Some(1.0), 4.0, Some(9.0)));
    }

    #[test]
    fn a_sample_that_is_no_number_is_an_error() {
        assert!(Figure::of("toy", "ns", vec![1.0, f64::NAN]).is_err());
        assert!(Figure::of("toy", "ns", Vec::new()).is_err());
    }

    #[test]
    fn what_is_appended_reads_back_behind_what_was_there() {
        let folder = crate::target().join("history-of-tests");
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join(format!("{}.jsonl", std::process::id()));
        fs::write(&path, format!("{LINE}\n")).unwrap();
        let run = parse(&format!("{LINE}\n")).unwrap().remove(0).run;
        let figure = Figure::of("other", "s", vec![0.5, 0.25, 1.75]).unwrap();
        let entry = Entry { figure, run };
        append(&path, &entry).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        fs::remove_file(&path).unwrap();
        let added = text.strip_prefix(LINE).unwrap();
        assert!(added.starts_with("\n{\"bench\":\"other\",\"unit\":\"s\",\"median\":0.5,"));
        assert_eq!(parse(&text).unwrap()[1..], [entry]);
    }

    #[test]
    fn a_damaged_line_is_an_error_with_its_number() {
        let error = |text: &str| format!("{:#}", parse(text).unwrap_err());
        let damaged = error(&format!("{LINE}\n{}\n{LINE}\n", &LINE[..40]));
        assert!(
            damaged.starts_with("docs/performance/history.jsonl:2 is damaged: "),
            "{damaged}"
        );
        let unknown = error("{\"bench\":\"toy\"}\n");
        assert!(
            unknown.contains("history.jsonl:1 is damaged: missing field"),
            "{unknown}"
        );
        let cut = error(&format!("{LINE}\n{LINE}"));
        assert_eq!(cut, "docs/performance/history.jsonl:2 is cut off");
    }
}
