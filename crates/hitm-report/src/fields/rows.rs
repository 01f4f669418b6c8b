//! The rows of a line, and who called their code.

use super::{Field, Unit, Value, op_text, wholes};
use crate::model::{CallFrame, CallPath, RowReport};

/// One instruction's accesses to one place in a line.
pub const ROW_FIELDS: &[Field<RowReport>] = &[
    Field {
        id: "offset",
        title: "off",
        unit: Unit::Offset,
        description: "Offset in the line",
        value: |row| Value::Whole(row.offset.into()),
    },
    Field {
        id: "size_bytes",
        title: "size",
        unit: Unit::Bytes,
        description: "Bytes accessed",
        value: |row| Value::Whole(row.size_bytes.into()),
    },
    Field {
        id: "member",
        title: "member",
        unit: Unit::None,
        description: "Object and member, null when unknown",
        value: |row| Value::text_or_missing(&row.member),
    },
    Field {
        id: "op",
        title: "op",
        unit: Unit::None,
        description: "load, store or locked",
        value: |row| Value::Text(op_text(row.op).to_owned()),
    },
    Field {
        id: "threads",
        title: "thread",
        unit: Unit::None,
        description: "Names of the threads, the first four when there are more",
        value: |row| Value::Texts(row.threads.clone()),
    },
    Field {
        id: "thread_count",
        title: "threads",
        unit: Unit::Count,
        description: "Threads folded into this row",
        value: |row| Value::Whole(row.thread_count),
    },
    Field {
        id: "code_address",
        title: "code",
        unit: Unit::Address,
        description: "Address of the instruction",
        value: |row| Value::Whole(row.code.0),
    },
    Field {
        id: "function",
        title: "function",
        unit: Unit::None,
        description: "Function of the instruction, null when unknown",
        value: |row| Value::text_or_missing(&row.function),
    },
    Field {
        id: "source",
        title: "source",
        unit: Unit::None,
        description: "Source file and line of the instruction, null when unknown",
        value: |row| Value::text_or_missing(&row.source),
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
        id: "store_hit_share",
        title: "hit",
        unit: Unit::Share,
        description: "Part of the line's store hits",
        value: |row| Value::Number(row.store_hit_share),
    },
    Field {
        id: "store_miss_share",
        title: "miss",
        unit: Unit::Share,
        description: "Part of the line's store misses",
        value: |row| Value::Number(row.store_miss_share),
    },
    Field {
        id: "remote_hitm_cycles_mean",
        title: "rmt cyc",
        unit: Unit::Cycles,
        description: "Mean latency of the remote HITMs",
        value: |row| Value::number_or_missing(row.remote_hitm_cycles_mean),
    },
    Field {
        id: "local_hitm_cycles_mean",
        title: "lcl cyc",
        unit: Unit::Cycles,
        description: "Mean latency of the local HITMs",
        value: |row| Value::number_or_missing(row.local_hitm_cycles_mean),
    },
    Field {
        id: "load_cycles_mean",
        title: "load cyc",
        unit: Unit::Cycles,
        description: "Mean latency of all loads or locked operations, hits included; null for stores",
        value: |row| Value::number_or_missing(row.load_cycles_mean),
    },
    Field {
        id: "lost_cycles",
        title: "lost cycles",
        unit: Unit::Cycles,
        description: "Cycles lost to other CPUs' use of the line",
        value: |row| Value::Whole(row.lost_cycles),
    },
    Field {
        id: "lost_share",
        title: "lost",
        unit: Unit::Share,
        description: "lost_cycles as a part of the line's",
        value: |row| Value::Number(row.lost_share),
    },
    Field {
        id: "access_count",
        title: "accesses",
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
        id: "nodes",
        title: "nodes",
        unit: Unit::None,
        description: "Modelled NUMA nodes of these CPUs",
        value: |row| Value::Wholes(wholes(&row.nodes)),
    },
];

/// Accesses of a row whose function was called through the same functions.
pub const CALL_PATH_FIELDS: &[Field<CallPath>] = &[
    Field {
        id: "access_count",
        title: "samples",
        unit: Unit::Count,
        description: "Accesses whose function was called on this path",
        value: |path| Value::Whole(path.access_count),
    },
    Field {
        id: "access_share",
        title: "samples",
        unit: Unit::Share,
        description: "access_count as a part of the row's",
        value: |path| Value::Number(path.access_share),
    },
    Field {
        id: "lost_share",
        title: "lost",
        unit: Unit::Share,
        description: "Part of the cycles that the row lost to other CPUs' use of the line",
        value: |path| Value::Number(path.lost_share),
    },
];

/// A call of a path.
pub const CALL_FRAME_FIELDS: &[Field<CallFrame>] = &[
    Field {
        id: "function",
        title: "function",
        unit: Unit::None,
        description: "The calling function, or file and offset when it has no name",
        value: |frame| Value::text_or_missing(&frame.function),
    },
    Field {
        id: "code_address",
        title: "code",
        unit: Unit::Address,
        description: "Address that the call returns to",
        value: |frame| Value::Whole(frame.code.0),
    },
    Field {
        id: "source",
        title: "source",
        unit: Unit::None,
        description: "Source file and line of the call, null when unknown",
        value: |frame| Value::text_or_missing(&frame.source),
    },
];
