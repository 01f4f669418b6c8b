//! Rounds of watches: who touches which bytes of a line, and how often.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use hitm_base::{AccessOp, LINE_SIZE};
use hitm_live::lines::{
    Calibration, Hit, LineSampler, SampledThread, WATCHES_MAX, WORD_BYTES, Watch, WatchLimits,
    Watched, WatchedAccess, WatchedThread,
};

use super::super::programs::SeenAccess;
use super::candidates::Candidate;
use super::code::Code;
use super::memory::{Line, Memory, Space};
use super::observed::SampledTask;
use super::pace::{Armed, Costs};
use super::touches::{Touch, Touched, Turn, WORDS};

/// Length of a turn, and hits of one word by one thread in it. A hit costs its thread some 3 us, so that a turn takes
/// less than a hundredth of a thread's time.
const LIMITS: WatchLimits = WatchLimits {
    time: Duration::from_millis(5),
    hits_enough: 16,
    hits_max: 6,
};
/// Threads that are watched at a time.
const THREADS_MAX: usize = 64;
/// Rounds after which words that nobody has touched are looked at again.
const AGAIN: u32 = 4;

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

/// Result of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Round {
    /// Times that a thread could not be watched.
    pub(super) refused_count: u64,
    /// Times that a thread was stopped: at a hit, and as long to set a watch and to take it away if it ran just then,
    /// which is taken to be so each second time.
    pub(super) stop_count: u64,
}

/// One who watches lines.
pub(super) struct Watcher<'a> {
    pub(super) sampler: &'a mut LineSampler,
    pub(super) memory: &'a Memory,
    pub(super) code: &'a mut Code,
    pub(super) threads: &'a mut BTreeMap<u32, SampledTask>,
    pub(super) figures: Calibration,
}

impl Watcher<'_> {
    /// Watches a line: all accesses, and where there are some, the writes, which reads would hide.
    pub(super) fn round(&mut self, line: Line, candidate: &mut Candidate) -> Round {
        let on = match line.space {
            Space::Kernel => On::Kernel(line.at),
            _ => On::Threads(self.threads(line, candidate)),
        };
        let mut seen = BTreeSet::new();
        let mut round = Round::default();
        let mut turns = Vec::new();
        for words in words(candidate) {
            let any = self.turn(&words, WatchedAccess::Any, &on);
            let write = (self.figures.watches_writes && !any.turn.touched.is_empty())
                .then(|| self.turn(&words, WatchedAccess::Write, &on));
            for turned in std::iter::once(&any).chain(&write) {
                candidate.hit_count += turned.hit_count;
                round.refused_count += turned.refused_count;
                round.stop_count += turned.hit_count + turned.counted_count / 2;
            }
            let write = write.as_ref().map(|write| &write.turn);
            candidate.touches.add(&any.turn, write);
            seen.extend(any.turn.threads());
            turns.push((any.turn, any.armed));
        }
        candidate.pace.round(&turns, self.costs(&on));
        candidate.watched(seen.len() < 2);
        round
    }

    /// Costs of these watches. Those of CPUs do not know when a thread began to run.
    fn costs(&self, on: &On) -> Costs {
        let Calibration {
            hit_ns,
            armed_ns,
            begun_ns,
            ..
        } = self.figures;
        let costs = Costs {
            hit_ns,
            armed_ns,
            begun_ns,
        };
        match on {
            On::Threads(_) => costs,
            On::Kernel(_) => costs.of_hits(),
        }
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

    /// Watches some words.
    fn turn(&mut self, words: &[usize], access: WatchedAccess, on: &On) -> Turned {
        let watch = |word: &usize| Watch {
            offset: *word as u64 * WORD_BYTES,
            access,
        };
        let watches: Vec<Watch> = words.iter().map(watch).collect();
        let watched = match on {
            On::Threads(threads) => self.sampler.watch(&watches, threads, LIMITS),
            On::Kernel(line) => self.sampler.watch_kernel(&watches, *line, LIMITS),
        };
        let hits = Hits::of(&watched);
        let mut touched = Vec::new();
        for hit in &watched.hits {
            let thread = self.threads.entry(hit.seen.tid);
            let thread = thread.or_insert_with(|| SampledTask::new(hit.seen.tid));
            thread.touched(hit.seen.cpu);
            let touches = self.touches(hit, watches[hit.watch], on);
            touched.extend(touches.into_iter().map(|touch| Touched {
                touch,
                cpu: hit.seen.cpu,
                time_ns: hit.seen.time_ns,
                per_s: hits.per_s(hit),
                callers: hit.seen.callers.clone(),
                is_in_order: hits.is_in_order(hit),
            }));
        }
        let counted = watched.armed.iter().filter(|watch| watch.counted_ns > 0);
        Turned {
            turn: Turn {
                words: words.to_vec(),
                touched,
            },
            armed: hits.armed(),
            hit_count: watched.hits.len() as u64,
            counted_count: counted.count() as u64,
            refused_count: watched.refused_count,
        }
    }

    /// The accesses that a hit tells of: those of the instruction before, or else the word. An access to several words
    /// is told of by its first one.
    fn touches(&mut self, hit: &Hit, watch: Watch, on: &On) -> Vec<Touch> {
        let word = on.line(hit.seen.tid) + watch.offset;
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
        let ops = operations(found, watch.access == WatchedAccess::Write);
        let touches = ops.iter().map(|op| touch(*op, found));
        touches
            .filter(|touch| touch.word() as u64 * WORD_BYTES == watch.offset)
            .collect()
    }
}

