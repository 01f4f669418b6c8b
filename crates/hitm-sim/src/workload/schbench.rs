//! A request and response load in the manner of schbench: message threads that hand out work, workers
//! that do it and ask for more.
//!
//! A worker tells its message thread that it is ready and sleeps; the message thread wakes all that are
//! ready. How long a worker takes from being woken to running, and from being woken to the end of its
//! request, is what the benchmark shows.

use std::cell::RefCell;
use std::rc::Rc;

use hitm_base::{Cycles, Nanos};

use super::WorkloadKind;
use super::deck::CpuDeck;
use super::figures::{Add, Figure, Figures, Window, figures};
use super::keys::{self, Table};
use super::kind::{Kind, Program};
use super::metric::WorkloadResult;
use crate::engine::{Rmw, SimError};
use crate::kernel::{Futex, Kernel, Policy, TaskSpec, Thread};
use crate::scenario::ScenarioError;
use crate::scenario::products::Product;
use crate::scenario::start::Start;
use hitm_base::Topology;

/// Configuration of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SchbenchConfig {
    /// Message threads (`-m`).
    pub message_threads: usize,
    /// Workers of each (`-t`).
    pub workers: usize,
    /// Time that a request takes.
    pub work: Nanos,
    /// Time that a message thread waits between two rounds.
    pub pause: Nanos,
}

/// Times of all requests.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Requests {
    /// From the wake-up to the worker's first instruction.
    pub wakeups: Vec<Cycles>,
    /// From the wake-up to the end of the request.
    pub requests: Vec<Cycles>,
}

/// A run.
#[derive(Debug)]
pub struct Schbench {
    requests: RefCell<Requests>,
    config: SchbenchConfig,
}

/// State that a message thread and its workers share.
#[derive(Debug)]
struct Desk {
    /// Of each worker: its word is 1 while it waits.
    waiting: Vec<Rc<Futex>>,
    /// Counts workers that have become ready.
    ready: Rc<Futex>,
    /// Time at which each was woken.
    woken: RefCell<Vec<Cycles>>,
}

impl Schbench {
    /// Makes the threads; they begin on random CPUs.
    ///
    /// # Errors
    /// Layouts without what a futex needs.
    pub fn spawn(kernel: &Rc<Kernel>, config: SchbenchConfig) -> Result<Rc<Schbench>, SimError> {
        let bench = Rc::new(Schbench {
            requests: RefCell::default(),
            config,
        });
        let mut random = kernel.engine().random("schbench");
        let mut cpus = CpuDeck::default();
        for number in 0..config.message_threads {
            let waiting = (0..config.workers).map(|_| kernel.futex("waiting"));
            let desk = Rc::new(Desk {
                waiting: waiting.collect::<Result<Vec<_>, _>>()?,
                ready: kernel.futex("ready")?,
                woken: RefCell::new(vec![Cycles::ZERO; config.workers]),
            });
            for worker in 0..=config.workers {
                let spec = TaskSpec {
                    name: format!("schbench/{number}.{worker}"),
                    policy: Policy::Normal(0),
                    allowed: None,
                    cpu: cpus.draw(kernel.cpu_count(), &mut random),
                    start: Cycles(random.below(kernel.cycles(Nanos(1e5)).0)),
                };
                let (bench, desk) = (Rc::clone(&bench), Rc::clone(&desk));
                kernel.spawn(&spec, move |thread| async move {
                    match worker.checked_sub(1) {
                        None => bench.hand_out(&thread, &desk).await,
                        Some(own) => bench.work(&thread, &desk, own).await,
                    }
                })?;
            }
        }
        Ok(bench)
    }

    /// Times so far.
    pub fn requests(&self) -> Requests {
        self.requests.borrow().clone()
    }

