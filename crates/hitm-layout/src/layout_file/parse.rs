//! TOML text -> [`LayoutFile`], with line and column of every mistake.
//!
//! The document is walked by hand, not through serde: an error must name the structure, the member
//! and the place, also for members that only contradict each other.

use std::ops::Range;

use hitm_base::document::{TextLines, Value, describe, shorten};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::check::{StructScopes, check_file};
use super::{Array, BitRange, FileMember, FileStruct, LayoutFile, LayoutFileError, Per, Storage};

/// Longest file that is read: a line of 80 bytes for each member of 2500 structures of 80 members.
const TEXT_BYTES_MAX: usize = 16 << 20;
/// Longest name, description or source, in bytes.
const WORDS_BYTES_MAX: usize = 2_000;
/// Largest size, offset, count or stride: no sum or product of two of them overflows.
const NUMBER_MAX: u64 = 1 << 31;

const ROOT_KEYS: [&str; 5] = ["schema", "name", "description", "source", "struct"];
const STRUCT_KEYS: [&str; 4] = ["name", "size_bytes", "align_bytes", "members"];
const MEMBER_KEYS: [&str; 13] = [
    "name",
    "offset_bytes",
    "size_bytes",
    "bit_offset",
    "bit_size",
    "type",
    "count",
    "stride_bytes",
    "per",
    "storage",
    "bits_of",
    "element_bytes",
    "element_align_bytes",
];

impl LayoutFile {
    /// Reads a layout file; `origin` is its name in errors. Text of any kind gives a file that holds
    /// the module's invariants, or an error with its place.
    pub fn parse(text: &str, origin: &str) -> Result<LayoutFile, LayoutFileError> {
        let reader = Reader { text, origin };
        if text.len() > TEXT_BYTES_MAX {
            let expected = format!("at most {TEXT_BYTES_MAX} bytes");
            let found = format!("{} bytes", text.len());
            return Err(reader.error(0..0, "the file", found, expected));
        }
        let document = DeTable::parse(text).map_err(|error| {
            let found = format!("no TOML ({})", error.message());
            let expected = "a layout file as docs/formats/layout-file.md describes it";
            reader.error(error.span().unwrap_or(0..0), "the file", found, expected)
        })?;
        reader.file(document.get_ref())
    }
}

/// A table, what to call it in errors, and where it stands.
pub(super) struct Scope<'a, 'i> {
    table: &'a DeTable<'i>,
    path: String,
    span: Range<usize>,
}

impl Scope<'_, '_> {
    pub(super) fn key(&self, key: &str) -> String {
        if self.path.is_empty() {
            key.to_owned()
        } else {
            format!("{}.{key}", self.path)
        }
    }

    /// The span of the value of `key`, or of the table when there is none.
    pub(super) fn span_of(&self, key: &str) -> Range<usize> {
        self.table
            .get(key)
            .map_or_else(|| self.span.clone(), Spanned::span)
    }
}

/// The text that is read, for places in errors.
pub(super) struct Reader<'t> {
    text: &'t str,
    origin: &'t str,
}

