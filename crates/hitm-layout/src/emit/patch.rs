//! The declaration of a structure, rearranged where it stands.
//!
//! Each member's declaration moves with the comments above and beside it: it is what lies between the
//! end of the one before and its own. So what the author wrote stays as it was; only alignment,
//! padding and access specifiers are added. Types, static members and the like come before the
//! members, functions behind them, each in their order.

use super::body::{Body, Declared, Item, ItemKind, body_at, is_body_of};
use super::diff::{Edit, edited};
use super::positions::Reordered;
use super::tokens::{Lexis, Tokens};
use super::{Emission, EmitError, Step, Style, construct, initialisers, steps};

/// A diff that puts the members of the structure into the order of the layout, and values by position
/// in the same file into the members' new order. `declared` is the line (from 1) at which the file declares the
/// structure, `lines` those of the subject's members, as far as they are known.
pub fn patch_struct(
    emission: &Emission<'_>,
    (file, text): (&str, &str),
    (declared, lines): (Option<u32>, &[Option<u32>]),
) -> Result<String, EmitError> {
    let tokens = Tokens::new(file, text, Lexis::C);
    let name = super::names::bare(&emission.layout.name);
    let members = emission.subject.members.iter();
    let known: Vec<&str> = members.map(|member| &*member.file.name).collect();
    let open = find(&tokens, name, (declared, lines))?;
    let body = body_at(&tokens, open, (name, &known))?;
    let places = places(&tokens, (&body, name), &known)?;
    check_lines(&tokens, &places, lines)?;
    let steps = steps(emission);
    let reordered = Reordered::new(&tokens, (name, emission.style), &body, (&places, &steps));
    let mut edits = Vec::new();
    if reordered.is_moved() {
        edits.extend(initialisers::edits(&tokens, &body, &reordered)?);
        if emission.style == Style::Cpp {
            edits.extend(construct::edits(&tokens, &body, &reordered)?);
        }
    }
    // Functions inside move with what is changed in them.
    let inside = tokens.get(open).end..tokens.get(body.close).start;
    let (inner, mut edits): (Vec<Edit>, Vec<Edit>) = edits
        .into_iter()
        .partition(|edit| inside.contains(&edit.start));
    edits.extend(rearranged(
        &tokens,
        &body,
        (&places, &steps),
        (emission.style, inner),
    )?);
    let diff = edited(file, text, edits);
    Ok(reordered.caution(file) + &diff)
}

/// The opening brace of the structure: the one whose lines the debug information has, where there are
/// several.
fn find(
    tokens: &Tokens<'_>,
    name: &str,
    (declared, lines): (Option<u32>, &[Option<u32>]),
) -> Result<usize, EmitError> {
    let opens = (0..tokens.len()).filter(|at| tokens.at(*at) == "{");
    let opens: Vec<usize> = opens.filter(|at| is_body_of(tokens, *at, name)).collect();
    let has = |open: usize, line: u32| {
        let last = tokens.line(tokens.close(open));
        (tokens.line(open)..=last).contains(&(line as usize))
    };
    let first = lines.iter().flatten().next().copied();
    let is_there = |open: &&usize| first.is_none_or(|line| has(**open, line));
    let mut there = opens.iter().filter(is_there);
    match (there.next(), there.next()) {
        (Some(open), None) => Ok(*open),
        (Some(_), Some(second)) => Err(tokens.refuse(
            *second,
            &format!("another declaration of {name}"),
            "one in the lines that the debug information has",
        )),
        (None, _) => Err(missing(tokens, name, (declared.or(first), &opens))),
    }
}

/// An error for a structure that its place does not declare.
fn missing(tokens: &Tokens<'_>, name: &str, (line, opens): (Option<u32>, &[usize])) -> EmitError {
    if let Some(open) = opens.first() {
        let lines = line.map_or_else(String::new, |line| format!(" with a member at line {line}"));
        return tokens.refuse(
            *open,
            &format!("{name} with its members in other lines"),
            &format!("{name}{lines}: the file that the program was built from"),
        );
    }
    let line = line.map_or(1, |line| line as usize);
    let near = (0..tokens.len()).find(|at| tokens.line(*at) >= line);
    match near.filter(|at| tokens.line(*at) == line) {
        Some(at) => tokens.refuse(
            at,
            &format!("no structure {name} with its members"),
            "its declaration in this file, not by a macro",
        ),
        None => EmitError::Source {
            file: tokens.file().to_owned(),
            line,
            found: String::from("no line of that number"),
            expected: String::from("the file that the program was built from"),
        },
    }
}

/// A member's place in the source.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place<'b> {
    /// Index of its declaration among the body's.
    pub(super) item: usize,
    pub(super) declared: &'b Declared,
}

