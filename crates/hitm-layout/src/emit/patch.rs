//! The declaration of a structure, rearranged where it stands.
//!
//! Each member's declaration moves with the comments above and beside it: it is what lies between the
//! end of the one before and its own. So what the author wrote stays as it was; only alignment,
//! padding and access specifiers are added. Types, static members and the like come before the
//! members, functions behind them, each in their order.

use std::mem;

use super::anonymous::Declaration;
use super::body::{Body, Item, ItemKind, Known, body_at, is_body_of};
use super::conditions::{self, Condition};
use super::declarator::Declared;
use super::diff::{Edit, edited};
use super::opened::opened;
use super::pieces::Pieces;
use super::positions::Reordered;
use super::tokens::{Lexis, Tokens};
use super::{
    Emission, EmitError, LINE, Source, Step, Style, construct, initialisers, steps, steps_beside,
};

/// A diff that puts the members of the structure into the order of the layout, and values by position
/// in the same file into the members' new order. `told` is what is known of the declaration.
pub fn patch_struct(
    emission: &Emission<'_>,
    source: Source<'_>,
    told: &Declaration,
) -> Result<String, EmitError> {
    let tokens = Tokens::new(source.file, source.text, Lexis::C);
    let name = super::names::bare(&emission.layout.name);
    let members = emission.subject.members.iter();
    let members: Vec<&str> = members.map(|member| &*member.file.name).collect();
    let known = Known {
        name,
        members: &members,
    };
    let open = find(&tokens, name, told)?;
    let body = body_at(&tokens, open, known)?;
    let body = opened(&tokens, body, known, &told.anonymous)?;
    let places = places(&tokens, &body, known)?;
    check_lines(&tokens, &places, &told.lines)?;
    let steps = aligned_steps(&tokens, emission, &body)?;
    let order = Order {
        places: &places,
        steps: &steps,
    };
    let reordered = Reordered::new(&tokens, name, emission.style, &body, order);
    let mut edits = Vec::new();
    if reordered.is_moved() || !body.opened.is_empty() {
        edits.extend(initialisers::edits(&tokens, &body, &reordered)?);
        if emission.style == Style::Cpp {
            edits.extend(construct::edits(&tokens, &body, &reordered)?);
        }
    }
    body.check_values(&tokens, &edits)?;
    check_twins(&tokens, open, name, &edits)?;
    // Functions inside move with what is changed in them.
    let inside = tokens.get(open).end..tokens.get(body.close).start;
    let (inner, mut edits): (Vec<Edit>, Vec<Edit>) = edits
        .into_iter()
        .partition(|edit| inside.contains(&edit.start));
    edits.extend(rearranged(&tokens, &body, order, emission.style, inner)?);
    let diff = edited(source.file, source.text, edits);
    Ok(reordered.caution(source.file) + &diff)
}

/// Returns true if a text of C declares the members of a structure of this name.
pub fn declares_c(text: &str, name: &str) -> bool {
    let tokens = Tokens::new("", text, Lexis::C);
    let mut opens = (0..tokens.len()).filter(|at| tokens.at(*at) == "{");
    opens.any(|at| is_body_of(&tokens, at, name))
}

/// Steps of the patch. Fails when an alignment would go with the braces of an opened structure.
fn aligned_steps<'e>(
    tokens: &Tokens<'_>,
    emission: &Emission<'e>,
    body: &Body,
) -> Result<Vec<Step<'e>>, EmitError> {
    let mut opened = body.opened.iter().filter(|opened| opened.has_attributes);
    let Some(first) = opened.next() else {
        return Ok(steps(emission));
    };
    let steps = steps_beside(emission, false);
    let align = steps.iter().map(|step| match step {
        Step::Member {
            is_aligned: true, ..
        } => LINE,
        Step::Member { index, .. } => emission.subject.members[*index].align,
        Step::Padding { .. } => 1,
    });
    let (align, wanted) = (align.max().unwrap_or(1), emission.subject.align_bytes);
    if align < wanted {
        let found = format!("attributes of an anonymous structure that is aligned to {wanted}");
        let expected = "the alignment on the structure around it";
        return Err(tokens.refuse(first.frame.closing.0, &found, expected));
    }
    Ok(steps)
}

/// The opening brace of the structure: the one whose lines the debug information has, where there are
/// several.
fn find(tokens: &Tokens<'_>, name: &str, told: &Declaration) -> Result<usize, EmitError> {
    let opens = (0..tokens.len()).filter(|at| tokens.at(*at) == "{");
    let opens: Vec<usize> = opens.filter(|at| is_body_of(tokens, *at, name)).collect();
    let has = |open: usize, line: u32| {
        let last = tokens.line(tokens.close(open));
        (tokens.line(open)..=last).contains(&(line as usize))
    };
    let first = told.lines.iter().flatten().next().copied();
    let is_there = |open: &&usize| first.is_none_or(|line| has(**open, line));
    let mut there = opens.iter().filter(is_there);
    match (there.next(), there.next()) {
        (Some(open), None) => Ok(*open),
        (Some(_), Some(second)) => Err(tokens.refuse(
            *second,
            &format!("another declaration of {name}"),
            "one in the lines that the debug information has",
        )),
        (None, _) => Err(missing(tokens, name, told.line.or(first), &opens)),
    }
}

/// Fails when values without names change that are those of another declaration of the structure, too: one in the same
/// scope, under another condition of the preprocessor.
fn check_twins(
    tokens: &Tokens<'_>,
    open: usize,
    name: &str,
    edits: &[Edit],
) -> Result<(), EmitError> {
    let mut others = (0..tokens.len()).filter(|at| tokens.at(*at) == "{" && *at != open);
    let twin = others.find(|other| {
        is_body_of(tokens, *other, name) && tokens.around(*other) == tokens.around(open)
    });
    match twin.filter(|_| !edits.is_empty()) {
        None => Ok(()),
        Some(twin) => {
            let found =
                format!("another declaration of {name}, which gets the same values by their order");
            Err(tokens.refuse(twin, &found, "values with names (.member = value)"))
        }
    }
}

