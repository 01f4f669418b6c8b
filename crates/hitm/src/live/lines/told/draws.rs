//! Accesses to a line by chance, with their prices.

use std::collections::{BTreeMap, BTreeSet};

use hitm_base::{Access, CodeAddr, CpuId, Cycles, Outcome, Random, ThreadId};
use hitm_coherence::directory::{Ask, Directory, Grant};

use super::super::memory::Line;
use super::super::touches::TouchRate;
use super::super::visits::Chances;
use super::{Teller, Told};

/// Accesses that are drawn for a line: enough for shares of a hundredth. Where lines are many they are fewer.
const DRAWN_MAX: usize = 4000;
/// The same of all lines, some 100 bytes each in memory.
const DRAWN_IN_ALL: usize = 400_000;
/// Accesses between two moves of threads.
const STAY: usize = 100;

/// Accesses to draw for each of some lines.
pub(super) fn count_of_each(lines: usize) -> usize {
    (DRAWN_IN_ALL / lines.max(1)).min(DRAWN_MAX)
}

/// An access with its price.
pub(super) struct Priced {
    pub(super) access: Access,
    pub(super) outcome: Outcome,
    pub(super) callers: Vec<CodeAddr>,
}

/// Hand-overs of a line, at least.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Least {
    pub(super) changes_per_s: f64,
    /// The model's price of one, in nanoseconds.
    pub(super) change_ns: f64,
}

/// Time and CPU of an access.
#[derive(Debug, Clone, Copy)]
struct At {
    time: Cycles,
    cpu: CpuId,
}

impl Teller<'_> {
    /// Accesses of visits that threads make by chance.
    pub(super) fn priced(
        &self,
        told: &Told<'_>,
        count: usize,
        directory: &mut Directory,
    ) -> Vec<Priced> {
        let chances = Chances::of(&told.rates, told.candidate.touches.visits());
        if chances.is_empty() {
            return Vec::new();
        }
        let mut random = Random::new(told.line.at);
        let mut cpus: BTreeMap<u32, CpuId> = BTreeMap::new();
        let step_ns = (self.observed.duration_ns / count as u64).max(1);
        let mut priced = Vec::with_capacity(count);
        let mut clock = Cycles::ZERO;
        let mut stays_until = 0;
        while priced.len() < count {
            if priced.len() >= stays_until {
                cpus.clear();
                stays_until += STAY;
            }
            for rate in chances.visit(&mut random) {
                let rate = &told.rates[rate];
                let tid = rate.touch.tid;
                let cpu = cpus.entry(tid);
                let cpu = *cpu.or_insert_with(|| self.cpu(tid, &mut random));
                let time = Cycles(priced.len() as u64 * step_ns);
                let access = self.access(told.line, rate, At { time, cpu });
                priced.push(Priced {
                    outcome: price(directory, &access, &mut clock),
                    access,
                    callers: self.callers(rate),
                });
            }
        }
        priced.truncate(count);
        priced
    }

    /// Hand-overs of a line whose rates are those of threads that nobody watches, at least: in the rounds in which they
    /// meet, visits of two of them or more follow each other by chance. A line is handed over once at a time.
    pub(super) fn least(&self, told: &Told<'_>, count: usize, directory: &mut Directory) -> Least {
        let accesses_per_s: f64 = told.rates.iter().map(|rate| rate.per_s).sum();
        if accesses_per_s <= 0.0 {
            return Least::default();
        }
        let priced = self.priced(told, count, directory);
        let changes = priced
            .iter()
            .filter(|one| one.outcome.lost > Cycles::ZERO)
            .count();
        let change_ns = self.machine.machine.clock.nanos(hand_over(&priced)).0;
        let part = changes as f64 / count as f64
            * told.candidate.pace.certain_part()
            * at_once(self.running(told).max(2.0), threads(&told.rates));
        Least {
            changes_per_s: (accesses_per_s * part).min(1e9 / change_ns.max(1.0)),
            change_ns,
        }
    }

    fn access(&self, line: Line, rate: &TouchRate, at: At) -> Access {
        let touch = rate.touch;
        Access {
            time: at.time,
            addr: self.address(line) + u64::from(touch.offset),
            code: self.code(touch.pid, touch.code),
            thread: self.threads.get(&touch.tid).copied().unwrap_or(ThreadId(0)),
            cpu: at.cpu,
            size: touch.size,
            op: touch.op,
        }
    }

    fn code(&self, pid: u32, address: u64) -> CodeAddr {
        let known = self.observed.code.programs.address(pid, address);
        CodeAddr(known.unwrap_or(address))
    }

    /// Callers of a touch. A chain that leaves the code has followed a register that held no frame.
    fn callers(&self, rate: &TouchRate) -> Vec<CodeAddr> {
        let pid = rate.touch.pid;
        let is_code = |caller: &&u64| self.observed.memory.is_code(pid, **caller);
        let callers = rate.callers.iter().take_while(is_code);
        callers.map(|caller| self.code(pid, *caller)).collect()
    }
}