impl Reader<'_> {
    /// An error at the byte where `span` begins.
    pub(super) fn error(
        &self,
        span: Range<usize>,
        key: impl Into<String>,
        found: impl Into<String>,
        expected: impl Into<String>,
    ) -> LayoutFileError {
        let place = TextLines::of(self.text).place(span.start);
        LayoutFileError {
            origin: self.origin.to_owned(),
            place: Some(place),
            key: key.into(),
            found: found.into(),
            expected: expected.into(),
        }
    }

    fn file(&self, root: &DeTable<'_>) -> Result<LayoutFile, LayoutFileError> {
        let root = Scope {
            table: root,
            path: String::new(),
            span: 0..0,
        };
        let schema = self.required(&root, "schema", "schema = 1")?;
        if integer(schema) != Some(1) {
            return Err(self.error(schema.span(), "schema", describe(schema), "1"));
        }
        self.known_keys(&root, &ROOT_KEYS)?;
        let mut file = LayoutFile {
            name: self.words(&root, "name")?,
            description: self.words(&root, "description")?,
            source: self.words(&root, "source")?,
            structs: Vec::new(),
        };
        let mut scopes = Vec::new();
        for (index, value) in self.tables(&root, "struct")?.iter().enumerate() {
            let (read, scope) = self.one_struct(value, index)?;
            file.structs.push(read);
            scopes.push(scope);
        }
        check_file(&file, &scopes, self)?;
        for read in &mut file.structs {
            sort_members(&mut read.members);
        }
        Ok(file)
    }

    fn one_struct<'a, 'i>(
        &self,
        value: &'a Value<'i>,
        index: usize,
    ) -> Result<(FileStruct, StructScopes<'a, 'i>), LayoutFileError> {
        let mut own = self.scope(value, format!("struct[{index}]"))?;
        own.path = self.words(&own, "name")?;
        self.known_keys(&own, &STRUCT_KEYS)?;
        let mut read = FileStruct {
            name: own.path.clone(),
            size_bytes: self.number(&own, "size_bytes", 1)?,
            align_bytes: self.alignment(&own, "align_bytes")?,
            members: Vec::new(),
        };
        let mut members = Vec::new();
        for (index, value) in self.tables(&own, "members")?.iter().enumerate() {
            let (member, scope) = self.member(value, &read.name, index)?;
            read.members.push(member);
            members.push(scope);
        }
        Ok((read, StructScopes { own, members }))
    }

    fn member<'a, 'i>(
        &self,
        value: &'a Value<'i>,
        owner: &str,
        index: usize,
    ) -> Result<(FileMember, Scope<'a, 'i>), LayoutFileError> {
        let mut scope = self.scope(value, format!("{owner}.members[{index}]"))?;
        let name = self.words(&scope, "name")?;
        scope.path = format!("{owner}.{name}");
        self.known_keys(&scope, &MEMBER_KEYS)?;
        let per = match self.choice(&scope, "per", &["cpu", "node"])? {
            None => None,
            Some(0) => Some(Per::Cpu),
            Some(_) => Some(Per::Node),
        };
        let array = self.array(&scope)?;
        let member = FileMember {
            offset_bytes: self.number(&scope, "offset_bytes", 0)?,
            size_bytes: self.number(&scope, "size_bytes", 0)?,
            bits: self.bits(&scope)?,
            type_name: match scope.table.contains_key("type") {
                true => Some(self.words(&scope, "type")?),
                false => None,
            },
            storage: self.storage(&scope, per, array)?,
            cpu_bitmap: self.choice(&scope, "bits_of", &["cpu"])?.is_some(),
            array,
            per,
            name,
        };
        Ok((member, scope))
    }

    fn bits(&self, scope: &Scope<'_, '_>) -> Result<Option<BitRange>, LayoutFileError> {
        if !scope.table.contains_key("bit_offset") && !scope.table.contains_key("bit_size") {
            return Ok(None);
        }
        Ok(Some(BitRange {
            offset: self.number(scope, "bit_offset", 0)?,
            size: self.number(scope, "bit_size", 1)?,
        }))
    }

    fn array(&self, scope: &Scope<'_, '_>) -> Result<Option<Array>, LayoutFileError> {
        if !scope.table.contains_key("count") {
            return Ok(None);
        }
        Ok(Some(Array {
            count: self.number(scope, "count", 1)?,
            stride_bytes: self.number(scope, "stride_bytes", 1)?,
        }))
    }

    fn storage(
        &self,
        scope: &Scope<'_, '_>,
        per: Option<Per>,
        array: Option<Array>,
    ) -> Result<Storage, LayoutFileError> {
        let is_pointer = self.choice(scope, "storage", &["inline", "pointer"])? == Some(1);
        let reject = |key: &str, expected: &str| {
            let found = "a key that does not belong here";
            Err(self.error(scope.span_of(key), scope.key(key), found, expected))
        };
        if is_pointer {
            if scope.table.contains_key("stride_bytes") && array.is_none() {
                return reject("stride_bytes", "`element_bytes` behind a pointer");
            }
            return Ok(Storage::Pointer {
                element_bytes: self.optional_number(scope, "element_bytes", 1)?,
                element_align_bytes: self.alignment(scope, "element_align_bytes")?,
            });
        }
        for key in ["element_bytes", "element_align_bytes"] {
            if scope.table.contains_key(key) {
                return reject(key, "it beside `storage = \"pointer\"` only");
            }
        }
        match (per, array) {
            (Some(_), Some(_)) => reject("count", "either `count` or an inline `per`"),
            (Some(_), None) => Ok(Storage::Inline {
                stride_bytes: Some(self.number(scope, "stride_bytes", 1)?),
            }),
            (None, None) if scope.table.contains_key("stride_bytes") => {
                reject("stride_bytes", "it beside `count` or `per` only")
            }
            (None, _) => Ok(Storage::INLINE),
        }
    }

    fn scope<'a, 'i>(
        &self,
        value: &'a Value<'i>,
        path: String,
    ) -> Result<Scope<'a, 'i>, LayoutFileError> {
        match value.get_ref().as_table() {
            Some(table) => Ok(Scope {
                table,
                path,
                span: value.span(),
            }),
            None => Err(self.error(value.span(), path, describe(value), "a table")),
        }
    }

    fn known_keys(&self, scope: &Scope<'_, '_>, known: &[&str]) -> Result<(), LayoutFileError> {
        // In text order, so that the first mistake of the file is the one that is named.
        let mut unknown: Vec<_> = scope
            .table
            .keys()
            .filter(|key| !known.contains(&key.get_ref().as_ref()))
            .collect();
        unknown.sort_by_key(|key| key.span().start);
        match unknown.first() {
            None => Ok(()),
            Some(key) => {
                let expected = format!("one of {}", known.join(", "));
                let path = scope.key(&shorten(key.get_ref()));
                Err(self.error(key.span(), path, "an unknown key", expected))
            }
        }
    }

    fn required<'a, 'i>(
        &self,
        scope: &Scope<'a, 'i>,
        key: &str,
        expected: &str,
    ) -> Result<&'a Value<'i>, LayoutFileError> {
        scope
            .table
            .get(key)
            .ok_or_else(|| self.error(scope.span.clone(), scope.key(key), "no such key", expected))
    }

    fn tables<'a, 'i>(
        &self,
        scope: &Scope<'a, 'i>,
        key: &str,
    ) -> Result<&'a [Value<'i>], LayoutFileError> {
        let expected = "an array of tables";
        let value = self.required(scope, key, expected)?;
        match value.get_ref().as_array() {
            Some(array) if !array.is_empty() => Ok(array.as_ref()),
            Some(_) => {
                let expected = "an array with at least one table";
                Err(self.error(value.span(), scope.key(key), "an empty array", expected))
            }
            None => Err(self.error(value.span(), scope.key(key), describe(value), expected)),
        }
    }

    /// A line of words: no control characters, which could drive a terminal.
    fn words(&self, scope: &Scope<'_, '_>, key: &str) -> Result<String, LayoutFileError> {
        let expected = format!("one line of text, at most {WORDS_BYTES_MAX} bytes");
        let value = self.required(scope, key, &expected)?;
        match value.get_ref().as_str() {
            Some(words)
                if !words.is_empty()
                    && words.len() <= WORDS_BYTES_MAX
                    && !words.chars().any(char::is_control) =>
            {
                Ok(words.to_owned())
            }
            _ => Err(self.error(value.span(), scope.key(key), describe(value), expected)),
        }
    }

    fn choice(
        &self,
        scope: &Scope<'_, '_>,
        key: &str,
        words: &[&str],
    ) -> Result<Option<usize>, LayoutFileError> {
        let Some(value) = scope.table.get(key) else {
            return Ok(None);
        };
        let stated = value.get_ref().as_str();
        match words.iter().position(|word| Some(*word) == stated) {
            Some(index) => Ok(Some(index)),
            None => {
                let expected = format!("{:?}", words.join("\" or \"")).replace("\\\"", "\"");
                Err(self.error(value.span(), scope.key(key), describe(value), expected))
            }
        }
    }

    fn number(&self, scope: &Scope<'_, '_>, key: &str, least: u64) -> Result<u64, LayoutFileError> {
        let expected = format!("a whole number from {least} to {NUMBER_MAX}");
        let value = self.required(scope, key, &expected)?;
        integer(value)
            .filter(|number| (least..=NUMBER_MAX).contains(number))
            .ok_or_else(|| self.error(value.span(), scope.key(key), describe(value), expected))
    }

    fn optional_number(
        &self,
        scope: &Scope<'_, '_>,
        key: &str,
        least: u64,
    ) -> Result<Option<u64>, LayoutFileError> {
        match scope.table.contains_key(key) {
            true => self.number(scope, key, least).map(Some),
            false => Ok(None),
        }
    }

    fn alignment(&self, scope: &Scope<'_, '_>, key: &str) -> Result<Option<u64>, LayoutFileError> {
        match self.optional_number(scope, key, 1)? {
            Some(align) if !align.is_power_of_two() => {
                let found = align.to_string();
                Err(self.error(scope.span_of(key), scope.key(key), found, "a power of two"))
            }
            other => Ok(other),
        }
    }
}

/// By offset; those of one offset (flexible arrays, bit-fields) by bit and then as they stood.
pub(super) fn sort_members(members: &mut [FileMember]) {
    members.sort_by_key(FileMember::bit_span);
}

/// A whole number that is not negative, in any of TOML's notations.
fn integer(value: &Value<'_>) -> Option<u64> {
    match value.get_ref() {
        DeValue::Integer(integer) => u64::from_str_radix(integer.as_str(), integer.radix()).ok(),
        _ => None,
    }
}
