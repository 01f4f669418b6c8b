//! Standard output and error, and what they can show.

use std::fmt;
use std::io::{self, IsTerminal as _, Write};

use anyhow::{Context as _, Error, Result};
use hitm::streams::StandardOutput;
use hitm_report::text::TextOptions;

/// Standard output does not take a result.
#[derive(Debug)]
pub(crate) struct ResultNotWritten;

impl fmt::Display for ResultNotWritten {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("cannot write the result")
    }
}

/// Where results and messages go.
pub struct Terminal {
    out: Box<dyn Write>,
    err: Box<dyn Write>,
    color: bool,
}

impl fmt::Debug for Terminal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Terminal")
            .field("color", &self.color)
            .finish_non_exhaustive()
    }
}

impl Terminal {
    /// A terminal on any two writers; `color` says whether results may have colours.
    pub fn new(out: Box<dyn Write>, err: Box<dyn Write>, color: bool) -> Terminal {
        Terminal { out, err, color }
    }

    /// This process's own. Colours on a terminal, unless `NO_COLOR` is set to something.
    pub fn of_this_process() -> Terminal {
        let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let color = io::stdout().is_terminal() && !refused;
        Terminal::new(Box::new(StandardOutput), Box::new(io::stderr()), color)
    }

    /// Whether results may have colours.
    pub fn color(&self) -> bool {
        self.color
    }

    /// Columns of the terminal that results go to, or what suits a file.
    pub(crate) fn width(&self) -> usize {
        let of_terminal = terminal_size::terminal_size_of(io::stdout());
        of_terminal.map_or(TextOptions::WIDTH_DEFAULT, |(width, _)| {
            usize::from(width.0)
        })
    }

    /// Writes a result, to the last byte.
    pub fn out(&mut self, text: &str) -> Result<()> {
        let written = self.out.write_all(text.as_bytes());
        written
            .and_then(|()| self.out.flush())
            .context(ResultNotWritten)
    }

    /// Writes to standard error. When that fails there is nobody left to tell.
    pub fn err(&mut self, text: &str) {
        let _ = self
            .err
            .write_all(text.as_bytes())
            .and_then(|()| self.err.flush());
    }

    /// Writes an error and its causes: `hitm: error: what: why: why`.
    pub fn error(&mut self, error: &Error) {
        self.err(&format!("hitm: error: {}\n", with_causes(error)));
    }

    /// clap's text, coloured if we may.
    pub(crate) fn rendered(&self, error: &clap::Error) -> String {
        let text = error.render();
        if self.color {
            text.ansi().to_string()
        } else {
            text.to_string()
        }
    }

    /// Writes an error to standard error when nothing else may work any more.
    pub fn complain(message: &str) {
        let _ = writeln!(io::stderr(), "hitm: error: {message}");
    }
}

/// An error with its causes. One that its error has told already is not told again.
fn with_causes(error: &Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.ends_with(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_told_once() {
        let cause = || Error::msg("no such file");
        let untold = cause().context("cannot read a.toml");
        let told = cause().context("a.toml: no such file");
        let twice = cause()
            .context("a.toml: no such file")
            .context("cannot start");
        assert_eq!(with_causes(&untold), "cannot read a.toml: no such file");
        assert_eq!(with_causes(&told), "a.toml: no such file");
        assert_eq!(with_causes(&twice), "cannot start: a.toml: no such file");
    }
}
