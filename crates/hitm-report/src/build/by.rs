//! Totals by name, and filters: each row of the statistics gets the names that are asked for.

use std::cell::{OnceCell, RefCell};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::rc::Rc;

use hitm_base::{CodeAddr, LINE_SIZE, LineAddr, ThreadId};
use hitm_coherence::stats::{CallCounts, Handovers, LineStats, RowKey, RowStats, Statistics};
use hitm_recording::CodeLabel;

use crate::by::{By, Filtered, Filters, Pattern, REST, SortKey, TotalKind, TotalRow, TotalsBy};
use crate::handed::NAME_STEP_BYTES;
use crate::model::{AccessCounts, Totals, share};
use crate::names::Names;
use crate::skip::SkippedFunctions;

use super::functions::Functions;

/// An address and the bytes accessed there.
type DataPlace = (u64, u8);

/// Names rows. Each address is asked for once.
pub(super) struct Namer<'a> {
    names: &'a dyn Names,
    statistics: &'a Statistics,
    functions: Functions<'a>,
    codes: RefCell<BTreeMap<CodeAddr, Rc<CodeLabel>>>,
    objects: RefCell<BTreeMap<DataPlace, Option<Rc<ObjectName>>>>,
    /// Found when the first program is asked for.
    processes: OnceCell<BTreeMap<ThreadId, String>>,
}

/// An object, and the same with the accessed member.
struct ObjectName {
    object: String,
    with_member: String,
    /// With the member, and without the numbers of elements.
    member_kind: String,
}

impl<'a> Namer<'a> {
    pub(super) fn new(
        names: &'a dyn Names,
        statistics: &'a Statistics,
        skip: &'a SkippedFunctions,
        are_samples: bool,
    ) -> Namer<'a> {
        Namer {
            names,
            statistics,
            functions: Functions::new(names, skip, are_samples),
            codes: RefCell::default(),
            objects: RefCell::default(),
            processes: OnceCell::new(),
        }
    }

    /// The program of each thread, from the rows whose code tells.
    fn processes(&self) -> &BTreeMap<ThreadId, String> {
        self.processes.get_or_init(|| {
            let mut processes = BTreeMap::new();
            let lines = self.statistics.lines.values();
            for key in lines.flat_map(|stats| stats.rows.keys()) {
                if !processes.contains_key(&key.thread)
                    && let Some(process) = self.names.process(key.thread, key.code)
                {
                    processes.insert(key.thread, process);
                }
            }
            processes
        })
    }

    fn code(&self, code: CodeAddr) -> Rc<CodeLabel> {
        let mut codes = self.codes.borrow_mut();
        let known = codes.entry(code);
        known
            .or_insert_with(|| Rc::new(self.names.code(code)))
            .clone()
    }

    fn object(&self, line: LineAddr, key: &RowKey) -> Option<Rc<ObjectName>> {
        let place = (line.first_byte() + u64::from(key.offset), key.size);
        let mut objects = self.objects.borrow_mut();
        let name = || {
            let name = self.names.data(place.0, place.1)?;
            Some(Rc::new(ObjectName {
                member_kind: name.without_numbers(),
                with_member: name.whole(),
                object: name.object,
            }))
        };
        objects.entry(place).or_insert_with(name).clone()
    }

    /// The object on a line; none when no place of it has a name, or places have several.
    fn only_object(&self, line: LineAddr) -> Option<String> {
        let places = (0..LINE_SIZE).step_by(NAME_STEP_BYTES);
        let mut found = places.filter_map(|byte| self.names.data(line.first_byte() + byte, 1));
        let first = found.next()?.object;
        let is_only = found.all(|other| other.object == first);
        (is_only && !first.is_empty()).then_some(first)
    }

    /// The program that ran the instruction: kernel code is its thread's.
    fn process(&self, key: &RowKey) -> Option<String> {
        let own = self.names.process(key.thread, key.code);
        own.or_else(|| self.processes().get(&key.thread).cloned())
    }

    /// The name of a row; none when it is not known.
    fn name(&self, by: By, line: LineAddr, key: &RowKey) -> Option<String> {
        let name = match by {
            By::Line => format!("{:#x}", self.names.shown(line.first_byte())),
            By::Object => self.object(line, key)?.object.clone(),
            By::Member => self.object(line, key)?.member_kind.clone(),
            By::Type => {
                let addr = line.first_byte() + u64::from(key.offset);
                self.names.type_of(addr, key.size)?
            }
            By::Function | By::Caller | By::Children => self.code(key.code).function.clone(),
            By::Source => self.code(key.code).source(),
            By::Process => self.process(key)?,
        };
        (!name.is_empty()).then(|| of_file(name, by))
    }

    /// Returns the functions that an access with a call chain counts for: one, its caller, or all that
    /// were running. None is a function without a name.
    fn functions_of(&self, by: By, code: CodeAddr, chain: &[CodeAddr]) -> Vec<Option<String>> {
        let functions = match by {
            By::Caller => vec![self.functions.caller(code, chain)],
            By::Children => self.functions.running(code, chain),
            _ => vec![self.functions.counted_for(code, chain)],
        };
        let named = |name| of_file(name, By::Function);
        functions.into_iter().map(|name| name.map(named)).collect()
    }

    /// Returns true if the filters leave a row.
    fn leaves(&self, filters: &Filters, line: LineAddr, key: &RowKey) -> bool {
        let one = |patterns: &[Pattern], names: &dyn Fn() -> Vec<String>| {
            patterns.is_empty() || {
                let names = names();
                let matches = |pattern: &Pattern| names.iter().any(|name| pattern.matches(name));
                patterns.iter().any(matches)
            }
        };
        let object = || match self.object(line, key) {
            Some(name) => vec![name.object.clone(), name.with_member.clone()],
            None => Vec::new(),
        };
        let file = || {
            let name = self.code(key.code);
            vec![name.file.clone(), name.source(), name.source_short()]
        };
        one(&filters.thread, &|| vec![self.names.thread(key.thread)])
            && one(&filters.process, &|| {
                self.process(key).into_iter().collect()
            })
            && one(&filters.function, &|| {
                vec![self.code(key.code).function.clone()]
            })
            && one(&filters.file, &file)
            && one(&filters.object, &object)
    }
}

