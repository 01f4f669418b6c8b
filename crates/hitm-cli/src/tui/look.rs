//! Lines of a screen and their looks.
//!
//! Every text comes from a [`Printout`] or becomes printable here, so that no name acts on the terminal.

use hitm_base::printable;
use hitm_report::Printout;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};

/// Kinds of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Look {
    Plain,
    Head,
    Selected,
    Warning,
    /// 0 for nothing to 9 for the most.
    Heat(u8),
}

impl Look {
    /// One of 16 colours at most, and none where they are not wanted.
    pub(crate) fn style(self, has_colors: bool) -> Style {
        let style = match self {
            Look::Plain | Look::Heat(0) => Style::new(),
            Look::Head => Style::new().add_modifier(Modifier::BOLD),
            Look::Selected => Style::new().add_modifier(Modifier::REVERSED),
            Look::Warning => Style::new().fg(Color::Yellow),
            Look::Heat(heat) => heat_style(heat),
        };
        match has_colors {
            true => style,
            false => Style {
                fg: None,
                bg: None,
                ..style
            },
        }
    }
}

/// From cold to hot. The figures in the cells say the same where there are no colours.
fn heat_style(heat: u8) -> Style {
    let (text, ground) = match heat {
        ..=3 => (Color::White, Color::Blue),
        4..=5 => (Color::Black, Color::Cyan),
        6..=7 => (Color::Black, Color::Yellow),
        _ => (Color::White, Color::Red),
    };
    let style = Style::new().fg(text).bg(ground);
    match heat {
        ..=7 => style,
        _ => style.add_modifier(Modifier::BOLD),
    }
}

/// Lines of a part of the screen.
pub(crate) type Lines = Vec<(String, Look)>;

/// Lines of a text in one look.
pub(crate) fn lines(text: &Printout, look: Look) -> impl Iterator<Item = (String, Look)> {
    text.lines().map(move |line| (line.to_owned(), look))
}

/// Draws lines from the top of the screen.
pub(crate) fn paint(frame: &mut Frame<'_>, lines: &[(String, Look)], has_colors: bool) {
    let area = frame.area();
    for (row, (text, look)) in (0..area.height).zip(lines) {
        let style = look.style(has_colors);
        let buffer = frame.buffer_mut();
        buffer.set_stringn(0, row, printable(text), area.width.into(), style);
        if *look == Look::Selected {
            buffer.set_style(Rect::new(0, row, area.width, 1), style);
        }
    }
}

/// The head of a table and the rows around the selected one, in at most `room` lines. `top` is the first row on the
/// screen, and moves with the selection.
pub(crate) fn list(table: &Printout, selected: usize, top: &mut usize, room: usize) -> Lines {
    let mut all = table.lines();
    let head = all.next().unwrap_or_default().to_owned();
    let page = room.saturating_sub(1);
    let lowest = selected.saturating_sub(page.saturating_sub(1));
    *top = (*top).clamp(lowest, selected);
    let shown = all.enumerate().skip(*top).take(page);
    let row = |(index, line): (usize, &str)| match index == selected {
        // Rows begin with two blanks.
        true => (
            format!(">{}", line.get(1..).unwrap_or_default()),
            Look::Selected,
        ),
        false => (line.to_owned(), Look::Plain),
    };
    let mut lines = vec![(head, Look::Head)];
    lines.extend(shown.map(row));
    lines.truncate(room);
    lines
}
