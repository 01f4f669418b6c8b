//! Fields of reports of a whole machine, and of one type.

use super::{Field, Unit, Value, op_text};
use crate::machine::{MachineSummary, Unnamed};
use crate::of_type::{TypeLine, TypeReport, TypeRow};
use crate::side_by_side::SideRow;

/// Fields of a recorded machine's naming coverage.
pub const MACHINE_FIELDS: &[Field<MachineSummary>] = &[
    Field {
        id: "hitm_count",
        title: "HITM",
        unit: Unit::Count,
        description: "Accesses of all kinds that found their line modified in another cache",
        value: |machine| Value::Whole(machine.hitm_count),
    },
    Field {
        id: "named_share",
        title: "with a name",
        unit: Unit::Share,
        description: "Part of the HITMs at places that have a name",
        value: |machine| Value::Number(machine.named_share()),
    },
    Field {
        id: "object_hitm_count",
        title: "objects",
        unit: Unit::Count,
        description: "HITMs at objects that walks over the kernel's memory found",
        value: |machine| Value::Whole(machine.object_count),
    },
    Field {
        id: "variable_hitm_count",
        title: "variables",
        unit: Unit::Count,
        description: "HITMs at the kernel's variables, per-CPU variables and page descriptors",
        value: |machine| Value::Whole(machine.variable_count),
    },
    Field {
        id: "typed_hitm_count",
        title: "typed slabs",
        unit: Unit::Count,
        description: "HITMs at objects of slab caches whose type is known",
        value: |machine| Value::Whole(machine.typed_count),
    },
    Field {
        id: "slab_hitm_count",
        title: "other slabs",
        unit: Unit::Count,
        description: "HITMs at objects of which only the slab cache is known",
        value: |machine| Value::Whole(machine.slab_count),
    },
    Field {
        id: "program_hitm_count",
        title: "program",
        unit: Unit::Count,
        description: "HITMs at memory of the recorded program",
        value: |machine| Value::Whole(machine.program_count),
    },
    Field {
        id: "device_access_count",
        title: "device accesses",
        unit: Unit::Count,
        description: "Accesses to device registers, which were left out",
        value: |machine| Value::Whole(machine.device_access_count),
    },
    Field {
        id: "user_access_count",
        title: "user accesses",
        unit: Unit::Count,
        description: "Accesses from user space, private ones included",
        value: |machine| Value::Whole(machine.user_access_count),
    },
];

/// HITMs of a recorded machine that have no name.
pub const UNNAMED_FIELDS: &[Field<Unnamed>] = &[
    Field {
        id: "function",
        title: "function",
        unit: Unit::None,
        description: "A function that has HITMs at places without a name",
        value: |one| Value::text_or_missing(&one.function),
    },
    Field {
        id: "hitm_count",
        title: "HITM",
        unit: Unit::Count,
        description: "How many",
        value: |one| Value::Whole(one.hitm_count),
    },
    Field {
        id: "address",
        title: "address",
        unit: Unit::Address,
        description: "One of the places",
        value: |one| Value::Whole(one.address),
    },
];

/// A place or function of several recordings.
pub const SIDE_FIELDS: &[Field<SideRow>] = &[
    Field {
        id: "name",
        title: "name",
        unit: Unit::None,
        description: "Object and member without numbers, or a function",
        value: |row| Value::Text(row.name.clone()),
    },
    Field {
        id: "stall_cycles",
        title: "stall",
        unit: Unit::Cycles,
        description: "Cycles that CPUs waited there, by recording",
        value: |row| Value::Wholes(row.stall_cycles.clone()),
    },
    Field {
        id: "hitm_count",
        title: "HITM",
        unit: Unit::Count,
        description: "Accesses that found their line modified in another cache, by recording",
        value: |row| Value::Wholes(row.hitm_count.clone()),
    },
];

/// One type, all objects together.
pub const TYPE_FIELDS: &[Field<TypeReport>] = &[
    Field {
        id: "type",
        title: "type",
        unit: Unit::None,
        description: "The type",
        value: |report| Value::Text(report.type_name.clone()),
    },
    Field {
        id: "object_count",
        title: "objects",
        unit: Unit::Count,
        description: "Objects of the type with recorded accesses",
        value: |report| Value::Whole(report.object_count),
    },
    Field {
        id: "unaligned_count",
        title: "unaligned",
        unit: Unit::Count,
        description: "Those of them that do not begin at the start of a cache line, so that their lines are others",
        value: |report| Value::Whole(report.unaligned_count),
    },
    Field {
        id: "moved_count",
        title: "moved",
        unit: Unit::Count,
        description: "Those of them that were priced in another layout than the compiled one (`hitm vm run --layout`)",
        value: |report| Value::Whole(report.moved_count),
    },
    Field {
        id: "all_stall_cycles",
        title: "all stall",
        unit: Unit::Cycles,
        description: "Cycles that CPUs waited for memory, over all lines of the recording",
        value: |report| Value::Whole(report.all_stall_cycles),
    },
];

fn layout_text(line: &TypeLine) -> &'static str {
    match line.is_moved {
        true => "moved",
        false => "compiled",
    }
}

