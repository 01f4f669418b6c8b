//! Quantities that hitm reports, each declared once: id, title, unit, meaning, and where it comes from.
//!
//! [`fields!`] declares a struct and its quantities together. Text, JSON, tables of the Python package and the
//! documentation of formats are made from them, so a figure has one name, one unit and one meaning wherever it
//! appears.
//!
//! ```
//! hitm_fields::fields! {
//!     /// A contended line.
//!     #[derive(Debug)]
//!     pub struct Line in line {
//!         /// Cycles that threads lost to other CPUs' use of the line.
//!         pub lost_cycles: u64 => cycles "lost";
//!         /// Threads that accessed it; no quantity of its own.
//!         pub threads: Vec<u32>;
//!         /// Threads that accessed it.
//!         thread_count => count "threads", |line| line.threads.len();
//!     }
//! }
//!
//! let busy = Line { lost_cycles: 1234, threads: vec![1, 2] };
//! assert_eq!(line::lost_cycles.text(&busy), "1,234");
//! assert!(line::ALL.iter().map(|field| field.id).eq(["lost_cycles", "thread_count"]));
//! ```

mod declare;
mod unit;
mod value;

pub use hitm_base::words;
pub use unit::{Align, Kind, Unit};
pub use value::{Reported, Value, compact, ranges};

/// One quantity of a `T`.
#[derive(Debug)]
pub struct Field<T> {
    /// The key in JSON: lower case, words joined by `_`, the unit last.
    pub id: &'static str,
    /// The column head in text: short.
    pub title: &'static str,
    /// Unit of the quantity; decides how text shows it.
    pub unit: Unit,
    /// Alignment of a column of it.
    pub align: Align,
    /// Kind of run that has it.
    pub of: Runs,
    /// The meaning as it was written beside the declaration.
    doc: &'static str,
    /// Reads the quantity.
    pub value: fn(&T) -> Value,
}

/// A column of a table: a field without where its values come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub id: &'static str,
    /// Its head in text; empty where text has none.
    pub title: &'static str,
    /// Unit of its values.
    pub unit: Unit,
    /// One sentence about it, without a full stop.
    pub description: &'static str,
}

/// Kind of run that has a quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Runs {
    /// All of them.
    All,
    /// Those of which every access is known: sums over all accesses, and time of threads.
    Recorded,
    /// Those of which samples are known.
    Sampled,
}

/// The fields of a table that a run has.
pub fn of_run<T>(fields: &[Field<T>], is_sampled: bool) -> impl Iterator<Item = &Field<T>> {
    fields.iter().filter(move |field| field.is_of(is_sampled))
}

impl<T> Clone for Field<T> {
    fn clone(&self) -> Field<T> {
        *self
    }
}

impl<T> Copy for Field<T> {}

impl<T> Field<T> {
    /// A field; [`fields!`] calls it.
    pub const fn new(
        id: &'static str,
        title: &'static str,
        kind: Kind,
        doc: &'static str,
        value: fn(&T) -> Value,
    ) -> Field<T> {
        Field {
            id: without_raw(id),
            title,
            unit: kind.unit,
            align: kind.align,
            of: Runs::All,
            doc,
            value,
        }
    }

    /// The same field, of one kind of run only.
    pub const fn only(mut self, of: Runs) -> Field<T> {
        self.of = of;
        self
    }

    /// The same field under another head.
    #[must_use]
    pub const fn titled(mut self, title: &'static str) -> Field<T> {
        self.title = title;
        self
    }

    /// Returns true if both are one field, whatever their heads.
    pub fn is(&self, other: &Field<T>) -> bool {
        self.id == other.id
    }

    /// Returns true if a run has it.
    pub fn is_of(&self, is_sampled: bool) -> bool {
        match self.of {
            Runs::All => true,
            Runs::Recorded => !is_sampled,
            Runs::Sampled => is_sampled,
        }
    }

    /// Its meaning in one sentence, without a full stop.
    pub fn description(&self) -> &'static str {
        let doc = self.doc.trim();
        doc.strip_suffix('.').unwrap_or(doc)
    }

    /// It as a column of tables of any kind of item.
    pub fn column(&self) -> Column {
        Column {
            id: self.id,
            title: self.title,
            unit: self.unit,
            description: self.description(),
        }
    }

    /// The quantity of `item` as text, in the manner of its unit.
    pub fn text(&self, item: &T) -> String {
        (self.value)(item).text(self.unit)
    }

    /// The same for a cell of a table, where room is scarce: shares without their sign, large numbers to four digits.
    pub fn cell(&self, item: &T) -> String {
        (self.value)(item).cell(self.unit)
    }
}

/// The name of an identifier that may be a word of Rust: `r#type` as `type`.
const fn without_raw(id: &'static str) -> &'static str {
    match id.as_bytes() {
        [b'r', b'#', ..] => id.split_at(2).1,
        _ => id,
    }
}
