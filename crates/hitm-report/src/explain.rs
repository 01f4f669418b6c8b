//! The meaning of every word that a screen shows, the rule behind a verdict, and the counts of a recording that met it.
//!
//! [`meanings`] looks a word up in the [`glossary`], among the verdicts and among the [`tables`] of fields.
//! [`Explained`] adds what a report has of it.

mod evidence;
pub mod json;
mod rule;
mod tables;
pub mod text;

use std::path::Path;

use hitm_coherence::sharing::Verdict;
use hitm_fields::{Unit, fields, words};

use crate::ci::Rule;
use crate::glossary::{self, Term, key};
use crate::model::{LineReport, Report};
pub use evidence::{Condition, Evidence, condition};
pub use tables::{FieldsOf, documented, tables};

/// Version of the JSON form.
pub const EXPLAIN_SCHEMA: u32 = 1;

/// Words that are suggested for one that nothing has.
const SIMILAR_MAX: usize = 4;

words! {
    /// A kind of word.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Kind {
        /// A word of the glossary.
        Term = "term",
        /// A verdict.
        Verdict = "verdict",
        /// A quantity of a table.
        Figure = "figure",
    }
}

fields! {
    /// One meaning of a word.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Meaning in meaning {
        /// term, verdict or figure.
        pub kind: Kind => label "", |one| one.kind.id();
        /// The word; of a figure its id.
        pub name: String => label "";
        /// Other spellings; of a figure its titles in text.
        pub also: Vec<String> => words "also";
        /// Its meaning, in one or two sentences.
        pub text: String => label "";
        /// Unit of a figure, null for others.
        pub unit: String => known label "unit";
        /// Documents with the tables that have a figure.
        pub tables: Vec<String> => words "in";
        /// The rule of a verdict: what holds for a line that has it.
        pub rule: Vec<String> => words "rule";
        /// What would make another verdict of it.
        pub changes: Vec<String> => words "otherwise";
        /// What to do about a verdict.
        pub remedy: String => known label "remedy";
        /// The mark of a verdict on a page.
        pub mark: String => known label "mark";
        /// The document with more, in docs/; null where there is none.
        pub more: String => known label "more";
    }
}

/// All meanings of a word: of the glossary first, then figures.
pub fn meanings(word: &str) -> Vec<Meaning> {
    let wanted = key(word);
    all().into_iter().filter(|one| one.has(&wanted)).collect()
}

/// Words that are spelled like one that nothing has, the most alike first.
pub fn similar(word: &str) -> Vec<String> {
    /// Less alike is another word.
    const LIKENESS_MIN: f64 = 0.8;
    let wanted = key(word);
    let mut alike: Vec<(f64, String)> = Vec::new();
    for spelling in all().iter().flat_map(Meaning::spellings) {
        let likeness = strsim::jaro_winkler(&wanted, &key(spelling));
        if likeness >= LIKENESS_MIN && alike.iter().all(|(_, known)| key(known) != key(spelling)) {
            alike.push((likeness, spelling.to_owned()));
        }
    }
    alike.sort_by(|a, b| b.0.total_cmp(&a.0));
    let words = alike.into_iter().map(|(_, word)| word);
    words.take(SIMILAR_MAX).collect()
}

/// Everything that can be explained: words of the glossary, then figures in the order of their tables.
fn all() -> Vec<Meaning> {
    let mut all: Vec<Meaning> = glossary::terms().map(Meaning::of_term).collect();
    all.extend(figures(&tables()));
    all
}

/// The figures of some tables, each once.
fn figures(tables: &[FieldsOf]) -> Vec<Meaning> {
    let mut figures: Vec<Meaning> = Vec::new();
    for table in tables {
        let place = format!("{} ({})", table.document, table.heading);
        for column in &table.columns {
            let known = figures.iter_mut().find(|known| {
                known.name == column.id
                    && known.text == column.description
                    && known.unit == unit_text(column.unit)
            });
            let figure = match known {
                Some(known) => known,
                None => {
                    figures.push(Meaning {
                        text: column.description.to_owned(),
                        unit: unit_text(column.unit).to_owned(),
                        ..Meaning::new(Kind::Figure, column.id)
                    });
                    figures.last_mut().expect("one was added")
                }
            };
            figure.tables.push(place.clone());
            let title = titled(column.title, column.unit);
            if !title.is_empty() && !figure.also.contains(&title) {
                figure.also.push(title);
            }
        }
    }
    figures
}

/// The head of a column in text.
fn titled(title: &str, unit: Unit) -> String {
    match (unit, title) {
        (_, "") => String::new(),
        (Unit::Share, _) => format!("{title}%"),
        _ => title.to_owned(),
    }
}

fn unit_text(unit: Unit) -> &'static str {
    match unit.label() {
        "-" => "",
        label => label,
    }
}

impl Meaning {
    fn new(kind: Kind, name: &str) -> Meaning {
        Meaning {
            kind,
            name: name.to_owned(),
            also: Vec::new(),
            text: String::new(),
            unit: String::new(),
            tables: Vec::new(),
            rule: Vec::new(),
            changes: Vec::new(),
            remedy: String::new(),
            mark: String::new(),
            more: String::new(),
        }
    }

