//! The view as lines of a screen.

use hitm_base::grouped;
use hitm_report::screen::{self, Spot};
use hitm_report::{Finding, LineReport, Report};
use ratatui::Frame;
use ratatui::layout::Rect;

use super::state::{Asked, Items, List, Page, State};
use crate::tui::{Lines, Look, lines, list, paint};

const KEYS: &str =
    "Tab 1 2 3 table  Enter in  Esc out  s source  w what if  / find  ? help  q quit";
const LINE_KEYS: &str = "Left Right member  f figure  s source  w what if  Esc out  ? help  q quit";
/// Rows that a table below the text of a finding has room for, its head one of them.
const ROWS_MIN: usize = 4;
const HELP: &[&str] = &[
    "Tab, 1, 2, 3 ..  findings, lines, objects, types, functions, callers",
    "Up, Down, k, j   select a row, or scroll a text; also PageUp, PageDown, Home, End",
    "Enter            a finding or a name: its lines; a line: its bytes by thread",
    "Left, Right      another member of the line, with the accesses to it",
    "f                figure of the bytes: lost cycles, HITM, reads, writes, locked",
    "s                source of the costliest access, with cycles beside its lines",
    "w                run again with -m MACHINE, -l LAYOUT-FILE, --threads-to compact",
    "/, n, N          find a text in any case, the next place, the one before",
    "Esc              back, and from a table out; q, Ctrl-C: out",
    "",
    "Letters of a byte say what a thread does: R reads, W writes, L locked operations.",
    "Its figure says how much: 9 for the most of the line, one less for each half.",
    "A narrow screen leaves columns out. hitm report has all of them as text.",
];

/// A part of the screen, and its coloured places.
struct Body {
    lines: Lines,
    spots: Vec<Spot>,
}

/// Draws the view, and notes in `state` how much there is room for.
pub(super) fn draw(frame: &mut Frame<'_>, state: &mut State, has_colors: bool) {
    let area = frame.area();
    let (width, height) = (usize::from(area.width), usize::from(area.height));
    let mut all = top(state, width);
    let foot = foot(state, width);
    let above = all.len();
    let room = height.saturating_sub(above + foot.len());
    (state.width, state.room) = (width, room.max(1));
    let mut body = body(state, width, room);
    body.lines.resize(room, (String::new(), Look::Plain));
    all.extend(body.lines);
    all.extend(foot);
    paint(frame, &all, has_colors);
    for spot in body.spots.iter().filter(|spot| spot.row < room) {
        let row = (above + spot.row) as u16;
        let columns = spot.width.min(width.saturating_sub(spot.column)) as u16;
        if columns > 0 && row < area.height {
            let place = Rect::new(spot.column as u16, row, columns, 1);
            let style = Look::Heat(spot.heat).style(has_colors);
            frame.buffer_mut().set_style(place, style);
        }
    }
}

/// The run, what it lost, and where in the view this is.
fn top(state: &State, width: usize) -> Lines {
    let run = &state.subject.report.run;
    let title = format!("hitm view: {} on {}", run.command.join(" "), run.machine);
    let mut top: Lines = vec![(title, Look::Head)];
    if let Some(lost) = state.subject.summary.first() {
        let lost = screen::paragraph(&format!("{}: {}", lost.label, lost.text), width);
        top.extend(lines(&lost, Look::Plain).take(2));
    }
    // Pages that were opened have the line: with all tabs their names would not fit.
    let tabs = state.tabs.iter().enumerate();
    let tabs = tabs.filter(|(number, _)| *number == state.tab || state.pages.is_empty());
    let tabs = tabs.map(|(number, tab)| match number == state.tab {
        true => format!("[{} {}]", number + 1, tab.title),
        false => format!(" {} {} ", number + 1, tab.title),
    });
    let mut tabs = tabs.collect::<Vec<_>>().join(" ");
    for page in &state.pages {
        tabs.push_str(" > ");
        match page {
            Page::List(list) => tabs.push_str(&list.title),
            Page::Line { line, .. } => {
                let rank = state.subject.report.lines[*line].rank;
                tabs.push_str(&format!("line {rank}"));
            }
            Page::Text { title, .. } => tabs.push_str(title),
        }
    }
    top.push((tabs, Look::Plain));
    top
}

