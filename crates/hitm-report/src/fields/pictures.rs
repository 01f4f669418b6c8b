//! The quantities of pictures: bytes by thread, hand-overs, stacks, time.

use hitm_coherence::stats::Transfers;

use super::{Field, Unit, Value};
use crate::pictures::{Frame, LineBox, LineCell, Seat, Stack, TransferPair};
use crate::summary::SummaryLine;

/// A sentence of the summary.
pub const SUMMARY_FIELDS: &[Field<SummaryLine>] = &[
    Field {
        id: "label",
        title: "",
        unit: Unit::None,
        description: "The question: Lost, Where, Why, Do or Next",
        value: |line| Value::Text(line.label.to_owned()),
    },
    Field {
        id: "text",
        title: "",
        unit: Unit::None,
        description: "The answer",
        value: |line| Value::Text(line.text.clone()),
    },
    Field {
        id: "is_command",
        title: "",
        unit: Unit::None,
        description: "Whether the answer is a command to type",
        value: |line| Value::Flag(line.is_command),
    },
];

/// Bytes of a line that have one name.
pub const BOX_FIELDS: &[Field<LineBox>] = &[
    Field {
        id: "offset",
        title: "off",
        unit: Unit::Offset,
        description: "First byte, from the start of the line",
        value: |one| Value::Whole(one.offset.into()),
    },
    Field {
        id: "size_bytes",
        title: "size",
        unit: Unit::Bytes,
        description: "Bytes",
        value: |one| Value::Whole(one.size_bytes.into()),
    },
    Field {
        id: "object",
        title: "object",
        unit: Unit::None,
        description: "Object, null when unknown",
        value: |one| Value::text_or_missing(&one.object),
    },
    Field {
        id: "member",
        title: "member",
        unit: Unit::None,
        description: "Part of the object, null when it is the whole or unknown",
        value: |one| Value::text_or_missing(&one.member),
    },
    Field {
        id: "is_accessed",
        title: "accessed",
        unit: Unit::None,
        description: "Whether it was accessed",
        value: |one| Value::Flag(one.is_accessed),
    },
];

/// A row of a line map: a thread, or several together.
pub const SEAT_FIELDS: &[Field<Seat>] = &[
    Field {
        id: "name",
        title: "thread",
        unit: Unit::None,
        description: "Name of the thread, null for several together",
        value: |seat| Value::text_or_missing(&seat.name),
    },
    Field {
        id: "thread_count",
        title: "threads",
        unit: Unit::Count,
        description: "Threads that share the row",
        value: |seat| Value::Whole(seat.thread_count),
    },
    Field {
        id: "cpus",
        title: "CPUs",
        unit: Unit::None,
        description: "Modelled CPUs that the accesses came from",
        value: |seat| Value::Wholes(seat.cpus.clone()),
    },
    Field {
        id: "lost_cycles",
        title: "lost cycles",
        unit: Unit::Cycles,
        description: "Cycles lost to other CPUs' use of the line",
        value: |seat| Value::Whole(seat.lost_cycles),
    },
];

/// A cell of a line map.
pub const CELL_FIELDS: &[Field<LineCell>] = &[
    Field {
        id: "seat",
        title: "row",
        unit: Unit::None,
        description: "Place of the row in the list of rows, from 0",
        value: |cell| Value::Whole(cell.seat),
    },
    Field {
        id: "place",
        title: "box",
        unit: Unit::None,
        description: "Place of the box in the list of boxes, from 0",
        value: |cell| Value::Whole(cell.place),
    },
    Field {
        id: "load_count",
        title: "reads",
        unit: Unit::Count,
        description: "Plain loads",
        value: |cell| Value::Whole(cell.load_count),
    },
    Field {
        id: "store_count",
        title: "writes",
        unit: Unit::Count,
        description: "Plain stores",
        value: |cell| Value::Whole(cell.store_count),
    },
    Field {
        id: "locked_count",
        title: "locked",
        unit: Unit::Count,
        description: "Locked operations",
        value: |cell| Value::Whole(cell.locked_count),
    },
    Field {
        id: "hitm_count",
        title: "HITM",
        unit: Unit::Count,
        description: "Accesses of all kinds that found the line modified in another cache",
        value: |cell| Value::Whole(cell.hitm_count),
    },
    Field {
        id: "lost_cycles",
        title: "lost cycles",
        unit: Unit::Cycles,
        description: "Cycles lost to other CPUs' use of the line",
        value: |cell| Value::Whole(cell.lost_cycles),
    },
];

