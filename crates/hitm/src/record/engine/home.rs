//! Threads that wait for one another stay on one CPU of the host, and the engine with them.
//!
//! To let a thread of another CPU go on takes the host several times as long as one of the same CPU. So threads
//! roam only where several of them run in most rounds, and for so long that other CPUs save more than that.
//! A recording is the same either way.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::{Duration, Instant};

use hitm_machine::host_cpus;

use super::Engine;

/// Time between two looks at how threads run.
const LOOK: Duration = Duration::from_millis(100);
/// Time between two looks for an idle CPU: others may have come to the one where threads stay.
const TERM: Duration = Duration::from_secs(1);
/// Share of a term for which a CPU has been idle that is free.
const FREE_SHARE: f64 = 0.6;
/// Ticks in a second (`USER_HZ`, proc(5)).
const TICKS_PER_SECOND: f64 = 100.0;
/// Microseconds that a round takes longer where its threads and the engine are on different CPUs: 43 on a virtual
/// machine of two CPUs (docs/performance.md). Assumed for other hosts, 5 to 50: threads whose rounds gain or lose
/// as little stay or roam by it.
const CROSSING_US: f64 = 45.0;

/// Rounds since the last look.
#[derive(Debug, Clone, Copy, Default)]
struct Rounds {
    count: u64,
    /// Threads that went on after them.
    released: u64,
}

impl Rounds {
    /// Microseconds of a round in which threads of one CPU wait for it, that they would not wait for on as many
    /// as the host has.
    fn lost_us(self, elapsed: Duration, cpu_count: usize, is_at_home: bool) -> f64 {
        if self.count == 0 {
            return 0.0;
        }
        let count = self.count as f64;
        let round_us = elapsed.as_secs_f64() * 1e6 / count;
        let at_once = (self.released as f64 / count).clamp(1.0, cpu_count.max(1) as f64);
        match is_at_home {
            true => round_us * (1.0 - 1.0 / at_once),
            false => (round_us - CROSSING_US) * (at_once - 1.0),
        }
    }
}

/// The CPU on which threads stay.
#[derive(Debug)]
pub(super) struct Home {
    /// CPUs that the engine may run on.
    all: BTreeSet<u32>,
    /// None while threads roam.
    cpu: Option<u32>,
    rounds: Rounds,
    looked_at: Instant,
    /// Ticks for which each CPU was idle when the term began.
    idle_ticks: BTreeMap<u32, u64>,
    term_began: Instant,
}

impl Home {
    pub(super) fn new() -> Home {
        Home {
            all: host_cpus::usable(),
            cpu: None,
            rounds: Rounds::default(),
            looked_at: Instant::now(),
            idle_ticks: idle_ticks(),
            term_began: Instant::now(),
        }
    }

    /// So many threads go on after a round.
    pub(super) fn note_round(&mut self, released: usize) {
        self.rounds.count += 1;
        self.rounds.released += released as u64;
    }

    /// Looks where threads should be from here on.
    fn look(&mut self) {
        let elapsed = self.looked_at.elapsed();
        if elapsed < LOOK {
            return;
        }
        let rounds = std::mem::take(&mut self.rounds);
        self.looked_at = Instant::now();
        let lost_us = rounds.lost_us(elapsed, self.all.len(), self.cpu.is_some());
        self.cpu = match self.cpu {
            Some(_) if lost_us > 2.0 * CROSSING_US => None,
            None if lost_us < CROSSING_US => host_cpus::current(),
            cpu => cpu,
        };
        if self.term_began.elapsed() > TERM {
            let free = self.next_term();
            self.cpu = self.cpu.map(|cpu| free.unwrap_or(cpu));
        }
    }

    /// Begins a term; the CPU that was idle for most of the last one.
    fn next_term(&mut self) -> Option<u32> {
        let ticks = self.term_began.elapsed().as_secs_f64() * TICKS_PER_SECOND;
        self.term_began = Instant::now();
        let before = std::mem::replace(&mut self.idle_ticks, idle_ticks());
        let since = |cpu: &u32| self.idle_ticks.get(cpu)?.checked_sub(*before.get(cpu)?);
        let idle = self.all.iter().filter_map(|cpu| Some((since(cpu)?, *cpu)));
        let (idle, cpu) = idle.max()?;
        (idle as f64 > FREE_SHARE * ticks).then_some(cpu)
    }
}

/// Ticks for which each CPU has been idle (proc(5)).
fn idle_ticks() -> BTreeMap<u32, u64> {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let cpu = |line: &str| {
        let mut words = line.strip_prefix("cpu")?.split_ascii_whitespace();
        Some((words.next()?.parse().ok()?, words.nth(3)?.parse().ok()?))
    };
    stat.lines().filter_map(cpu).collect()
}

impl Engine {
    /// Brings threads, and this one, to one CPU.
    pub(super) fn come_home(&mut self) {
        self.move_to(host_cpus::current());
    }

    /// Looks where threads should be from here on.
    pub(super) fn look_at_home(&mut self) {
        let before = self.home.cpu;
        self.home.look();
        if self.home.cpu != before {
            self.move_to(self.home.cpu);
        }
    }

    fn move_to(&mut self, cpu: Option<u32>) {
        // A CPU that has gone offline is none.
        let cpu = cpu.filter(|cpu| host_cpus::run_on([*cpu]).is_ok());
        if cpu.is_none() {
            let _ = host_cpus::run_on(self.home.all.iter().copied());
        }
        self.home.cpu = cpu;
        self.board.set_home(cpu);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_run_in_turn_lose_nothing_on_one_cpu() {
        let rounds = |released| Rounds {
            count: 1000,
            released,
        };
        let lost = |rounds: Rounds, ms, cpus, at_home| {
            rounds
                .lost_us(Duration::from_millis(ms), cpus, at_home)
                .round()
        };
        assert_eq!(lost(rounds(1000), 100, 2, true), 0.0);
        assert_eq!(lost(rounds(1000), 100, 2, false), 0.0);
        // Four threads at once that run 50 us each, on two CPUs and on 64.
        assert_eq!(lost(rounds(4000), 200, 2, true), 100.0);
        assert_eq!(lost(rounds(4000), 200, 64, true), 150.0);
        assert_eq!(lost(rounds(4000), 145, 2, false), 100.0);
        assert_eq!(lost(Rounds::default(), 100, 2, true), 0.0);
    }

    #[test]
    fn idle_time_is_told_by_cpu() {
        let ticks = idle_ticks();
        assert!(
            host_cpus::usable()
                .iter()
                .all(|cpu| ticks.contains_key(cpu))
        );
    }
}
