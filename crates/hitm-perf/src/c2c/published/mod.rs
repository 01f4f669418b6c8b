//! The text of `perf c2c report --stdio`, as mails carry it: the lines and rows of its Pareto.
//!
//! Source of the titles: tools/perf/builtin-c2c.c of Linux 4.10 to 6.12. Versions differ in their
//! columns, so that a row is read by the titles above it. Other tables of the text are skipped.
//!
//! A mail quotes lines (`> `), wraps them, and cuts them. Quotes are taken off. A row goes on in the
//! next line until all its columns are there. A table or row that ends early lacks its last columns.
//! A table without titles is read as perf 4.20 and later writes it.
//!
//! Shares are of the line's counts, so counts of a row are rounded ([`PublishedRow::remote`]).

mod columns;
mod mail;
mod row;
#[cfg(test)]
mod tests;

use thiserror::Error;

use mail::Text;
pub use row::PublishedRow;

/// Longest text that is read.
pub const TEXT_BYTES_MAX: usize = 16 << 20;
/// Most rows that are kept.
const ROWS_MAX: usize = 1 << 16;
/// Most lines of a text that one row or one head of a table takes.
const PIECES_MAX: usize = 8;
/// Titles of perf's tables, one of which is in each such text.
const HEADINGS: [&str; 3] = [
    "Shared Cache Line Distribution Pareto",
    "Shared Data Cache Line Table",
    "Trace Event Information",
];

/// A mistake in such a text, with its place.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{origin}:{line}: {key}: found {found}, expected {expected}")]
pub struct PublishedError {
    /// Name of the file.
    pub origin: String,
    /// Line, from 1.
    pub line: usize,
    /// The column or table.
    pub key: String,
    /// Content of that place.
    pub found: String,
    /// Content that would be right there.
    pub expected: String,
}

/// The Pareto of a text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Published {
    /// Its cache lines, in their order.
    pub lines: Vec<PublishedLine>,
    /// Line of the text in which another Pareto begins, which is not read: a mail shows what a patch changes.
    pub second: Option<usize>,
}

/// A cache line of a Pareto.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishedLine {
    /// Line of the text.
    pub place: usize,
    /// Address of its first byte; none where the text leaves it out.
    pub address: Option<u64>,
    /// Loads that hit a modified line on another node; transfers from its peers where perf shows those.
    pub remote: u64,
    /// The same within the node.
    pub local: u64,
    /// Stores.
    pub stores: u64,
    /// Its rows.
    pub rows: Vec<PublishedRow>,
}

/// Returns true if a text that begins with these bytes is of `perf c2c report`.
pub fn is_published(start: &[u8]) -> bool {
    if start.contains(&0) {
        return false;
    }
    let text = String::from_utf8_lossy(start);
    let mut lines = text.lines().map(|line| mail::bare(line).trim());
    lines.any(|line| HEADINGS.contains(&line) || columns::is_head(line))
}

impl Published {
    /// Reads a text; `origin` is its name in errors.
    pub fn parse(text: &str, origin: &str) -> Result<Published, PublishedError> {
        let fail = |line, key: &str, found: String, expected: &str| PublishedError {
            origin: origin.to_owned(),
            line,
            key: key.to_owned(),
            found,
            expected: expected.to_owned(),
        };
        if text.len() > TEXT_BYTES_MAX {
            let expected = format!("at most {TEXT_BYTES_MAX} bytes");
            let found = format!("{} bytes", text.len());
            return Err(fail(1, "the text", found, &expected));
        }
        let mut text = Text::new(text, origin);
        let mut published = Published::default();
        let Some(columns) = text.columns()? else {
            let expected = "the table Shared Cache Line Distribution Pareto with its titles, from Num to \
                            Symbol";
            return Err(fail(
                text.place(),
                "the text",
                String::from("its end"),
                expected,
            ));
        };
        let mut row_count = 0;
        while let Some(piece) = text.next(&columns)? {
            match piece {
                mail::Piece::Second => {
                    published.second = Some(text.place());
                    break;
                }
                mail::Piece::Line(line) => published.lines.push(line),
                mail::Piece::Row(row) => {
                    row_count += 1;
                    let place = row.place;
                    let Some(line) = published.lines.last_mut() else {
                        let expected = "the cache line with its counts above its rows";
                        return Err(fail(place, "row", String::from("no line"), expected));
                    };
                    line.rows.push(row);
                    if row_count > ROWS_MAX {
                        let expected = format!("at most {ROWS_MAX}");
                        return Err(fail(place, "rows", row_count.to_string(), &expected));
                    }
                }
            }
        }
        if row_count == 0 {
            let expected = "at least one row of a cache line below the titles";
            return Err(fail(
                text.place(),
                "the Pareto",
                String::from("no row"),
                expected,
            ));
        }
        Ok(published)
    }

    /// The largest number of CPUs that a row states; 0 when none does.
    pub fn cpu_count_max(&self) -> u32 {
        let rows = self.lines.iter().flat_map(|line| &line.rows);
        rows.filter_map(|row| row.cpu_count).max().unwrap_or(0)
    }
}

impl PublishedLine {
    /// Part `share` of a count, in hundredths of a per cent, rounded to the nearest.
    fn part(count: u64, share: u32) -> u64 {
        ((u128::from(count) * u128::from(share) + 5_000) / 10_000) as u64
    }
}

/// Errors of one text line.
#[derive(Debug, Clone, Copy)]
struct Place<'t> {
    origin: &'t str,
    line: usize,
}

impl Place<'_> {
    fn error(self, key: &str, found: &str, expected: &str) -> PublishedError {
        const CHARS_MAX: usize = 60;
        let chars = found.chars().map(|c| if c.is_control() { ' ' } else { c });
        let found: String = chars.take(CHARS_MAX).collect();
        PublishedError {
            origin: self.origin.to_owned(),
            line: self.line,
            key: key.to_owned(),
            found: format!("{found:?}"),
            expected: expected.to_owned(),
        }
    }

    fn number(self, word: &str, key: &str) -> Result<u64, PublishedError> {
        /// Largest count: sums stay far from the end of the numbers.
        const NUMBER_MAX: u64 = 1 << 50;
        let digits = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
        let number = digits.then(|| word.parse().ok()).flatten();
        let number = number.filter(|number| *number <= NUMBER_MAX);
        number.ok_or_else(|| self.error(key, word, "a whole number up to 2^50"))
    }

    fn address(self, word: &str, key: &str) -> Result<u64, PublishedError> {
        let number = address(word);
        number.ok_or_else(|| self.error(key, word, "a hexadecimal number such as 0x38"))
    }

    /// A share such as `18.70%`, in hundredths of a per cent.
    fn share(self, word: &str, key: &str) -> Result<u32, PublishedError> {
        let found = share(word);
        found.ok_or_else(|| self.error(key, word, "a share such as 18.70%"))
    }
}

fn address(word: &str) -> Option<u64> {
    let digits = word.strip_prefix("0x")?;
    let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hex
        .then(|| u64::from_str_radix(digits, 16).ok())
        .flatten()
}

fn share(word: &str) -> Option<u32> {
    let number = word.strip_suffix('%')?;
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty()
        || whole.len() > 3
        || part.len() > 2
        || !is_digits(whole)
        || !is_digits(part)
    {
        return None;
    }
    let whole: u32 = whole.parse().ok()?;
    let part: u32 = format!("{part:0<2}").parse().ok()?;
    Some(whole * 100 + part).filter(|share| *share <= 10_000)
}
