//! Source text with lost cycles beside its lines.

use std::collections::BTreeMap;

use hitm_base::grouped;

use crate::Printout;
use crate::model::Report;

/// Columns of the figures before the text.
const FIGURE: usize = 11;
/// Columns between two stops of a tab.
const TAB: usize = 8;
/// Characters of a line of an excerpt.
const WIDTH_MAX: usize = 240;

/// A source file with the cycles that its lines lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceText {
    /// The file, as the debug information has it.
    pub file: String,
    /// Lost cycles by line, from the rows of the report's lines.
    pub lost: BTreeMap<u32, u64>,
}

impl SourceText {
    /// The file of a source line, `file:12`, and the number of the line. None when it has no number.
    pub fn of(report: &Report, source: &str) -> Option<(SourceText, u32)> {
        let (file, number) = file_and_line(source)?;
        let mut lost: BTreeMap<u32, u64> = BTreeMap::new();
        let rows = report.lines.iter().flat_map(|line| &line.rows);
        for row in rows {
            if let Some((_, at)) = file_and_line(&row.source).filter(|(of, _)| *of == file) {
                let sum = lost.entry(at).or_default();
                *sum = sum.saturating_add(row.lost_cycles);
            }
        }
        let file = file.to_owned();
        Some((SourceText { file, lost }, number))
    }

    /// The text with its figures. Without a text the lines that lost something, and the reason.
    pub fn render(&self, text: Result<&str, &str>) -> Printout {
        let mut out = Printout::new();
        out.line(&format!("{:>FIGURE$}   line {}", "lost cycles", self.file));
        match text {
            Ok(text) => {
                for (number, line) in (1..).zip(text.lines()) {
                    let lost = self.lost.get(&number).map(|lost| grouped(*lost));
                    let lost = lost.unwrap_or_default();
                    let line = without_tabs(line);
                    out.line(&format!("{lost:>FIGURE$} {number:>6} {line}"));
                }
            }
            Err(reason) => {
                for (number, lost) in &self.lost {
                    out.line(&format!("{:>FIGURE$} {number:>6}", grouped(*lost)));
                }
                out.line(reason);
            }
        }
        out
    }
}

/// A few lines of a source text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Excerpt {
    /// Number of the first line.
    pub first: u32,
    /// The lines, tabs as blanks.
    pub lines: Vec<String>,
}

impl Excerpt {
    /// The lines around the one numbered `number`, `around` before and behind it; none when the text is shorter.
    pub fn of(text: &str, number: u32, around: u32) -> Option<Excerpt> {
        let first = number.saturating_sub(around).max(1);
        let lines = text.lines().skip(first as usize - 1);
        let lines = lines.take((number - first + around + 1) as usize);
        let lines: Vec<String> = lines
            .map(|line| without_tabs(line).chars().take(WIDTH_MAX).collect())
            .collect();
        (lines.len() > (number - first) as usize).then_some(Excerpt { first, lines })
    }
}

/// The file and the number of a source line, `file:12`. None when it has no number.
pub fn file_and_line(source: &str) -> Option<(&str, u32)> {
    let (file, line) = source.rsplit_once(':')?;
    let line = line.parse().ok().filter(|line| *line > 0)?;
    Some((file, line))
}

fn without_tabs(line: &str) -> String {
    let mut text = String::new();
    let mut column = 0;
    for c in line.chars() {
        let blanks = if c == '\t' { TAB - column % TAB } else { 0 };
        match c {
            '\t' => text.extend(std::iter::repeat_n(' ', blanks)),
            _ => text.push(c),
        }
        column += blanks.max(1);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cycles_stand_beside_their_lines() {
        let source = SourceText {
            file: "src/a.c".into(),
            lost: BTreeMap::from([(2, 1_234_567)]),
        };
        let text = source.render(Ok("int a;\n\tx++;\n"));
        let expected = "lost cycles   line src/a.c\n                 1 int a;\n  1,234,567      2         x++;\n";
        assert_eq!(text.as_str(), expected);
        let text = source.render(Err("no such file"));
        let expected = "lost cycles   line src/a.c\n  1,234,567      2\nno such file\n";
        assert_eq!(text.as_str(), expected);
    }

    #[test]
    fn an_excerpt_ends_with_its_text() {
        let text = "a\nb\nc\n\td\n";
        let lines =
            |number| Excerpt::of(text, number, 2).map(|one| (one.first, one.lines.join("|")));
        assert_eq!(lines(1), Some((1, "a|b|c".to_owned())));
        assert_eq!(lines(4), Some((2, "b|c|        d".to_owned())));
        assert_eq!(lines(5), None);
    }
}
