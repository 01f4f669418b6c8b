//! Every reported quantity, declared once: id, title, unit, description, and where it comes from.
//!
//! Text, JSON and docs/formats/report.md use these tables, so a figure has one name, one unit and one
//! meaning wherever it appears. A test checks that the document describes every field.

mod baseline;
mod by;
mod handed;
mod layout;
mod lines;
mod of_type;
mod pictures;
mod review;
mod rows;
mod run;
mod runs;
mod sweep;
mod waiting;
mod whatif;

use hitm_base::{AccessOp, grouped};

pub use baseline::COMPARED_FIELDS;
pub use by::{FILTERED_FIELDS, TOTAL_ROW_FIELDS};
pub use handed::{HANDED_FIELDS, HANDED_ROW_FIELDS};
pub use layout::LAYOUT_MEMBER_FIELDS;
pub use lines::{FIGHT_FIELDS, LINE_FIELDS, OBJECT_FIELDS, SOURCE_FIELDS};
pub use of_type::{
    MACHINE_FIELDS, SIDE_FIELDS, TYPE_FIELDS, TYPE_LINE_FIELDS, TYPE_ROW_FIELDS, UNNAMED_FIELDS,
};
pub use pictures::{
    BOX_FIELDS, CELL_FIELDS, FRAME_FIELDS, SEAT_FIELDS, STACK_FIELDS, SUMMARY_FIELDS, TIME_FIELDS,
    TRANSFER_FIELDS, UNKNOWN_FIELDS,
};
pub use review::{
    REVIEW_COST_FIELDS, REVIEW_COVERAGE_FIELDS, REVIEW_FIELDS, REVIEW_LINE_FIELDS,
    REVIEW_MEMBER_FIELDS, REVIEW_RENAME_FIELDS, REVIEW_TYPE_FIELDS, REVIEW_UNMATCHED_FIELDS,
    REVIEW_WORSE_FIELDS,
};
pub use rows::{CALL_FRAME_FIELDS, CALL_PATH_FIELDS, ROW_FIELDS};
pub use run::{PROCESS_FIELDS, QUIET_FIELDS, RUN_FIELDS, THREAD_FIELDS, TOTALS_FIELDS};
pub use runs::{MEMBER_RUNS_FIELDS, ONE_RUN_FIELDS, RUNS_FIELDS};
pub use sweep::{
    SWEEP_EFFECT_FIELDS, SWEEP_FAILURE_FIELDS, SWEEP_KEY_FIELDS, SWEEP_METRIC_FIELDS,
    SWEEP_RUN_FIELDS,
};
pub(crate) use waiting::kind_text;
pub use waiting::{WAIT_ROW_FIELDS, WAITING_FIELDS};
pub use whatif::{
    WHATIF_LINE_FIELDS, WHATIF_MEMBER_FIELDS, WHATIF_MOVE_FIELDS, WHATIF_OBJECT_FIELDS,
    WHATIF_RUN_FIELDS, WHATIF_THREAD_FIELDS,
};

/// One quantity of a `T`.
#[derive(Debug)]
pub struct Field<T> {
    /// The key in JSON: lower case, words joined by `_`, the unit last.
    pub id: &'static str,
    /// The column head in text: short.
    pub title: &'static str,
    /// Unit of the quantity; decides how text shows it.
    pub unit: Unit,
    /// One sentence for the documentation, without a full stop.
    pub description: &'static str,
    /// Reads the quantity.
    pub value: fn(&T) -> Value,
}

/// The unit of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Words, a flag, a list or a plain number without grouping.
    None,
    /// A count of things.
    Count,
    /// Cycles of the modelled clock.
    Cycles,
    /// A part of a whole: 0 to 1 in JSON, per cent in text.
    Share,
    /// Bytes.
    Bytes,
    /// Bytes from the start of a line, hexadecimal in text.
    Offset,
    /// A virtual address of the recorded program: a string like `"0x4040c0"` in JSON.
    Address,
    /// Kilohertz; gigahertz in text.
    Kilohertz,
    /// Nanoseconds; in text of the unit that fits.
    Nanos,
    /// A plain number with two decimals in text.
    Decimal,
}

impl Unit {
    /// The unit as data of pages has it.
    pub const fn id(self) -> &'static str {
        match self {
            Unit::None => "none",
            Unit::Count => "count",
            Unit::Cycles => "cycles",
            Unit::Share => "share",
            Unit::Bytes => "bytes",
            Unit::Offset => "offset",
            Unit::Address => "address",
            Unit::Kilohertz => "khz",
            Unit::Nanos => "ns",
            Unit::Decimal => "decimal",
        }
    }

    /// The unit in words, for the documentation.
    pub const fn label(self) -> &'static str {
        match self {
            Unit::None | Unit::Decimal => "-",
            Unit::Count => "count",
            Unit::Cycles => "cycles",
            Unit::Share => "share",
            Unit::Bytes | Unit::Offset => "bytes",
            Unit::Address => "address",
            Unit::Kilohertz => "kHz",
            Unit::Nanos => "ns",
        }
    }
}

