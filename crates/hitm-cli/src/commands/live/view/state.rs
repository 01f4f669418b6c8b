//! State of the view: what keys and windows of time change. Nothing here draws or observes.

use std::time::Duration;

use hitm_live::throttle::{GroupRow, TaskRow, ThrottleReport};
use hitm_live::wakeups::{Measured, RunDelay, TaskLatencies, WakeupReport};
use hitm_report::live::{LiveLocks, LockView};

use super::layers::Window;
use crate::tui::Key;

/// A table of the view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tab {
    Locks,
    Groups,
    Wakeups,
}

impl Tab {
    pub(super) const ALL: [Tab; 3] = [Tab::Locks, Tab::Groups, Tab::Wakeups];

    pub(super) const fn title(self) -> &'static str {
        match self {
            Tab::Locks => "Locks by wasted CPU time",
            Tab::Groups => "Throttled groups",
            Tab::Wakeups => "Late wake-ups",
        }
    }

    fn beside(self, by: usize) -> Tab {
        Tab::ALL[(self as usize + by) % Tab::ALL.len()]
    }
}

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
pub(super) enum Seen<T> {
    /// The first one has not ended.
    NotYet,
    /// There are none: the reason.
    Never(String),
    /// This one.
    Window(T),
}

impl<T> Seen<T> {
    fn of(window: Result<T, String>) -> Seen<T> {
        window.map_or_else(Seen::Never, Seen::Window)
    }

    /// The window, if there is one.
    pub(super) fn window(&self) -> Option<&T> {
        match self {
            Seen::Window(window) => Some(window),
            Seen::NotYet | Seen::Never(_) => None,
        }
    }
}

/// A row with all that its detail shows.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Row {
    Lock(LockView),
    Group(Box<GroupRow>, Vec<TaskRow>),
    Wakeup(TaskLatencies),
    RunDelay(RunDelay),
}

impl Row {
    /// The same for the same thing in another window.
    fn key(&self) -> String {
        match self {
            Row::Lock(view) => view.lock.title(),
            Row::Group(group, _) => group.path.clone(),
            Row::Wakeup(task) => task.tid.to_string(),
            Row::RunDelay(task) => task.tid.to_string(),
        }
    }
}

