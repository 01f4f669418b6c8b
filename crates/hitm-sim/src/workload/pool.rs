//! Thread pools as FFmpeg runs them: several instances, each pinned to a few CPUs, with more worker
//! threads than CPUs and frames that depend on each other.
//!
//! A token stands for work that may continue: a frame whose predecessors are far enough. A worker
//! that has a token computes for a while, hands the token to the next worker of the ring, and
//! sleeps until one comes to it. So `tokens` workers of an instance want a CPU at any time, and
//! each burst costs one wake-up and one block.
//!
//! Source: the set-up of the root_domain layout patch (60 instances, 8 CPUs each, `SCHED_FIFO` 99).
//! Threads per instance, bursts and wake-ups per second are unpublished: parameters here.
//! Not modelled: the memory that the codec works on.

use std::cell::Cell;
use std::iter::repeat_n;
use std::rc::Rc;

use hitm_base::{CpuId, Cycles, Nanos};

use super::cyclic::{HogsConfig, spawn_hogs};
use super::figures::{Add, Figures, Window, figures};
use super::metric::WorkloadResult;
use crate::engine::{HostSpan, Random, Rmw, SimError};
use crate::kernel::{CpuMask, Futex, GroupId, Kernel, Policy, TaskSpec, Thread};

/// The pools of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct PoolConfig {
    /// The CPUs of each instance.
    pub instances: Vec<CpuMask>,
    /// Worker threads of an instance.
    pub workers: usize,
    /// Tokens of an instance: how many workers want a CPU.
    pub tokens: usize,
    /// Threads of the fair class of an instance that never sleep.
    pub fair: usize,
    /// True if the tokens go round together, as slices of one frame do. The last worker that is
    /// done wakes the next ones, all at once. Otherwise each worker wakes one.
    pub slices: bool,
    /// Their policy.
    pub policy: Policy,
    /// The shortest burst.
    pub burst_least: Nanos,
    /// The longest; lengths are uniform between the two.
    pub burst_most: Nanos,
    /// Bursts that make a frame, for the score.
    pub frame_bursts: u64,
}

impl PoolConfig {
    /// As many instances as fit with `cores` cores each, all threads of a core in one instance.
    pub fn per_cores(kernel: &Kernel, cores: usize) -> Vec<CpuMask> {
        let topology = &kernel.engine().machine().topology;
        let cpus = topology.cpu_count();
        let count = topology.core_count() / cores.max(1);
        let of_instance = |instance: usize| {
            let its = topology
                .cpus()
                .filter(|cpu| usize::from(topology.core_of(*cpu)) / cores.max(1) == instance);
            CpuMask::of(cpus, its)
        };
        (0..count).map(of_instance).collect()
    }
}

#[derive(Debug)]
struct Worker {
    tokens: Cell<u64>,
    gate: Rc<Futex>,
}

/// One instance.
#[derive(Debug)]
struct Instance {
    workers: Vec<Worker>,
    /// Slices under way.
    pending: Cell<usize>,
}

/// Pools that run.
#[derive(Debug)]
pub struct Pools {
    config: PoolConfig,
    bursts: Cell<u64>,
}

impl Pools {
    /// Makes the threads of all instances.
    pub fn spawn(kernel: &Rc<Kernel>, config: PoolConfig) -> Result<Rc<Pools>, SimError> {
        let pools = Rc::new(Pools {
            config: config.clone(),
            bursts: Cell::new(0),
        });
        for (number, cpus) in config.instances.iter().enumerate() {
            pools.spawn_instance(kernel, number, cpus)?;
        }
        let beside = |cpus: &CpuMask| repeat_n(cpus.clone(), config.fair);
        let beside: Vec<CpuMask> = config.instances.iter().flat_map(beside).collect();
        let fair = HogsConfig {
            policy: Policy::Normal(0),
            start: Nanos(0.0),
        };
        spawn_hogs(kernel, GroupId::ROOT, &beside, fair)?;
        Ok(pools)
    }