/// A quantity's value.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// There is none: `null` in JSON, `-` in text.
    Missing,
    /// Yes or no.
    Flag(bool),
    /// A whole number.
    Whole(u64),
    /// A mean or a share.
    Number(f64),
    /// Words.
    Text(String),
    /// Several words.
    Texts(Vec<String>),
    /// Several small numbers, such as NUMA nodes.
    Wholes(Vec<u64>),
}

impl Value {
    /// A whole number that may be missing.
    pub fn whole_or_missing(value: Option<u64>) -> Value {
        value.map_or(Value::Missing, Value::Whole)
    }

    /// A number that may be missing.
    pub fn number_or_missing(value: Option<f64>) -> Value {
        value.map_or(Value::Missing, Value::Number)
    }

    /// Words that are missing when empty.
    pub fn text_or_missing(text: &str) -> Value {
        if text.is_empty() {
            Value::Missing
        } else {
            Value::Text(text.to_owned())
        }
    }
}

impl<T> Field<T> {
    /// The quantity of `item` as text, in the manner of its unit.
    pub fn text(&self, item: &T) -> String {
        match (self.unit, (self.value)(item)) {
            (_, Value::Missing) => "-".to_owned(),
            (_, Value::Flag(flag)) => if flag { "yes" } else { "no" }.to_owned(),
            (Unit::Address | Unit::Offset, Value::Whole(address)) => format!("{address:#x}"),
            (Unit::Kilohertz, Value::Whole(khz)) => format!("{} GHz", khz as f64 / 1e6),
            (Unit::None, Value::Whole(number)) => number.to_string(),
            (Unit::Nanos, Value::Whole(nanos)) => time_text(nanos),
            (Unit::Decimal, Value::Number(number)) => format!("{number:.2}"),
            (_, Value::Whole(number)) => grouped(number),
            (Unit::Share, Value::Number(share)) => format!("{:.1}%", share * 100.0),
            (_, Value::Number(number)) => grouped(number.round() as u64),
            (_, Value::Text(text)) => text,
            (_, Value::Texts(texts)) => texts.join(", "),
            (_, Value::Wholes(numbers)) => ranges(&numbers),
        }
    }

    /// The same for a cell of a table, where room is scarce: shares without their sign, large
    /// numbers to four digits.
    pub(crate) fn cell(&self, item: &T) -> String {
        let short = self.short(&(self.value)(item));
        short.unwrap_or_else(|| self.text(item))
    }

    /// A figure as a cell has it; none when it is no figure that a cell shortens.
    pub(crate) fn short(&self, value: &Value) -> Option<String> {
        Some(match (self.unit, value) {
            (Unit::Share, Value::Number(share)) => format!("{:.1}", share * 100.0),
            (Unit::Count | Unit::Cycles, Value::Whole(number)) => compact(*number),
            (Unit::Count | Unit::Cycles, Value::Number(number)) => compact(number.round() as u64),
            _ => return None,
        })
    }
}

/// Fields that samples cannot give, by table: sums over all accesses, and time of threads. Left out of
/// reports of samples.
pub mod exact_only {
    /// Of the run.
    pub const RUN: &[&str] = &[
        "clock_khz",
        "window_cycles",
        "program_cpu_count",
        "seed",
        "private_access_count",
        "lost_access_count",
    ];
    /// Of the sums over all lines.
    pub const TOTALS: &[&str] = &["thread_cycles", "stall_cycles", "lost_cycles", "run_share"];
    /// Of a line.
    pub const LINE: &[&str] = &[
        "lost_cycles",
        "run_share",
        "stall_cycles",
        "rows_left_out_lost_cycles",
        "false_sharing_cycles",
    ];
    /// Of a fight.
    pub const FIGHT: &[&str] = &["lost_cycles"];
    /// Of a row.
    pub const ROW: &[&str] = &["size_bytes", "lost_cycles"];
    /// Of lines that are counted only.
    pub const QUIET: &[&str] = &["lost_cycles", "left_out_lost_cycles"];
    /// Of a row of totals.
    pub const TOTAL_ROW: &[&str] = &["lost_cycles", "run_share"];
    /// Of what filters leave.
    pub const FILTERED: &[&str] = &["lost_cycles", "unfiltered_lost_cycles"];
    /// Of a thread.
    pub const THREAD: &[&str] = &["instruction_count", "cycles", "lost_cycles", "lost_share"];
}

/// Fields that only samples have, by table. Left out of reports of recordings.
pub mod sampled_only {
    /// Of the sums over all lines.
    pub const TOTALS: &[&str] = &["tlb_known_count", "tlb_miss_count", "tlb_miss_share"];
}

