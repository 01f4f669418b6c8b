//! Rounds of watches: who touches which bytes of a line, and how often.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use hitm_base::{AccessOp, LINE_SIZE};
use hitm_live::lines::{
    Hit, LineSampler, SampledThread, WORD_BYTES, Watch, WatchLimits, Watched, WatchedAccess,
    WatchedThread, is_kernels,
};

use super::super::programs::SeenAccess;
use super::SampledTask;
use super::candidates::{Candidate, Touch};
use super::code::Code;
use super::memory::{Line, Memory};

/// Length of a turn, and hits of one word by one thread in it. A hit costs its thread some 3 us, so that a turn takes
/// less than a hundredth of a thread's time.
const LIMITS: WatchLimits = WatchLimits {
    time: Duration::from_millis(5),
    hits_enough: 16,
    hits_max: 6,
};
/// Threads that are watched at a time.
const THREADS_MAX: usize = 64;
/// Words in the half of a line.
const HALF_WORDS: u64 = LINE_SIZE / 2 / WORD_BYTES;

/// Bearers of watches.
enum On {
    /// Threads, in their programs.
    Threads(Vec<WatchedThread>),
    /// All CPUs, for a line of the kernel.
    Kernel(u64),
}

impl On {
    /// Address of the line's first byte, as a thread knows it.
    fn line(&self, tid: u32) -> u64 {
        match self {
            On::Threads(threads) => {
                let own = threads.iter().find(|thread| thread.tid == tid);
                own.map_or(0, |thread| thread.line)
            }
            On::Kernel(line) => *line,
        }
    }
}

/// One who watches lines.
pub(super) struct Watcher<'a> {
    pub(super) sampler: &'a mut LineSampler,
    pub(super) memory: &'a Memory,
    pub(super) code: &'a mut Code,
    pub(super) threads: &'a mut BTreeMap<u32, SampledTask>,
}

impl Watcher<'_> {
    /// Watches both halves of a line: all accesses, and where there are some, the writes, which reads would hide.
    /// Returns how often a thread could not be watched.
    pub(super) fn round(&mut self, line: Line, candidate: &mut Candidate) -> u64 {
        let on = match is_kernels(line.address) {
            true => On::Kernel(line.address),
            false => On::Threads(self.threads(line, candidate)),
        };
        let mut seen = BTreeSet::new();
        let mut refused_count = 0;
        for half in 0..2 {
            if self.is_idle(half, candidate) {
                continue;
            }
            let any = self.turn(half, WatchedAccess::Any, &on, candidate);
            refused_count += any.refused_count;
            if !any.threads.is_empty() {
                let write = self.turn(half, WatchedAccess::Write, &on, candidate);
                refused_count += write.refused_count;
            }
            seen.extend(any.threads);
        }
        candidate.watched(seen.len() < 2);
        refused_count
    }

    /// Returns true if nobody has touched a half of the line yet, and it is not its turn to be looked at again.
    fn is_idle(&self, half: u64, candidate: &Candidate) -> bool {
        const AGAIN: u32 = 4;
        let is_known = candidate.touches.turns[half as usize].any >= 2;
        is_known && !candidate.touches.has_half(half) && !candidate.rounds.is_multiple_of(AGAIN)
    }

    /// The threads to watch: those with samples there, and the others in turn.
    fn threads(&self, line: Line, candidate: &Candidate) -> Vec<WatchedThread> {
        let at = |thread: SampledThread| {
            let line = self.memory.address_in(thread.pid, line)?;
            let tid = thread.tid;
            Some(WatchedThread { tid, line })
        };
        let all = self.sampler.threads().filter_map(at);
        let (mut first, others): (Vec<WatchedThread>, Vec<WatchedThread>) =
            all.partition(|thread| candidate.threads.contains_key(&thread.tid));
        // Each round begins behind the last one's.
        let room = THREADS_MAX.saturating_sub(first.len());
        let begin = (candidate.rounds as usize * room) % others.len().max(1);
        let others = others
            .iter()
            .cycle()
            .skip(begin)
            .take(room.min(others.len()));
        first.extend(others.copied());
        first.truncate(THREADS_MAX);
        first
    }

    /// Watches one half.
    fn turn(
        &mut self,
        half: u64,
        access: WatchedAccess,
        on: &On,
        candidate: &mut Candidate,
    ) -> Turned {
        let offset = |word| (half * HALF_WORDS + word) * WORD_BYTES;
        let watches: Vec<Watch> = (0..HALF_WORDS)
            .map(|word| Watch {
                offset: offset(word),
                access,
            })
            .collect();
        let watched = match on {
            On::Threads(threads) => self.sampler.watch(&watches, threads, LIMITS),
            On::Kernel(line) => self.sampler.watch_kernel(&watches, *line, LIMITS),
        };
        let is_write = access == WatchedAccess::Write;
        let turns = &mut candidate.touches.turns[half as usize];
        match is_write {
            true => turns.write += 1,
            false => turns.any += 1,
        }
        candidate.hit_count += watched.hits.len() as u64;
        let rates = rates(&watched);
        let mut touched = Vec::new();
        for hit in &watched.hits {
            let offset = watches[hit.watch].offset;
            let per_s = rates[&key(hit)];
            let thread = self.threads.entry(hit.seen.tid);
            let thread = thread.or_insert_with(|| SampledTask::new(hit.seen.tid));
            thread.touched(hit.seen.cpu);
            let touches = self.touches(hit, offset, is_write, on);
            for touch in &touches {
                candidate
                    .touches
                    .add(*touch, is_write, per_s, &hit.seen.callers);
            }
            touched.push(Touched {
                tid: hit.seen.tid,
                time_ns: hit.seen.time_ns,
                writes: touches.iter().any(|touch| touch.op.is_write()),
            });
        }
        if !is_write {
            candidate.changes.add(&touched);
        }
        Turned {
            threads: touched.iter().map(|one| one.tid).collect(),
            refused_count: watched.refused_count,
        }
    }

    /// The accesses that a hit tells of: those of the instruction before, or else the word.
    fn touches(&mut self, hit: &Hit, offset: u64, is_write: bool, on: &On) -> Vec<Touch> {
        let word = on.line(hit.seen.tid) + offset;
        let accesses = self.code.accesses(&hit.seen);
        let meets = |access: &&SeenAccess| {
            let own = access
                .address
                .map(|at| at..at.saturating_add(access.operand.bytes.max(1)));
            access.is_before
                && own.is_none_or(|own| own.start < word + WORD_BYTES && word < own.end)
        };
        // One whose address is known to be here tells more than one that may be.
        let found = accesses
            .iter()
            .filter(meets)
            .max_by_key(|access| access.address.is_some());
        let touch = |op, found: Option<&SeenAccess>| {
            let start = found.and_then(|access| access.address);
            let start = start.map_or(word, |start| start.max(word & !(LINE_SIZE - 1)));
            let bytes = found.map_or(WORD_BYTES, |access| access.operand.bytes.max(1));
            let offset = start % LINE_SIZE;
            Touch {
                pid: hit.seen.pid,
                tid: hit.seen.tid,
                code: found.map_or(hit.seen.code, |access| access.code),
                offset: offset as u8,
                size: bytes.min(LINE_SIZE - offset) as u8,
                op,
            }
        };
        let ops = operations(found, is_write);
        ops.iter().map(|op| touch(*op, found)).collect()
    }
}

