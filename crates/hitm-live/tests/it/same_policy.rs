//! The simulated kernel decides on a model of a host as `hitm place` does on the host.

use std::collections::BTreeMap;
use std::rc::Rc;

use hitm_base::machine::preset;
use hitm_base::{CpuId, Cycles, Machine, Nanos, Topology};
use hitm_coherence::directory::Capacity;
use hitm_live::place::{Contention, CpuSet, Machine as Host, Wish, tightest};
use hitm_sim::engine::{Engine, EngineConfig};
use hitm_sim::kernel::{
    Balancing, CpuMask, GroupId, GroupSpec, Kernel, KernelConfig, Policy, Quota, Task, TaskSpec,
    functions,
};
use hitm_sim::layout::Layouts;
use proptest::prelude::*;

/// Machines of one to eight packages, with and without threads of one core.
const PRESETS: [&str; 5] = [
    "broadwell-4s",
    "kunpeng920-96",
    "genoa-384",
    "xeon-480",
    "xeon8176-8s",
];

/// Threads of one lock, and where they may go.
#[derive(Debug, Clone)]
struct Case {
    preset: &'static str,
    /// CPUs of the machine, from the first on.
    cpus: u16,
    /// Each thread's last CPU, counted round.
    seats: Vec<u16>,
    /// CPUs on which the first of them may not run.
    closed: Vec<u16>,
    /// CPUs of other groups.
    reserved: Vec<u16>,
    /// CPUs that their quotas are worth.
    quota_cpus: Option<u16>,
}

impl Case {
    fn machine(&self) -> Machine {
        let text = preset(self.preset).unwrap();
        let mut machine = Machine::from_toml(text, self.preset).unwrap();
        let places = (0..self.cpus).map(|cpu| machine.topology.place(CpuId(cpu)));
        machine.topology = Topology::from_places(places.collect()).unwrap();
        machine
    }

    fn may_run(&self, thread: usize, cpu: u16) -> bool {
        thread > 0 || !self.closed.iter().any(|closed| closed % self.cpus == cpu)
    }

    /// Decides as the simulated kernel does.
    fn simulated(&self, kernel: &Rc<Kernel>, tasks: &[Rc<Task>], share: f64) -> Option<CpuSet> {
        let reserved = self.reserved.iter().map(|cpu| CpuId(cpu % self.cpus));
        let reserved = CpuMask::of(kernel.cpu_count(), reserved);
        let domain = kernel.lock_domain(tasks, &reserved, share)?;
        Some(domain.iter().map(|cpu| cpu.0).collect())
    }

    /// Decides as `hitm place` does on this host.
    fn placed(&self, share: f64) -> Option<CpuSet> {
        let contention = Contention {
            share,
            tasks: Vec::new(),
            name: String::new(),
        };
        let all: CpuSet = (0..self.cpus).collect();
        let allowed = all.iter().filter(|cpu| self.may_run(0, *cpu));
        let wish = Wish {
            of_use: contention.cpus_of_use().unwrap(),
            allowed: allowed.collect(),
            reserved: self.reserved.iter().map(|cpu| cpu % self.cpus).collect(),
            quota_cpus: self.quota_cpus.map(usize::from),
            others: BTreeMap::new(),
            seats: self.seats.iter().map(|seat| seat % self.cpus).collect(),
        };
        let host = Host::new(self.machine().topology, &all).unwrap();
        let found = tightest(&host, &wish)?;
        (!found.is_everything).then_some(found.domain.cpus)
    }

    /// A kernel whose tasks are the threads.
    fn kernel(&self) -> (Rc<Kernel>, Vec<Rc<Task>>) {
        let machine = self.machine();
        let engine = Engine::new(&EngineConfig {
            machine,
            capacity: Capacity::Infinite,
            seed: 1,
            scenario_hash: 0,
            end: Cycles(1),
            events_max: 1,
            sites: functions::NAMES,
        });
        let config = KernelConfig::new(Balancing::PushIpi);
        let kernel = Kernel::new(&engine, Layouts::linux_6_12(), config).unwrap();
        let period = Nanos(10e6);
        let quota = self.quota_cpus.map(|cpus| Quota {
            quota: Nanos(period.0 * f64::from(cpus)),
            period,
            burst: Nanos(0.0),
        });
        let spec = GroupSpec {
            quota,
            ..GroupSpec::within(GroupId::ROOT)
        };
        let group = kernel.create_group(&spec).unwrap();
        let spawn = |thread: usize| {
            let open = (0..self.cpus).filter(|cpu| self.may_run(thread, *cpu));
            let spec = TaskSpec {
                name: format!("thread {thread}"),
                policy: Policy::Normal(0),
                allowed: Some(CpuMask::of(usize::from(self.cpus), open.map(CpuId))),
                cpu: CpuId(self.seats[thread] % self.cpus),
                start: Cycles::ZERO,
            };
            kernel.spawn_in(group, &spec, |_| async {}).unwrap()
        };
        let tasks = (0..self.seats.len()).map(spawn).collect();
        (kernel, tasks)
    }
}

fn case() -> impl Strategy<Value = Case> {
    let numbers = |most: usize| prop::collection::vec(any::<u16>(), 0..most);
    (
        prop::sample::select(&PRESETS[..]),
        2u16..65,
        prop::collection::vec(any::<u16>(), 1..9),
        numbers(20),
        numbers(4),
        prop::option::of(1u16..12),
    )
        .prop_map(|parts| {
            let (preset, cpus, seats, closed, reserved, quota_cpus) = parts;
            let mut case = Case {
                preset,
                cpus,
                seats,
                closed,
                reserved,
                quota_cpus,
            };
            // A thread is on a CPU on which it may run.
            let first = case.seats[0] % cpus;
            case.closed.retain(|closed| closed % cpus != first);
            case
        })
}

/// Shares of 5 % to 100 %, in hundredths.
fn shares() -> impl Iterator<Item = f64> {
    (5..=100).map(|hundredth| f64::from(hundredth) / 100.0)
}

#[test]
fn both_decide_alike_for_each_share() {
    let case = Case {
        preset: "kunpeng920-96",
        cpus: 96,
        seats: (0..48).collect(),
        closed: Vec::new(),
        reserved: Vec::new(),
        quota_cpus: None,
    };
    let (kernel, tasks) = case.kernel();
    let mut sizes: Vec<usize> = Vec::new();
    for share in shares() {
        let placed = case.placed(share);
        assert_eq!(placed, case.simulated(&kernel, &tasks, share), "{share}");
        sizes.push(placed.map_or(0, |cpus| cpus.len()));
    }
    sizes.dedup();
    // A die, a cluster, a core: 24 for up to 20 CPUs of use, 4 from u = 0.25 on, 1 from 0.96 on.
    assert_eq!(sizes, [24, 4, 1]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn both_decide_alike(case in case()) {
        let (kernel, tasks) = case.kernel();
        for share in shares() {
            prop_assert_eq!(case.placed(share), case.simulated(&kernel, &tasks, share), "{}", share);
        }
    }
}
