//! Parts that views in the terminal share: the terminal itself, its keys, and styled lines.

mod look;
mod screen;

use anyhow::{Result, bail};

use crate::terminal::{Terminal, is_dumb};
pub(crate) use look::{Lines, Look, lines, list, paint};
pub(crate) use screen::{Key, Screen};

/// Refuses to show a view where nobody could see it, with a message for standard output that is no terminal and one
/// for a terminal without a cursor.
pub(crate) fn check(terminal: &Terminal, no_terminal: &str, dumb: &str) -> Result<()> {
    if !terminal.is_terminal() {
        bail!("{no_terminal}");
    }
    if is_dumb() {
        bail!("{dumb}");
    }
    Ok(())
}
