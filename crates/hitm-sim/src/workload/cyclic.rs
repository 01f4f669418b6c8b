//! Threads that sleep and measure how late they wake: `cyclictest` (rt-tests) and the `cyclic`
//! stressor of stress-ng; and threads that only burn time.
//!
//! Source of the first: rt-tests, src/cyclictest/cyclictest.c (absolute sleeps by an interval,
//! lateness of each). Source of the second: stress-ng, stress-cyclic.c of 2019 (relative sleeps of
//! 100 us by clock_nanosleep at the highest priority of the policy, one bogo operation each). Not
//! modelled: the statistics that the stressor computes at its end.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use hitm_base::{CpuId, Cycles, Nanos};

use super::WorkloadKind;
use super::figures::{Add, Figures, Window, figures};
use super::keys::{self, Table};
use super::kind::{Kind, Program};
use super::metric::WorkloadResult;
use super::placed::{CpuChoice, Placed};
use crate::engine::SimError;
use crate::kernel::{CpuMask, GroupId, Kernel, Policy, Task, TaskSpec, Thread};
use crate::scenario::ScenarioError;
use crate::scenario::start::Start;

/// Sleep of a cyclic thread.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Sleep {
    /// Until multiples of the interval after its start (`cyclictest`).
    Absolute(Nanos),
    /// For the span, from each wake-up on (`stress-ng --cyclic`; its default is 100 us).
    Relative(Nanos),
}

/// Cyclic threads.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CyclicConfig {
    /// Their policy.
    pub policy: Policy,
    /// Their sleep.
    pub sleep: Sleep,
    /// User code after each wake-up: two `clock_gettime` and the bookkeeping.
    /// Assumed 200 ns where a scenario does not say (100 to 500).
    pub work: Nanos,
}

/// Measurements of cyclic threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lateness {
    /// Wake-ups.
    pub cycles: u64,
    /// The least lateness.
    pub least: Cycles,
    /// Sum over all wake-ups.
    pub sum: Cycles,
    /// The largest.
    pub most: Cycles,
}

impl Default for Lateness {
    fn default() -> Lateness {
        Lateness {
            cycles: 0,
            least: Cycles::MAX,
            sum: Cycles::ZERO,
            most: Cycles::ZERO,
        }
    }
}

/// Cyclic threads that run.
#[derive(Debug)]
pub struct Cyclic {
    config: CyclicConfig,
    results: Cell<Lateness>,
}

impl Cyclic {
    /// Makes a thread of a group for each mask, which may run there.
    pub fn spawn(
        kernel: &Rc<Kernel>,
        group: GroupId,
        threads: &[CpuMask],
        config: CyclicConfig,
    ) -> Result<Rc<Cyclic>, SimError> {
        let cyclic = Rc::new(Cyclic {
            results: Cell::default(),
            config,
        });
        let mut random = kernel.engine().random("cyclic");
        for (number, allowed) in threads.iter().enumerate() {
            let spec = TaskSpec {
                name: format!("cyclic/{number}"),
                policy: config.policy,
                cpu: any_of(allowed, number)?,
                allowed: Some(allowed.clone()),
                start: Cycles(random.below(kernel.cycles(Nanos(1e6)).0)),
            };
            let shared = Rc::clone(&cyclic);
            kernel.spawn_in(group, &spec, move |thread| async move {
                shared.cycle(&thread).await
            })?;
        }
        Ok(cyclic)
    }

    async fn cycle(&self, thread: &Thread) {
        let kernel = thread.kernel();
        let work = kernel.cycles(self.config.work);
        let mut next = thread.now();
        loop {
            next = match self.config.sleep {
                Sleep::Absolute(interval) => next + kernel.cycles(interval),
                Sleep::Relative(span) => thread.now() + kernel.cycles(span),
            };
            thread.sleep_until(next).await;
            let late = thread.now().saturating_sub(next);
            let before = self.results.get();
            self.results.set(Lateness {
                cycles: before.cycles + 1,
                least: before.least.min(late),
                sum: before.sum + late,
                most: before.most.max(late),
            });
            thread.run(work).await;
        }
    }

    /// True if its threads sleep for a span, as the stressor's do.
    pub fn is_stressor(&self) -> bool {
        matches!(self.config.sleep, Sleep::Relative(_))
    }