/// Places of the subject's members.
fn places<'b>(
    tokens: &Tokens<'_>,
    (body, name): (&'b Body, &str),
    known: &[&str],
) -> Result<Vec<Place<'b>>, EmitError> {
    let mut unnamed = Vec::new();
    let mut named: Vec<Place<'b>> = Vec::new();
    for (item, of) in body.items.iter().enumerate() {
        let ItemKind::Members(declared) = &of.kind else {
            continue;
        };
        for declared in declared.iter().filter(|declared| !declared.is_gap) {
            let place = Place { item, declared };
            match &declared.name {
                None => unnamed.push(place),
                Some(own) if known.contains(&own.as_str()) => named.push(place),
                Some(own) => {
                    let found = format!("the member {own}");
                    let expected = format!("only members that {name} has in the debug information");
                    return Err(tokens.refuse(declared.at, &found, &expected));
                }
            }
        }
    }
    let mut unnamed = unnamed.into_iter();
    let find = |member: &&str| match member.starts_with('(') {
        true => unnamed.next(),
        false => {
            let mut of = named
                .iter()
                .filter(|place| place.declared.name.as_deref() == Some(member));
            of.next().copied()
        }
    };
    let mut find = find;
    let mut places = Vec::new();
    for member in known {
        let place = find(member).ok_or_else(|| {
            let found = format!("no declaration of {member} in {name}");
            tokens.refuse(
                body.open,
                &found,
                "each member that the debug information has",
            )
        })?;
        places.push(place);
    }
    Ok(places)
}

/// Fails when a member is not at the line that the debug information has.
fn check_lines(
    tokens: &Tokens<'_>,
    places: &[Place<'_>],
    lines: &[Option<u32>],
) -> Result<(), EmitError> {
    for (place, line) in places.iter().zip(lines) {
        // What a macro or an anonymous structure declares has the line of some token in it.
        let span = place.declared.span;
        let known = tokens.line(span.0)..=tokens.line(span.1);
        if let (Some(line), Some(name)) = (line, &place.declared.name)
            && !known.contains(&(*line as usize))
        {
            let found = format!("{name}, which the debug information has at line {line}");
            let expected = "the file that the program was built from";
            return Err(tokens.refuse(place.declared.at, &found, expected));
        }
    }
    Ok(())
}

/// Edits of the body; `inner` are those of what is in it.
fn rearranged(
    tokens: &Tokens<'_>,
    body: &Body,
    (places, steps): (&[Place<'_>], &[Step<'_>]),
    (style, inner): (Style, Vec<Edit>),
) -> Result<Vec<Edit>, EmitError> {
    check_types(tokens, (places, steps), body)?;
    let mut pieces = Pieces::new(tokens, body);
    let first = places.iter().map(|place| place.item).min().unwrap_or(0);
    let last = places.iter().map(|place| place.item).max().unwrap_or(0);
    let (start, end) = (pieces.starts[first], pieces.ends[last]);
    let (inner, mut edits): (Vec<Edit>, Vec<Edit>) = inner
        .into_iter()
        .partition(|edit| (start..end).contains(&edit.start));
    pieces.inner = inner;
    let mut writer = Writer {
        pieces: &pieces,
        access: match first.checked_sub(1) {
            Some(before) => &body.items[before].access,
            None => &body.access,
        },
        text: String::new(),
    };
    let is_member = |at: &usize| matches!(body.items[*at].kind, ItemKind::Members(_));
    let is_function = |at: &usize| matches!(body.items[*at].kind, ItemKind::Function);
    let between = || (first..=last).filter(|at| !is_member(at));
    // Members may need types and constants; functions see the whole structure from anywhere.
    for at in between().filter(|at| !is_function(at)) {
        writer.put(&body.items[at], &pieces.item(at, &body.items[at]));
    }
    for step in steps {
        match *step {
            Step::Padding { number, bytes } => {
                let padding = format!("char hitm_padding{number}[{bytes}];");
                writer.text += &format!("{}{padding}\n", pieces.indent);
            }
            Step::Member {
                index, is_aligned, ..
            } => {
                let item = &body.items[places[index].item];
                let text = pieces.member((&places[index], item), is_aligned.then_some(style));
                writer.put(item, &text);
            }
        }
    }
    for at in between().filter(is_function) {
        writer.put(&body.items[at], &pieces.item(at, &body.items[at]));
    }
    if let Some(next) = body.items.get(last + 1)
        && next.access == body.items[last].access
    {
        writer.switch_to(&next.access);
    }
    let starts_line = tokens.text[..start].ends_with('\n');
    let ends_line = tokens.text[..end].ends_with('\n');
    if !starts_line {
        writer.text.insert(0, '\n');
    }
    if !ends_line {
        writer.text += &pieces.outer_indent;
    }
    let skipped = tokens.text[end..].len() - tokens.text[end..].trim_start_matches(' ').len();
    // Lines end as the file's do.
    if tokens.text[..end].contains("\r\n") {
        writer.text = writer.text.replace('\r', "").replace('\n', "\r\n");
    }
    edits.push(Edit {
        start,
        end: if ends_line { end } else { end + skipped },
        text: writer.text,
    });
    Ok(edits)
}

/// Writes declarations, each with the access that it had.
struct Writer<'w, 'b, 't> {
    pieces: &'w Pieces<'b, 't>,
    access: &'w str,
    text: String,
}

