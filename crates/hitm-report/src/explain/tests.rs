use std::path::Path;

use hitm_coherence::sharing::{Fight, FightKind, Weighed};
use proptest::prelude::*;

use super::evidence::of_fights;
use super::*;

/// Labels of the summary and of the view, which stand in no table.
const OTHER_LABELS: [&str; 18] = [
    "Lost",
    "Where",
    "Why",
    "By",
    "Do",
    "Held",
    "Gain",
    "Here",
    "Next",
    "Lines",
    "Objects",
    "Types",
    "Functions",
    "Callers",
    "Members",
    "Functions with their callees",
    "Source lines",
    "Programs",
];

/// The texts between two marks.
fn between<'t>(text: &'t str, start: &str, end: char) -> Vec<&'t str> {
    let parts = text.split(start).skip(1);
    parts
        .filter_map(|part| Some(part.split_once(end)?.0))
        .collect()
}

/// The texts of all files below a folder.
fn sources(folder: &Path, suffix: &str, texts: &mut Vec<String>) {
    let mut entries: Vec<_> = std::fs::read_dir(folder)
        .expect("a folder of this tree")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            sources(&path, suffix, texts);
        } else if path.to_str().is_some_and(|path| path.ends_with(suffix)) {
            texts.push(std::fs::read_to_string(&path).expect("a source"));
        }
    }
}

/// Labels of text and of pages as sources write them.
fn labels() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let (mut rust, mut scripts) = (Vec::new(), Vec::new());
    sources(&folder, ".rs", &mut rust);
    sources(&folder, ".js", &mut scripts);
    let mut labels: Vec<String> = OTHER_LABELS.map(String::from).into();
    let mut add = |found: Vec<&str>| labels.extend(found.into_iter().map(str::to_owned));
    for text in rust.iter().filter(|text| !text.contains("mod tests {")) {
        add(between(text, "Column::new(\"", '"'));
        add(between(text, ".titled(\"", '"'));
        for style in ["Plain", "Bold", "Warning", "Verdict"] {
            add(between(text, &format!("paragraph(Style::{style}, \""), '"'));
        }
    }
    for text in &scripts {
        add(between(text, "section('", '\''));
        add(between(text, "h('h3', null, '", '\''));
        add(between(text, "caption: '", '\''));
        add(between(text, "textTable('", '\''));
        for head in text.split("['").skip(1) {
            let head = head.split_once("', ");
            let head =
                head.filter(|head| head.1.starts_with("true]") || head.1.starts_with("false]"));
            add(head.into_iter().map(|head| head.0).collect());
        }
    }
    labels.retain(|label| !label.is_empty());
    labels
}

#[test]
fn every_head_and_every_figure_is_explained() {
    for table in tables() {
        for column in &table.columns {
            let titles = [column.id, column.title, &titled(column.title, column.unit)];
            for title in titles.into_iter().filter(|title| !title.is_empty()) {
                let found = meanings(title);
                let is_here =
                    |one: &Meaning| one.kind == Kind::Figure && one.text == column.description;
                assert!(found.iter().any(is_here), "{}: {title}", table.heading);
            }
        }
    }
}

#[test]
fn every_label_is_explained() {
    let labels = labels();
    assert!(labels.len() > 60, "{labels:?}");
    let all = all();
    let is_known = |label: &&String| all.iter().any(|one| one.has(&key(label)));
    let unknown: Vec<&String> = labels.iter().filter(|label| !is_known(label)).collect();
    assert!(unknown.is_empty(), "no meaning of {unknown:?}");
}

#[test]
fn a_misspelled_word_finds_those_that_are_alike() {
    assert!(meanings("staal").is_empty());
    assert_eq!(similar("staal").first().map(String::as_str), Some("stall"));
    assert_eq!(
        similar("false shering").first().map(String::as_str),
        Some("false sharing")
    );
    assert_eq!(similar("qqqq"), Vec::<String>::new());
}

#[test]
fn a_verdict_is_found_by_its_id_its_words_and_its_title() {
    for kind in FindingKind::all() {
        let found = meanings(kind.id());
        let kinds: Vec<FindingKind> = found.iter().filter_map(Meaning::finding_kind).collect();
        assert_eq!(kinds, [kind]);
    }
    for verdict in Verdict::ALL {
        let facts = verdict.facts();
        for spelling in [facts.id, facts.words, facts.title] {
            let found = meanings(spelling);
            let verdicts: Vec<&str> = found
                .iter()
                .filter(|one| one.kind == Kind::Verdict)
                .map(|one| one.name.as_str())
                .collect();
            assert_eq!(verdicts, [facts.words], "{spelling}");
        }
    }
}

fn fight() -> impl Strategy<Value = Fight> {
    // A fight over a pair of lines is its line's only one, and is weighed against none.
    let kinds = FightKind::ALL.iter().copied();
    let kinds = kinds.filter(|kind| *kind != FightKind::PairSharing);
    let kind = prop::sample::select(kinds.collect::<Vec<_>>());
    (kind, 1_u64..100, 0_u64..100).prop_map(|(kind, contended_count, lost_cycles)| Fight {
        kind,
        bytes: 0,
        contended_count,
        lost_cycles,
    })
}

proptest! {
    /// The rule is said as the code has it.
    #[test]
    fn a_verdict_meets_the_conditions_of_its_own_rule_alone(
        fights in prop::collection::vec(fight(), 1..6)
    ) {
        let fights = Weighed(&fights);
        let given = fights.verdict();
        let apart = [Verdict::NoContention, Verdict::PairSharing];
        let verdicts = Verdict::ALL.iter().filter(|one| !apart.contains(one));
        for verdict in verdicts {
            let is_met = of_fights(*verdict, fights).iter().all(Condition::is_met);
            prop_assert!(is_met || *verdict != given, "{given:?}");
            // Two kinds of one cost meet the conditions of both.
            let is_rival = rule::rival(*verdict) == Some(given);
            prop_assert!(!is_met || *verdict == given || is_rival, "{verdict:?} beside {given:?}");
        }
    }
}
