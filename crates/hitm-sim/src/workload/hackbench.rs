//! `hackbench -p` of rt-tests and perf: groups of senders and receivers over pipes.
//!
//! In each group every sender writes its messages to the pipe of every receiver, one round after
//! the other. Every receiver reads what all senders write. The run ends when all messages are read.

use std::cell::Cell;
use std::rc::Rc;

use hitm_base::{Cycles, Nanos};

use super::WorkloadKind;
use super::deck::CpuDeck;
use super::figures::{Add, Figures, Window, figures};
use super::keys::{self, Table};
use super::kind::{Kind, Program};
use super::metric::WorkloadResult;
use crate::engine::SimError;
use crate::kernel::{Kernel, Pipe, Policy, TaskSpec, Thread};
use crate::scenario::ScenarioError;
use crate::scenario::products::Product;
use crate::scenario::start::Start;
use hitm_base::Topology;

/// Configuration of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HackbenchConfig {
    /// Groups (`-g`).
    pub groups: usize,
    /// Senders, and as many receivers, of a group (`-f`).
    pub pairs: usize,
    /// Messages of each sender to each receiver (`-l`).
    pub loops: u64,
    /// Bytes of a message (`-s`).
    pub size_bytes: u64,
}

/// A run.
#[derive(Debug)]
pub struct Hackbench {
    /// Receivers that still wait for messages.
    receiving: Cell<usize>,
    /// Times at which the first thread began and the last receiver had all.
    first: Cell<Cycles>,
    last: Cell<Cycles>,
    messages: Cell<u64>,
}

impl Hackbench {
    /// Makes pipes and threads; they begin on random CPUs.
    ///
    /// # Errors
    /// Layouts without what a pipe needs.
    pub fn spawn(kernel: &Rc<Kernel>, config: HackbenchConfig) -> Result<Rc<Hackbench>, SimError> {
        let bench = Rc::new(Hackbench {
            receiving: Cell::new(config.groups * config.pairs),
            first: Cell::new(Cycles::MAX),
            last: Cell::new(Cycles::ZERO),
            messages: Cell::new(0),
        });
        let mut random = kernel.engine().random("hackbench");
        let mut cpus = CpuDeck::default();
        for group in 0..config.groups {
            let pipes = (0..config.pairs).map(|pipe| kernel.pipe(&format!("pipe{group}.{pipe}")));
            let pipes: Rc<[Rc<Pipe>]> = pipes.collect::<Result<Vec<_>, _>>()?.into();
            for number in 0..config.pairs * 2 {
                let spec = TaskSpec {
                    name: format!("hackbench/{group}.{number}"),
                    policy: Policy::Normal(0),
                    allowed: None,
                    cpu: cpus.draw(kernel.cpu_count(), &mut random),
                    start: Cycles(random.below(kernel.cycles(Nanos(1e5)).0)),
                };
                let (bench, pipes) = (Rc::clone(&bench), Rc::clone(&pipes));
                kernel.spawn(&spec, move |thread| async move {
                    bench.first.set(bench.first.get().min(thread.now()));
                    match number.checked_sub(config.pairs) {
                        None => send(&thread, &pipes, config).await,
                        Some(own) => bench.receive(&thread, &pipes[own], config).await,
                    }
                })?;
            }
        }
        Ok(bench)
    }

    async fn receive(&self, thread: &Thread, pipe: &Pipe, config: HackbenchConfig) {
        for _ in 0..config.pairs as u64 * config.loops {
            thread.read_pipe(pipe, config.size_bytes).await;
            self.messages.set(self.messages.get() + 1);
        }
        self.receiving.set(self.receiving.get() - 1);
        self.last.set(self.last.get().max(thread.now()));
        if self.receiving.get() == 0 {
            thread.engine().stop();
        }
    }

    /// From the first thread's start to the last message, once all are read.
    pub fn time(&self) -> Option<Cycles> {
        let is_done = self.receiving.get() == 0;
        is_done.then(|| self.last.get() - self.first.get())
    }

    /// Messages read so far.
    pub fn messages(&self) -> u64 {
        self.messages.get()
    }
}

async fn send(thread: &Thread, pipes: &[Rc<Pipe>], config: HackbenchConfig) {
    for _ in 0..config.loops {
        for pipe in pipes {
            thread.write_pipe(pipe, config.size_bytes).await;
        }
    }
}

figures! {
    FIGURES {
        TIME_MS: "time_ms", "ms", "From the first thread's start to the last message read";
        MESSAGES: "messages", "count", "Messages read in the whole run";
    }
}

impl Figures for Hackbench {
    fn figures(&self, window: Window<'_>, add: Add<'_>) -> WorkloadResult {
        if let Some(time) = self.time() {
            add(TIME_MS, window.clock.nanos(time).0 / 1e6);
        }
        add(MESSAGES, self.messages() as f64);
        WorkloadResult::default()
    }
}

pub(super) const KIND: Kind = Kind {
    name: "hackbench",
    default_name: "hackbench",
    read,
    figures: &[FIGURES],
    ends: true,
    needed: "",
    optional: r#"
groups = 2 | 1
pairs = 2 | 20
loops = 10 | 100
size_bytes = 100 | 1
"#,
};

fn read(table: &Table<'_, '_, '_>) -> Result<WorkloadKind, ScenarioError> {
    Ok(WorkloadKind::Hackbench(HackbenchConfig {
        groups: keys::count(table, "groups", 4096)?.unwrap_or(10),
        pairs: keys::count(table, "pairs", 256)?.unwrap_or(20),
        loops: table.number("loops", 1, 1_000_000)?.unwrap_or(100),
        size_bytes: table.number("size_bytes", 1, 4096)?.unwrap_or(100),
    }))
}

impl Program for HackbenchConfig {
    fn kind(&self) -> &'static Kind {
        &KIND
    }

    fn start(&self, start: &Start<'_>) -> Result<Rc<dyn Figures>, SimError> {
        Ok(Hackbench::spawn(start.kernel, *self)?)
    }

    fn tasks(&self, _topology: &Topology) -> Product {
        let (groups, pairs) = (self.groups as u64, self.pairs as u64);
        Product::new("pairs", &[("", 2), ("groups", groups), ("pairs", pairs)])
    }

    fn bytes_in_pipes(&self) -> Option<Product> {
        let factors = [
            ("groups", self.groups as u64),
            ("pairs", self.pairs as u64),
            ("size_bytes", self.size_bytes),
        ];
        Some(Product::new("size_bytes", &factors))
    }
}
