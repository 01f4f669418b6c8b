//! Candidates for what could make the contention on `root_domain` as strong as published, each put
//! in alone: docs/models/root-domain.md has the outcomes.
//!
//! `cargo run --release -p hitm-sim --example mechanisms -- MILLISECONDS SEED [CANDIDATE...]`

use std::rc::Rc;

use hitm_base::machine::{MachineCost, Quantity, preset};
use hitm_base::{AccessOp, Machine, Nanos};
use hitm_coherence::directory::Capacity;
use hitm_sim::engine::{CpuTotals, Engine, EngineConfig, Executor, ProfileEntry, RunTotals};
use hitm_sim::kernel::{Balancing, Kernel, KernelConfig, Mechanism, Policy, functions};
use hitm_sim::layout::Layouts;
use hitm_sim::workload::pool::{PoolConfig, Pools};

/// Mean lengths of a burst, from rare to frequent wake-ups, in microseconds.
const MEAN_BURSTS_US: [f64; 4] = [200.0, 100.0, 50.0, 25.0];

/// The price of taking a line that other packages share, as the preset assumes it.
const UPGRADE: &str = "remote = { value = 1.0, range = [1.0, 2.15]";

/// A run, before and after its candidate has changed it.
struct Case {
    machine: String,
    config: KernelConfig,
    workers: usize,
    tokens: usize,
    slices: bool,
    burst_ratio: f64,
}

impl Case {
    fn idle_exit_ns(&mut self, nanos: u64) {
        let value = Quantity::Picos(nanos * 1_000);
        let costs = &mut self.config.costs;
        costs.set(MachineCost::IdleExit.parameter(), value);
    }

    fn usual() -> Case {
        Case {
            machine: preset("xeon-480").expect("the preset exists").to_owned(),
            config: KernelConfig::new(Balancing::PushIpi),
            workers: 12,
            tokens: 8,
            slices: false,
            burst_ratio: 10.0,
        }
    }

    /// Replaces every `from` of the machine file.
    fn machine(&mut self, from: &str, to: &str) {
        assert!(self.machine.contains(from), "the preset has {from}");
        self.machine = self.machine.replace(from, to);
    }

    fn run(&self, millis: f64, seed: u64, mean_burst: Nanos) -> RunTotals {
        let machine = Machine::from_toml(&self.machine, "xeon-480").expect("a whole machine");
        let engine = Engine::new(&EngineConfig {
            end: machine.clock.cycles(Nanos(millis * 1e6)),
            machine,
            capacity: Capacity::Infinite,
            seed,
            scenario_hash: 0,
            events_max: u64::MAX,
            sites: functions::NAMES,
        });
        let kernel = Kernel::new(&engine, Layouts::linux_6_12(), self.config.clone())
            .expect("the layouts are whole");
        let least = 2.0 * mean_burst.0 / (1.0 + self.burst_ratio);
        let pools = PoolConfig {
            instances: PoolConfig::per_cores(&kernel, 4),
            workers: self.workers,
            tokens: self.tokens,
            fair: 0,
            slices: self.slices,
            random: false,
            policy: Policy::Fifo(99),
            burst_least: Nanos(least),
            burst_most: Nanos(least * self.burst_ratio),
            frame_bursts: 8,
        };
        let _pools = Pools::spawn(&kernel, pools).expect("the pools can be made");
        let mut executor = Executor::new(Rc::clone(&engine));
        executor.run().expect("there is no cap on events");
        let counts = kernel.counts();
        print!("{:8.0} ", counts.wakeups as f64 / 480.0 / millis * 1e3);
        executor.totals()
    }
}

type Change = fn(&mut Case);

