//! The report: plain structs with public fields, filled by [`Report::build`](crate::Report::build)
//! and shown through the tables in [`fields`](crate::fields).

use crate::by::{Filtered, SortKey, TotalsBy};
use crate::handed::HandedOver;
use crate::machine::MachineSummary;
use crate::names::brief;
use crate::runs::Runs;
use crate::waiting::Waiting;
use hitm_base::{AccessOp, CodeAddr, DataSource, LineAddr, ThreadId};
use hitm_coherence::sharing::{FightKind, Verdict};
use hitm_coherence::stats::{LineStats, RestOfLines, SourceCounts};

/// Version of the JSON form. It rises when a field changes its meaning or disappears, not when one
/// is added.
pub const SCHEMA: u32 = 1;

/// Everything that a report says about one run.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// The run's command, machine model and settings.
    pub run: RunHeader,
    /// The runs of a folder of recordings, of which this report shows one; none of a single recording.
    pub runs: Option<Runs>,
    /// Sums over all lines.
    pub totals: Totals,
    /// Naming coverage of a recorded machine; none for a recorded program.
    pub of_machine: Option<MachineSummary>,
    /// The contended lines in detail, the costliest first, at most as many as were asked for.
    pub lines: Vec<LineReport>,
    /// All contended lines, in the same order, those that are not in `lines` included.
    pub flagged: Vec<Flagged>,
    /// Counts of the lines that are not shown in detail.
    pub quiet: Quiet,
    /// Hand-overs of the quiet lines; of recordings, not of samples.
    pub handed: HandedOver,
    /// Time that threads waited for one another, lines apart; of recordings, not of samples.
    pub waiting: Waiting,
    /// Totals by name, as asked for.
    pub totals_by: Vec<TotalsBy>,
    /// The part that filters leave; none without filters. `lines` and `flagged` then have the lines with such
    /// accesses.
    pub filtered: Option<Filtered>,
    /// The order of lines and totals.
    pub sort: SortKey,
    /// Rows of a table of totals that text shows.
    pub totals_max: usize,
    /// The threads, in order of appearance.
    pub threads: Vec<ThreadSummary>,
    /// The processes, one for each program of each; none where there is only one.
    pub processes: Vec<ProcessSummary>,
    /// True if accesses have call chains.
    pub has_call_chains: bool,
    /// Messages from the reader of the recording, or from its recorder.
    pub diagnostics: Vec<String>,
}

impl Report {
    /// Returns true for samples of which none says what data it used.
    pub fn has_no_address(&self) -> bool {
        self.run.sampled.is_some() && self.totals.counts.total() == 0
    }
}

/// Command, machine model and settings of a run, and the completeness of its recording.
#[derive(Debug, Clone, PartialEq)]
pub struct RunHeader {
    /// The recorded command with its arguments.
    pub command: Vec<String>,
    /// Name of the machine model.
    pub machine: String,
    /// One line about the machine model.
    pub machine_description: String,
    /// CPUs of the machine model.
    pub cpu_count: u64,
    /// NUMA nodes of the machine model.
    pub node_count: u64,
    /// Clock of the machine model.
    pub clock_khz: u64,
    /// Cycles that a thread may run ahead of the slowest one.
    pub window_cycles: u64,
    /// Placement of the threads on CPUs, in the words of the command line.
    pub placement: String,
    /// CPUs that the program saw; 0 where that is not recorded.
    pub program_cpu_count: u64,
    /// Seed of the run.
    pub seed: u64,
    /// Accesses to lines that only one thread had touched: counted by the recorder, not stored.
    pub private_access_count: u64,
    /// Accesses that the recorder had to drop.
    pub lost_access_count: u64,
    /// True if the recording was closed properly.
    pub complete: bool,
    /// Sampled events, when the accesses are samples. A report of samples has no sums of cycles.
    pub sampled: Option<Vec<SampledEvent>>,
}

/// An event that was sampled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SampledEvent {
    /// Its name.
    pub name: String,
    /// Samples of it, used or not.
    pub sample_count: u64,
    /// Events that these samples stand for.
    pub event_count: u64,
}

