//! Values of the structure that is moved, in one list.

use std::ops::Range;

use super::diff::Edit;
use super::initialisers::{Lists, Values};
use super::pieces::{indent_at, starts_its_line};
use super::positions::Placed;
use super::tokens::{Span, Tokens};
use super::{EmitError, Style};

/// Values of the structure, without the braces of opened structures.
#[derive(Debug, Default)]
struct Own {
    /// Tokens of each value.
    values: Vec<Span>,
    /// The member that each is for.
    places: Vec<ValuePlace>,
    /// Opening braces of opened structures.
    braces: Vec<usize>,
}

/// The member that a value is for.
#[derive(Debug, Clone, Copy)]
struct ValuePlace {
    /// Its index; the largest number for one that the structure does not have.
    member: usize,
    /// True if the value has the member's name.
    has_name: bool,
}

/// Bytes of the lines of two braces.
struct BraceLines {
    opening: Range<usize>,
    closing: Range<usize>,
}

impl Own {
    fn add(&mut self, value: Span, place: ValuePlace) {
        self.values.push(value);
        self.places.push(place);
    }
}

impl Lists<'_, '_> {
    /// Values of the structure that is moved.
    pub(super) fn own(&mut self, list: Values<'_>) -> Result<(), EmitError> {
        let mut own = Own::default();
        self.place(list, None, &mut own)?;
        let Own {
            values,
            places,
            braces,
        } = own;
        let is_cpp = self.reordered.style == Style::Cpp;
        let has_names = places.iter().any(|place| place.has_name);
        if !is_cpp {
            self.drop_braces(&braces);
            if places.iter().all(|place| place.has_name) {
                return Ok(());
            }
        }
        let is_same = places.iter().enumerate().all(|(index, place)| {
            place.has_name || self.reordered.new.get(index) == Some(&Placed::Member(place.member))
        });
        match (is_cpp, braces.first()) {
            (true, Some(open)) if has_names => {
                Err(self.refuse(*open, "names beside the braces of an anonymous structure"))
            }
            (true, None) if has_names => self.sort_named(&values, &places),
            (_, None) if is_same => Ok(()),
            (true, _) => {
                let mut holes = places.iter().enumerate();
                if let Some((hole, _)) = holes.find(|(index, place)| *index != place.member) {
                    let at = values[hole].from;
                    return Err(self.refuse(at, "a value behind one that is left out"));
                }
                self.sort(list, &values)
            }
            (false, _) => {
                self.name(&values, &places);
                Ok(())
            }
        }
    }

    /// Finds the members of the values in a list; `within` is the opened structure whose list it is.
    fn place(
        &self,
        list: Values<'_>,
        within: Option<usize>,
        own: &mut Own,
    ) -> Result<(), EmitError> {
        let (tokens, reordered) = (self.tokens, self.reordered);
        let mut place = within.map_or(0, |within| reordered.opened[within].start);
        let end_of_list = within.map_or(reordered.old.len(), |within| reordered.opened[within].end);
        for value in list.iter().copied() {
            let from = value.from;
            if tokens.at(from) == "." {
                // A member of an anonymous structure that stays whole is found by its name.
                let found = reordered.index_of(tokens.at(from + 1));
                place = match found {
                    Some(found) if tokens.at(from + 2) == "=" => found + 1,
                    _ => usize::MAX,
                };
                let member = ValuePlace {
                    member: found.unwrap_or(usize::MAX),
                    has_name: true,
                };
                own.add(value, member);
                continue;
            }
            if tokens.at(from) == "{"
                && let Some(opened) = reordered.opened_at(place, within)
            {
                let inner = tokens.split(from + 1, tokens.close(from));
                if inner.is_empty() {
                    return Err(self.refuse(from, "no value for an anonymous structure"));
                }
                own.braces.push(from);
                self.place(&inner, Some(opened), own)?;
                place = reordered.opened[opened].end;
                continue;
            }
            let slot = reordered.old.get(place).filter(|_| place < end_of_list);
            let slot =
                slot.ok_or_else(|| self.refuse(from, "a value whose member is not clear"))?;
            if slot.has_parts && !self.is_whole(from) {
                return Err(self.refuse(from, "a value that may be for a part of a member"));
            }
            if slot.name.is_none() && reordered.style != Style::Cpp {
                return Err(self.refuse(from, "a value for a structure without a name"));
            }
            let member = ValuePlace {
                member: place,
                has_name: false,
            };
            own.add(value, member);
            place += 1;
        }
        Ok(())
    }

    /// Takes away the braces of opened structures' values.
    fn drop_braces(&mut self, braces: &[usize]) {
        let tokens = self.tokens;
        let is_nested = |one: usize| {
            braces.iter().any(|other| {
                let (around, inside) = (one.min(*other), one.max(*other));
                around < inside && inside < tokens.close(around)
            })
        };
        for open in braces.iter().copied() {
            match lines(tokens, open).filter(|_| !is_nested(open)) {
                Some(lines) => self.drop_lines(open, lines),
                None => self.drop_pair(open),
            }
        }
    }

