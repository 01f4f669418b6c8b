//! Rates at which threads access a line while nobody watches it, at least.
//!
//! A watch stops its thread at each access for longer than the access takes, and ends after a few. So time that hits
//! took is not the thread's own, and a rate is that of accesses over the CPU time for which a watch was armed. Watches
//! begin at any time, in the mean in the middle of a pause: the time to the first access counts twice. A watch that
//! ended by itself ended at an access, which then does not count. What is left of a rate holds in those turns in which
//! a thread met others, of those in which it ran. It is known with the error of their number.

use std::collections::{BTreeMap, BTreeSet};

use super::touches::{Touched, Turn};

/// Part of a calibrated hit that is deducted. Eight calibrations of one host were within 2.5 %.
const DEDUCTED: f64 = 0.95;
/// Standard errors below the mean.
const ERRORS: f64 = 2.0;

/// Times that watches take, at least: those of this host's calibration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Costs {
    /// Of a hit.
    pub(super) hit_ns: u64,
    /// From the moment at which a thread that ran was watched to its first hit, at least.
    pub(super) armed_ns: u64,
    /// The same of a thread that began to run later, with what is behind the hit that ended its watch.
    pub(super) begun_ns: u64,
}

impl Costs {
    /// Those of hits alone: nobody knows what else watches took.
    pub(super) const fn of_hits(self) -> Costs {
        Costs {
            hit_ns: self.hit_ns,
            armed_ns: 0,
            begun_ns: 0,
        }
    }
}

/// Watch of a thread in a turn: the first one that ended, or one that did not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Armed {
    /// Begin of its counting.
    pub(super) since_ns: u64,
    /// Time for which it counted while the thread ran.
    pub(super) counted_ns: u64,
    /// Time of the access at which it ended by itself.
    pub(super) ended_ns: Option<u64>,
}

/// A turn, and the watches of its threads.
pub(super) type ArmedTurn = (Turn, BTreeMap<u32, Armed>);

/// A thread in turns in which others ran, too.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct OfThread {
    /// Rounds in which it ran and could have met others.
    rounds: u32,
    /// Turns in which it met others, with its accesses in some CPU time.
    met_turns: u32,
    touches: f64,
    ns: f64,
}

/// Accesses to a line in time that was nobody's hit.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Pace {
    met_rounds: u32,
    threads: BTreeMap<u32, OfThread>,
}

impl Pace {
    /// Adds the turns of a round, in which all accesses were watched.
    pub(super) fn round(&mut self, turns: &[ArmedTurn], costs: Costs) {
        let armed = || turns.iter().flat_map(|one| &one.1);
        let watched: BTreeSet<u32> = armed().map(|(tid, _)| *tid).collect();
        if watched.len() < 2 {
            return;
        }
        let running = armed().filter(|(_, armed)| armed.counted_ns > 0);
        let running: BTreeSet<u32> = running.map(|(tid, _)| *tid).collect();
        for tid in running {
            let mut own = turns.iter().filter(|one| one.0.threads().contains(&tid));
            let is_known = own.clone().next().is_none() || own.any(|one| !is_late(one, tid));
            self.threads.entry(tid).or_default().rounds += u32::from(is_known);
        }
        self.met_rounds += u32::from(turns.iter().any(|one| one.0.has_met()));
        for one in turns {
            let (turn, armed) = (&one.0, &one.1);
            let met = turn.threads().into_iter();
            for tid in met.filter(|tid| turn.has_met_by(*tid) && !is_late(one, *tid)) {
                if let Some(armed) = armed.get(&tid) {
                    let own = self.threads.entry(tid).or_default();
                    own.add(turn, tid, *armed, costs);
                }
            }
        }
    }

    /// Accesses of each thread in a second of its CPU time, with pauses, in the mean.
    pub(super) fn per_s(&self) -> BTreeMap<u32, f64> {
        let known = self.threads.iter().filter(|(_, own)| own.ns > 0.0);
        known.map(|(tid, own)| (*tid, own.per_s())).collect()
    }

