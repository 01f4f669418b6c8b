//! The lines of a text without what mails add, joined to heads, cache lines and rows.

use std::iter::Peekable;

use super::columns::{Column, Columns, is_head, is_margin};
use super::row::{Counts, parse};
use super::{PIECES_MAX, Place, PublishedError, PublishedLine, PublishedRow, address, share};

/// A part of a Pareto.
pub(super) enum Piece {
    Line(PublishedLine),
    Row(PublishedRow),
    /// The first line of another Pareto.
    Second,
}

/// Lines that are still to be read.
pub(super) struct Text<'t> {
    lines: Peekable<Box<dyn Iterator<Item = (usize, &'t str)> + 't>>,
    origin: &'t str,
    /// The line that was read last.
    place: usize,
    /// Number of the cache line that was read last.
    number: Option<u64>,
    /// Counts of the cache line whose rows are read.
    counts: Counts,
}

/// A line without marks of quotes.
pub(super) fn bare(line: &str) -> &str {
    let mut rest = line;
    while let Some(behind) = rest.trim_start().strip_prefix('>') {
        rest = behind;
    }
    rest
}

/// A line of one sign, ten times at least.
fn is_rule(line: &str, sign: char) -> bool {
    let line = line.trim();
    line.len() >= 10 && line.chars().all(|c| c == sign)
}

/// Returns true for the dots or dashes below the titles, a cache line or a row.
fn ends_head(line: &str) -> bool {
    let mut words = line.trim_start_matches(is_margin).split_whitespace();
    let first = words.next().unwrap_or("");
    let is_dots = first.len() >= 3 && first.bytes().all(|byte| byte == b'.');
    is_rule(line, '-') || is_dots || first.starts_with(|c: char| c.is_ascii_digit())
}

/// Returns true for the words of a cache line: its number, its counts and its address, which may lack.
fn is_cache_line(words: &[&str], columns: &Columns) -> bool {
    let count = columns.counted.len();
    let is_whole = match words.get(count + 1) {
        Some(last) => address(last).is_some() && words.len() == count + 2,
        None => words.len() == count + 1,
    };
    let is_number = |word: &&str| word.bytes().all(|byte| byte.is_ascii_digit());
    count > 0 && is_whole && words[..=count].iter().all(is_number)
}

impl<'t> Text<'t> {
    pub(super) fn new(text: &'t str, origin: &'t str) -> Text<'t> {
        let lines = (1..).zip(text.lines().map(bare));
        let lines: Box<dyn Iterator<Item = (usize, &'t str)>> = Box::new(lines);
        Text {
            lines: lines.peekable(),
            origin,
            place: 1,
            number: None,
            counts: Counts(Vec::new()),
        }
    }

    /// The line that was read last, from 1.
    pub(super) fn place(&self) -> usize {
        self.place
    }

    fn step(&mut self) -> Option<&'t str> {
        let (place, line) = self.lines.next()?;
        self.place = place;
        Some(line)
    }

    fn at(&self, line: usize) -> Place<'t> {
        Place {
            origin: self.origin,
            line,
        }
    }

    /// Reads up to the titles; none when there are none.
    pub(super) fn columns(&mut self) -> Result<Option<Columns>, PublishedError> {
        while let Some((number, line)) = self.lines.peek().copied() {
            let place = self.at(number);
            let words: Vec<&str> = line.split_whitespace().take(8).collect();
            if let Some(columns) = Columns::untitled(&words, place) {
                return Ok(Some(columns));
            }
            self.step();
            if !is_head(line) {
                continue;
            }
            let mut titles = line.trim_start_matches(is_margin).to_owned();
            let mut pieces = 1;
            while let Some((_, next)) = self.lines.peek()
                && !ends_head(next)
                && pieces < PIECES_MAX
            {
                if next.trim_matches(is_margin).is_empty() {
                    break;
                }
                titles += " ";
                titles += next.trim_start_matches(is_margin);
                pieces += 1;
                self.step();
            }
            return Columns::parse(&titles, place).map(Some);
        }
        Ok(None)
    }

    /// The next cache line or row; none at the end. Words around the tables are skipped.
    pub(super) fn next(&mut self, columns: &Columns) -> Result<Option<Piece>, PublishedError> {
        while let Some(line) = self.step() {
            let words: Vec<&str> = line.split_whitespace().collect();
            if is_head(line) {
                return Ok(Some(Piece::Second));
            }
            if is_cache_line(&words, columns) {
                let number = self.at(self.place).number(words[0], "Num")?;
                if self
                    .number
                    .replace(number)
                    .is_some_and(|last| number <= last)
                {
                    return Ok(Some(Piece::Second));
                }
                return Ok(Some(Piece::Line(self.cache_line(&words, columns)?)));
            }
            if is_row(&words, columns) {
                return Ok(Some(Piece::Row(self.row(words, columns)?)));
            }
        }
        Ok(None)
    }

    /// A cache line's number, its counts and its address.
    fn cache_line(
        &mut self,
        words: &[&str],
        columns: &Columns,
    ) -> Result<PublishedLine, PublishedError> {
        let count = columns.counted.len();
        let place = self.at(self.place);
        let mut line = PublishedLine {
            place: self.place,
            address: words.get(count + 1).and_then(|word| address(word)),
            remote: 0,
            local: 0,
            stores: 0,
            rows: Vec::new(),
        };
        self.counts.0.clear();
        for (column, word) in columns.counted.iter().zip(&words[1..]) {
            let number = place.number(word, column.title)?;
            self.counts.0.push(number);
            match column.column {
                Column::Remote => line.remote += number,
                Column::Local => line.local += number,
                _ => line.stores += number,
            }
        }
        Ok(line)
    }

    /// A row that begins with `words`, and goes on in the next lines until all its columns are there.
    fn row(
        &mut self,
        mut words: Vec<&'t str>,
        columns: &Columns,
    ) -> Result<PublishedRow, PublishedError> {
        let place = self.at(self.place);
        let mut pieces = 1;
        loop {
            let partial = parse(&words, columns, &self.counts, place)?;
            let is_complete = partial.is_complete;
            let goes_on = |next: &str| match is_complete {
                true => next.trim_start().split_once('{').is_some_and(|(node, _)| {
                    !node.is_empty() && node.bytes().all(|byte| byte.is_ascii_digit())
                }),
                false => is_piece(next, columns),
            };
            match self.lines.peek() {
                Some((_, next)) if pieces < PIECES_MAX && goes_on(next) => {
                    words.extend(next.split_whitespace());
                    pieces += 1;
                    self.step();
                }
                _ if !partial.has_offset => {
                    let line = words.join(" ");
                    return Err(place.error(
                        "row",
                        &line,
                        "the offset in the line among its columns",
                    ));
                }
                _ => return Ok(partial.row),
            }
        }
    }
}

/// Returns true for the first line of a row: it begins with shares, and one may be mangled if an
/// offset is there.
fn is_row(words: &[&str], columns: &Columns) -> bool {
    let count = columns.counted.len();
    let shares = words.iter().take_while(|word| share(word).is_some());
    let found = shares.take(count).count();
    found > 0 && (found == count || words.iter().any(|word| word.starts_with("0x")))
}

/// Returns true for a line that can be the rest of a wrapped row.
fn is_piece(line: &str, columns: &Columns) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    let is_line = is_cache_line(&words, columns);
    let is_mark = ["-", "=", "#", "|"]
        .iter()
        .any(|mark| line.trim().starts_with(mark));
    !words.is_empty() && !is_mark && !is_line && !is_row(&words, columns) && !is_head(line)
}