/// A line of a type.
pub const TYPE_LINE_FIELDS: &[Field<TypeLine>] = &[
    Field {
        id: "line",
        title: "line",
        unit: Unit::None,
        description: "Number of the line in the object, 1 for its first 64 bytes",
        value: |line| Value::Whole(line.number),
    },
    Field {
        id: "layout",
        title: "layout",
        unit: Unit::None,
        description: "compiled or moved: the layout that the line is one of. Objects that were not moved keep the compiled one",
        value: |line| Value::Text(layout_text(line).to_owned()),
    },
    Field {
        id: "offset_bytes",
        title: "from",
        unit: Unit::Offset,
        description: "Bytes from the object's start to the line's",
        value: |line| Value::Whole((line.number - 1) * hitm_base::LINE_SIZE),
    },
    Field {
        id: "remote_hitm_count",
        title: "rmt HITM",
        unit: Unit::Count,
        description: "Loads and locked operations that found the line modified in another package",
        value: |line| Value::Whole(line.remote_hitm()),
    },
    Field {
        id: "local_hitm_count",
        title: "lcl HITM",
        unit: Unit::Count,
        description: "Loads and locked operations that found the line modified in a cache of the same package",
        value: |line| Value::Whole(line.local_hitm()),
    },
    Field {
        id: "store_count",
        title: "stores",
        unit: Unit::Count,
        description: "Stores and locked operations",
        value: |line| Value::Whole(line.store_count()),
    },
    Field {
        id: "access_count",
        title: "accesses",
        unit: Unit::Count,
        description: "All accesses",
        value: |line| Value::Whole(line.counts.total()),
    },
    Field {
        id: "load_cycles_mean",
        title: "load mean",
        unit: Unit::Cycles,
        description: "Mean latency of loads and locked operations",
        value: |line| Value::Number(line.load_cycles_mean),
    },
    Field {
        id: "stall_cycles",
        title: "stall cycles",
        unit: Unit::Cycles,
        description: "Cycles that CPUs waited for the line, whatever the source",
        value: |line| Value::Whole(line.stall_cycles),
    },
    Field {
        id: "stall_share",
        title: "stall",
        unit: Unit::Share,
        description: "stall_cycles as a part of all_stall_cycles",
        value: |line| Value::Number(line.stall_share),
    },
    Field {
        id: "lost_cycles",
        title: "lost cycles",
        unit: Unit::Cycles,
        description: "Part of stall_cycles that other CPUs' use of the line caused",
        value: |line| Value::Whole(line.lost_cycles),
    },
    Field {
        id: "cpu_count",
        title: "CPUs",
        unit: Unit::Count,
        description: "Modelled CPUs that used the line",
        value: |line| Value::Whole(line.cpu_count),
    },
    Field {
        id: "members",
        title: "members",
        unit: Unit::None,
        description: "Members with accesses, by offset",
        value: |line| Value::Texts(line.members.clone()),
    },
];

/// An instruction at a member of a type.
pub const TYPE_ROW_FIELDS: &[Field<TypeRow>] = &[
    Field {
        id: "offset",
        title: "off",
        unit: Unit::Offset,
        description: "Bytes from the line's start",
        value: |row| Value::Whole(row.offset),
    },
    Field {
        id: "member",
        title: "member",
        unit: Unit::None,
        description: "The member",
        value: |row| Value::text_or_missing(&row.member),
    },
    Field {
        id: "function",
        title: "function",
        unit: Unit::None,
        description: "The function of the instruction",
        value: |row| Value::text_or_missing(&row.function),
    },
    Field {
        id: "op",
        title: "op",
        unit: Unit::None,
        description: "load, store or locked",
        value: |row| Value::Text(op_text(row.op).to_owned()),
    },
    Field {
        id: "remote_hitm_share",
        title: "rmt",
        unit: Unit::Share,
        description: "Part of the line's remote HITM",
        value: |row| Value::Number(row.remote_hitm_share),
    },
    Field {
        id: "local_hitm_share",
        title: "lcl",
        unit: Unit::Share,
        description: "Part of the line's local HITM",
        value: |row| Value::Number(row.local_hitm_share),
    },
    Field {
        id: "store_share",
        title: "store",
        unit: Unit::Share,
        description: "Part of the line's stores",
        value: |row| Value::Number(row.store_share),
    },
    Field {
        id: "load_cycles_mean",
        title: "load cyc",
        unit: Unit::Cycles,
        description: "Mean latency of its loads or locked operations",
        value: |row| Value::number_or_missing(row.load_cycles_mean),
    },
    Field {
        id: "stall_cycles",
        title: "stall cyc",
        unit: Unit::Cycles,
        description: "Cycles for which it stood still",
        value: |row| Value::Whole(row.stall_cycles),
    },
    Field {
        id: "stall_share",
        title: "stall",
        unit: Unit::Share,
        description: "stall_cycles as a part of the line's",
        value: |row| Value::Number(row.stall_share),
    },
    Field {
        id: "access_count",
        title: "records",
        unit: Unit::Count,
        description: "Accesses",
        value: |row| Value::Whole(row.access_count),
    },
    Field {
        id: "cpu_count",
        title: "CPUs",
        unit: Unit::Count,
        description: "Modelled CPUs that the accesses came from",
        value: |row| Value::Whole(row.cpu_count),
    },
    Field {
        id: "code_address",
        title: "code",
        unit: Unit::Address,
        description: "Address of the instruction",
        value: |row| Value::Whole(row.code.0),
    },
];
