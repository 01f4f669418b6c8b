//! Accesses to a line as watches saw them: which thread accesses which bytes, how often, and in which order.

use std::collections::{BTreeMap, BTreeSet};

use hitm_base::{AccessOp, LINE_SIZE};
use hitm_live::lines::{Seen, WORD_BYTES};

use super::super::programs::SeenAccess;
use super::visits::{Step, Visits};
use super::watching::operations;

/// Words of a line.
pub(super) const WORDS: usize = (LINE_SIZE / WORD_BYTES) as usize;

/// Turns in which threads met after which the others count for nothing. Assumed, 4 to 32: on two CPUs each two of four
/// threads meet in one of six.
const MEETINGS_ENOUGH: u32 = 16;

/// An access of one thread, by instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Touch {
    pub(super) pid: u32,
    pub(super) tid: u32,
    /// The instruction, as its process sees it.
    pub(super) code: u64,
    /// Offset in the line.
    pub(super) offset: u8,
    pub(super) size: u8,
    pub(super) op: AccessOp,
}

impl Touch {
    /// Touches of an access of a thread, of the line that has its first byte.
    pub(super) fn of(seen: &Seen, access: &SeenAccess) -> Vec<Touch> {
        let offset = access.address.unwrap_or(0) % LINE_SIZE;
        let touch = |op: &AccessOp| Touch {
            pid: seen.pid,
            tid: seen.tid,
            code: access.code,
            offset: offset as u8,
            size: access.operand.bytes.clamp(1, LINE_SIZE - offset) as u8,
            op: *op,
        };
        let is_write = access.operand.writes;
        operations(Some(access), is_write)
            .iter()
            .map(touch)
            .collect()
    }

    /// Its first word.
    pub(super) fn word(&self) -> usize {
        usize::from(self.offset) / WORD_BYTES as usize
    }
}

/// A touch that a watch has seen.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Touched {
    pub(super) touch: Touch,
    pub(super) cpu: u32,
    pub(super) time_ns: u64,
    /// Rate in a second for which it stands.
    pub(super) per_s: f64,
    pub(super) callers: Vec<u64>,
    /// True until the first watch of its thread has ended: before that nothing of the thread was missed.
    pub(super) is_in_order: bool,
}

impl Touched {
    /// Touches further apart than this say nothing of each other: a thread slept, or a watch had ended.
    pub(super) const SOON_NS: u64 = 100_000;

    /// Returns true if another touch came soon after.
    pub(super) fn is_soon_before(&self, other: &Touched) -> bool {
        other.time_ns.saturating_sub(self.time_ns) <= Touched::SOON_NS
    }
}

#[cfg(test)]
impl Touched {
    /// A touch of a line's first word by a thread on a CPU of its own.
    pub(super) const fn at(tid: u32, time_ns: u64, op: AccessOp) -> Touched {
        Touched {
            touch: Touch {
                pid: 1,
                tid,
                code: 0x10,
                offset: 0,
                size: 8,
                op,
            },
            cpu: tid,
            time_ns,
            per_s: 1.0,
            callers: Vec::new(),
            is_in_order: true,
        }
    }
}

/// Watches of some words at a time.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Turn {
    pub(super) words: Vec<usize>,
    /// By time.
    pub(super) touched: Vec<Touched>,
}

impl Turn {
    /// Returns true if threads met at the words: on two CPUs, one soon after the other. Else they may have had them one
    /// after the other.
    pub(super) fn has_met(&self) -> bool {
        self.meetings().next().is_some()
    }

    /// Returns true if this thread met another one.
    pub(super) fn has_met_by(&self, tid: u32) -> bool {
        self.meetings()
            .any(|pair| pair.iter().any(|one| one.touch.tid == tid))
    }

    fn meetings(&self) -> impl Iterator<Item = &[Touched]> {
        self.touched.windows(2).filter(|pair| {
            let [one, other] = [&pair[0], &pair[1]];
            one.is_soon_before(other) && one.touch.tid != other.touch.tid && one.cpu != other.cpu
        })
    }

    pub(super) fn threads(&self) -> BTreeSet<u32> {
        self.touched.iter().map(|one| one.touch.tid).collect()
    }
}

/// Rate of a touch.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct TouchRate {
    pub(super) touch: Touch,
    pub(super) per_s: f64,
    /// Samples of any thread that stand at its instruction.
    pub(super) samples: u64,
    pub(super) callers: Vec<u64>,
}

