//! Sections of a text file that `hitm reproduce` owns, each between two lines of its own. It leaves
//! the rest of the file alone.
//!
//! Invariant: a section is written only where its two lines stand in order and once.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use hitm_files::output_file::{self, OutputError};
use thiserror::Error;

/// A file with sections, read again for each, so that its owner's edits stay.
#[derive(Debug, Clone)]
pub struct Sections {
    path: PathBuf,
}

/// Errors of writing a section.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SectionError {
    /// The file cannot be read.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// The file cannot be written.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// The file has no place for a section.
    #[error("{}: found no section for {case}, expected one line {begin:?} and below it one line {end:?}",
        path.display())]
    NoSection {
        /// The file.
        path: PathBuf,
        /// The section.
        case: String,
        /// The line before it.
        begin: String,
        /// The line after it.
        end: String,
    },
}

fn lines_of(case: &str) -> (String, String) {
    (
        format!("<!-- hitm reproduce: {case} -->"),
        format!("<!-- end of hitm reproduce: {case} -->"),
    )
}

impl Sections {
    /// Finds the section of each of the cases in a file.
    ///
    /// # Errors
    /// A file that cannot be read, or lacks the lines of a section.
    pub fn open(path: &Path, cases: &[&str]) -> Result<Sections, SectionError> {
        let sections = Sections { path: path.into() };
        let text = sections.read()?;
        for case in cases {
            sections.place(&text, case)?;
        }
        Ok(sections)
    }

    /// Replaces the section of a case by `new`.
    ///
    /// # Errors
    /// As [`Sections::open`], or a file that cannot be written.
    pub fn write(&self, case: &str, new: &str) -> Result<(), SectionError> {
        let mut text = self.read()?;
        let place = self.place(&text, case)?;
        text.replace_range(place, &format!("\n{new}\n"));
        Ok(output_file::write(&self.path, text.as_bytes())?)
    }

    fn read(&self) -> Result<String, SectionError> {
        fs::read_to_string(&self.path).map_err(|source| self.failed(source))
    }

    fn failed(&self, source: std::io::Error) -> SectionError {
        SectionError::File {
            path: self.path.clone(),
            source,
        }
    }

    /// Range of a section, from behind its first line to its last one.
    fn place(&self, text: &str, case: &str) -> Result<Range<usize>, SectionError> {
        let (begin, end) = lines_of(case);
        let only = |line: &str| {
            let whole = format!("{line}\n");
            let mut found = text.match_indices(&whole);
            let (first, _) = found.next()?;
            found.next().is_none().then_some(first)
        };
        match (only(&begin), only(&end)) {
            (Some(first), Some(last)) if first < last => Ok(first + begin.len() + 1..last),
            _ => Err(SectionError::NoSection {
                path: self.path.clone(),
                case: case.to_owned(),
                begin,
                end,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, case: &str, expected: &str) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.md");
        fs::write(&path, text).unwrap();
        let written =
            Sections::open(&path, &[case]).and_then(|sections| sections.write(case, "| new |\n"));
        let actual = match written {
            Ok(()) => fs::read_to_string(&path).unwrap(),
            Err(error) => error.to_string().replace(&*path.to_string_lossy(), "x.md"),
        };
        assert_eq!(actual, expected);
    }

    #[test]
    fn a_section_is_replaced_and_the_rest_stays() {
        let text =
            "# Mine\n<!-- hitm reproduce: a -->\nold\n<!-- end of hitm reproduce: a -->\nlast\n";
        let new = "# Mine\n<!-- hitm reproduce: a -->\n\n| new |\n\n<!-- end of hitm reproduce: a -->\nlast\n";
        check(text, "a", new);
        check(new, "a", new);
    }

    #[test]
    fn a_file_without_the_lines_is_left_alone() {
        let error = "x.md: found no section for a, expected one line \"<!-- hitm reproduce: a -->\" and below \
                     it one line \"<!-- end of hitm reproduce: a -->\"";
        check("# Mine\n", "a", error);
        let twice =
            "<!-- hitm reproduce: a -->\n".repeat(2) + "<!-- end of hitm reproduce: a -->\n";
        check(&twice, "a", error);
        check(
            "<!-- end of hitm reproduce: a -->\n<!-- hitm reproduce: a -->\n",
            "a",
            error,
        );
    }
}
