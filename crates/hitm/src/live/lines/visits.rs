//! Visits of threads to a line: accesses of one thread that follow each other.
//!
//! A thread that has got a line goes on with it, for some nanoseconds: it takes a lock, reads what the lock is for,
//! and gives it back. So an access is cheap if another one of its visit came before. Watches stop a thread at each
//! access for longer than that, which mixes the accesses of several threads as no CPU would, but leaves those of each
//! thread in order. A visit is a run of different accesses in this order. It begins where the thread waits for the
//! line, and so where samples stand.

use std::collections::BTreeMap;

use hitm_base::{AccessOp, Random};

use super::touches::{Touch, TouchRate};

/// Accesses are of two visits if they are further apart than so many of the shortest gaps. A gap is mostly the time of
/// a hit, which is even: 1 to 12 us by host. Assumed, 2 to 8.
const GAP_MAX: u64 = 4;
/// Cycles after which the next thread has the line, for which it has waited. Assumed, 30 to 100: it is on its way as
/// soon as its owner's first access is done.
const VISIT_CYCLES: u64 = 50;
/// Cycles of a locked operation and of any other access to a line that is there (A. Fog, Instruction tables).
const LOCKED_CYCLES: u64 = 20;
const PLAIN_CYCLES: u64 = 4;
/// Samples for which the rates of a thread's accesses stand, beside the samples at them. Assumed.
const SAMPLES_OF_RATES: f64 = 4.0;

/// An access of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) touch: Touch,
    pub(super) time_ns: u64,
}

/// Two accesses of a visit, one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Pair {
    first: Touch,
    next: Touch,
}

/// Orders in which threads touch a line.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Visits {
    pairs: BTreeMap<Pair, u32>,
    /// Accesses behind which another one was seen, in their visit or not.
    followed: BTreeMap<Touch, u32>,
}

impl Visits {
    /// Adds what one thread did in a turn, by time and without gaps.
    pub(super) fn add(&mut self, steps: &[Step]) {
        let gap = |pair: &[Step]| pair[1].time_ns.saturating_sub(pair[0].time_ns);
        let gaps = steps.windows(2).map(gap);
        let shortest = gaps.filter(|gap| *gap > 0).min().unwrap_or(0);
        for pair in steps.windows(2) {
            let [first, next] = [pair[0].touch, pair[1].touch];
            *self.followed.entry(first).or_default() += 1;
            if gap(pair) <= GAP_MAX * shortest {
                *self.pairs.entry(Pair { first, next }).or_default() += 1;
            }
        }
    }

    /// Part of the accesses `first` that `next` follows in the same visit.
    fn next_share(&self, first: Touch, next: Touch) -> f64 {
        let count = self.pairs.get(&Pair { first, next }).copied();
        let all = self.followed.get(&first).copied();
        f64::from(count.unwrap_or(0)) / f64::from(all.unwrap_or(1))
    }
}

/// Chances of the accesses of a line, which are known by their places in its rates.
pub(super) struct Chances {
    threads: Vec<Weighted<Thread>>,
    /// Of each access.
    cycles: Vec<u64>,
    /// Behind each access.
    next: Vec<Vec<Weighted<usize>>>,
}

struct Thread {
    /// Accesses that begin its visits.
    first: Vec<Weighted<usize>>,
}

struct Weighted<T> {
    weight: f64,
    of: T,
}

impl Chances {
    pub(super) fn of(rates: &[TouchRate], visits: &Visits) -> Chances {
        let next = |first: &TouchRate| {
            let next = rates.iter().enumerate().map(|(of, next)| Weighted {
                weight: visits.next_share(first.touch, next.touch),
                of,
            });
            next.filter(|next| next.weight > 0.0).collect()
        };
        let mut chances = Chances {
            threads: threads(rates),
            cycles: rates.iter().map(|rate| cycles(rate.touch.op)).collect(),
            next: rates.iter().map(next).collect(),
        };
        chances.count_accesses();
        chances
    }

    /// Turns accesses in a second into visits: by the mean length of some.
    fn count_accesses(&mut self) {
        const SOME: usize = 64;
        let mut random = Random::new(0);
        let lengths = self.threads.iter().map(|thread| {
            let visits = (0..SOME).map(|_| self.visit_of(&thread.of, &mut random).len());
            visits.sum::<usize>()
        });
        let lengths: Vec<usize> = lengths.collect();
        for (thread, length) in self.threads.iter_mut().zip(lengths) {
            thread.weight /= length as f64;
        }
    }

    /// Returns true if nobody visits the line.
    pub(super) fn is_empty(&self) -> bool {
        self.threads.is_empty()
    }

    /// A visit by chance.
    pub(super) fn visit(&self, random: &mut Random) -> Vec<usize> {
        let sum = self.threads.iter().map(|thread| thread.weight).sum();
        let thread = drawn(&self.threads, sum, random);
        thread.map_or_else(Vec::new, |thread| self.visit_of(thread, random))
    }

    fn visit_of(&self, thread: &Thread, random: &mut Random) -> Vec<usize> {
        let sum = thread.first.iter().map(|first| first.weight).sum();
        let mut next = drawn(&thread.first, sum, random).copied();
        let mut visit = Vec::new();
        let mut cycles = 0;
        while let Some(access) = next.filter(|access| !visit.contains(access))
            && cycles < VISIT_CYCLES
        {
            visit.push(access);
            cycles += self.cycles[access];
            next = drawn(&self.next[access], 1.0, random).copied();
        }
        visit
    }
}

const fn cycles(op: AccessOp) -> u64 {
    match op {
        AccessOp::LockedRmw => LOCKED_CYCLES,
        _ => PLAIN_CYCLES,
    }
}

