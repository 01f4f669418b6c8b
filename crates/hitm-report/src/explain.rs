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
use crate::model::{Finding, FindingKind, LineReport, Report};
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
        /// Changes that would make another verdict of it.
        pub changes: Vec<String> => words "otherwise";
        /// Remedy for a verdict.
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
        let verdict = verdicts.find(|verdict| verdict.facts().words == term.name);
        match (verdict, meaning.finding_kind()) {
            (Some(verdict), _) => meaning.with_verdict(*verdict),
            (None, Some(kind)) => Meaning {
                remedy: kind.help()[2].to_owned(),
                ..meaning
            },
            (None, None) => meaning,
        }
    }

    fn with_verdict(self, verdict: Verdict) -> Meaning {
        let facts = verdict.facts();
        let color = match facts.color {
            Some(color) => format!("a frame in the page's colour of {color}"),
            None => "a plain frame on the page".to_owned(),
        };
        let kind = FindingKind::Contended(verdict);
        let level = Rule::Finding(kind).level().name();
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

    /// The kind of findings that it explains.
    fn finding_kind(&self) -> Option<FindingKind> {
        let mut kinds = FindingKind::all();
        kinds.find(|kind| self.kind != Kind::Figure && self.has(&key(kind.id())))
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
    /// The finding that the word is about: of a kind the costliest.
    pub finding: Option<&'a Finding>,
    /// The costliest line of the finding; without a finding of a verdict, the costliest with such a fight.
    pub evidence: Option<Evidence<'a>>,
    /// Numbers of other findings of the kind.
    pub others: Vec<u64>,
}

impl<'a> Explained<'a> {
    /// A word with these meanings.
    pub fn word(
        word: &'a str,
        meanings: Vec<Meaning>,
        recorded: Option<Recorded<'a>>,
    ) -> Explained<'a> {
        let kind = meanings.iter().find_map(Meaning::finding_kind);
        let Some((recorded, kind)) = recorded.zip(kind) else {
            return Explained {
                word,
                meanings,
                recorded,
                finding: None,
                evidence: None,
                others: Vec::new(),
            };
        };
        let findings = recorded.report.findings.iter();
        let findings: Vec<&Finding> = findings.filter(|one| one.kind == kind).collect();
        let finding = findings.first().copied();
        let line = match finding {
            Some(finding) => costliest_line(recorded.report, finding),
            None => with_fight(recorded.report, kind),
        };
        Explained {
            word,
            meanings,
            recorded: Some(recorded),
            finding,
            evidence: line.map(|line| Evidence::of(line, recorded.report)),
            others: findings.iter().skip(1).map(|one| one.number).collect(),
        }
    }

    /// The finding of a number; none if the report has no such finding.
    pub fn finding(word: &'a str, number: u64, recorded: Recorded<'a>) -> Option<Explained<'a>> {
        let mut findings = recorded.report.findings.iter();
        let finding = findings.find(|one| one.number == number)?;
        let mut meanings = meanings(finding.kind.id());
        meanings.retain(|one| one.kind != Kind::Figure);
        let line = costliest_line(recorded.report, finding);
        Some(Explained {
            word,
            meanings,
            recorded: Some(recorded),
            finding: Some(finding),
            evidence: line.map(|line| Evidence::of(line, recorded.report)),
            others: Vec::new(),
        })
    }
}

/// The costliest contended line of a finding.
fn costliest_line<'a>(report: &'a Report, finding: &Finding) -> Option<&'a LineReport> {
    let first = finding.lines.first()?;
    report.lines.iter().find(|line| line.line == *first)
}

/// The costliest line with a fight of a kind that is worth a word.
fn with_fight(report: &Report, kind: FindingKind) -> Option<&LineReport> {
    let is_so = |line: &&LineReport| {
        let mut fights = line.fights.iter().filter(|fight| fight.is_main);
        fights.any(|fight| FindingKind::Contended(fight.kind.verdict()) == kind)
    };
    report.lines.iter().find(is_so)
}

#[cfg(test)]
mod tests;