/// Takes all places of a file without names together: `libz.so.1+0x1a2b` stands for one instruction.
fn of_file(name: String, by: By) -> String {
    let is_offset = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_hexdigit());
    match name.rsplit_once("+0x") {
        Some((file, offset)) if is_offset(offset) && !file.is_empty() => {
            format!("{file} {}", by.unnamed())
        }
        _ => name,
    }
}

/// A row of the statistics, and its line.
#[derive(Clone, Copy)]
struct LineRow<'a> {
    line: LineAddr,
    key: &'a RowKey,
    row: &'a RowStats,
}

/// Sums by name; without one for accesses whose name is not known.
type Sums = BTreeMap<Option<String>, Sum>;

/// The statistics' rows that filters leave, by line.
pub(super) struct Left<'a> {
    rows: Vec<LineRow<'a>>,
    filtered: Option<Filtered>,
}

impl<'a> Left<'a> {
    pub(super) fn of(namer: &Namer<'a>, filters: &Filters, totals: &Totals) -> Left<'a> {
        let lines = namer.statistics.lines.iter();
        let rows = lines.flat_map(|(line, stats)| {
            let rows = stats.rows.iter();
            rows.map(|(key, row)| LineRow {
                line: *line,
                key,
                row,
            })
        });
        let is_left =
            |one: &LineRow<'_>| filters.is_empty() || namer.leaves(filters, one.line, one.key);
        let rows: Vec<LineRow<'a>> = rows.filter(is_left).collect();
        let filtered = (!filters.is_empty()).then(|| {
            let mut sum = Sum::default();
            rows.iter().for_each(|one| sum.add_row(*one));
            let lost_cycles = sum.counts.contention_stall.0;
            Filtered {
                filters: filters.texts(),
                access_count: sum.counts.access_count,
                line_count: sum.line_count,
                lost_cycles,
                lost_share: share(lost_cycles, totals.lost_cycles),
                unfiltered_lost_cycles: namer.statistics.rest.contention_stall().0,
            }
        });
        Left { rows, filtered }
    }

    /// Rows that the filters leave; none without filters.
    pub(super) fn filtered(&self) -> Option<Filtered> {
        self.filtered.clone()
    }

    /// Returns true if a line has an access that is left.
    pub(super) fn has(&self, line: LineAddr) -> bool {
        let rows = &self.rows;
        self.filtered.is_none() || rows.binary_search_by_key(&line, |one| one.line).is_ok()
    }

    /// The totals by one kind of name.
    pub(super) fn totals(
        &self,
        namer: &Namer<'_>,
        by: By,
        sort: SortKey,
        totals: &Totals,
    ) -> TotalsBy {
        let statistics = namer.statistics;
        let is_by_calls = match by {
            By::Caller | By::Children => true,
            By::Function => !statistics.calls.is_empty(),
            _ => false,
        };
        let mut sums = Sums::new();
        for one in &self.rows {
            if is_by_calls {
                add_calls(namer, by, &mut sums, *one);
                continue;
            }
            let name = namer.name(by, one.line, one.key);
            sums.entry(name).or_default().add_row(*one);
        }
        let has_rest = self.filtered.is_none() && statistics.rest.line_count > 0;
        let mut rest = Sum::of_rest(statistics);
        if has_rest {
            add_handed(namer, by, &mut sums, &mut rest);
        }
        let mut rows: Vec<TotalRow> = sums
            .into_iter()
            .map(|(name, sum)| match name {
                Some(name) => sum.row(name, TotalKind::Named, totals),
                None => sum.row(by.unnamed().to_owned(), TotalKind::Unnamed, totals),
            })
            .collect();
        sort_rows(&mut rows, sort);
        if has_rest {
            rows.push(rest.row(REST.to_owned(), TotalKind::Rest, totals));
        }
        TotalsBy { by, rows }
    }
}

/// Places of lines in `lines`, by the names of the accesses to them: each once, in their order.
pub(super) fn places_by(
    namer: &Namer<'_>,
    by: By,
    lines: &[LineAddr],
) -> BTreeMap<String, Vec<usize>> {
    let mut places: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (place, line) in lines.iter().enumerate() {
        let Some(stats) = namer.statistics.lines.get(line) else {
            continue;
        };
        for key in stats.rows.keys() {
            for name in names_of(namer, by, *line, key) {
                let of_name = places.entry(name).or_default();
                if of_name.last() != Some(&place) {
                    of_name.push(place);
                }
            }
        }
    }
    places
}

/// Returns the names that a row counts for in the totals of one kind.
fn names_of(namer: &Namer<'_>, by: By, line: LineAddr, key: &RowKey) -> Vec<String> {
    let chains = namer.statistics.calls.of_row(line, *key);
    let mut names: Vec<Option<String>> = match by {
        By::Function | By::Caller | By::Children => chains
            .flat_map(|(chain, _)| namer.functions_of(by, key.code, chain))
            .collect(),
        _ => Vec::new(),
    };
    if by != By::Caller && names.is_empty() {
        names.push(namer.name(by, line, key));
    }
    names.into_iter().flatten().collect()
}

/// Adds to the names what is known of lines without rows, and takes it out of `rest`. The accesses
/// that took a line from another CPU have an instruction. Where a line has one object, they have an
/// object too.
fn add_handed(namer: &Namer<'_>, by: By, sums: &mut Sums, rest: &mut Sum) {
    let of_rest = &namer.statistics.rest;
    match by {
        By::Function | By::Source => {
            for (code, taken) in &of_rest.takers {
                let name = match by {
                    By::Function => namer.code(*code).function.clone(),
                    _ => namer.code(*code).source(),
                };
                if !name.is_empty() {
                    let sum = sums.entry(Some(of_file(name, by))).or_default();
                    sum.move_from(rest, taken);
                    sum.has_unknown_lines = true;
                }
            }
        }
        By::Object => {
            for (line, handed) in &of_rest.handed {
                if let Some(object) = namer.only_object(*line) {
                    let sum = sums.entry(Some(of_file(object, by))).or_default();
                    sum.move_from(rest, handed);
                    sum.line_count += 1;
                    rest.line_count = rest.line_count.saturating_sub(1);
                }
            }
        }
        By::Line | By::Member | By::Type | By::Caller | By::Children | By::Process => {}
    }
}

/// Adds the accesses of a row by their call chains: to the function that they are counted for, to its
/// caller, or to all functions that were running. Accesses without a chain have no caller.
fn add_calls(namer: &Namer<'_>, by: By, sums: &mut Sums, row: LineRow<'_>) {
    let calls = &namer.statistics.calls;
    for (chain, counts) in calls.parts_of_row(row.line, row.key, row.row) {
        let names = match (chain, by) {
            (Some(chain), _) => namer.functions_of(by, row.key.code, chain),
            (None, By::Caller) => vec![None],
            (None, _) => vec![namer.name(By::Function, row.line, row.key)],
        };
        for name in names {
            sums.entry(name).or_default().add(row.line, &counts);
        }
    }
}

/// The sums of one name. Lines come in order, each once or several times in a row.
#[derive(Debug, Default)]
struct Sum {
    counts: CallCounts,
    line_count: u64,
    /// Set if some of its accesses are on lines that are counted as a whole.
    has_unknown_lines: bool,
    last_line: Option<LineAddr>,
}

impl Sum {
    fn of_rest(statistics: &Statistics) -> Sum {
        let rest = &statistics.rest;
        let counts = AccessCounts::of_rest(rest);
        Sum {
            counts: CallCounts {
                access_count: counts.total(),
                contention_stall: rest.contention_stall(),
                load_hitm: [counts.local_hitm(), counts.remote_hitm()],
            },
            line_count: rest.line_count,
            ..Sum::default()
        }
    }

