//! Accesses to a line by chance, with their prices.

use std::collections::BTreeMap;

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
    fn draws_have_a_bound_and_each_line_has_some_hundred() {
        assert_eq!(count_of_each(0), DRAWN_MAX);
        assert_eq!(count_of_each(10), DRAWN_MAX);
        assert!(count_of_each(LINES_MAX) * LINES_MAX <= DRAWN_IN_ALL);
        assert!(count_of_each(LINES_MAX) >= 400);
    }
}
