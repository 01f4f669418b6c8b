//! `rt-migrate-test` (rt-tests): do real-time threads of higher priority ever wait for lower ones?
//!
//! Threads of rising priority wait at a barrier; a parent of still higher priority opens it. Each
//! notes how late it starts, and is busy until its own start plus the run time. The rule by which an
//! iteration fails is [`hitm_base::rt_migrate`]'s.
//!
//! Source: rt-tests, src/rt-migrate-test/rt-migrate-test.c.
//! Not modelled: `--equal`'s spread of equal priorities is a parameter, output of ftrace marks is not.

use std::cell::RefCell;
use std::rc::Rc;

pub use hitm_base::rt_migrate::{RtMigrate, RtMigrateConfig, Sample};
use hitm_base::{CpuId, Cycles, Nanos};

use super::WorkloadKind;
use super::figures::{Add, Figures, Window, figures};
use super::keys::{self, Table};
use super::kind::{Kind, Program};
use super::metric::WorkloadResult;
use crate::engine::SimError;
use crate::kernel::{Barrier, Kernel, Policy, TaskSpec, Thread};
use crate::scenario::ScenarioError;
use crate::scenario::products::Product;
use crate::scenario::start::Start;
use hitm_base::Topology;

/// One pass of the busy loop: `clock_gettime` and a comparison.
///
/// Assumed 119 ns (30 to 200): 20 ms over the 167,800 loops of the run shown with the patch set. It
/// only scales the printed loop counts.
const LOOP: Nanos = Nanos(119.0);

/// A test that runs; its results can be read afterwards.
#[derive(Debug)]
pub struct Running {
    state: RefCell<RtMigrate>,
    /// The iteration under way: the parent's time, and what the threads have noted.
    now: RefCell<(Cycles, Vec<Sample>)>,
    start: Rc<Barrier>,
    end: Rc<Barrier>,
}

impl Running {
    /// The results so far.
    pub fn results(&self) -> RtMigrate {
        self.state.borrow().clone()
    }

    /// Makes the test's threads on a kernel. The run ends with the test.
    pub fn spawn(kernel: &Rc<Kernel>, config: RtMigrateConfig) -> Result<Rc<Running>, SimError> {
        if config.tasks == 0 || config.tasks > 4096 {
            return Err(SimError::Workload(format!(
                "rt-migrate-test has 1 to 4096 tasks, not {}",
                config.tasks
            )));
        }
        let running = Rc::new(Running {
            state: RefCell::new(RtMigrate {
                config,
                iterations: Vec::new(),
            }),
            now: RefCell::new((Cycles::ZERO, vec![Sample::default(); config.tasks])),
            start: kernel.barrier("start_barrier", config.tasks + 1)?,
            end: kernel.barrier("end_barrier", config.tasks + 1)?,
        });
        let cpus = kernel.cpu_count();
        // Threads begin at random, as on a machine that does other things.
        let mut random = kernel.engine().random("rt-migrate-test");
        for task in 0..config.tasks {
            let spec = TaskSpec {
                name: format!("rt-migrate/{task}"),
                policy: Policy::Fifo(config.prio(task)),
                allowed: None,
                cpu: CpuId(random.below(cpus as u64) as u16),
                start: kernel.cycles(Nanos(1e6)) + Cycles(random.below(1_000_000)),
            };
            let test = Rc::clone(&running);
            kernel.spawn(&spec, move |thread| async move {
                test.child(&thread, task).await
            })?;
        }
        let spec = TaskSpec {
            name: "rt-migrate-test".to_owned(),
            policy: Policy::Fifo(config.prio(config.tasks - 1) + 1),
            allowed: None,
            cpu: CpuId(random.below(cpus as u64) as u16),
            start: kernel.cycles(Nanos(10e6)),
        };
        let test = Rc::clone(&running);
        kernel.spawn(
            &spec,
            move |thread| async move { test.parent(&thread).await },
        )?;
        Ok(running)
    }

    async fn parent(&self, thread: &Thread) {
        let config = self.state.borrow().config;
        for iteration in 0..config.loops {
            // The threads come to the barrier meanwhile: the parent opens it.
            thread.sleep(thread.kernel().cycles(config.sleep)).await;
            self.now.borrow_mut().0 = thread.now();
            thread.barrier_wait(&self.start).await;
            thread.barrier_wait(&self.end).await;
            let samples = self.now.borrow().1.clone();
            let failed = {
                let mut state = self.state.borrow_mut();
                state.iterations.push(samples);
                state.failure(iteration).is_some()
            };
            if config.check && failed {
                break;
            }
        }
        // The threads go back to sleep at the start barrier, so that the run ends at rest.
        thread.sleep(thread.kernel().cycles(Nanos(1e6))).await;
        thread.engine().stop();
    }