/// A row that is looked at closely.
#[derive(Debug)]
pub(super) struct Detail {
    pub(super) row: Row,
    /// Set when the last window has no such row: the figures are those of the last one that had it.
    pub(super) is_gone: bool,
    /// Lines above the screen.
    pub(super) scroll: usize,
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
    pub(super) tab: Tab,
    pub(super) locks: Seen<LiveLocks>,
    pub(super) groups: Seen<ThrottleReport>,
    pub(super) wakeups: Seen<WakeupReport>,
    pub(super) cursors: [Cursor; 3],
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
        State {
            target,
            window,
            tab: Tab::Locks,
            locks: Seen::NotYet,
            groups: Seen::NotYet,
            wakeups: Seen::NotYet,
            cursors: Default::default(),
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

    /// Takes in a window. Selected rows stay selected.
    pub(super) fn take(&mut self, window: Window) {
        let tab = match window {
            Window::Locks(window) => {
                self.locks = Seen::of(window);
                Tab::Locks
            }
            Window::Groups(window) => {
                self.groups = Seen::of(window);
                Tab::Groups
            }
            Window::Wakeups(window) => {
                self.wakeups = Seen::of(window);
                Tab::Wakeups
            }
        };
        let count = self.row_count(tab);
        let rows: Vec<String> = (0..count)
            .filter_map(|index| self.key_at(tab, index))
            .collect();
        let cursor = &mut self.cursors[tab as usize];
        let found = cursor.key.as_ref();
        let found = found.and_then(|key| rows.iter().position(|row| row == key));
        cursor.index = found.unwrap_or(cursor.index).min(count.saturating_sub(1));
        if tab == self.tab {
            self.refresh_detail(&rows);
        }
    }

    fn refresh_detail(&mut self, rows: &[String]) {
        let Some(detail) = &self.detail else {
            return;
        };
        let key = detail.row.key();
        let row = rows.iter().position(|row| *row == key);
        let row = row.and_then(|index| self.row(self.tab, index));
        if let Some(detail) = &mut self.detail {
            detail.is_gone = row.is_none();
            detail.row = row.unwrap_or_else(|| detail.row.clone());
        }
    }

    /// Rows of a table.
    pub(super) fn row_count(&self, tab: Tab) -> usize {
        let count = match tab {
            Tab::Locks => self.locks.window().map(|locks| locks.locks.len()),
            Tab::Groups => self.groups.window().map(|report| report.groups.len()),
            Tab::Wakeups => self.wakeups.window().map(|report| match &report.measured {
                Measured::Wakeups(table) => table.tasks.len(),
                Measured::RunDelays { delays, .. } => delays.len(),
            }),
        };
        count.unwrap_or(0)
    }

    fn key_at(&self, tab: Tab, index: usize) -> Option<String> {
        match tab {
            Tab::Locks => Some(self.locks.window()?.locks.get(index)?.lock.title()),
            Tab::Groups => Some(self.groups.window()?.groups.get(index)?.path.clone()),
            Tab::Wakeups => self.row(tab, index).map(|row| row.key()),
        }
    }

    fn row(&self, tab: Tab, index: usize) -> Option<Row> {
        Some(match tab {
            Tab::Locks => Row::Lock(self.locks.window()?.locks.get(index)?.clone()),
            Tab::Groups => {
                let report = self.groups.window()?;
                let group = report.groups.get(index)?;
                let tasks = report.tasks.iter();
                let tasks = tasks.filter(|task| task.throttled_by == group.id);
                Row::Group(Box::new(group.clone()), tasks.cloned().collect())
            }
            Tab::Wakeups => match &self.wakeups.window()?.measured {
                Measured::Wakeups(table) => Row::Wakeup(table.tasks.get(index)?.clone()),
                Measured::RunDelays { delays, .. } => Row::RunDelay(delays.get(index)?.clone()),
            },
        })
    }

    /// The lock whose detail is shown, or which is selected.
    pub(super) fn selected_lock(&self) -> Option<&LockView> {
        match &self.detail {
            Some(Detail {
                row: Row::Lock(view),
                ..
            }) => Some(view),
            Some(_) => None,
            None if self.tab == Tab::Locks => {
                let index = self.cursors[Tab::Locks as usize].index;
                self.locks.window()?.locks.get(index)
            }
            None => None,
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
            Key::Tab => self.turn_to(self.tab.beside(1)),
            Key::BackTab => self.turn_to(self.tab.beside(Tab::ALL.len() - 1)),
            Key::Character('1') => self.turn_to(Tab::Locks),
            Key::Character('2') => self.turn_to(Tab::Groups),
            Key::Character('3') => self.turn_to(Tab::Wakeups),
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

    fn turn_to(&mut self, tab: Tab) {
        self.tab = tab;
        self.detail = None;
    }

    fn open_or_close(&mut self) {
        if self.detail.take().is_some() {
            return;
        }
        let index = self.cursors[self.tab as usize].index;
        self.detail = self.row(self.tab, index).map(|row| Detail {
            row,
            is_gone: false,
            scroll: 0,
        });
    }

    /// Moves the selection, or the text of a detail. The screen keeps the text from going too far.
    fn step(&mut self, by: isize) {
        if let Some(detail) = &mut self.detail {
            detail.scroll = detail.scroll.saturating_add_signed(by);
            return;
        }
        let last = self.row_count(self.tab).saturating_sub(1);
        let index = self.cursors[self.tab as usize].index;
        let index = index.saturating_add_signed(by).min(last);
        let key = self.key_at(self.tab, index);
        let cursor = &mut self.cursors[self.tab as usize];
        (cursor.index, cursor.key) = (index, key);
    }
}