/// An error for a structure that its place does not declare; `opens` are those of its name elsewhere.
fn missing(tokens: &Tokens<'_>, name: &str, line: Option<u32>, opens: &[usize]) -> EmitError {
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

/// The order in which members are written anew.
#[derive(Debug, Clone, Copy)]
pub(super) struct Order<'o> {
    /// The place of each member.
    pub(super) places: &'o [Place<'o>],
    pub(super) steps: &'o [Step<'o>],
}

/// Places of the subject's members.
fn places<'b>(
    tokens: &Tokens<'_>,
    body: &'b Body,
    known: Known<'_>,
) -> Result<Vec<Place<'b>>, EmitError> {
    let name = known.name;
    let mut places: Vec<Option<Place<'b>>> = vec![None; known.members.len()];
    for (item, of) in body.items.iter().enumerate() {
        let ItemKind::Members(declared) = &of.kind else {
            continue;
        };
        for declared in declared.iter().filter(|declared| !declared.is_gap) {
            let place = Place { item, declared };
            let member = match &declared.name {
                None => {
                    let mut whole = body.whole.iter();
                    whole.find(|whole| whole.0 == item).map(|whole| whole.1)
                }
                Some(own) => known.members.iter().position(|member| member == own),
            };
            let Some(member) = member else {
                let own = declared.name.as_deref().unwrap_or("without a name");
                let found = format!("the member {own}");
                let expected = format!("only members that {name} has in the debug information");
                return Err(tokens.refuse(declared.at, &found, &expected));
            };
            if places[member].replace(place).is_some() {
                let own = known.members[member];
                let found = format!("another declaration of {own}");
                return Err(tokens.refuse(declared.at, &found, "one of each member"));
            }
        }
    }
    let found = |(place, member): (Option<Place<'b>>, &&str)| {
        place.ok_or_else(|| {
            let found = format!("no declaration of {member} in {name}");
            let expected = "each member that the debug information has";
            tokens.refuse(body.open, &found, expected)
        })
    };
    places.into_iter().zip(known.members).map(found).collect()
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
        let known = tokens.line(span.from)..=tokens.line(span.end);
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
    order: Order<'_>,
    style: Style,
    inner: Vec<Edit>,
) -> Result<Vec<Edit>, EmitError> {
    check_types(tokens, order, body)?;
    let mut pieces = Pieces::new(tokens, body);
    let places = order.places;
    let items = || places.iter().map(|place| place.item);
    let (first, last) = body.with_frames(items().min().unwrap_or(0), items().max().unwrap_or(0));
    let (behind, end) = pieces.behind(body, last);
    let start = pieces.starts[first];
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
        tokens,
        condition: None,
        text: String::new(),
    };
    let is_member = |at: &usize| matches!(body.items[*at].kind, ItemKind::Members(_));
    let is_function = |at: &usize| matches!(body.items[*at].kind, ItemKind::Function);
    let between = || (first..=last).filter(|at| !is_member(at));
    // Members may need types and constants; functions see the whole structure from anywhere.
    for at in between().filter(|at| !is_function(at)) {
        writer.put(&body.items[at], &pieces.item(at, &body.items[at]));
    }
    for step in order.steps {
        match *step {
            Step::Padding { number, bytes } => writer.pad(number, bytes),
            Step::Member {
                index, is_aligned, ..
            } => {
                let item = &body.items[places[index].item];
                let text = pieces.member(&places[index], item, is_aligned.then_some(style));
                writer.put(item, &text);
            }
        }
    }
    for at in between().filter(is_function) {
        writer.put(&body.items[at], &pieces.item(at, &body.items[at]));
    }
    writer.enter(None);
    writer.text += &behind;
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
    tokens: &'w Tokens<'t>,
    access: &'w str,
    condition: Option<Condition>,
    text: String,
}

impl<'w> Writer<'w, '_, '_> {
    fn put(&mut self, item: &'w Item, text: &str) {
        self.switch_to(&item.access);
        // Blank lines above it stay above its condition.
        let blank = text.len() - text.trim_start_matches('\n').len();
        let (blank, text) = match self.condition == item.condition {
            true => ("", text),
            false => text.split_at(blank),
        };
        self.text += blank;
        self.enter(item.condition);
        self.text += text.trim_end();
        self.text.push('\n');
    }

    fn pad(&mut self, number: usize, bytes: u64) {
        self.enter(None);
        let padding = format!("char hitm_padding{number}[{bytes}];");
        self.text += &format!("{}{padding}\n", self.pieces.indent);
    }

    /// Ends the condition that holds and begins another one.
    fn enter(&mut self, condition: Option<Condition>) {
        if self.condition == condition {
            return;
        }
        if let Some(before) = mem::replace(&mut self.condition, condition) {
            self.text += &conditions::line(self.tokens, before.closing);
        }
        if let Some(next) = condition {
            self.text += &conditions::line(self.tokens, next.opening);
        }
    }

    fn switch_to(&mut self, access: &'w str) {
        if self.access != access {
            self.enter(None);
            self.text += &format!("{}{access}:\n", self.pieces.label_indent);
            self.access = access;
        }
    }
}

/// Fails when a member would come before the type that another one declares for it.
fn check_types(tokens: &Tokens<'_>, order: Order<'_>, body: &Body) -> Result<(), EmitError> {
    let places = order.places;
    let mut written: Vec<Place<'_>> = Vec::new();
    for step in order.steps {
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
