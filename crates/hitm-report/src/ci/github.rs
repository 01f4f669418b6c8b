//! Annotations of GitHub: commands that a workflow's log carries, `::warning file=F,line=N::TEXT`.
//!
//! Not shown, and why: GitHub shows ten warnings and ten errors of a step, and annotations in files that
//! the repository has. Notes come last, so that the findings have the places.

use hitm_base::printable;

use super::{Findings, Level};
use crate::Printout;

/// One line for each finding and each note. Names cannot begin a command of their own.
pub fn render(findings: &Findings<'_>) -> Printout {
    let mut out = Printout::new();
    for finding in &findings.list {
        let command = match finding.level {
            Level::Note => "notice",
            level => level.name(),
        };
        let mut properties = Vec::new();
        if let Some(place) = finding.places.first() {
            properties.push(format!("file={}", property(&place.file)));
            properties.extend(place.line.map(|line| format!("line={line}")));
        }
        let title = format!("{}: {}", finding.rule.help()[0], finding.name);
        properties.push(format!("title={}", property(&title)));
        let message = data(&finding.message);
        out.line(&format!("::{command} {}::{message}", properties.join(",")));
    }
    for note in &findings.notes {
        out.line(&format!("::notice title=hitm::{}", data(note)));
    }
    out
}

/// A message: per cent signs and line ends are the command's own.
fn data(text: &str) -> String {
    printable(text).replace('%', "%25")
}

/// A property: colons and commas are the command's own as well.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}
