//! The load of a what-if: the group's threads, and those of sibling groups.

use std::cell::RefCell;
use std::rc::Rc;

use hitm_base::{CpuId, Cycles, Nanos};
use hitm_live::throttle::{Arrival, Demand, OtherGroup, Rhythm, ThreadDemand, Weight};
use hitm_sim::engine::{Random, SimError};
use hitm_sim::kernel::{
    CpuMask, GroupId, GroupSpec, Kernel, Policy, Quota, TaskSpec, Thread, weight_of_nice,
};

use super::{LOOK, OFF, QuotaSetting};

/// Round of an outside task that is runnable part of the time. Assumed 10 ms (1 to 100).
const OTHERS_ROUND: Nanos = Nanos(10e6);
/// Limit on simulated tasks of a sibling group, for each CPU: more do not change its share.
const OTHERS_PER_CPU: usize = 2;
/// Demand in CPUs below which a sibling group is left out.
const OTHERS_LEAST: f64 = 0.02;

/// Times that threads had no CPU, and the time that they had one.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) gaps: Vec<Gap>,
    pub(super) ran: Cycles,
}

/// A time that a thread had no CPU.
#[derive(Debug, Clone, Copy)]
pub(super) struct Gap {
    pub(super) cpu: CpuId,
    pub(super) begin: Cycles,
    pub(super) end: Cycles,
}

/// Starts the group and its siblings.
pub(super) fn spawn(
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
    if let Some(at_ns) = demand.timer_at_ns {
        kernel.align_quota(group, Nanos(at_ns as f64));
    }
    let seen = Rc::new(RefCell::new(Seen::default()));
    let mut starts = kernel.engine().random("what-if");
    let mut spec =
        |name: &str, number: usize, nice: i8| spec_of(kernel, &mut starts, name, number, nice);
    for (number, load) in demand.threads.iter().enumerate() {
        let (load, seen) = (load.clone(), Rc::clone(&seen));
        let mut spec = spec("load", number, load.nice);
        if let Some(home) = home_of(&load, kernel) {
            (spec.cpu, spec.allowed) = (home, Some(CpuMask::of(kernel.cpu_count(), [home])));
        }
        kernel.spawn_in(group, &spec, move |thread| async move {
            run_load(&thread, &load, number, &seen).await;
        })?;
    }
    for other in &demand.others {
        spawn_others(kernel, GroupId::ROOT, other, &mut spec)?;
    }
    Ok(seen)
}

/// A task that may run anywhere and begins within a tick.
pub(in super::super) fn spec_of(
    kernel: &Kernel,
    starts: &mut Random,
    name: &str,
    number: usize,
    nice: i8,
) -> TaskSpec {
    let tick = kernel.cycles(Nanos(1e9 / f64::from(kernel.config().hz))).0;
    TaskSpec {
        name: format!("{name}/{number}"),
        policy: Policy::Normal(nice),
        allowed: None,
        cpu: CpuId((number % kernel.cpu_count()) as u16),
        start: Cycles(starts.below(tick)),
    }
}

/// The CPU on which a thread stays: the kernel hardly ever moves one that wakes up where it slept.
fn home_of(load: &ThreadDemand, kernel: &Kernel) -> Option<CpuId> {
    let Rhythm::Traced {
        home: Some(cpu), ..
    } = load.rhythm
    else {
        return None;
    };
    let cpu = CpuId(u16::try_from(cpu).ok()?);
    (cpu.index() < kernel.cpu_count()).then_some(cpu)
}

/// The weight of a group in the kernel.
pub(in super::super) fn shares(weight: Weight) -> u64 {
    match weight {
        Weight::Shares(shares) => shares,
        Weight::Nice(nice) => weight_of_nice(nice),
    }
}

/// Makes the specification of a task, by name, number and nice value.
pub(in super::super) type Spec<'a> = &'a mut dyn FnMut(&str, usize, i8) -> TaskSpec;

