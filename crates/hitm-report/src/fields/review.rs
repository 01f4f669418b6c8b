//! The quantities of `hitm review`.

use hitm::advise::review::{
    Coverage, MachineCost, MemberReview, Rename, Review, TypeReview, Unmatched, Worse,
};
use hitm::whatif::{Change, Took};
use hitm_layout::structs::MemberPlace;

use super::{Field, Unit, Value};
use crate::review::{ReviewLine, alike_words, growth, rename_words, unmatched_words, words};

fn cycles(value: f64) -> Value {
    Value::Number(value.round())
}

fn lost(cost: &MachineCost, side: fn(&Change<Took>) -> Took) -> Value {
    Value::whole_or_missing(cost.replay.as_ref().map(|replay| side(replay).lost.0))
}

fn place(place: Option<&MemberPlace>, of: fn(&MemberPlace) -> u64) -> Value {
    Value::whole_or_missing(place.map(of))
}

/// `member (accesses)` of each.
fn lacking(members: &[(String, u64)]) -> Value {
    let members = members.iter();
    Value::Texts(
        members
            .map(|(name, count)| format!("{name} ({count})"))
            .collect(),
    )
}

/// A review.
pub const REVIEW_FIELDS: &[Field<Review>] = &[
    Field {
        id: "before",
        title: "before",
        unit: Unit::None,
        description: "Name of the first build",
        value: |item| Value::Text(item.builds[0].clone()),
    },
    Field {
        id: "after",
        title: "after",
        unit: Unit::None,
        description: "Name of the second build",
        value: |item| Value::Text(item.builds[1].clone()),
    },
    Field {
        id: "profile",
        title: "profile",
        unit: Unit::None,
        description: "Name of the profile; null without one",
        value: |item| {
            let name = item.profile.as_deref();
            name.map_or(Value::Missing, Value::text_or_missing)
        },
    },
    Field {
        id: "compared_count",
        title: "compared",
        unit: Unit::Count,
        description: "Types that both builds have",
        value: |item| Value::Whole(item.compared_count),
    },
    Field {
        id: "changed_count",
        title: "changed",
        unit: Unit::Count,
        description: "The part of them whose layouts differ",
        value: |item| Value::Whole((item.types.len() + item.left_out.len()) as u64),
    },
    Field {
        id: "only_before_count",
        title: "only before",
        unit: Unit::Count,
        description: "Types that only the first build has",
        value: |item| Value::Whole(item.only_counts[0]),
    },
    Field {
        id: "only_after_count",
        title: "only after",
        unit: Unit::Count,
        description: "Types that only the second build has",
        value: |item| Value::Whole(item.only_counts[1]),
    },
    Field {
        id: "left_out",
        title: "left out",
        unit: Unit::None,
        description: "Names of changed types beyond the 16 that a review without --type shows",
        value: |item| Value::Texts(item.left_out.clone()),
    },
];

/// A changed type.
pub const REVIEW_TYPE_FIELDS: &[Field<TypeReview>] = &[
    Field {
        id: "type",
        title: "type",
        unit: Unit::None,
        description: "Name of the type",
        value: |item| Value::Text(item.name.clone()),
    },
    Field {
        id: "size_before_bytes",
        title: "bytes before",
        unit: Unit::Bytes,
        description: "Bytes of an instance before",
        value: |item| Value::Whole(item.memory[0].size_bytes),
    },
    Field {
        id: "size_after_bytes",
        title: "bytes after",
        unit: Unit::Bytes,
        description: "Bytes of an instance after",
        value: |item| Value::Whole(item.memory[1].size_bytes),
    },
    Field {
        id: "line_count_before",
        title: "lines before",
        unit: Unit::Count,
        description: "Cache lines of an instance before",
        value: |item| Value::Whole(item.memory[0].line_count),
    },
    Field {
        id: "line_count_after",
        title: "lines after",
        unit: Unit::Count,
        description: "Cache lines of an instance after",
        value: |item| Value::Whole(item.memory[1].line_count),
    },
    Field {
        id: "hole_count_before",
        title: "holes before",
        unit: Unit::Count,
        description: "Holes between members before",
        value: |item| Value::Whole(item.memory[0].hole_count),
    },
    Field {
        id: "hole_count_after",
        title: "holes after",
        unit: Unit::Count,
        description: "Holes between members after",
        value: |item| Value::Whole(item.memory[1].hole_count),
    },
    Field {
        id: "hole_before_bytes",
        title: "bytes in holes before",
        unit: Unit::Bytes,
        description: "Bytes in holes before",
        value: |item| Value::Whole(item.memory[0].hole_bytes),
    },
    Field {
        id: "hole_after_bytes",
        title: "bytes in holes after",
        unit: Unit::Bytes,
        description: "Bytes in holes after",
        value: |item| Value::Whole(item.memory[1].hole_bytes),
    },
    Field {
        id: "padding_before_bytes",
        title: "padding before",
        unit: Unit::Bytes,
        description: "Bytes behind the last member before",
        value: |item| Value::Whole(item.memory[0].padding_bytes),
    },
    Field {
        id: "padding_after_bytes",
        title: "padding after",
        unit: Unit::Bytes,
        description: "Bytes behind the last member after",
        value: |item| Value::Whole(item.memory[1].padding_bytes),
    },
    Field {
        id: "unpriced",
        title: "no costs because",
        unit: Unit::None,
        description: "Why there are no costs; null when there are",
        value: |item| {
            let why = item.unpriced.as_deref();
            why.map_or(Value::Missing, Value::text_or_missing)
        },
    },
];

