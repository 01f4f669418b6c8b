//! Order of a structure's members, which values without names follow.

use std::ops::Range;
use std::path::Path;

use hitm_base::printable;

use super::body::{Body, ItemKind, head_of};
use super::declarator::Declared;
use super::patch::Order;
use super::tokens::Tokens;
use super::{Step, Style};

/// A member of a structure as a list of values meets it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Slot {
    /// None for an anonymous structure or union.
    pub(super) name: Option<String>,
    /// A value without braces may be for a part of it.
    pub(super) has_parts: bool,
}

/// Content of one place of the new order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Placed {
    /// The member with this index in the old order.
    Member(usize),
    Padding,
}

/// The order of members before and after.
#[derive(Debug)]
pub(super) struct Reordered {
    pub(super) name: String,
    pub(super) style: Style,
    pub(super) old: Vec<Slot>,
    pub(super) new: Vec<Placed>,
    /// Members of opened anonymous structures in the old order, outer ones first.
    pub(super) opened: Vec<Range<usize>>,
    /// True if values in braces go to members; false if a constructor takes them.
    pub(super) is_aggregate: bool,
}

impl Slot {
    /// A member whose declaration begins at `from`.
    pub(super) fn of(tokens: &Tokens<'_>, from: usize, declared: &Declared) -> Slot {
        Slot {
            name: declared.name.clone(),
            has_parts: has_parts(tokens, from, declared),
        }
    }
}

impl Reordered {
    pub(super) fn new(
        tokens: &Tokens<'_>,
        name: &str,
        style: Style,
        body: &Body,
        order: Order<'_>,
    ) -> Reordered {
        let places = order.places;
        let mut by_source: Vec<usize> = (0..places.len()).collect();
        by_source.sort_by_key(|index| (places[*index].item, places[*index].declared.span));
        let slot = |index: &usize| {
            let place = places[*index];
            Slot::of(tokens, body.items[place.item].start, place.declared)
        };
        let rank = |index: usize| by_source.iter().position(|other| *other == index);
        let new = order.steps.iter().map(|step| match step {
            Step::Padding { .. } => Placed::Padding,
            Step::Member { index, .. } => Placed::Member(rank(*index).unwrap_or(0)),
        });
        let before = |item: usize| places.iter().filter(|place| place.item < item).count();
        let opened = body.opened.iter();
        let opened = opened.map(|of| before(of.frame.items.start)..before(of.frame.items.end));
        Reordered {
            opened: opened.collect(),
            name: name.to_owned(),
            style,
            old: by_source.iter().map(slot).collect(),
            new: new.collect(),
            is_aggregate: style != Style::Cpp || is_aggregate(tokens, body, name),
        }
    }

    /// Returns true if a value without a name may be another member's now.
    pub(super) fn is_moved(&self) -> bool {
        let same = (0..self.old.len()).map(Placed::Member);
        !same.eq(self.new.iter().copied().take(self.old.len()))
    }

    /// The opened structure whose values in braces begin at a member; `within` is the one whose braces
    /// are around those.
    pub(super) fn opened_at(&self, place: usize, within: Option<usize>) -> Option<usize> {
        let from = within.map_or(0, |within| within + 1);
        (from..self.opened.len()).find(|of| self.opened[*of].start == place)
    }

    /// Index of a member in the old order.
    pub(super) fn index_of(&self, name: &str) -> Option<usize> {
        let mut slots = self.old.iter();
        slots.position(|slot| slot.name.as_deref() == Some(name))
    }

    /// Place of a member in the new order.
    pub(super) fn place_of(&self, index: usize) -> usize {
        let is_it = |placed: &Placed| *placed == Placed::Member(index);
        self.new.iter().position(is_it).unwrap_or(0)
    }

    /// Returns true if the member `first` came before `second`, and does not any more.
    pub(super) fn swaps(&self, first: usize, second: usize) -> bool {
        first < second && self.place_of(first) > self.place_of(second)
    }

    /// Lines above the diff of a file that others include: `patch` skips them.
    pub(super) fn caution(&self, file: &str) -> String {
        let extension = Path::new(file).extension().and_then(|of| of.to_str());
        let is_header = extension.is_some_and(|of| of.starts_with(['h', 'H']));
        let is_same = !self.is_moved() && self.opened.is_empty();
        if !is_header || is_same || !self.is_aggregate {
            return String::new();
        }
        let (file, name) = (printable(file), &self.name);
        format!(
            "Values of {name} without names were looked for in {file} only: those in files that include it\n\
             must be given names, or put into the new order.\n"
        )
    }
}

/// Returns true if a member, whose declaration begins at `from`, is an array, a structure or a union, or
/// may be one by its type's name.
fn has_parts(tokens: &Tokens<'_>, from: usize, declared: &Declared) -> bool {
    const SCALARS: [&str; 12] = [
        "int", "long", "short", "char", "unsigned", "signed", "float", "double", "bool", "_Bool",
        "enum", "size_t",
    ];
    if declared.is_array || declared.is_pointer {
        return declared.is_array;
    }
    let is_scalar = |word: &str| {
        let is_fixed = word.ends_with("_t") && word.trim_start_matches("atomic_").contains("int");
        let is_kernel = matches!(
            word.trim_start_matches("__"),
            "u8" | "u16" | "u32" | "u64" | "s8" | "s16" | "s32" | "s64"
        );
        let is_atomic = matches!(word, "atomic_int" | "atomic_long");
        SCALARS.contains(&word) || is_atomic || is_fixed || is_kernel
    };
    !tokens.has_flat(from, declared.at.max(from + 1), is_scalar)
}

/// Returns true if a C++ structure takes values in braces one by one: it has no constructor, no hidden
/// members, no virtual functions and no bases.
fn is_aggregate(tokens: &Tokens<'_>, body: &Body, name: &str) -> bool {
    let head = head_of(tokens, body.open);
    let has_bases = head.is_some_and(|head| tokens.has_flat(head, body.open, |word| word == ":"));
    let closes = body.items.iter().any(|item| {
        let flat = tokens.flat(item.start, item.last);
        match item.kind {
            ItemKind::Members(_) => item.access != "public",
            ItemKind::Function => flat.iter().any(|at| {
                let is_named = tokens.at(*at) == name && tokens.at(at + 1) == "(";
                tokens.at(*at) == "virtual" || is_named && tokens.before(*at) != "~"
            }),
            ItemKind::Other => {
                let is_using = tokens.at(item.start) == "using";
                is_using && tokens.texts(&flat).any(|word| word == name)
            }
        }
    });
    !has_bases && !closes
}
