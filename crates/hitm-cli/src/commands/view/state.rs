//! State of the view: what keys change. Nothing here draws or reads a file.

use std::collections::BTreeMap;

use hitm_report::pictures::LineMap;
use hitm_report::screen::Figure;
use hitm_report::summary::SummaryLine;
use hitm_report::{By, Printout, Report};

use crate::tui::Key;

/// A report and what the view shows beside it.
#[derive(Debug)]
pub(super) struct Subject {
    pub(super) report: Report,
    /// The bytes of each line of the report.
    pub(super) maps: Vec<LineMap>,
    pub(super) summary: Vec<SummaryLine>,
    /// Places of lines in the report by name, for each of its tables of totals.
    pub(super) places: Vec<BTreeMap<String, Vec<usize>>>,
}

/// Things that a list has a row for each of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Items {
    /// The findings that the view has.
    Findings,
    /// Lines, by their places in the report.
    Lines(Vec<usize>),
    /// Names of the table of totals with this number.
    Names(usize),
}

/// Rows of which one is selected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct List {
    pub(super) title: String,
    pub(super) items: Items,
    /// The finding that the lines are of, by its place in the report.
    pub(super) finding: Option<usize>,
    pub(super) index: usize,
    /// The first row on the screen.
    pub(super) top: usize,
}

impl List {
    fn new(title: &str, items: Items) -> List {
        List {
            title: title.to_owned(),
            items,
            finding: None,
            index: 0,
            top: 0,
        }
    }
}

/// A screen above the tables.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Page {
    /// Lines of one name or of a finding.
    List(List),
    /// A line closely.
    Line {
        line: usize,
        figure: Figure,
        /// The selected box of its map.
        place: usize,
        scroll: usize,
    },
    /// A text: source, or the answer of a replay.
    Text {
        title: String,
        text: Printout,
        scroll: usize,
    },
}

/// The purpose of a line that is typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    Search,
    WhatIf,
}

/// Work that a key asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Action {
    None,
    Quit,
    /// Show the file of this source line, `file:12`.
    Source(String),
    /// Replay with these options of `hitm whatif`.
    WhatIf(String),
}

/// State of the view.
#[derive(Debug)]
pub(super) struct State {
    pub(super) subject: Subject,
    pub(super) tabs: Vec<List>,
    pub(super) tab: usize,
    /// Screens above the table, the last one shown.
    pub(super) pages: Vec<Page>,
    /// The line that is typed.
    pub(super) prompt: Option<(Asked, String)>,
    pub(super) has_help: bool,
    /// The last message; empty for none.
    pub(super) told: String,
    /// The text that was last searched for.
    pub(super) searched: String,
    /// Columns and rows that the last screen had room for.
    pub(super) width: usize,
    pub(super) room: usize,
    /// Lines of the page that was last drawn.
    pub(super) drawn: Vec<String>,
}

impl State {
    /// A view that begins with the findings.
    pub(super) fn new(subject: Subject) -> State {
        let all = (0..subject.report.lines.len()).collect();
        let mut tabs = vec![
            List::new("Findings", Items::Findings),
            List::new("Lines", Items::Lines(all)),
        ];
        for (number, totals) in subject.report.totals_by.iter().enumerate() {
            tabs.push(List::new(title(totals.by), Items::Names(number)));
        }
        State {
            subject,
            tabs,
            tab: 0,
            pages: Vec::new(),
            prompt: None,
            has_help: false,
            told: String::new(),
            searched: String::new(),
            width: 80,
            room: 1,
            drawn: Vec::new(),
        }
    }

    /// Shows a message until the next one.
    pub(super) fn tell(&mut self, message: &str) {
        message.clone_into(&mut self.told);
    }

    /// Opens a text with a line of it on the screen.
    pub(super) fn open(&mut self, title: &str, text: Printout, line: usize) {
        self.told.clear();
        self.pages.push(Page::Text {
            title: title.to_owned(),
            text,
            scroll: line.saturating_sub(self.room / 2),
        });
    }

    /// Rows of a list.
    pub(super) fn count(&self, items: &Items) -> usize {
        match items {
            Items::Findings => self.subject.report.findings.len(),
            Items::Lines(places) => places.len(),
            Items::Names(number) => self.subject.report.totals_by[*number].rows.len(),
        }
    }

    /// The list on the screen; none when a page covers it.
    pub(super) fn list(&mut self) -> Option<&mut List> {
        match self.pages.last_mut() {
            None => self.tabs.get_mut(self.tab),
            Some(Page::List(list)) => Some(list),
            Some(_) => None,
        }
    }