/// Both layouts of a type on one machine.
pub const REVIEW_COST_FIELDS: &[Field<MachineCost>] = &[
    Field {
        id: "machine",
        title: "machine",
        unit: Unit::None,
        description: "Name of the machine",
        value: |item| Value::Text(item.machine.clone()),
    },
    Field {
        id: "cpu_count",
        title: "CPUs",
        unit: Unit::Count,
        description: "CPUs of the machine",
        value: |item| Value::Whole(item.cpu_count),
    },
    Field {
        id: "folded_cpu_count",
        title: "folded CPUs",
        unit: Unit::Count,
        description: "CPUs of the profile that take turns on those of a smaller machine; null when it has enough",
        value: |item| Value::whole_or_missing(item.folded_cpu_count),
    },
    Field {
        id: "cycles_before",
        title: "before",
        unit: Unit::Cycles,
        description: "Cycles of all threads before, by a replay; the cost of the type's lines where it is estimated",
        value: |item| cycles(item.cycles()[0]),
    },
    Field {
        id: "cycles_after",
        title: "after",
        unit: Unit::Cycles,
        description: "The same after",
        value: |item| cycles(item.cycles()[1]),
    },
    Field {
        id: "cycles_change",
        title: "change",
        unit: Unit::Share,
        description: "Growth of the cycles; negative when they fall",
        value: |item| {
            let [before, after] = item.cycles();
            Value::number_or_missing(growth(before, after))
        },
    },
    Field {
        id: "lost_cycles_before",
        title: "lost before",
        unit: Unit::Cycles,
        description: "Cycles that threads lost to each other before, by a replay; null where it is estimated",
        value: |item| lost(item, |replay| replay.before),
    },
    Field {
        id: "lost_cycles_after",
        title: "lost after",
        unit: Unit::Cycles,
        description: "The same after",
        value: |item| lost(item, |replay| replay.after),
    },
    Field {
        id: "stall_cycles_before",
        title: "stall before",
        unit: Unit::Cycles,
        description: "Cycles that cores stand still for transfers before, as the model estimates",
        value: |item| cycles(item.weighed[0].cost.stall),
    },
    Field {
        id: "stall_cycles_after",
        title: "stall after",
        unit: Unit::Cycles,
        description: "The same after",
        value: |item| cycles(item.weighed[1].cost.stall),
    },
    Field {
        id: "transfer_count_before",
        title: "transfers before",
        unit: Unit::Count,
        description: "Transfers between cores before, as the model estimates",
        value: |item| cycles(item.weighed[0].cost.transfers),
    },
    Field {
        id: "transfer_count_after",
        title: "transfers after",
        unit: Unit::Count,
        description: "The same after",
        value: |item| cycles(item.weighed[1].cost.transfers),
    },
    Field {
        id: "confidence",
        title: "confidence",
        unit: Unit::None,
        description: "replayed when the recording was run again on this machine with both layouts, else estimated by the model",
        value: |item| {
            let by = match item.replay {
                Some(_) => "replayed",
                None => "estimated",
            };
            Value::Text(by.to_owned())
        },
    },
];

