//! The program that shows text longer than the screen: `PAGER`, or less.

use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};

/// Options of less, unless the user has some: it ends by itself when the text fits, keeps colours, and leaves the text
/// on the screen.
const LESS: &str = "FRX";

/// A command that shows text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pager {
    command: String,
}

impl Pager {
    /// The user's pager, or less. None where the user wants none: an empty `PAGER`, or `cat`.
    pub fn of_environment() -> Option<Pager> {
        let command = match std::env::var("PAGER") {
            Ok(command) => command,
            Err(_) if is_installed("less") => "less".to_owned(),
            Err(_) => return None,
        };
        let command = command.trim();
        let is_none = command.is_empty() || command == "cat";
        (!is_none).then(|| Pager {
            command: command.to_owned(),
        })
    }

    /// Shows the text and returns true when the user has seen enough; false if there is no such program.
    ///
    /// # Errors
    /// The pager takes no text, though the user did not end it.
    pub fn show(&self, text: &str) -> io::Result<bool> {
        let Some(mut child) = self.start()? else {
            return Ok(false);
        };
        // Ctrl-C is the pager's: without this process it would fight the shell for the terminal.
        // SAFETY: a plain system call; the former action comes back below.
        let former = unsafe { libc::signal(libc::SIGINT, libc::SIG_IGN) };
        let mut input = child.stdin.take().expect("it was asked for");
        let written = input.write_all(text.as_bytes());
        drop(input);
        let ended = child.wait();
        // SAFETY: gives the signal back to the handler that had it.
        unsafe { libc::signal(libc::SIGINT, former) };
        let status = ended?;
        match written {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
            // What a shell ends with that finds no such program.
            _ => Ok(status.code() != Some(127)),
        }
    }

    fn start(&self) -> io::Result<Option<Child>> {
        let mut shell = Command::new("sh");
        shell.args(["-c", &self.command]).stdin(Stdio::piped());
        if std::env::var_os("LESS").is_none() {
            shell.env("LESS", LESS);
        }
        // SAFETY: a system call alone.
        unsafe {
            shell.pre_exec(|| {
                libc::signal(libc::SIGINT, libc::SIG_DFL);
                Ok(())
            });
        }
        match shell.spawn() {
            Ok(child) => Ok(Some(child)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pager(command: &str) -> Pager {
        Pager {
            command: command.to_owned(),
        }
    }

    #[test]
    fn the_pager_gets_the_text() {
        let folder = tempfile::tempdir().unwrap();
        let shown = folder.path().join("shown");
        let command = format!("cat > {}; echo $LESS >> {0}", shown.display());
        assert!(pager(&command).show("one\ntwo\n").unwrap());
        let options = std::env::var("LESS").unwrap_or_else(|_| LESS.to_owned());
        let expected = format!("one\ntwo\n{options}\n");
        assert_eq!(std::fs::read_to_string(shown).unwrap(), expected);
    }

    #[test]
    fn a_reader_that_has_seen_enough_is_no_error() {
        // More than a pipe holds.
        let long = "x\n".repeat(1 << 20);
        assert!(pager("head -n 1 > /dev/null").show(&long).unwrap());
    }

    #[test]
    fn a_missing_pager_shows_nothing() {
        assert!(
            !pager("no-such-pager-of-hitm 2> /dev/null")
                .show("x\n")
                .unwrap()
        );
    }
}