/// Sums over all lines of the recording.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Totals {
    /// Accesses by operation and source.
    pub counts: AccessCounts,
    /// Lines with at least one recorded access.
    pub line_count: u64,
    /// Lines with a verdict other than "no contention".
    pub flagged_line_count: u64,
    /// Virtual cycles of all threads together.
    pub thread_cycles: u64,
    /// Cycles that threads waited for memory, whatever the source.
    pub stall_cycles: u64,
    /// The part of `stall_cycles` that other CPUs' use of the line caused.
    pub lost_cycles: u64,
    /// Samples that say whether their address was found in a TLB.
    pub tlb_known_count: u64,
    /// The part of these that missed it.
    pub tlb_miss_count: u64,
}

impl Totals {
    /// Part of the samples that say so whose address was in no TLB, 0 to 1; none when no sample says.
    pub fn tlb_miss_share(&self) -> Option<f64> {
        (self.tlb_known_count > 0).then(|| share(self.tlb_miss_count, self.tlb_known_count))
    }

    /// Part of all threads' time lost to contention, 0 to 1.
    pub fn run_share(&self) -> f64 {
        share(self.lost_cycles, self.thread_cycles)
    }
}

/// Accesses by operation and source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AccessCounts {
    /// Plain loads.
    pub loads: SourceCounts,
    /// Plain stores.
    pub stores: SourceCounts,
    /// Locked operations.
    pub locked: SourceCounts,
}

impl AccessCounts {
    /// The counts of one line.
    pub fn of(line: &LineStats) -> AccessCounts {
        AccessCounts {
            loads: line.loads,
            stores: line.stores,
            locked: line.rmws,
        }
    }

    /// The counts of the lines that have no rows.
    pub fn of_rest(rest: &RestOfLines) -> AccessCounts {
        AccessCounts {
            loads: rest.loads,
            stores: rest.stores,
            locked: rest.rmws,
        }
    }

    /// Adds other counts.
    pub fn merge(&mut self, other: &AccessCounts) {
        self.loads.merge(&other.loads);
        self.stores.merge(&other.stores);
        self.locked.merge(&other.locked);
    }

    /// All accesses.
    pub fn total(&self) -> u64 {
        self.loads.total() + self.stores.total() + self.locked.total()
    }

    /// Those whose data, or whose right to write, came from another CPU.
    pub fn contended_count(&self) -> u64 {
        self.loads.contended() + self.stores.contended() + self.locked.contended()
    }

    /// Loads and locked operations with this source: what perf counts as loads.
    pub fn loads_from(&self, source: DataSource) -> u64 {
        self.loads.get(source) + self.locked.get(source)
    }

    /// Stores and locked operations that their own core could complete, in its store buffer or L1.
    pub fn store_hits(&self) -> u64 {
        store_hits(&self.stores) + store_hits(&self.locked)
    }

    /// Writes whose core had the data, and only had to take the line from other ones.
    pub fn upgrades(&self) -> u64 {
        [&self.loads, &self.stores, &self.locked]
            .map(upgrades_of)
            .iter()
            .sum()
    }

    /// Stores and locked operations that had to leave the L1.
    pub fn store_misses(&self) -> u64 {
        self.stores.total() + self.locked.total() - self.store_hits()
    }
}

/// Accesses of `sources` whose core had the data, but not alone.
pub(crate) fn upgrades_of(sources: &SourceCounts) -> u64 {
    sources.get(DataSource::LocalUpgrade) + sources.get(DataSource::RemoteUpgrade)
}

/// Accesses of `sources` that hit the store buffer or the L1.
pub(crate) fn store_hits(sources: &SourceCounts) -> u64 {
    sources.get(DataSource::StoreBuffer) + sources.get(DataSource::L1)
}