/// Hand-overs from one part of the machine to another.
pub const TRANSFER_FIELDS: &[Field<TransferPair>] = &[
    Field {
        id: "giver",
        title: "from",
        unit: Unit::None,
        description: "Number of the CPU, core, LLC, node or package that had the line",
        value: |pair| Value::Whole(pair.giver),
    },
    Field {
        id: "taker",
        title: "to",
        unit: Unit::None,
        description: "Number of the one that took it",
        value: |pair| Value::Whole(pair.taker),
    },
    Field {
        id: "count",
        title: "hand-overs",
        unit: Unit::Count,
        description: "Accesses whose data, or whose right to write, came from there",
        value: |pair| Value::Whole(pair.transfers.count),
    },
    Field {
        id: "hitm_count",
        title: "HITM",
        unit: Unit::Count,
        description: "The part of them that found the line modified",
        value: |pair| Value::Whole(pair.transfers.hitm_count),
    },
    Field {
        id: "lost_cycles",
        title: "lost cycles",
        unit: Unit::Cycles,
        description: "Cycles that the takers lost by them",
        value: |pair| Value::Whole(pair.transfers.lost.0),
    },
];

/// Hand-overs whose giver is not known.
pub const UNKNOWN_FIELDS: &[Field<Transfers>] = &[
    Field {
        id: "count",
        title: "hand-overs",
        unit: Unit::Count,
        description: "Accesses that took a line whose users before were not recorded",
        value: |sum| Value::Whole(sum.count),
    },
    Field {
        id: "hitm_count",
        title: "HITM",
        unit: Unit::Count,
        description: "The part of them that found the line modified",
        value: |sum| Value::Whole(sum.hitm_count),
    },
    Field {
        id: "lost_cycles",
        title: "lost cycles",
        unit: Unit::Cycles,
        description: "Cycles that the takers lost by them",
        value: |sum| Value::Whole(sum.lost.0),
    },
];

/// A frame of stacks.
pub const FRAME_FIELDS: &[Field<Frame>] = &[
    Field {
        id: "kind",
        title: "kind",
        unit: Unit::None,
        description: "thread, function, source, member, or other for several together",
        value: |frame| Value::Text(frame.kind.id().to_owned()),
    },
    Field {
        id: "name",
        title: "name",
        unit: Unit::None,
        description: "Its name",
        value: |frame| Value::text_or_missing(&frame.name),
    },
];

/// Cycles lost at one place of the program.
pub const STACK_FIELDS: &[Field<Stack>] = &[
    Field {
        id: "line",
        title: "line",
        unit: Unit::None,
        description: "Rank of the line; null for lines that are not shown",
        value: |stack| Value::whole_or_missing(stack.line),
    },
    Field {
        id: "frames",
        title: "stack",
        unit: Unit::None,
        description: "Places of its frames in the list of frames, from the thread down",
        value: |stack| Value::Wholes(stack.frames.clone()),
    },
    Field {
        id: "lost_cycles",
        title: "lost cycles",
        unit: Unit::Cycles,
        description: "Cycles lost to other CPUs' use of the line",
        value: |stack| Value::Whole(stack.lost_cycles),
    },
];

/// Cycles of a stack in one bucket of time.
pub const TIME_FIELDS: &[Field<(u64, u64)>] = &[
    Field {
        id: "bucket",
        title: "time",
        unit: Unit::None,
        description: "Number of the bucket, from 0",
        value: |(bucket, _)| Value::Whole(*bucket),
    },
    Field {
        id: "lost_cycles",
        title: "lost cycles",
        unit: Unit::Cycles,
        description: "Cycles lost in it",
        value: |(_, lost)| Value::Whole(*lost),
    },
];
