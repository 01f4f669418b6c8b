//! The real-time class under `rt-migrate-test`.

use std::rc::Rc;

use hitm_base::machine::preset;
use hitm_base::{CpuId, Machine, Nanos};
use hitm_coherence::directory::Capacity;
use hitm_sim::engine::{Engine, EngineConfig, Executor, RunTotals};
use hitm_sim::kernel::{
    Balancing, CPUPRI_NR_PRIORITIES, CpuMask, Kernel, KernelConfig, MAX_RT_PRIO, convert_prio,
    functions,
};
use hitm_sim::layout::{Layouts, Member, Per, Storage};
use hitm_sim::workload::pi_stress::{PiStress, PiStressConfig};
use hitm_sim::workload::rt_migrate::{RtMigrate, RtMigrateConfig, Running};

/// The first `cpus` CPUs of a preset.
pub(crate) fn machine(name: &str, cpus: usize) -> Machine {
    let mut machine = Machine::from_toml(preset(name).unwrap(), name).unwrap();
    let places = (0..cpus as u16).map(|cpu| machine.topology.place(CpuId(cpu)));
    let places = places.collect();
    machine.topology = hitm_base::Topology::from_places(places).unwrap();
    machine
}

/// An engine, a kernel on it and its executor.
pub(crate) fn boot(
    machine: Machine,
    seed: u64,
    end: Nanos,
    config: KernelConfig,
) -> (Rc<Kernel>, Executor) {
    boot_with(machine, seed, end, config, Layouts::linux_6_12())
}

fn boot_with(
    machine: Machine,
    seed: u64,
    end: Nanos,
    config: KernelConfig,
    layouts: Layouts,
) -> (Rc<Kernel>, Executor) {
    let end = machine.clock.cycles(end);
    let engine = Engine::new(&EngineConfig {
        machine,
        capacity: Capacity::Infinite,
        seed,
        scenario_hash: 0,
        end,
        events_max: 2_000_000_000,
        sites: functions::NAMES,
    });
    let kernel = Kernel::new(&engine, layouts, config).unwrap();
    (kernel, Executor::new(engine))
}

/// Two cores of each of four packages.
fn four_packages() -> Machine {
    let mut machine = Machine::from_toml(preset("broadwell-4s").unwrap(), "broadwell-4s").unwrap();
    let places = machine
        .topology
        .cpus()
        .map(|cpu| machine.topology.place(cpu));
    let few = places.filter(|place| place.thread == 0 && place.core < 2);
    machine.topology = hitm_base::Topology::from_places(few.collect()).unwrap();
    assert_eq!(machine.topology.node_count(), 4);
    machine
}

/// Checks the shared state against what is so, when nobody is about to change it.
#[track_caller]
pub(crate) fn check_quiescent(kernel: &Kernel) {
    let engine = kernel.engine();
    let cpus = kernel.cpu_count();
    for (number, domain) in kernel.root_domains().iter().enumerate() {
        let mut overloaded = CpuMask::empty(cpus);
        let mut vectors = vec![CpuMask::empty(cpus); CPUPRI_NR_PRIORITIES];
        for cpu in domain.span.iter() {
            let rq = kernel.peek_rq(cpu);
            if rq.root_domain != number {
                continue;
            }
            if rq.rt_overloaded {
                overloaded.set(cpu);
            }
            vectors[convert_prio(rq.rt_highest_prio)].set(cpu);
        }
        assert_eq!(domain.rto_mask.peek(engine, cpus), overloaded, "rto_mask");
        assert_eq!(domain.rto_count.peek(engine), overloaded.count() as i64);
        for (vector, expected) in vectors.iter().enumerate() {
            let (mask, count) = domain.cpupri.peek(engine, vector, cpus);
            assert_eq!(&mask, expected, "cpupri vector {vector}");
            assert_eq!(count, expected.count() as u64, "cpupri vector {vector}");
        }
    }
}

fn rt_migrate(
    balancing: Balancing,
    cpus: usize,
    loops: usize,
    seed: u64,
) -> (RtMigrate, RunTotals) {
    let (kernel, executor) = boot(
        machine("broadwell-4s", cpus),
        seed,
        Nanos(1e12),
        KernelConfig::new(balancing),
    );
    rt_migrate_on(kernel, executor, loops)
}

fn rt_migrate_on(
    kernel: Rc<Kernel>,
    mut executor: Executor,
    loops: usize,
) -> (RtMigrate, RunTotals) {
    let balancing = kernel.config().balancing;
    let cpus = kernel.cpu_count();
    let config = RtMigrateConfig {
        loops,
        ..RtMigrateConfig::new(cpus)
    };
    let running = Running::spawn(&kernel, config).unwrap();
    executor.run().unwrap();
    if balancing != Balancing::Passive {
        check_quiescent(&kernel);
    }
    (running.results(), executor.totals())
}

