//! `rt-migrate-test` on the first CPUs of a preset, many times with different seeds.
//!
//! `cargo run --release -p hitm-sim --example rt_migrate -- passive|push-pull|push-ipi CPUS LOOPS RUNS FIRST_SEED`
//! prints the iterations that fail, and how many.

use std::rc::Rc;

use hitm_base::machine::preset;
use hitm_base::{Cycles, Machine, Topology};
use hitm_coherence::directory::Capacity;
use hitm_sim::engine::{Engine, EngineConfig, Executor};
use hitm_sim::kernel::{Balancing, Kernel, KernelConfig, functions};
use hitm_sim::layout::Layouts;
use hitm_sim::workload::rt_migrate::{RtMigrate, RtMigrateConfig, Running};

fn run(machine: Machine, balancing: Balancing, loops: usize, seed: u64) -> RtMigrate {
    let engine = Engine::new(&EngineConfig {
        machine,
        capacity: Capacity::Infinite,
        seed,
        scenario_hash: 0,
        end: Cycles(u64::MAX / 2),
        events_max: u64::MAX,
        sites: functions::NAMES,
    });
    let config = KernelConfig::new(balancing);
    let kernel =
        Kernel::new(&engine, Layouts::linux_6_12(), config).expect("the layouts are whole");
    let config = RtMigrateConfig {
        loops,
        ..RtMigrateConfig::new(kernel.cpu_count())
    };
    let running = Running::spawn(&kernel, config).expect("the test can run");
    let mut executor = Executor::new(Rc::clone(&engine));
    executor.run().expect("there is no cap on events");
    running.results()
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let balancing = match arguments.next().as_deref() {
        Some("passive") => Balancing::Passive,
        Some("push-pull") => Balancing::PushPull,
        _ => Balancing::PushIpi,
    };
    let mut number = |default: usize| {
        let argument = arguments.next();
        argument.map_or(default, |text| text.parse().expect("a number"))
    };
    let (cpus, loops, runs, first) = (number(4), number(50), number(1), number(1));
    let mut machine = Machine::from_toml(preset("xeon-480").unwrap(), "xeon-480").unwrap();
    let places = machine.topology.cpus().take(cpus);
    let places = places.map(|cpu| machine.topology.place(cpu)).collect();
    machine.topology = Topology::from_places(places).expect("at least one CPU");
    let (mut failed, mut iterations, mut late) = (0, 0, 0);
    for seed in (first as u64..).take(runs) {
        let results = run(machine.clone(), balancing, loops, seed);
        for iteration in results.failures() {
            println!("seed {seed}: iteration {iteration} fails");
            print!("{}", results.failure_text(iteration));
        }
        failed += results.failures().len();
        iterations += results.iterations.len();
        late = late.max(
            results.max_start_us()[1..]
                .iter()
                .copied()
                .max()
                .unwrap_or(0),
        );
    }
    println!(
        "{failed} of {iterations} iterations failed; all but the lowest start within {late} us"
    );
}
