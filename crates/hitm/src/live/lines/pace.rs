//! Rates at which threads access a line while nobody watches it, at least.
//!
//! A watch stops its thread at each access for longer than the access takes, and ends after a few. So time that hits
//! took is not the thread's own, and a rate is that of accesses over the CPU time for which a watch was armed. Watches
//! begin at any time, in the mean in the middle of a pause: the time to the first access counts twice. A watch that
//! ended by itself ended at an access, which then does not count. What is left of a rate holds in those turns in which
//! threads met, of those in which several ran. It is known with the error of their number.

use std::collections::{BTreeMap, BTreeSet};

use super::touches::Turn;

/// Part of a calibrated hit that is deducted. Eight calibrations of one host were within 2.5 %.
const DEDUCTED: f64 = 0.95;
/// Standard errors below the mean.
const ERRORS: f64 = 2.0;

/// Watch of a thread in a turn: the first one that ended, or one that did not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Armed {
    /// Begin of its counting.
    pub(super) since_ns: u64,
    /// Time for which it counted while the thread ran.
    pub(super) counted_ns: u64,
    /// True if it ended by itself, at an access.
    pub(super) has_ended: bool,
}

/// A thread in turns in which others ran, too.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct OfThread {
    /// Rounds in which it ran.
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
    /// Adds the turns of a round, in which all accesses were watched, with the time that a hit takes.
    pub(super) fn round(&mut self, turns: &[(Turn, BTreeMap<u32, Armed>)], hit_ns: u64) {
        let armed = turns.iter().flat_map(|one| &one.1);
        let running = armed.filter(|(_, armed)| armed.counted_ns > 0);
        let running: BTreeSet<u32> = running.map(|(tid, _)| *tid).collect();
        if running.len() < 2 {
            return;
        }
        for tid in running {
            self.threads.entry(tid).or_default().rounds += 1;
        }
        let met = || turns.iter().filter(|one| one.0.has_met());
        self.met_rounds += u32::from(met().next().is_some());
        for one in met() {
            let (turn, armed) = (&one.0, &one.1);
            for tid in turn.threads() {
                if let Some(armed) = armed.get(&tid) {
                    let own = self.threads.entry(tid).or_default();
                    own.add(turn, tid, *armed, hit_ns as f64);
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

impl OfThread {
    /// Adds a turn in which thread `tid` met others.
    fn add(&mut self, turn: &Turn, tid: u32, armed: Armed, hit_ns: f64) {
        let own = turn
            .touched
            .iter()
            .filter(|one| one.touch.tid == tid && one.is_in_order && one.time_ns >= armed.since_ns);
        let times: Vec<u64> = own.map(|one| one.time_ns).collect();
        let (Some(first), Some(last)) = (times.first(), times.last()) else {
            return;
        };
        // An instruction that reads and writes is two accesses at one hit.
        let hits = times.iter().collect::<BTreeSet<_>>().len() as f64;
        let counted = if armed.has_ended { hits - 1.0 } else { hits };
        let ran_ns = armed.counted_ns as f64;
        // Hits are apart in time that goes on while the thread does not run; then its first access may be anywhere.
        let behind_first_ns = Some((last - first) as f64).filter(|apart| *apart <= ran_ns);
        let to_first_ns = first.saturating_sub(armed.since_ns) as f64;
        let to_first_ns = to_first_ns.min(ran_ns - behind_first_ns.unwrap_or(0.0));
        let own_ns = ran_ns - counted * DEDUCTED * hit_ns;
        self.met_turns += 1;
        self.touches += times.len() as f64 * counted / hits;
        self.ns += to_first_ns + own_ns.max(counted * (1.0 - DEDUCTED) * hit_ns);
    }

    fn per_s(&self) -> f64 {
        let met_share = f64::from(self.met_turns) / f64::from(self.rounds.max(1));
        met_share * self.touches / self.ns * 1e9
    }
}

#[cfg(test)]
mod tests {
    use hitm_base::{AccessOp, Random};

    use super::super::touches::Touched;
    use super::*;

    const HIT_NS: u64 = 12_000;
    const HITS_MAX: usize = 6;
    const TURN_NS: u64 = 5_000_000;

    /// Times of a thread's first accesses, and when its watch ended: every `pause_ns` in bursts of some, from any time
    /// of its course, and slowed down by hits.
    fn hits(pause_ns: u64, burst: u64, random: &mut Random) -> (Vec<u64>, Armed) {
        const IN_BURST_NS: u64 = 50;
        let mut times = Vec::new();
        let mut native = random.below(pause_ns);
        let mut number = 0;
        while times.len() < HITS_MAX {
            let time = native + times.len() as u64 * HIT_NS;
            if time > TURN_NS {
                break;
            }
            times.push(time);
            number += 1;
            native += if number % burst == 0 {
                pause_ns
            } else {
                IN_BURST_NS
            };
        }
        let has_ended = times.len() == HITS_MAX;
        let counted_ns = if has_ended {
            times[HITS_MAX - 1]
        } else {
            TURN_NS
        };
        let armed = Armed {
            since_ns: 0,
            counted_ns,
            has_ended,
        };
        (times, armed)
    }

    /// Accesses in a second of two such threads by many rounds, in a part of which both run.
    fn found(pauses_ns: [u64; 2], burst: u64, met_of: u64) -> [f64; 2] {
        let mut random = Random::new(1);
        let mut pace = Pace::default();
        for round in 0..3000 {
            let mut turn = Turn {
                words: vec![0],
                touched: Vec::new(),
            };
            let mut all_armed = BTreeMap::new();
            for (tid, pause_ns) in (1..).zip(pauses_ns) {
                let (times, armed) = hits(pause_ns, burst, &mut random);
                if tid == 2 && round % met_of != 0 {
                    continue;
                }
                let touched = times
                    .iter()
                    .map(|time| Touched::at(tid, *time, AccessOp::Store));
                turn.touched.extend(touched);
                all_armed.insert(tid, armed);
            }
            turn.touched.sort_by_key(|one| one.time_ns);
            pace.round(&[(turn, all_armed)], HIT_NS);
        }
        assert!(pace.certain_part() > 0.9);
        let per_s = pace.per_s();
        [per_s[&1], per_s[&2]]
    }

    #[test]
    fn rates_that_are_known_are_found_and_not_more() {
        // Steady threads: what the deduction leaves of 12 us hides what is shorter than 0.6 us.
        for pauses in [[2_000, 2_000], [20_000, 20_000], [2_000, 60_000]] {
            let found = found(pauses, 1, 1);
            for (found, pause_ns) in found.into_iter().zip(pauses) {
                let truth = 1e9 / pause_ns as f64;
                assert!((0.5 * truth..truth).contains(&found), "{found} of {truth}");
            }
        }
        // Both run in a fifth of the time: rates are those of CPU time in it.
        let [one, other] = found([20_000, 20_000], 1, 5);
        assert!((25_000.0..50_000.0).contains(&one) && (25_000.0..50_000.0).contains(&other));
    }

    #[test]
    fn a_watch_that_ends_in_a_burst_does_not_count_the_pause_for_less() {
        for burst in [2, 5, 6, 10, 40] {
            for found in found([100_000, 100_000], burst, 1) {
                let truth = 1e9 * burst as f64 / 100_000.0;
                assert!(
                    (0.1 * truth..1.02 * truth).contains(&found),
                    "{burst}: {found} of {truth}"
                );
            }
        }
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
