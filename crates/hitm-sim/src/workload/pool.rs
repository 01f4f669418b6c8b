//! Thread pools as FFmpeg runs them: several instances, each pinned to a few CPUs, with more worker
//! threads than CPUs and frames that depend on each other.
//!
//! A token stands for work that may continue: a frame whose predecessors are far enough. A worker
//! that has a token computes for a while, hands the token to the next worker of the ring, or to any
//! other one, and sleeps until one comes to it. So `tokens` workers of an instance want a CPU at any
//! time. A burst costs one wake-up and one block where these are fewer than its CPUs; where they are
//! more, tokens meet at workers that are not done yet.
//!
//! Source: the set-up of the root_domain layout patch (60 instances, 8 CPUs each, `SCHED_FIFO` 99).
//! Threads per instance, bursts and wake-ups per second are unpublished: parameters here.
//! Not modelled: the memory that the codec works on.

use std::cell::Cell;
use std::iter::repeat_n;
use std::rc::Rc;

use hitm_base::{CpuId, Cycles, Nanos};

use super::WorkloadKind;
use super::cyclic::{HogsConfig, spawn_hogs};
use super::figures::{Add, Figures, Window, figures};
use super::keys::{self, Table};
use super::kind::{Kind, Program};
use super::metric::WorkloadResult;
use crate::engine::{HostSpan, Random, Rmw, SimError};
use crate::kernel::{CpuMask, Futex, GroupId, Kernel, Policy, TaskSpec, Thread};
use crate::scenario::ScenarioError;
use crate::scenario::check::Check;
use crate::scenario::products::Product;
use crate::scenario::start::Start;
use hitm_base::Topology;

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
    /// True if a worker hands its token to any other one, by chance.
    pub random: bool,
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
            for next in self.next_workers(instance, own, &mut random) {
                next.tokens.set(next.tokens.get() + 1);
                thread.change_word(&next.gate, Rmw::Add(1)).await;
                thread.futex_wake(&next.gate, 1).await;
            }
        }
    }

    /// Workers that get a token when a worker is done.
    fn next_workers<'a>(
        &self,
        instance: &'a Instance,
        own: usize,
        random: &mut Random,
    ) -> Vec<&'a Worker> {
        let workers = &instance.workers;
        let first = match self.config.random && workers.len() > 1 {
            true => 1 + random.below(workers.len() as u64 - 1) as usize,
            false => 1,
        };
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
        (first..first + count)
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

/// Thread pools.
#[derive(Debug, Clone, PartialEq)]
pub struct PoolSpec {
    /// Instances; absent for as many as the machine's cores make.
    pub instances: Option<usize>,
    /// Cores of each instance, with all their threads.
    pub cores_per_instance: usize,
    /// Worker threads of an instance.
    pub workers: usize,
    /// Number of them that want a CPU at any time.
    pub runnable: usize,
    /// Threads of the fair class of an instance that never sleep.
    pub fair: usize,
    /// True if these wake up together, as slices of one frame.
    pub slices: bool,
    /// True if a worker hands its token to any other one, by chance.
    pub random: bool,
    /// Their policy.
    pub policy: Policy,
    /// Wake-ups a second and CPU that the pool would make if the kernel cost nothing: one variant
    /// each.
    pub wakeups_per_second: Vec<u64>,
    /// The longest burst over the shortest.
    pub burst_ratio: u64,
    /// Time of a CPU that a frame takes.
    pub frame_time: Nanos,
}

pub(super) const KIND: Kind = Kind {
    name: "ffmpeg",
    default_name: "ffmpeg",
    read,
    figures: &[FIGURES],
    ends: false,
    needed: r#"
cores_per_instance = 1 | 2 | 4
workers = 12 | 2
runnable = 2 | 1
wakeups = "2600/s" | ["1300/s", "2600/s", "5200/s"]
"#,
    optional: r#"
instances = 1 | 2
fair = 0 | 2
slices = true | false
random = true | false
burst_ratio = 10 | 1 | 100
frame_time = "10ms"
policy = "fifo" | "rr"
priority = 99 | 1
"#,
};

