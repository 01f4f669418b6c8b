//! Pieces of text that a rearranged body is made of.

use super::Style;
use super::body::{Body, Item, ItemKind};
use super::diff::{Edit, line_start};
use super::opened::Frame;
use super::patch::Place;
use super::tokens::Tokens;

/// Text of the declarations of a body, with the comments that belong to them.
pub(super) struct Pieces<'b, 't> {
    tokens: &'b Tokens<'t>,
    frames: Vec<Frame>,
    /// First byte of an item with the comments above it, by item.
    pub(super) starts: Vec<usize>,
    /// The byte behind an item and the comments beside it.
    ends: Vec<usize>,
    /// Text above and before an item, without access specifiers and braces that go.
    leads: Vec<String>,
    /// Indentation of an item in an opened structure, which becomes that of the others.
    own_indents: Vec<Option<String>>,
    /// Changes of what moves, in ascending order.
    pub(super) inner: Vec<Edit>,
    pub(super) indent: String,
    pub(super) label_indent: String,
    pub(super) outer_indent: String,
}

/// The end of an item.
#[derive(Debug, Clone, Copy)]
struct End {
    /// The first byte behind it and the comments beside it.
    byte: usize,
    /// The first token behind it.
    token: usize,
}

impl<'b, 't> Pieces<'b, 't> {
    pub(super) fn new(tokens: &'b Tokens<'t>, body: &Body) -> Pieces<'b, 't> {
        let text = tokens.text;
        let outer_indent = indent_at(text, tokens.get(body.open).start);
        let mut own = (0..body.items.len()).map(|at| {
            let frames = body.opened.iter().map(|opened| &opened.frame);
            let mut around = frames.filter(|of| of.items.contains(&at));
            let first = around.next().map(|of| of.opening.0);
            tokens.get(first.unwrap_or(body.items[at].start)).start
        });
        let own = own.find(|own| starts_its_line(text, *own));
        let indent = own.map_or_else(|| format!("{outer_indent}\t"), |own| indent_at(text, own));
        let mut pieces = Pieces {
            tokens,
            frames: body.frames(),
            starts: Vec::new(),
            ends: Vec::new(),
            leads: Vec::new(),
            own_indents: Vec::new(),
            inner: Vec::new(),
            label_indent: outer_indent.clone(),
            indent,
            outer_indent,
        };
        let end = |token: usize| End {
            byte: behind_line(tokens, token),
            token: token + 1,
        };
        let mut before = end(body.open);
        for (at, item) in body.items.iter().enumerate() {
            let lead = pieces.lead(body, at, before);
            pieces.leads.push(lead);
            pieces.starts.push(before.byte);
            before = end(item.last);
            pieces.ends.push(before.byte);
        }
        pieces
    }

    /// Text before the item `at`, from the end of the one before it on.
    fn lead(&mut self, body: &Body, at: usize, before: End) -> String {
        let text = self.tokens.text;
        let own = self.tokens.get(body.items[at].start).start;
        let is_inside = self.frames.iter().any(|of| of.items.contains(&at));
        let own_indent = (is_inside && starts_its_line(text, own)).then(|| indent_at(text, own));
        self.own_indents.push(own_indent);
        let mut lead = self.kept(before, body.items[at].start);
        let between = before.token..body.items[at].start;
        let is_between =
            |of: &Frame| between.contains(&of.opening.0) || between.contains(&of.closing.0);
        if is_inside || self.frames.iter().any(is_between) {
            lead = self.indented(&lead, at);
        }
        let start = before.byte;
        if !starts_its_line(text, start) || !text[..start].ends_with('\n') && start > 0 {
            lead = format!("{}{}", self.indent, lead.trim_start());
        }
        if !lead.ends_with('\n') && lead.trim().is_empty() && !lead.contains('\n') {
            lead.clone_from(&self.indent);
        }
        lead
    }

    /// Text behind an item, up to the token `end`, without its tokens: access specifiers, and frames.
    fn kept(&mut self, behind: End, end: usize) -> String {
        let (tokens, text) = (self.tokens, self.tokens.text);
        let (mut kept, mut at, mut first) = (String::new(), behind.byte, behind.token);
        while first < end {
            let side = |of: &Frame| {
                let sides = [of.opening, of.closing];
                sides.into_iter().find(|side| side.0 == first)
            };
            let frames = self.frames.iter();
            let mut starts = frames.flat_map(|of| [of.opening.0, of.closing.0]);
            let last = match self.frames.iter().find_map(side) {
                Some(side) => side.1,
                None => {
                    if starts_its_line(text, tokens.get(first).start) {
                        self.label_indent = indent_at(text, tokens.get(first).start);
                    }
                    let next = (first..end).find(|at| starts.any(|start| start == *at));
                    next.unwrap_or(end) - 1
                }
            };
            kept += text[at..tokens.get(first).start].trim_end_matches([' ', '\t']);
            at = tokens.get(last).end;
            let rest = &text[at..tokens.get(last + 1).start];
            // What has a line for itself takes the line along.
            let line = rest.find('\n').filter(|end| rest[..*end].trim().is_empty());
            at += line.map_or(0, |end| end + 1);
            first = last + 1;
        }
        kept + &text[at..tokens.get(end).start]
    }