/// One contended line.
#[derive(Debug, Clone, PartialEq)]
pub struct LineReport {
    /// 1 for the line that costs most.
    pub rank: u64,
    /// The line.
    pub line: LineAddr,
    /// Address of its first byte, as the process sees it.
    pub address: u64,
    /// Objects in the line that are accessed, the one with most contended accesses first.
    pub objects: Vec<ObjectUse>,
    /// Kind of contention.
    pub verdict: Verdict,
    /// The verdict in words.
    pub verdict_text: String,
    /// One sentence about the remedy.
    pub advice: String,
    /// The line's fights, the costliest first.
    pub fights: Vec<FightReport>,
    /// Cycles lost in fights that end when the bytes lie on different lines.
    pub false_sharing_cycles: u64,
    /// Part of the hand-overs between threads that have no byte in common, 0 to 1.
    pub disjoint_share: f64,
    /// Accesses by operation and source.
    pub counts: AccessCounts,
    /// Cycles that threads lost to other CPUs' use of the line.
    pub lost_cycles: u64,
    /// `lost_cycles` as a part of those of all lines, 0 to 1.
    pub lost_share: f64,
    /// `lost_cycles` as a part of all threads' time, 0 to 1.
    pub run_share: f64,
    /// Cycles that threads waited for the line, whatever the source.
    pub stall_cycles: u64,
    /// Mean latency in cycles of loads and locked operations, hits included.
    pub load_latency_cycles_mean: f64,
    /// The largest of these latencies.
    pub load_latency_cycles_max: u64,
    /// Median latency of the loads and locked operations that left their core, if any did.
    pub miss_latency_cycles_p50: Option<u64>,
    /// The same, 99th percentile.
    pub miss_latency_cycles_p99: Option<u64>,
    /// Threads that accessed the line.
    pub thread_count: u64,
    /// Modelled CPUs that accessed the line.
    pub cpu_count: u64,
    /// Modelled NUMA nodes of these CPUs, ascending.
    pub nodes: Vec<u16>,
    /// Accesses by place, instruction and thread, in order of offset.
    pub rows: Vec<RowReport>,
    /// Rows of single threads that were folded into rows of several threads.
    pub rows_folded: u64,
    /// Rows that were left out, the cheapest ones.
    pub rows_left_out: u64,
    /// Cycles lost in the rows that were left out.
    pub rows_left_out_lost_cycles: u64,
}

impl LineReport {
    /// The verdict without what else threads fight over.
    pub fn verdict_brief(&self) -> String {
        if self.verdict == Verdict::Mixed {
            return "mixed".to_owned();
        }
        match self.verdict_text.split_once(", ") {
            Some((main, _)) => format!("{main} +"),
            None => self.verdict_text.clone(),
        }
    }

    /// The names of the objects, the first two written out; the address when none is known.
    pub fn name(&self) -> String {
        self.name_by(str::to_owned)
    }

    /// The same for a sentence: what long names are generic over is left out.
    pub(crate) fn brief_name(&self) -> String {
        self.name_by(brief)
    }

    fn name_by(&self, shown: impl Fn(&str) -> String) -> String {
        let mut names = self.objects.iter().map(|object| shown(&object.name));
        match (names.next(), names.next(), names.len()) {
            (None, ..) => format!("{:#x}", self.address),
            (Some(one), None, _) => one,
            (Some(one), Some(two), 0) => format!("{one}, {two}"),
            (Some(one), Some(two), more) => format!("{one}, {two} +{more} more"),
        }
    }

    /// Local HITM of loads and locked operations.
    pub fn local_hitm(&self) -> u64 {
        self.counts.loads_from(DataSource::LocalHitm)
    }

    /// Remote HITM of loads and locked operations.
    pub fn remote_hitm(&self) -> u64 {
        self.counts.loads_from(DataSource::RemoteHitm)
    }
}

/// A fight of threads in a line, and its cost.
#[derive(Debug, Clone, PartialEq)]
pub struct FightReport {
    /// Its kind.
    pub kind: FightKind,
    /// The places where threads found the line gone, by offset; none when they have no name.
    pub places: Vec<String>,
    /// Accesses that found it gone.
    pub contended_count: u64,
    /// Cycles that threads lost by it.
    pub lost_cycles: u64,
    /// `lost_cycles` as a part of the line's, 0 to 1.
    pub lost_share: f64,
    /// True if its kind is large enough to be worth a word.
    pub is_main: bool,
}

