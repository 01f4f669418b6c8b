//! The result of one run as text: its figures, or the message of a failed run, and a checksum.
//!
//! A text that is cut off, changed or of another run is no result: the run is made again. So is one
//! of form 1, which has no checksum.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

use crate::name::RunName;

/// Version of everything that results depend on beside the model. It is part of a run's name.
pub const RESULT_VERSION: u32 = 1;

/// Version of the text.
const FORM: u32 = 2;
/// Key of the last line.
const CHECKSUM: &str = "sha256\t";

/// The result of a run.
#[derive(Debug, Clone, PartialEq)]
pub enum RunResult {
    /// Its figures.
    Figures(Vec<Figure>),
    /// The message of a run that failed.
    Failed(String),
}

/// One figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// The metric.
    pub id: String,
    /// Its unit.
    pub unit: String,
    /// Its value.
    pub value: f64,
}

impl RunResult {
    /// Encodes the result of this run.
    pub fn encode(&self, name: RunName) -> String {
        let mut out = format!("{}\n", head(name));
        match self {
            RunResult::Failed(message) => {
                let _ = writeln!(out, "failed\t{}", message.escape_default());
            }
            RunResult::Figures(figures) => {
                for Figure { id, unit, value } in figures {
                    // Rust writes the shortest text that reads back as the same number.
                    let (id, unit) = (id.escape_default(), unit.escape_default());
                    let _ = writeln!(out, "figure\t{id}\t{unit}\t{value:?}");
                }
            }
        }
        with_checksum(out)
    }

    /// Decodes the result of this run; none if the text is damaged or of another run.
    pub fn decode(text: &str, name: RunName) -> Option<RunResult> {
        let end = text.strip_suffix('\n')?.rfind('\n')? + 1;
        let (body, last) = text.split_at(end);
        let expected = last.strip_prefix(CHECKSUM)?.strip_suffix('\n')?;
        if checksum(body) != expected {
            return None;
        }
        let mut lines = body.lines();
        if lines.next()? != head(name) {
            return None;
        }
        let mut figures = Vec::new();
        for line in lines {
            let mut parts = line.split('\t');
            match parts.next()? {
                "failed" => return Some(RunResult::Failed(unescape(parts.next()?)?)),
                "figure" => figures.push(Figure {
                    id: unescape(parts.next()?)?,
                    unit: unescape(parts.next()?)?,
                    value: parts.next()?.parse().ok()?,
                }),
                _ => return None,
            }
        }
        Some(RunResult::Figures(figures))
    }
}

/// First line of the result of a run.
fn head(name: RunName) -> String {
    format!("hitm-sweep-result {FORM} {name}")
}

/// Adds the last line to a text whose lines are whole.
pub fn with_checksum(mut body: String) -> String {
    let checksum = checksum(&body);
    let _ = writeln!(body, "{CHECKSUM}{checksum}");
    body
}

fn checksum(body: &str) -> String {
    let digest = Sha256::digest(body.as_bytes());
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Undoes [`str::escape_default`].
fn unescape(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        out.push_str(before);
        let kind = after.chars().next()?;
        rest = &after[kind.len_utf8()..];
        match kind {
            't' => out.push('\t'),
            'n' => out.push('\n'),
            'r' => out.push('\r'),
            '\\' | '\'' | '"' => out.push(kind),
            'u' => {
                let (digits, after) = rest.strip_prefix('{')?.split_once('}')?;
                out.push(char::from_u32(u32::from_str_radix(digits, 16).ok()?)?);
                rest = after;
            }
            _ => return None,
        }
    }
    out.push_str(rest);
    Some(out)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::name::Naming;

    fn name() -> RunName {
        Naming::new(1).name()
    }

    #[test]
    fn a_damaged_text_is_no_result() {
        let figure = |id: &str| Figure {
            id: id.to_owned(),
            unit: "us".to_owned(),
            value: 1.5,
        };
        let result = RunResult::Figures(vec![figure("a"), figure("b")]);
        let text = result.encode(name());
        assert_eq!(RunResult::decode(&text, name()), Some(result));
        for end in 0..text.len() {
            assert_eq!(RunResult::decode(&text[..end], name()), None, "{end}");
        }
        assert_eq!(RunResult::decode(&text, Naming::new(2).name()), None);
        let changed = text.replacen("1.5", "2.5", 1);
        assert_eq!(RunResult::decode(&changed, name()), None);
        let first_form = format!(
            "hitm-sweep-result 1 {}\nfigure\ta\tus\t1.5\nend\t2\n",
            name()
        );
        assert_eq!(RunResult::decode(&first_form, name()), None);
    }

    proptest! {
        #[test]
        fn results_read_back(
            figures in proptest::collection::vec(("\\PC{0,9}", ".{0,3}", any::<f64>()), 0..5),
            message in ".{0,40}",
        ) {
            let figure = |(id, unit, value): (String, String, f64)| Figure { id, unit, value };
            let figures: Vec<Figure> = figures.into_iter().map(figure).collect();
            let is_number = figures.iter().all(|figure| !figure.value.is_nan());
            let result = RunResult::Figures(figures);
            let read = RunResult::decode(&result.encode(name()), name());
            prop_assert_eq!(read.is_some(), true);
            if is_number {
                prop_assert_eq!(read, Some(result));
            }
            let failed = RunResult::Failed(message);
            prop_assert_eq!(RunResult::decode(&failed.encode(name()), name()), Some(failed));
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,99}") {
            let whole = with_checksum(format!("{}\n{text}\n", head(name())));
            let _ = (RunResult::decode(&text, name()), RunResult::decode(&whole, name()));
        }
    }
}