/// Operations of an access; where the instruction is not known, what was watched for.
pub(super) fn operations(access: Option<&SeenAccess>, is_write: bool) -> &'static [AccessOp] {
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

/// Hits of the watches of a turn.
struct Hits<'w> {
    watched: &'w Watched,
    by_watch: BTreeMap<Key, OfWatch>,
    /// The first watch of a thread that ended.
    first_ends: BTreeMap<u32, FirstEnd>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FirstEnd {
    watch: usize,
    time_ns: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct OfWatch {
    count: u32,
    last_ns: u64,
    /// Time for which a thread's watch counted.
    counted_ns: Option<u64>,
}

impl Hits<'_> {
    fn of(watched: &Watched) -> Hits<'_> {
        let mut hits = Hits {
            watched,
            by_watch: BTreeMap::new(),
            first_ends: BTreeMap::new(),
        };
        for hit in &watched.hits {
            let of = hits.by_watch.entry(key(hit)).or_default();
            of.count += 1;
            of.last_ns = hit.seen.time_ns;
            if of.count >= LIMITS.hits_max {
                let end = hits.first_ends.entry(hit.seen.tid);
                end.or_insert(FirstEnd {
                    watch: hit.watch,
                    time_ns: hit.seen.time_ns,
                });
            }
        }
        for armed in &watched.armed {
            let key = Key {
                watch: armed.watch,
                tid: armed.tid,
            };
            if let Some(of) = hits.by_watch.get_mut(&key) {
                of.counted_ns = Some(armed.counted_ns);
            }
        }
        hits
    }

    /// Rate in a second for which a hit stands, so that a watch that ended by itself counts for the whole turn. It is of
    /// the time for which the thread ran: one that waits for a CPU when its watch begins does no less to the line when
    /// it has one. Watches of CPUs do not know that time.
    fn per_s(&self, hit: &Hit) -> f64 {
        let of = self.by_watch[&key(hit)];
        let ran_ns = of.counted_ns.unwrap_or_else(|| {
            let end = match of.count >= LIMITS.hits_max {
                true => of.last_ns,
                false => self.watched.ended_ns,
            };
            end.saturating_sub(self.watched.begun_ns)
        });
        1e9 / ran_ns.max(1) as f64
    }

    /// The watch of each thread that ended first, or one that did not end. Watches of CPUs do not know when a thread ran.
    fn armed(&self) -> BTreeMap<u32, Armed> {
        let on_cpus = self.by_watch.keys().map(|key| {
            let until_ns = self.first_ends.get(&key.tid).map(|end| end.time_ns);
            let since_ns = self.watched.armed_ns;
            let until_ns = until_ns.unwrap_or(self.watched.ended_ns);
            let armed = Armed {
                since_ns,
                counted_ns: until_ns.saturating_sub(since_ns),
                ended_ns: self.first_ends.get(&key.tid).map(|end| end.time_ns),
            };
            (key.tid, armed)
        });
        let threads = self.watched.armed.iter().filter_map(|watch| {
            let end = self.first_ends.get(&watch.tid);
            let is_first = end.is_none_or(|end| end.watch == watch.watch);
            let armed = Armed {
                since_ns: watch.since_ns,
                counted_ns: watch.counted_ns,
                ended_ns: end.map(|end| end.time_ns),
            };
            is_first.then_some((watch.tid, armed))
        });
        on_cpus.chain(threads).collect()
    }

    /// Returns true if all watches of the thread counted until then.
    fn is_in_order(&self, hit: &Hit) -> bool {
        let end = self.first_ends.get(&hit.seen.tid);
        end.is_none_or(|end| hit.seen.time_ns <= end.time_ns)
    }
}

