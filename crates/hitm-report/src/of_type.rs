//! One type of a recording: all its objects taken together, line by line and member by member, as the
//! published tables of kernel structures show them.
//!
//! Lines are counted from the object's first byte. Objects that do not begin at the start of a cache
//! line are spread over other lines than the table says; [`TypeReport::unaligned_count`] counts them.
//! Objects that were priced in another layout have lines of their own in the table: the same offset is another member.

use hitm_fields::fields;
use std::collections::{BTreeMap, BTreeSet};

use hitm_base::{AccessOp, CodeAddr, DataSource, LINE_SIZE};
use hitm_coherence::stats::{RowStats, Statistics};
use hitm_recording::TypePlace;

use crate::Names;
use crate::model::{AccessCounts, Counted, Counts, HitmCounts, op_text, share};

/// Version of the JSON form.
pub const TYPE_SCHEMA: u32 = 1;

fields! {
    /// Everything about one type.
    #[derive(Debug, Clone, PartialEq)]
    pub struct TypeReport in type_report {
        /// The type.
        pub type_name: String;
        /// The type.
        r#type => label "type", |report| report.type_name;
        /// Objects of the type with recorded accesses.
        pub object_count: u64 => count "objects";
        /// Those of them that do not begin at the start of a cache line, so that their lines are others.
        pub unaligned_count: u64 => count "unaligned";
        /// Those of them that were priced in another layout than the compiled one (`hitm vm run --layout`).
        pub moved_count: u64 => count "moved";
        /// Cycles that CPUs waited for memory, over all lines of the recording.
        pub all_stall_cycles: u64 => cycles "all stall";
        /// The recorded command with its arguments.
        pub command: Vec<String>;
        /// Name of the machine model.
        pub machine: String;
        /// The lines with accesses, by layout, the compiled one first, and by number.
        pub lines: Vec<TypeLine>;
    }
}

fields! {
    /// One line of a type, over all its objects.
    #[derive(Debug, Clone, PartialEq)]
    pub struct TypeLine in type_line {
        /// Number of the line in the object, 1 for its first 64 bytes.
        pub line: u64 => number "line";
        /// compiled or moved: the layout that the line is one of. Objects that were not moved keep the compiled one.
        layout => label "layout", |line| if line.is_moved { "moved" } else { "compiled" };
        /// Bytes from the object's start to the line's.
        offset_bytes => offset "from", |line| (line.line - 1) * hitm_base::LINE_SIZE;
        /// Accesses by operation and source.
        pub counts: AccessCounts;
        ..HitmCounts: remote_hitm_count, local_hitm_count;
        /// Stores and locked operations.
        store_count => count "stores", |line| line.store_count();
        ..Counts: access_count;
        /// Mean latency of loads and locked operations.
        pub load_cycles_mean: f64 => cycles "load mean";
        /// Cycles that CPUs waited for the line, whatever the source.
        pub stall_cycles: u64 => cycles "stall cycles";
        /// stall_cycles as a part of all_stall_cycles.
        pub stall_share: f64 => share "stall";
        /// Part of stall_cycles that other CPUs' use of the line caused.
        pub lost_cycles: u64 => cycles "lost cycles";
        /// Modelled CPUs that used the line.
        pub cpu_count: u64 => count "CPUs";
        /// Members with accesses, by offset.
        pub members: Vec<String> => words "members";
        /// True for a line of the objects that were priced in another layout.
        pub is_moved: bool;
        /// By offset and code address.
        pub rows: Vec<TypeRow>;
    }
}

impl Counted for TypeLine {
    fn counts(&self) -> &AccessCounts {
        &self.counts
    }
}

impl TypeLine {
    /// Stores and locked operations.
    pub fn store_count(&self) -> u64 {
        self.counts.stores.total() + self.counts.locked.total()
    }
}

fields! {
    /// One instruction at one member.
    #[derive(Debug, Clone, PartialEq)]
    pub struct TypeRow in type_row {
        /// Bytes from the line's start.
        pub offset: u64 => offset "off";
        /// The member.
        pub member: String => known name "member";
        /// The function of the instruction.
        pub function: String => known name "function";
        /// load, store or locked.
        pub op: AccessOp => label "op", |row| op_text(row.op);
        /// Part of the line's remote HITM.
        pub remote_hitm_share: f64 => share "rmt";
        /// Part of the line's local HITM.
        pub local_hitm_share: f64 => share "lcl";
        /// Part of the line's stores.
        pub store_share: f64 => share "store";
        /// Mean latency of its loads or locked operations.
        pub load_cycles_mean: Option<f64> => cycles "load cyc";
        /// Cycles for which it stood still.
        pub stall_cycles: u64 => cycles "stall cyc";
        /// stall_cycles as a part of the line's.
        pub stall_share: f64 => share "stall";
        /// Accesses.
        pub access_count: u64 => count "records";
        /// Modelled CPUs that the accesses came from.
        pub cpu_count: u64 => count "CPUs";
        /// The instruction.
        pub code: CodeAddr;
        /// Address of the instruction.
        code_address => address "code", |row| row.code.0;
    }
}

/// A line of one of the two layouts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct LineKey {
    is_moved: bool,
    number: u64,
}

/// Key of a row: accesses with equal keys are one row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    line: LineKey,
    offset: u64,
    size: u8,
    code: CodeAddr,
    op: AccessOp,
}

