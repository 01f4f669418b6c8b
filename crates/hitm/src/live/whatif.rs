//! A group's measured load under another quota, in the simulator.
//!
//! The group's threads do the jobs that were measured, or run and sleep for mean times. Sibling
//! groups have as many tasks as were runnable. docs/live-scheduling.md lists what is not modelled.

mod answer;
mod load;

use std::time::Duration;

use hitm_base::{CpuId, Cycles, Machine, Nanos};
use hitm_coherence::directory::Capacity;
use hitm_live::cgroups::Bandwidth;
use hitm_live::spread::Spread;
use hitm_live::throttle::Demand;
use hitm_sim::engine::{Engine, EngineConfig, Executor, SimError};
pub use hitm_sim::kernel::Throttling;
use hitm_sim::kernel::{Balancing, DistributeCall, Kernel, KernelConfig, LoadBalancing, functions};
use hitm_sim::layout::Layouts;
use thiserror::Error;

pub use answer::{DEVIATION_MAX, Deviation, DeviationOf, Sufficient, smallest};
use hitm_machine as machine;
use load::{Gap, spawn};
pub(super) use load::{shares, spawn_others, spawn_tasks, spec_of};

/// Longest virtual time of a run: a minute of a host with few CPUs, some ten of one with hundreds.
const DURATION_MAX: Duration = Duration::from_secs(10);
/// The same of measured jobs: a second of 8 threads on 2 CPUs takes 20 ms.
const TRACED_MAX: Duration = Duration::from_secs(60);
/// Fewest periods of a run.
const PERIODS_MIN: u32 = 100;
/// Interval at which a thread reads the clock: a shorter time off its CPU is an interrupt.
const LOOK: Nanos = Nanos(50e3);
/// Shortest time off its CPU for which a thread counts as not running. Assumed 20 us (5 to 50):
/// ticks take less.
const OFF: Nanos = Nanos(20e3);

/// A quota, and the kernel that keeps it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuotaSetting {
    /// The quota; none for a group without one.
    pub bandwidth: Option<Bandwidth>,
    /// The form of throttling.
    pub throttling: Throttling,
}

/// Form of throttling of the running kernel, by its release: Linux 6.3 and 6.18 changed it.
pub fn throttling_here() -> Throttling {
    throttling_of(&super::kernel_release())
}

fn throttling_of(release: &str) -> Throttling {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    let mut number = || {
        numbers
            .next()
            .and_then(|text| text.parse().ok())
            .unwrap_or(0_u32)
    };
    match (number(), number()) {
        (0..=5, _) | (6, 0..=2) => Throttling::Sync,
        (6, 3..=17) => Throttling::Async,
        _ => Throttling::Task,
    }
}

/// Throttling of a group, in the simulator or on this host.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QuotaRun {
    /// Time of the host, or virtual time.
    pub duration_ns: u64,
    /// Throttlings of tasks, each from leaving the CPU to running again.
    pub spread: Spread,
    /// Like `spread`, without the wait for a CPU afterwards.
    pub throttled: Spread,
    /// Walks of the period timer.
    pub period_timer: Spread,
    /// CPU time that the group's threads had.
    pub ran_ns: u64,
}