/// Result of a turn.
struct Turned {
    turn: Turn,
    armed: BTreeMap<u32, Armed>,
    hit_count: u64,
    /// Watches of threads that ran.
    counted_count: u64,
    refused_count: u64,
}

/// Words to watch in a round, as many at a time as can be: all of them, or those that somebody touches.
fn words(candidate: &Candidate) -> Vec<Vec<usize>> {
    let touched = candidate.touches.words();
    let all: Vec<usize> = (0..WORDS).collect();
    let halves = all.chunks(WATCHES_MAX);
    if candidate.rounds < 2 || candidate.rounds.is_multiple_of(AGAIN) || touched.is_empty() {
        return halves.map(<[usize]>::to_vec).collect();
    }
    // Together they tell in which order a thread touches them.
    if touched.len() <= WATCHES_MAX {
        return vec![touched.into_iter().collect()];
    }
    let used = halves.filter(|half| half.iter().any(|word| touched.contains(word)));
    used.map(<[usize]>::to_vec).collect()
}

#[cfg(test)]
mod tests {
    use hitm_live::lines::{ArmedWatch, Seen};

    use super::*;

    fn touched(tid: u32, time_us: u64, op: AccessOp) -> Touched {
        Touched::at(tid, time_us * 1000, op)
    }

    #[test]
    fn words_that_are_touched_are_watched_at_a_time() {
        let mut candidate = Candidate::default();
        let halves = [vec![0, 1, 2, 3], vec![4, 5, 6, 7]];
        let mut at = |offset| {
            let mut one = touched(1, 0, AccessOp::Load);
            one.touch.offset = offset;
            let turn = Turn {
                words: vec![usize::from(offset) / 8],
                touched: vec![one],
            };
            candidate.touches.add(&turn, None);
            [3, 4].map(|rounds| {
                candidate.rounds = rounds;
                words(&candidate)
            })
        };
        assert_eq!(at(12), [vec![vec![1]], halves.to_vec()]);
        assert_eq!(at(63), [vec![vec![1, 7]], halves.to_vec()]);
        [16, 24, 0].iter().for_each(|offset| drop(at(*offset)));
        assert_eq!(at(8), [halves.to_vec(), halves.to_vec()]);
    }

    #[test]
    fn a_thread_that_waits_for_a_cpu_is_as_fast_as_the_others() {
        const PERIOD_NS: u64 = 12_000;
        let hit = |tid, begin_ns: u64, number: u64| Hit {
            watch: 0,
            seen: Seen {
                tid,
                time_ns: begin_ns + number * PERIOD_NS,
                ..Seen::default()
            },
        };
        let watched = |hits_of_each: u64, counted_ns| {
            let begins = [(1, 0), (2, 3_000_000)];
            let hits = begins.iter().flat_map(|(tid, begin_ns)| {
                (0..hits_of_each).map(|number| hit(*tid, *begin_ns, number))
            });
            let armed = |(tid, _): (u32, u64)| ArmedWatch {
                watch: 0,
                tid,
                since_ns: 0,
                counted_ns,
            };
            Watched {
                hits: hits.collect(),
                armed: begins.map(armed).to_vec(),
                ended_ns: 5_000_000,
                ..Watched::default()
            }
        };
        // One that ended itself, and one that counted until the turn was over.
        for (hits_of_each, counted_ns) in [(u64::from(LIMITS.hits_max), 80_000), (2, 2_000_000)] {
            let watched = watched(hits_of_each, counted_ns);
            let hits = Hits::of(&watched);
            let rates = watched.hits.iter().map(|hit| hits.per_s(hit));
            let expected = 1e9 / counted_ns as f64;
            assert!(rates.into_iter().all(|rate| rate == expected));
        }
        // Of CPUs nobody knows when the thread ran.
        let on_cpus = Watched {
            armed: Vec::new(),
            ..watched(2, 0)
        };
        let hits = Hits::of(&on_cpus);
        assert_eq!(hits.per_s(&on_cpus.hits[0]), 1e9 / 5e6);
    }
}
