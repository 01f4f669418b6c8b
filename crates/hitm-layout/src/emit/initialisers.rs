//! Lists of values for members by their position, in C and C++.
//!
//! They follow the members' order, so a new order gives their values to other members. In C each value
//! gets its member's name; in C++, where names must follow the order, the values change places. What
//! cannot be rewritten so is refused: a diff that changes what a program means is worth nothing.

use super::body::{Body, ItemKind, body_at, head_of, named};
use super::diff::Edit;
use super::positions::{Reordered, Slot, has_parts};
use super::tokens::Tokens;
use super::{EmitError, Style};

/// A member, and the holder that it is of with its dimensions; none where it holds nothing.
type Held = (Slot, Option<(usize, usize)>);

/// Tokens of each value of a list.
pub(super) type Values<'v> = &'v [(usize, usize)];

/// A type whose values have values of the structure in them.
#[derive(Debug)]
struct Holder {
    names: Vec<String>,
    /// Names that stand for it without `struct`.
    typedefs: Vec<String>,
    /// Members and the holder that each is of, and its dimensions; none for the structure itself.
    members: Vec<Held>,
    /// Reason for which its members are not known.
    fault: Option<EmitError>,
}

/// The structure, and the types of the file that have it inside. The structure is the first.
#[derive(Debug)]
pub(super) struct Holders(Vec<Holder>);

impl Holders {
    pub(super) fn new(tokens: &Tokens<'_>, body: &Body, reordered: &Reordered) -> Holders {
        let is_cpp = reordered.style == Style::Cpp;
        let holder = |name: &str, members, fault| Holder {
            names: vec![name.to_owned()],
            typedefs: if is_cpp {
                vec![name.to_owned()]
            } else {
                Vec::new()
            },
            members,
            fault,
        };
        let own = reordered.old.iter().map(|slot| (slot.clone(), None));
        let mut holders = Holders(vec![holder(&reordered.name, own.collect(), None)]);
        // A structure is declared before its values are members of others.
        for at in 0..tokens.len() {
            if tokens.at(at) == "{"
                && at != body.open
                && let Some(head) = head_of(tokens, at)
            {
                let close = tokens.close(at);
                let name = named(tokens, (head + 1, at)).unwrap_or_default();
                let mentions = (at..close).any(|at| holders.mention(tokens, at).is_some());
                if mentions && (close < body.open || at > body.close) {
                    let (members, fault) = holders.members_of(tokens, at, name);
                    if fault.is_some() || members.iter().any(|member| member.1.is_some()) {
                        holders.0.push(holder(name, members, fault));
                    }
                }
            }
            holders.add_typedef(tokens, at);
        }
        holders
    }

    fn members_of(
        &self,
        tokens: &Tokens<'_>,
        open: usize,
        name: &str,
    ) -> (Vec<Held>, Option<EmitError>) {
        let body = match body_at(tokens, open, (name, &[])) {
            Ok(body) => body,
            Err(fault) => return (Vec::new(), Some(fault)),
        };
        let mut members = Vec::new();
        for item in &body.items {
            let ItemKind::Members(declared) = &item.kind else {
                continue;
            };
            for declared in declared.iter().filter(|declared| !declared.is_gap) {
                let types = item.start..declared.at.max(item.start + 1);
                let of = types.clone().find_map(|at| self.mention(tokens, at));
                let (array, pointer) = (declared.is_array, declared.is_pointer);
                let behind = tokens.flat(declared.at, declared.span.1);
                let dimensions = behind.iter().filter(|at| tokens.at(**at) == "[").count();
                members.push((
                    Slot {
                        name: declared.name.clone(),
                        has_parts: has_parts(tokens, (types.start, declared.at), array, pointer),
                    },
                    of.filter(|_| !pointer).map(|of| (of, dimensions)),
                ));
            }
        }
        (members, None)
    }

    /// Takes `typedef struct box box_t;`, `typedef struct box {...} box_t;` and `using box_t = box;`.
    fn add_typedef(&mut self, tokens: &Tokens<'_>, at: usize) {
        let (is_typedef, is_using) = (tokens.at(at) == "typedef", tokens.at(at) == "using");
        if !is_typedef && !is_using {
            return;
        }
        let mut end = at + 1;
        while end < tokens.len() && tokens.at(end) != ";" {
            end = tokens.close(end) + 1;
        }
        let flat = tokens.flat(at + 1, end.min(tokens.len()));
        let is_other = flat
            .iter()
            .any(|at| matches!(tokens.at(*at), "*" | "&" | "(" | "["));
        let mut words = flat.iter().copied().filter(|at| tokens.is_word(*at));
        let (alias, of) = match is_using {
            true => (words.next(), words.next_back()),
            false => {
                let alias = words.next_back();
                (alias, words.next_back())
            }
        };
        if is_other {
            return;
        }
        let Some(alias) = alias.map(|alias| tokens.at(alias)) else {
            return;
        };
        let of = of.and_then(|of| self.mention(tokens, of));
        let is_own = || {
            self.0
                .iter()
                .position(|holder| holder.names.iter().any(|own| own == alias))
        };
        if let Some(holder) = of.or_else(is_own) {
            self.0[holder].typedefs.push(alias.to_owned());
        }
    }

