//! Anonymous structures whose members become those of the structure around them, in its body.
//!
//! Source and debug information declare what has no name in the same order, so one tells which of the
//! other is opened.

use std::ops::Range;

use super::EmitError;
use super::anonymous::Anonymous;
use super::body::{Body, Item, ItemKind, Known, body_at, head_of};
use super::tokens::Tokens;

/// Tokens around items of a body that go when these move. Tokens are given by index, the first and the last.
#[derive(Debug, Clone)]
pub(super) struct Frame {
    pub(super) opening: (usize, usize),
    pub(super) closing: (usize, usize),
    /// Items of the body that were inside.
    pub(super) items: Range<usize>,
}

/// An anonymous structure whose braces go.
#[derive(Debug)]
pub(super) struct Opened {
    /// From its first token to the opening brace, and from the closing brace to the semicolon.
    pub(super) frame: Frame,
    /// True if it has attributes, which go.
    pub(super) has_attributes: bool,
}

/// The body with the items of opened structures among its own.
pub(super) fn opened(
    tokens: &Tokens<'_>,
    body: Body,
    known: Known<'_>,
    anonymous: &[Anonymous],
) -> Result<Body, EmitError> {
    let (items, open) = (body.items, body.open);
    let mut opening = Opening {
        tokens,
        known,
        body: Body {
            items: Vec::new(),
            ..body
        },
    };
    opening.add(items, open, anonymous)?;
    let mut body = opening.body;
    body.opened.sort_by_key(|opened| opened.frame.opening);
    body.conditions.sort_by_key(|condition| condition.opening);
    Ok(body)
}

struct Opening<'o, 't> {
    tokens: &'o Tokens<'t>,
    known: Known<'o>,
    body: Body,
}

impl Opening<'_, '_> {
    /// Adds the items of the braces at `open`.
    fn add(
        &mut self,
        items: Vec<Item>,
        open: usize,
        anonymous: &[Anonymous],
    ) -> Result<(), EmitError> {
        let mut anonymous = anonymous.iter();
        for item in items {
            if !is_anonymous(&item) {
                self.body.items.push(item);
                continue;
            }
            match anonymous.next() {
                Some(Anonymous::Whole(member)) => {
                    self.body.whole.push((self.body.items.len(), *member));
                    self.body.items.push(item);
                }
                Some(Anonymous::Opened(inner)) => self.open(&item, inner)?,
                None => {
                    let found = "an anonymous structure or union";
                    let expected = "only those that the debug information has";
                    return Err(self.tokens.refuse(item.start, found, expected));
                }
            }
        }
        if anonymous.next().is_some() {
            let found = "too few anonymous structures and unions";
            let expected = "each that the debug information has";
            return Err(self.tokens.refuse(open, found, expected));
        }
        Ok(())
    }

    fn open(&mut self, item: &Item, inner: &[Anonymous]) -> Result<(), EmitError> {
        let tokens = self.tokens;
        let flat = tokens.flat(item.start, item.last);
        let brace = flat.iter().copied().find(|at| tokens.at(*at) == "{");
        let brace = brace
            .filter(|brace| head_of(tokens, *brace).is_some_and(|head| tokens.at(head) != "union"));
        let Some(brace) = brace else {
            let found = "a union";
            let expected = "an anonymous structure, as the debug information has";
            return Err(tokens.refuse(item.start, found, expected));
        };
        let qualifier = flat
            .iter()
            .find(|at| matches!(tokens.at(**at), "const" | "volatile" | "_Atomic"));
        if let Some(at) = qualifier {
            let found = format!("{} for an anonymous structure", tokens.at(*at));
            return Err(tokens.refuse(*at, &found, "it with each of the members"));
        }
        let (first, close) = (self.body.items.len(), tokens.close(brace));
        let mut body = body_at(tokens, brace, self.known)?;
        for own in &mut body.items {
            own.access.clone_from(&item.access);
            // Under a condition there is no other one.
            own.condition = own.condition.or(item.condition);
        }
        self.body.conditions.append(&mut body.conditions);
        self.add(body.items, brace, inner)?;
        self.body.opened.push(Opened {
            frame: Frame {
                opening: (item.start, brace),
                closing: (close, item.last),
                items: first..self.body.items.len(),
            },
            has_attributes: item.start + 1 < brace || close + 1 < item.last,
        });
        Ok(())
    }
}

fn is_anonymous(item: &Item) -> bool {
    match &item.kind {
        ItemKind::Members(declared) => {
            matches!(&declared[..], [one] if one.name.is_none() && !one.is_gap)
        }
        ItemKind::Function | ItemKind::Other => false,
    }
}

impl Body {
    /// Braces and conditions that go where members move.
    pub(super) fn frames(&self) -> Vec<Frame> {
        let opened = self.opened.iter().map(|opened| opened.frame.clone());
        opened.chain(self.of_conditions()).collect()
    }

    /// Items from `first` to `last`, and those that are in frames with them.
    pub(super) fn with_frames(&self, first: usize, last: usize) -> (usize, usize) {
        let frames = self.frames();
        let around = |at: usize| frames.iter().filter(move |of| of.items.contains(&at));
        let starts = around(first).map(|of| of.items.start);
        let ends = around(last).map(|of| of.items.end - 1);
        (starts.fold(first, usize::min), ends.fold(last, usize::max))
    }
}
