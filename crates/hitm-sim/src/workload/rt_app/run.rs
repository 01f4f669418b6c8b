//! An rt-app file as tasks on the simulated kernel.
//!
//! Source: doc/tutorial.txt of rt-app for what each event does; its src/rt-app.c for timers, whose
//! first period begins with the thread.
//!
//! Not modelled, and therefore an error: forks without end.
//! A test could notice: a thread that is forked exists from the start and waits to begin. `run` and
//! `runtime` are the same, because no CPU is slower than another.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use hitm_base::{CpuId, Cycles, Nanos};

use super::groups::GroupPaths;
use super::scheduling::Scheduling;
use super::sync::Resources;
use super::{Event, Loops, RtApp, Task, Timer, TimerMode};
use crate::engine::SimError;
use crate::kernel::{self, CpuMask, Kernel, TaskSpec, TaskTotals, Thread};
use crate::workload::cyclic::any_of;

/// Bytes that `mem` writes a cycle.
/// Assumed 8 (2 to 32: from memory bound to a vector store a cycle). Scales the time of `mem`.
const MEM_BYTES_PER_CYCLE: u64 = 8;
/// Most threads of one file that run here, forked ones included.
const THREADS_MAX: u64 = 16_384;

/// Results of the threads of one task.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TaskResult {
    /// The task.
    pub name: String,
    /// Threads that began.
    pub threads: u64,
    /// Phases done.
    pub phases: u64,
    /// Timers that were waited for.
    pub timers: u64,
    /// Of these, those whose time had passed already.
    pub missed: u64,
    /// Time from when a timer was due to the thread's next instruction, over all that were not
    /// missed.
    pub late_sum: Cycles,
    /// The largest such time.
    pub late_max: Cycles,
    /// Time that was left until a timer was due when the thread came to it, over all; missed ones count below 0.
    pub slack_sum_cycles: i64,
    /// The least such time.
    pub slack_cycles_min: i64,
}

/// A file that runs.
#[derive(Debug)]
pub struct Running {
    app: RtApp,
    resources: Resources,
    results: RefCell<Vec<TaskResult>>,
    /// The threads, each with the number of its task.
    threads: RefCell<Vec<(usize, Rc<kernel::Task>)>>,
    /// Threads that have begun and not ended.
    live: RefCell<u64>,
}

impl Running {
    /// Returns the results of the tasks so far, in the order of the file.
    pub fn results(&self) -> Vec<TaskResult> {
        self.results.borrow().clone()
    }

    /// Statistics of the threads of a task.
    pub fn totals(&self, task: usize) -> Vec<TaskTotals> {
        let threads = self.threads.borrow();
        let own = threads.iter().filter(|(index, _)| *index == task);
        own.map(|(_, thread)| thread.totals()).collect()
    }

    /// Makes the threads on a kernel, in `groups` and those that the file names beside them. The run
    /// ends with the last of them; `has_end` says that it ends without that.
    ///
    /// # Errors
    /// Events that are not modelled, CPUs that do not exist, threads without end in a run without one.
    pub fn spawn(
        kernel: &Rc<Kernel>,
        app: &RtApp,
        mut groups: GroupPaths,
        has_end: bool,
    ) -> Result<Rc<Running>, SimError> {
        check(app, has_end)?;
        let counts = thread_counts(app)?;
        let result = |task: &Task| TaskResult {
            name: task.name.clone(),
            ..TaskResult::default()
        };
        let running = Rc::new(Running {
            resources: Resources::new(kernel, app, &counts)?,
            results: RefCell::new(app.tasks.iter().map(result).collect()),
            threads: RefCell::default(),
            live: RefCell::new(0),
            app: app.clone(),
        });
        let mut number = 0;
        for (index, task) in app.tasks.iter().enumerate() {
            let allowed = allowed(kernel, task)?;
            let path = task.sched.taskgroup.as_deref().unwrap_or_default();
            let group = groups.at(kernel, path)?;
            for thread in 0..counts[task.name.as_str()] {
                let spec = TaskSpec {
                    name: format!("{}-{thread}", task.name),
                    policy: Scheduling::of(app, &task.sched).policy(kernel),
                    cpu: match &allowed {
                        Some(allowed) => any_of(allowed, number)?,
                        None => CpuId((number % kernel.cpu_count()) as u16),
                    },
                    allowed: allowed.clone(),
                    start: Cycles(number as u64),
                };
                let is_forked = thread >= u64::from(task.instances);
                let shared = Rc::clone(&running);
                let thread = kernel.spawn_in(group, &spec, move |thread| async move {
                    shared.begin(&thread, index, is_forked).await;
                })?;
                running.threads.borrow_mut().push((index, thread));
                number += 1;
            }
            *running.live.borrow_mut() += u64::from(task.instances);
        }
        Ok(running)
    }