impl FightReport {
    /// Fights of one kind taken together, the costliest kind first.
    pub fn by_kind(fights: &[&FightReport]) -> Vec<FightReport> {
        let mut kinds: Vec<FightReport> = Vec::new();
        for fight in fights {
            let Some(same) = kinds.iter_mut().find(|known| known.kind == fight.kind) else {
                kinds.push((*fight).clone());
                continue;
            };
            same.contended_count += fight.contended_count;
            same.lost_cycles = same.lost_cycles.saturating_add(fight.lost_cycles);
            same.lost_share += fight.lost_share;
            for place in &fight.places {
                if !same.places.contains(place) {
                    same.places.push(place.clone());
                }
            }
        }
        // Stable: kinds of equal cost stay in the order of their costliest fights.
        kinds.sort_by_key(|kind| std::cmp::Reverse((kind.lost_cycles, kind.contended_count)));
        kinds
    }
}

/// An object of which some bytes in a line are accessed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectUse {
    /// Its name.
    pub name: String,
    /// Address of its first byte.
    pub addr: u64,
    /// Its size in bytes, 0 when unknown.
    pub size_bytes: u64,
    /// Of an object with the name of its type: whose memory it is, and how many accesses say the type.
    pub origin: String,
    /// The members accessed in this line, by offset.
    pub members: Vec<String>,
    /// True if the object, or the accessed element of it, spans more lines than its size needs.
    pub straddles: bool,
    /// True if `members` are elements of an array, or members of them.
    pub is_array: bool,
    /// Bytes of the accessed element, where only the way threads use the object says that it is an
    /// array.
    pub element_size_bytes: Option<u64>,
}

/// One instruction's accesses to one place in a line, by one thread or by several.
#[derive(Debug, Clone, PartialEq)]
pub struct RowReport {
    /// Offset in the line.
    pub offset: u8,
    /// Bytes accessed.
    pub size_bytes: u8,
    /// Object and member, empty when unknown.
    pub member: String,
    /// Load, store or locked operation.
    pub op: AccessOp,
    /// Names of the threads, at most [`RowReport::THREADS_NAMED_MAX`].
    pub threads: Vec<String>,
    /// Number of threads, those that are not in `threads` included.
    pub thread_count: u64,
    /// The instruction.
    pub code: CodeAddr,
    /// Its function, empty when unknown.
    pub function: String,
    /// Its source file and line as in the debug information, empty when unknown.
    pub source: String,
    /// The same without directories.
    pub source_short: String,
    /// Part of the line's remote HITM, 0 to 1.
    pub remote_hitm_share: f64,
    /// Part of the line's local HITM, 0 to 1.
    pub local_hitm_share: f64,
    /// Part of the line's store hits, 0 to 1.
    pub store_hit_share: f64,
    /// Part of the line's store misses, 0 to 1.
    pub store_miss_share: f64,
    /// Mean latency of the remote HITMs, if there are any.
    pub remote_hitm_cycles_mean: Option<f64>,
    /// Mean latency of the local HITMs, if there are any.
    pub local_hitm_cycles_mean: Option<f64>,
    /// Mean latency of all loads or locked operations; none for a store.
    pub load_cycles_mean: Option<f64>,
    /// Cycles lost to other CPUs' use of the line.
    pub lost_cycles: u64,
    /// `lost_cycles` as a part of the line's, 0 to 1.
    pub lost_share: f64,
    /// Accesses.
    pub access_count: u64,
    /// Modelled CPUs that the accesses came from.
    pub cpu_count: u64,
    /// Modelled NUMA nodes of these CPUs, ascending.
    pub nodes: Vec<u16>,
    /// Call paths to the function, hottest first, where accesses have call chains.
    pub call_paths: Vec<CallPath>,
    /// Number of paths, those that are not in `call_paths` included.
    pub call_path_count: u64,
}

