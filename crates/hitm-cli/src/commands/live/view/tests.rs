//! The view in a terminal that is a table of characters.

mod keys;
mod screens;
mod windows;

use std::time::Duration;

use expect_test::Expect;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::layout::Size;

use super::draw;
use super::layers::Sent;
use super::state::{Action, State};
use crate::tui::Key;

fn view() -> State {
    State::new("everything on this host".into(), Duration::from_secs(2))
}

/// A view after windows and keys.
fn view_of(windows: impl IntoIterator<Item = Sent>, keys: &[Key]) -> State {
    let mut state = view();
    windows.into_iter().for_each(|window| state.take(window));
    for key in keys {
        assert_eq!(state.key(*key), Action::None);
    }
    state
}

fn drawn(state: &mut State, size: Size, has_colors: bool) -> TestBackend {
    let mut terminal = Terminal::new(TestBackend::new(size.width, size.height)).unwrap();
    terminal
        .draw(|frame| draw::draw(frame, state, has_colors))
        .unwrap();
    terminal.backend().clone()
}

#[expect(clippy::needless_pass_by_value, reason = "as expect-test's own")]
#[track_caller]
fn check(mut state: State, size: Size, expected: Expect) {
    let screen = drawn(&mut state, size, true).to_string();
    // Each row stands between quotes.
    let rows = screen.lines().map(|row| row.trim_matches('"').trim_end());
    expected.assert_eq(&(rows.collect::<Vec<_>>().join("\n") + "\n"));
}