    async fn begin(&self, thread: &Thread, index: usize, is_forked: bool) {
        let task = &self.app.tasks[index];
        if is_forked {
            self.resources.be_forked(thread, &task.name).await;
        }
        self.results.borrow_mut()[index].threads += 1;
        if !task.delay.is_zero() {
            thread.sleep(cycles(thread, task.delay)).await;
        }
        let mut timers = BTreeMap::new();
        let start = thread.now();
        let mut now = Scheduling::of(&self.app, &task.sched);
        for _ in turns(task.loops) {
            for phase in &task.phases {
                let next = now.then(&phase.sched);
                if next != now {
                    let own = Rc::clone(thread.task());
                    let policy = next.policy(thread.kernel());
                    thread.sched_setscheduler(&own, policy).await;
                    now = next;
                }
                for _ in turns(phase.loops) {
                    for event in &phase.events {
                        let own = OwnTimers {
                            next: &mut timers,
                            start,
                        };
                        self.event(thread, index, event, own).await;
                    }
                    self.results.borrow_mut()[index].phases += 1;
                }
            }
        }
        let last = {
            let mut live = self.live.borrow_mut();
            *live -= 1;
            *live == 0
        };
        if last {
            thread.engine().stop();
        }
    }

    async fn event(&self, thread: &Thread, index: usize, event: &Event, own: OwnTimers<'_>) {
        let resources = &self.resources;
        match event {
            Event::Run(time) | Event::Runtime(time) => thread.run(cycles(thread, *time)).await,
            Event::Mem(bytes) => thread.run(Cycles(bytes / MEM_BYTES_PER_CYCLE + 1)).await,
            Event::Io(bytes) => {
                let calls = bytes.div_ceil(self.app.global.mem_buffer_size_bytes);
                for _ in 0..calls {
                    thread.null_write().await;
                }
            }
            Event::Sleep(time) => thread.sleep(cycles(thread, *time)).await,
            Event::Timer(timer) => self.timer(thread, index, timer, own).await,
            Event::Lock(mutex) => resources.lock(thread, mutex).await,
            Event::Unlock(mutex) => resources.unlock(thread, mutex).await,
            Event::Wait(condition) => {
                resources
                    .wait(thread, &condition.name, &condition.mutex)
                    .await;
            }
            Event::Signal(condition) => resources.signal(thread, condition, 1).await,
            Event::Broadcast(condition) => resources.signal(thread, condition, usize::MAX).await,
            Event::Sync(condition) => {
                resources.lock(thread, &condition.mutex).await;
                resources.signal(thread, &condition.name, 1).await;
                resources
                    .wait(thread, &condition.name, &condition.mutex)
                    .await;
                resources.unlock(thread, &condition.mutex).await;
            }
            Event::Barrier(barrier) => resources.barrier(thread, barrier).await,
            Event::Suspend => resources.suspend(thread, &self.app.tasks[index].name).await,
            Event::Resume(task) => resources.resume(thread, task).await,
            Event::SemWait(name) => resources.sem_wait(thread, name).await,
            Event::SemPost(name) => resources.sem_post(thread, name).await,
            Event::Yield => thread.sched_yield().await,
            Event::Fork(task) => {
                *self.live.borrow_mut() += 1;
                resources.fork(thread, task).await;
            }
        }
    }

    async fn timer(&self, thread: &Thread, index: usize, timer: &Timer, own: OwnTimers<'_>) {
        let period = cycles(thread, timer.period);
        let due = {
            let mut shared = self.resources.timers.borrow_mut();
            let next = if timer.is_unique() {
                own.next
            } else {
                &mut *shared
            };
            let now = thread.now();
            let next = next.entry(timer.name.clone()).or_insert(own.start);
            *next += period;
            let due = *next;
            if due <= now && timer.mode == TimerMode::Relative {
                *next = now;
            }
            due
        };
        let slack = due.0 as i64 - thread.now().0 as i64;
        let is_missed = slack <= 0;
        if !is_missed {
            thread.sleep_until(due).await;
        }
        let late = thread.now().saturating_sub(due);
        let result = &mut self.results.borrow_mut()[index];
        result.slack_cycles_min = match result.timers {
            0 => slack,
            _ => result.slack_cycles_min.min(slack),
        };
        result.slack_sum_cycles += slack;
        result.timers += 1;
        if is_missed {
            result.missed += 1;
        } else {
            result.late_sum += late;
            result.late_max = result.late_max.max(late);
        }
    }
}

