//! Places in the view: those with a text that is searched for, and the source lines behind what is selected.

use hitm_report::{By, Finding, FindingPlace, LineReport, Report, RowReport};

use super::state::{Action, Items, List, Page, State};

impl State {
    /// Goes to the next place with the text that is searched for, or to the one before.
    pub(super) fn find(&mut self, is_forward: bool) {
        if self.searched.is_empty() {
            return self.tell("/ searches");
        }
        let (at, texts) = match self.pages.last() {
            Some(Page::Line { scroll, .. } | Page::Text { scroll, .. }) => {
                (*scroll, self.drawn.clone())
            }
            Some(Page::List(list)) => (list.index, self.texts(&list.items)),
            None => {
                let list = &self.tabs[self.tab];
                (list.index, self.texts(&list.items))
            }
        };
        let count = texts.len();
        let mut order = (1..=count).map(|step| match is_forward {
            true => (at + step) % count,
            false => (at + count - step % count) % count,
        });
        let found = order.find(|place| texts[*place].to_lowercase().contains(&self.searched));
        let Some(found) = found else {
            let told = format!("not found: {}", self.searched);
            return self.tell(&told);
        };
        self.told.clear();
        match self.pages.last_mut() {
            Some(Page::Line { scroll, .. } | Page::Text { scroll, .. }) => *scroll = found,
            _ => {
                if let Some(list) = self.list() {
                    list.index = found;
                }
            }
        }
    }

    /// Everything that a search finds a row by.
    fn texts(&self, items: &Items) -> Vec<String> {
        let report = &self.subject.report;
        match items {
            Items::Findings => {
                let findings = report.findings.iter();
                findings.map(|one| finding_text(report, one)).collect()
            }
            Items::Names(number) => {
                let rows = report.totals_by[*number].rows.iter();
                rows.map(|row| row.name.clone()).collect()
            }
            Items::Lines(places) => places
                .iter()
                .map(|place| line_text(&report.lines[*place]))
                .collect(),
        }
    }

    /// Asks for the source of the costliest access of what is selected.
    pub(super) fn source(&mut self) -> Action {
        let lines = &self.subject.report.lines;
        let found = match self.pages.last() {
            Some(Page::Line { line, place, .. }) => {
                let map = self.subject.maps.get(*line);
                let selected = map.and_then(|map| map.boxes.get(*place));
                let rows = &lines[*line].rows;
                let of_place = selected.and_then(|one| {
                    let end = one.offset.saturating_add(one.size_bytes);
                    costliest(
                        rows.iter()
                            .filter(|row| (one.offset..end).contains(&row.offset)),
                    )
                });
                of_place.or_else(|| costliest(rows.iter()))
            }
            Some(Page::Text { .. }) => None,
            Some(Page::List(list)) => self.source_of(list),
            None => self.source_of(&self.tabs[self.tab]),
        };
        match found {
            Some(source) => Action::Source(source),
            None => {
                self.tell(
                    "no source line is known: programs with debug information (-g) have some",
                );
                Action::None
            }
        }
    }

    /// Source line of a finding's costliest access, or of the place that contends most where no line is contended.
    fn finding_source(&self, index: usize) -> Option<String> {
        let report = &self.subject.report;
        let finding = report.findings.get(index)?;
        let lines = report.places_of(finding).into_iter();
        let of_lines = costliest(lines.flat_map(|place| &report.lines[place].rows));
        let mut places = finding.places.iter().map(|place| &place.source);
        of_lines.or_else(|| places.find(|source| source.contains(':')).cloned())
    }

    fn source_of(&self, list: &List) -> Option<String> {
        let subject = &self.subject;
        let lines = &subject.report.lines;
        match &list.items {
            Items::Findings => self.finding_source(list.index),
            Items::Lines(places) => match (places.get(list.index), list.finding) {
                (Some(place), _) => costliest(lines[*place].rows.iter()),
                (None, finding) => self.finding_source(finding?),
            },
            Items::Names(number) => {
                let totals = &subject.report.totals_by[*number];
                let name = &totals.rows.get(list.index)?.name;
                let places = subject.places[*number].get(name)?.iter();
                let rows = places.flat_map(|place| &lines[*place].rows);
                let of_name = |row: &&RowReport| totals.by != By::Function || row.function == *name;
                costliest(rows.filter(of_name))
            }
        }
    }
}

/// Everything that a search finds a finding by: its lines' words are its own.
fn finding_text(report: &Report, finding: &Finding) -> String {
    let places = finding.places.iter().map(FindingPlace::text);
    let lines = report.places_of(finding).into_iter();
    let lines = lines.map(|place| line_text(&report.lines[place]));
    let about: Vec<String> = places.chain(lines).collect();
    format!("{} {} {}", finding.name, finding.kind_brief, about.join(" "))
}

/// Source line of the row that lost most, of those that have one.
fn costliest<'a>(rows: impl Iterator<Item = &'a RowReport>) -> Option<String> {
    let known = rows.filter(|row| row.source_short.contains(':'));
    let row = known.max_by_key(|row| (row.lost_cycles, row.access_count))?;
    Some(row.source.clone())
}

/// Everything that a search finds a line by.
fn line_text(line: &LineReport) -> String {
    let mut text = format!("{:#x} {} {}", line.address, line.name(), line.verdict_text);
    for row in &line.rows {
        let parts = [&row.member, &row.function, &row.source];
        for part in parts.into_iter().chain(&row.threads) {
            text.push(' ');
            text.push_str(part);
        }
    }
    text
}
