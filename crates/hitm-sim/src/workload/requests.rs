//! Requests that come by themselves, and a pool of threads that serves them: a service whose tasks
//! sleep.
//!
//! Requests arrive as a Poisson process, one or several at once, or at the times of a trace. A thread
//! that waits takes the next; the one that has waited longest goes first. When none waits, requests queue up in
//! order. Or each thread has a client of its own, who thinks between its requests.
//!
//! Each request's latency is split: the time on a CPU, the wait for a thread, and the waits of that
//! thread by cause ([`WaitCauses`]). The queue of requests is not in simulated memory.

mod arrivals;
mod figures;
mod spec;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use hitm_base::{CpuId, Cycles, Nanos};

use self::arrivals::{Pattern, Source};
use self::figures::FIGURES;
pub(super) use self::spec::KIND;
pub use self::spec::RequestsSpec;
use super::cyclic::any_of;
use crate::engine::{Random, SimError};
use crate::kernel::{
    Arrivals, CpuMask, GroupId, Kernel, Policy, TaskId, TaskSpec, Thread, WaitCauses,
};

hitm_base::words! {
    /// The distribution of times.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Times {
        /// All are the mean.
        Fixed = "fixed",
        /// Uniform from 0 to twice the mean.
        Uniform = "uniform",
        /// Exponential.
        Exponential = "exponential",
    }
}

impl Times {
    /// A time of this mean, at least a cycle.
    pub(super) fn draw(self, mean: Cycles, random: &mut Random) -> Cycles {
        let cycles = match self {
            Times::Fixed => mean.0,
            Times::Uniform => random.below(2 * mean.0 + 1),
            Times::Exponential => random.exponential(mean.0),
        };
        Cycles(cycles.max(1))
    }
}

/// A request of a trace.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TracedRequest {
    /// Time from the start of the run.
    pub at: Nanos,
    /// CPU time that it takes.
    pub service: Nanos,
}

/// The coming of requests.
#[derive(Debug, Clone, PartialEq)]
pub enum Load {
    /// Poisson arrivals.
    Rate {
        /// Arrivals a second.
        per_second: u64,
        /// Requests of each.
        batch: u64,
    },
    /// One client for each thread.
    Think {
        /// Mean time between the end of a request and the next.
        mean: Nanos,
        /// Its distribution.
        times: Times,
    },
    /// Those of a trace.
    Trace(Vec<TracedRequest>),
}

/// CPU time of requests that are drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Service {
    /// The mean.
    pub mean: Nanos,
    /// Its distribution.
    pub times: Times,
    /// The mean of long requests, and how many of a hundred are long.
    pub long: Option<(Nanos, u64)>,
}

impl Service {
    /// That of requests which state their own.
    pub(crate) const ZERO: Service = Service {
        mean: Nanos(0.0),
        times: Times::Fixed,
        long: None,
    };

    fn draw(&self, kernel: &Kernel, random: &mut Random) -> Cycles {
        let mean = match self.long {
            Some((mean, percent)) if random.chance(percent, 100) => mean,
            _ => self.mean,
        };
        self.times.draw(kernel.cycles(mean), random)
    }
}

/// Configuration of the service.
#[derive(Debug, Clone, PartialEq)]
pub struct RequestsConfig {
    /// The coming of requests.
    pub load: Load,
    /// CPU time of each; those of a trace have their own.
    pub service: Service,
    /// Nice value of the threads.
    pub nice: i8,
    /// CPUs that take the interrupts of arrivals, in turn.
    pub arrival_cpus: Vec<CpuId>,
}

/// A request that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Request {
    arrived: Cycles,
    service: Cycles,
}

/// A thread of the pool, as the sources of requests see it.
#[derive(Debug)]
struct Worker {
    task: TaskId,
    /// The request that it got while it waited.
    given: Cell<Option<Request>>,
}

/// Requests that are done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Done {
    /// Latency of each, from its arrival to its end, in order of the ends.
    pub latencies: Vec<Cycles>,
    /// Requests whose thread was stopped by a group without quota.
    pub throttled: u64,
    /// Sum of the waits for a thread.
    pub thread_wait: Cycles,
    /// Sums of the waits of threads, by cause.
    pub waits: WaitCauses,
    /// Sum of the times on a CPU.
    pub ran: Cycles,
}

/// A service that runs.
#[derive(Debug)]
pub struct Requests {
    service: Service,
    random: RefCell<Random>,
    workers: RefCell<Vec<Worker>>,
    /// Workers that wait, the first one longest.
    idle: RefCell<VecDeque<usize>>,
    queue: RefCell<VecDeque<Request>>,
    arrived: Cell<u64>,
    done: RefCell<Done>,
}

