//! The terminal while a view has it, and its way back.

use std::io::{self, IsTerminal as _, Stdout, Write as _};
use std::panic;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result};
use hitm_files::streams::{Input, wait_for_input};
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::crossterm::{cursor, execute};
use ratatui::{Frame, Terminal};

/// A key that was pressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Key {
    Character(char),
    Interrupt,
    Tab,
    BackTab,
    Enter,
    Escape,
    Backspace,
    Up,
    Down,
    Left,
    Right,
    PageUp,
    PageDown,
    Home,
    End,
}

/// Set while the terminal is the view's: the first to give it back clears it.
static IS_ENTERED: AtomicBool = AtomicBool::new(false);

/// The terminal, without echo, on its second screen. Dropping it gives the terminal back; so does a panic, before it
/// says anything.
#[derive(Debug)]
pub(crate) struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
    has_colors: bool,
}

impl Screen {
    /// Takes the terminal.
    pub(crate) fn enter(has_colors: bool) -> Result<Screen> {
        let former = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            leave();
            former(info);
        }));
        enable_raw_mode().context("cannot read keys from the terminal")?;
        IS_ENTERED.store(true, Ordering::Release);
        let entered = || -> io::Result<Screen> {
            let mut out = io::stdout();
            execute!(out, EnterAlternateScreen, cursor::Hide)?;
            Ok(Screen {
                terminal: Terminal::new(CrosstermBackend::new(out))?,
                has_colors,
            })
        };
        entered()
            .context("cannot write to the terminal")
            .inspect_err(|_| leave())
    }

    /// Draws the view, unless the terminal has been given back.
    pub(crate) fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>, bool)) -> Result<()> {
        if !IS_ENTERED.load(Ordering::Acquire) {
            return Ok(());
        }
        let has_colors = self.has_colors;
        let drawn = self.terminal.draw(|frame| draw(frame, has_colors));
        drawn.context("cannot write to the terminal")?;
        Ok(())
    }

    /// Waits for keys, for a time at most, and returns those that were pressed. The end of the terminal is Ctrl-C.
    pub(crate) fn keys(&mut self, time: Duration) -> Result<Vec<Key>> {
        let mut keys = Vec::new();
        let mut wait = time;
        // Behind a closed terminal, crossterm would read its end for ever.
        if io::stdin().is_terminal() {
            wait = Duration::ZERO;
            if wait_for_input(time) == Input::HungUp {
                return Ok(vec![Key::Interrupt]);
            }
        }
        while event::poll(wait).context("cannot read keys from the terminal")? {
            let event = event::read().context("cannot read keys from the terminal")?;
            if let Event::Key(event) = event {
                keys.extend(key(event));
            }
            wait = Duration::ZERO;
        }
        Ok(keys)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        leave();
    }
}

/// Gives the terminal back as it was. Nobody is left to tell when that fails.
fn leave() {
    if !IS_ENTERED.swap(false, Ordering::AcqRel) {
        return;
    }
    let mut out = io::stdout();
    let _ = execute!(out, LeaveAlternateScreen, cursor::Show);
    let _ = out.flush();
    let _ = disable_raw_mode();
}

fn key(event: KeyEvent) -> Option<Key> {
    if event.kind == KeyEventKind::Release {
        return None;
    }
    let is_control = event.modifiers.contains(KeyModifiers::CONTROL);
    Some(match event.code {
        KeyCode::Char('c') if is_control => Key::Interrupt,
        KeyCode::Char(character) if !is_control => Key::Character(character),
        KeyCode::Tab => Key::Tab,
        KeyCode::BackTab => Key::BackTab,
        KeyCode::Enter => Key::Enter,
        KeyCode::Esc => Key::Escape,
        KeyCode::Backspace => Key::Backspace,
        KeyCode::Left => Key::Left,
        KeyCode::Right => Key::Right,
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::Home => Key::Home,
        KeyCode::End => Key::End,
        _ => return None,
    })
}

#[cfg(test)]
#[path = "../../tests/it/pty.rs"]
#[expect(dead_code, reason = "the end-to-end tests use the rest")]
mod pty;

#[cfg(test)]
mod tests {
    use hitm_test::process::Command;
    use ratatui::layout::Size;

    use super::*;
    use crate::tui::{Look, paint};
    use crate::{Exit, guarded};

    const NAME: &str = "tui::screen::tests::a_panic_gives_the_terminal_back";
    /// Set in the process that panics.
    const PANICS: &str = "HITM_TEST_PANICS_IN_VIEW";

    #[test]
    fn a_panic_gives_the_terminal_back() {
        if std::env::var_os(PANICS).is_some() {
            let exit = guarded(|| {
                let mut screen = Screen::enter(true).unwrap();
                let line = (String::from("it"), Look::Plain);
                let draw = |frame: &mut Frame<'_>, has_colors| paint(frame, &[line], has_colors);
                screen.draw(draw).unwrap();
                panic!("as the test wants");
            });
            assert_eq!(exit, Exit::Internal);
            return;
        }
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", NAME, "--nocapture"])
            .env(PANICS, "1");
        let mut other = pty::Pty::start(&mut Command::new("true"), Size::new(80, 24));
        other.end();
        let mut pty = pty::Pty::start(&mut command, Size::new(80, 24));
        assert_eq!(pty.end().code(), Some(0), "{}", pty.screen());
        let written = || String::from_utf8_lossy(&pty.bytes()).into_owned();
        pty.wait_until("the end", |_| written().contains("test result"));
        // The view was there, and the message came on the first screen.
        assert!(written().contains("\x1b[?1049h"), "{}", written());
        assert!(pty.is_given_back());
        assert!(
            pty.screen().contains("as the test wants"),
            "{}",
            pty.screen()
        );
        assert_eq!(pty.settings(), other.settings());
    }
}