/// Accesses of a line that watches saw.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Touches {
    /// Of all turns, and of those in which threads met.
    all: Turns,
    met: Turns,
    met_count: u32,
    /// Callers of a touch, as they were first seen.
    callers: BTreeMap<Touch, Vec<u64>>,
}

impl Touches {
    /// Adds what was seen of some words: all accesses, and then writes if they were watched for as well.
    pub(super) fn add(&mut self, any: &Turn, writes: Option<&Turn>) {
        for one in any
            .touched
            .iter()
            .chain(writes.map_or(&[][..], |turn| &turn.touched))
        {
            let callers = self.callers.entry(one.touch);
            callers.or_insert_with(|| one.callers.clone());
        }
        self.all.add(any, writes);
        if any.has_met() {
            self.met.add(any, writes);
            self.met_count += 1;
        }
    }

    /// Adds the touches of one access that a sample stands for, where nothing is watched: those that follow each other
    /// are one visit.
    pub(super) fn sampled(&mut self, touches: &[Touch], callers: &[u64]) {
        for touch in touches {
            self.all.rates.entry(*touch).or_default()[0] += 1.0;
            let known = self.callers.entry(*touch);
            known.or_insert_with(|| callers.to_vec());
        }
        let steps = touches.iter().zip(0..);
        let steps = steps.map(|(touch, time_ns)| Step {
            touch: *touch,
            time_ns,
        });
        self.all.visits.add(&steps.collect::<Vec<Step>>());
    }

    /// Returns true if threads met often enough for those that did not to count for nothing.
    fn has_met_often(&self) -> bool {
        self.met_count >= MEETINGS_ENOUGH
    }

    /// Rates of what threads do when they meet, which is what they fight over: what a thread does while it is alone costs
    /// nobody anything. While there are few such turns, a thread that was in none of them has its rates from the others.
    fn told(&self) -> impl Iterator<Item = (Touch, f64)> + '_ {
        let met: BTreeSet<u32> = self.met.rates.keys().map(|touch| touch.tid).collect();
        let is_told = move |touch: &Touch| !self.has_met_often() && !met.contains(&touch.tid);
        let others = self.all.rates();
        let others = others.filter(move |(touch, _)| is_told(touch));
        self.met.rates().chain(others)
    }

    /// Mean rates, with the samples at each instruction.
    pub(super) fn rates(&self, samples: &BTreeMap<u64, u64>) -> Vec<TouchRate> {
        let rate = |(touch, per_s): (Touch, f64)| TouchRate {
            touch,
            per_s,
            samples: samples.get(&touch.code).copied().unwrap_or(0),
            callers: self.callers.get(&touch).cloned().unwrap_or_default(),
        };
        let mut rates: Vec<TouchRate> = self.told().map(rate).collect();
        rates.sort_unstable_by_key(|rate| rate.touch);
        rates
    }

    /// Orders of accesses.
    pub(super) fn visits(&self) -> &Visits {
        match self.has_met_often() {
            true => &self.met.visits,
            false => &self.all.visits,
        }
    }

    /// Words that somebody touches.
    pub(super) fn words(&self) -> BTreeSet<usize> {
        self.all.rates.keys().map(Touch::word).collect()
    }

    /// Returns true if several threads touch the line and one of them writes.
    pub(super) fn is_shared(&self) -> bool {
        let touches = || self.all.rates().map(|(touch, _)| touch);
        let threads: BTreeSet<u32> = touches().map(|touch| touch.tid).collect();
        threads.len() > 1 && touches().any(|touch| touch.op.is_write())
    }
}

/// Sums over turns.
#[derive(Debug, Clone, PartialEq, Default)]
struct Turns {
    /// Turns of each word.
    counts: [TurnCounts; WORDS],
    /// Rates where all accesses were watched, and where writes were.
    rates: BTreeMap<Touch, [f64; 2]>,
    visits: Visits,
}

/// Turns for all accesses, and for writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct TurnCounts {
    any: u32,
    write: u32,
}

impl Turns {
    fn add(&mut self, any: &Turn, writes: Option<&Turn>) {
        for word in &any.words {
            self.counts[*word].any += 1;
            self.counts[*word].write += u32::from(writes.is_some());
        }
        for (place, turn) in [Some(any), writes].into_iter().flatten().enumerate() {
            for one in &turn.touched {
                self.rates.entry(one.touch).or_default()[place] += one.per_s;
            }
        }
        for tid in any.threads() {
            let own = any.touched.iter();
            let own = own.filter(|one| one.touch.tid == tid && one.is_in_order);
            let steps = own.map(|one| Step {
                touch: one.touch,
                time_ns: one.time_ns,
            });
            self.visits.add(&steps.collect::<Vec<Step>>());
        }
    }

