//! Explanations as JSON: docs/formats/explain.md has the form.

use super::{
    EXPLAIN_SCHEMA, Evidence, Explained, Kind, Meaning, Recorded, all, condition, meaning,
};
use crate::fields::{fight, finding, finding_place, line, row, run, totals, wait_row};
use crate::model::Finding;
use crate::object::{Node, Object, list, list_of_run};

/// Every word.
pub fn list_all() -> String {
    let all = Object::default()
        .with("schema", EXPLAIN_SCHEMA)
        .with("meanings", list(meaning::ALL, &all()));
    all.text()
}

/// A word's meanings, and what a recording has of it.
pub fn render(explained: &Explained<'_>) -> String {
    let answer = Object::default()
        .with("schema", EXPLAIN_SCHEMA)
        .with("word", explained.word)
        .with("meanings", list(meaning::ALL, &explained.meanings));
    let Some(recorded) = explained.recorded else {
        return answer.text();
    };
    let is_sampled = recorded.report.is_sampled();
    let evidence = explained.evidence.as_ref();
    let evidence = evidence.map(|evidence| of_line(evidence, is_sampled));
    let answer = answer
        .with("recording", recorded.input.display().to_string())
        .with(
            "run",
            Object::of_run(run::ALL, &recorded.report.run, is_sampled),
        )
        .with_some(
            "finding",
            explained.finding.map(|one| of_finding(one, is_sampled)),
        )
        .with_some("line", evidence)
        .with("other_findings", explained.others.as_slice())
        .with("values", values(&explained.meanings, recorded));
    answer.text()
}

fn of_finding(one: &Finding, is_sampled: bool) -> Object {
    Object::of_run(finding::ALL, one, is_sampled)
        .with("places", list(finding_place::ALL, &one.places))
        .with_some(
            "wait",
            one.wait
                .as_ref()
                .map(|wait| Object::of(wait_row::ALL, wait)),
        )
}

fn of_line(evidence: &Evidence<'_>, is_sampled: bool) -> Object {
    let one = evidence.line;
    let conditions = evidence.conditions.iter();
    let conditions =
        conditions.map(|one| Object::of(condition::ALL, one).with("is_met", one.is_met()));
    Object::of_run(line::ALL, one, is_sampled)
        .with("conditions", conditions.collect::<Node>())
        .with_some("lock_signs", evidence.lock_signs.as_deref())
        .with("fights", list_of_run(fight::ALL, &one.fights, is_sampled))
        .with("rows", list_of_run(row::ALL, &one.rows, is_sampled))
        .with("changes", evidence.changes.as_slice())
}

/// The values that a recording has of figures, by table.
fn values(meanings: &[Meaning], recorded: Recorded<'_>) -> Object {
    let report = recorded.report;
    let is_asked = |id: &str| {
        let mut meanings = meanings.iter();
        meanings.any(|one| one.kind == Kind::Figure && one.name == id)
    };
    let of_run = run::ALL.iter().filter(|field| is_asked(field.id));
    let of_totals = totals::ALL.iter().filter(|field| is_asked(field.id));
    let of_line = line::ALL.iter().filter(|field| is_asked(field.id));
    let of_line: Vec<_> = of_line.collect();
    let lines = report.lines.iter().filter(|_| !of_line.is_empty());
    let lines = lines.map(|one| {
        let named = [line::rank, line::name];
        let named = named.iter().filter(|field| !is_asked(field.id));
        Object::of(named.chain(of_line.iter().copied()), one)
    });
    Object::default()
        .with("run", Object::of(of_run, &report.run))
        .with("totals", Object::of(of_totals, &report.totals))
        .with("lines", lines.collect::<Node>())
}
