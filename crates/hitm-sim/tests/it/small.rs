//! Small runs of every kind, each made from one number.

use std::rc::Rc;

use hitm_base::machine::preset;
use hitm_base::{CpuId, Machine, Nanos, Topology};
use hitm_coherence::directory::Capacity;
use hitm_sim::engine::{Engine, EngineConfig, Executor, RunTotals};
use hitm_sim::kernel::{Balancing, Kernel, KernelConfig, Policy, functions};
use hitm_sim::layout::Layouts;
use hitm_sim::workload::pi_stress::{PiStress, PiStressConfig};
use hitm_sim::workload::pool::{PoolConfig, Pools};
use hitm_sim::workload::rt_migrate::{RtMigrateConfig, Running};

const BALANCING: [Balancing; 3] = [Balancing::PushIpi, Balancing::PushPull, Balancing::Passive];

/// The totals of run `seed`, which has 2 to 8 CPUs: rt-migrate-test, pi_stress or pools under one of the
/// policies.
pub(crate) fn small_run(seed: u64) -> RunTotals {
    let machine = Machine::from_toml(preset("broadwell-4s").unwrap(), "broadwell-4s").unwrap();
    let cpus = 2 + (seed / 9 % 4) as usize * 2;
    let kind = seed % 3;
    let millis = if kind == 0 { 300.0 } else { 3.0 };
    let (kernel, mut executor) = boot(machine, cpus, seed, millis);
    match kind {
        0 => {
            let config = RtMigrateConfig {
                loops: 2,
                ..RtMigrateConfig::new(cpus)
            };
            Running::spawn(&kernel, config).unwrap();
        }
        1 => {
            let config = PiStressConfig {
                base_prio: 10,
                hold: Nanos(1e3),
            };
            let groups: Vec<CpuId> = (0..cpus as u16).map(CpuId).collect();
            PiStress::spawn(&kernel, &groups, config).unwrap();
        }
        _ => pools(&kernel, 1, 6),
    }
    executor.run().unwrap();
    executor.totals()
}

/// A kernel of the first `cpus` CPUs under the policy of the seed.
pub(crate) fn boot(
    mut machine: Machine,
    cpus: usize,
    seed: u64,
    millis: f64,
) -> (Rc<Kernel>, Executor) {
    let places = (0..cpus as u16).map(|cpu| machine.topology.place(CpuId(cpu)));
    let places = places.collect();
    machine.topology = Topology::from_places(places).unwrap();
    let engine = Engine::new(&EngineConfig {
        end: machine.clock.cycles(Nanos(millis * 1e6)),
        machine,
        capacity: Capacity::Infinite,
        seed,
        scenario_hash: 0,
        events_max: 100_000_000,
        sites: functions::NAMES,
    });
    let config = KernelConfig::new(BALANCING[(seed / 3 % 3) as usize]);
    let kernel = Kernel::new(&engine, Layouts::linux_6_12(), config).unwrap();
    (kernel, Executor::new(engine))
}

/// Thread pools on `cores` cores each.
pub(crate) fn pools(kernel: &Rc<Kernel>, cores: usize, workers: usize) {
    let config = PoolConfig {
        instances: PoolConfig::per_cores(kernel, cores),
        workers,
        tokens: workers * 2 / 3,
        fair: 0,
        slices: false,
        random: false,
        policy: Policy::Fifo(99),
        burst_least: Nanos(10e3),
        burst_most: Nanos(100e3),
        frame_bursts: 8,
    };
    Pools::spawn(kernel, config).unwrap();
}