/// Accesses with equal keys.
struct Rows {
    sum: RowStats,
    /// Address of the first one's.
    addr: u64,
    /// Its place in the type.
    place: TypePlace,
}

impl TypeReport {
    /// Takes all objects of `type_name` together; none when the recording has no access to one.
    /// The command is the recorded one, the machine its name.
    pub fn build(
        statistics: &Statistics,
        names: &dyn Names,
        type_name: &str,
        command: Vec<String>,
        machine: String,
    ) -> Option<TypeReport> {
        let mut objects: BTreeSet<(u64, bool)> = BTreeSet::new();
        let mut rows: BTreeMap<Key, Rows> = BTreeMap::new();
        for (line, stats) in &statistics.lines {
            for (key, row) in &stats.rows {
                let addr = line.first_byte() + u64::from(key.offset);
                let Some(place) = names.place_in_type(addr, key.size, type_name) else {
                    continue;
                };
                objects.insert((place.base, place.is_moved));
                let key = Key {
                    line: LineKey {
                        is_moved: place.is_moved,
                        number: place.offset / LINE_SIZE + 1,
                    },
                    offset: place.offset,
                    size: key.size,
                    code: key.code,
                    op: key.op,
                };
                let rows = rows.entry(key).or_insert_with(|| Rows {
                    sum: RowStats::default(),
                    addr,
                    place,
                });
                rows.sum.merge(row);
            }
        }
        rows.first_key_value()?;
        let listed = statistics.lines.values().map(|line| line.stall.0);
        let all_stall_cycles = listed.sum::<u64>() + statistics.rest.stall.0;
        let numbers: BTreeSet<LineKey> = rows.keys().map(|key| key.line).collect();
        let lines = numbers.into_iter().map(|number| {
            let of_line = rows.iter().filter(|(key, _)| key.line == number);
            line(number, of_line, names, type_name, all_stall_cycles)
        });
        let unaligned = objects
            .iter()
            .filter(|(base, _)| !base.is_multiple_of(LINE_SIZE));
        let moved = objects.iter().filter(|(_, is_moved)| *is_moved);
        Some(TypeReport {
            command,
            machine,
            type_name: type_name.to_owned(),
            object_count: objects.len() as u64,
            unaligned_count: unaligned.count() as u64,
            moved_count: moved.count() as u64,
            all_stall_cycles,
            lines: lines.collect(),
        })
    }
}

fn line<'a>(
    key: LineKey,
    rows: impl Iterator<Item = (&'a Key, &'a Rows)> + Clone,
    names: &dyn Names,
    type_name: &str,
    all_stall_cycles: u64,
) -> TypeLine {
    let mut sum = RowStats::default();
    let mut counts = AccessCounts::default();
    for (key, Rows { sum: row, .. }) in rows.clone() {
        let of_op = match key.op {
            AccessOp::Load => &mut counts.loads,
            AccessOp::Store => &mut counts.stores,
            AccessOp::LockedRmw | AccessOp::Fence => &mut counts.locked,
        };
        of_op.merge(&row.sources);
        let mut row = row.clone();
        if key.op == AccessOp::Store {
            row.latency = Default::default();
        }
        sum.merge(&row);
    }
    let mut line = TypeLine {
        line: key.number,
        is_moved: key.is_moved,
        counts,
        stall_cycles: sum.stall.0,
        lost_cycles: sum.contention_stall.0,
        stall_share: share(sum.stall.0, all_stall_cycles),
        load_cycles_mean: sum.latency.mean(),
        cpu_count: sum.cpus.len() as u64,
        members: Vec::new(),
        rows: Vec::new(),
    };
    let built: Vec<TypeRow> = rows
        .map(|(key, rows)| {
            let member = names.member_of_type(type_name, rows.place, key.size);
            let of_object = || names.data(rows.addr, key.size).map(|name| name.member);
            let member = member.or_else(of_object).unwrap_or_default();
            let member = member.trim_start_matches('.').to_owned();
            type_row(key, &rows.sum, member, &line, names)
        })
        .collect();
    for row in &built {
        if !line.members.contains(&row.member) {
            line.members.push(row.member.clone());
        }
    }
    line.rows = built;
    line
}

fn type_row(
    key: &Key,
    row: &RowStats,
    member: String,
    line: &TypeLine,
    names: &dyn Names,
) -> TypeRow {
    let is_store = key.op == AccessOp::Store;
    let loads = |source| if is_store { 0 } else { row.sources.get(source) };
    let accesses = row.sources.total();
    let stores = if key.op.is_write() { accesses } else { 0 };
    TypeRow {
        offset: key.offset % LINE_SIZE,
        member,
        op: key.op,
        function: names.code(key.code).function,
        code: key.code,
        remote_hitm_share: share(loads(DataSource::RemoteHitm), line.counts.remote_hitm()),
        local_hitm_share: share(loads(DataSource::LocalHitm), line.counts.local_hitm()),
        store_share: share(stores, line.store_count()),
        load_cycles_mean: (!is_store && row.latency.count > 0).then(|| row.latency.mean()),
        stall_cycles: row.stall.0,
        stall_share: share(row.stall.0, line.stall_cycles),
        access_count: accesses,
        cpu_count: row.cpus.len() as u64,
    }
}
