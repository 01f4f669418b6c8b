//! Explanations as text.

use super::{Condition, Evidence, Explained, Kind, Meaning, Recorded, figures, meaning, tables};
use crate::Printout;
use crate::fields::{Field, fight, finding, finding_place, line, row, run, totals, wait_row};
use crate::glossary::GROUPS;
use crate::model::{FightReport, Finding, RowReport};
use crate::sentences::explain as say;
use crate::text::findings::cost;
use crate::text::style::Style;
use crate::text::table::{Align, Column, FieldTable, Shows, Table, gives_way, pairs, stays, wrap};
use crate::text::{TextOptions, Writer};

/// Columns of the fights.
const FIGHT_COLUMNS: &[Shows<FightReport>] = &[
    stays(fight::kind),
    stays(fight::contended_count),
    stays(fight::lost_cycles),
    stays(fight::lost_share),
    stays(fight::places),
];

/// Columns of who reads and writes.
const ROW_COLUMNS: &[Shows<RowReport>] = &[
    gives_way(1, row::offset),
    stays(row::member),
    stays(row::op),
    stays(row::access_count),
    stays(row::lost_share),
    stays(row::threads),
    gives_way(2, row::function),
];

/// Tables of a report whose figures the list has; those of other documents are looked up by name.
const LISTED: [&str; 8] = [
    "findings",
    "totals",
    "counts",
    "lines",
    "fights",
    "rows",
    "totals_by",
    "waits",
];

/// Every word in groups, one line each, then the figures of a report.
pub fn list(options: &TextOptions) -> Printout {
    let mut writer = Writer::new(options);
    for group in GROUPS {
        let words = group.terms.iter();
        let words: Vec<[&str; 2]> = words.map(|term| [term.name, term.meaning]).collect();
        writer.words(group.title, &words);
    }
    let mut of_report = tables();
    of_report.retain(|table| table.document == "report" && LISTED.contains(&table.heading));
    let figures = figures(&of_report);
    let words = figures.iter().map(|one| [&*one.name, &*one.text]);
    writer.words("Figures of a report", &words.collect::<Vec<_>>());
    writer.out
}

/// A word's meanings, and what a recording has of it.
pub fn render(explained: &Explained<'_>, options: &TextOptions) -> Printout {
    let mut writer = Writer::new(options);
    for (index, meanings) in by_name(&explained.meanings).into_iter().enumerate() {
        if index > 0 {
            writer.out.blank();
        }
        match meanings {
            [one] if one.kind != Kind::Figure => writer.meaning(one, explained.evidence.is_none()),
            figures => writer.figure(figures),
        }
    }
    let Some(recorded) = explained.recorded else {
        return writer.out;
    };
    let mut meanings = explained.meanings.iter();
    let of_kind = meanings.find(|one| one.finding_kind().is_some());
    if let Some(finding) = explained.finding {
        writer.finding(finding, recorded.report.is_sampled());
        writer.others(&explained.others);
    }
    match (&explained.evidence, of_kind) {
        (Some(evidence), _) => writer.evidence(evidence, recorded),
        (None, Some(kind)) if explained.finding.is_none() => {
            writer.out.blank();
            writer.sentence(Style::Plain, &say::no_finding(&kind.name));
        }
        (None, Some(_)) => {}
        (None, None) => writer.values(&explained.meanings, recorded),
    }
    writer.origin(recorded);
    writer.out
}

/// The meanings, those of one figure in several tables together.
fn by_name(meanings: &[Meaning]) -> Vec<&[Meaning]> {
    let is_same = |a: &Meaning, b: &Meaning| {
        a.kind == Kind::Figure && (a.kind, &a.name, &a.unit) == (b.kind, &b.name, &b.unit)
    };
    meanings.chunk_by(is_same).collect()
}

