//! The quantities of `hitm whatif`.

use hitm::whatif::{LineChange, MemberChange, MoveCounts, MovedObject, ObjectKind};

use super::{Field, Unit, Value};
use crate::whatif::{RunView, ThreadView, growth};

/// One of the two runs.
pub const WHATIF_RUN_FIELDS: &[Field<RunView>] = &[
    Field {
        id: "machine",
        title: "machine",
        unit: Unit::None,
        description: "Name of the machine model",
        value: |item| Value::text_or_missing(&item.run.machine),
    },
    Field {
        id: "machine_description",
        title: "",
        unit: Unit::None,
        description: "One line about the machine model",
        value: |item| Value::text_or_missing(&item.run.machine_description),
    },
    Field {
        id: "clock_khz",
        title: "clock",
        unit: Unit::Kilohertz,
        description: "Clock of the machine model",
        value: |item| Value::Whole(item.run.clock.khz()),
    },
    Field {
        id: "placement",
        title: "placement",
        unit: Unit::None,
        description: "How threads were placed on CPUs",
        value: |item| Value::text_or_missing(&item.run.placement),
    },
    Field {
        id: "end_cycles",
        title: "end",
        unit: Unit::Cycles,
        description: "Latest virtual clock of a thread",
        value: |item| Value::Whole(item.run.end.0),
    },
    Field {
        id: "cycles_per_iteration",
        title: "cycles/iteration",
        unit: Unit::Cycles,
        description: "Cycles of an iteration, the mean over the threads that run at least four instructions an iteration; null without --per",
        value: |item| Value::number_or_missing(item.cycles_per_iteration),
    },
    Field {
        id: "access_count",
        title: "accesses",
        unit: Unit::Count,
        description: "Accesses to lines that several threads use",
        value: |item| Value::Whole(item.run.totals.accesses),
    },
    Field {
        id: "local_hitm_count",
        title: "local HITM",
        unit: Unit::Count,
        description: "Loads and locked operations that found the line modified in a cache of the same package",
        value: |item| Value::Whole(item.run.totals.local_hitm),
    },
    Field {
        id: "remote_hitm_count",
        title: "remote HITM",
        unit: Unit::Count,
        description: "Loads and locked operations that found the line modified in another package",
        value: |item| Value::Whole(item.run.totals.remote_hitm),
    },
    Field {
        id: "stall_cycles",
        title: "stalled",
        unit: Unit::Cycles,
        description: "Time that threads waited for memory, whatever the source",
        value: |item| Value::Whole(item.run.totals.stall.0),
    },
    Field {
        id: "lost_cycles",
        title: "lost",
        unit: Unit::Cycles,
        description: "Part of stall_cycles whose source is another CPU's use of the line",
        value: |item| Value::Whole(item.run.totals.lost.0),
    },
];

/// A thread in both runs.
pub const WHATIF_THREAD_FIELDS: &[Field<ThreadView>] = &[
    Field {
        id: "thread",
        title: "thread",
        unit: Unit::None,
        description: "Number of the thread in the recording",
        value: |item| Value::Whole(item.change.thread.0.into()),
    },
    Field {
        id: "name",
        title: "name",
        unit: Unit::None,
        description: "Name and tid",
        value: |item| Value::text_or_missing(&item.change.name),
    },
    Field {
        id: "instruction_count",
        title: "instructions",
        unit: Unit::Count,
        description: "Instructions that the thread ran, in both runs",
        value: |item| Value::Whole(item.change.insns),
    },
    Field {
        id: "cycles_before",
        title: "before",
        unit: Unit::Cycles,
        description: "Cycles that the thread ran or waited for memory, as recorded",
        value: |item| Value::Whole(item.change.cycles.before.0),
    },
    Field {
        id: "cycles_after",
        title: "after",
        unit: Unit::Cycles,
        description: "The same, as replayed",
        value: |item| Value::Whole(item.change.cycles.after.0),
    },
    Field {
        id: "cycles_change",
        title: "change",
        unit: Unit::Share,
        description: "Growth of the cycles, as a part of those before",
        value: |item| {
            let cycles = item.change.cycles;
            Value::number_or_missing(growth(hitm::whatif::Change {
                before: cycles.before.0,
                after: cycles.after.0,
            }))
        },
    },
    Field {
        id: "cycles_per_iteration_before",
        title: "per iteration",
        unit: Unit::Cycles,
        description: "Cycles of an iteration, as recorded; null without --per, and for a thread that does not iterate",
        value: |item| Value::number_or_missing(item.cycles_per_iteration.map(|per| per.before)),
    },
    Field {
        id: "cycles_per_iteration_after",
        title: "after",
        unit: Unit::Cycles,
        description: "The same, as replayed",
        value: |item| Value::number_or_missing(item.cycles_per_iteration.map(|per| per.after)),
    },
    Field {
        id: "stall_cycles_before",
        title: "stalled",
        unit: Unit::Cycles,
        description: "Part of the cycles that the thread waited for memory, as recorded",
        value: |item| Value::Whole(item.change.stall.before.0),
    },
    Field {
        id: "stall_cycles_after",
        title: "after",
        unit: Unit::Cycles,
        description: "The same, as replayed",
        value: |item| Value::Whole(item.change.stall.after.0),
    },
    Field {
        id: "lost_cycles_before",
        title: "lost",
        unit: Unit::Cycles,
        description: "Part of the stall whose source is another CPU's use of a line, as recorded",
        value: |item| Value::Whole(item.change.lost.before.0),
    },
    Field {
        id: "lost_cycles_after",
        title: "after",
        unit: Unit::Cycles,
        description: "The same, as replayed",
        value: |item| Value::Whole(item.change.lost.after.0),
    },
];