    /// Part of such a mean that is certain, by the number of rounds in which threads met: their standard deviation is
    /// taken to be the mean, as that of times between events by chance is.
    pub(super) fn certain_part(&self) -> f64 {
        (1.0 - ERRORS / f64::from(self.met_rounds).sqrt()).max(0.0)
    }
}

/// Returns true if a thread touched the words soon after it had begun to run, when the watch of another one had ended:
/// such a turn does not tell whether that one touched them at the same time.
fn is_late(one: &ArmedTurn, tid: u32) -> bool {
    let (turn, armed) = (&one.0, &one.1);
    let own = || turn.touched.iter().filter(|one| one.touch.tid == tid);
    let times = own().next().zip(own().next_back());
    let Some((times, watch)) = times.zip(armed.get(&tid)) else {
        return false;
    };
    let (first_ns, last_ns) = (times.0.time_ns, times.1.time_ns);
    let beside_ns = watch.counted_ns.saturating_sub(last_ns - first_ns);
    let others = armed.iter().filter(|(other, _)| **other != tid);
    let mut ends = others.filter_map(|(_, armed)| armed.ended_ns);
    watch.ended_ns.is_some()
        && beside_ns <= Touched::SOON_NS
        && ends.any(|end_ns| first_ns.saturating_sub(end_ns) > Touched::SOON_NS)
}

impl OfThread {
    /// Adds a turn in which thread `tid` met others.
    fn add(&mut self, turn: &Turn, tid: u32, armed: Armed, costs: Costs) {
        let own = turn.touched.iter();
        let own = own.filter(|one| one.touch.tid == tid && one.is_in_order);
        let (touches, early): (Vec<u64>, Vec<u64>) = own
            .map(|one| one.time_ns)
            .partition(|time_ns| *time_ns >= armed.since_ns);
        // One that was there before has taken that time, or some of it.
        let costs = match early.is_empty() {
            true => costs,
            false => costs.of_hits(),
        };
        // An instruction that reads and writes is two accesses at one hit.
        let hits: Vec<u64> = touches
            .iter()
            .copied()
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect();
        let Some(spent) = armed.spent(&hits, costs) else {
            return;
        };
        self.met_turns += 1;
        self.touches += touches.len() as f64 * spent.counted as f64 / hits.len() as f64;
        self.ns += spent.ns;
    }

    fn per_s(&self) -> f64 {
        let met_share = f64::from(self.met_turns) / f64::from(self.rounds.max(1));
        met_share * self.touches / self.ns * 1e9
    }
}

/// Accesses in time that was the thread's own.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Spent {
    /// Hits that count.
    counted: usize,
    ns: f64,
}

impl Armed {
    /// The thread's own time, with that to its first hit twice, and the hits that count. The kernel ends a watch before
    /// it notes the time of the last hit: where one ended, its time is that to the hit before, which does not count.
    fn spent(&self, hits: &[u64], costs: Costs) -> Option<Spent> {
        let (first, last) = (*hits.first()?, *hits.last()?);
        let ran_ns = self.counted_ns as f64;
        let hit_ns = costs.hit_ns as f64;
        // Hits are apart in time that goes on while the thread does not run; then its first access may be anywhere.
        let apart_ns = Some((last - first) as f64).filter(|apart| *apart <= ran_ns);
        let beside_ns = ran_ns - apart_ns.unwrap_or(0.0);
        let waited_ns = first.saturating_sub(self.since_ns) as f64;
        let to_first_ns = match (self.ended_ns, apart_ns) {
            (Some(_), Some(_)) if waited_ns <= beside_ns => {
                own_ns(waited_ns, costs.armed_ns as f64)
            }
            (Some(_), Some(_)) => own_ns(beside_ns, costs.begun_ns as f64),
            _ => waited_ns.min(beside_ns),
        };
        if self.ended_ns.is_none() {
            return Some(Spent {
                counted: hits.len(),
                ns: to_first_ns + own_ns(ran_ns, hits.len() as f64 * hit_ns),
            });
        }
        let before = *hits.get(hits.len().checked_sub(2)?)?;
        let counted = hits.len() - 2;
        let between_ns = apart_ns.map_or(ran_ns, |_| (before - first) as f64);
        Some(Spent {
            counted,
            ns: 2.0 * to_first_ns + own_ns(between_ns, counted as f64 * hit_ns),
        })
    }
}