    /// Returns the measurements of all threads so far; each wake-up is a bogo operation of the stressor.
    pub fn results(&self) -> Lateness {
        self.results.get()
    }
}

/// Threads that burn their CPU.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HogsConfig {
    /// Their policy.
    pub policy: Policy,
    /// Time at which they begin.
    pub start: Nanos,
}

/// A thread of a group for each mask that burns its CPU for ever.
pub fn spawn_hogs(
    kernel: &Rc<Kernel>,
    group: GroupId,
    threads: &[CpuMask],
    config: HogsConfig,
) -> Result<Vec<Rc<Task>>, SimError> {
    let mut tasks = Vec::new();
    for (number, allowed) in threads.iter().enumerate() {
        let spec = TaskSpec {
            name: format!("hog/{number}"),
            policy: config.policy,
            cpu: any_of(allowed, number)?,
            allowed: Some(allowed.clone()),
            start: kernel.cycles(config.start) + Cycles(number as u64),
        };
        let task = kernel.spawn_in(group, &spec, move |thread| async move {
            let slice = thread.kernel().cycles(Nanos(1e9));
            loop {
                thread.run(slice).await;
            }
        })?;
        tasks.push(task);
    }
    Ok(tasks)
}

/// The CPU of a mask on which thread `number` begins: threads are spread.
pub(super) fn any_of(allowed: &CpuMask, number: usize) -> Result<CpuId, SimError> {
    let count = allowed.count().max(1);
    let cpu = allowed.iter().nth(number % count);
    cpu.ok_or_else(|| SimError::Workload(format!("thread {number} may run on no CPU")))
}

figures! {
    LATENESS {
        WAKEUPS: "wakeups", "count", "Wake-ups of all threads in the whole run";
        LATE_US_MIN: "late_us_min", "us", "The least lateness of a wake-up";
        LATE_US_MEAN: "late_us_mean", "us", "The mean lateness";
        LATE_US_MAX: "late_us_max", "us", "The largest lateness";
    }
}

figures! {
    OPERATIONS {
        OPERATIONS_PER_SECOND: "operations_per_second", "1/s", "Wake-ups of all threads a second: the stressor's bogo operations";
    }
}

figures! {
    HOGS {
        USED_MS: "used_ms", "ms", "CPU time of all threads in the whole run";
    }
}

impl Figures for Cyclic {
    fn operations(&self) -> u64 {
        self.results().cycles
    }

    fn figures(&self, window: Window<'_>, add: Add<'_>) -> WorkloadResult {
        if self.is_stressor() {
            add(OPERATIONS_PER_SECOND, window.per_second);
        }
        lateness(self, window, add);
        WorkloadResult::default()
    }
}

fn lateness(cyclic: &Cyclic, window: Window<'_>, add: Add<'_>) {
    let all = cyclic.results();
    if all.cycles == 0 {
        return;
    }
    add(WAKEUPS, all.cycles as f64);
    add(LATE_US_MIN, window.micros(all.least));
    add(LATE_US_MEAN, window.micros(all.sum) / all.cycles as f64);
    add(LATE_US_MAX, window.micros(all.most));
}

/// Threads that burn their CPU.
pub(crate) struct Hogs(pub(crate) Vec<Rc<Task>>);

impl Figures for Hogs {
    fn figures(&self, window: Window<'_>, add: Add<'_>) -> WorkloadResult {
        let used = |task: &Rc<Task>| window.kernel.used(task, window.end).0;
        let used = self.0.iter().map(used).sum();
        let millis = window.clock.nanos(Cycles(used)).0 / 1e6;
        add(USED_MS, millis);
        WorkloadResult::default()
    }
}

pub(super) const CYCLICTEST: Kind = Kind {
    name: "cyclictest",
    default_name: "cyclictest",
    read: cyclictest,
    figures: &[LATENESS],
    ends: false,
    needed: r#"
interval = "1ms"
"#,
    optional: keys::TASKS,
};

pub(super) const CYCLIC: Kind = Kind {
    name: "cyclic",
    default_name: "cyclic",
    read: cyclic,
    figures: &[OPERATIONS, LATENESS],
    ends: false,
    needed: r#"
sleep = "10us"
work = "200ns"
"#,
    optional: keys::TASKS,
};

