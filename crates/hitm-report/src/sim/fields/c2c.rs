//! The quantities of a line of the simulated kernel's memory, and of a member and a function in it.

use hitm::sim::{C2cLine, C2cRow};

use super::{field, text};
use crate::fields::{Field, Unit, Value};

/// Of a line of the kernel's memory.
pub const LINE_FIELDS: &[Field<C2cLine>] = &[
    field(
        "object",
        "Object",
        Unit::None,
        "Type of the object, all objects of a type together; with `->` what the member points to",
        |l| text(&l.object),
    ),
    field(
        "object_count",
        "Objects",
        Unit::Count,
        "Objects of the type that were in use",
        |l| Value::Whole(l.object_count),
    ),
    field(
        "offset_bytes",
        "Offset",
        Unit::Offset,
        "Where the line begins in the object",
        |l| Value::Whole(l.offset_bytes),
    ),
    field(
        "remote_hitm_count",
        "Rmt HITM",
        Unit::Count,
        "Loads that found the line modified in another package",
        |l| Value::Whole(l.remote_hitm),
    ),
    field(
        "local_hitm_count",
        "Lcl HITM",
        Unit::Count,
        "Loads that found it modified in another core of the package",
        |l| Value::Whole(l.local_hitm),
    ),
    field(
        "node_hitm_count",
        "Node HITM",
        Unit::Count,
        "Loads that found it modified in another NUMA node, of the package or not",
        |l| Value::Whole(l.node_hitm),
    ),
    field(
        "load_count",
        "Loads",
        Unit::Count,
        "Loads and locked operations",
        |l| Value::Whole(l.loads),
    ),
    field(
        "store_count",
        "Stores",
        Unit::Count,
        "Stores and locked operations",
        |l| Value::Whole(l.stores),
    ),
    field(
        "load_cycles",
        "Load cycles",
        Unit::Cycles,
        "Cycles that its loads took",
        |l| Value::Whole(l.load_cycles.0),
    ),
    field(
        "load_cycles_mean",
        "Cycles/load",
        Unit::Cycles,
        "Mean cycles of a load",
        |l| Value::Number(l.load_cycles_mean()),
    ),
    field(
        "load_cycles_row_min",
        "Least",
        Unit::Cycles,
        "The least mean of a row with 1 % of the loads",
        |l| Value::number_or_missing(l.load_cycles_range().map(|range| range.0)),
    ),
    field(
        "load_cycles_row_max",
        "Largest",
        Unit::Cycles,
        "The largest mean of such a row",
        |l| Value::number_or_missing(l.load_cycles_range().map(|range| range.1)),
    ),
];

/// A row with its parts of the line.
#[derive(Debug, Clone)]
pub struct RowView {
    row: C2cRow,
    remote_hitm_share: f64,
    local_hitm_share: f64,
    node_hitm_share: f64,
    store_share: f64,
}

impl RowView {
    /// The rows of a line.
    pub fn of_line(line: &C2cLine) -> Vec<RowView> {
        let share = |part: u64, all: u64| {
            if all == 0 {
                0.0
            } else {
                part as f64 / all as f64
            }
        };
        let view = |row: &C2cRow| RowView {
            row: row.clone(),
            remote_hitm_share: share(row.remote_hitm, line.remote_hitm),
            local_hitm_share: share(row.local_hitm, line.local_hitm),
            node_hitm_share: share(row.node_hitm, line.node_hitm),
            store_share: share(row.stores, line.stores),
        };
        line.rows.iter().map(view).collect()
    }
}

/// Of a member and a function in a line.
pub const ROW_FIELDS: &[Field<RowView>] = &[
    field(
        "offset_bytes",
        "Offset",
        Unit::Offset,
        "Where the member begins in the line",
        |r| Value::Whole(r.row.offset_bytes),
    ),
    field(
        "member",
        "Member",
        Unit::None,
        "The member's path in the object",
        |r| text(&r.row.member),
    ),
    field(
        "function",
        "Function",
        Unit::None,
        "The kernel's function",
        |r| Value::Text(r.row.function.to_owned()),
    ),
    field(
        "remote_hitm_share",
        "Rmt",
        Unit::Share,
        "Its part of the line's remote HITMs",
        |r| Value::Number(r.remote_hitm_share),
    ),
    field(
        "local_hitm_share",
        "Lcl",
        Unit::Share,
        "Its part of the line's local HITMs",
        |r| Value::Number(r.local_hitm_share),
    ),
    field(
        "node_hitm_share",
        "Node",
        Unit::Share,
        "Its part of the line's HITMs from another NUMA node",
        |r| Value::Number(r.node_hitm_share),
    ),
    field(
        "store_share",
        "Store",
        Unit::Share,
        "Its part of the line's stores",
        |r| Value::Number(r.store_share),
    ),
    field(
        "load_cycles_mean",
        "Cycles/load",
        Unit::Cycles,
        "Mean cycles of its loads",
        |r| {
            let some = r.row.loads > 0;
            Value::number_or_missing(some.then(|| r.row.load_cycles_mean()))
        },
    ),
    field(
        "load_cycles_max",
        "Max",
        Unit::Cycles,
        "The longest of its loads, warm-up included",
        |r| Value::Whole(r.row.load_cycles_max.0),
    ),
    field(
        "load_count",
        "Loads",
        Unit::Count,
        "Loads and locked operations",
        |r| Value::Whole(r.row.loads),
    ),
    field(
        "store_count",
        "Stores",
        Unit::Count,
        "Stores and locked operations",
        |r| Value::Whole(r.row.stores),
    ),
    field(
        "locked_count",
        "Locked",
        Unit::Count,
        "Locked operations, which are among the loads and the stores",
        |r| Value::Whole(r.row.locked),
    ),
    field(
        "cpus",
        "CPUs",
        Unit::None,
        "CPUs that did it, warm-up included: numbers and ranges with spaces between",
        |r| Value::Text(r.row.cpus.to_string()),
    ),
];