/// The threads of a line by their rates, with those accesses that a visit may begin with. An access whose rate is 0
/// begins none.
fn threads(rates: &[TouchRate]) -> Vec<Weighted<Thread>> {
    let mut threads: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    let places = rates.iter().enumerate();
    for (place, rate) in places.filter(|(_, rate)| rate.per_s > 0.0) {
        threads.entry(rate.touch.tid).or_default().push(place);
    }
    let threads = threads.into_values().map(|own| {
        let sum: f64 = own.iter().map(|place| rates[*place].per_s).sum();
        let is_first = |touch: Touch| {
            // An instruction that reads and writes waits when it reads.
            let mut others = own.iter().map(|place| rates[*place].touch);
            let load = Touch {
                op: AccessOp::Load,
                ..touch
            };
            touch.op == AccessOp::Load || others.all(|other| other != load)
        };
        let first = own.iter().filter(|place| is_first(rates[**place].touch));
        let first = first.map(|place| Weighted {
            weight: rates[*place].samples as f64 + SAMPLES_OF_RATES * rates[*place].per_s / sum,
            of: *place,
        });
        Weighted {
            weight: sum,
            of: Thread {
                first: first.collect(),
            },
        }
    });
    threads.collect()
}

/// One by chance, by weights; none for the rest up to a sum.
fn drawn<'w, T>(all: &'w [Weighted<T>], sum: f64, random: &mut Random) -> Option<&'w T> {
    let mut at = random.unit() * sum;
    let found = all.iter().find(|one| {
        at -= one.weight;
        at < 0.0
    });
    found.map(|one| &one.of)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn touch(tid: u32, offset: u8) -> Touch {
        Touch {
            pid: 1,
            tid,
            code: offset as u64,
            offset,
            size: 8,
            op: AccessOp::Load,
        }
    }

    const fn rate(touch: Touch, per_s: f64, samples: u64) -> TouchRate {
        TouchRate {
            touch,
            per_s,
            samples,
            callers: Vec::new(),
        }
    }

    /// Steps of thread 1, by offset and microsecond.
    fn steps(all: &[[u8; 2]]) -> Vec<Step> {
        let step = |[offset, time_us]: &[u8; 2]| Step {
            touch: touch(1, *offset),
            time_ns: u64::from(*time_us) * 1000,
        };
        all.iter().map(step).collect()
    }

    fn visits(of: &[Step], rates: &[TouchRate]) -> Vec<Vec<usize>> {
        let mut visits = Visits::default();
        visits.add(of);
        let chances = Chances::of(rates, &visits);
        let mut random = Random::new(1);
        (0..1000).map(|_| chances.visit(&mut random)).collect()
    }

    #[test]
    fn a_visit_begins_where_samples_stand() {
        let steps = steps(&[[8, 0], [16, 3], [0, 6], [8, 9], [16, 15], [0, 18], [8, 21]]);
        let [one, other, last] = [0, 8, 16].map(|offset| rate(touch(1, offset), 5.0, 0));
        let first = TouchRate {
            samples: 1_000_000,
            ..one
        };
        let visits = visits(&steps, &[first, other, last]);
        assert!(visits.iter().all(|visit| *visit == [0, 1, 2]));
    }

    #[test]
    fn pauses_and_repetition_end_a_visit() {
        let rates = [0, 8].map(|offset| rate(touch(1, offset), 5.0, 0));
        let visits = visits(&steps(&[[0, 0], [0, 3], [8, 90]]), &rates);
        let is_single = visits.iter().all(|visit| visit.len() == 1);
        let first = visits.iter().filter(|visit| visit[0] == 0).count();
        assert!(is_single && (400..600).contains(&first), "{first}");
    }

    #[test]
    fn a_visit_ends_when_the_next_one_has_waited() {
        let locked = |offset| Touch {
            op: AccessOp::LockedRmw,
            ..touch(1, offset)
        };
        let all = [0, 8, 16, 24].map(locked);
        let steps = (0..)
            .zip(all)
            .map(|(time_ns, touch)| Step { touch, time_ns });
        let rates = all.map(|touch| rate(touch, 5.0, 0));
        let visits = visits(&steps.collect::<Vec<Step>>(), &rates);
        assert_eq!(visits.iter().map(Vec::len).max(), Some(3));
    }

    #[test]
    fn threads_come_in_proportion_to_their_accesses() {
        let steps = steps(&[[0, 0], [8, 3], [0, 6], [8, 9], [0, 12]]);
        let rates = [touch(1, 0), touch(1, 8), touch(2, 0)].map(|touch| rate(touch, 5.0, 0));
        let visits = visits(&steps, &rates);
        let own = visits.iter().filter(|visit| visit.len() == 2).count();
        assert!((450..550).contains(&own), "{own}");
        assert!(visits.contains(&vec![2]));
    }

    #[test]
    fn accesses_without_a_rate_begin_no_visit() {
        let store = Touch {
            op: AccessOp::Store,
            ..touch(1, 0)
        };
        let rates = [
            rate(touch(1, 0), 0.0, 0),
            rate(store, 5.0, 0),
            rate(touch(2, 0), 0.0, 3),
        ];
        let with_rates = visits(&[], &rates);
        assert!(with_rates.iter().all(|visit| *visit == [1]));
        let without = visits(&[], &rates[2..]);
        assert!(without.iter().all(Vec::is_empty));
    }

    #[test]
    fn what_an_instruction_writes_follows_what_it_reads() {
        let store = Touch {
            op: AccessOp::Store,
            ..touch(1, 0)
        };
        let both = [touch(1, 0), store].map(|touch| Step { touch, time_ns: 0 });
        let rates = [touch(1, 0), store].map(|touch| rate(touch, 5.0, 7));
        let visits = visits(&both, &rates);
        assert!(visits.iter().all(|visit| *visit == [0, 1]));
    }
}
