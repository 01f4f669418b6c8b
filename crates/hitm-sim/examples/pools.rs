//! The pools of the root_domain layout patch: time split, hot functions, hot members.
//!
//! `cargo run --release -p hitm-sim --example pools -- CPUS MILLISECONDS LEAST_US MOST_US TOKENS WORKERS SEED`

use std::rc::Rc;
use std::time::Instant;

use hitm_base::machine::preset;
use hitm_base::{CpuId, Machine, Nanos, Topology};
use hitm_coherence::directory::Capacity;
use hitm_sim::engine::{Engine, EngineConfig, Executor, RunTotals};
use hitm_sim::kernel::{Balancing, Kernel, KernelConfig, Policy, functions};
use hitm_sim::layout::Layouts;
use hitm_sim::workload::pool::{PoolConfig, Pools};

fn main() {
    let arguments: Vec<u64> = std::env::args()
        .skip(1)
        .map(|argument| argument.parse().expect("arguments are numbers"))
        .collect();
    let argument = |index: usize, default| arguments.get(index).copied().unwrap_or(default);
    let mut machine = Machine::from_toml(preset("xeon-480").unwrap(), "xeon-480").unwrap();
    // The first cores of both packages, so that both threads of a core are there.
    let cores = argument(0, 480) / 4;
    let topology = &machine.topology;
    let cpus: Vec<CpuId> = topology.cpus().collect();
    let is_used = |cpu: &&CpuId| u64::from(topology.core_of(**cpu)) % 120 < cores;
    let places = cpus.iter().filter(is_used).map(|cpu| topology.place(*cpu));
    machine.topology = Topology::from_places(places.collect()).unwrap();
    let engine = Engine::new(&EngineConfig {
        end: machine.clock.cycles(Nanos(argument(1, 20) as f64 * 1e6)),
        machine,
        capacity: Capacity::Infinite,
        seed: argument(6, 1),
        scenario_hash: 0,
        events_max: u64::MAX,
        sites: functions::NAMES,
    });
    let config = KernelConfig::new(Balancing::PushIpi);
    let kernel = Kernel::new(&engine, Layouts::linux_6_12(), config).unwrap();
    let pools = PoolConfig {
        instances: PoolConfig::per_cores(&kernel, 4),
        workers: argument(5, 12) as usize,
        tokens: argument(4, 8) as usize,
        fair: 0,
        slices: false,
        random: false,
        policy: Policy::Fifo(99),
        burst_least: Nanos(argument(2, 50) as f64 * 1e3),
        burst_most: Nanos(argument(3, 500) as f64 * 1e3),
        frame_bursts: 8,
    };
    let pools = Pools::spawn(&kernel, pools).unwrap();
    let mut executor = Executor::new(Rc::clone(&engine));
    let start = Instant::now();
    executor.run().unwrap();
    let wall = start.elapsed().as_secs_f64();
    let totals = executor.totals();
    println!("{}", totals.header);
    println!(
        "{} accesses in {wall:.3} s: {:.2} M/s, hash {:016x}",
        totals.accesses,
        totals.accesses as f64 / wall / 1e6,
        totals.event_hash
    );
    println!("bursts {} {:?}", pools.bursts(), kernel.counts());
    show(&totals);
}

fn show(totals: &RunTotals) {
    let sum = |value: fn(&hitm_sim::engine::CpuTotals) -> u64| -> f64 {
        totals.cpus.iter().map(|cpu| value(cpu) as f64).sum()
    };
    let (user, kernel, spin) = (
        sum(|cpu| cpu.user.0),
        sum(|cpu| cpu.kernel.0),
        sum(|cpu| cpu.spin.0),
    );
    let (irq, idle) = (sum(|cpu| cpu.irq.0), sum(|cpu| cpu.idle.0));
    let busy = user + kernel + spin + irq;
    println!(
        "of busy time: user {:.1} % kernel {:.1} % spin {:.1} % irq {:.1} %; idle {:.1} % of all",
        100.0 * user / busy,
        100.0 * kernel / busy,
        100.0 * spin / busy,
        100.0 * irq / busy,
        100.0 * idle / (busy + idle)
    );
    for (name, cycles) in totals.profile.functions().into_iter().take(16) {
        println!("{:6.2} %  {name}", 100.0 * cycles.0 as f64 / busy);
    }
    for entry in totals.profile.rows() {
        if entry.member.type_name == "root_domain" && entry.row.latency_mean() > 100 {
            println!(
                "{:5}  {:32} {:26} {:?} {:8} mean {:7} max {:7}",
                entry.member.offset_bytes,
                entry.member.path,
                entry.function,
                entry.op,
                entry.row.count,
                entry.row.latency_mean(),
                entry.row.latency_max
            );
        }
    }
}
