//! Prose of the documents: the lengths of sentences, and words for which the field has a term.

use std::fmt::Write as _;

use super::{Checkout, File};

/// Words of the median sentence that a page may have.
const MEDIAN_MAX: usize = 18;
/// Words that nine of ten sentences of a page may have.
const P90_MAX: usize = 28;
/// The same for all pages together.
const MEDIAN_MAX_OF_ALL: usize = 16;

/// Documents outside of `docs/`. Others beside code are notes on fixtures.
const OTHER_DOCUMENTS: [&str; 3] = ["README.md", "CONTRIBUTING.md", "ARCHITECTURE.md"];

/// Words that no document has, in two halves as in `text.rs`, and what to write instead.
const WORDS: [(&str, &str, &str); 15] = [
    (" is t", "old ", "gets, receives"),
    (" are t", "old ", "get, receive"),
    (" lett", "ing out", "eviction"),
    ("lets o", "ut", "evicts"),
    ("fore", "see", "predict"),
    ("fore", "tell", "predict"),
    ("nobody has pub", "lished", "unpublished"),
    ("cannot be s", "aid to", "cannot be described to"),
    ("wrong gu", "ess", "misprediction"),
    ("memory is as", "ked for", "prefetch"),
    ("ask mem", "ory for", "prefetch"),
    ("host's mem", "ory for", "prefetch"),
    ("dealt o", "ut", "partitioned"),
    ("dealing o", "ut", "partitioning"),
    ("says other", "wise", "overrides"),
];

/// The sentences of one page, as their numbers of words.
#[derive(Debug)]
struct Lengths {
    /// Words of each sentence, in ascending order.
    sorted: Vec<usize>,
}

impl Lengths {
    fn of(text: &str) -> Lengths {
        Lengths::from(sentences(text))
    }

    fn from(mut words: Vec<usize>) -> Lengths {
        words.sort_unstable();
        Lengths { sorted: words }
    }

    /// The length that `percent` of the sentences do not exceed.
    fn percentile(&self, percent: usize) -> usize {
        let rank = (self.sorted.len() * percent).div_ceil(100);
        let place = rank.saturating_sub(1);
        self.sorted.get(place).copied().unwrap_or(0)
    }
}

/// Pages whose sentences are too long.
pub(super) fn long_sentences(checkout: &Checkout) -> Vec<String> {
    let mut problems = Vec::new();
    let mut all = Vec::new();
    for (file, text) in documents(checkout) {
        let lengths = Lengths::of(text);
        let (median, p90) = (lengths.percentile(50), lengths.percentile(90));
        if median > MEDIAN_MAX || p90 > P90_MAX {
            problems.push(format!(
                "{} has a median of {median} words and a p90 of {p90}; {MEDIAN_MAX} and {P90_MAX} are the most",
                file.path
            ));
        }
        all.extend(lengths.sorted);
    }
    let median = Lengths::from(all).percentile(50);
    if median > MEDIAN_MAX_OF_ALL {
        problems.push(format!(
            "all documents have a median of {median} words; {MEDIAN_MAX_OF_ALL} are the most"
        ));
    }
    problems
}

/// Words of documents for which the field has a term.
pub(super) fn words(checkout: &Checkout) -> Vec<String> {
    let mut problems = Vec::new();
    for (file, text) in documents(checkout) {
        for (number, line) in prose_and_tables(text) {
            let line = line.to_lowercase();
            for (head, tail, instead) in WORDS {
                let word = format!("{head}{tail}");
                if line.contains(&word) {
                    let word = word.trim();
                    problems.push(format!("{}:{number} has \"{word}\": {instead}", file.path));
                }
            }
        }
    }
    problems
}

/// The lengths of all documents' sentences as a table, the longest first.
pub(super) fn table(checkout: &Checkout) -> String {
    let mut rows = Vec::new();
    let mut all = Vec::new();
    for (file, text) in documents(checkout) {
        let lengths = Lengths::of(text);
        all.extend_from_slice(&lengths.sorted);
        rows.push((lengths, text.split_whitespace().count(), file.path.as_str()));
    }
    rows.sort_by_key(|(lengths, words, _)| {
        std::cmp::Reverse((lengths.percentile(90), lengths.percentile(50), *words))
    });
    let words = rows.iter().map(|(_, words, _)| words).sum();
    rows.push((Lengths::from(all), words, "all"));
    let mut out = "  p90 median longest sentences  words page\n".to_owned();
    for (lengths, words, path) in &rows {
        let (p90, median, longest) = (
            lengths.percentile(90),
            lengths.percentile(50),
            lengths.percentile(100),
        );
        let count = lengths.sorted.len();
        let _ = writeln!(
            out,
            "{p90:5} {median:6} {longest:7} {count:9} {words:6} {path}"
        );
    }
    out
}

fn documents(checkout: &Checkout) -> impl Iterator<Item = (&File, &str)> {
    let is_document = |file: &&File| {
        let is_page = file.path.starts_with("docs/") && file.path.ends_with(".md");
        let is_other = OTHER_DOCUMENTS.contains(&file.path.as_str());
        is_other || is_page && !file.path.ends_with("/SUMMARY.md")
    };
    let files = checkout.files.iter().filter(is_document);
    files.filter_map(|file| Some((file, file.text.as_deref()?)))
}

