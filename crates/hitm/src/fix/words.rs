//! Command lines of a user: `%` is the folder of the tree, and words are as a shell has them.

use std::path::Path;

use thiserror::Error;

/// Fault of a command line.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum WordsError {
    /// There is no word.
    #[error("found no word, expected a program and its arguments")]
    Empty,
    /// A quote is not closed.
    #[error("found {quote} without its end, expected quotes in pairs")]
    Open {
        /// The quote.
        quote: char,
    },
    /// Something that a shell would do.
    #[error(
        "found {sign}, expected a program and its arguments: sh -c '...' for what a shell does"
    )]
    Shell {
        /// The sign.
        sign: char,
    },
}

/// A program and its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program(Vec<String>);

impl Program {
    /// Splits a line into words, at blanks outside of quotes.
    ///
    /// # Errors
    /// There is none, a quote is open, or a sign is for a shell.
    pub fn parse(line: &str) -> Result<Program, WordsError> {
        let mut words: Vec<String> = Vec::new();
        let mut word: Option<String> = None;
        let mut quote = None;
        let mut characters = line.chars();
        while let Some(character) = characters.next() {
            match (quote, character) {
                (Some(open), _) if character == open => quote = None,
                (Some('\''), _) => word.get_or_insert_default().push(character),
                (_, '\\') => word.get_or_insert_default().extend(characters.next()),
                (Some(_), _) => word.get_or_insert_default().push(character),
                (None, '\'' | '"') => {
                    quote = Some(character);
                    word.get_or_insert_default();
                }
                (None, '|' | '&' | ';' | '<' | '>' | '$' | '`') => {
                    return Err(WordsError::Shell { sign: character });
                }
                (None, _) if character.is_whitespace() => words.extend(word.take()),
                (None, _) => word.get_or_insert_default().push(character),
            }
        }
        words.extend(word);
        match quote {
            Some(quote) => Err(WordsError::Open { quote }),
            None if words.is_empty() => Err(WordsError::Empty),
            None => Ok(Program(words)),
        }
    }

    /// The words as they stand.
    pub(super) fn words(&self) -> &[String] {
        &self.0
    }

    /// The words for a tree.
    pub(super) fn at(&self, folder: &Path) -> Vec<String> {
        let folder = folder.display().to_string();
        self.0.iter().map(|word| filled(word, &folder)).collect()
    }
}

/// A line for a shell with the folder, in quotes where it needs them, in the place of `%`.
pub fn shell_line(line: &str, folder: &Path) -> String {
    let folder = folder.display().to_string();
    let is_plain =
        |character: char| character.is_ascii_alphanumeric() || "/._-".contains(character);
    match folder.chars().all(is_plain) {
        true => filled(line, &folder),
        false => filled(line, &format!("'{}'", folder.replace('\'', r"'\''"))),
    }
}

/// The text with `%` as the folder, and `%%` as `%`.
fn filled(text: &str, folder: &str) -> String {
    let mut out = String::new();
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '%' if characters.next_if_eq(&'%').is_some() => out.push('%'),
            '%' => out += folder,
            _ => out.push(character),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_a_shell() {
        let words = |line: &str| Program::parse(line).map(|program| program.at(Path::new("/t e")));
        let owned = |words: &[&str]| Ok(words.iter().map(|word| (*word).to_owned()).collect());
        assert_eq!(words("%/prog  20 4"), owned(&["/t e/prog", "20", "4"]));
        assert_eq!(
            words(r#"a 'b "c' "d 'e" \ f """#),
            owned(&["a", "b \"c", "d 'e", " f", ""])
        );
        assert_eq!(words("a 5%% %"), owned(&["a", "5%", "/t e"]));
        assert_eq!(words("  "), Err(WordsError::Empty));
        assert_eq!(words("a 'b"), Err(WordsError::Open { quote: '\'' }));
        assert_eq!(words("a | b"), Err(WordsError::Shell { sign: '|' }));
    }

    #[test]
    fn a_folder_is_one_word_of_a_shell() {
        let line = shell_line("make -C % CC=gcc%%", Path::new("/a b'c"));
        assert_eq!(line, r"make -C '/a b'\''c' CC=gcc%");
    }
}
