//! Lists of values for members by their position, in C and C++.
//!
//! They follow the members' order, so a new order gives their values to other members. In C each value
//! gets its member's name; in C++, where names must follow the order, the values change places. What
//! cannot be rewritten so is refused: a diff that changes what a program means is worth nothing.

use super::body::{Body, ItemKind, Known, body_at, head_of, named};
use super::diff::Edit;
use super::positions::{Reordered, Slot};
use super::tokens::{Span, Tokens};
use super::{EmitError, Style};

/// The type of a value that has values of the structure in it.
#[derive(Debug, Clone, Copy)]
struct ValueType {
    /// Index of the holder that it is, or that it is an array of.
    holder: usize,
    /// Dimensions of the array; zero for the holder itself.
    dimensions: usize,
}

/// A member of a holder.
#[derive(Debug)]
struct Held {
    slot: Slot,
    /// None where it holds nothing of the structure.
    of: Option<ValueType>,
}

/// Tokens of each value of a list.
pub(super) type Values<'v> = &'v [Span];

/// A type whose values have values of the structure in them.
#[derive(Debug)]
struct Holder {
    names: Vec<String>,
    /// Names that stand for it without `struct`.
    typedefs: Vec<String>,
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
            typedefs: is_cpp.then(|| name.to_owned()).into_iter().collect(),
            members,
            fault,
        };
        let own = reordered.old.iter().map(|slot| Held {
            slot: slot.clone(),
            of: None,
        });
        let mut holders = Holders(vec![holder(&reordered.name, own.collect(), None)]);
        // A structure is declared before its values are members of others.
        for at in 0..tokens.len() {
            if tokens.at(at) == "{"
                && at != body.open
                && let Some(head) = head_of(tokens, at)
            {
                let close = tokens.close(at);
                let name = named(tokens, head + 1, at).unwrap_or_default();
                // A pointer has no values of the structure.
                let is_value =
                    |at: usize| tokens.at(at + 1) != "*" && holders.mention(tokens, at).is_some();
                let mentions = (at..close).any(is_value);
                if mentions && (close < body.open || at > body.close) {
                    let (members, fault) = holders.members_of(tokens, at, name);
                    if fault.is_some() || members.iter().any(|member| member.of.is_some()) {
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
        let known = Known { name, members: &[] };
        let body = match body_at(tokens, open, known) {
            Ok(body) => body,
            Err(fault) => return (Vec::new(), Some(fault)),
        };
        let mut members = Vec::new();
        for item in &body.items {
            let ItemKind::Members(declared) = &item.kind else {
                continue;
            };
            for declared in declared.iter().filter(|declared| !declared.is_gap) {
                let mut types = item.start..declared.at.max(item.start + 1);
                let holder = types.find_map(|at| self.mention(tokens, at));
                let behind = tokens.flat(declared.at, declared.span.end);
                let dimensions = count(tokens, &behind, "[");
                let holder = holder.filter(|_| !declared.is_pointer);
                members.push(Held {
                    slot: Slot::of(tokens, item.start, declared),
                    of: holder.map(|holder| ValueType { holder, dimensions }),
                });
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
        let flat = tokens.flat(at + 1, tokens.until(at + 1, &[";"]));
        let is_other = tokens
            .texts(&flat)
            .any(|word| matches!(word, "*" | "&" | "(" | "["));
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
        let has = |holder: &Holder| holder.names.iter().any(|own| own == alias);
        let is_own = || self.0.iter().position(has);
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
            && let Some(of) = lists.type_of(open)?
        {
            lists.walk(open, of)?;
        }
    }
    let names = holders
        .0
        .iter()
        .flat_map(|of| of.names.iter().chain(&of.typedefs));
    let names: Vec<&str> = names.map(String::as_str).collect();
    let mut directives = (0..tokens.len()).filter(|at| tokens.is_directive(*at));
    if let Some(at) = directives.find(|at| has_values_of(tokens.at(*at), &names)) {
        return Err(lists.refuse(at, "values in a macro"));
    }
    Ok(lists.edits)
}

/// Returns true for a macro with one of these types and a list of values without names; not for one with a block.
fn has_values_of(directive: &str, types: &[&str]) -> bool {
    let Some(macro_text) = directive.strip_prefix("#define") else {
        return false;
    };
    let is_in_word = |character: char| character.is_alphanumeric() || character == '_';
    let mut words = macro_text.split(|character| !is_in_word(character));
    let mut braces = macro_text.match_indices('{').map(|(at, _)| at);
    let is_list = |at: usize| {
        let before =
            macro_text[..at].trim_end_matches(|sign: char| sign.is_whitespace() || sign == '\\');
        let is_block = before.ends_with("do") || before.ends_with("else");
        !is_block && !macro_text[at + 1..].trim_start().starts_with('.')
    };
    braces.any(is_list) && words.any(|word| types.contains(&word))
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
            Style::Cpp => "a value for each member",
            Style::C | Style::Kernel => "values with names (.member = value)",
        };
        let expected = format!("{expected}, as {name} has its members in another order now");
        self.tokens.refuse(at, found, &expected)
    }

    /// The type of the list at `open`, if values of the structure are in it. Lists in lists are found from
    /// the outer one.
    fn type_of(&self, open: usize) -> Result<Option<ValueType>, EmitError> {
        let tokens = self.tokens;
        let Some(before) = open.checked_sub(1) else {
            return Ok(None);
        };
        match tokens.at(before) {
            // A compound literal.
            ")" => {
                let group = tokens.open(before);
                let flat = tokens.flat(group + 1, before);
                let is_pointer = tokens
                    .texts(&flat)
                    .any(|word| matches!(word, "*" | "&" | ";" | ","));
                let holder = flat.iter().find_map(|at| self.holders.mention(tokens, *at));
                let is_cast =
                    !tokens.is_word(group.wrapping_sub(1)) || tokens.before(group) == "return";
                let holder = holder.filter(|_| !is_pointer && is_cast);
                Ok(holder.map(|holder| ValueType {
                    holder,
                    dimensions: count(tokens, &flat, "["),
                }))
            }
            "=" => self.declared(before, open),
            _ if self.reordered.style == Style::Cpp => self.declared(open, open),
            _ => Ok(None),
        }
    }

    /// The type of `struct box name[2] = {`, `Box name{` and `Box{`, whose head ends at `end`.
    fn declared(&self, end: usize, open: usize) -> Result<Option<ValueType>, EmitError> {
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
        const OTHER: [&str; 7] = [
            "(",
            "operator",
            "typedef",
            "using",
            "namespace",
            "case",
            "==",
        ];
        let has_other = tokens.texts(&flat).any(|word| OTHER.contains(&word));
        let is_other = end == open && (has_other || head_of(tokens, open).is_some());
        if is_other {
            return Ok(None);
        }
        for at in start..end {
            let Some(holder) = self.holders.mention(tokens, at) else {
                continue;
            };
            if is_angled(at) {
                let mut list = open + 1..tokens.close(open);
                return match list.any(|at| tokens.at(at) == "{" && tokens.at(at + 1) != "}") {
                    true => Err(self.refuse(open, "values in a container")),
                    false => Ok(None),
                };
            }
            let rest: Vec<usize> = flat.iter().copied().filter(|other| *other > at).collect();
            let is_pointer = tokens
                .texts(&rest)
                .any(|word| matches!(word, "*" | "&" | "."));
            let last_comma = rest
                .iter()
                .rposition(|at| tokens.at(*at) == ",")
                .unwrap_or(0);
            return Ok((!is_pointer).then(|| ValueType {
                holder,
                dimensions: count(tokens, &rest[last_comma..], "["),
            }));
        }
        Ok(None)
    }

    fn walk(&mut self, open: usize, of: ValueType) -> Result<(), EmitError> {
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
        if let [Span { from, end }] = values[..]
            && end == from + 1
            && matches!(tokens.at(from), "0" | "NULL" | "nullptr")
        {
            return Ok(());
        }
        if let Some(dimensions) = of.dimensions.checked_sub(1) {
            for value in values {
                let from = self.behind_designator(value);
                let element = ValueType { dimensions, ..of };
                self.value(Span { from, ..value }, element)?;
            }
            return Ok(());
        }
        if let Some(fault) = &self.holders.0[of.holder].fault {
            return Err(fault.clone());
        }
        match of.holder {
            0 => self.own(&values),
            holder => self.outer(&values, holder),
        }
    }

    /// The first token behind `.name =` and `[1] =`, or the first of all.
    fn behind_designator(&self, value: Span) -> usize {
        if !matches!(self.tokens.at(value.from), "." | "[") {
            return value.from;
        }
        let equal = (value.from..value.end).find(|at| self.tokens.at(*at) == "=");
        equal.map_or(value.from, |equal| equal + 1)
    }

    /// A value of one of the types: a list, or something that has the type.
    fn value(&mut self, value: Span, of: ValueType) -> Result<(), EmitError> {
        let tokens = self.tokens;
        if tokens.at(value.from) == "{" {
            return self.walk(value.from, of);
        }
        let mut words = value.from..value.end;
        match words.any(|at| self.holders.mention(tokens, at).is_some()) {
            true => Ok(()),
            false => Err(self.refuse(value.from, "a value without braces")),
        }
    }

    /// Values of a structure around the one that is moved.
    fn outer(&mut self, values: Values<'_>, holder: usize) -> Result<(), EmitError> {
        let tokens = self.tokens;
        let mut place = 0;
        for Span { from, end } in values.iter().copied() {
            let value = self.behind_designator(Span { from, end });
            if value > from {
                let name = tokens.at(from + 1);
                let mut members = self.holders.0[holder].members.iter();
                let found = members.position(|held| held.slot.name.as_deref() == Some(name));
                place = found.ok_or_else(|| self.refuse(from, "a member of something inside"))?;
            }
            let Some(member) = self.holders.0[holder].members.get(place) else {
                return Err(self.refuse(from, "more values than members"));
            };
            match member.of {
                Some(of) if value == from || value == from + 3 => {
                    self.value(Span { from: value, end }, of)?;
                }
                // `.box.count = 1` and `.boxes[1] = {1}`.
                Some(of) if tokens.at(value) == "{" && tokens.at(from + 2) == "[" => {
                    let element = ValueType {
                        dimensions: 0,
                        ..of
                    };
                    self.walk(value, element)?;
                }
                Some(_) => {}
                None if value == from && member.slot.has_parts && !self.is_whole(value) => {
                    return Err(self.refuse(from, "a value that may be for a part of a member"));
                }
                None => {}
            }
            place += 1;
        }
        Ok(())
    }

    /// Returns true if the value that begins at `from` is for the whole of a member with parts.
    pub(super) fn is_whole(&self, from: usize) -> bool {
        let text = self.tokens.at(from);
        text == "{" || text.ends_with('"')
    }
}

fn count(tokens: &Tokens<'_>, flat: &[usize], sign: &str) -> usize {
    flat.iter().filter(|at| tokens.at(**at) == sign).count()
}