fn read(table: &Table<'_, '_, '_>) -> Result<WorkloadKind, ScenarioError> {
    let workers = keys::required(table, "workers", 1, 256)? as usize;
    let runnable = keys::required(table, "runnable", 1, workers as u64)? as usize;
    let wakeups = keys::rates(table, "wakeups", keys::WAKEUPS_MAX)?;
    let frame_time = keys::span(table, "frame_time", keys::TIMER, Nanos(10e6))?;
    Ok(WorkloadKind::Pool(PoolSpec {
        instances: keys::count(table, "instances", 4096)?,
        cores_per_instance: keys::required(table, "cores_per_instance", 1, 256)? as usize,
        workers,
        runnable,
        fair: table.number("fair", 0, 256)?.unwrap_or(0) as usize,
        slices: table.flag("slices")?,
        random: table.flag("random")?,
        policy: keys::policy(table, Policy::Fifo(99))?,
        wakeups_per_second: keys::needed(
            table,
            "wakeups",
            "a rate a CPU, such as \"2500/s\"",
            wakeups,
        )?,
        burst_ratio: table.number("burst_ratio", 1, 1_000)?.unwrap_or(10),
        frame_time,
    }))
}

impl Program for PoolSpec {
    fn kind(&self) -> &'static Kind {
        &KIND
    }

    fn start(&self, start: &Start<'_>) -> Result<Rc<dyn Figures>, SimError> {
        let config = pool_config(self, start.kernel, start.wakeups_per_second());
        Ok(Pools::spawn(start.kernel, config)?)
    }

    fn tasks(&self, topology: &Topology) -> Product {
        let of_cores = topology.core_count() / self.cores_per_instance;
        let instances = self.instances.unwrap_or(of_cores) as u64;
        let workers = self.workers as u64;
        Product::new("workers", &[("instances", instances), ("workers", workers)])
    }

    fn check(&self, check: &Check<'_>) -> Result<(), ScenarioError> {
        let cores = check.topology.core_count();
        let most = cores / self.cores_per_instance;
        let wanted = self.instances.unwrap_or(1);
        if wanted <= most {
            return Ok(());
        }
        let found = format!("{wanted} of {} cores", self.cores_per_instance);
        let expected = format!("at most {most}: the machine has {cores} cores");
        let key = match self.instances {
            Some(_) => "instances",
            None => "cores_per_instance",
        };
        Err(check.error(key, found, expected))
    }

    fn loads(&self) -> &[u64] {
        &self.wakeups_per_second
    }
}

/// Bursts between `least` and `burst_ratio` times that, of the mean that gives the load. In each
/// mean, as many of an instance's CPUs as have a runnable worker finish a burst.
fn pool_config(spec: &PoolSpec, kernel: &Kernel, wakeups_per_second: Option<u64>) -> PoolConfig {
    let mut instances = PoolConfig::per_cores(kernel, spec.cores_per_instance);
    instances.truncate(spec.instances.unwrap_or(instances.len()));
    let cpus = instances[0].count();
    let busy = spec.runnable.min(cpus) as f64 / cpus as f64;
    let rate = wakeups_per_second.unwrap_or(spec.wakeups_per_second[0]) as f64;
    let mean_ns = busy * 1e9 / rate;
    let least_ns = 2.0 * mean_ns / (1.0 + spec.burst_ratio as f64);
    let frame_bursts = (spec.frame_time.0 / mean_ns).round();
    PoolConfig {
        instances,
        workers: spec.workers,
        tokens: spec.runnable,
        fair: spec.fair,
        slices: spec.slices,
        random: spec.random,
        policy: spec.policy,
        burst_least: Nanos(least_ns),
        burst_most: Nanos(least_ns * spec.burst_ratio as f64),
        frame_bursts: (frame_bursts as u64).max(1),
    }
}
