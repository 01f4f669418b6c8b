//! View of `hitm review`: lines of both layouts on each machine, and what gets worse in words.

mod fields;

use hitm_advise::review::{
    Alike, LineReport, MachineCost, Rename, TypeReview, Unmatched, Worse, WorseKind,
};
use hitm_base::grouped;
use hitm_fields::fields;
use hitm_layout::structs::MemberPlace;

pub use fields::{
    review, review_cost, review_coverage, review_member, review_rename, review_type,
    review_unmatched, review_worse,
};

/// Version of the JSON; docs/formats/review.md describes it.
pub const REVIEW_SCHEMA: u64 = 1;

/// Names of the two layouts.
pub const LAYOUTS: [&str; 2] = ["before", "after"];

fields! {
    /// A touched line of one layout on one machine.
    #[derive(Debug, Clone, PartialEq)]
    pub struct ReviewLine in review_line {
        /// Name of the machine.
        pub machine: String => label "machine";
        /// before or after.
        pub layout: &'static str => label "layout";
        /// The instance that begins first in the line.
        instance => number "instance", |item| item.line.instance;
        /// The line, counted from the one with the instance's first byte.
        pub line: LineReport => number "line", |item| item.line.line;
        /// Cost of the line.
        cycles => cycles "cycles", |item| item.line.cost.cycles().round();
        /// Cycles that cores stand still for transfers of it.
        stall_cycles => cycles "stall", |item| item.line.cost.stall.round();
        /// Its transfers between cores.
        transfer_count => count "transfers", |item| item.line.cost.transfers.round();
        /// Members that are touched there.
        members => words "members", |item| item.line.members;
    }
}

/// Returns the touched lines of both layouts on all machines of a type.
pub fn lines(review: &TypeReview) -> Vec<ReviewLine> {
    let of_layout = |cost: &MachineCost, side: usize| -> Vec<ReviewLine> {
        let lines = cost.weighed[side].per_line.iter();
        lines
            .map(|line| ReviewLine {
                machine: cost.machine.clone(),
                layout: LAYOUTS[side],
                line: line.clone(),
            })
            .collect()
    };
    let costs = review.costs.iter();
    costs
        .flat_map(|cost| [of_layout(cost, 0), of_layout(cost, 1)].concat())
        .collect()
}

/// Growth as a share; none from nothing.
pub(crate) fn growth(before: f64, after: f64) -> Option<f64> {
    (before > 0.0).then(|| after / before - 1.0)
}

/// Growth in text, with its sign.
pub(crate) fn growth_text(before: f64, after: f64) -> String {
    match growth(before, after) {
        Some(share) => format!("{:+.1}%", share * 100.0),
        None if after > 0.0 => "new".to_owned(),
        None => "-".to_owned(),
    }
}

/// Says what gets worse, in one sentence without a full stop.
pub(crate) fn words(worse: &Worse) -> String {
    let (before, after) = (grouped(worse.before), grouped(worse.after));
    let growth = growth_text(worse.before as f64, worse.after as f64);
    let cycles = format!("{before} -> {after} cycles ({growth})");
    match worse.kind {
        WorseKind::Machine => format!("on {} the type costs more: {cycles}", worse.name),
        WorseKind::Line => format!(
            "line {} costs more than the lines that its members were on: {cycles}{}",
            worse.name,
            on(worse)
        ),
        WorseKind::Member => format!(
            "{} is on lines that cost more than before: {cycles}{}",
            worse.name,
            on(worse)
        ),
        WorseKind::Memory => format!(
            "{} takes {} more bytes: {before} -> {after} ({growth})",
            worse.name,
            grouped(worse.after - worse.before)
        ),
        WorseKind::Straddle => {
            format!("{} lies in {after} lines and would fit in one", worse.name)
        }
    }
}

/// Says which touched member has no place in the second build, and which members it may be, in one
/// sentence without a full stop.
pub fn unmatched_words(unmatched: &Unmatched) -> String {
    let place = place_words(&unmatched.place);
    let accesses = grouped(unmatched.access_count);
    let candidates = unmatched.candidates.iter().map(alike_words);
    let candidates: Vec<String> = candidates.collect();
    let may_be = match candidates.as_slice() {
        [] => "every other member has its partner".to_owned(),
        some => format!("it may be {}", some.join(", or ")),
    };
    format!(
        "{} ({place}; accesses: {accesses}): {may_be}",
        unmatched.member
    )
}

/// A member with its place, and what it has in common with the one that it may be.
pub(crate) fn alike_words(alike: &Alike) -> String {
    let same = [
        (alike.has_offset, "offset"),
        (alike.has_size, "size"),
        (alike.has_type, "type"),
    ];
    let same: Vec<&str> = same.iter().filter(|one| one.0).map(|one| one.1).collect();
    let same = match same.as_slice() {
        [] => String::new(),
        [one] => format!("; same {one}"),
        [rest @ .., last] => format!("; same {} and {last}", rest.join(", ")),
    };
    format!("{} ({}{same})", alike.member, place_words(&alike.place))
}

fn place_words(place: &MemberPlace) -> String {
    let (offset, size) = (grouped(place.offset_bytes), grouped(place.size_bytes));
    let of_type = match place.type_name.as_str() {
        "" => String::new(),
        name => format!(", {name}"),
    };
    match place.bit_size.is_multiple_of(8) && place.bit_offset.is_multiple_of(8) {
        true => format!("offset {offset}, {size} B{of_type}"),
        false => format!("bit {}, {} bits{of_type}", place.bit_offset, place.bit_size),
    }
}

/// Says how a member is called in the second build, and how that is known, in one sentence without a
/// full stop.
pub(crate) fn rename_words(rename: &Rename) -> String {
    let why = match rename.is_stated {
        true => "--renamed",
        false => "same offset, size, type and neighbours",
    };
    match &rename.new {
        Some(new) => format!("{} is {new} now ({why})", rename.old),
        None => format!(
            "{} is gone ({why}): the new cost lacks its accesses",
            rename.old
        ),
    }
}

/// The machines of a rise.
fn on(worse: &Worse) -> String {
    match worse.machines.as_slice() {
        [] => String::new(),
        [one] => format!(" on {one}"),
        [first, rest @ ..] => format!(" on {first}, also on {}", rest.join(", ")),
    }
}