    async fn hand_out(&self, thread: &Thread, desk: &Desk) {
        let pause = thread.kernel().cycles(self.config.pause);
        loop {
            let seen = thread.read_word(&desk.ready).await;
            for (worker, futex) in desk.waiting.iter().enumerate() {
                if thread.read_word(futex).await == 1 {
                    desk.woken.borrow_mut()[worker] = thread.now();
                    thread.change_word(futex, Rmw::And(0)).await;
                    thread.futex_wake(futex, 1).await;
                }
            }
            if pause > Cycles::ZERO {
                thread.sleep(pause).await;
            }
            thread.futex_wait(&desk.ready, seen).await;
        }
    }

    async fn work(&self, thread: &Thread, desk: &Desk, own: usize) {
        let span = thread.kernel().cycles(self.config.work);
        let futex = &desk.waiting[own];
        loop {
            thread.change_word(futex, Rmw::Or(1)).await;
            thread.change_word(&desk.ready, Rmw::Add(1)).await;
            thread.futex_wake(&desk.ready, 1).await;
            while thread.read_word(futex).await == 1 {
                thread.futex_wait(futex, 1).await;
            }
            let woken = desk.woken.borrow()[own];
            let wakeup = thread.now().saturating_sub(woken);
            thread.run(span).await;
            let request = thread.now().saturating_sub(woken);
            let mut requests = self.requests.borrow_mut();
            requests.wakeups.push(wakeup);
            requests.requests.push(request);
        }
    }
}

figures! {
    FIGURES {
        REQUESTS: "requests", "count", "Requests done in the whole run";
        WAKEUP_US_P50: "wakeup_us_p50", "us", "From the wake-up of a worker to its first instruction, half of all take at most this";
        WAKEUP_US_P99: "wakeup_us_p99", "us", "The same, 99 % of all";
        REQUEST_US_P50: "request_us_p50", "us", "From the wake-up of a worker to the end of its request, half of all take at most this";
        REQUEST_US_P99: "request_us_p99", "us", "The same, 99 % of all";
    }
}

impl Figures for Schbench {
    fn figures(&self, window: Window<'_>, add: Add<'_>) -> WorkloadResult {
        let requests = self.requests();
        add(REQUESTS, requests.requests.len() as f64);
        let mut of = |figures: [Figure; 2], times: &[Cycles]| {
            let mut times = times.to_vec();
            times.sort_unstable();
            for (figure, part) in figures.into_iter().zip([0.5, 0.99]) {
                if let Some(last) = times.len().checked_sub(1) {
                    let time = times[(last as f64 * part).round() as usize];
                    add(figure, window.micros(time));
                }
            }
        };
        of([WAKEUP_US_P50, WAKEUP_US_P99], &requests.wakeups);
        of([REQUEST_US_P50, REQUEST_US_P99], &requests.requests);
        WorkloadResult::default()
    }
}

pub(super) const KIND: Kind = Kind {
    name: "schbench",
    default_name: "schbench",
    read,
    figures: &[FIGURES],
    ends: false,
    needed: "",
    optional: r#"
message_threads = 2
workers = 16
work = "500us"
pause = "0s" | "2ms"
"#,
};

fn read(table: &Table<'_, '_, '_>) -> Result<WorkloadKind, ScenarioError> {
    let work = keys::span(table, "work", keys::SHORT, Nanos(500e3))?;
    let pause = keys::span(table, "pause", keys::ANY, Nanos(0.0))?;
    Ok(WorkloadKind::Schbench(SchbenchConfig {
        message_threads: keys::count(table, "message_threads", 4096)?.unwrap_or(2),
        workers: keys::count(table, "workers", 4096)?.unwrap_or(16),
        work,
        pause,
    }))
}

impl Program for SchbenchConfig {
    fn kind(&self) -> &'static Kind {
        &KIND
    }

    fn start(&self, start: &Start<'_>) -> Result<Rc<dyn Figures>, SimError> {
        Ok(Schbench::spawn(start.kernel, *self)?)
    }

    fn tasks(&self, _topology: &Topology) -> Product {
        let factors = [
            ("message_threads", self.message_threads as u64),
            ("(1 + workers)", self.workers as u64 + 1),
        ];
        Product::new("workers", &factors)
    }
}