/// A time without what a watch took of it.
fn own_ns(ns: f64, taken_ns: f64) -> f64 {
    (ns - DEDUCTED * taken_ns).max((1.0 - DEDUCTED) * taken_ns)
}

#[cfg(test)]
mod tests {
    use hitm_base::{AccessOp, Random};

    use super::*;

    const COSTS: Costs = Costs {
        hit_ns: 12_000,
        armed_ns: 15_000,
        begun_ns: 35_000,
    };
    /// Time behind the last hit, and what ends a watch before its time is noted.
    const BEHIND_NS: u64 = 20_000;
    const ENDS_NS: u64 = 7_000;
    const HITS_MAX: usize = 6;
    const TURN_NS: u64 = 5_000_000;

    /// Turns of two threads.
    #[derive(Clone, Copy)]
    struct Threads {
        /// Pauses of each, behind some accesses.
        pauses_ns: [u64; 2],
        burst: u64,
        /// Of so many turns they run at once in one.
        met_of: u64,
        /// Time for which they wait for a CPU when they are watched.
        begin_ns: u64,
    }

    impl Threads {
        /// Both run when they are watched, and pause behind each access.
        fn steady(pauses_ns: [u64; 2]) -> Threads {
            Threads {
                pauses_ns,
                burst: 1,
                met_of: 1,
                begin_ns: 0,
            }
        }

        /// Times of a thread's first accesses, and its watch: from any time of its course, slowed down by the watch.
        fn hits(&self, pause_ns: u64, random: &mut Random) -> (Vec<u64>, Armed) {
            const IN_BURST_NS: u64 = 50;
            let set_ns = match self.begin_ns {
                0 => COSTS.armed_ns,
                _ => COSTS.begun_ns - BEHIND_NS,
            };
            let mut times = Vec::new();
            let mut native = random.below(pause_ns);
            let mut number = random.below(self.burst);
            while times.len() < HITS_MAX {
                let is_last = times.len() + 1 == HITS_MAX;
                let hits_ns = times.len() as u64 * COSTS.hit_ns + u64::from(is_last) * ENDS_NS;
                let time = self.begin_ns + set_ns + native + hits_ns;
                if time > TURN_NS {
                    break;
                }
                times.push(time);
                number += 1;
                native += if number.is_multiple_of(self.burst) {
                    pause_ns
                } else {
                    IN_BURST_NS
                };
            }
            let ended_ns = times.get(HITS_MAX - 1).copied();
            let ran_until = ended_ns.map_or(TURN_NS, |end| end + BEHIND_NS);
            let armed = Armed {
                since_ns: 0,
                counted_ns: ran_until - self.begin_ns,
                ended_ns,
            };
            (times, armed)
        }

        /// Accesses in a second by many rounds.
        fn found(&self) -> [f64; 2] {
            let mut random = Random::new(1);
            let mut pace = Pace::default();
            for round in 0..3000 {
                let mut turn = Turn {
                    words: vec![0],
                    touched: Vec::new(),
                };
                let mut all_armed = BTreeMap::new();
                for (tid, pause_ns) in (1..).zip(self.pauses_ns) {
                    let (times, mut armed) = self.hits(pause_ns, &mut random);
                    if tid == 2 && round % self.met_of != 0 {
                        // It runs, and does something else.
                        armed.ended_ns = None;
                    } else {
                        let touched = times
                            .iter()
                            .map(|time| Touched::at(tid, *time, AccessOp::Store));
                        turn.touched.extend(touched);
                    }
                    all_armed.insert(tid, armed);
                }
                turn.touched.sort_by_key(|one| one.time_ns);
                pace.round(&[(turn, all_armed)], COSTS);
            }
            assert!(pace.certain_part() > 0.9);
            let per_s = pace.per_s();
            [per_s[&1], per_s[&2]]
        }
    }