    fn spawn_instance(
        self: &Rc<Self>,
        kernel: &Rc<Kernel>,
        number: usize,
        cpus: &CpuMask,
    ) -> Result<(), SimError> {
        let mut random = kernel.engine().random(&format!("pool {number}"));
        let places: Vec<CpuId> = cpus.iter().collect();
        if places.is_empty() {
            return Err(SimError::Workload(format!("pool {number} has no CPU")));
        }
        let mut workers = Vec::new();
        for worker in 0..self.config.workers {
            workers.push(Worker {
                tokens: Cell::new(u64::from(worker < self.config.tokens)),
                gate: kernel.futex(&format!("pool.gate{}", worker % 8))?,
            });
        }
        let instance = Rc::new(Instance {
            workers,
            pending: Cell::new(self.config.tokens),
        });
        for worker in 0..self.config.workers {
            let spec = TaskSpec {
                name: format!("pool{number}/{worker}"),
                policy: self.config.policy,
                allowed: Some(cpus.clone()),
                cpu: places[random.below(places.len() as u64) as usize],
                start: Cycles(random.below(kernel.cycles(self.config.burst_most).0 + 1)),
            };
            let (pools, instance) = (Rc::clone(self), Rc::clone(&instance));
            let stream = kernel
                .engine()
                .random(&format!("pool {number} worker {worker}"));
            let gates = [worker, (worker + 1) % self.config.workers];
            let gates = gates.map(|worker| instance.workers[worker].gate.footprint());
            let workers = HostSpan::of(&instance.workers[..]);
            let task = kernel.spawn(&spec, move |thread| async move {
                pools.work(&thread, &instance, worker, stream).await;
            })?;
            kernel.add_footprint(&task, &[workers], &[]);
            for (host, simulated) in gates {
                kernel.add_footprint(&task, &host, &[simulated]);
            }
        }
        Ok(())
    }

    async fn work(&self, thread: &Thread, instance: &Instance, own: usize, mut random: Random) {
        let kernel = thread.kernel();
        let least = kernel.cycles(self.config.burst_least).0;
        let most = kernel.cycles(self.config.burst_most).0.max(least);
        let me = &instance.workers[own];
        loop {
            while me.tokens.get() == 0 {
                let seen = thread.read_word(&me.gate).await;
                if me.tokens.get() == 0 {
                    thread.futex_wait(&me.gate, seen).await;
                }
            }
            me.tokens.set(me.tokens.get() - 1);
            thread.run(Cycles(random.between(least, most))).await;
            self.bursts.set(self.bursts.get() + 1);
            for next in self.next_workers(instance, own) {
                next.tokens.set(next.tokens.get() + 1);
                thread.change_word(&next.gate, Rmw::Add(1)).await;
                thread.futex_wake(&next.gate, 1).await;
            }
        }
    }

    /// Workers that get a token when a worker is done.
    fn next_workers<'a>(&self, instance: &'a Instance, own: usize) -> Vec<&'a Worker> {
        let workers = &instance.workers;
        let count = if self.config.slices {
            let pending = instance.pending.get() - 1;
            if pending > 0 {
                instance.pending.set(pending);
                return Vec::new();
            }
            instance.pending.set(self.config.tokens);
            self.config.tokens
        } else {
            1
        };
        (1..=count)
            .map(|step| &workers[(own + step) % workers.len()])
            .collect()
    }

    /// Bursts done so far.
    pub fn bursts(&self) -> u64 {
        self.bursts.get()
    }

    /// Bursts that make a frame.
    pub fn frame_bursts(&self) -> u64 {
        self.config.frame_bursts
    }
}

figures! {
    FIGURES {
        FRAMES_PER_SECOND: "frames_per_second", "1/s", "Frames of all instances a second";
        BURSTS_PER_SECOND: "bursts_per_second", "1/s", "Bursts of all workers a second";
    }
}

impl Figures for Pools {
    fn operations(&self) -> u64 {
        self.bursts()
    }

    fn figures(&self, window: Window<'_>, add: Add<'_>) -> WorkloadResult {
        let frames = window.per_second / self.frame_bursts() as f64;
        add(FRAMES_PER_SECOND, frames);
        add(BURSTS_PER_SECOND, window.per_second);
        WorkloadResult::default()
    }
}