/// Accesses of a row whose function was called through the same functions.
#[derive(Debug, Clone, PartialEq)]
pub struct CallPath {
    /// Accesses.
    pub access_count: u64,
    /// `access_count` as a part of the row's accesses, 0 to 1.
    pub access_share: f64,
    /// The path's part of the cycles that the row lost, 0 to 1.
    pub lost_share: f64,
    /// The calls, innermost first; of calls in different places of a function, those of the hottest
    /// chain.
    pub frames: Vec<CallFrame>,
}

/// A call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallFrame {
    /// Return address of the call.
    pub code: CodeAddr,
    /// The calling function, or `file+offset` when it has no name.
    pub function: String,
    /// Source file and line of the call, empty when unknown.
    pub source: String,
}

impl RowReport {
    /// Threads of a row that are named at most; the others are counted.
    pub const THREADS_NAMED_MAX: usize = 4;

    /// The threads for people: a name, or how many there are.
    pub fn threads_text(&self) -> String {
        match self.threads.as_slice() {
            [one] if self.thread_count == 1 => one.clone(),
            _ => format!("{} threads", self.thread_count),
        }
    }
}

/// A contended line without its details.
#[derive(Debug, Clone, PartialEq)]
pub struct Flagged {
    /// The line.
    pub line: LineAddr,
    /// Kind of contention.
    pub verdict: Verdict,
    /// Cycles that threads lost to other CPUs' use of the line.
    pub lost_cycles: u64,
    /// `lost_cycles` as a part of all threads' time, 0 to 1.
    pub run_share: f64,
    /// Cycles lost in fights that end when the bytes lie on different lines.
    pub false_sharing_cycles: u64,
    /// `false_sharing_cycles` as a part of all threads' time, 0 to 1.
    pub false_sharing_run_share: f64,
    /// True if such fights are large enough to be worth a word.
    pub has_false_sharing: bool,
    /// True if the C library, the dynamic loader or a language's runtime alone contends on it, for something of
    /// their own.
    pub is_runtime: bool,
    /// Kind of the object that was contended most; empty when unknown.
    pub kind: String,
}

/// Lines that are counted only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Quiet {
    /// Lines with contended accesses, but too few for a verdict or to matter for the run.
    pub line_count: u64,
    /// Cycles lost on them.
    pub lost_cycles: u64,
    /// Contended lines that are not shown in detail.
    pub left_out_line_count: u64,
    /// Cycles lost on those.
    pub left_out_lost_cycles: u64,
}

/// One thread's time.
#[derive(Debug, Clone, PartialEq)]
pub struct ThreadSummary {
    /// The thread.
    pub thread: ThreadId,
    /// Its name.
    pub name: String,
    /// Its id in the operating system, 0 when unknown.
    pub tid: u64,
    /// Instructions executed.
    pub instruction_count: u64,
    /// Virtual cycles that passed while it ran.
    pub cycles: u64,
    /// Cycles that it lost to other CPUs' use of the lines it needed.
    pub lost_cycles: u64,
}

impl ThreadSummary {
    /// Part of its time lost to contention, 0 to 1.
    pub fn lost_share(&self) -> f64 {
        share(self.lost_cycles, self.cycles)
    }
}

/// Work of one program of one process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessSummary {
    /// Its number in the recording.
    pub process: u64,
    /// Its id in the operating system.
    pub pid: u64,
    /// Number of the process that it was forked from, or that it was before; none of the first one.
    pub parent: Option<u64>,
    /// The program's file.
    pub program: String,
    /// Its threads.
    pub thread_count: u64,
    /// Instructions executed.
    pub instruction_count: u64,
    /// Cycles that its threads lost to other CPUs' use of the lines they needed.
    pub lost_cycles: u64,
    /// End of the process: `exit 0`, `signal 9`, `exec`, `stopped` or `killed`.
    pub end: String,
}

/// `part / whole`, 0 when there is no whole.
pub(crate) fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        0.0
    } else {
        part as f64 / whole as f64
    }
}
