//! Sentences of reports as tables of expectations have them: by their names in hitm-report's catalogue, with the
//! names and numbers that go into them.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde::Deserialize;

use crate::programs;

/// A part of a report.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum Said {
    /// A name, a number, a verdict.
    Words(String),
    /// A sentence.
    Sentence(Sentence),
}

/// A sentence of the catalogue.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Sentence {
    /// Its name; where it may be one of several, their names with `or` between them.
    say: String,
    /// Parts of what goes into it, in their order; a line break begins and ends each thing.
    #[serde(default)]
    of: Vec<String>,
}

/// Returns true if a text has these parts in their order: each begins behind the beginning of the one before.
pub(crate) fn follow_one_another(text: &str, parts: &[Said]) -> bool {
    let mut rest = Some(text);
    for part in parts {
        rest = rest.and_then(|rest| part.behind(rest));
    }
    rest.is_some()
}

impl Said {
    /// The text behind the first words of this in a text; none when it is not there.
    fn behind<'t>(&self, text: &'t str) -> Option<&'t str> {
        match self {
            Said::Words(words) => Some(text.split_once(words.as_str())?.1),
            Said::Sentence(Sentence { say, of }) => {
                let mut names = say.split(" or ");
                names.find_map(|name| behind(&catalogue()[name], of, text))
            }
        }
    }
}

/// The text behind the first words of a sentence with gaps, which have these parts.
fn behind<'t>(sentence: &[String], of: &[String], text: &'t str) -> Option<&'t str> {
    let (first, others) = sentence.split_first().expect("a sentence has a beginning");
    let starts = match first.is_empty() {
        true => vec![0],
        false => text.match_indices(first).map(|found| found.0).collect(),
    };
    starts.into_iter().find_map(|start: usize| {
        let mut rest = &text[start + first.len()..];
        let mut behind = (!first.is_empty()).then_some(rest);
        let mut gaps = String::new();
        for words in others {
            let (gap, after) = match words.is_empty() {
                true => (rest, rest),
                false => rest.split_once(words.as_str())?,
            };
            gaps += &format!("\n{gap}");
            rest = after;
            behind = behind.or((!words.is_empty()).then_some(rest));
        }
        gaps.push('\n');
        let mut left = Some(&*gaps);
        for part in of {
            left = left.and_then(|left| Some(left.split_once(part.as_str())?.1));
        }
        left.and(behind)
    })
}

/// The words of each sentence around its gaps, by its name.
fn catalogue() -> &'static BTreeMap<String, Vec<String>> {
    static READ: OnceLock<BTreeMap<String, Vec<String>>> = OnceLock::new();
    READ.get_or_init(|| {
        let path = programs::root().join("crates/hitm-report/tests/golden/sentences.txt");
        let text = std::fs::read_to_string(path).expect("the catalogue is there");
        let sentences = text.lines().filter_map(|line| line.strip_prefix("  "));
        let sentences = sentences.filter_map(|line| line.split_once(": "));
        let mut catalogue = BTreeMap::new();
        for (name, sentence) in sentences {
            let other = catalogue.insert(name.to_owned(), words(sentence));
            assert_eq!(other, None, "two sentences {name}");
        }
        catalogue
    })
}

/// The words around the gaps of a sentence: `on <name>.` has `on ` and `.`.
fn words(sentence: &str) -> Vec<String> {
    let mut parts = sentence.split('<');
    let mut words = vec![parts.next().unwrap_or_default().to_owned()];
    for part in parts {
        let (_, behind) = part.split_once('>').expect("a gap ends");
        words.push(behind.to_owned());
    }
    words
}

#[test]
fn a_sentence_is_found_by_its_name() {
    let sentence = |say: &str, of: &[&str]| {
        Said::Sentence(Sentence {
            say: say.to_owned(),
            of: of.iter().map(|part| (*part).to_owned()).collect(),
        })
    };
    let words = &catalogue()["write_less"];
    let text = format!("1: {}a.b{}.", words[0], words[1]);
    assert!(follow_one_another(
        &text,
        &[sentence("write_less", &["a.b"])]
    ));
    assert!(follow_one_another(
        &text,
        &[
            Said::Words("1".into()),
            sentence("pad_elements or write_less", &[])
        ]
    ));
    assert!(!follow_one_another(
        &text,
        &[sentence("write_less", &["a.c"])]
    ));
    assert!(!follow_one_another(&text, &[sentence("pad_elements", &[])]));
    let twice = [sentence("write_less", &[]), sentence("write_less", &[])];
    assert!(!follow_one_another(&text, &twice));
}
