//! One contended line: its rows, folded and cut to size, its objects and its figures.

use std::collections::{BTreeMap, BTreeSet};

use hitm_base::{AccessOp, CodeAddr, DataSource, LineAddr, ThreadId, Topology};
use hitm_coherence::sharing::{Fight, FightKind, Sharing, Verdict};
use hitm_coherence::stats::{CpuSet, LatencySum, LineStats, RowKey, RowStats};

use super::Judged;
use super::calls::CallPaths;
use super::objects::{LineNames, MemberUse};
use crate::Names;
use crate::advice::Advisor;
use crate::allocators::is_of_allocator;
use crate::model::{AccessCounts, FightReport, LineReport, RowReport, Totals, share, store_hits};

/// Context shared by all lines of a report.
pub(super) struct LineBuilder<'a> {
    pub(super) names: &'a dyn Names,
    pub(super) topology: &'a Topology,
    pub(super) totals: &'a Totals,
    pub(super) rows_max: usize,
    pub(super) are_samples: bool,
    pub(super) calls: CallPaths<'a>,
}

/// Key of a folded row: a row's key without its thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    offset: u8,
    size: u8,
    op: AccessOp,
    code: CodeAddr,
}

impl Place {
    /// The row of one thread.
    fn of(self, thread: ThreadId) -> RowKey {
        RowKey {
            offset: self.offset,
            size: self.size,
            op: self.op,
            thread,
            code: self.code,
        }
    }
}

/// One row, or several rows of different threads taken together.
#[derive(Debug, Default)]
struct FoldedRow {
    stats: RowStats,
    threads: Vec<ThreadId>,
}

impl FoldedRow {
    fn add(&mut self, thread: ThreadId, row: &RowStats) {
        self.threads.push(thread);
        self.stats.merge(row);
    }

    /// Ranks the row for display: by lost cycles, then contended accesses, then all accesses.
    fn weight(&self) -> (u64, u64, u64) {
        let sources = &self.stats.sources;
        (
            self.stats.contention_stall.0,
            sources.contended(),
            sources.total(),
        )
    }
}

/// The rows to show, and what became of the others.
#[derive(Debug, Default)]
struct ChosenRows {
    rows: Vec<(Place, FoldedRow)>,
    folded: u64,
    left_out: u64,
    left_out_lost_cycles: u64,
}