    /// Takes in a key, and returns what is to be done for it.
    pub(super) fn key(&mut self, key: Key) -> Action {
        if self.prompt.is_some() {
            return self.typed(key);
        }
        match key {
            Key::Interrupt | Key::Character('q') => return Action::Quit,
            Key::Character('?') => self.has_help = !self.has_help,
            // Any other key ends the help.
            _ if self.has_help => self.has_help = false,
            Key::Escape | Key::Backspace => {
                if self.pages.pop().is_none() && key == Key::Escape {
                    return Action::Quit;
                }
            }
            Key::Tab => self.turn_to(self.tab + 1),
            Key::BackTab => self.turn_to(self.tab + self.tabs.len() - 1),
            Key::Character(digit @ '1'..='9') => {
                let number = digit as usize - '1' as usize;
                if number < self.tabs.len() {
                    self.turn_to(number);
                }
            }
            Key::Character('/') => self.prompt = Some((Asked::Search, String::new())),
            Key::Character('w') => self.prompt = Some((Asked::WhatIf, String::new())),
            Key::Character('n') => self.find(true),
            Key::Character('N') => self.find(false),
            Key::Character('f') => self.next_figure(),
            Key::Character('s') => return self.source(),
            Key::Enter => self.enter(),
            Key::Left | Key::Character('h') => self.step_place(false),
            Key::Right | Key::Character('l') => self.step_place(true),
            Key::Up | Key::Character('k') => self.step(-1),
            Key::Down | Key::Character('j') => self.step(1),
            Key::PageUp => self.step(-(self.room as isize)),
            Key::PageDown | Key::Character(' ') => self.step(self.room as isize),
            Key::Home => self.step(isize::MIN),
            Key::End => self.step(isize::MAX),
            Key::Character(_) => {}
        }
        Action::None
    }

    /// A key while a line is typed.
    fn typed(&mut self, key: Key) -> Action {
        let Some((asked, text)) = &mut self.prompt else {
            return Action::None;
        };
        match key {
            Key::Interrupt => return Action::Quit,
            Key::Character(character) => text.push(character),
            Key::Backspace => {
                text.pop();
            }
            Key::Escape => self.prompt = None,
            Key::Enter => {
                let (asked, text) = (*asked, std::mem::take(text));
                self.prompt = None;
                match asked {
                    Asked::Search => {
                        self.searched = text.to_lowercase();
                        self.find(true);
                    }
                    Asked::WhatIf => return Action::WhatIf(text),
                }
            }
            _ => {}
        }
        Action::None
    }

    fn turn_to(&mut self, tab: usize) {
        self.tab = tab % self.tabs.len();
        self.pages.clear();
    }

    /// Opens the selected row: a line, or the lines of a finding or a name.
    fn enter(&mut self) {
        let Some(list) = self.list() else { return };
        let index = list.index;
        let page = match list.items.clone() {
            Items::Findings => self.finding_page(index),
            Items::Lines(places) => places.get(index).map(|line| self.line_page(*line)),
            Items::Names(number) => self.lines_of(number, index),
        };
        self.pages.extend(page);
    }

    fn line_page(&self, line: usize) -> Page {
        let first = self.subject.maps.get(line).and_then(hottest);
        Page::Line {
            line,
            figure: Figure::Lost,
            place: first.unwrap_or(0),
            scroll: 0,
        }
    }

    fn finding_page(&self, index: usize) -> Option<Page> {
        let report = &self.subject.report;
        let finding = report.findings.get(index)?;
        let title = format!("finding {}", finding.number);
        Some(Page::List(List {
            finding: Some(index),
            ..List::new(&title, Items::Lines(report.places_of(finding)))
        }))
    }

    /// The lines of a name; tells when the view has none.
    fn lines_of(&mut self, number: usize, index: usize) -> Option<Page> {
        let row = self.subject.report.totals_by[number].rows.get(index)?;
        let places = self.subject.places[number].get(&row.name);
        match places.cloned() {
            Some(places) => Some(Page::List(List::new(&row.name, Items::Lines(places)))),
            None => {
                let told = format!("{}: on no contended line of this view", row.name);
                self.tell(&told);
                None
            }
        }
    }

    fn next_figure(&mut self) {
        if let Some(Page::Line { figure, .. }) = self.pages.last_mut() {
            *figure = figure.next();
        }
    }

    /// Selects the accessed box before or behind the selected one.
    fn step_place(&mut self, is_forward: bool) {
        let Some(Page::Line { line, place, .. }) = self.pages.last_mut() else {
            return;
        };
        let Some(map) = self.subject.maps.get(*line) else {
            return;
        };
        let mut accessed = (0..map.boxes.len()).filter(|one| map.boxes[*one].is_accessed);
        let next = match is_forward {
            true => accessed.find(|one| one > place),
            false => accessed.take_while(|one| one < place).last(),
        };
        *place = next.unwrap_or(*place);
    }

    /// Moves the selection, or a text. The screen keeps a text from going too far.
    fn step(&mut self, by: isize) {
        match self.pages.last_mut() {
            Some(Page::Line { scroll, .. } | Page::Text { scroll, .. }) => {
                *scroll = scroll.saturating_add_signed(by);
                return;
            }
            Some(Page::List(_)) | None => {}
        }
        let Some(list) = self.list() else { return };
        let (index, items) = (list.index, list.items.clone());
        let last = self.count(&items).saturating_sub(1);
        if let Some(list) = self.list() {
            list.index = index.saturating_add_signed(by).min(last);
        }
    }
}

const fn title(by: By) -> &'static str {
    match by {
        By::Line => "Lines",
        By::Object => "Objects",
        By::Member => "Members",
        By::Type => "Types",
        By::Function => "Functions",
        By::Caller => "Callers",
        By::Children => "Functions with their callees",
        By::Source => "Source lines",
        By::Process => "Programs",
    }
}

/// The box whose accesses lost most; of two the first.
fn hottest(map: &LineMap) -> Option<usize> {
    let accessed = (0..map.boxes.len()).filter(|place| map.boxes[*place].is_accessed);
    let lost = |place: usize| -> u64 {
        let cells = map.cells.iter().filter(|cell| cell.place == place as u64);
        cells.map(|cell| cell.lost_cycles).sum()
    };
    accessed.rev().max_by_key(|place| lost(*place))
}