/// A touched line of one layout on one machine.
pub const REVIEW_LINE_FIELDS: &[Field<ReviewLine>] = &[
    Field {
        id: "machine",
        title: "machine",
        unit: Unit::None,
        description: "Name of the machine",
        value: |item| Value::Text(item.machine.clone()),
    },
    Field {
        id: "layout",
        title: "layout",
        unit: Unit::None,
        description: "before or after",
        value: |item| Value::Text(item.layout.to_owned()),
    },
    Field {
        id: "instance",
        title: "instance",
        unit: Unit::None,
        description: "The instance that begins first in the line",
        value: |item| Value::Whole(u64::from(item.line.instance)),
    },
    Field {
        id: "line",
        title: "line",
        unit: Unit::None,
        description: "The line, counted from the one with the instance's first byte",
        value: |item| Value::Whole(item.line.line),
    },
    Field {
        id: "cycles",
        title: "cycles",
        unit: Unit::Cycles,
        description: "Cost of the line",
        value: |item| cycles(item.line.cost.cycles()),
    },
    Field {
        id: "stall_cycles",
        title: "stall",
        unit: Unit::Cycles,
        description: "Cycles that cores stand still for transfers of it",
        value: |item| cycles(item.line.cost.stall),
    },
    Field {
        id: "transfer_count",
        title: "transfers",
        unit: Unit::Count,
        description: "Its transfers between cores",
        value: |item| cycles(item.line.cost.transfers),
    },
    Field {
        id: "members",
        title: "members",
        unit: Unit::None,
        description: "Members that are touched there",
        value: |item| Value::Texts(item.line.members.clone()),
    },
];

/// A member before and after.
pub const REVIEW_MEMBER_FIELDS: &[Field<MemberReview>] = &[
    Field {
        id: "member",
        title: "member",
        unit: Unit::None,
        description: "Name of the member",
        value: |item| Value::Text(item.places.name.clone()),
    },
    Field {
        id: "change",
        title: "change",
        unit: Unit::None,
        description: "same, moved (within its lines), moved-line, added or removed",
        value: |item| {
            Value::Text(
                match item.places.change {
                    hitm_layout::structs::Change::Same => "same",
                    hitm_layout::structs::Change::Moved => "moved",
                    hitm_layout::structs::Change::MovedLine => "moved-line",
                    hitm_layout::structs::Change::Added => "added",
                    hitm_layout::structs::Change::Removed => "removed",
                }
                .to_owned(),
            )
        },
    },
    Field {
        id: "offset_before_bytes",
        title: "offset before",
        unit: Unit::Bytes,
        description: "First byte before; null for an added member",
        value: |item| place(item.places.before.as_ref(), |place| place.offset_bytes),
    },
    Field {
        id: "offset_after_bytes",
        title: "offset after",
        unit: Unit::Bytes,
        description: "First byte after; null for a removed member",
        value: |item| place(item.places.after.as_ref(), |place| place.offset_bytes),
    },
    Field {
        id: "size_before_bytes",
        title: "size before",
        unit: Unit::Bytes,
        description: "Bytes before",
        value: |item| place(item.places.before.as_ref(), |place| place.size_bytes),
    },
    Field {
        id: "size_after_bytes",
        title: "size after",
        unit: Unit::Bytes,
        description: "Bytes after",
        value: |item| place(item.places.after.as_ref(), |place| place.size_bytes),
    },
    Field {
        id: "line_before",
        title: "line before",
        unit: Unit::None,
        description: "Cache line that it began in before, from 0",
        value: |item| place(item.places.before.as_ref(), |place| place.first_line),
    },
    Field {
        id: "line_after",
        title: "line after",
        unit: Unit::None,
        description: "Cache line that it begins in after, from 0",
        value: |item| place(item.places.after.as_ref(), |place| place.first_line),
    },
    Field {
        id: "access_count",
        title: "accesses",
        unit: Unit::Count,
        description: "Accesses in the profile, 0 for a member that it does not know; null when it does not know the type",
        value: |item| Value::whole_or_missing(item.access_count),
    },
];

/// A touched member without a place in the second build.
pub const REVIEW_UNMATCHED_FIELDS: &[Field<Unmatched>] = &[
    Field {
        id: "member",
        title: "member",
        unit: Unit::None,
        description: "Name of the member in the first build",
        value: |item| Value::Text(item.member.clone()),
    },
    Field {
        id: "access_count",
        title: "accesses",
        unit: Unit::Count,
        description: "Accesses in the profile",
        value: |item| Value::Whole(item.access_count),
    },
    Field {
        id: "offset_bytes",
        title: "offset",
        unit: Unit::Bytes,
        description: "First byte in the first build, of the structure that it is a member of",
        value: |item| Value::Whole(item.place.offset_bytes),
    },
    Field {
        id: "size_bytes",
        title: "size",
        unit: Unit::Bytes,
        description: "Bytes in the first build",
        value: |item| Value::Whole(item.place.size_bytes),
    },
    Field {
        id: "member_type",
        title: "type",
        unit: Unit::None,
        description: "Name of its type; null in a layout file",
        value: |item| Value::text_or_missing(&item.place.type_name),
    },
    Field {
        id: "candidates",
        title: "may be",
        unit: Unit::None,
        description: "Members of the second build without a partner, the likest first: name, place, what is the same",
        value: |item| Value::Texts(item.candidates.iter().map(alike_words).collect()),
    },
    Field {
        id: "words",
        title: "in words",
        unit: Unit::None,
        description: "The same as a sentence without a full stop",
        value: |item| Value::Text(unmatched_words(item)),
    },
];

