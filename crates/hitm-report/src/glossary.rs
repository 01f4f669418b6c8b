//! The words that screens and documents use, each with one meaning.
//!
//! `hitm explain`, pages and docs/guide/glossary.md take them from here. Figures are not among them: each is explained
//! where it is declared ([`fields`](crate::fields)), and verdicts are by their facts
//! ([`Verdict::facts`](hitm_coherence::sharing::Verdict::facts)).

mod terms;

use hitm_coherence::sharing::Verdict;
use serde_json::{Value, json};

pub use terms::GROUPS;
pub(crate) use terms::{ASLEEP, CALLED_BY, HANDED_OVER, SPINNING, TO_WAIT};

/// Words of one subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Group {
    /// The subject.
    pub title: &'static str,
    /// Its words in the order of the alphabet.
    pub terms: &'static [Term],
}

/// A word and its meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Term {
    /// The word.
    pub name: &'static str,
    /// Other spellings, as labels and titles of screens have them.
    pub also: &'static [&'static str],
    /// One or two sentences.
    pub meaning: &'static str,
    /// The document with more, in docs/.
    pub more: Option<&'static str>,
}

impl Term {
    const fn new(name: &'static str, meaning: &'static str) -> Term {
        Term {
            name,
            also: &[],
            meaning,
            more: None,
        }
    }

    /// The same with other spellings.
    const fn also(mut self, spellings: &'static [&'static str]) -> Term {
        self.also = spellings;
        self
    }

    /// The same with a document that says more.
    const fn more(mut self, document: &'static str) -> Term {
        self.more = Some(document);
        self
    }

    /// The word and its other spellings.
    pub fn spellings(&self) -> impl Iterator<Item = &'static str> {
        std::iter::once(self.name).chain(self.also.iter().copied())
    }

    /// The meaning without its capital and its full stop, to stand in a sentence or a title.
    pub(crate) fn clause(&self) -> String {
        let mut clause = self.meaning.trim_end_matches('.').to_owned();
        if let Some(first) = clause.get_mut(..1) {
            first.make_ascii_lowercase();
        }
        clause
    }

    const fn of_verdict(verdict: Verdict) -> Term {
        let facts = verdict.facts();
        Term::new(facts.words, facts.meaning)
    }
}

/// The form of a word by which it is looked up: case, signs, the number and what joins words do not matter.
pub fn key(word: &str) -> String {
    let word = word.trim().trim_end_matches(['%', ':']).to_lowercase();
    let word = word.replace(['_', '-'], " ");
    let words: Vec<&str> = word.split_whitespace().collect();
    let key = words.join(" ");
    match key.strip_suffix('s') {
        Some(singular) if singular.len() > 2 && !singular.ends_with('s') => singular.to_owned(),
        _ => key,
    }
}

/// All words.
pub fn terms() -> impl Iterator<Item = &'static Term> {
    GROUPS.iter().flat_map(|group| group.terms)
}

/// The words as data of a page: each with its meaning, by group.
pub(crate) fn json() -> Value {
    let terms = |group: &Group| -> Value {
        let terms = group.terms.iter();
        terms
            .map(|term| json!({ "name": term.name, "also": term.also, "meaning": term.meaning }))
            .collect()
    };
    let groups = GROUPS.iter();
    groups
        .map(|group| json!({ "title": group.title, "terms": terms(group) }))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn words_are_in_order_and_have_one_meaning() {
        for group in GROUPS {
            let names: Vec<String> = group.terms.iter().map(|t| t.name.to_lowercase()).collect();
            assert!(names.is_sorted(), "{}: {names:?}", group.title);
        }
        let mut meant: BTreeMap<String, &str> = BTreeMap::new();
        for term in terms() {
            for spelling in term.spellings() {
                let other = meant.insert(key(spelling), term.name).unwrap_or(term.name);
                assert_eq!(other, term.name, "{spelling} has two meanings");
            }
        }
    }

    #[test]
    fn a_word_is_found_however_it_is_written() {
        for (spelled, expected) in [
            ("Hand-overs", "hand over"),
            ("lost%", "lost"),
            ("lost_cycles", "lost cycle"),
            ("miss", "miss"),
            ("run:", "run"),
            ("us", "us"),
        ] {
            assert_eq!(key(spelled), expected);
        }
    }

    #[test]
    fn meanings_are_one_or_two_sentences() {
        for term in terms() {
            let meaning = term.meaning;
            assert!(meaning.ends_with('.'), "{}: a full stop", term.name);
            assert!(!meaning.contains(['|', '<']), "{}: no markup", term.name);
            let sentences = meaning.matches(". ").count() + 1;
            assert!(sentences <= 2, "{}: {sentences} sentences", term.name);
        }
    }
}