    #[test]
    fn rates_that_are_known_are_found_and_not_more() {
        // Steady threads: what the deduction leaves of a watch hides what is shorter than a microsecond.
        for pauses_ns in [[2_000, 2_000], [20_000, 20_000], [2_000, 60_000]] {
            for begin_ns in [0, 150_000] {
                let threads = Threads {
                    begin_ns,
                    ..Threads::steady(pauses_ns)
                };
                for (found, pause_ns) in threads.found().into_iter().zip(pauses_ns) {
                    let truth = 1e9 / pause_ns as f64;
                    assert!((0.5 * truth..truth).contains(&found), "{found} of {truth}");
                }
            }
        }
    }

    #[test]
    fn who_seldom_touches_a_line_is_not_taken_for_one_who_waits_for_a_cpu() {
        for begin_ns in [0, 150_000] {
            let threads = Threads {
                begin_ns,
                ..Threads::steady([2_000, 700_000])
            };
            let found = threads.found()[1];
            let truth = 1e9 / 700_000.0;
            assert!((0.05 * truth..truth).contains(&found), "{found} of {truth}");
        }
    }

    #[test]
    fn a_rate_is_that_of_rounds_in_which_the_other_one_is_there_too() {
        let threads = Threads {
            met_of: 5,
            ..Threads::steady([20_000, 20_000])
        };
        let truth = 1e9 / 20_000.0;
        let found = threads.found();
        assert!(
            found
                .iter()
                .all(|found| (0.1 * truth..0.2 * truth).contains(found)),
            "{found:?}"
        );
    }

    #[test]
    fn a_watch_that_ends_in_a_burst_does_not_count_the_pause_for_less() {
        for burst in [2, 5, 6, 10, 40] {
            for begin_ns in [0, 150_000] {
                let threads = Threads {
                    burst,
                    begin_ns,
                    ..Threads::steady([100_000, 100_000])
                };
                // Of a burst, a watch counts the first four accesses.
                let [truth, counted] =
                    [burst, burst.min(4)].map(|touches| 1e9 * touches as f64 / 100_000.0);
                for found in threads.found() {
                    assert!(
                        (0.5 * counted..1.02 * truth).contains(&found),
                        "{burst}: {found} of {truth}"
                    );
                }
            }
        }
    }

    #[test]
    fn who_begins_when_the_others_have_ended_tells_nothing() {
        let touched = |tid, time_ns| Touched::at(tid, time_ns, AccessOp::Store);
        let is_late = |begin_ns: u64, counted_ns, end_of_other| {
            let ends = [
                (1, 0, 80_000, end_of_other),
                (2, begin_ns, counted_ns, Some(begin_ns + 60_000)),
            ];
            let turn = Turn {
                words: vec![0],
                touched: vec![
                    touched(1, 10_000),
                    touched(2, begin_ns),
                    touched(2, begin_ns + 60_000),
                ],
            };
            let armed = ends.map(|(tid, since_ns, counted_ns, ended_ns)| {
                let armed = Armed {
                    since_ns,
                    counted_ns,
                    ended_ns,
                };
                (tid, armed)
            });
            let armed_turn = (turn, BTreeMap::from(armed));
            [1, 2, 3].map(|tid| super::is_late(&armed_turn, tid))
        };
        assert_eq!(
            is_late(2_000_000, 90_000, Some(80_000)),
            [false, true, false]
        );
        assert_eq!(is_late(60_000, 90_000, Some(80_000)), [false; 3]);
        assert_eq!(is_late(2_000_000, 90_000, None), [false; 3]);
        // It ran all the time, and touched nothing.
        assert_eq!(is_late(2_000_000, 2_000_000, Some(80_000)), [false; 3]);
    }

    #[test]
    fn few_rounds_tell_nothing_for_certain() {
        let pace = |met_rounds| Pace {
            met_rounds,
            ..Pace::default()
        };
        assert_eq!(
            [0, 4, 16, 100].map(|met| pace(met).certain_part()),
            [0.0, 0.0, 0.5, 0.8]
        );
    }
}