/// Errors of the simulation.
#[derive(Debug, Error)]
pub enum WhatIfError {
    /// No thread of the group ran.
    #[error("no thread of the group ran: there is no load to simulate")]
    NoLoad,
    /// This host's CPUs cannot be read.
    #[error("the CPUs of this host: {0}")]
    Machine(String),
    /// The simulator refuses the quota.
    #[error("cannot simulate: {0}")]
    Simulation(#[from] SimError),
}

/// Simulates the load of a group under a quota, on a model of this host. The same input gives the
/// same figures.
///
/// # Errors
/// There is no load, this host cannot be read, or the simulator refuses the quota.
pub fn simulate_quota(demand: &Demand, setting: &QuotaSetting) -> Result<QuotaRun, WhatIfError> {
    let wrong = |error: String| WhatIfError::Machine(error);
    let file = machine::host().map_err(|error| wrong(error.to_string()))?;
    let machine = file.resolve().map_err(|error| wrong(error.to_string()))?;
    simulate_on(machine, demand, setting)
}

fn simulate_on(
    machine: Machine,
    demand: &Demand,
    setting: &QuotaSetting,
) -> Result<QuotaRun, WhatIfError> {
    if demand.threads.is_empty() {
        return Err(WhatIfError::NoLoad);
    }
    let duration = duration(demand, setting);
    let clock = machine.clock;
    let engine = Engine::new(&EngineConfig {
        end: clock.cycles(duration),
        machine,
        capacity: Capacity::Infinite,
        seed: 1,
        scenario_hash: 0,
        events_max: u64::MAX,
        sites: functions::NAMES,
    });
    let config = KernelConfig {
        throttling: setting.throttling,
        load_balancing: LoadBalancing::Domains,
        ..KernelConfig::new(Balancing::PushIpi)
    };
    let kernel = Kernel::new(&engine, Layouts::linux_6_12(), config)?;
    let gaps = spawn(&kernel, demand, setting)?;
    let mut executor = Executor::new(engine);
    executor.run()?;
    let gaps = gaps.borrow();
    let mut simulated = judge(&kernel, &gaps.gaps, setting.throttling);
    simulated.duration_ns = duration.0 as u64;
    simulated.ran_ns = clock.nanos(gaps.ran).0 as u64;
    Ok(simulated)
}

/// Measured jobs are done in the time that was measured.
fn duration(demand: &Demand, setting: &QuotaSetting) -> Nanos {
    let period_us = setting.bandwidth.map_or(100_000, |own| own.period_us);
    let measured = Duration::from_nanos(demand.duration_ns);
    let periods = Duration::from_micros(period_us) * PERIODS_MIN;
    let span = match demand.is_traced() {
        true => measured.min(TRACED_MAX),
        false => measured.max(periods).min(DURATION_MAX),
    };
    Nanos(span.as_nanos() as f64)
}

/// Finds the gaps in which the group's queue on that CPU was throttled.
fn judge(kernel: &Kernel, gaps: &[Gap], form: Throttling) -> QuotaRun {
    let clock = kernel.engine().machine().clock;
    let nanos = |span: Cycles| clock.nanos(span).0 as u64;
    let is_by_task = matches!(form, Throttling::Task | Throttling::TaskSync);
    let mut throttles = vec![Vec::new(); kernel.cpu_count()];
    for call in kernel.throttle_calls() {
        // A CPU throttles one queue at a time, so its begins are in order.
        throttles[call.cpu.index()].push(call.begin);
    }
    let calls = kernel.distribute_calls();
    let backs = backs(kernel, &calls, form);
    let look = kernel.cycles(Nanos(LOOK.0 + OFF.0));
    let mut simulated = QuotaRun::default();
    for gap in gaps {
        let of_cpu = &throttles[gap.cpu.index()];
        let first = of_cpu.partition_point(|begin| *begin < gap.begin);
        let within = of_cpu[first..].iter().take_while(|begin| **begin < gap.end);
        for (number, &begin) in within.enumerate() {
            // Before 6.18 a task that waits in a throttled queue is not followed, here and on a host.
            let waited = number > 0 || begin.saturating_sub(gap.begin) > look;
            if !is_by_task && waited {
                break;
            }
            let next = of_cpu.get(first + number + 1).copied();
            let end = next.map_or(gap.end, |next| next.min(gap.end));
            let after = backs.partition_point(|(_, at)| *at <= begin);
            let mut after = backs[after..].iter();
            let back = after.find(|(cpu, _)| cpu.is_none_or(|cpu| cpu == gap.cpu));
            let back = back.map_or(end, |(_, at)| (*at).min(end));
            simulated.spread.add(nanos(end.saturating_sub(begin)));
            simulated.throttled.add(nanos(back.saturating_sub(begin)));
        }
    }
    simulated.period_timer = timers(calls.iter().filter(|call| !call.is_slack), nanos);
    simulated
}

/// Times at which queues were unthrottled, each with its CPU or for all.
fn backs(
    kernel: &Kernel,
    calls: &[DistributeCall],
    form: Throttling,
) -> Vec<(Option<CpuId>, Cycles)> {
    let is_async = matches!(form, Throttling::Async | Throttling::Task);
    let own = calls.iter().filter(|call| call.cfs_rqs > 0);
    let own = own.map(|call| (is_async.then_some(call.cpu), call.end));
    let asked = kernel.csd_unthrottle_calls();
    let asked = asked.iter().map(|call| (Some(call.cpu), call.end));
    let mut backs: Vec<_> = own.chain(asked).collect();
    backs.sort_by_key(|(cpu, at)| (*at, *cpu));
    backs
}

fn timers<'a>(
    calls: impl Iterator<Item = &'a DistributeCall>,
    nanos: impl Fn(Cycles) -> u64,
) -> Spread {
    let mut times = Spread::default();
    calls.for_each(|call| times.add(nanos(call.duration())));
    times
}