    /// Mean rates. Those of writes come from the turns for writes, which reads do not end; but a thread that was away
    /// then has its own from the others.
    fn rates(&self) -> impl Iterator<Item = (Touch, f64)> + '_ {
        self.rates.iter().map(|(touch, [any, write])| {
            let counts = self.counts[touch.word()];
            let (sum, count) = match touch.op.is_write() && *write > 0.0 {
                true => (write, counts.write),
                false => (any, counts.any),
            };
            (*touch, sum / f64::from(count.max(1)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touched(tid: u32, op: AccessOp, per_s: f64) -> Touched {
        Touched {
            per_s,
            ..Touched::at(tid, 0, op)
        }
    }

    fn turn(touched: &[Touched]) -> Turn {
        Turn {
            words: vec![0],
            touched: touched.to_vec(),
        }
    }

    fn rates(touches: &Touches) -> Vec<f64> {
        let rates = touches.rates(&BTreeMap::new());
        rates.iter().map(|rate| rate.per_s).collect()
    }

    #[test]
    fn a_line_is_shared_when_one_of_several_writes() {
        let [one, other] = [1, 2].map(|tid| touched(tid, AccessOp::Load, 5.0));
        let mut touches = Touches::default();
        touches.add(&turn(&[one, other]), None);
        assert!(!touches.is_shared());
        touches.add(&turn(&[touched(2, AccessOp::Store, 0.5)]), None);
        assert!(touches.is_shared());
    }

    #[test]
    fn an_access_that_reads_and_writes_is_one_visit() {
        let [load, store] = [AccessOp::Load, AccessOp::Store].map(|op| touched(1, op, 0.0).touch);
        let mut touches = Touches::default();
        touches.sampled(&[load, store], &[0x20]);
        touches.sampled(&[load], &[]);
        assert!(!touches.is_shared());
        touches.sampled(&[Touch { tid: 2, ..load }], &[]);
        assert!(touches.is_shared());
        assert_eq!(rates(&touches), [2.0, 1.0, 1.0]);
        let mut visits = Visits::default();
        visits.add(&[load, store].map(|touch| Step {
            touch,
            time_ns: u64::from(touch.op.is_write()),
        }));
        assert_eq!(*touches.visits(), visits);
    }

    #[test]
    fn rates_of_writes_are_those_of_the_turns_for_writes() {
        let seen = |per_s| turn(&[touched(1, AccessOp::Store, per_s)]);
        let mut touches = Touches::default();
        touches.add(&seen(100.0), Some(&seen(10.0)));
        touches.add(&seen(100.0), Some(&seen(30.0)));
        touches.add(&seen(100.0), None);
        assert_eq!(rates(&touches), [20.0]);
    }

    #[test]
    fn rates_are_those_of_turns_in_which_threads_met() {
        let [one, other] = [1, 2].map(|tid| touched(tid, AccessOp::LockedRmw, 8.0));
        let mut touches = Touches::default();
        touches.add(&turn(&[touched(1, AccessOp::LockedRmw, 100.0)]), None);
        assert_eq!(rates(&touches), [100.0]);
        let mut same_cpu = other.clone();
        same_cpu.cpu = one.cpu;
        let mut later = other.clone();
        later.time_ns = 2 * Touched::SOON_NS;
        touches.add(&turn(&[one.clone(), same_cpu]), None);
        touches.add(&turn(&[one.clone(), later]), None);
        let all: Vec<f64> = rates(&touches).iter().map(|rate| rate.round()).collect();
        assert_eq!(all, [39.0, 5.0]);
        touches.add(&turn(&[one.clone(), other.clone()]), None);
        assert_eq!(rates(&touches), [8.0, 8.0]);
        // A third thread is alone, as long as few have met.
        touches.add(&turn(&[touched(3, AccessOp::Store, 20.0)]), None);
        assert_eq!(rates(&touches).len(), 3);
        for _ in 0..MEETINGS_ENOUGH {
            touches.add(&turn(&[one.clone(), other.clone()]), None);
        }
        assert_eq!(rates(&touches), [8.0, 8.0]);
    }
}