/// A member that has another name in the second build.
pub const REVIEW_RENAME_FIELDS: &[Field<Rename>] = &[
    Field {
        id: "member",
        title: "member",
        unit: Unit::None,
        description: "Name of the member in the first build",
        value: |item| Value::Text(item.old.clone()),
    },
    Field {
        id: "new_member",
        title: "new name",
        unit: Unit::None,
        description: "Its name in the second build; null when it is gone",
        value: |item| {
            let new = item.new.as_deref();
            new.map_or(Value::Missing, Value::text_or_missing)
        },
    },
    Field {
        id: "evidence",
        title: "evidence",
        unit: Unit::None,
        description: "stated by --renamed, or place: the same offset, size, type and neighbours",
        value: |item| {
            Value::Text(match item.is_stated {
                true => "stated".to_owned(),
                false => "place".to_owned(),
            })
        },
    },
    Field {
        id: "words",
        title: "in words",
        unit: Unit::None,
        description: "The same as a sentence without a full stop",
        value: |item| Value::Text(rename_words(item)),
    },
];

/// Coverage of a type by a profile.
pub const REVIEW_COVERAGE_FIELDS: &[Field<Coverage>] = &[
    Field {
        id: "counted",
        title: "accesses are",
        unit: Unit::None,
        description: "recorded or simulated (each one), sampled, or stated by a table",
        value: |item| Value::Text(item.counted.name().to_owned()),
    },
    Field {
        id: "source",
        title: "source",
        unit: Unit::None,
        description: "Origin of the counts",
        value: |item| Value::text_or_missing(&item.source),
    },
    Field {
        id: "access_count",
        title: "accesses",
        unit: Unit::Count,
        description: "Accesses to the type",
        value: |item| Value::Whole(item.access_count),
    },
    Field {
        id: "function_count",
        title: "functions",
        unit: Unit::Count,
        description: "Functions that make them",
        value: |item| Value::Whole(item.function_count),
    },
    Field {
        id: "cpu_count",
        title: "CPUs",
        unit: Unit::Count,
        description: "CPUs that make them",
        value: |item| Value::Whole(item.cpu_count),
    },
    Field {
        id: "unknown_members",
        title: "members not in the profile",
        unit: Unit::None,
        description: "Members of the new layout that the profile does not know: they cost nothing wherever they are",
        value: |item| Value::Texts(item.unknown_members.clone()),
    },
    Field {
        id: "lacking_before",
        title: "not in the old layout",
        unit: Unit::None,
        description: "Members of the profile that the old layout lacks, with accesses that its cost lacks too",
        value: |item| lacking(&item.lacking[0]),
    },
    Field {
        id: "lacking_after",
        title: "not in the new layout",
        unit: Unit::None,
        description: "Members of the profile that the new layout lacks, with accesses that its cost lacks too",
        value: |item| lacking(&item.lacking[1]),
    },
    Field {
        id: "notes",
        title: "notes",
        unit: Unit::None,
        description: "What else limits the figures, one sentence each",
        value: |item| Value::Texts(item.notes.clone()),
    },
];

/// Something that gets worse.
pub const REVIEW_WORSE_FIELDS: &[Field<Worse>] = &[
    Field {
        id: "kind",
        title: "kind",
        unit: Unit::None,
        description: "machine, line, member, memory or straddle",
        value: |item| Value::Text(item.kind.name().to_owned()),
    },
    Field {
        id: "name",
        title: "name",
        unit: Unit::None,
        description: "The machine, the number of the line, the member or the type",
        value: |item| Value::Text(item.name.clone()),
    },
    Field {
        id: "machines",
        title: "machines",
        unit: Unit::None,
        description: "Machines on which cost rises, the one with the largest rise first",
        value: |item| Value::Texts(item.machines.clone()),
    },
    Field {
        id: "before",
        title: "before",
        unit: Unit::Count,
        description: "Cycles on the first machine; bytes for memory; lines of a member that straddles",
        value: |item| Value::Whole(item.before),
    },
    Field {
        id: "after",
        title: "after",
        unit: Unit::Count,
        description: "The same after the change",
        value: |item| Value::Whole(item.after),
    },
    Field {
        id: "words",
        title: "in words",
        unit: Unit::None,
        description: "The same as a sentence without a full stop",
        value: |item| Value::Text(words(item)),
    },
];
