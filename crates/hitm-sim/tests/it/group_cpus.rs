//! The example of a placement policy: a group with a quota stays on as many CPUs as that is worth.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use hitm_base::{CpuId, Cycles, Nanos};
use hitm_sim::engine::Executor;
use hitm_sim::kernel::{
    Balancing, CpuMask, GroupId, GroupSpec, Kernel, KernelConfig, LoadBalancing, Placement, Policy,
    Quota, TaskSpec,
};
use hitm_sim::scenario::Scenario;

use crate::rt::machine;

/// CPUs on which tasks were seen.
type Seen = Rc<RefCell<BTreeSet<u16>>>;

/// 32 CPUs for 60 ms.
fn boot(placement: Placement, load_balancing: LoadBalancing) -> (Rc<Kernel>, Executor) {
    let config = KernelConfig {
        placement,
        load_balancing,
        ..KernelConfig::new(Balancing::PushIpi)
    };
    crate::rt::boot(machine("milan-2s", 32), 1, Nanos(60e6), config)
}

/// A group with a quota of so many CPUs.
fn pod(kernel: &Kernel, cpus: f64) -> GroupId {
    let quota = Quota {
        quota: Nanos(cpus * 10e6),
        period: Nanos(10e6),
        burst: Nanos(0.0),
    };
    let spec = GroupSpec {
        quota: Some(quota),
        ..GroupSpec::within(GroupId::ROOT)
    };
    kernel.create_group(&spec).unwrap()
}

/// Twelve tasks of a group, one on each of the CPUs from `first` on, that sleep for twice as long as they run.
fn sleepers(kernel: &Rc<Kernel>, group: GroupId, first: u16, allowed: Option<&CpuMask>) -> Seen {
    let seen = Seen::default();
    for number in 0..12u16 {
        let cpu = CpuId(first + number);
        let spec = TaskSpec {
            name: format!("sleeper/{number}"),
            policy: Policy::Normal(0),
            allowed: allowed.cloned(),
            cpu,
            start: kernel.cycles(Nanos(1e5 * f64::from(number + 1))),
        };
        let (run, pause) = (kernel.cycles(Nanos(2e5)), kernel.cycles(Nanos(4e5)));
        let seen = Rc::clone(&seen);
        let program = move |thread: hitm_sim::kernel::Thread| async move {
            loop {
                thread.run(run).await;
                seen.borrow_mut().insert(thread.cpu().0);
                thread.sleep(pause).await;
            }
        };
        kernel.spawn_in(group, &spec, program).unwrap();
    }
    seen
}

/// A task that never sleeps, and the CPUs on which it is seen every 50 us.
fn hog(kernel: &Rc<Kernel>, group: GroupId, cpu: u16, seen: &Seen) {
    let spec = TaskSpec {
        name: "hog".to_owned(),
        policy: Policy::Normal(0),
        allowed: None,
        cpu: CpuId(cpu),
        start: Cycles::ZERO,
    };
    let (step, seen) = (kernel.cycles(Nanos(5e4)), Rc::clone(seen));
    let program = move |thread: hitm_sim::kernel::Thread| async move {
        loop {
            thread.run(step).await;
            seen.borrow_mut().insert(thread.cpu().0);
        }
    };
    kernel.spawn_in(group, &spec, program).unwrap();
}

fn cpus(seen: &Seen) -> Vec<u16> {
    seen.borrow().iter().copied().collect()
}

#[test]
fn a_group_stays_on_the_cpus_nearest_to_its_first() {
    let (kernel, mut executor) = boot(Placement::GroupCpus, LoadBalancing::Domains);
    let (of_three, of_two) = (pod(&kernel, 2.5), pod(&kernel, 2.0));
    let seen = sleepers(&kernel, of_three, 9, None);
    let beside = sleepers(&kernel, of_two, 20, None);
    executor.run().unwrap();
    // CPUs 8 to 15 share a cache, and so do 16 to 23. The first wake-up is on the first CPU.
    assert_eq!(cpus(&seen), [8, 9, 10]);
    assert_eq!(cpus(&beside), [16, 20]);
}

