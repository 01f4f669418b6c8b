//! Standard output and error, and what they can show.
//!
//! Text for people is a [`Printout`], which no name in it can forge; there is no other way to write it.

use std::fmt;
use std::io::{self, IsTerminal as _, Write};

use anyhow::{Context as _, Error, Result};
use hitm::pager::Pager;
use hitm::vm::VmError;
use hitm_base::printable_json;
use hitm_files::streams::StandardOutput;
use hitm_report::text::TextOptions;
use hitm_report::{Printout, messages};

/// Standard output does not take a result.
#[derive(Debug)]
pub(crate) struct ResultNotWritten;

impl fmt::Display for ResultNotWritten {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("cannot write the result")
    }
}

/// Destination of results and messages.
pub struct Terminal {
    out: Box<dyn Write>,
    err: Box<dyn Write>,
    color: bool,
    is_terminal: bool,
    /// Notes are left out.
    is_quiet: bool,
    /// Recordings say what they are made with.
    is_verbose: bool,
    /// Columns of text that the user chose.
    width: Option<usize>,
    /// Rows of the screen and what shows longer text; none where nobody looks at a screen.
    pager: Option<(usize, Pager)>,
}

impl fmt::Debug for Terminal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Terminal")
            .field("color", &self.color)
            .finish_non_exhaustive()
    }
}

impl Terminal {
    /// A terminal on any two writers; `color` says whether somebody looks at it, in colours.
    pub fn new(out: Box<dyn Write>, err: Box<dyn Write>, color: bool) -> Terminal {
        Terminal {
            out,
            err,
            color,
            is_terminal: color,
            is_quiet: false,
            is_verbose: false,
            width: None,
            pager: None,
        }
    }

    /// This process's own. Colours on a terminal, unless `NO_COLOR` is set to something or the terminal
    /// says that it has none.
    pub fn of_this_process() -> Terminal {
        let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let refused = no_color || is_dumb();
        let is_terminal = io::stdout().is_terminal();
        Terminal {
            out: Box::new(StandardOutput),
            err: Box::new(io::stderr()),
            color: is_terminal && !refused,
            is_terminal,
            is_quiet: false,
            is_verbose: false,
            width: columns(),
            pager: is_terminal.then(screen_pager).flatten(),
        }
    }

    /// Sets the columns of text, if the user chose them.
    pub(crate) fn set_width(&mut self, width: Option<u16>) {
        self.width = width.map(usize::from).or(self.width);
    }

    /// Leaves notes out, if the user wants that.
    pub(crate) fn set_quiet(&mut self, is_quiet: bool) {
        self.is_quiet = is_quiet;
    }

    /// Lets recordings say what they are made with, if the user wants that.
    pub(crate) fn set_verbose(&mut self, is_verbose: bool) {
        self.is_verbose = is_verbose;
    }

    /// True if recordings say what they are made with.
    pub(crate) fn is_verbose(&self) -> bool {
        self.is_verbose
    }

    /// True if results may have colours.
    pub fn color(&self) -> bool {
        self.color
    }

    /// True if results go to a terminal.
    pub(crate) fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// Columns of text: those that the user chose, those of the terminal that results go to, or what suits a file.
    pub(crate) fn width(&self) -> usize {
        if let Some(width) = self.width {
            return width;
        }
        let of_terminal = terminal_size::terminal_size_of(io::stdout());
        of_terminal.map_or(TextOptions::WIDTH_DEFAULT, |(width, _)| {
            usize::from(width.0)
        })
    }

    /// Writes a result for people, to the last byte.
    pub fn out(&mut self, text: &Printout) -> Result<()> {
        self.write_out(text)
    }

    /// Writes one line of a result that comes line by line.
    pub(crate) fn line(&mut self, line: &str) -> Result<()> {
        self.out(&messages::line(line))
    }

    /// Writes a result that may be longer than the screen.
    pub(crate) fn long_out(&mut self, text: &Printout) -> Result<()> {
        if let Some((rows, pager)) = &self.pager
            && text.lines().count() >= *rows
            && pager.show(text)?
        {
            return Ok(());
        }
        self.out(text)
    }

    /// Writes a result in JSON: no value changes, and none acts on a terminal.
    pub(crate) fn json(&mut self, json: &str) -> Result<()> {
        self.write_out(&printable_json(json))
    }

    /// Writes a result that is another tool's input, such as source or TOML: as it is, unless it goes
    /// to a terminal.
    pub(crate) fn source(&mut self, text: &str) -> Result<()> {
        if !self.is_terminal {
            return self.write_out(text);
        }
        self.write_out(&messages::block("", text))
    }

    fn write_out(&mut self, text: &str) -> Result<()> {
        let written = self.out.write_all(text.as_bytes());
        written
            .and_then(|()| self.out.flush())
            .context(ResultNotWritten)
    }

    /// Writes messages to standard error. When that fails there is nobody left to tell.
    pub(crate) fn err(&mut self, messages: &Printout) {
        let _ = self
            .err
            .write_all(messages.as_bytes())
            .and_then(|()| self.err.flush());
    }