#[cfg(test)]
mod tests {
    use hitm_live::throttle::{Arrival, OtherGroup, Rhythm, ThreadDemand, Weight};

    use super::*;

    #[test]
    fn releases_have_their_form() {
        let forms = ["5.10.0-1", "6.2", "6.12.1-amd64", "6.18.44-fc", "7.2.1"].map(throttling_of);
        use Throttling::{Async, Sync, Task};
        assert_eq!(forms, [Sync, Sync, Async, Task, Task]);
    }

    fn machine() -> Machine {
        let text = hitm_base::machine::preset("genoa-384").unwrap();
        let mut machine = Machine::from_toml(text, "genoa-384").unwrap();
        let places = (0..2).map(|cpu| machine.topology.place(CpuId(cpu)));
        machine.topology = hitm_base::Topology::from_places(places.collect()).unwrap();
        machine
    }

    fn hogs(count: u32, others: &[f64]) -> Demand {
        let hog = |tid| ThreadDemand {
            tid,
            nice: 0,
            ran_ns: 1,
            ready_ns: 1,
            rhythm: Rhythm::Always,
        };
        Demand {
            duration_ns: 2_000_000_000,
            weight: Weight::default(),
            threads: (0..count).map(hog).collect(),
            others: others
                .iter()
                .map(|runnable| OtherGroup {
                    name: String::new(),
                    weight: Weight::default(),
                    runnable: *runnable,
                })
                .collect(),
            left_out: 0,
            timer_at_ns: None,
            untraced: None,
        }
    }

    fn run(demand: &Demand, quota_us: u64, throttling: Throttling) -> QuotaRun {
        let setting = QuotaSetting {
            bandwidth: Some(Bandwidth {
                quota_us,
                period_us: 20_000,
                burst_us: 0,
            }),
            throttling,
        };
        simulate_on(machine(), demand, &setting).unwrap()
    }

    #[test]
    fn a_hog_stands_still_for_what_the_quota_leaves_of_a_period() {
        for throttling in [Throttling::Task, Throttling::Async, Throttling::Sync] {
            let run = run(&hogs(1, &[]), 8000, throttling);
            let share = run.ran_ns as f64 / run.duration_ns as f64;
            assert!((share - 0.4).abs() < 0.02, "{throttling:?}: {share}");
            let p50_ms = run.throttled.quantile_ns(500) / 1_000_000;
            assert!((11..=12).contains(&p50_ms), "{throttling:?}: {p50_ms}");
            // No other task wants the CPU.
            let wait_ns = run.spread.sum_ns() - run.throttled.sum_ns();
            assert!(
                wait_ns < run.spread.count() * 100_000,
                "{throttling:?}: {wait_ns}"
            );
            assert!(run.period_timer.count() >= 90, "{run:?}");
        }
    }

    /// Eight threads wake up together and have more to do than the quota: all of them stop, each time. Means of each
    /// thread would spread them over the period.
    fn bursts() -> Demand {
        let jobs: Vec<_> = (0..8).map(|burst| (10 + burst * 200, 3)).collect();
        let mut demand = traced(8, &jobs, None);
        demand.timer_at_ns = Some(10_000_000);
        demand
    }

    #[test]
    fn threads_that_wake_up_together_use_the_quota_up_together() {
        let demand = bursts();
        let run_of = |quota_us| run(&demand, quota_us, Throttling::Task);
        // 24 ms of work in bursts of 2 CPUs.
        let (little, enough) = (run_of(8000), run_of(30_000));
        let each = little.spread.count() as f64 / 8.0;
        assert!((6.0..=24.0).contains(&each), "{each}");
        assert_eq!(enough.spread.count(), 0);
        let share = little.ran_ns as f64 / (8.0 * 24_000_000.0);
        assert!((share - 1.0).abs() < 0.01, "{share}");
        let mut spread = demand.clone();
        for thread in &mut spread.threads {
            thread.rhythm = Rhythm::Mean {
                run_ns: 3_000_000,
                sleep_ns: 197_000_000,
            };
        }
        let spread = run(&spread, 8000, Throttling::Task);
        let rate = |run: &QuotaRun| run.spread.count() as f64 / run.duration_ns as f64;
        assert!(rate(&spread) * 2.0 < rate(&little), "{spread:?} {little:?}");
    }