impl<'w> Writer<'w, '_, '_> {
    fn put(&mut self, item: &'w Item, text: &str) {
        self.switch_to(&item.access);
        self.text += text.trim_end();
        self.text.push('\n');
    }

    fn switch_to(&mut self, access: &'w str) {
        if self.access != access {
            self.text += &format!("{}{access}:\n", self.pieces.label_indent);
            self.access = access;
        }
    }
}

/// Fails when a member would come before the type that another one declares for it.
fn check_types(
    tokens: &Tokens<'_>,
    (places, steps): (&[Place<'_>], &[Step<'_>]),
    body: &Body,
) -> Result<(), EmitError> {
    let mut written: Vec<Place<'_>> = Vec::new();
    for step in steps {
        let Step::Member { index, .. } = step else {
            continue;
        };
        let item = &body.items[places[*index].item];
        let flat = tokens.flat(item.start, item.last);
        let name = flat.windows(3).find_map(|three| {
            let is_type = matches!(tokens.at(three[0]), "struct" | "union" | "enum" | "class");
            let defines = is_type && tokens.is_word(three[1]) && tokens.at(three[2]) == "{";
            defines.then(|| tokens.at(three[1]))
        });
        let is_used = |place: &&Place<'_>| {
            let item = &body.items[place.item];
            place.item != places[*index].item
                && (item.start..item.last).any(|at| Some(tokens.at(at)) == name)
        };
        if let Some(early) = name.and_then(|_| written.iter().find(is_used)) {
            let found = format!("{}, declared inside", name.unwrap_or_default());
            let user = early.declared.name.as_deref().unwrap_or("a member");
            let expected =
                format!("a type declared before the structure, as {user} needs it earlier");
            return Err(tokens.refuse(item.start, &found, &expected));
        }
        written.push(places[*index]);
    }
    Ok(())
}

/// Text of the declarations of a body, with the comments that belong to them.
struct Pieces<'b, 't> {
    tokens: &'b Tokens<'t>,
    /// First byte of an item with the comments above it, by item.
    starts: Vec<usize>,
    /// The byte behind an item and the comments beside it.
    ends: Vec<usize>,
    /// What stands above and before an item, without access specifiers.
    leads: Vec<String>,
    /// Changes of what moves, in ascending order.
    inner: Vec<Edit>,
    indent: String,
    label_indent: String,
    outer_indent: String,
}

impl<'b, 't> Pieces<'b, 't> {
    fn new(tokens: &'b Tokens<'t>, body: &Body) -> Pieces<'b, 't> {
        let text = tokens.text;
        let byte = |at: usize| tokens.get(at).start;
        let outer_indent = indent_at(text, byte(body.open));
        let mut own = body.items.iter().map(|item| byte(item.start));
        let own = own.find(|own| starts_its_line(text, *own));
        let indent = own.map_or_else(|| format!("{outer_indent}\t"), |own| indent_at(text, own));
        let mut pieces = Pieces {
            tokens,
            starts: Vec::new(),
            ends: Vec::new(),
            leads: Vec::new(),
            inner: Vec::new(),
            label_indent: outer_indent.clone(),
            indent,
            outer_indent,
        };
        let (mut start, mut from) = (behind_line(tokens, body.open), body.open + 1);
        for item in &body.items {
            let mut lead = String::new();
            let mut at = start;
            if from < item.start {
                let label = (byte(from), tokens.get(item.start - 1).end);
                if starts_its_line(text, label.0) {
                    pieces.label_indent = indent_at(text, label.0);
                }
                lead += text[start..label.0].trim_end_matches([' ', '\t']);
                at = label.1;
                let rest = &text[at..byte(item.start)];
                // A specifier that has a line for itself takes the line along.
                let line = rest.find('\n').filter(|end| rest[..*end].trim().is_empty());
                at += line.map_or(0, |end| end + 1);
            }
            lead += &text[at..byte(item.start)];
            if !starts_its_line(text, start) || !text[..start].ends_with('\n') && start > 0 {
                lead = format!("{}{}", pieces.indent, lead.trim_start());
            }
            if !lead.ends_with('\n') && lead.trim().is_empty() && !lead.contains('\n') {
                lead.clone_from(&pieces.indent);
            }
            pieces.leads.push(lead);
            pieces.starts.push(start);
            start = behind_line(tokens, item.last);
            pieces.ends.push(start);
            from = item.last + 1;
        }
        pieces
    }