    /// The comments behind the item `last` and before the end of the frames around it, and the byte behind these.
    pub(super) fn behind(&mut self, body: &Body, last: usize) -> (String, usize) {
        let around = self.frames.iter().filter(|of| of.items.contains(&last));
        let Some(close) = around.map(|of| of.closing.1).max() else {
            return (String::new(), self.ends[last]);
        };
        let behind = End {
            byte: self.ends[last],
            token: body.items[last].last + 1,
        };
        let kept = self.kept(behind, close + 1);
        let end = behind_line(self.tokens, close);
        // What is behind the braces stays there.
        let beside = end.saturating_sub(self.tokens.get(close).end);
        let outside = self.tokens.get(close + 1).start - self.tokens.get(close).end;
        let kept = &kept[..kept.len().saturating_sub(outside.saturating_sub(beside))];
        let lines = kept.lines().filter(|line| !line.trim().is_empty());
        let lines = lines.map(|line| format!("{}{}\n", self.indent, line.trim_start()));
        (lines.collect(), end)
    }

    /// Lines before the item `at` as far to the right as the others.
    fn indented(&self, lead: &str, at: usize) -> String {
        // Comments before a closing brace are as far to the right as the item before it.
        let before = at
            .checked_sub(1)
            .and_then(|at| self.own_indents[at].as_deref());
        let own = self.own_indents[at].as_deref().or(before);
        let mut out = String::new();
        for line in lead.split_inclusive('\n') {
            let inner = own.and_then(|own| line.strip_prefix(own));
            let is_there = line.starts_with(&self.indent) || line.trim().is_empty();
            out += &match inner {
                Some(rest) => format!("{}{rest}", self.indent),
                None if line.ends_with('\n') && is_there => line.to_owned(),
                None => format!("{}{}", self.indent, line.trim_start()),
            };
        }
        if lead.is_empty() || lead.ends_with('\n') {
            out += &self.indent;
        }
        out
    }

    /// The text of the item `at`, whose lines are as far to the right as the others.
    fn outdented(&self, text: &str, at: usize) -> String {
        match &self.own_indents[at] {
            Some(own) => text.replace(&format!("\n{own}"), &format!("\n{}", self.indent)),
            None => text.to_owned(),
        }
    }

    /// The whole item `at`.
    pub(super) fn item(&self, at: usize, item: &Item) -> String {
        let start = self.tokens.get(item.start).start;
        let (mut out, mut from) = (String::new(), start);
        for edit in self
            .inner
            .iter()
            .filter(|edit| (start..self.ends[at]).contains(&edit.start))
        {
            out += &self.tokens.text[from..edit.start];
            out += &edit.text;
            from = edit.end;
        }
        out += &self.tokens.text[from..self.ends[at]];
        self.leads[at].clone() + &self.outdented(&out, at)
    }

    /// A member, alone even where others are declared with it; aligned in a style.
    pub(super) fn member(&self, place: &Place<'_>, item: &Item, style: Option<Style>) -> String {
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
                let shared = &tokens.text[byte(item.start)..byte(declared[0].span.from)];
                let (own, end) = (place.declared.span.from, declared[at + gaps].span.end);
                format!("{shared}{};", tokens.slice(own, end))
            }
        };
        let own = match style {
            Some(style) => aligned(&own, style),
            None => own,
        };
        let lead = match is_first {
            true => &self.leads[place.item],
            false => &self.indent,
        };
        let tail = match is_last {
            true => &tokens.text[behind..self.ends[place.item]],
            false => "",
        };
        lead.clone() + &self.outdented(&format!("{own}{tail}"), place.item)
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

/// The blanks at the start of the line of a byte.
pub(super) fn indent_at(text: &str, at: usize) -> String {
    let line = &text[line_start(text, at)..];
    line[..line.len() - line.trim_start_matches([' ', '\t']).len()].to_owned()
}

/// Returns true if only blanks are before a byte on its line.
pub(super) fn starts_its_line(text: &str, at: usize) -> bool {
    text[line_start(text, at)..at].trim().is_empty()
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