/// The engine's answer to an access, each of them after the one before has been served.
fn price(directory: &mut Directory, access: &Access, clock: &mut Cycles) -> Outcome {
    let line = directory.line(access.line(), access.cpu);
    if let Some((source, latency)) = directory.hit(access.cpu, line, access.op.is_write()) {
        return Grant::own(source, *clock + latency).outcome(latency, Cycles::ZERO, Cycles::ZERO);
    }
    let ask = Ask {
        now: *clock,
        cpu: access.cpu,
        line,
        exclusive: access.op.is_write(),
        ticket: 0,
    };
    let grant = match directory.request(ask) {
        Some(grant) => grant,
        None => directory.serve_next(line).1,
    };
    let latency = grant.done.saturating_sub(*clock);
    *clock = grant.done;
    grant.outcome(latency, latency, Cycles::ZERO)
}

fn threads(rates: &[TouchRate]) -> usize {
    let tids: BTreeSet<u32> = rates.iter().map(|rate| rate.touch.tid).collect();
    tids.len()
}

/// Part of the hand-overs of threads that all run at once, where so many of them do in the mean: of `n` that follow each
/// other by chance, `(n - 1) / n` accesses come from another one than the one before.
fn at_once(running: f64, threads: usize) -> f64 {
    let others = |n: f64| ((n - 1.0) / n).max(0.0);
    match threads {
        0 | 1 => 0.0,
        all => (others(running) / others(all as f64)).min(1.0),
    }
}

/// Mean price of a hand-over.
pub(super) fn hand_over(priced: &[Priced]) -> Cycles {
    let lost = priced.iter().map(|one| one.outcome.lost.0);
    let (sum, count) = lost
        .filter(|lost| *lost > 0)
        .fold((0, 0), |(sum, count), lost| (sum + lost, count + 1));
    Cycles(sum / u64::max(count, 1))
}

/// Scales what hand-overs cost to `most_ns` in all, in nanoseconds.
pub(super) fn scale(priced: &mut [Priced], most_ns: u64) {
    let lost: u64 = priced.iter().map(|one| one.outcome.lost.0).sum();
    for one in priced {
        if one.outcome.lost > Cycles::ZERO {
            let part =
                u128::from(one.outcome.lost.0) * u128::from(most_ns) / u128::from(lost.max(1));
            let part = Cycles(part as u64);
            one.outcome = Outcome {
                stall: part,
                lost: part,
                ..one.outcome
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::LINES_MAX;
    use super::*;

    #[test]
    fn who_runs_alone_hands_nothing_over() {
        assert_eq!(
            [at_once(1.0, 2), at_once(0.5, 2), at_once(2.0, 1)],
            [0.0; 3]
        );
        assert_eq!([at_once(2.0, 2), at_once(4.0, 4)], [1.0; 2]);
        // Two of four that take turns: each second access is of the other one.
        assert!((at_once(2.0, 4) - 2.0 / 3.0).abs() < 1e-9);
        assert!((at_once(1.5, 2) - 2.0 / 3.0).abs() < 1e-9);
    }

    #[test]
    fn draws_have_a_bound_and_each_line_has_some_hundred() {
        assert_eq!(count_of_each(0), DRAWN_MAX);
        assert_eq!(count_of_each(10), DRAWN_MAX);
        assert!(count_of_each(LINES_MAX) * LINES_MAX <= DRAWN_IN_ALL);
        assert!(count_of_each(LINES_MAX) >= 400);
    }
}