/// Lines outside of code and of generated parts, each with its number. Lines that are left out are
/// empty, so that they end a paragraph.
fn prose_and_tables(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_code = false;
    let mut generated = None;
    (1..).zip(text.lines()).map(move |(number, line)| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        let comment = line
            .strip_prefix("<!-- ")
            .and_then(|rest| rest.strip_suffix(" -->"));
        if let Some(comment) = comment {
            let end = format!("<!-- end of {comment} -->");
            if text.contains(&end) {
                generated = Some(end);
            }
        }
        let is_left_out = is_code || is_fence || comment.is_some() || generated.is_some();
        if generated.as_deref() == Some(line) {
            generated = None;
        }
        (number, if is_left_out { "" } else { line })
    })
}

/// The number of words of each sentence of prose. Tables, titles and sentences that are mostly
/// figures are left out.
fn sentences(text: &str) -> Vec<usize> {
    let mut found = Vec::new();
    let mut paragraph = String::new();
    for (_, line) in prose_and_tables(text) {
        let line = line.trim();
        let is_other = line.is_empty() || line.starts_with(['|', '#', '<']);
        let item = list_item(line);
        if is_other || item.is_some() {
            split(&plain(&paragraph), &mut found);
            paragraph.clear();
        }
        if !is_other {
            paragraph.push_str(item.unwrap_or(line));
            paragraph.push(' ');
        }
    }
    split(&plain(&paragraph), &mut found);
    found
}

/// Text behind the mark of a list's item.
fn list_item(line: &str) -> Option<&str> {
    let (mark, item) = line.split_once(' ')?;
    let is_number = mark
        .strip_suffix('.')
        .is_some_and(|digits| digits.parse::<u32>().is_ok());
    (is_number || ["-", "*", "+"].contains(&mark)).then_some(item)
}

/// Text without code and targets of links. Code is the word `x`.
fn plain(text: &str) -> String {
    let mut prose = String::new();
    for (place, part) in text.split('`').enumerate() {
        let is_code = place % 2 == 1;
        prose.push_str(if is_code { "x" } else { part });
    }
    let mut parts = prose.split("](");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        plain.push(']');
        plain.push_str(part.split_once(')').map_or(part, |(_, rest)| rest));
    }
    plain
}

/// Counts the words of each sentence of a paragraph.
fn split(paragraph: &str, found: &mut Vec<usize>) {
    let (mut words, mut figures) = (0, 0);
    let mut rest = paragraph.split_whitespace().peekable();
    while let Some(word) = rest.next() {
        if word.contains(char::is_alphanumeric) {
            words += 1;
            figures += usize::from(word.contains(|c: char| c.is_ascii_digit()));
        }
        let bare = word.trim_matches(['(', ')', '[', ']', '"', '*', '_']);
        let may_end = bare.ends_with(['.', '!', '?']) && !["e.g.", "i.e.", "vs."].contains(&bare);
        // A name may begin a sentence in lower case; `x` stands for code.
        let is_end = rest.peek().is_none_or(|next| {
            let next = next.trim_start_matches(['(', '[', '"', '*', '_']);
            may_end && (next.starts_with('x') || !next.starts_with(char::is_lowercase))
        });
        if is_end {
            let is_prose = words > 0 && figures * 3 < words;
            if is_prose {
                found.push(words);
            }
            (words, figures) = (0, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checkout(files: &[(&str, &str)]) -> Checkout {
        let files = files.iter().map(|(path, text)| File::of(path, text));
        Checkout {
            files: files.collect(),
            packages: Vec::new(),
        }
    }

    #[test]
    fn prose_alone_is_measured() {
        let text = "# A title of a page\n\nOne two\nthree. Four `a b. C d` five?\n\n\
                    | a | table. Of two |\n\n```\nCode is left out.\n```\n\
                    <!-- made by x -->\nGenerated text.\n<!-- end of made by x -->\nSix.\n";
        assert_eq!(sentences(text), [3, 3, 1]);
    }

    #[test]
    fn an_item_of_a_list_begins_a_sentence() {
        assert_eq!(
            sentences("Of three:\n- one\n- two words\n3. last\n"),
            [2, 1, 2, 1]
        );
    }

    #[test]
    fn abbreviations_and_numbers_end_no_sentence() {
        let text = "It takes 1.5 ns, e.g. on Zen 3 (vs. Zen 4 on the same host). `x` is two.";
        assert_eq!(sentences(text), [15, 3]);
    }

    #[test]
    fn the_target_of_a_link_is_no_word() {
        assert_eq!(sentences("See [the page](a/b.md). More.\n"), [3, 1]);
    }

    #[test]
    fn a_list_of_figures_is_no_sentence() {
        assert!(sentences("Means: 43.0 and 117.8; 48.1 and 141.2 ns.\n").is_empty());
    }

    #[test]
    fn percentiles_are_of_the_nearest_rank() {
        let lengths = Lengths::from((1..=10).rev().collect());
        assert_eq!(lengths.percentile(50), 5);
        assert_eq!(lengths.percentile(90), 9);
        assert_eq!(Lengths::from(Vec::new()).percentile(90), 0);
    }

    #[test]
    fn a_page_of_long_sentences_is_a_problem() {
        let long = format!("# A\n\n{}.\n", "word ".repeat(P90_MAX + 1));
        let found = |path| long_sentences(&checkout(&[(path, &long), ("docs/b.md", "# B\n")]));
        assert!(found("docs/a.md")[0].starts_with("docs/a.md has a median of 29"));
        assert_eq!(found("docs/a.md").len(), 2);
        assert!(found("crates/a/tests/golden/README.md").is_empty());
    }

    #[test]
    fn words_of_the_project_are_found_with_their_terms() {
        let text = format!(
            "# A\n\nThe home {}{}so.\n`x` is\n",
            WORDS[0].0.trim(),
            WORDS[0].1
        );
        let found = words(&checkout(&[("docs/a.md", &text)]));
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("docs/a.md:3 has"));
    }
}