impl LineBuilder<'_> {
    pub(super) fn build(&self, judged: &Judged<'_>, rank: u64) -> LineReport {
        let (line, stats, sharing) = (judged.line, judged.stats, &judged.sharing);
        let names = self.line_names(line, stats);
        let counts = AccessCounts::of(stats);
        let chosen = choose_rows(stats, self.rows_max);
        let cpus = cpus_of(stats);
        let rows = chosen.rows.iter();
        let percentile = |quantile: f64| {
            let bucket_end = stats.latency_histogram.value_at_quantile(quantile)?;
            // A bucket's upper end may lie above the largest value.
            Some(bucket_end.min(stats.load_latency.max.0))
        };
        LineReport {
            rank,
            line,
            lock: judged.held_lock(self.names),
            address: self.names.shown(line.first_byte()),
            verdict: sharing.verdict,
            verdict_text: verdict_text(judged),
            advice: self.advice(judged, &names, &[sharing]),
            fights: fights(judged, &names),
            false_sharing_cycles: sharing.layout_cycles(),
            disjoint_share: sharing.disjoint_permille as f64 / 1000.0,
            counts,
            lost_cycles: stats.contention_stall.0,
            lost_share: share(stats.contention_stall.0, self.totals.lost_cycles),
            run_share: share(stats.contention_stall.0, self.totals.thread_cycles),
            stall_cycles: stats.stall.0,
            load_latency_cycles_mean: stats.load_latency.mean(),
            load_latency_cycles_max: stats.load_latency.max.0,
            miss_latency_cycles_p50: percentile(0.5),
            miss_latency_cycles_p99: percentile(0.99),
            thread_count: stats.threads.len() as u64,
            cpu_count: cpus.len() as u64,
            nodes: self.nodes_of(&cpus),
            rows: rows
                .map(|(place, row)| self.row(*place, row, judged, &counts))
                .collect(),
            rows_folded_count: chosen.folded,
            rows_left_out_count: chosen.left_out,
            rows_left_out_lost_cycles: chosen.left_out_lost_cycles,
            objects: names.into_objects(),
        }
    }

    /// Advice on several lines by the costliest of them.
    pub(super) fn advice_together(&self, lines: &[&Judged<'_>], first: &Judged<'_>) -> String {
        if let Some(advice) = self.advice_on_turns(lines) {
            return advice;
        }
        let names = self.line_names(first.line, first.stats);
        let together: Vec<&Sharing> = lines.iter().map(|one| &one.sharing).collect();
        self.advice(first, &names, &together)
    }

    fn advice(&self, judged: &Judged<'_>, names: &LineNames, together: &[&Sharing]) -> String {
        let advisor = Advisor {
            sharing: &judged.sharing,
            together,
            names,
            locks: &judged.locks,
            thread_count: judged.stats.threads.len() as u64,
            is_of_allocator: self.is_of_allocator(judged.stats),
            are_samples: self.are_samples,
        };
        advisor.advise()
    }

    /// Returns true if functions of an allocator lost most of a line's cycles.
    fn is_of_allocator(&self, stats: &LineStats) -> bool {
        let mut lost: BTreeMap<CodeAddr, u64> = BTreeMap::new();
        for (key, row) in &stats.rows {
            let of_code = lost.entry(key.code).or_default();
            *of_code = of_code.saturating_add(row.contention_stall.0);
        }
        let all = lost
            .values()
            .fold(0_u64, |all, lost| all.saturating_add(*lost));
        let of_allocator = lost.iter().filter(|(code, lost)| {
            **lost > 0 && is_of_allocator(&self.names.code(**code).function)
        });
        let part = of_allocator.fold(0_u64, |all, (_, lost)| all.saturating_add(*lost));
        part > all / 2
    }

    fn line_names(&self, line: LineAddr, stats: &LineStats) -> LineNames {
        let mut names = LineNames::default();
        let mut seen: BTreeMap<(u8, u8), MemberUse> = BTreeMap::new();
        for (key, row) in &stats.rows {
            let used = seen.entry((key.offset, key.size)).or_default();
            used.contended += row.sources.contended();
            *used.accesses.entry(key.thread).or_default() += row.sources.total();
            if key.op.is_write() {
                *used.writes.entry(key.thread).or_default() += row.sources.total();
            }
        }
        for ((offset, size), used) in seen {
            let addr = line.first_byte() + u64::from(offset);
            if let Some(name) = self.names.data(addr, size) {
                names.add(name, offset, size, used);
            }
        }
        names
    }

    fn nodes_of(&self, cpus: &CpuSet) -> Vec<u16> {
        let known = cpus
            .iter()
            .filter(|cpu| cpu.index() < self.topology.cpu_count());
        let nodes: BTreeSet<u16> = known.map(|cpu| self.topology.node_of(cpu)).collect();
        nodes.into_iter().collect()
    }

    fn row(
        &self,
        place: Place,
        row: &FoldedRow,
        judged: &Judged<'_>,
        counts: &AccessCounts,
    ) -> RowReport {
        let stats = &row.stats;
        let code = self.names.code(place.code);
        let addr = judged.line.first_byte() + u64::from(place.offset);
        let data = self.names.data(addr, place.size);
        let is_load = place.op != AccessOp::Store;
        let loads = |source| {
            if is_load {
                stats.sources.get(source)
            } else {
                0
            }
        };
        let hits = if place.op.is_write() {
            store_hits(&stats.sources)
        } else {
            0
        };
        let stores = if place.op.is_write() {
            stats.sources.total()
        } else {
            0
        };
        let mean = |sum: &LatencySum| (is_load && sum.count > 0).then(|| sum.mean());
        let named = row.threads.iter().take(RowReport::THREADS_NAMED_MAX);
        let part_of_loads = |source| share(loads(source), counts.loads_from(source));
        let keys = row.threads.iter().map(|thread| place.of(*thread));
        let (call_paths, call_path_count) = self.calls.of_row(judged.line, keys, place.code, stats);
        RowReport {
            offset: place.offset,
            size_bytes: place.size,
            member: data.map(|name| name.whole()).unwrap_or_default(),
            op: place.op,
            threads: named.map(|thread| self.names.thread(*thread)).collect(),
            thread_count: row.threads.len() as u64,
            code: CodeAddr(self.names.shown(place.code.0)),
            source: code.source(),
            source_short: code.source_short(),
            function: code.function,
            remote_hitm_share: part_of_loads(DataSource::RemoteHitm),
            local_hitm_share: part_of_loads(DataSource::LocalHitm),
            store_hit_share: share(hits, counts.store_hits()),
            store_miss_share: share(stores - hits, counts.store_misses()),
            remote_hitm_cycles_mean: mean(&stats.remote_hitm),
            local_hitm_cycles_mean: mean(&stats.local_hitm),
            load_cycles_mean: mean(&stats.latency),
            lost_cycles: stats.contention_stall.0,
            lost_share: share(stats.contention_stall.0, judged.stats.contention_stall.0),
            access_count: stats.sources.total(),
            cpu_count: stats.cpus.len() as u64,
            nodes: self.nodes_of(&stats.cpus),
            call_paths,
            call_path_count,
        }
    }
}

