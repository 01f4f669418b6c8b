//! Reads a plan key by key, with the place of every mistake.

use std::ops::Range;

use hitm_base::document::{
    self, Document, TextLines, TextPlace, Value, line_of_words, words_expected,
};

use crate::PlanError;

/// One table of a plan.
pub(crate) type Table<'a, 'i, 't> = document::Table<'a, 'i, Reader<'t>>;

/// The text that is read.
pub(crate) struct Reader<'t> {
    lines: TextLines<'t>,
    origin: &'t str,
}

impl<'t> Reader<'t> {
    pub(crate) fn new(text: &'t str, origin: &'t str) -> Reader<'t> {
        Reader {
            lines: TextLines::of(text),
            origin,
        }
    }

    pub(crate) fn place(&self, at: usize) -> TextPlace {
        self.lines.place(at)
    }
}

impl Document for Reader<'_> {
    type Error = PlanError;

    fn error(
        &self,
        span: Range<usize>,
        key: &str,
        found: impl Into<String>,
        expected: impl Into<String>,
    ) -> PlanError {
        PlanError {
            origin: self.origin.to_owned(),
            place: self.place(span.start),
            key: key.to_owned(),
            found: found.into(),
            expected: expected.into(),
        }
    }
}

/// The place of the value of `key`, or of the table when there is none.
pub(crate) fn place(table: &Table<'_, '_, '_>, key: &str) -> TextPlace {
    table.document().place(table.span_of(key).start)
}

/// A list of texts, each with its place; one text stands for a list of one.
pub(crate) fn list_of_words(
    table: &Table<'_, '_, '_>,
    key: &'static str,
    count_max: usize,
) -> Result<Option<Vec<(String, TextPlace)>>, PlanError> {
    let Some(item) = table.get(key) else {
        return Ok(None);
    };
    let items = match item.get_ref().as_array() {
        Some(array) => array.as_ref(),
        None => std::slice::from_ref(item),
    };
    check_count(table, key, items.len(), count_max)?;
    let mut words: Vec<(String, TextPlace)> = Vec::new();
    for item in items {
        let word = line_of_words(item).ok_or_else(|| table.wrong(key, item, words_expected()))?;
        if words.iter().any(|(other, _)| *other == word) {
            return Err(table.wrong(key, item, "each text once"));
        }
        words.push((word, table.document().place(item.span().start)));
    }
    Ok(Some(words))
}

/// Refuses an empty list and one that is too long.
pub(crate) fn check_count(
    table: &Table<'_, '_, '_>,
    key: &str,
    count: usize,
    max: usize,
) -> Result<(), PlanError> {
    if (1..=max).contains(&count) {
        return Ok(());
    }
    Err(table.error(key, format!("{count} values"), format!("1 to {max} values")))
}

/// The items of an array; none when there is no such key.
pub(crate) fn items<'a, 'i>(
    table: &Table<'a, 'i, '_>,
    key: &'static str,
    count_max: usize,
) -> Result<&'a [Value<'i>], PlanError> {
    let Some(item) = table.get(key) else {
        return Ok(&[]);
    };
    match item.get_ref().as_array() {
        Some(array) if array.len() <= count_max => Ok(array.as_ref()),
        _ => Err(table.wrong(key, item, format!("a list of at most {count_max}"))),
    }
}