    /// The whole item `at`.
    fn item(&self, at: usize, item: &Item) -> String {
        let start = self.tokens.get(item.start).start;
        let mut out = self.leads[at].clone();
        let mut from = start;
        for edit in self
            .inner
            .iter()
            .filter(|edit| (start..self.ends[at]).contains(&edit.start))
        {
            out += &self.tokens.text[from..edit.start];
            out += &edit.text;
            from = edit.end;
        }
        out + &self.tokens.text[from..self.ends[at]]
    }

    /// A member, alone even where others are declared with it; aligned in a style.
    fn member(&self, (place, item): (&Place<'_>, &Item), style: Option<Style>) -> String {
        let tokens = self.tokens;
        let ItemKind::Members(declared) = &item.kind else {
            return self.item(place.item, item);
        };
        let byte = |at: usize| tokens.get(at).start;
        let behind = tokens.get(item.last).end;
        let at = declared.iter().position(|other| other == place.declared);
        let at = at.unwrap_or(0);
        // Bits without a name go on keeping what is before and behind them apart.
        let gaps = declared[at + 1..]
            .iter()
            .take_while(|gap| gap.is_gap)
            .count();
        // Comments above belong to the first, those beside to the last.
        let is_first = declared[..at].iter().all(|other| other.is_gap);
        let is_last = at + gaps + 1 == declared.len();
        let own = match declared.len() {
            1 => tokens.text[byte(item.start)..behind].to_owned(),
            _ => {
                let shared = &tokens.text[byte(item.start)..byte(declared[0].span.0)];
                let (own, end) = (place.declared.span.0, declared[at + gaps].span.1);
                format!("{shared}{};", tokens.slice(own, end))
            }
        };
        let own = match style {
            Some(style) => aligned(&own, style),
            None => own,
        };
        let lead = if is_first {
            &self.leads[place.item]
        } else {
            &self.indent
        };
        let tail = if is_last {
            &tokens.text[behind..self.ends[place.item]]
        } else {
            ""
        };
        format!("{lead}{own}{tail}")
    }
}

/// The byte behind a token and the comments that follow it on its line; with the end of the line
/// where nothing else is on it.
fn behind_line(tokens: &Tokens<'_>, at: usize) -> usize {
    let end = tokens.get(at).end;
    let text = tokens.text;
    let line_end = text[end..]
        .find('\n')
        .map_or(text.len(), |length| end + length + 1);
    let next = match at + 1 < tokens.len() {
        true => tokens.get(at + 1).start,
        false => text.len(),
    };
    // A comment that goes on in the next line belongs to what follows.
    let goes_on = next > line_end && !text[end..line_end].contains("//") && {
        let beside = &text[end..line_end];
        beside.matches("/*").count() > beside.matches("*/").count()
    };
    match next < line_end {
        true => end,
        false if goes_on => {
            let close = text[end..next]
                .find("*/")
                .map_or(next, |length| end + length + 2);
            let rest = &text[close..next];
            match rest.find('\n') {
                Some(length) if rest[..length].trim().is_empty() => close + length + 1,
                _ => close,
            }
        }
        false => line_end,
    }
}

fn indent_at(text: &str, at: usize) -> String {
    let start = text[..at].rfind('\n').map_or(0, |end| end + 1);
    let line = &text[start..];
    line[..line.len() - line.trim_start_matches([' ', '\t']).len()].to_owned()
}

fn starts_its_line(text: &str, at: usize) -> bool {
    let start = text[..at].rfind('\n').map_or(0, |end| end + 1);
    text[start..at].trim().is_empty()
}

/// A declaration aligned to a cache line.
fn aligned(declaration: &str, style: Style) -> String {
    let (before, behind) = style.line();
    // C wants attributes in brackets first.
    let attribute = match style {
        Style::C if declaration.starts_with("[[") => declaration.find("]]").map_or(0, |at| at + 2),
        _ => 0,
    };
    let (attribute, rest) = declaration.split_at(attribute);
    let gap = if attribute.is_empty() { "" } else { " " };
    let rest = rest.trim_start();
    let rest = rest.strip_suffix(';').unwrap_or(rest);
    format!("{attribute}{gap}{before}{rest}{behind};")
}
