//! State of the view: what keys and windows of time change. Nothing here draws or observes.

use std::rc::Rc;
use std::time::Duration;

use hitm_report::live::{LockView, Window};

use super::layers::{LAYERS, Sent};
use crate::tui::Key;

/// Work that a key asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    None,
    Quit,
    /// Place the threads of [`State::selected_lock`].
    Place,
    Undo,
}

/// The last window of a layer.
#[derive(Debug)]
pub(super) enum Seen {
    /// The first one has not ended.
    NotYet,
    /// There are none: the reason.
    Never(String),
    /// This one.
    Window(Rc<dyn Window>),
}

/// A row that is looked at closely.
#[derive(Debug)]
pub(super) struct Detail {
    /// The last window that had it.
    pub(super) window: Rc<dyn Window>,
    /// Its number there.
    pub(super) row: usize,
    /// Set when a later window has no such row.
    pub(super) is_gone: bool,
    /// Lines above the screen.
    pub(super) scroll: usize,
}

/// A table of the view.
#[derive(Debug)]
pub(super) struct Tab {
    pub(super) title: &'static str,
    pub(super) seen: Seen,
    pub(super) cursor: Cursor,
}

impl Tab {
    /// The window, if there is one.
    pub(super) fn window(&self) -> Option<&Rc<dyn Window>> {
        match &self.seen {
            Seen::Window(window) => Some(window),
            Seen::NotYet | Seen::Never(_) => None,
        }
    }

    /// Takes in a window. The selected row stays selected.
    fn take(&mut self, seen: Seen) {
        self.seen = seen;
        let count = self.row_count();
        let key = self.cursor.key.as_deref();
        let found = key.and_then(|key| self.window().and_then(|window| row_of(&**window, key)));
        let index = found.unwrap_or(self.cursor.index);
        self.cursor.index = index.min(count.saturating_sub(1));
    }

    fn row_count(&self) -> usize {
        self.window().map_or(0, |window| window.row_count())
    }

    /// Moves the selection.
    fn step(&mut self, by: isize) {
        let last = self.row_count().saturating_sub(1);
        let index = self.cursor.index.saturating_add_signed(by).min(last);
        self.cursor.key = self.window().and_then(|window| window.key(index));
        self.cursor.index = index;
    }
}

fn row_of(window: &dyn Window, key: &str) -> Option<usize> {
    (0..window.row_count()).find(|row| window.key(*row).as_deref() == Some(key))
}

/// The selected row of a table. It stays with what it shows while the order changes.
#[derive(Debug, Clone, Default)]
pub(super) struct Cursor {
    pub(super) index: usize,
    key: Option<String>,
    /// The first row on the screen.
    pub(super) top: usize,
}

/// State of the view.
#[derive(Debug)]
pub(super) struct State {
    pub(super) target: String,
    pub(super) window: Duration,
    pub(super) tabs: Vec<Tab>,
    /// Number of the one that is shown.
    pub(super) tab: usize,
    pub(super) detail: Option<Detail>,
    pub(super) has_help: bool,
    /// The last message; empty for none.
    pub(super) told: String,
    pub(super) is_placed: bool,
    /// Rows that the last screen had room for.
    pub(super) page: usize,
}

impl State {
    /// A view of `target` in windows of a length.
    pub(super) fn new(target: String, window: Duration) -> State {
        let tabs = LAYERS.iter().map(|layer| Tab {
            title: layer.title,
            seen: Seen::NotYet,
            cursor: Cursor::default(),
        });
        State {
            target,
            window,
            tabs: tabs.collect(),
            tab: 0,
            detail: None,
            has_help: false,
            told: String::new(),
            is_placed: false,
            page: 1,
        }
    }

    /// Shows a message until the next one.
    pub(super) fn tell(&mut self, message: &str) {
        message.clone_into(&mut self.told);
    }

    /// Says whether threads are placed.
    pub(super) fn set_placed(&mut self, is_placed: bool) {
        self.is_placed = is_placed;
    }

    /// The table that is shown.
    pub(super) fn shown(&self) -> &Tab {
        &self.tabs[self.tab]
    }

    /// Takes in a window. Selected rows stay selected.
    pub(super) fn take(&mut self, sent: Sent) {
        let seen = match sent.window {
            Ok(window) => Seen::Window(Rc::from(window)),
            Err(reason) => Seen::Never(reason),
        };
        self.tabs[sent.layer].take(seen);
        if sent.layer == self.tab {
            self.refresh_detail();
        }
    }

    fn refresh_detail(&mut self) {
        let Some(detail) = &mut self.detail else {
            return;
        };
        let now = self.tabs[self.tab].window();
        let found = detail.window.key(detail.row).and_then(|key| {
            let window = now?;
            Some((Rc::clone(window), row_of(&**window, &key)?))
        });
        detail.is_gone = found.is_none();
        if let Some((window, row)) = found {
            (detail.window, detail.row) = (window, row);
        }
    }

    /// The lock whose detail is shown, or which is selected.
    pub(super) fn selected_lock(&self) -> Option<&LockView> {
        match &self.detail {
            Some(detail) => detail.window.lock(detail.row),
            None => self.shown().window()?.lock(self.shown().cursor.index),
        }
    }

    /// Takes in a key, and returns what is to be done for it.
    pub(super) fn key(&mut self, key: Key) -> Action {
        match key {
            Key::Interrupt | Key::Character('q') => return Action::Quit,
            Key::Character('?') => self.has_help = !self.has_help,
            // Any other key ends the help.
            _ if self.has_help => self.has_help = false,
            Key::Escape if self.detail.is_none() => return Action::Quit,
            Key::Escape => self.detail = None,
            Key::Character('p') => return Action::Place,
            Key::Character('u') => return Action::Undo,
            Key::Tab => self.turn_to((self.tab + 1) % self.tabs.len()),
            Key::BackTab => self.turn_to((self.tab + self.tabs.len() - 1) % self.tabs.len()),
            Key::Character(digit @ '1'..='9') => self.turn_to(digit as usize - '1' as usize),
            Key::Enter => self.open_or_close(),
            Key::Up | Key::Character('k') => self.step(-1),
            Key::Down | Key::Character('j') => self.step(1),
            Key::PageUp => self.step(-(self.page as isize)),
            Key::PageDown => self.step(self.page as isize),
            Key::Home => self.step(isize::MIN),
            Key::End => self.step(isize::MAX),
            Key::Character(_) | Key::Left | Key::Right | Key::Backspace => {}
        }
        Action::None
    }

    fn turn_to(&mut self, tab: usize) {
        if tab < self.tabs.len() {
            self.tab = tab;
            self.detail = None;
        }
    }

    fn open_or_close(&mut self) {
        if self.detail.take().is_some() {
            return;
        }
        let row = self.shown().cursor.index;
        let window = self.shown().window();
        let window = window.filter(|window| row < window.row_count());
        self.detail = window.cloned().map(|window| Detail {
            window,
            row,
            is_gone: false,
            scroll: 0,
        });
    }

    /// Moves the selection, or the text of a detail. The screen keeps the text from going too far.
    fn step(&mut self, by: isize) {
        match &mut self.detail {
            Some(detail) => detail.scroll = detail.scroll.saturating_add_signed(by),
            None => self.tabs[self.tab].step(by),
        }
    }
}