pub(super) const HOGS_KIND: Kind = Kind {
    name: "hogs",
    default_name: "hogs",
    read: hogs,
    figures: &[HOGS],
    ends: false,
    needed: r#"
name = "a_1" | "w"
"#,
    optional: keys::TASKS,
};

pub(super) const PINNED: Kind = Kind {
    name: "pinned",
    default_name: "hogs",
    read: pinned,
    figures: &[HOGS],
    ends: false,
    needed: r#"
cpus = "0-3" | "0"
"#,
    optional: r#"
start = "5ms"
"#,
};

fn cyclictest(table: &Table<'_, '_, '_>) -> Result<WorkloadKind, ScenarioError> {
    let interval = keys::span(table, "interval", keys::TIMER, Nanos(1e6))?;
    let threads = sleepers(table, Sleep::Absolute(interval))?;
    Ok(WorkloadKind::Cyclic(threads))
}

fn cyclic(table: &Table<'_, '_, '_>) -> Result<WorkloadKind, ScenarioError> {
    let sleep = keys::span(table, "sleep", keys::TIMER, Nanos(100e3))?;
    let threads = sleepers(table, Sleep::Relative(sleep))?;
    Ok(WorkloadKind::Cyclic(threads))
}

fn sleepers(
    table: &Table<'_, '_, '_>,
    sleep: Sleep,
) -> Result<Placed<CyclicConfig>, ScenarioError> {
    let work = Duration::from_nanos(1)..=keys::TIME_MAX;
    let work = keys::span(table, "work", work, Nanos(200.0))?;
    Ok(Placed {
        cpus: keys::cpu_choice(table)?,
        config: CyclicConfig {
            policy: keys::policy(table, Policy::Fifo(99))?,
            sleep,
            work,
        },
    })
}

fn hogs(table: &Table<'_, '_, '_>) -> Result<WorkloadKind, ScenarioError> {
    let cpus = keys::cpu_choice(table)?;
    burners(table, cpus, Policy::Normal(0))
}

fn pinned(table: &Table<'_, '_, '_>) -> Result<WorkloadKind, ScenarioError> {
    table.required("cpus", "the CPUs that get a thread each")?;
    let cpus = CpuChoice {
        cpus: keys::cpus(table, "cpus")?,
        pinned: true,
        threads: None,
    };
    burners(table, cpus, Policy::Fifo(99))
}

fn burners(
    table: &Table<'_, '_, '_>,
    cpus: CpuChoice,
    default: Policy,
) -> Result<WorkloadKind, ScenarioError> {
    let config = HogsConfig {
        policy: keys::policy(table, default)?,
        start: keys::span(table, "start", keys::ANY, Nanos(0.0))?,
    };
    Ok(WorkloadKind::Hogs(Placed { cpus, config }))
}

impl Program for Placed<CyclicConfig> {
    fn kind(&self) -> &'static Kind {
        match self.config.sleep {
            Sleep::Absolute(_) => &CYCLICTEST,
            Sleep::Relative(_) => &CYCLIC,
        }
    }

    fn start(&self, start: &Start<'_>) -> Result<Rc<dyn Figures>, SimError> {
        let masks = start.masks(&self.cpus);
        Ok(Cyclic::spawn(
            start.kernel,
            start.group,
            &masks,
            self.config,
        )?)
    }

    fn cpus(&self) -> Option<&CpuChoice> {
        Some(&self.cpus)
    }

    fn grouped(&self) -> Option<Policy> {
        Some(self.config.policy)
    }
}

impl Program for Placed<HogsConfig> {
    fn kind(&self) -> &'static Kind {
        &HOGS_KIND
    }

    fn start(&self, start: &Start<'_>) -> Result<Rc<dyn Figures>, SimError> {
        let masks = start.masks(&self.cpus);
        let tasks = spawn_hogs(start.kernel, start.group, &masks, self.config)?;
        Ok(Rc::new(Hogs(tasks)))
    }

    fn cpus(&self) -> Option<&CpuChoice> {
        Some(&self.cpus)
    }

    fn grouped(&self) -> Option<Policy> {
        Some(self.config.policy)
    }
}