impl Requests {
    /// Makes a thread for each mask, in a group, and the sources of requests.
    ///
    /// # Errors
    /// Threads that may run nowhere.
    pub fn spawn(
        kernel: &Rc<Kernel>,
        group: GroupId,
        threads: &[CpuMask],
        config: &RequestsConfig,
    ) -> Result<Rc<Requests>, SimError> {
        let requests = Rc::new(Requests {
            service: config.service,
            random: RefCell::new(kernel.engine().random("requests")),
            workers: RefCell::default(),
            idle: RefCell::default(),
            queue: RefCell::default(),
            arrived: Cell::default(),
            done: RefCell::default(),
        });
        for (number, allowed) in threads.iter().enumerate() {
            let spec = TaskSpec {
                name: format!("request/{number}"),
                policy: Policy::Normal(config.nice),
                cpu: any_of(allowed, number)?,
                allowed: Some(allowed.clone()),
                start: Cycles(number as u64),
            };
            let (own, load) = (Rc::clone(&requests), config.load.clone());
            let body = move |thread: Thread| async move {
                match load {
                    Load::Think { mean, times } => own.serve_client(&thread, mean, times).await,
                    Load::Rate { .. } | Load::Trace(_) => own.serve_pool(&thread, number).await,
                }
            };
            let task = kernel.spawn_in(group, &spec, body)?.id;
            let given = Cell::default();
            requests.workers.borrow_mut().push(Worker { task, given });
        }
        requests.add_sources(kernel, config);
        Ok(requests)
    }

    /// Each CPU that takes interrupts has its part of the arrivals.
    fn add_sources(self: &Rc<Self>, kernel: &Rc<Kernel>, config: &RequestsConfig) {
        let count = config.arrival_cpus.len();
        for (number, cpu) in config.arrival_cpus.iter().enumerate() {
            let random = kernel.engine().random(&format!("arrivals {number}"));
            let pattern = match &config.load {
                Load::Think { .. } => return,
                Load::Rate { per_second, batch } => {
                    let mean = kernel.cycles(Nanos(1e9 * count as f64 / *per_second as f64));
                    Pattern::poisson(random, mean, *batch)
                }
                Load::Trace(all) => {
                    let own = all.iter().skip(number).step_by(count);
                    let cycles =
                        |one: &TracedRequest| (kernel.cycles(one.at), kernel.cycles(one.service));
                    Pattern::traced(own.map(cycles).collect())
                }
            };
            let source = Source::new(Rc::clone(self), kernel, pattern);
            kernel.add_arrivals(*cpu, Rc::new(source) as Rc<dyn Arrivals>);
        }
    }

    /// A request arrives; returns the task that is to be woken for it.
    fn arrive(&self, request: Request) -> Option<TaskId> {
        self.arrived.set(self.arrived.get() + 1);
        let Some(worker) = self.idle.borrow_mut().pop_front() else {
            self.queue.borrow_mut().push_back(request);
            return None;
        };
        let workers = self.workers.borrow();
        workers[worker].given.set(Some(request));
        Some(workers[worker].task)
    }

    /// CPU time of the next request.
    fn draw(&self, kernel: &Kernel) -> Cycles {
        self.service.draw(kernel, &mut self.random.borrow_mut())
    }

    async fn serve_pool(&self, thread: &Thread, own: usize) {
        loop {
            let before = thread.task().totals().waits;
            let queued = self.queue.borrow_mut().pop_front();
            if let Some(request) = queued {
                let thread_wait = thread.now().saturating_sub(request.arrived);
                self.serve(thread, request, thread_wait, before).await;
                continue;
            }
            self.idle.borrow_mut().push_back(own);
            let has_work = || self.workers.borrow()[own].given.get().is_some();
            thread.wait_for_work(has_work).await;
            let given = self.workers.borrow()[own].given.take();
            let request = given.expect("it has work");
            // It was woken for this request: its waits since then are the request's.
            self.serve(thread, request, Cycles::ZERO, before).await;
        }
    }

    async fn serve_client(&self, thread: &Thread, think: Nanos, times: Times) {
        let kernel = thread.kernel();
        let think = kernel.cycles(think);
        loop {
            let span = times.draw(think, &mut self.random.borrow_mut());
            let request = Request {
                arrived: thread.now() + span,
                service: self.draw(kernel),
            };
            let before = thread.task().totals().waits;
            thread.sleep_until(request.arrived).await;
            self.arrived.set(self.arrived.get() + 1);
            self.serve(thread, request, Cycles::ZERO, before).await;
        }
    }

    /// Runs a request. Its thread had waited for `before` when the request came to it.
    async fn serve(
        &self,
        thread: &Thread,
        request: Request,
        thread_wait: Cycles,
        before: WaitCauses,
    ) {
        thread.run(request.service).await;
        let waits = thread.task().totals().waits.since(&before);
        let latency = thread.now().saturating_sub(request.arrived);
        let mut done = self.done.borrow_mut();
        done.latencies.push(latency);
        done.throttled += u64::from(waits.throttled() > Cycles::ZERO);
        done.thread_wait += thread_wait;
        done.waits.add(&waits);
        done.ran += latency.saturating_sub(thread_wait + waits.total());
    }

    /// Requests that have arrived so far.
    pub fn arrived(&self) -> u64 {
        self.arrived.get()
    }

    /// Requests that are done so far.
    pub fn done(&self) -> Done {
        self.done.borrow().clone()
    }
}
