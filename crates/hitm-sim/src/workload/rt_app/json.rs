//! JSON values that know their place, so that every mistake can be shown where it is.

use hitm_base::document::{TextLines, TextPlace};
use jsonc_parser::ast::{Object, ObjectProp, Value};
use jsonc_parser::common::{Range, Ranged as _};
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};

use super::{Fault, RtAppError, TEXT_BYTES_MAX};

/// Longest piece of the file that an error repeats, in characters.
const EXCERPT_CHARS_MAX: usize = 40;

/// The text of a file, to find lines and to quote from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Document<'t> {
    pub(super) text: &'t str,
    pub(super) origin: &'t str,
}

impl<'t> Document<'t> {
    /// The document's outermost object.
    pub(super) fn root(&self) -> Result<Object<'t>, RtAppError> {
        if self.text.len() > TEXT_BYTES_MAX {
            let found = format!("{} bytes", self.text.len());
            let expected = format!("an rt-app file of at most {TEXT_BYTES_MAX} bytes");
            return Err(self.unexpected(0, "", found, expected));
        }
        let parsed = parse_to_ast(
            self.text,
            &CollectOptions::default(),
            &ParseOptions::default(),
        );
        let parsed = parsed.map_err(|error| {
            let found = format!("no JSON ({})", error.kind());
            self.unexpected(error.range().start, "", found, "an rt-app file".into())
        })?;
        match parsed.value {
            Some(Value::Object(root)) => Ok(root),
            other => {
                let found = other.map_or_else(
                    || String::from("nothing"),
                    |value| self.excerpt(value.range()),
                );
                Err(self.unexpected(0, "", found, "an object with \"tasks\"".into()))
            }
        }
    }

    pub(super) fn unexpected(
        &self,
        position: usize,
        key: &str,
        found: String,
        expected: String,
    ) -> RtAppError {
        self.error(position, key, Fault::Unexpected { found, expected })
    }

    pub(super) fn error(&self, position: usize, key: &str, fault: Fault) -> RtAppError {
        let TextPlace { line, column } = TextLines::of(self.text).place(position);
        RtAppError {
            origin: self.origin.into(),
            line,
            column,
            key: key.into(),
            fault,
        }
    }

    /// Text at `range`, shortened.
    pub(super) fn excerpt(&self, range: Range) -> String {
        let text = self.text.get(range.start..range.end).unwrap_or("");
        let mut excerpt: String = text.chars().take(EXCERPT_CHARS_MAX).collect();
        if excerpt.len() < text.len() {
            excerpt.push_str("...");
        }
        excerpt.replace(['\n', '\t'], " ")
    }
}

/// One key and its value, with the path that leads to it.
#[derive(Debug)]
pub(super) struct Entry<'d, 't> {
    pub(super) document: Document<'t>,
    pub(super) key: &'d str,
    pub(super) path: String,
    pub(super) value: &'d Value<'t>,
    position: usize,
}

impl<'d, 't> Entry<'d, 't> {
    pub(super) fn new(document: Document<'t>, parent: &str, property: &'d ObjectProp<'t>) -> Self {
        let key = property.name.as_str();
        let path = match parent {
            "" => key.to_owned(),
            _ => format!("{parent}.{key}"),
        };
        Entry {
            document,
            key,
            path,
            value: &property.value,
            position: property.range.start,
        }
    }

    /// The entries of this object, in the order of the file.
    pub(super) fn entries(&self) -> Result<Vec<Entry<'d, 't>>, RtAppError> {
        match self.value {
            Value::Object(object) => Ok(entries(self.document, &self.path, object)),
            _ => Err(self.expected("an object")),
        }
    }

    pub(super) fn string(&self) -> Result<String, RtAppError> {
        match self.value {
            Value::StringLit(string) => Ok(string.value.clone().into_owned()),
            _ => Err(self.expected("a string")),
        }
    }

    /// A string that is not empty: the name of something.
    pub(super) fn name(&self) -> Result<String, RtAppError> {
        let name = self.string()?;
        if name.is_empty() {
            return Err(self.expected("a name"));
        }
        Ok(name)
    }

    pub(super) fn boolean(&self) -> Result<bool, RtAppError> {
        match self.value {
            Value::BooleanLit(boolean) => Ok(boolean.value),
            _ => Err(self.expected("true or false")),
        }
    }

    /// A whole number from `min` to `max`.
    pub(super) fn integer(&self, min: i64, max: i64) -> Result<i64, RtAppError> {
        let number = match self.value {
            Value::NumberLit(number) => number.value.parse::<i64>().ok(),
            _ => None,
        };
        match number {
            Some(number) if (min..=max).contains(&number) => Ok(number),
            _ => Err(self.expected(&format!("a whole number from {min} to {max}"))),
        }
    }

    /// A list of whole numbers from 0 to `max`, sorted, each once.
    pub(super) fn indices(&self, max: u32) -> Result<Vec<u32>, RtAppError> {
        let expected = || self.expected(&format!("a list of whole numbers from 0 to {max}"));
        let Value::Array(array) = self.value else {
            return Err(expected());
        };
        let mut indices = Vec::new();
        for element in &array.elements {
            let index = match element {
                Value::NumberLit(number) => number.value.parse::<u32>().ok(),
                _ => None,
            };
            indices.push(index.filter(|&index| index <= max).ok_or_else(expected)?);
        }
        indices.sort_unstable();
        indices.dedup();
        if indices.is_empty() {
            return Err(expected());
        }
        Ok(indices)
    }

    /// The error that something else should stand here.
    pub(super) fn expected(&self, expected: &str) -> RtAppError {
        let found = self.document.excerpt(self.value.range());
        self.document
            .unexpected(self.value.start(), &self.path, found, expected.into())
    }

    /// The error that this key should not stand here.
    pub(super) fn unknown(&self, expected: &str) -> RtAppError {
        let found = format!("the key {:?}", self.key);
        self.document
            .unexpected(self.position, &self.path, found, expected.into())
    }

    pub(super) fn not_modelled(&self, what: &'static str) -> RtAppError {
        self.document
            .error(self.position, &self.path, Fault::NotModelled { what })
    }
}

pub(super) fn entries<'d, 't>(
    document: Document<'t>,
    path: &str,
    object: &'d Object<'t>,
) -> Vec<Entry<'d, 't>> {
    let properties = object.properties.iter();
    properties
        .map(|property| Entry::new(document, path, property))
        .collect()
}