#[test]
fn passive_balancing_makes_a_higher_priority_wait_for_a_lower_one() {
    let runs = (1..=4).map(|seed| rt_migrate(Balancing::Passive, 4, 10, seed).0);
    let failed: Vec<RtMigrate> = runs.filter(|run| !run.failures().is_empty()).collect();
    assert!(!failed.is_empty(), "no iteration failed");
    let run = &failed[0];
    let iteration = run.failures()[0];
    let task = run.failure(iteration).unwrap();
    let late = run.iterations[iteration][task].start_us;
    assert!(
        (19_000..22_000).contains(&late),
        "{late} us\n{}",
        run.text()
    );
}

#[test]
fn push_and_pull_let_only_the_lowest_wait() {
    for balancing in [Balancing::PushPull, Balancing::PushIpi] {
        for seed in 1..=3 {
            let (run, _) = rt_migrate(balancing, 4, 10, seed);
            assert_eq!(
                run.failures(),
                [] as [usize; 0],
                "{balancing:?}\n{}",
                run.text()
            );
            assert!(run.max_start_us()[1..].iter().all(|late| *late < 1000));
        }
    }
}

#[test]
fn equal_seeds_give_equal_event_streams() {
    let hash = |seed| rt_migrate(Balancing::PushIpi, 8, 3, seed).1.event_hash;
    assert_eq!(hash(1), hash(1));
    assert_ne!(hash(1), hash(2));
}

#[test]
fn priorities_and_vectors_are_the_kernels() {
    assert_eq!(convert_prio(MAX_RT_PRIO - 1), 0);
    assert_eq!(convert_prio(MAX_RT_PRIO - 1 - 99), 99);
    assert_eq!(convert_prio(120), 0);
}

#[test]
fn a_boosted_owner_lets_the_highest_thread_in() {
    // All three on one CPU: without the loan the medium thread, which never blocks, would keep the
    // low one from unlocking.
    let (kernel, mut executor) = boot(
        machine("broadwell-4s", 2),
        1,
        Nanos(50e6),
        KernelConfig::new(Balancing::PushIpi),
    );
    let config = PiStressConfig {
        base_prio: 10,
        hold: Nanos(1e3),
    };
    let stress = PiStress::spawn(&kernel, &[CpuId(0)], config).unwrap();
    executor.run().unwrap();
    assert!(stress.inversions() > 500, "{}", stress.inversions());
}

#[test]
fn a_count_and_masks_for_each_node_mean_the_same() {
    let mut layouts = Layouts::linux_6_12();
    let mut domain = layouts.get("root_domain").unwrap().clone();
    domain.members.retain(|member| member.name != "rto_count");
    domain.members.push(Member {
        per: Some(Per::Node),
        storage: Storage::Pointer {
            element_bytes: 4,
            element_align_bytes: 64,
        },
        ..Member::plain("rto_count", 1816, 8)
    });
    domain.size_bytes = 1824;
    let mut vector = layouts.get("cpupri_vec").unwrap().clone();
    for mask in vector
        .members
        .iter_mut()
        .filter(|member| member.is_cpu_bits)
    {
        mask.per = Some(Per::Node);
    }
    layouts.overlay([domain, vector]);
    for balancing in [Balancing::PushPull, Balancing::PushIpi] {
        let config = KernelConfig::new(balancing);
        let machine = four_packages();
        let (kernel, executor) = boot_with(machine, 1, Nanos(1e12), config, layouts.clone());
        let (run, totals) = rt_migrate_on(kernel, executor, 5);
        assert_eq!(run.failures(), [] as [usize; 0], "{}", run.text());
        let counts = totals
            .profile
            .total(|entry| entry.member.path == "rto_count->");
        assert!(counts.count > 0, "the counters behind the pointer are used");
    }
}

#[test]
fn a_layout_without_a_member_that_the_model_needs_is_refused() {
    let mut layouts = Layouts::linux_6_12();
    let mut domain = layouts.get("root_domain").unwrap().clone();
    let mask = domain
        .members
        .iter_mut()
        .find(|member| member.name == "rto_mask");
    mask.unwrap().is_cpu_bits = false;
    layouts.overlay([domain]);
    let engine = boot(
        four_packages(),
        1,
        Nanos(1.0),
        KernelConfig::new(Balancing::PushIpi),
    )
    .0
    .engine()
    .clone();
    let error = Kernel::new(&engine, layouts, KernelConfig::new(Balancing::PushIpi)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "layout of struct root_domain: rto_mask is no bitmap of the CPUs, nor one for each NUMA node"
    );
}