    fn replace(&mut self, start: usize, end: usize, text: &str) {
        let text = text.to_owned();
        self.edits.push(Edit { start, end, text });
    }

    /// Takes away braces that have lines for themselves. Values between them get the braces' indentation.
    fn drop_lines(&mut self, open: usize, lines: BraceLines) {
        let tokens = self.tokens;
        let close = tokens.close(open);
        self.replace(lines.opening.start, lines.opening.end, "");
        for value in tokens.split(open + 1, close) {
            let start = tokens.get(value.from).start;
            if starts_its_line(tokens.text, start) {
                let line = start - indent_at(tokens.text, start).len();
                self.replace(line, start, &indent_at(tokens.text, lines.opening.start));
            }
        }
        // The comma behind the brace goes with it.
        if tokens.at(close + 1) == "," && tokens.at(close - 1) != "," {
            let end = tokens.get(close - 1).end;
            self.replace(end, end, ",");
        }
        self.replace(lines.closing.start, lines.closing.end, "");
    }

    /// Takes away braces, and the comma behind the last value between them.
    fn drop_pair(&mut self, open: usize) {
        let tokens = self.tokens;
        let is_blank =
            |start: usize, end: usize| tokens.text[start..end].trim_matches(' ').is_empty();
        let (brace, next) = (tokens.get(open), tokens.get(open + 1));
        let has_blank = is_blank(brace.end, next.start);
        let end = if has_blank { next.start } else { brace.end };
        self.replace(brace.start, end, "");
        let close = tokens.close(open);
        let (last, brace) = (tokens.get(close - 1), tokens.get(close));
        if tokens.at(close - 1) == "," {
            self.replace(last.start, last.end, "");
        }
        let has_blank = is_blank(last.end, brace.start);
        let start = if has_blank { last.end } else { brace.start };
        self.replace(start, brace.end, "");
    }

    /// Gives each value its member's name.
    fn name(&mut self, values: Values<'_>, places: &[ValuePlace]) {
        for (value, place) in values.iter().zip(places) {
            let slot = self.reordered.old.get(place.member);
            let name = slot.and_then(|slot| slot.name.as_ref());
            if let (false, Some(name)) = (place.has_name, name) {
                let start = self.tokens.get(value.from).start;
                self.edits.push(Edit::insert(start, format!(".{name} = ")));
            }
        }
    }

    /// Puts values into the new order of their members, in place of the list that has them.
    fn sort(&mut self, list: Values<'_>, values: Values<'_>) -> Result<(), EmitError> {
        let Some((first, last)) = list.first().zip(list.last()) else {
            return Ok(());
        };
        let mut texts = Vec::new();
        for placed in &self.reordered.new {
            if texts.iter().filter(|text| **text != "{}").count() == values.len() {
                break;
            }
            match *placed {
                Placed::Padding => texts.push("{}"),
                Placed::Member(index) => match values.get(index) {
                    Some(value) => texts.push(self.tokens.slice(value.from, value.end)),
                    None => {
                        let slot = &self.reordered.old[index];
                        let name = slot.name.as_deref().unwrap_or("a structure without a name");
                        return Err(self.refuse(first.from, &format!("no value for {name}")));
                    }
                },
            }
        }
        let edit = self.tokens.edit(first.from, last.end, texts.join(", "));
        self.edits.push(edit);
        Ok(())
    }

    /// Puts values with names into the new order, which C++ demands.
    fn sort_named(&mut self, values: Values<'_>, places: &[ValuePlace]) -> Result<(), EmitError> {
        let is_unclear = |place: &ValuePlace| !place.has_name || place.member == usize::MAX;
        if let Some(at) = places.iter().position(is_unclear) {
            return Err(self.refuse(values[at].from, "a value whose member is not clear"));
        }
        let mut order: Vec<usize> = (0..values.len()).collect();
        order.sort_by_key(|at| self.reordered.place_of(places[*at].member));
        let moved = order
            .into_iter()
            .enumerate()
            .filter(|(to, from)| to != from);
        let edits = moved.map(|(to, from)| self.tokens.replace(values[to], values[from]));
        self.edits.extend(edits);
        Ok(())
    }
}

/// The lines of two braces, if nothing else is on them but a comma.
fn lines(tokens: &Tokens<'_>, open: usize) -> Option<BraceLines> {
    let line = |first: usize, last: usize| {
        let (start, end) = (tokens.get(first).start, tokens.get(last).end);
        let length = tokens.text[end..].find('\n')?;
        let is_alone =
            starts_its_line(tokens.text, start) && tokens.text[end..end + length].trim().is_empty();
        let start = start - indent_at(tokens.text, start).len();
        is_alone.then_some(start..end + length + 1)
    };
    let close = tokens.close(open);
    let has_comma = tokens.at(close + 1) == ",";
    Some(BraceLines {
        opening: line(open, open)?,
        closing: line(close, close + usize::from(has_comma))?,
    })
}