/// Fields of `$item`: those given, and behind them its sums in both runs.
macro_rules! with_sums {
    ($item:ty: $($own:expr),+ $(,)?) => {
        &[
            $($own,)+
            Field {
                id: "access_count_before",
                title: "accesses",
                unit: Unit::Count,
                description: "Accesses by who shared the line, as recorded",
                value: |item: &$item| Value::Whole(item.sums.before.accesses),
            },
            Field {
                id: "access_count_after",
                title: "after",
                unit: Unit::Count,
                description: "The same, as replayed",
                value: |item: &$item| Value::Whole(item.sums.after.accesses),
            },
            Field {
                id: "hitm_count_before",
                title: "HITM",
                unit: Unit::Count,
                description: "Local and remote HITMs, as recorded",
                value: |item: &$item| Value::Whole(item.sums.before.local_hitm + item.sums.before.remote_hitm),
            },
            Field {
                id: "hitm_count_after",
                title: "after",
                unit: Unit::Count,
                description: "The same, as replayed",
                value: |item: &$item| Value::Whole(item.sums.after.local_hitm + item.sums.after.remote_hitm),
            },
            Field {
                id: "stall_cycles_before",
                title: "stalled",
                unit: Unit::Cycles,
                description: "Time that threads waited here, as recorded",
                value: |item: &$item| Value::Whole(item.sums.before.stall.0),
            },
            Field {
                id: "stall_cycles_after",
                title: "after",
                unit: Unit::Cycles,
                description: "The same, as replayed",
                value: |item: &$item| Value::Whole(item.sums.after.stall.0),
            },
            Field {
                id: "lost_cycles_before",
                title: "lost",
                unit: Unit::Cycles,
                description: "Part of the stall whose source is another CPU's use of the line, as recorded",
                value: |item: &$item| Value::Whole(item.sums.before.lost.0),
            },
            Field {
                id: "lost_cycles_after",
                title: "after",
                unit: Unit::Cycles,
                description: "The same, as replayed",
                value: |item: &$item| Value::Whole(item.sums.after.lost.0),
            },
        ]
    };
}

/// A line of one run or both.
pub const WHATIF_LINE_FIELDS: &[Field<LineChange>] = with_sums![LineChange:
    Field {
        id: "name",
        title: "costliest place",
        unit: Unit::None,
        description: "The object and member that cost most on the line",
        value: |item| Value::text_or_missing(&item.name),
    },
    Field {
        id: "address",
        title: "address",
        unit: Unit::Address,
        description: "First byte of the line; null for a line of a moved object, which has a new one",
        value: |item| Value::whole_or_missing(item.address),
    },
    Field {
        id: "line_of_object",
        title: "line",
        unit: Unit::None,
        description: "Which line of the moved object, from 0; null for a line of the recording",
        value: |item| Value::whole_or_missing(item.line_of_object),
    },
];