#[test]
fn linux_spreads_the_same_group() {
    let (kernel, mut executor) = boot(Placement::Default, LoadBalancing::Domains);
    let seen = sleepers(&kernel, pod(&kernel, 2.5), 9, None);
    executor.run().unwrap();
    assert!(cpus(&seen).len() >= 8, "{:?}", cpus(&seen));
}

#[test]
fn balancing_takes_no_task_out_of_its_groups_cpus() {
    for load_balancing in LoadBalancing::ALL {
        let (kernel, mut executor) = boot(Placement::GroupCpus, load_balancing);
        let (group, seen) = (pod(&kernel, 2.0), Seen::default());
        (0..12).for_each(|cpu| hog(&kernel, group, cpu, &seen));
        executor.run().unwrap();
        assert_eq!(
            cpus(&seen).len(),
            2,
            "{load_balancing:?}: {:?}",
            cpus(&seen)
        );
    }
}

#[test]
fn tasks_without_a_quota_or_with_affinity_elsewhere_go_where_linux_puts_them() {
    let (kernel, mut executor) = boot(Placement::GroupCpus, LoadBalancing::Domains);
    let free = GroupSpec::within(GroupId::ROOT);
    let free = kernel.create_group(&free).unwrap();
    let free = sleepers(&kernel, free, 0, None);
    let (group, first) = (pod(&kernel, 4.0), Seen::default());
    hog(&kernel, group, 0, &first);
    let afar = CpuMask::of(kernel.cpu_count(), (16..32).map(CpuId));
    let bound = sleepers(&kernel, group, 16, Some(&afar));
    executor.run().unwrap();
    assert!(cpus(&first).iter().all(|cpu| *cpu < 4));
    assert!(cpus(&free).len() >= 8, "{:?}", cpus(&free));
    let bound = cpus(&bound);
    let is_afar = bound.iter().all(|cpu| *cpu >= 16);
    assert!(is_afar && bound.len() >= 8, "{bound:?}");
}

#[test]
fn a_quota_above_it_confines_a_group() {
    let (kernel, mut executor) = boot(Placement::GroupCpus, LoadBalancing::Domains);
    let above = pod(&kernel, 2.0);
    let [one, other] = [0, 1].map(|_| kernel.create_group(&GroupSpec::within(above)).unwrap());
    let (one, other) = (
        sleepers(&kernel, one, 0, None),
        sleepers(&kernel, other, 12, None),
    );
    executor.run().unwrap();
    let both: BTreeSet<u16> = cpus(&one).into_iter().chain(cpus(&other)).collect();
    assert_eq!(both.len(), 2, "{both:?}");
}

#[test]
fn a_scenario_names_a_policy() {
    let text = |placement: &str| {
        format!(
            "schema = 1\nname = \"m\"\ndescription = \"d\"\nsource = \"made\"\n\
             [machine]\npreset = \"milan-2s\"\n[kernel]\nplacement = {placement}\n\
             [[workload]]\nkind = \"hogs\"\n[run]\nduration = \"1ms\"\n"
        )
    };
    let all = text("[\"default\", \"lock-aware\", \"group-cpus\"]");
    let scenario = Scenario::parse(&all, "m.toml").unwrap();
    let variants = scenario.variants();
    let named: Vec<&str> = variants.iter().map(|one| one.placement.id()).collect();
    assert_eq!(named, ["default", "lock-aware", "group-cpus"]);
    let error = Scenario::parse(&text("\"group-cpu\""), "m.toml").unwrap_err();
    let expected = "m.toml:8:13: kernel.placement: found \"group-cpu\", \
        expected \"default\" or \"lock-aware\" or \"group-cpus\"";
    assert_eq!(error.to_string(), expected);
}
