//! A group's measured load under another quota, in the simulator.
//!
//! The group's threads keep their mean times of running and sleeping. Sibling groups have as many
//! tasks as were runnable. docs/live-scheduling.md lists what is not modelled.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use hitm_base::{CpuId, Cycles, Machine, Nanos};
use hitm_coherence::directory::Capacity;
use hitm_live::cgroups::Bandwidth;
use hitm_live::spread::Spread;
use hitm_live::throttle::{Demand, OtherGroup, ThreadDemand, Weight};
use hitm_sim::engine::{Engine, EngineConfig, Executor, SimError};
pub use hitm_sim::kernel::Throttling;
use hitm_sim::kernel::{
    Balancing, DistributeCall, GroupId, GroupSpec, Kernel, KernelConfig, LoadBalancing, Policy,
    Quota, TaskSpec, Thread, functions, weight_of_nice,
};
use hitm_sim::layout::Layouts;
use thiserror::Error;

use hitm_machine as machine;

/// Longest virtual time of a run: a minute of a host with few CPUs, some ten of one with hundreds.
const DURATION_MAX: Duration = Duration::from_secs(10);
/// Fewest periods of a run.
const PERIODS_MIN: u32 = 100;
/// Interval at which a thread reads the clock: a shorter time off its CPU is an interrupt.
const LOOK: Nanos = Nanos(50e3);
/// Shortest time off its CPU for which a thread counts as not running. Assumed 20 us (5 to 50):
/// ticks take less.
const OFF: Nanos = Nanos(20e3);
/// Round of an outside task that is runnable part of the time. Assumed 10 ms (1 to 100).
const OTHERS_ROUND: Nanos = Nanos(10e6);
/// Limit on simulated tasks of a sibling group, for each CPU: more do not change its share.
const OTHERS_PER_CPU: usize = 2;
/// Demand in CPUs below which a sibling group is left out.
const OTHERS_LEAST: f64 = 0.02;

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

fn duration(demand: &Demand, setting: &QuotaSetting) -> Nanos {
    let period_us = setting.bandwidth.map_or(100_000, |own| own.period_us);
    let periods = Duration::from_micros(period_us) * PERIODS_MIN;
    let measured = Duration::from_nanos(demand.duration_ns);
    Nanos(measured.max(periods).min(DURATION_MAX).as_nanos() as f64)
}

/// Times that threads had no CPU, and the time that they had one.
#[derive(Debug, Default)]
struct Seen {
    gaps: Vec<Gap>,
    ran: Cycles,
}

/// A time that a thread had no CPU.
#[derive(Debug, Clone, Copy)]
struct Gap {
    cpu: CpuId,
    begin: Cycles,
    end: Cycles,
}

fn spawn(
    kernel: &Rc<Kernel>,
    demand: &Demand,
    setting: &QuotaSetting,
) -> Result<Rc<RefCell<Seen>>, SimError> {
    let nanos = |micros: u64| Nanos(micros as f64 * 1e3);
    let group = kernel.create_group(&GroupSpec {
        shares: shares(demand.weight),
        quota: setting.bandwidth.map(|own| Quota {
            quota: nanos(own.quota_us),
            period: nanos(own.period_us),
            burst: nanos(own.burst_us),
        }),
        ..GroupSpec::within(GroupId::ROOT)
    })?;
    let seen = Rc::new(RefCell::new(Seen::default()));
    let mut starts = kernel.engine().random("what-if");
    let tick = kernel.cycles(Nanos(1e9 / f64::from(kernel.config().hz))).0;
    let mut spec = |name: &str, number: usize, nice: i8| TaskSpec {
        name: format!("{name}/{number}"),
        policy: Policy::Normal(nice),
        allowed: None,
        cpu: CpuId((number % kernel.cpu_count()) as u16),
        start: Cycles(starts.below(tick)),
    };
    for (number, load) in demand.threads.iter().enumerate() {
        let (load, seen) = (load.clone(), Rc::clone(&seen));
        let spec = spec("load", number, load.nice);
        kernel.spawn_in(group, &spec, move |thread| async move {
            run_load(&thread, &load, number, &seen).await;
        })?;
    }
    for other in &demand.others {
        spawn_others(kernel, other, &mut spec)?;
    }
    Ok(seen)
}

/// The weight of a group in the kernel.
fn shares(weight: Weight) -> u64 {
    match weight {
        Weight::Shares(shares) => shares,
        Weight::Nice(nice) => weight_of_nice(nice),
    }
}

/// Starts a group whose tasks demand as many CPUs as those of `other` did on average.
fn spawn_others(
    kernel: &Rc<Kernel>,
    other: &OtherGroup,
    spec: &mut dyn FnMut(&str, usize, i8) -> TaskSpec,
) -> Result<(), SimError> {
    if other.runnable < OTHERS_LEAST {
        return Ok(());
    }
    let group = kernel.create_group(&GroupSpec {
        shares: shares(other.weight),
        ..GroupSpec::within(GroupId::ROOT)
    })?;
    let runnable = other
        .runnable
        .min((OTHERS_PER_CPU * kernel.cpu_count()) as f64);
    let whole = runnable.floor();
    for number in 0..whole as usize {
        let spec = spec("other", number, 0);
        kernel.spawn_in(
            group,
            &spec,
            |thread| async move { thread.run_always().await },
        )?;
    }
    let part = runnable - whole;
    if part < OTHERS_LEAST {
        return Ok(());
    }
    let spec = spec("other", whole as usize, 0);
    kernel.spawn_in(group, &spec, move |thread| async move {
        let run = thread.kernel().cycles(Nanos(OTHERS_ROUND.0 * part));
        let sleep = thread.kernel().cycles(Nanos(OTHERS_ROUND.0 * (1.0 - part)));
        loop {
            thread.run(run).await;
            thread.sleep(sleep).await;
        }
    })?;
    Ok(())
}

/// Runs and sleeps with the thread's mean times, each scaled by 0.5 to 1.5: assumed, since counters
/// have the mean alone.
async fn run_load(thread: &Thread, load: &ThreadDemand, number: usize, seen: &RefCell<Seen>) {
    let kernel = thread.kernel();
    let (look, off) = (kernel.cycles(LOOK), kernel.cycles(OFF));
    let mut random = kernel.engine().random(&format!("what-if load {number}"));
    let mut around = |mean_ns: u64| {
        let mean = kernel.cycles(Nanos(mean_ns as f64)).0;
        Cycles(mean / 2 + random.below(mean.max(1)))
    };
    let note = |cpu, begin, least: Cycles| {
        let end = thread.now();
        if end.saturating_sub(begin) > least + off {
            seen.borrow_mut().gaps.push(Gap { cpu, begin, end });
        }
    };
    loop {
        let mut left = match load.sleep_ns {
            0 => Cycles(u64::MAX),
            _ => around(load.run_ns),
        };
        while left > Cycles::ZERO {
            let part = left.min(look);
            let (cpu, begin) = (thread.cpu(), thread.now());
            thread.run(part).await;
            seen.borrow_mut().ran += part;
            note(cpu, begin, part);
            left = left.saturating_sub(part);
        }
        let (cpu, wake) = (thread.cpu(), thread.now() + around(load.sleep_ns));
        thread.sleep_until(wake).await;
        note(cpu, wake, Cycles::ZERO);
    }
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
            run_ns: 1,
            sleep_ns: 0,
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
            run_ns: 2_000_000,
            sleep_ns: 3_000_000,
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