/// A member of a moved structure, over all its objects.
pub const WHATIF_MEMBER_FIELDS: &[Field<MemberChange>] = with_sums![MemberChange:
    Field {
        id: "struct",
        title: "struct",
        unit: Unit::None,
        description: "The structure",
        value: |item| Value::text_or_missing(&item.type_name),
    },
    Field {
        id: "member",
        title: "member",
        unit: Unit::None,
        description: "The member",
        value: |item| Value::text_or_missing(&item.member),
    },
    Field {
        id: "offset_before_bytes",
        title: "offset",
        unit: Unit::Offset,
        description: "Where it is in the recorded program",
        value: |item| Value::Whole(item.offset.before),
    },
    Field {
        id: "offset_after_bytes",
        title: "after",
        unit: Unit::Offset,
        description: "Where the layout file has it",
        value: |item| Value::Whole(item.offset.after),
    },
];

/// An object that was moved.
pub const WHATIF_OBJECT_FIELDS: &[Field<MovedObject>] = &[
    Field {
        id: "name",
        title: "object",
        unit: Unit::None,
        description: "The variable, or the heap block and who allocated it",
        value: |item| Value::text_or_missing(&item.name),
    },
    Field {
        id: "struct",
        title: "struct",
        unit: Unit::None,
        description: "The structure, or that of its elements",
        value: |item| Value::text_or_missing(&item.type_name),
    },
    Field {
        id: "kind",
        title: "known by",
        unit: Unit::None,
        description: "walk, slab, variable or heap: a walk over the kernel's memory, its slab cache, a variable's type, a heap block's",
        value: |item| Value::Text(kind_text(item.kind).to_owned()),
    },
    Field {
        id: "moved_access_count",
        title: "accesses",
        unit: Unit::Count,
        description: "Accesses to it",
        value: |item| Value::Whole(item.access_count),
    },
    Field {
        id: "address",
        title: "address",
        unit: Unit::Address,
        description: "First byte in the recorded program",
        value: |item| Value::Whole(item.address),
    },
    Field {
        id: "element_count",
        title: "elements",
        unit: Unit::Count,
        description: "Structures in it",
        value: |item| Value::Whole(item.element_count),
    },
    Field {
        id: "size_before_bytes",
        title: "bytes",
        unit: Unit::Bytes,
        description: "Bytes in the recorded program",
        value: |item| Value::Whole(item.size_bytes),
    },
    Field {
        id: "size_after_bytes",
        title: "after",
        unit: Unit::Bytes,
        description: "Bytes with the layout file",
        value: |item| Value::Whole(item.size_bytes_after),
    },
];

fn kind_text(kind: ObjectKind) -> &'static str {
    match kind {
        ObjectKind::Walked => "walk",
        ObjectKind::Slab => "slab",
        ObjectKind::Variable => "variable",
        ObjectKind::Heap => "heap",
    }
}

/// Fields of the moved objects, and of the accesses to them: all, those in holes, those that were split.
pub const WHATIF_MOVE_FIELDS: &[Field<MoveCounts>] = &[
    Field {
        id: "object_count",
        title: "objects",
        unit: Unit::Count,
        description: "Moved objects",
        value: |item| Value::Whole(item.object_count()),
    },
    Field {
        id: "walked_object_count",
        title: "walked",
        unit: Unit::Count,
        description: "Those that a walk over the kernel's memory found",
        value: |item| Value::Whole(item.objects_of(ObjectKind::Walked)),
    },
    Field {
        id: "slab_object_count",
        title: "in slabs",
        unit: Unit::Count,
        description: "Those that the kernel's slab caches tell",
        value: |item| Value::Whole(item.objects_of(ObjectKind::Slab)),
    },
    Field {
        id: "variable_object_count",
        title: "variables",
        unit: Unit::Count,
        description: "Variables, and parts of variables",
        value: |item| Value::Whole(item.objects_of(ObjectKind::Variable)),
    },
    Field {
        id: "heap_object_count",
        title: "heap blocks",
        unit: Unit::Count,
        description: "Blocks of the program's heap",
        value: |item| Value::Whole(item.objects_of(ObjectKind::Heap)),
    },
    Field {
        id: "moved_access_count",
        title: "moved",
        unit: Unit::Count,
        description: "Accesses to moved objects",
        value: |item| Value::Whole(item.moved),
    },
    Field {
        id: "hole_access_count",
        title: "in holes",
        unit: Unit::Count,
        description: "Those that touch bytes of no member; they moved with the member before",
        value: |item| Value::Whole(item.in_holes),
    },
    Field {
        id: "split_access_count",
        title: "split",
        unit: Unit::Count,
        description: "Those that became several because their bytes lie apart now",
        value: |item| Value::Whole(item.split),
    },
];