    async fn child(&self, thread: &Thread, task: usize) {
        let config = self.state.borrow().config;
        let clock = thread.engine().machine().clock;
        let micros = |span: Cycles| (clock.nanos(span).0 / 1e3) as u64;
        loop {
            thread.barrier_wait(&self.start).await;
            let start = thread.now();
            let ran = thread
                .run_until(start + clock.cycles(config.run_time))
                .await;
            let parent = self.now.borrow().0;
            self.now.borrow_mut().1[task] = Sample {
                start_us: micros(start.saturating_sub(parent)),
                length_us: micros(thread.now().saturating_sub(parent)),
                loops: ran.0 / clock.cycles(LOOP).0.max(1),
            };
            thread.barrier_wait(&self.end).await;
        }
    }
}

figures! {
    FIGURES {
        ITERATIONS: "iterations", "count", "Iterations done";
        FAILED_ITERATIONS: "failed_iterations", "count", "Iterations in which a thread had to wait for one of lower priority";
        FAILED_START_US: "failed_start_us", "us", "How late the waiting thread of the first failed iteration started";
        START_US_MAX: "start_us_max", "us", "The latest start of any thread but the lowest";
        LOWEST_START_US_MAX: "lowest_start_us_max", "us", "The latest start of the lowest thread";
    }
}

impl Figures for Running {
    fn figures(&self, _: Window<'_>, add: Add<'_>) -> WorkloadResult {
        let results = self.results();
        add_all(&results, add);
        let failures = results.failures();
        let failure = failures.first().map(|first| results.failure_text(*first));
        WorkloadResult {
            passed: Some(failures.is_empty()),
            text: Some(results.text()),
            failure,
            ..WorkloadResult::default()
        }
    }
}

fn add_all(results: &RtMigrate, add: Add<'_>) {
    let failures = results.failures();
    let count = |count: usize| count as f64;
    let done = count(results.iterations.len());
    add(ITERATIONS, done);
    add(FAILED_ITERATIONS, count(failures.len()));
    let late = |iteration: &usize| {
        let task = results.failure(*iteration)?;
        Some(results.iterations[*iteration][task].start_us as f64)
    };
    if let Some(late) = failures.first().and_then(late) {
        add(FAILED_START_US, late);
    }
    let starts = results.max_start_us();
    let most = starts.iter().skip(1).max().copied().unwrap_or(0);
    add(START_US_MAX, most as f64);
    let lowest = starts.first().copied().unwrap_or(0);
    add(LOWEST_START_US_MAX, lowest as f64);
}

/// The test with its options, as a scenario states them.
#[derive(Debug, Clone, PartialEq)]
pub struct RtMigrateSpec {
    /// Its threads; absent for one more than CPUs. Those of `config` do not count.
    pub tasks: Option<usize>,
    /// Its options.
    pub config: RtMigrateConfig,
}

pub(super) const KIND: Kind = Kind {
    name: "rt-migrate-test",
    default_name: "rt_migrate",
    read,
    figures: &[FIGURES],
    ends: true,
    needed: "",
    optional: r#"
tasks = 5 | 1
base_prio = 2 | 99
run_time = "20ms"
sleep = "100ms"
max_error = "1ms"
loops = 50 | 1
equal = true | false
check = true | false
"#,
};

fn read(table: &Table<'_, '_, '_>) -> Result<WorkloadKind, ScenarioError> {
    let tasks = keys::count(table, "tasks", 4096)?;
    let usual = RtMigrateConfig::new(0);
    let config = RtMigrateConfig {
        tasks: tasks.unwrap_or(0),
        base_prio: table.number("base_prio", 1, 90)?.unwrap_or(2) as u8,
        run_time: keys::span(table, "run_time", keys::TIMER, usual.run_time)?,
        sleep: keys::span(table, "sleep", keys::TIMER, usual.sleep)?,
        max_err: keys::span(table, "max_error", keys::TIMER, usual.max_err)?,
        loops: keys::count(table, "loops", 100_000)?.unwrap_or(usual.loops),
        equal: table.flag("equal")?,
        check: table.flag("check")?,
    };
    Ok(WorkloadKind::RtMigrateTest(RtMigrateSpec { tasks, config }))
}

impl Program for RtMigrateSpec {
    fn kind(&self) -> &'static Kind {
        &KIND
    }

    fn start(&self, start: &Start<'_>) -> Result<Rc<dyn Figures>, SimError> {
        let tasks = self.tasks.unwrap_or(start.cpu_count() + 1);
        let config = RtMigrateConfig {
            tasks,
            ..self.config
        };
        Ok(Running::spawn(start.kernel, config)?)
    }

    fn tasks(&self, topology: &Topology) -> Product {
        let threads = self.tasks.unwrap_or(topology.cpu_count() + 1);
        Product::new("tasks", &[("tasks", threads as u64)])
    }

    fn shorten(&mut self) {
        self.config.loops = self.config.loops.div_ceil(10);
    }
}