/// Candidates beside [`Mechanism`].
const CANDIDATES: [(&str, Change); 13] = [
    ("usual", |_| {}),
    ("runnable-6", |case| case.tokens = 6),
    ("runnable-12", |case| (case.tokens, case.workers) = (12, 18)),
    ("runnable-16", |case| (case.tokens, case.workers) = (16, 24)),
    ("slices", |case| case.slices = true),
    ("equal-bursts", |case| case.burst_ratio = 1.0),
    ("upgrade-dearer", |case| {
        // As measured between packages of Xeon 8176.
        case.machine(UPGRADE, &UPGRADE.replace("1.0,", "2.0,"));
    }),
    ("remote-slower", |case| {
        case.machine("dirty = { value = \"170ns\"", "dirty = { value = \"250ns\"");
    }),
    ("slow-ends", |case| {
        // The slow ends of the ranges of everything that is assumed of transfers.
        case.machine(UPGRADE, &UPGRADE.replace("1.0,", "2.0,"));
        case.machine("dirty = { value = \"170ns\"", "dirty = { value = \"250ns\"");
        case.machine("dirty = { value = \"85ns\"", "dirty = { value = \"120ns\"");
        case.machine("dirty = { value = \"58ns\"", "dirty = { value = \"80ns\"");
    }),
    ("idle-exit-10us", |case| case.idle_exit_ns(10_000)),
    ("idle-exit-100ns", |case| case.idle_exit_ns(100)),
    ("tick-1000", |case| case.config.hz = 1000),
    ("no-wake-lists", |case| case.config.wake_lists = false),
];

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default: u64| {
        let argument = arguments.next();
        argument.map_or(default, |text| text.parse().expect("a number"))
    };
    let (millis, seed) = (number(6) as f64, number(1));
    let wanted: Vec<String> = arguments.collect();
    let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|other| other == name);
    println!(
        "{:17} {:>6} {:>8} {:>7} {:>6} {:>7} {:>7} {:>6} {:>6} {:>6}",
        "candidate", "burst", "wakeups", "kernel", "idle", "line 1", "line 3", "enq", "deq", "find"
    );
    for mean in MEAN_BURSTS_US {
        for (name, change) in CANDIDATES {
            if is_wanted(name) {
                let mut case = Case::usual();
                change(&mut case);
                show(name, &case, millis, seed, mean);
            }
        }
        for (name, mechanism) in Mechanism::WORDS {
            if is_wanted(name) {
                let mut case = Case::usual();
                case.config.mechanisms = vec![mechanism];
                show(name, &case, millis, seed, mean);
            }
        }
    }
}

fn show(name: &str, case: &Case, millis: f64, seed: u64, mean_us: f64) {
    print!("{name:17} {mean_us:6.0} ");
    let totals = case.run(millis, seed, Nanos(mean_us * 1e3));
    let sum = |value: fn(&CpuTotals) -> u64| -> f64 {
        totals.cpus.iter().map(|cpu| value(cpu) as f64).sum()
    };
    let (user, idle) = (sum(|cpu| cpu.user.0), sum(|cpu| cpu.idle.0));
    let kernel = sum(|cpu| cpu.kernel.0 + cpu.spin.0 + cpu.irq.0);
    let rows = totals.profile.rows();
    let line_mean = |line: u64| {
        let loads = rows.iter().filter(|entry| is_load_of_line(entry, line));
        let (cycles, count) = loads.fold((0, 0), |(cycles, count), entry| {
            (
                cycles + entry.row.latency_mean() * entry.row.count,
                count + entry.row.count,
            )
        });
        cycles / count.max(1)
    };
    let count_of = |path: &str, function: &str| {
        let its = rows.iter().filter(|entry| {
            entry.member.type_name == "root_domain"
                && entry.member.path == path
                && entry.function == function
        });
        its.map(|entry| entry.row.count).sum::<u64>() as f64
    };
    let newly_idle = count_of("overloaded", "sched_balance_newidle").max(1.0);
    let enqueued = count_of("overloaded", "enqueue_task_rt") / newly_idle;
    let dequeued = count_of("overloaded", "dequeue_task_rt") / newly_idle;
    let searched = count_of("cpupri.pri_to_cpu[0].count", "cpupri_find_fitness") / newly_idle;
    println!(
        "{:6.2}% {:5.1}% {:7} {:7} {enqueued:6.2} {dequeued:6.2} {searched:6.2}",
        100.0 * kernel / (user + kernel),
        100.0 * idle / (user + kernel + idle),
        line_mean(0),
        line_mean(128),
    );
}

/// Returns true if a row is of loads or locked operations in the line of `root_domain` that begins
/// at `line`.
fn is_load_of_line(entry: &ProfileEntry<'_>, line: u64) -> bool {
    entry.member.type_name == "root_domain"
        && !entry.member.path.ends_with("->")
        && (line..line + 64).contains(&entry.member.offset_bytes)
        && entry.op != AccessOp::Store
}
