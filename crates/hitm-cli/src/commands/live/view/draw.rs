//! The view as lines of a screen.

use hitm_base::Printout;
use hitm_live::throttle::Source;
use hitm_live::wakeups::Measured;
use hitm_report::fields::Field;
use hitm_report::live::{live_run, screen, throttle, wakeups};
use ratatui::Frame;

use super::state::{Detail, Row, Seen, State, Tab};
use crate::tui::{Lines, Look, lines, list, paint};

const KEYS: &str = "Tab 1 2 3 table  Up Down row  Enter detail  p place  u undo  ? help  q quit";
const HELP: &[&str] = &[
    "Tab, 1, 2, 3     locks by wasted CPU time, throttled groups, late wake-ups",
    "Up, Down         select a row, or scroll a detail; so do k and j, PageUp, PageDown, Home, End",
    "Enter            show the selected row closely, and go back",
    "p                place the threads of the selected lock on the CPUs that it can keep busy",
    "u                put them back",
    "q, Esc, Ctrl-C   end the view, and put placed threads back",
    "",
    "Each table is that of the last window of time. docs/live.md says what the figures mean,",
    "docs/place.md where threads are placed.",
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
    if let Some(locks) = state.locks.window() {
        let run = |field: Field<_>| field.text(&locks.run);
        title += &format!(
            " ({} CPUs, Linux {})",
            run(live_run::cpu_count),
            run(live_run::kernel)
        );
    }
    let tabs = Tab::ALL.map(|tab| match tab == state.tab {
        true => format!("[{} {}]", tab as usize + 1, tab.title()),
        false => format!(" {} {} ", tab as usize + 1, tab.title()),
    });
    let mut tabs = tabs.join(" ");
    if state.is_placed {
        tabs.push_str(" (placed)");
    }
    vec![(title, Look::Head), (tabs, Look::Plain)]
}

/// Layers that are missing, the last message, and the keys.
fn foot(state: &State, width: usize, height: usize) -> Lines {
    let mut foot = Lines::new();
    for note in notes(state) {
        foot.extend(lines(&screen::paragraph(&note, width), Look::Warning));
    }
    // The rows come first.
    foot.truncate((height / 4).max(1));
    if !state.told.is_empty() {
        foot.extend(lines(&screen::paragraph(&state.told, width), Look::Head).take(2));
    }
    foot.push((KEYS.to_owned(), Look::Plain));
    foot
}

fn body(state: &mut State, width: usize, room: usize) -> Lines {
    if state.has_help {
        return HELP
            .iter()
            .map(|line| ((*line).to_owned(), Look::Plain))
            .collect();
    }
    if let Some(detail) = &mut state.detail {
        state.page = room;
        return detail_lines(detail, width, room);
    }
    let table = match state.tab {
        Tab::Locks => seen(&state.locks, |locks| screen::lock_rows(locks, width)),
        Tab::Groups => seen(&state.groups, |report| throttle::group_rows(report, width)),
        Tab::Wakeups => seen(&state.wakeups, |report| wakeups::wakeup_rows(report, width)),
    };
    match table {
        Ok(_) if state.row_count(state.tab) == 0 => {
            let none = nothing(state);
            lines(&screen::paragraph(&none, width), Look::Plain).collect()
        }
        Ok(table) => rows(state, &table, room),
        Err(reason) => {
            let reason = reason.unwrap_or_else(|| {
                format!(
                    "The first window ends in {:.1} s.",
                    state.window.as_secs_f64()
                )
            });
            lines(&screen::paragraph(&reason, width), Look::Plain).collect()
        }
    }
}

/// The table of a window, or the reason why there is none; no reason before the first one has ended.
fn seen<T>(seen: &Seen<T>, table: impl FnOnce(&T) -> Printout) -> Result<Printout, Option<String>> {
    match seen {
        Seen::NotYet => Err(None),
        Seen::Never(reason) => Err(Some(format!("Not seen: {reason}"))),
        Seen::Window(window) => Ok(table(window)),
    }
}

fn nothing(state: &State) -> String {
    match (state.tab, state.groups.window()) {
        (Tab::Locks, _) => "No lock is contended.".to_owned(),
        (Tab::Groups, Some(report)) => {
            format!(
                "No group was throttled; {} have a quota.",
                report.limited_groups
            )
        }
        (Tab::Groups, None) => "No group was throttled.".to_owned(),
        (Tab::Wakeups, _) => "No task was woken.".to_owned(),
    }
}

/// The head and the rows around the selected one.
fn rows(state: &mut State, table: &Printout, room: usize) -> Lines {
    let page = room.saturating_sub(1);
    state.page = page.max(1);
    let cursor = &mut state.cursors[state.tab as usize];
    list(table, cursor.index, &mut cursor.top, room)
}

fn detail_lines(detail: &mut Detail, width: usize, room: usize) -> Lines {
    let text = match &detail.row {
        Row::Lock(view) => screen::lock_detail(view, width),
        Row::Group(group, tasks) => throttle::group_detail(group, tasks, width),
        Row::Wakeup(task) => wakeups::wakeup_detail(task, width),
        Row::RunDelay(task) => wakeups::run_delay_detail(task, width),
    };
    let mut all = Lines::new();
    if detail.is_gone {
        let gone = "Not in the last window: the figures are those of the last one that had it.";
        all.extend(lines(&screen::paragraph(gone, width), Look::Warning));
    }
    all.extend(lines(&text, Look::Plain));
    detail.scroll = detail.scroll.min(all.len().saturating_sub(room));
    all.drain(..detail.scroll);
    all.truncate(room);
    all
}

/// Layers that are missing and counts of what was lost, for the table that is shown.
fn notes(state: &State) -> Vec<String> {
    match state.tab {
        Tab::Locks => state.locks.window().map(|locks| {
            let run = &locks.run;
            let missing = run.missing.iter();
            let mut notes: Vec<String> = missing.map(|text| format!("not used: {text}")).collect();
            for field in [live_run::lost_count, live_run::left_out_count] {
                let count = field.text(run);
                if count != "0" {
                    notes.push(format!("{} {count}: {}", field.title, field.description()));
                }
            }
            notes
        }),
        Tab::Groups => state.groups.window().map(|report| {
            let mut notes = throttle::losses(report);
            if report.throttled_still > 0 {
                let still = report.throttled_still;
                notes.push(format!(
                    "{still} tasks are throttled still: they count when they run again."
                ));
            }
            if let Source::Counters(reason) = &report.source {
                notes.insert(0, format!("not used: BPF programs: {reason}"));
            }
            notes
        }),
        Tab::Wakeups => state.wakeups.window().map(|report| match &report.measured {
            Measured::Wakeups(table) => wakeups::losses(table),
            Measured::RunDelays { reason, .. } => {
                vec![format!(
                    "not used: BPF programs: {reason}; these are run delays"
                )]
            }
        }),
    }
    .unwrap_or_default()
}