/// Looks a field up by its id. Panics when the table has none: a renderer asked for a field that was
/// renamed, which its tests find.
pub fn by_id<T>(fields: &'static [Field<T>], id: &str) -> &'static Field<T> {
    let field = fields.iter().find(|field| field.id == id);
    field.unwrap_or_else(|| panic!("the field table has no field {id}"))
}

/// A time in the unit that gives it one to three digits before the point.
fn time_text(nanos: u64) -> String {
    let units = [("s", 1e9), ("ms", 1e6), ("us", 1e3)];
    let unit = units.iter().find(|(_, scale)| nanos as f64 >= *scale);
    match unit {
        Some((unit, scale)) => format!("{:.1} {unit}", nanos as f64 / scale),
        None => format!("{nanos} ns"),
    }
}

/// Numbers from a million on with four digits and a suffix: `12345678` as `12.35M`.
fn compact(number: u64) -> String {
    if number < 1_000_000 {
        return grouped(number);
    }
    let mut value = number as f64;
    let mut suffix = ' ';
    // From 999.95 on, four digits would round up to the next suffix.
    for next in ['k', 'M', 'G', 'T', 'P', 'E'] {
        if value < 999.95 {
            break;
        }
        value /= 1000.0;
        suffix = next;
    }
    let decimals = match value {
        v if v < 9.9995 => 3,
        v if v < 99.995 => 2,
        _ => 1,
    };
    format!("{value:.decimals$}{suffix}")
}

/// Ascending numbers as `0-3,5`.
pub(crate) fn ranges(numbers: &[u64]) -> String {
    let mut parts: Vec<(u64, u64)> = Vec::new();
    for &number in numbers {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => parts.push((number, number)),
        }
    }
    let texts: Vec<String> = parts
        .into_iter()
        .map(|(first, last)| {
            if first == last {
                first.to_string()
            } else {
                format!("{first}-{last}")
            }
        })
        .collect();
    texts.join(",")
}

fn op_text(op: AccessOp) -> &'static str {
    match op {
        AccessOp::Load => "load",
        AccessOp::Store => "store",
        AccessOp::LockedRmw => "locked",
        AccessOp::Fence => "fence",
    }
}

fn wholes(numbers: &[u16]) -> Vec<u64> {
    numbers.iter().map(|number| u64::from(*number)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_numbers_keep_four_digits() {
        assert_eq!(compact(999_999), "999,999");
        assert_eq!(compact(1_000_000), "1.000M");
        assert_eq!(compact(12_345_678), "12.35M");
        assert_eq!(compact(999_949_999), "999.9M");
        assert_eq!(compact(999_999_999), "1.000G");
        assert_eq!(compact(u64::MAX), "18.45E");
    }

    #[test]
    fn neighbouring_nodes_are_one_range() {
        assert_eq!(ranges(&[]), "");
        assert_eq!(ranges(&[2]), "2");
        assert_eq!(ranges(&[0, 1, 2, 3, 5, 7, 8]), "0-3,5,7-8");
    }

    #[test]
    fn ids_are_unique_and_spelled_alike() {
        fn check<T>(fields: &[Field<T>]) {
            for (index, field) in fields.iter().enumerate() {
                let id = field.id;
                let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
                assert!(!id.is_empty() && id.chars().all(legal), "{id}");
                assert!(
                    fields[..index].iter().all(|other| other.id != id),
                    "{id} occurs twice"
                );
                assert!(!field.description.is_empty(), "{id} has no description");
                assert!(!field.description.ends_with('.'), "{id}: no full stop");
            }
        }
        check(RUN_FIELDS);
        check(TOTALS_FIELDS);
        check(QUIET_FIELDS);
        check(SOURCE_FIELDS);
        check(LINE_FIELDS);
        check(OBJECT_FIELDS);
        check(ROW_FIELDS);
        check(CALL_PATH_FIELDS);
        check(CALL_FRAME_FIELDS);
        check(THREAD_FIELDS);
        check(PROCESS_FIELDS);
        check(TOTAL_ROW_FIELDS);
        check(COMPARED_FIELDS);
        check(RUNS_FIELDS);
        check(ONE_RUN_FIELDS);
        check(MEMBER_RUNS_FIELDS);
        check(FILTERED_FIELDS);
        check(MACHINE_FIELDS);
        check(UNNAMED_FIELDS);
        check(SIDE_FIELDS);
        check(TYPE_FIELDS);
        check(TYPE_LINE_FIELDS);
        check(TYPE_ROW_FIELDS);
        check(SUMMARY_FIELDS);
        check(BOX_FIELDS);
        check(SEAT_FIELDS);
        check(CELL_FIELDS);
        check(TRANSFER_FIELDS);
        check(UNKNOWN_FIELDS);
        check(FRAME_FIELDS);
        check(STACK_FIELDS);
        check(TIME_FIELDS);
        check(WHATIF_RUN_FIELDS);
        check(WHATIF_THREAD_FIELDS);
        check(WHATIF_LINE_FIELDS);
        check(WHATIF_MEMBER_FIELDS);
        check(WHATIF_OBJECT_FIELDS);
        check(WHATIF_MOVE_FIELDS);
        check(REVIEW_FIELDS);
        check(REVIEW_TYPE_FIELDS);
        check(REVIEW_COST_FIELDS);
        check(REVIEW_LINE_FIELDS);
        check(REVIEW_MEMBER_FIELDS);
        check(REVIEW_COVERAGE_FIELDS);
        check(REVIEW_RENAME_FIELDS);
        check(REVIEW_UNMATCHED_FIELDS);
        check(REVIEW_WORSE_FIELDS);
    }
}
