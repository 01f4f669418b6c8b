//! The view as lines of a screen.

use hitm_report::Printout;
use hitm_report::live::screen::paragraph;
use ratatui::Frame;

use super::state::{Detail, Seen, State};
use crate::tui::{Lines, Look, lines, list, paint};

const HELP: &[&str] = &[
    "Up, Down, k, j   select a row, or scroll a detail; PageUp, PageDown, Home, End",
    "Enter            show the selected row closely, and go back",
    "p                place the selected lock's threads on the CPUs that it feeds",
    "u                put them back",
    "q, Esc, Ctrl-C   end the view, and put placed threads back",
    "",
    "Each table is that of the last window of time. docs/live.md says what the",
    "figures mean, docs/place.md where threads are placed.",
];

/// Draws the view, and notes in `state` how many rows there is room for.
pub(super) fn draw(frame: &mut Frame<'_>, state: &mut State, has_colors: bool) {
    let area = frame.area();
    let (width, height) = (usize::from(area.width), usize::from(area.height));
    let top = top(state);
    let foot = foot(state, width, height);
    let room = height.saturating_sub(top.len() + foot.len());
    let mut lines = top;
    let mut body = body(state, width, room);
    body.resize(room, (String::new(), Look::Plain));
    lines.extend(body);
    lines.extend(foot);
    paint(frame, &lines, has_colors);
}

/// The target, the host, and the tables.
fn top(state: &State) -> Lines {
    let seconds = state.window.as_secs_f64();
    let mut title = format!("hitm live: {}, every {seconds:.1} s", state.target);
    let mut windows = state.tabs.iter().filter_map(|tab| tab.window());
    if let Some(host) = windows.find_map(|window| window.host()) {
        title += &format!(" ({host})");
    }
    let tabs = (1..).zip(&state.tabs).map(|(number, tab)| {
        let is_shown = number == state.tab + 1;
        let (before, behind) = if is_shown { ('[', ']') } else { (' ', ' ') };
        format!("{before}{number} {}{behind}", tab.title)
    });
    let tabs: Vec<String> = tabs.collect();
    let mut tabs = tabs.join(" ");
    if state.is_placed {
        tabs.push_str(" (placed)");
    }
    vec![(title, Look::Head), (tabs, Look::Plain)]
}

/// Layers that are missing, the last message, and the keys.
fn foot(state: &State, width: usize, height: usize) -> Lines {
    let mut foot = Lines::new();
    let window = state.shown().window();
    for note in window.map(|window| window.notes()).unwrap_or_default() {
        foot.extend(lines(&paragraph(&note, width), Look::Warning));
    }
    // The rows come first.
    foot.truncate((height / 4).max(1));
    if !state.told.is_empty() {
        foot.extend(lines(&paragraph(&state.told, width), Look::Head).take(2));
    }
    let keys = format!(
        "Tab {} table  Up Down row  Enter detail  p place  u undo  ? help  q quit",
        numbers(state).join(" ")
    );
    foot.push((keys, Look::Plain));
    foot
}

/// The keys of the tables.
fn numbers(state: &State) -> Vec<String> {
    let numbers = 1..=state.tabs.len();
    numbers.map(|number| number.to_string()).collect()
}

fn help(state: &State) -> Lines {
    let keys = format!("Tab, {}", numbers(state).join(", "));
    let titles = state.tabs.iter().map(|tab| {
        let (first, rest) = tab.title.split_at(1);
        first.to_lowercase() + rest
    });
    let titles: Vec<String> = titles.collect();
    let tables = format!("{keys:<17}{}", titles.join(", "));
    let rest = HELP.iter().map(|line| (*line).to_owned());
    let all = std::iter::once(tables).chain(rest);
    all.map(|line| (line, Look::Plain)).collect()
}

fn body(state: &mut State, width: usize, room: usize) -> Lines {
    if state.has_help {
        return help(state);
    }
    if let Some(detail) = &mut state.detail {
        state.page = room;
        return detail_lines(detail, width, room);
    }
    let text = match &state.shown().seen {
        Seen::Window(window) if window.row_count() > 0 => {
            let table = window.rows(width);
            return rows(state, &table, room);
        }
        Seen::Window(window) => window.nothing(),
        Seen::Never(reason) => format!("Not seen: {reason}"),
        Seen::NotYet => format!(
            "The first window ends in {:.1} s.",
            state.window.as_secs_f64()
        ),
    };
    lines(&paragraph(&text, width), Look::Plain).collect()
}

/// The head and the rows around the selected one.
fn rows(state: &mut State, table: &Printout, room: usize) -> Lines {
    let page = room.saturating_sub(1);
    state.page = page.max(1);
    let cursor = &mut state.tabs[state.tab].cursor;
    list(table, cursor.index, &mut cursor.top, room)
}

fn detail_lines(detail: &mut Detail, width: usize, room: usize) -> Lines {
    let text = detail.window.detail(detail.row, width);
    let mut all = Lines::new();
    if detail.is_gone {
        let gone = "Not in the last window: the figures are those of the last one that had it.";
        all.extend(lines(&paragraph(gone, width), Look::Warning));
    }
    all.extend(lines(&text, Look::Plain));
    detail.scroll = detail.scroll.min(all.len().saturating_sub(room));
    all.drain(..detail.scroll);
    all.truncate(room);
    all
}