/// The line that is typed or the last message, and the keys.
fn foot(state: &State, width: usize) -> Lines {
    let mut foot = Lines::new();
    match &state.prompt {
        Some((Asked::Search, text)) => foot.push((format!("search: {text}_"), Look::Head)),
        Some((Asked::WhatIf, text)) => {
            let label = "what if (-m MACHINE, -l LAYOUT-FILE, --threads-to spread|compact|LIST):";
            foot.extend(lines(&screen::paragraph(label, width), Look::Plain));
            foot.push((format!("hitm whatif {text}_"), Look::Head));
        }
        None if !state.told.is_empty() => {
            let told = screen::paragraph(&state.told, width);
            foot.extend(lines(&told, Look::Warning).take(3));
        }
        None => {}
    }
    let keys = match state.pages.last() {
        Some(Page::Line { .. }) => LINE_KEYS,
        _ => KEYS,
    };
    foot.push((keys.to_owned(), Look::Plain));
    foot
}

fn body(state: &mut State, width: usize, room: usize) -> Body {
    let mut body = Body {
        lines: Lines::new(),
        spots: Vec::new(),
    };
    if state.has_help {
        let help = HELP.iter().map(|line| ((*line).to_owned(), Look::Plain));
        body.lines = help.collect();
        return body;
    }
    match state.pages.pop() {
        None => {
            let mut shown = state.tabs[state.tab].clone();
            body.lines = list_lines(state, &mut shown, width, room);
            state.tabs[state.tab] = shown;
        }
        Some(mut page) => {
            body = page_body(state, &mut page, width, room);
            state.pages.push(page);
        }
    }
    body
}

fn page_body(state: &mut State, page: &mut Page, width: usize, room: usize) -> Body {
    let mut spots = Vec::new();
    let (all, scroll): (Lines, &mut usize) = match page {
        Page::List(shown) => {
            let lines = list_lines(state, shown, width, room);
            return Body { lines, spots };
        }
        Page::Line {
            line,
            figure,
            place,
            scroll,
        } => {
            let subject = &state.subject;
            let detail = screen::line_detail(
                &subject.report.lines[*line],
                &subject.maps[*line],
                *figure,
                *place,
                width,
            );
            spots = detail.spots;
            (lines(&detail.text, Look::Plain).collect(), scroll)
        }
        Page::Text { text, scroll, .. } => (lines(text, Look::Plain).collect(), scroll),
    };
    state.drawn = all.iter().map(|(text, _)| text.clone()).collect();
    *scroll = (*scroll).min(all.len().saturating_sub(room));
    spots.retain(|spot| spot.row >= *scroll);
    spots.iter_mut().for_each(|spot| spot.row -= *scroll);
    let lines = all.into_iter().skip(*scroll).take(room).collect();
    Body { lines, spots }
}

/// Rows of a list, below the finding that they are of.
fn list_lines(state: &State, shown: &mut List, width: usize, room: usize) -> Lines {
    let count = state.count(&shown.items);
    let report = &state.subject.report;
    let mut all = Lines::new();
    if let Some(finding) = shown.finding {
        all = finding_lines(report, &report.findings[finding], count, width);
        all.truncate(room.saturating_sub(ROWS_MIN));
    }
    let table = match &shown.items {
        Items::Findings if count == 0 => {
            screen::paragraph("Nothing costs time that one change would cure.", width)
        }
        _ if count == 0 => screen::paragraph("No line is contended.", width),
        Items::Findings => screen::finding_rows(report, width),
        Items::Lines(places) => {
            let lines: Vec<&LineReport> =
                places.iter().map(|place| &report.lines[*place]).collect();
            screen::line_rows(report, &lines, width)
        }
        Items::Names(number) => screen::total_rows(report, &report.totals_by[*number].rows, width),
    };
    let room = room - all.len();
    match count {
        0 => all.extend(lines(&table, Look::Plain)),
        _ => all.extend(list(&table, shown.index, &mut shown.top, room)),
    }
    all
}

/// A finding in sentences, of whose lines `shown` follow.
fn finding_lines(report: &Report, finding: &Finding, shown: usize, width: usize) -> Lines {
    let detail = screen::finding_detail(report, finding, width);
    let mut all: Lines = lines(&detail, Look::Plain).collect();
    if shown < finding.lines.len() {
        let [shown, count] = [shown, finding.lines.len()].map(|count| grouped(count as u64));
        let text = format!("Lines of it in this view: {shown} of {count}, more with --top");
        all.push((text, Look::Plain));
    }
    all.push((String::new(), Look::Plain));
    all
}