fn fights(judged: &Judged<'_>, names: &LineNames) -> Vec<FightReport> {
    let main = judged.sharing.main_kinds();
    let fights = judged.sharing.fights.iter().map(|fight| FightReport {
        kind: fight.kind,
        places: places_of(fight, judged, names),
        contended_count: fight.contended_count,
        lost_cycles: fight.lost_cycles,
        lost_share: share(fight.lost_cycles, judged.stats.contention_stall.0),
        is_main: main.contains(&fight.kind),
    });
    fights.collect()
}

/// The names of what a fight is over: the lock objects, then what else is in its bytes.
fn places_of(fight: &Fight, judged: &Judged<'_>, names: &LineNames) -> Vec<String> {
    let (mut places, mut rest) = (Vec::new(), fight.bytes);
    if fight.kind == FightKind::Lock {
        let locks = judged.locks.iter();
        for lock in locks.filter(|lock| lock.mask & fight.bytes != 0) {
            places.push(lock.name.clone());
            rest &= !lock.mask;
        }
    }
    let others = names.members_in(rest);
    places.extend(others.into_iter().map(str::to_owned));
    places
}

/// The verdict in words, and the fights that need another remedy.
fn verdict_text(judged: &Judged<'_>) -> String {
    let sharing = &judged.sharing;
    let mut locks = judged.locks.iter();
    let lock = locks.find(|lock| lock.mask & sharing.lock_word != 0);
    let is_only_read = lock.is_some_and(|lock| lock.is_only_read);
    let of_kind = |kind| match kind {
        FightKind::Lock if is_only_read => "a lock's count of readers",
        FightKind::Lock if sharing.guarded != 0 => "lock with its data",
        kind => kind.verdict().facts().words,
    };
    let kinds = sharing.main_kinds();
    let texts = |kinds: &[FightKind]| {
        let texts: Vec<&str> = kinds.iter().map(|kind| of_kind(*kind)).collect();
        texts.join(", ")
    };
    let is_main = |kind: &&FightKind| kind.verdict() == sharing.verdict;
    let Some(main) = kinds.iter().find(is_main) else {
        return match kinds.is_empty() {
            true => Verdict::NoContention.facts().words.to_owned(),
            false => format!("{}: {}", Verdict::Mixed.facts().words, texts(&kinds)),
        };
    };
    // What the same remedy ends is not worth a word here.
    let is_curable = main.is_curable_by_layout();
    let others = kinds.iter().copied();
    let others: Vec<FightKind> = others
        .filter(|kind| kind != main && kind.is_curable_by_layout() != is_curable)
        .collect();
    match others.is_empty() {
        true => of_kind(*main).to_owned(),
        false => format!("{}, also {}", of_kind(*main), texts(&others)),
    }
}

fn cpus_of(stats: &LineStats) -> CpuSet {
    let mut cpus = CpuSet::default();
    for row in stats.rows.values() {
        cpus.merge(&row.cpus);
    }
    cpus
}

/// Rows as they are when they are few; else folded over threads; else the costliest of those.
fn choose_rows(stats: &LineStats, rows_max: usize) -> ChosenRows {
    let fold = stats.rows.len() > rows_max;
    let mut rows: BTreeMap<(Place, Option<ThreadId>), FoldedRow> = BTreeMap::new();
    for (key, row) in &stats.rows {
        let place = Place {
            offset: key.offset,
            size: key.size,
            op: key.op,
            code: key.code,
        };
        let thread = (!fold).then_some(key.thread);
        rows.entry((place, thread))
            .or_default()
            .add(key.thread, row);
    }
    let folded = (stats.rows.len() - rows.len()) as u64;
    let mut rows: Vec<(Place, FoldedRow)> = rows
        .into_iter()
        .map(|((place, _), row)| (place, row))
        .collect();
    // Stable sorts: rows of equal weight stay in the order of their keys.
    rows.sort_by_key(|(_, row)| std::cmp::Reverse(row.weight()));
    let cut = rows.split_off(rows.len().min(rows_max));
    rows.sort_by_key(|(place, _)| place.offset);
    ChosenRows {
        rows,
        folded,
        left_out: cut.len() as u64,
        left_out_lost_cycles: cut
            .iter()
            .map(|(_, row)| row.stats.contention_stall.0)
            .sum(),
    }
}