    /// The type that the word at `at` names, if it is one of these.
    pub(super) fn mention(&self, tokens: &Tokens<'_>, at: usize) -> Option<usize> {
        let word = tokens.at(at);
        let is_tagged = matches!(tokens.before(at), "struct" | "class" | "union");
        self.0.iter().position(|holder| {
            let has = |names: &[String]| names.iter().any(|name| name == word);
            is_tagged && has(&holder.names) || has(&holder.typedefs)
        })
    }
}

/// Edits of all lists of values in the file.
pub(super) fn edits(
    tokens: &Tokens<'_>,
    body: &Body,
    reordered: &Reordered,
) -> Result<Vec<Edit>, EmitError> {
    if !reordered.is_aggregate {
        return Ok(Vec::new());
    }
    let holders = Holders::new(tokens, body, reordered);
    let mut lists = Lists {
        tokens,
        reordered,
        holders: &holders,
        edits: Vec::new(),
    };
    for open in (0..tokens.len()).filter(|at| tokens.at(*at) == "{") {
        if !(body.open..body.close).contains(&open)
            && let Some((of, dimensions)) = lists.type_of(open)?
        {
            lists.walk(open, (of, dimensions))?;
        }
    }
    for at in 0..tokens.len() {
        let word = tokens.at(at).strip_prefix("#define").unwrap_or_default();
        let value = word.split_once('{').map(|(_, value)| value);
        let is_of = |holder: &Holder| {
            holder
                .names
                .iter()
                .chain(&holder.typedefs)
                .any(|name| word.contains(name.as_str()))
        };
        if tokens.is_directive(at)
            && value.is_some()
            && holders.0.iter().any(is_of)
            && !word.contains("{ .")
            && !word.contains("{.")
        {
            return Err(lists.refuse(at, "values in a macro"));
        }
    }
    Ok(lists.edits)
}

/// Lists of values in a file.
pub(super) struct Lists<'l, 't> {
    pub(super) tokens: &'l Tokens<'t>,
    pub(super) reordered: &'l Reordered,
    holders: &'l Holders,
    pub(super) edits: Vec<Edit>,
}

impl Lists<'_, '_> {
    pub(super) fn refuse(&self, at: usize, found: &str) -> EmitError {
        let name = &self.reordered.name;
        let expected = match self.reordered.style {
            Style::Cpp => {
                format!("a value for each member, as {name} has its members in another order now")
            }
            Style::C | Style::Kernel => {
                format!(
                    "values with names (.member = value), as {name} has its members in another order now"
                )
            }
        };
        self.tokens.refuse(at, found, &expected)
    }

    /// The type of the list at `open`, and its dimensions, if values of the structure are in it. Lists in
    /// lists are found from the outer one.
    fn type_of(&self, open: usize) -> Result<Option<(usize, usize)>, EmitError> {
        let tokens = self.tokens;
        let Some(before) = open.checked_sub(1) else {
            return Ok(None);
        };
        match tokens.at(before) {
            // A compound literal.
            ")" => {
                let group = tokens.open(before);
                let flat = tokens.flat(group + 1, before);
                let is_pointer = flat
                    .iter()
                    .any(|at| matches!(tokens.at(*at), "*" | "&" | ";" | ","));
                let of = flat.iter().find_map(|at| self.holders.mention(tokens, *at));
                let is_cast =
                    !tokens.is_word(group.wrapping_sub(1)) || tokens.before(group) == "return";
                Ok(of
                    .filter(|_| !is_pointer && is_cast)
                    .map(|of| (of, count(tokens, &flat, "["))))
            }
            "=" => self.declared((before, open)),
            _ if self.reordered.style == Style::Cpp => self.declared((open, open)),
            _ => Ok(None),
        }
    }