/// Operations of an access; where the instruction is not known, what was watched for.
fn operations(access: Option<&SeenAccess>, is_write: bool) -> &'static [AccessOp] {
    let operand = access.map(|access| access.operand);
    match operand {
        Some(operand) if operand.is_locked => &[AccessOp::LockedRmw],
        Some(operand) if operand.reads && operand.writes => &[AccessOp::Load, AccessOp::Store],
        Some(operand) if operand.writes => &[AccessOp::Store],
        _ if is_write => &[AccessOp::Store],
        _ => &[AccessOp::Load],
    }
}

/// A watch of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    watch: usize,
    tid: u32,
}

fn key(hit: &Hit) -> Key {
    Key {
        watch: hit.watch,
        tid: hit.seen.tid,
    }
}

/// Rate in a second for which each hit of a watch stands, so that a watch that ended by itself counts for the whole
/// turn.
fn rates(watched: &Watched) -> BTreeMap<Key, f64> {
    let mut counts: BTreeMap<Key, Hits> = BTreeMap::new();
    for hit in &watched.hits {
        let hits = counts.entry(key(hit)).or_default();
        hits.count += 1;
        hits.last_ns = hit.seen.time_ns;
    }
    let rate = |hits: Hits| {
        let end = match hits.count >= LIMITS.hits_max {
            true => hits.last_ns,
            false => watched.ended_ns,
        };
        1e9 / end.saturating_sub(watched.begun_ns).max(1) as f64
    };
    counts
        .into_iter()
        .map(|(key, hits)| (key, rate(hits)))
        .collect()
}

#[derive(Debug, Clone, Copy, Default)]
struct Hits {
    count: u32,
    last_ns: u64,
}

/// Result of a turn.
struct Turned {
    /// Threads that touched the half.
    threads: BTreeSet<u32>,
    refused_count: u64,
}

/// A thread at a line.
#[derive(Debug, Clone, Copy)]
struct Touched {
    tid: u32,
    time_ns: u64,
    writes: bool,
}

/// Times that a line changed hands while it was used all the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Changes {
    count: u64,
    ns: u64,
}

impl Changes {
    /// Accesses further apart than this say nothing of each other: a thread slept, or a watch had ended.
    const GAP_MAX_NS: u64 = 100_000;

    /// Adds the accesses of a turn: another thread comes, and it or the one before writes.
    fn add(&mut self, touched: &[Touched]) {
        for pair in touched.windows(2) {
            let gap_ns = pair[1].time_ns.saturating_sub(pair[0].time_ns);
            if gap_ns <= Changes::GAP_MAX_NS {
                let is_change = pair[0].tid != pair[1].tid && (pair[0].writes || pair[1].writes);
                self.count += u64::from(is_change);
                self.ns += gap_ns;
            }
        }
    }

    /// Changes in a second of such use.
    pub(super) fn per_s(&self) -> u64 {
        (u128::from(self.count) * 1_000_000_000 / u128::from(self.ns.max(1))) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_and_pauses_change_nothing() {
        let touched = |tid, time_us: u64, writes| Touched {
            tid,
            time_ns: time_us * 1000,
            writes,
        };
        let of = |all: &[Touched]| {
            let mut changes = Changes::default();
            changes.add(all);
            changes.per_s()
        };
        assert_eq!(of(&[touched(1, 0, false), touched(2, 10, false)]), 0);
        assert_eq!(of(&[touched(1, 0, true), touched(1, 10, true)]), 0);
        assert_eq!(of(&[touched(1, 0, true), touched(2, 500, true)]), 0);
        let in_turn = [
            touched(1, 0, true),
            touched(2, 10, false),
            touched(1, 20, true),
        ];
        assert_eq!(of(&in_turn), 100_000);
    }
}
