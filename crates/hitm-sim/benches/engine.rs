//! Speed of the simulator: priced accesses a second of a real-time workload by machine size.
//!
//! `cargo bench -p hitm-sim`. Machines beyond 480 CPUs are the 480-CPU model with more packages.

#![expect(missing_docs, reason = "criterion's macros make public items")]

use std::rc::Rc;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use hitm_base::machine::preset;
use hitm_base::{Machine, Nanos, Numbering, Topology, TopologyShape};
use hitm_coherence::directory::Capacity;
use hitm_sim::engine::{Engine, EngineConfig, Executor};
use hitm_sim::kernel::{Balancing, Kernel, KernelConfig, Policy, functions};
use hitm_sim::layout::Layouts;
use hitm_sim::workload::pool::{PoolConfig, Pools};

/// The prices of `xeon-480` on a tree of this many CPUs, two threads a core.
fn machine(cpus: usize) -> Machine {
    let mut machine = Machine::from_toml(preset("xeon-480").unwrap(), "xeon-480").unwrap();
    let (packages, dies, cores) = match cpus {
        64 => (2, 1, 16),
        128 => (2, 2, 16),
        480 => (2, 3, 40),
        1024 => (4, 4, 32),
        _ => (8, 4, 64),
    };
    machine.topology = Topology::from_shape(TopologyShape {
        halves: 1,
        packages,
        dies,
        nodes: 1,
        llcs: 1,
        clusters: 1,
        cores,
        threads: 2,
        numbering: Numbering::CoresFirst,
    })
    .unwrap();
    assert_eq!(machine.topology.cpu_count(), cpus);
    machine
}

/// Runs FIFO pools for a span of virtual time; returns the accesses.
fn run(cpus: usize, span: Nanos) -> u64 {
    let machine = machine(cpus);
    let engine = Engine::new(&EngineConfig {
        end: machine.clock.cycles(span),
        machine,
        capacity: Capacity::Infinite,
        seed: 1,
        scenario_hash: 0,
        events_max: u64::MAX,
        sites: functions::NAMES,
    });
    let config = KernelConfig::new(Balancing::PushIpi);
    let kernel = Kernel::new(&engine, Layouts::linux_6_12(), config).unwrap();
    let pools = PoolConfig {
        fair: 0,
        slices: false,
        random: false,
        instances: PoolConfig::per_cores(&kernel, 4),
        workers: 12,
        tokens: 8,
        policy: Policy::Fifo(99),
        burst_least: Nanos(50e3),
        burst_most: Nanos(500e3),
        frame_bursts: 8,
    };
    Pools::spawn(&kernel, pools).unwrap();
    let mut executor = Executor::new(Rc::clone(&engine));
    executor.run().unwrap();
    executor.totals().accesses
}

fn pools(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("pools");
    group.sample_size(10);
    for cpus in [64, 128, 480, 1024, 4096] {
        let span = Nanos(20e6 * 64.0 / cpus as f64 + 2e6);
        group.throughput(Throughput::Elements(run(cpus, span)));
        group.bench_function(BenchmarkId::from_parameter(cpus), |bencher| {
            bencher.iter(|| run(cpus, span));
        });
    }
    group.finish();
}

criterion_group!(benches, pools);
criterion_main!(benches);