impl Writer {
    /// A title, and a line for each word: the beginning of its meaning.
    fn words(&mut self, title: &str, words: &[[&str; 2]]) {
        self.title(title);
        let width = words.iter().map(|[word, _]| word.chars().count()).max();
        let width = width.unwrap_or(0);
        for [word, meaning] in words {
            let room = self.width.saturating_sub(width + 4);
            let lines = wrap(meaning, room.saturating_sub(3));
            let more = if lines.len() > 1 { " .." } else { "" };
            self.push(
                Style::Plain,
                &format!("  {word:<width$}  {}{more}", lines[0]),
            );
        }
    }

    /// A word of the glossary or a verdict, what would change this one where no line is shown that says so.
    fn meaning(&mut self, one: &Meaning, has_changes: bool) {
        self.push(Style::Bold, &format!("{} ({})", one.name, one.kind.id()));
        self.sentence(Style::Plain, &one.text);
        self.bullets(meaning::rule.title, &one.rule);
        if has_changes {
            self.bullets(meaning::changes.title, &one.changes);
        }
        let texts = [
            (meaning::remedy.title, one.remedy.clone()),
            (meaning::mark.title, one.mark.clone()),
            (meaning::also.title, one.also.join(", ")),
            (meaning::more.title, one.more.clone()),
        ];
        for (label, text) in texts.iter().filter(|(_, text)| !text.is_empty()) {
            self.paragraph(Style::Plain, label, text);
        }
    }

    /// A figure, with each meaning and the tables in which it has it.
    fn figure(&mut self, meanings: &[Meaning]) {
        let Some(first) = meanings.first() else {
            return;
        };
        let unit = match first.unit.as_str() {
            "" => String::new(),
            unit => format!(", {unit}"),
        };
        let name = format!("{} ({}{unit})", first.name, first.kind.id());
        self.push(Style::Bold, &name);
        for one in meanings {
            let text = format!("{}: {}", one.tables.join(", "), one.text);
            self.bullet(&text);
        }
        let mut titles: Vec<&str> = Vec::new();
        for title in meanings.iter().flat_map(|one| &one.also) {
            if !titles.contains(&&**title) {
                titles.push(title);
            }
        }
        if !titles.is_empty() {
            self.paragraph(Style::Plain, meaning::also.title, &titles.join(", "));
        }
    }

    /// Sentences below a label.
    fn bullets(&mut self, label: &str, sentences: &[String]) {
        if sentences.is_empty() {
            return;
        }
        self.push(Style::Plain, &format!("  {label}:"));
        sentences.iter().for_each(|sentence| self.bullet(sentence));
    }

    fn bullet(&mut self, text: &str) {
        for (index, line) in wrap(text, self.width - 4).iter().enumerate() {
            let mark = if index == 0 { '-' } else { ' ' };
            self.push(Style::Plain, &format!("  {mark} {line}"));
        }
    }

    fn finding(&mut self, one: &Finding, is_sampled: bool) {
        self.title(&format!("Finding {}: {}", one.number, one.name));
        self.paragraph(Style::Bold, finding::fix.title, &one.fix);
        self.paragraph(
            Style::Plain,
            finding::cost_cycles.title,
            &cost(one, is_sampled),
        );
        let places = one.places.iter();
        let places = places.map(|place| {
            let share = finding_place::lost_share.text(place);
            format!("{} {share}", place.text())
        });
        let places: Vec<String> = places.collect();
        if !places.is_empty() {
            self.paragraph(Style::Plain, finding::written_in.title, &places.join(", "));
        }
        if let Some(wait) = &one.wait {
            let figures = [
                wait_row::wait_count,
                wait_row::cycles,
                wait_row::cycles_mean,
                wait_row::thread_count,
            ];
            self.paragraph(Style::Plain, wait_row::kind.title, &pairs(wait, &figures));
        }
    }