    fn of_term(term: &Term) -> Meaning {
        let more = term.more.map(|document| format!("docs/{document}"));
        let meaning = Meaning {
            also: term.also.iter().map(|one| (*one).to_owned()).collect(),
            text: term.meaning.to_owned(),
            more: more.unwrap_or_default(),
            ..Meaning::new(Kind::Term, term.name)
        };
        let mut verdicts = Verdict::ALL.iter();
        match verdicts.find(|verdict| verdict.facts().words == term.name) {
            Some(verdict) => meaning.with_verdict(*verdict),
            None => meaning,
        }
    }

    fn with_verdict(self, verdict: Verdict) -> Meaning {
        let facts = verdict.facts();
        let color = match facts.color {
            Some(color) => format!("a frame in the page's colour of {color}"),
            None => "a plain frame on the page".to_owned(),
        };
        let level = Rule::Verdict(verdict).level().name();
        let mut also = self.also;
        for spelling in [facts.id, facts.title] {
            if !spelling.eq_ignore_ascii_case(facts.words) {
                also.push(spelling.to_owned());
            }
        }
        Meaning {
            kind: Kind::Verdict,
            also,
            rule: rule::rule_of(verdict),
            changes: rule::changes_of(verdict),
            remedy: facts.remedy.to_owned(),
            mark: format!("{color}; a {level} in continuous integration"),
            ..self
        }
    }

    /// The word and its other spellings.
    fn spellings(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&*self.name).chain(self.also.iter().map(|spelling| &**spelling))
    }

    fn has(&self, wanted: &str) -> bool {
        self.spellings().any(|spelling| key(spelling) == wanted)
    }

    /// The verdict that it explains.
    fn verdict(&self) -> Option<Verdict> {
        let mut verdicts = Verdict::ALL.iter().copied();
        let found = verdicts.find(|verdict| rule::words(*verdict) == self.name);
        found.filter(|_| self.kind == Kind::Verdict)
    }
}

/// A recording and its report.
#[derive(Debug, Clone, Copy)]
pub struct Recorded<'a> {
    /// The file.
    pub input: &'a Path,
    /// Its report.
    pub report: &'a Report,
}

/// A word explained, perhaps with what a recording has of it.
#[derive(Debug)]
pub struct Explained<'a> {
    /// The word as it was asked for.
    pub word: &'a str,
    /// Its meanings.
    pub meanings: Vec<Meaning>,
    /// The recording.
    pub recorded: Option<Recorded<'a>>,
    /// The line that the word is about.
    pub evidence: Option<Evidence<'a>>,
    /// Numbers of other lines of the same verdict.
    pub others: Vec<u64>,
}

impl<'a> Explained<'a> {
    /// A word with these meanings. Of a verdict the costliest line that has it is shown, else the costliest that has
    /// such a fight.
    pub fn word(
        word: &'a str,
        meanings: Vec<Meaning>,
        recorded: Option<Recorded<'a>>,
    ) -> Explained<'a> {
        let verdict = meanings.iter().find_map(Meaning::verdict);
        let lines = match (recorded, verdict) {
            (Some(recorded), Some(verdict)) => lines_of(recorded.report, verdict),
            _ => Vec::new(),
        };
        let evidence = lines.first().zip(recorded);
        Explained {
            word,
            meanings,
            recorded,
            evidence: evidence.map(|(line, recorded)| Evidence::of(line, recorded.report)),
            others: lines.iter().skip(1).map(|line| line.rank).collect(),
        }
    }

    /// The line of a number; none if the report has no such line.
    pub fn line(word: &'a str, rank: u64, recorded: Recorded<'a>) -> Option<Explained<'a>> {
        let mut lines = recorded.report.lines.iter();
        let line = lines.find(|line| line.rank == rank)?;
        Some(Explained {
            word,
            meanings: of_verdict(line.verdict),
            recorded: Some(recorded),
            evidence: Some(Evidence::of(line, recorded.report)),
            others: Vec::new(),
        })
    }
}

/// The meaning of a verdict alone.
fn of_verdict(verdict: Verdict) -> Vec<Meaning> {
    let mut found = meanings(verdict.id());
    found.retain(|one| one.kind == Kind::Verdict);
    found
}

/// The lines of a verdict; without one, those with a fight of its kind.
fn lines_of(report: &Report, verdict: Verdict) -> Vec<&LineReport> {
    let lines = report.lines.iter();
    let own: Vec<&LineReport> = lines.filter(|line| line.verdict == verdict).collect();
    if !own.is_empty() {
        return own;
    }
    let fights_so = |line: &&LineReport| {
        let mut fights = line.fights.iter();
        fights.any(|fight| fight.is_main && fight.kind.verdict() == verdict)
    };
    report.lines.iter().filter(fights_so).collect()
}

#[cfg(test)]
mod tests;
