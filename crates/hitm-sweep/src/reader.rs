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

/// Readers of a plan's tables.
pub(crate) trait PlanTable<'a, 'i> {
    /// The place of the value of `key`, or of the table when there is none.
    fn place(&self, key: &str) -> TextPlace;

    /// A list of texts, each with its place; one text stands for a list of one.
    fn list_of_words(
        &self,
        key: &'static str,
        count_max: usize,
    ) -> Result<Option<Vec<(String, TextPlace)>>, PlanError>;

    /// Refuses an empty list and one that is too long.
    fn check_count(&self, key: &str, count: usize, max: usize) -> Result<(), PlanError>;

    /// The items of an array; none when there is no such key.
    fn items(&self, key: &'static str, count_max: usize) -> Result<&'a [Value<'i>], PlanError>;
}

impl<'a, 'i> PlanTable<'a, 'i> for Table<'a, 'i, '_> {
    fn place(&self, key: &str) -> TextPlace {
        self.document().place(self.span_of(key).start)
    }

    fn list_of_words(
        &self,
        key: &'static str,
        count_max: usize,
    ) -> Result<Option<Vec<(String, TextPlace)>>, PlanError> {
        let Some(item) = self.get(key) else {
            return Ok(None);
        };
        let items = match item.get_ref().as_array() {
            Some(array) => array.as_ref(),
            None => std::slice::from_ref(item),
        };
        self.check_count(key, items.len(), count_max)?;
        let mut words: Vec<(String, TextPlace)> = Vec::new();
        for item in items {
            let word =
                line_of_words(item).ok_or_else(|| self.wrong(key, item, words_expected()))?;
            if words.iter().any(|(other, _)| *other == word) {
                return Err(self.wrong(key, item, "each text once"));
            }
            words.push((word, self.document().place(item.span().start)));
        }
        Ok(Some(words))
    }

    fn check_count(&self, key: &str, count: usize, max: usize) -> Result<(), PlanError> {
        if (1..=max).contains(&count) {
            return Ok(());
        }
        Err(self.error(key, format!("{count} values"), format!("1 to {max} values")))
    }

    fn items(&self, key: &'static str, count_max: usize) -> Result<&'a [Value<'i>], PlanError> {
        let Some(item) = self.get(key) else {
            return Ok(&[]);
        };
        match item.get_ref().as_array() {
            Some(array) if array.len() <= count_max => Ok(array.as_ref()),
            _ => Err(self.wrong(key, item, format!("a list of at most {count_max}"))),
        }
    }
}
