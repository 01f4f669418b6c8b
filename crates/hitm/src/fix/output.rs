//! Output of a program, compared word by word with what it printed before.
//!
//! A program may print a time or an address, which differs in every run. So the words in which runs of one version
//! differ are no part of the comparison; all others must be equal.

use std::collections::BTreeSet;

/// Output of runs of one version: the words that all of them have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Expected {
    lines: Vec<Vec<Vec<u8>>>,
    /// Line and word of what differs between runs.
    varying: BTreeSet<(usize, usize)>,
    /// Set if runs differ in their numbers of lines or words: then nothing is compared.
    is_unlike: bool,
}

impl Expected {
    pub(super) fn new(output: &[u8]) -> Expected {
        Expected {
            lines: words(output),
            varying: BTreeSet::new(),
            is_unlike: false,
        }
    }

    /// Takes another run of the same version.
    pub(super) fn learn(&mut self, output: &[u8]) {
        let lines = words(output);
        match self.shape_differs(&lines) {
            true => self.is_unlike = true,
            false => {
                let differing: Vec<(usize, usize)> = self.differing(&lines).collect();
                self.varying.extend(differing);
            }
        }
    }

    /// The first difference of another version's output, in words; none where it is the same.
    pub(super) fn difference(&self, output: &[u8]) -> Option<String> {
        let lines = words(output);
        if self.is_unlike {
            return None;
        }
        if self.shape_differs(&lines) {
            let (found, expected) = (lines.len(), self.lines.len());
            return Some(match found == expected {
                true => "its output has another number of words in a line".to_owned(),
                false => format!("its output has {found} lines, expected {expected}"),
            });
        }
        let mut differing = self.differing(&lines);
        let (line, word) = differing.find(|place| !self.varying.contains(place))?;
        let text =
            |lines: &[Vec<Vec<u8>>]| String::from_utf8_lossy(&lines[line][word]).into_owned();
        let (found, expected) = (text(&lines), text(&self.lines));
        Some(format!(
            "line {} of its output: found {found}, expected {expected}",
            line + 1
        ))
    }

    /// Number of words that are not compared.
    pub(super) fn varying_words(&self) -> u64 {
        match self.is_unlike {
            true => self.lines.iter().map(|line| line.len() as u64).sum(),
            false => self.varying.len() as u64,
        }
    }

    fn shape_differs(&self, lines: &[Vec<Vec<u8>>]) -> bool {
        let lengths =
            |lines: &[Vec<Vec<u8>>]| -> Vec<usize> { lines.iter().map(Vec::len).collect() };
        lengths(&self.lines) != lengths(lines)
    }

    fn differing<'a>(
        &'a self,
        lines: &'a [Vec<Vec<u8>>],
    ) -> impl Iterator<Item = (usize, usize)> + 'a {
        let pairs = self.lines.iter().zip(lines).enumerate();
        pairs.flat_map(|(line, (own, other))| {
            let words = own.iter().zip(other).enumerate();
            let differing = words.filter(|(_, (own, other))| own != other);
            differing.map(move |(word, _)| (line, word))
        })
    }
}

/// The words of each line.
fn words(output: &[u8]) -> Vec<Vec<Vec<u8>>> {
    let lines = output.split(|byte| *byte == b'\n');
    let lines = lines.map(|line| {
        let words = line.split(u8::is_ascii_whitespace);
        let words = words.filter(|word| !word.is_empty());
        words.map(<[u8]>::to_vec).collect()
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_varies_by_itself_is_not_compared() {
        let mut expected = Expected::new(b"sum 12\n3.1 ns\n");
        assert_eq!(expected.difference(b"sum  12\n3.1 ns\n"), None);
        let found = expected.difference(b"sum 12\n2.9 ns\n").unwrap();
        assert_eq!(found, "line 2 of its output: found 2.9, expected 3.1");
        expected.learn(b"sum 12\n4.7 ns\n");
        assert_eq!(expected.varying_words(), 1);
        assert_eq!(expected.difference(b"sum 12\n2.9 ns\n"), None);
        let found = expected.difference(b"sum 13\n2.9 ns\n").unwrap();
        assert_eq!(found, "line 1 of its output: found 13, expected 12");
        let found = expected.difference(b"sum 12\n").unwrap();
        assert_eq!(found, "its output has 2 lines, expected 3");
        expected.learn(b"");
        assert_eq!(expected.difference(b"other"), None);
        assert_eq!(expected.varying_words(), 4);
    }
}