    /// Writes a message of one line to standard error: `hitm: message`; nothing where the user wants errors alone.
    pub(crate) fn note(&mut self, message: &str) {
        if !self.is_quiet {
            self.say(message);
        }
    }

    fn say(&mut self, message: &str) {
        self.err(&messages::line(&format!("hitm: {message}")));
    }

    /// Writes an error and its causes: `hitm: error: what: why: why`. The end of a guest's console
    /// follows, each line behind a bar.
    pub fn error(&mut self, error: &Error) {
        let (message, console) = match error.downcast_ref::<VmError>() {
            Some(VmError::Guest { problem, console }) => (problem.clone(), console.as_str()),
            _ => (with_causes(error), ""),
        };
        self.say(&format!("error: {message}"));
        if !console.is_empty() {
            self.say("the last lines of its console:");
            self.err(&messages::block("  | ", console));
        }
    }

    /// clap's text, coloured if we may, `before` it.
    pub(crate) fn rendered(&self, before: &str, error: &clap::Error) -> Printout {
        let text = error.render();
        match self.color {
            true => messages::colored_block(&format!("{before}{}", text.ansi())),
            false => messages::block("", &format!("{before}{text}")),
        }
    }

    /// Writes an error to standard error when nothing else may work any more.
    pub fn complain(message: &str) {
        let line = messages::line(&format!("hitm: error: {message}"));
        let _ = io::stderr().write_all(line.as_bytes());
    }
}

/// `COLUMNS`, where it is a number.
fn columns() -> Option<usize> {
    let columns = std::env::var("COLUMNS").ok()?.parse().ok();
    columns.filter(|columns| *columns > 0)
}

/// Rows of the screen, and its pager. Without a cursor there is none.
fn screen_pager() -> Option<(usize, Pager)> {
    if std::env::var_os("TERM").is_some_and(|name| name == "dumb") {
        return None;
    }
    let (_, rows) = terminal_size::terminal_size_of(io::stdout())?;
    Some((rows.0.into(), Pager::of_environment()?))
}

/// Returns true if the user's terminal has neither colours nor a cursor.
pub(crate) fn is_dumb() -> bool {
    std::env::var_os("TERM").is_some_and(|name| name == "dumb")
}

/// An error with its causes. One that its error has told already is not told again.
fn with_causes(error: &Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.contains(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use super::*;

    /// Collects written bytes.
    #[derive(Clone, Default)]
    struct Written(Rc<RefCell<Vec<u8>>>);

    impl Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.borrow_mut().extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Compares both outputs after `write` with `expected`, on a terminal or not.
    fn check(is_terminal: bool, write: impl Fn(&mut Terminal), expected: &str) {
        let written = Written::default();
        let (out, err) = (written.clone(), written.clone());
        let mut terminal = Terminal::new(Box::new(out), Box::new(err), is_terminal);
        write(&mut terminal);
        let bytes = written.0.borrow().clone();
        assert_eq!(String::from_utf8(bytes).unwrap(), expected);
    }

    #[test]
    fn source_is_exact_in_a_file_and_printable_on_a_terminal() {
        let source = |terminal: &mut Terminal| terminal.source("\tint a;\x0c\r\n").unwrap();
        check(false, source, "\tint a;\x0c\r\n");
        check(true, source, "\tint a;\\x0c\n");
        let json = |terminal: &mut Terminal| terminal.json("[\n\"\u{9b}2J\"]\n").unwrap();
        check(false, json, "[\n\"\\u009b2J\"]\n");
    }

    #[test]
    fn a_cause_stays_in_the_line_of_its_error() {
        let error = Error::msg("no such\nhitm: all is well").context("a\x1b[2J");
        let expected = "hitm: error: a\\x1b[2J: no such\\nhitm: all is well\n";
        check(false, |terminal| terminal.error(&error), expected);
    }

    #[test]
    fn the_console_of_a_guest_stands_behind_bars() {
        let error = Error::new(VmError::Guest {
            problem: String::from("booting: it\nended"),
            console: String::from("Kernel panic\nhitm: error: x\x1b[2J"),
        });
        let expected = "hitm: error: booting: it\\nended\nhitm: the last lines of its console:\n  | Kernel panic\n  | hitm: error: x\\x1b[2J\n";
        check(false, |terminal| terminal.error(&error), expected);
    }

    #[test]
    fn a_cause_is_told_once() {
        let cause = || Error::msg("no such file");
        let untold = cause().context("cannot read a.toml");
        let told = cause().context("a.toml: no such file");
        let within = cause().context("no such file: is it mounted?");
        let twice = cause()
            .context("a.toml: no such file")
            .context("cannot start");
        assert_eq!(with_causes(&untold), "cannot read a.toml: no such file");
        assert_eq!(with_causes(&told), "a.toml: no such file");
        assert_eq!(with_causes(&within), "no such file: is it mounted?");
        assert_eq!(with_causes(&twice), "cannot start: a.toml: no such file");
    }
}