    /// Jobs of each thread, at moments in ms and for ms, and the CPU on which they are done.
    fn traced(threads: usize, jobs: &[(u64, u64)], home: Option<u32>) -> Demand {
        let jobs = jobs.iter().map(|(at_ms, ran_ms)| Arrival {
            at_ns: at_ms * 1_000_000,
            slept_ns: 0,
            ran_ns: ran_ms * 1_000_000,
        });
        let rhythm = Rhythm::Traced {
            jobs: jobs.collect(),
            is_timed: true,
            home,
        };
        let mut demand = hogs(threads as u32, &[]);
        for thread in &mut demand.threads {
            thread.rhythm = rhythm.clone();
        }
        demand
    }

    #[test]
    fn threads_stay_on_the_cpu_where_they_slept() {
        let ran_ms = |home| {
            let mut demand = traced(2, &[(0, 100)], home);
            demand.duration_ns = 110_000_000;
            run(&demand, 40_000, Throttling::Task).ran_ns / 1_000_000
        };
        // One CPU has 110 ms for both, two have 100 for each.
        assert!(ran_ms(Some(1)) <= 110);
        assert_eq!(ran_ms(None), 200);
    }

    /// 7 ms of work have two quotas of 4 ms where the timer is due in the middle of them, and one where they begin with
    /// it. The first slice is taken at the tick at 60 ms: up to there a rest of 1 ms lasts.
    #[test]
    fn a_period_begins_where_the_timer_was_due() {
        let jobs = [57, 157, 257, 357].map(|at_ms| (at_ms, 7));
        let throttled = |due_ms: u64| {
            let mut demand = traced(1, &jobs, None);
            demand.timer_at_ns = Some(due_ms * 1_000_000);
            run(&demand, 4000, Throttling::Task).spread.count()
        };
        assert_eq!((throttled(62), throttled(57)), (0, 4));
    }

    #[test]
    fn others_take_the_cpu_afterwards() {
        let alone = run(&hogs(2, &[]), 8000, Throttling::Task);
        let crowded = run(&hogs(2, &[40.0, 3.0]), 8000, Throttling::Task);
        let wait = |run: &QuotaRun| run.spread.sum_ns() - run.throttled.sum_ns();
        assert!(wait(&crowded) > 10 * wait(&alone), "{alone:?} {crowded:?}");
    }

    #[test]
    fn a_heavy_group_has_its_quota_beside_others() {
        let cpus = |weight| {
            let demand = Demand {
                weight,
                ..hogs(3, &[4.0, 4.0, 4.0, 4.0])
            };
            let run = run(&demand, 16_000, Throttling::Task);
            run.ran_ns as f64 / run.duration_ns as f64
        };
        // A fifth of two CPUs, and the quota of 16 in 20 ms.
        let (usual, heavy) = (cpus(Weight::Nice(0)), cpus(Weight::Shares(262_144)));
        assert!((0.3..0.5).contains(&usual), "{usual}");
        assert!((0.75..0.85).contains(&heavy), "{heavy}");
    }

    #[test]
    fn a_quota_beyond_the_load_throttles_nobody() {
        let run = run(&hogs(1, &[]), 40_000, Throttling::Task);
        assert_eq!(run.spread.count(), 0);
        assert!(run.ran_ns * 100 > run.duration_ns * 99, "{run:?}");
    }

    #[test]
    fn the_same_load_gives_the_same_figures() {
        let mut demand = hogs(1, &[0.5]);
        demand.threads.push(ThreadDemand {
            tid: 9,
            rhythm: Rhythm::Mean {
                run_ns: 2_000_000,
                sleep_ns: 3_000_000,
            },
            ..demand.threads[0].clone()
        });
        let first = run(&demand, 8000, Throttling::Task);
        assert!(first.spread.count() > 0);
        assert_eq!(first, run(&demand, 8000, Throttling::Task));
        demand.threads.clear();
        let none = simulate_on(
            machine(),
            &demand,
            &QuotaSetting {
                bandwidth: None,
                throttling: Throttling::Task,
            },
        );
        assert!(matches!(none, Err(WhatIfError::NoLoad)));
    }
}