    /// The type of `struct box name[2] = {`, `Box name{` and `Box{`, whose head ends at `end`.
    fn declared(&self, (end, open): (usize, usize)) -> Result<Option<(usize, usize)>, EmitError> {
        let tokens = self.tokens;
        let mut start = end;
        while let Some(before) = start.checked_sub(1) {
            let jump = tokens.open(before);
            let is_list = tokens.at(before) == "}" && matches!(tokens.before(jump), "=");
            if tokens.at(before) == "}" && !is_list
                || matches!(tokens.at(before), ";" | "{" | "(" | "=>" | "?")
                || tokens.is_directive(before)
                || (tokens.at(before) == "return" || tokens.at(before) == "->")
            {
                break;
            }
            start = jump;
        }
        if start == end || tokens.before(start) == "->" {
            return Ok(None);
        }
        let is_angled = |at: usize| {
            let mut angles = (start..at).filter(|at| tokens.at(*at) == "<");
            angles.any(|open| {
                tokens
                    .close_angle(open, end)
                    .is_some_and(|close| close > at)
            })
        };
        let flat = tokens.flat(start, end);
        // A head with parameters is a function's; one of a structure declares it.
        let has_other = flat.iter().any(|at| {
            matches!(
                tokens.at(*at),
                "(" | "operator" | "typedef" | "using" | "namespace" | "case" | "=="
            )
        });
        let is_other = end == open && (has_other || head_of(tokens, open).is_some());
        if is_other {
            return Ok(None);
        }
        for at in start..end {
            let Some(of) = self.holders.mention(tokens, at) else {
                continue;
            };
            if is_angled(at) {
                let list = open + 1..tokens.close(open);
                let has_values = list
                    .clone()
                    .any(|at| tokens.at(at) == "{" && tokens.at(at + 1) != "}");
                return match has_values {
                    true => Err(self.refuse(open, "values in a container")),
                    false => Ok(None),
                };
            }
            let rest: Vec<usize> = flat.iter().copied().filter(|other| *other > at).collect();
            let is_pointer = rest
                .iter()
                .any(|at| matches!(tokens.at(*at), "*" | "&" | "."));
            let last_comma = rest
                .iter()
                .rposition(|at| tokens.at(*at) == ",")
                .unwrap_or(0);
            return Ok((!is_pointer).then(|| (of, count(tokens, &rest[last_comma..], "["))));
        }
        Ok(None)
    }

    fn walk(&mut self, open: usize, (of, dimensions): (usize, usize)) -> Result<(), EmitError> {
        let tokens = self.tokens;
        let close = tokens.close(open);
        if close == open {
            return Err(self.refuse(open, "brackets that do not match"));
        }
        let conditional = (open..close).find(|at| tokens.is_directive(*at));
        if let Some(at) = conditional {
            return Err(self.refuse(at, "a preprocessor line among values"));
        }
        let values = tokens.split(open + 1, close);
        // All members are zero in any order.
        if let [(from, end)] = values[..]
            && end == from + 1
            && matches!(tokens.at(from), "0" | "NULL" | "nullptr")
        {
            return Ok(());
        }
        if dimensions > 0 {
            for (from, end) in values {
                let from = self.behind_designator((from, end));
                self.value((from, end), (of, dimensions - 1))?;
            }
            return Ok(());
        }
        if let Some(fault) = &self.holders.0[of].fault {
            return Err(fault.clone());
        }
        match of {
            0 => self.own(&values),
            _ => self.outer(&values, of),
        }
    }

    /// The first token behind `.name =` and `[1] =`, or the first of all.
    fn behind_designator(&self, (from, end): (usize, usize)) -> usize {
        if !matches!(self.tokens.at(from), "." | "[") {
            return from;
        }
        let equal = (from..end).find(|at| self.tokens.at(*at) == "=");
        equal.map_or(from, |equal| equal + 1)
    }

    /// A value of one of the types: a list, or something that has the type.
    fn value(&mut self, (from, end): (usize, usize), of: (usize, usize)) -> Result<(), EmitError> {
        let tokens = self.tokens;
        if tokens.at(from) == "{" {
            return self.walk(from, of);
        }
        let is_typed = (from..end).any(|at| self.holders.mention(tokens, at).is_some());
        match is_typed {
            true => Ok(()),
            false => Err(self.refuse(from, "a value without braces")),
        }
    }

    /// Values of a structure around the one that is moved.
    fn outer(&mut self, values: Values<'_>, of: usize) -> Result<(), EmitError> {
        let tokens = self.tokens;
        let mut place = 0;
        for (from, end) in values.iter().copied() {
            let value = self.behind_designator((from, end));
            if value > from {
                let name = tokens.at(from + 1);
                let mut members = self.holders.0[of].members.iter();
                let found = members.position(|(slot, _)| slot.name.as_deref() == Some(name));
                place = found.ok_or_else(|| self.refuse(from, "a member of something inside"))?;
            }
            let member = self.holders.0[of].members.get(place);
            let Some((slot, inner)) = member else {
                return Err(self.refuse(from, "more values than members"));
            };
            match *inner {
                Some((of, dimensions)) if value == from || value == from + 3 => {
                    self.value((value, end), (of, dimensions))?;
                }
                // `.box.count = 1` and `.boxes[1] = {1}`.
                Some((of, _)) if tokens.at(value) == "{" && tokens.at(from + 2) == "[" => {
                    self.walk(value, (of, 0))?;
                }
                Some(_) => {}
                None if value == from && slot.has_parts && !self.is_whole((value, end)) => {
                    return Err(self.refuse(from, "a value that may be for a part of a member"));
                }
                None => {}
            }
            place += 1;
        }
        Ok(())
    }

    /// Returns true if a value is for the whole of a member with parts.
    pub(super) fn is_whole(&self, (from, _): (usize, usize)) -> bool {
        let text = self.tokens.at(from);
        text == "{" || text.ends_with('"')
    }
}

fn count(tokens: &Tokens<'_>, flat: &[usize], sign: &str) -> usize {
    flat.iter().filter(|at| tokens.at(**at) == sign).count()
}