    fn evidence(&mut self, evidence: &Evidence<'_>, recorded: Recorded<'_>) {
        let one = evidence.line;
        let figure = |field: Field<_>| field.text(one);
        let name = figure(line::name);
        let title = format!(
            "Line {}: {} {name}",
            figure(line::rank),
            figure(line::address)
        );
        self.title(&title);
        self.paragraph(Style::Verdict, line::verdict_text.title, &one.verdict_text);
        self.met(&evidence.conditions);
        if let Some(signs) = &evidence.lock_signs {
            self.sentence(Style::Plain, signs);
        }
        let is_sampled = recorded.report.is_sampled();
        self.title("Fights");
        let mut fights = FieldTable::new(columns(FIGHT_COLUMNS, is_sampled));
        one.fights.iter().for_each(|fight| fights.push(fight));
        self.table(&fights.table);
        self.title("Who reads and writes");
        let mut rows = FieldTable::new(columns(ROW_COLUMNS, is_sampled));
        one.rows.iter().for_each(|row| rows.push(row));
        self.table(&rows.table);
        self.title("What would change the verdict");
        evidence
            .changes
            .iter()
            .for_each(|change| self.bullet(change));
    }

    fn met(&mut self, conditions: &[Condition]) {
        let columns = [
            (super::condition::text.title, Align::Words),
            (super::condition::found.title, Align::Right),
            ("needed", Align::Left),
        ];
        let columns = columns.map(|(title, align)| Column::new(title, align));
        let mut table = Table::new(columns.into());
        for one in conditions {
            table.push(vec![one.text.clone(), one.found_text(), one.needed_text()]);
        }
        self.out.blank();
        self.table(&table);
    }

    fn others(&mut self, numbers: &[u64]) {
        if numbers.is_empty() {
            return;
        }
        let texts: Vec<String> = numbers.iter().map(u64::to_string).collect();
        self.sentence(Style::Plain, &say::others(texts.join(", ")));
    }

    /// The values that a recording has of figures.
    fn values(&mut self, meanings: &[Meaning], recorded: Recorded<'_>) {
        let mut ids: Vec<&str> = Vec::new();
        for one in meanings.iter().filter(|one| one.kind == Kind::Figure) {
            if !ids.contains(&&*one.name) {
                ids.push(&one.name);
            }
        }
        let report = recorded.report;
        for id in ids {
            let run_field = run::ALL.iter().find(|field| field.id == id);
            let of_run = run_field.map(|field| ("run", field.text(&report.run)));
            let of_totals = totals::ALL.iter().find(|field| field.id == id);
            let of_totals = of_totals.map(|field| ("totals", field.text(&report.totals)));
            let of_lines = line::ALL.iter().find(|field| field.id == id);
            if of_run.is_none() && of_totals.is_none() && of_lines.is_none() {
                continue;
            }
            self.title(&format!("{id} in this recording"));
            for (place, text) in of_run.into_iter().chain(of_totals) {
                self.paragraph(Style::Plain, place, &text);
            }
            if let Some(field) = of_lines {
                let mut table = FieldTable::new(&[line::rank, line::address, line::name, *field]);
                report.lines.iter().for_each(|line| table.push(line));
                self.table(&table.table);
            }
        }
    }

    /// The recording that the numbers are from.
    fn origin(&mut self, recorded: Recorded<'_>) {
        let of = &recorded.report.run;
        let is_sampled = recorded.report.is_sampled();
        self.title("Where the numbers come from");
        let input = recorded.input.display().to_string();
        self.paragraph(Style::Plain, "recording", &input);
        self.paragraph(Style::Plain, run::command.title, &of.command.join(" "));
        self.paragraph(Style::Plain, run::machine.title, &run::machine.text(of));
        let settings = [run::placement, run::window_cycles, run::seed];
        let settings = settings.iter().filter(|field| field.is_of(is_sampled));
        let settings: Vec<Field<_>> = settings.copied().collect();
        self.paragraph(Style::Plain, "run", &pairs(of, &settings));
    }
}

/// The columns that a run has.
fn columns<T>(columns: &'static [Shows<T>], is_sampled: bool) -> impl Iterator<Item = Shows<T>> {
    let columns = columns.iter().copied();
    columns.filter(move |column| column.field.is_of(is_sampled))
}