/// Starts a group within `parent` whose tasks demand as many CPUs as those of `other` did on average.
pub(in super::super) fn spawn_others(
    kernel: &Rc<Kernel>,
    parent: GroupId,
    other: &OtherGroup,
    spec: Spec<'_>,
) -> Result<(), SimError> {
    if other.runnable < OTHERS_LEAST {
        return Ok(());
    }
    let group = kernel.create_group(&GroupSpec {
        shares: shares(other.weight),
        ..GroupSpec::within(parent)
    })?;
    spawn_tasks(kernel, group, other.runnable, 0, spec)
}

/// Starts tasks of a nice value in a group, of which `runnable` are runnable on average.
pub(in super::super) fn spawn_tasks(
    kernel: &Rc<Kernel>,
    group: GroupId,
    runnable: f64,
    nice: i8,
    spec: Spec<'_>,
) -> Result<(), SimError> {
    let runnable = runnable.min((OTHERS_PER_CPU * kernel.cpu_count()) as f64);
    let whole = runnable.floor();
    for number in 0..whole as usize {
        let spec = spec("other", number, nice);
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
    let spec = spec("other", whole as usize, nice);
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

/// A thread of the group while it is simulated.
struct Player<'a> {
    thread: &'a Thread,
    seen: &'a RefCell<Seen>,
    look: Cycles,
    off: Cycles,
}

impl Player<'_> {
    /// Notes a time without a CPU.
    fn note(&self, cpu: CpuId, begin: Cycles, least: Cycles) {
        let end = self.thread.now();
        if end.saturating_sub(begin) > least + self.off {
            self.seen.borrow_mut().gaps.push(Gap { cpu, begin, end });
        }
    }

    /// Runs for so much CPU time.
    async fn run(&self, span: Cycles) {
        let mut left = span;
        while left > Cycles::ZERO {
            let part = left.min(self.look);
            let (cpu, begin) = (self.thread.cpu(), self.thread.now());
            self.thread.run(part).await;
            self.seen.borrow_mut().ran += part;
            self.note(cpu, begin, part);
            left = left.saturating_sub(part);
        }
    }

    async fn sleep_until(&self, wake: Cycles) {
        let cpu = self.thread.cpu();
        self.thread.sleep_until(wake).await;
        self.note(cpu, wake, Cycles::ZERO);
    }

    /// Runs and sleeps for times around the means, each scaled by 0.5 to 1.5: assumed, since
    /// counters have the mean alone.
    async fn run_means(&self, run_ns: u64, sleep_ns: u64, mut random: Random) {
        let mut around = |mean_ns: u64| {
            let mean = self.thread.kernel().cycles(Nanos(mean_ns as f64)).0;
            Cycles(mean / 2 + random.below(mean.max(1)))
        };
        loop {
            self.run(around(run_ns)).await;
            self.sleep_until(self.thread.now() + around(sleep_ns)).await;
        }
    }

    /// Does the jobs that were measured, and sleeps from then on.
    async fn replay(&self, jobs: &[Arrival], is_timed: bool) {
        let cycles = |ns: u64| self.thread.kernel().cycles(Nanos(ns as f64));
        for job in jobs {
            let wake = match is_timed {
                true => cycles(job.at_ns),
                false => self.thread.now() + cycles(job.slept_ns),
            };
            if wake > self.thread.now() {
                self.sleep_until(wake).await;
            }
            self.run(cycles(job.ran_ns)).await;
        }
        loop {
            self.thread.sleep(Cycles(1 << 40)).await;
        }
    }
}

/// Does the work of one of the group's threads.
async fn run_load(thread: &Thread, load: &ThreadDemand, number: usize, seen: &RefCell<Seen>) {
    let kernel = thread.kernel();
    let player = Player {
        thread,
        seen,
        look: kernel.cycles(LOOK),
        off: kernel.cycles(OFF),
    };
    match &load.rhythm {
        Rhythm::Always => player.run(Cycles(u64::MAX)).await,
        Rhythm::Mean { run_ns, sleep_ns } => {
            let random = kernel.engine().random(&format!("what-if load {number}"));
            player.run_means(*run_ns, *sleep_ns, random).await;
        }
        Rhythm::Traced { jobs, is_timed, .. } => player.replay(jobs, *is_timed).await,
    }
}