/// The timers of one thread.
struct OwnTimers<'a> {
    next: &'a mut BTreeMap<String, Cycles>,
    start: Cycles,
}

/// As many turns as there are loops.
fn turns(loops: Loops) -> Range<u64> {
    match loops {
        Loops::Forever => 0..u64::MAX,
        Loops::Times(times) => 0..times,
    }
}

fn cycles(thread: &Thread, time: Duration) -> Cycles {
    thread.kernel().cycles(Nanos(time.as_nanos() as f64))
}

fn error(task: &Task, problem: &str) -> SimError {
    SimError::Workload(format!("rt-app task {:?}: {problem}", task.name))
}

fn check(app: &RtApp, has_end: bool) -> Result<(), SimError> {
    for task in &app.tasks {
        let mut phases = task.phases.iter();
        let endless = task.loops == Loops::Forever || phases.any(|p| p.loops == Loops::Forever);
        if endless && !has_end {
            let problem = "it never ends: \"duration\" in global, or the scenario's, is needed";
            return Err(error(task, problem));
        }
    }
    Ok(())
}

fn allowed(kernel: &Kernel, task: &Task) -> Result<Option<CpuMask>, SimError> {
    let Some(cpus) = &task.sched.cpus else {
        return Ok(None);
    };
    let has = kernel.cpu_count();
    if let Some(cpu) = cpus.iter().find(|cpu| **cpu as usize >= has) {
        let problem = format!("CPU {cpu} does not exist: there are 0 to {}", has - 1);
        return Err(error(task, &problem));
    }
    let cpus = cpus.iter().map(|cpu| CpuId(*cpu as u16));
    Ok(Some(CpuMask::of(has, cpus)))
}

/// Threads that each task will ever have: its instances and those that others fork.
fn thread_counts(app: &RtApp) -> Result<BTreeMap<&str, u64>, SimError> {
    let mut children: BTreeMap<&str, BTreeMap<&str, u64>> = BTreeMap::new();
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for task in &app.tasks {
        let of_task = children.entry(&task.name).or_default();
        for (child, forks) in forks(task)? {
            let all = of_task.entry(child).or_default();
            *all = all.saturating_add(forks);
        }
        *counts.entry(&task.name).or_default() += u64::from(task.instances);
    }
    // Tasks that threads of others fork, by the number of those others.
    let running = counts.iter().filter(|(_, count)| **count > 0);
    let mut found: Vec<&str> = running.map(|(name, _)| *name).collect();
    let mut parents: BTreeMap<&str, usize> = found.iter().map(|name| (*name, 0)).collect();
    while let Some(task) = found.pop() {
        for child in children[task].keys() {
            let is_new = !parents.contains_key(child);
            *parents.entry(child).or_default() += 1;
            found.extend(is_new.then_some(*child));
        }
    }
    // A task's threads are counted when those of all its parents are.
    let roots = parents.iter().filter(|(_, count)| **count == 0);
    let mut ready: Vec<&str> = roots.map(|(name, _)| *name).collect();
    while let Some(task) = ready.pop() {
        for (child, forks) in &children[task] {
            let all = forks.saturating_mul(counts[task]);
            let count = counts.entry(child).or_default();
            *count = count.saturating_add(all);
            let left = parents.entry(child).or_default();
            *left -= 1;
            ready.extend((*left == 0).then_some(*child));
        }
    }
    if parents.values().any(|left| *left > 0) {
        let problem = "rt-app tasks that fork each other for ever are not modelled";
        return Err(SimError::Workload(problem.to_owned()));
    }
    if counts
        .values()
        .fold(0, |sum: u64, count| sum.saturating_add(*count))
        > THREADS_MAX
    {
        let problem = format!("more than {THREADS_MAX} threads, forked ones included");
        return Err(SimError::Workload(problem));
    }
    Ok(counts)
}

/// Number of times that one thread of a task forks each other task.
fn forks(task: &Task) -> Result<BTreeMap<&str, u64>, SimError> {
    let mut forks: BTreeMap<&str, u64> = BTreeMap::new();
    for phase in &task.phases {
        let loops = match (task.loops, phase.loops) {
            (Loops::Times(outer), Loops::Times(inner)) => Some(outer.saturating_mul(inner)),
            _ => None,
        };
        for event in &phase.events {
            let Event::Fork(child) = event else {
                continue;
            };
            let loops = loops.ok_or_else(|| error(task, "forks without end are not modelled"))?;
            let count = forks.entry(child).or_default();
            *count = count.saturating_add(loops);
        }
    }
    Ok(forks)
}