    /// Moves accesses here from the rest of the lines. Those of lines and instructions for which
    /// there was no room stay there.
    fn move_from(&mut self, rest: &mut Sum, handed: &Handovers) {
        let mut moved = rest.counts;
        rest.counts.take_out(&CallCounts {
            access_count: handed.count,
            contention_stall: handed.lost,
            load_hitm: handed.load_hitm,
        });
        moved.take_out(&rest.counts);
        self.counts.merge(&moved);
    }

    fn add(&mut self, line: LineAddr, counts: &CallCounts) {
        self.counts.merge(counts);
        if self.last_line != Some(line) {
            self.last_line = Some(line);
            self.line_count += 1;
        }
    }

    fn add_row(&mut self, row: LineRow<'_>) {
        self.add(row.line, &CallCounts::of_row(row.key, row.row));
    }

    fn row(self, name: String, kind: TotalKind, totals: &Totals) -> TotalRow {
        let lost_cycles = self.counts.contention_stall.0;
        let [local_hitm, remote_hitm] = self.counts.load_hitm;
        TotalRow {
            name,
            kind,
            lost_cycles,
            lost_share: share(lost_cycles, totals.lost_cycles),
            run_share: share(lost_cycles, totals.thread_cycles),
            remote_hitm_count: remote_hitm,
            local_hitm_count: local_hitm,
            access_count: self.counts.access_count,
            line_count: (!self.has_unknown_lines).then_some(self.line_count),
        }
    }
}

/// Stable: equal rows stay in the order of their names.
fn sort_rows(rows: &mut [TotalRow], sort: SortKey) {
    rows.sort_by_key(|row| {
        let (remote, local) = (row.remote_hitm_count, row.local_hitm_count);
        let figure = match sort {
            SortKey::Lost => row.lost_cycles,
            SortKey::Hitm => remote + local,
            SortKey::RemoteHitm => remote,
            SortKey::LocalHitm => local,
            SortKey::Accesses => row.access_count,
            SortKey::Name => return (Reverse((0, 0)), row.name.clone()),
        };
        (Reverse((figure, row.lost_cycles)), row.name.clone())
    });
}

/// The order of lines.
pub(super) fn line_order(sort: SortKey, line: LineAddr, stats: &LineStats) -> impl Ord + use<> {
    let counts = AccessCounts::of(stats);
    let (remote, local) = (counts.remote_hitm(), counts.local_hitm());
    let lost = stats.contention_stall.0;
    let figures = match sort {
        SortKey::Lost => (lost, stats.hitm()),
        SortKey::Hitm => (remote + local, lost),
        SortKey::RemoteHitm => (remote, lost),
        SortKey::LocalHitm => (local, lost),
        SortKey::Accesses => (stats.access_count(), lost),
        SortKey::Name => (0, 0),
    };
    (Reverse(figures), line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_a_file_without_names_are_one() {
        let of = |name: &str| of_file(name.to_owned(), By::Function);
        assert_eq!(of("libz.so.1+0x1a2b"), "libz.so.1 (no function known)");
        assert_eq!(of("operator+"), "operator+");
        assert_eq!(of("a+0xyz"), "a+0xyz");
        assert_eq!(of("+0x10"), "+0x10");
    }
}
