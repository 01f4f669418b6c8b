//! Random small workloads on random machines: what must hold whatever runs, while threads change
//! their policies and the kernel switches between its forms of pulling.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use hitm_base::machine::preset;
use hitm_base::{CpuId, Cycles, Machine, Nanos, Topology};
use hitm_sim::kernel::{
    Balancing, CpuMask, Kernel, KernelConfig, OwnPolicy, Partition, PiMutex, Policy, RqView, Task,
    TaskSpec, Thread,
};
use proptest::prelude::*;

use crate::rt::{boot, check_quiescent};

/// `__state` of a task that has ended.
const TASK_DEAD: u64 = 0x80;

/// One thing that a task does.
#[derive(Debug, Clone, Copy)]
enum Act {
    Run(u64),
    Sleep(u64),
    Yield,
    /// Runs with one of the mutexes held.
    Locked(usize, u64),
    /// Runs with two of them held, in order.
    LockedTwice(u64),
    /// Takes another policy.
    Become(Policy),
    /// Gives another task a policy: the one of this number, counted round.
    Change(usize, Policy),
}

/// Everything that a run is made of.
#[derive(Debug, Clone)]
struct Case {
    machine: Picked,
    cpusets: Cpusets,
    balancing: Balancing,
    /// Slices before which `RT_PUSH_IPI` is switched.
    switches: Vec<u64>,
    programs: Vec<Program>,
    seed: u64,
}

/// Some CPUs of a preset.
#[derive(Debug, Clone, Copy)]
struct Picked {
    preset: &'static str,
    /// Every `step`-th, from the first on, counted round.
    step: usize,
    cpus: usize,
}

/// Partition of the machine by cpusets, when it has four CPUs or more.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Cpusets {
    None,
    /// Two halves.
    Halves,
    /// Two that share the CPUs in the middle. The kernel is that of 2007.
    Overlapping,
}

#[derive(Debug, Clone)]
struct Program {
    policy: Policy,
    /// Bits of the CPUs that it may use; all where none fits.
    cpus: u16,
    acts: Vec<Act>,
}

/// `own` is the weight of `SCHED_EXT` among policies; 0 draws the cases of a kernel without it.
fn act(own: u32) -> impl Strategy<Value = Act> {
    prop_oneof![
        (1u64..300_000).prop_map(Act::Run),
        (1u64..500_000).prop_map(Act::Sleep),
        Just(Act::Yield),
        (0usize..2, 1u64..100_000).prop_map(|(mutex, span)| Act::Locked(mutex, span)),
        (1u64..100_000).prop_map(Act::LockedTwice),
        policy(own).prop_map(Act::Become),
        (0usize..24, policy(own)).prop_map(|(task, policy)| Act::Change(task, policy)),
    ]
}

fn policy(own: u32) -> impl Strategy<Value = Policy> {
    prop_oneof![
        3 => (1u8..6).prop_map(Policy::Fifo),
        1 => (1u8..6).prop_map(Policy::Rr),
        1 => (-20i8..20).prop_map(Policy::Normal),
        own => Just(Policy::Own(OwnPolicy::Ext)),
    ]
}

fn program(own: u32) -> impl Strategy<Value = Program> {
    let acts = proptest::collection::vec(act(own), 1..12);
    (policy(own), any::<u16>(), acts).prop_map(|(policy, cpus, acts)| Program {
        policy,
        cpus,
        acts,
    })
}

/// Machines of one to eight packages, with and without threads of one core.
const PRESETS: [&str; 5] = [
    "broadwell-4s",
    "kunpeng920-96",
    "genoa-384",
    "xeon-480",
    "xeon8176-8s",
];

fn case(own: u32) -> impl Strategy<Value = Case> {
    let machine = (
        proptest::sample::select(&PRESETS[..]),
        prop_oneof![Just(1usize), Just(2), Just(5), Just(29)],
        prop_oneof![Just(2usize), Just(3), Just(4), Just(8), Just(16)],
    );
    let cpusets = prop_oneof![
        2 => Just(Cpusets::None),
        1 => Just(Cpusets::Halves),
        1 => Just(Cpusets::Overlapping),
    ];
    let balancing = prop_oneof![
        Just(Balancing::PushIpi),
        Just(Balancing::PushPull),
        Just(Balancing::Passive),
    ];
    let switches = proptest::collection::vec(1u64..40, 0..6);
    let programs = proptest::collection::vec(program(own), 1..24);
    let parts = (machine, cpusets, balancing, switches, programs, 0u64..1000);
    parts.prop_map(
        move |(machine, cpusets, balancing, switches, programs, seed)| {
            let (preset, step, cpus) = machine;
            let mut case = Case {
                machine: Picked { preset, step, cpus },
                cpusets,
                balancing,
                switches,
                programs,
                seed,
            };
            if own > 0 && balancing == Balancing::Passive {
                // That kernel had no such class.
                case.balancing = Balancing::PushPull;
            }
            if cpus < 4 {
                case.cpusets = Cpusets::None;
            }
            if case.cpusets == Cpusets::Overlapping {
                // There were no interrupts to ask others to push.
                case.switches.clear();
                if case.balancing == Balancing::PushIpi {
                    case.balancing = Balancing::PushPull;
                }
            }
            case
        },
    )
}

async fn perform(thread: Thread, acts: Vec<Act>, mutexes: Vec<Rc<PiMutex>>) {
    for act in acts {
        match act {
            Act::Become(policy) => thread.sched_setscheduler(thread.task(), policy).await,
            Act::Change(number, policy) => {
                let kernel = thread.kernel();
                let tasks = kernel.tasks();
                let tasks = &tasks[kernel.cpu_count()..];
                let task = &tasks[number % tasks.len()];
                thread.sched_setscheduler(task, policy).await;
            }
            Act::Run(span) => thread.run(Cycles(span)).await,
            Act::Sleep(span) => thread.sleep(Cycles(span)).await,
            Act::Yield => thread.sched_yield().await,
            Act::Locked(mutex, span) => {
                thread.pi_lock(&mutexes[mutex]).await;
                thread.run(Cycles(span)).await;
                thread.pi_unlock(&mutexes[mutex]).await;
            }
            Act::LockedTwice(span) => {
                thread.pi_lock(&mutexes[0]).await;
                thread.pi_lock(&mutexes[1]).await;
                thread.run(Cycles(span)).await;
                thread.pi_unlock(&mutexes[1]).await;
                thread.pi_unlock(&mutexes[0]).await;
            }
        }
    }
}

/// Makes a task of each program.
fn spawn_all(kernel: &Rc<Kernel>, programs: &[Program]) {
    let cpus = kernel.cpu_count();
    let mutexes: Vec<Rc<PiMutex>> = (0..2)
        .map(|number| kernel.pi_mutex(&format!("m{number}")).unwrap())
        .collect();
    for (number, program) in programs.iter().enumerate() {
        let domain = kernel.root_domains()[number % kernel.root_domains().len()]
            .span
            .clone();
        let mut allowed = domain.clone();
        allowed.keep(&CpuMask::of(
            cpus,
            (0..cpus as u16)
                .filter(|cpu| program.cpus >> cpu & 1 == 1)
                .map(CpuId),
        ));
        if allowed.is_empty() {
            allowed = domain;
        }
        let first = allowed.iter().next().unwrap();
        let spec = TaskSpec {
            name: format!("task {number}"),
            policy: program.policy,
            cpu: first,
            allowed: Some(allowed),
            start: Cycles(number as u64 * 1000),
        };
        let (acts, mutexes) = (program.acts.clone(), mutexes.clone());
        kernel
            .spawn(&spec, |thread| perform(thread, acts, mutexes))
            .unwrap();
    }
}

/// The CPUs of a case.
fn machine_of(picked: Picked) -> Machine {
    let text = preset(picked.preset).unwrap();
    let mut machine = Machine::from_toml(text, picked.preset).unwrap();
    let all = machine.topology.cpu_count();
    let numbers = (0..picked.cpus).map(|number| number * picked.step % all);
    let numbers: BTreeSet<usize> = numbers.collect();
    let place = |number: &usize| machine.topology.place(CpuId(*number as u16));
    machine.topology = Topology::from_places(numbers.iter().map(place).collect()).unwrap();
    machine
}

fn config_of(case: &Case, cpus: usize) -> KernelConfig {
    let cpus = cpus as u16;
    let range = |cpus_of: std::ops::Range<u16>| CpuMask::of(usize::from(cpus), cpus_of.map(CpuId));
    let half = cpus / 2;
    KernelConfig {
        partition: match case.cpusets {
            Cpusets::None => Partition::Whole,
            Cpusets::Halves => Partition::Exclusive(vec![range(0..half), range(half..cpus)]),
            Cpusets::Overlapping => {
                Partition::Overlapping(vec![range(0..half + 1), range(half - 1..cpus)])
            }
        },
        ..KernelConfig::new(case.balancing)
    }
}

/// Returns true if the kernel promises that no task waits long for a worse one. It does not where
/// cpusets overlap, nor for a waiting task whose priority somebody else raises, which is pushed by
/// nothing.
fn promises(case: &Case) -> bool {
    let acts = case.programs.iter().flat_map(|program| &program.acts);
    case.balancing != Balancing::Passive
        && case.cpusets != Cpusets::Overlapping
        && !acts.into_iter().any(|act| matches!(act, Act::Change(..)))
}

/// Runs the programs in slices of virtual time and checks each slice; returns the hash.
fn check(case: &Case) -> u64 {
    let machine = machine_of(case.machine);
    let cpus = machine.topology.cpu_count();
    let config = config_of(case, cpus);
    let (kernel, mut executor) = boot(machine, case.seed, Nanos(1e9), config);
    spawn_all(&kernel, &case.programs);
    let mut waits = Waits::default();
    let mut is_push_ipi = case.balancing == Balancing::PushIpi;
    for slice in 1..=400u64 {
        if case.switches.contains(&slice) {
            is_push_ipi = !is_push_ipi;
            kernel.set_rt_push_ipi(is_push_ipi);
        }
        executor.run_until(Cycles(slice * SLICE)).unwrap();
        check_running(&kernel);
        waits.look(&kernel);
    }
    if promises(case) {
        let longest = waits.longest * SLICE;
        assert!(
            longest <= WAIT_MAX,
            "a task waited {longest} cycles for a worse one"
        );
    }
    executor.run().unwrap();
    let tasks = kernel.tasks();
    let late = tasks[cpus..]
        .iter()
        .map(|task| (&task.name, kernel.peek_task(task)))
        .filter(|(_, view)| view.state != TASK_DEAD);
    let late: Vec<_> = late.collect();
    assert!(late.is_empty(), "tasks that did not end: {late:#?}");
    match (case.balancing, case.cpusets) {
        (Balancing::Passive, _) => {}
        (_, Cpusets::Overlapping) => check_counts(&kernel),
        _ => check_quiescent(&kernel),
    }
    for task in kernel.tasks() {
        assert_eq!(
            task.prio(),
            task.normal_prio(),
            "{} gave its loan back",
            task.name
        );
    }
    executor.totals().event_hash
}

/// Time between two looks, in cycles.
const SLICE: u64 = 100_000;
/// The longest that the best waiting task of a run queue may see a worse one run on a CPU that it
/// may use. It is what pushing, interrupts and the way out of idle take, with room for queues on
/// lines. 0.23 ms of this machine, where passive balancing looks every 64 ms.
const WAIT_MAX: u64 = 600_000;

/// Times for which tasks have seen worse ones run, in slices.
#[derive(Default)]
struct Waits {
    /// By task: looks in a row.
    now: BTreeMap<u32, u64>,
    longest: u64,
}

impl Waits {
    /// Only the best waiting task of a run queue has the promise: those behind it are not tried
    /// when it fits nowhere.
    fn look(&mut self, kernel: &Kernel) {
        let tasks = kernel.tasks();
        let views: Vec<_> = (0..kernel.cpu_count() as u16)
            .map(|cpu| kernel.peek_rq(CpuId(cpu)))
            .collect();
        let mut now = BTreeMap::new();
        for rq in &views {
            let mut waiting = rq.rt_queued.iter().filter(|id| **id != rq.curr);
            let Some(best) = waiting.find(|id| may_move(&tasks[id.0 as usize])) else {
                continue;
            };
            let task = &tasks[best.0 as usize];
            let is_worse = |(cpu, other): (usize, &RqView)| {
                other.root_domain == rq.root_domain
                    && task.may_run_on(CpuId(cpu as u16))
                    && other.rt_highest_prio > task.prio()
                    && tasks[other.curr.0 as usize].prio() > task.prio()
            };
            if views.iter().enumerate().any(is_worse) {
                let looks = self.now.get(&best.0).copied().unwrap_or(0) + 1;
                now.insert(best.0, looks);
                self.longest = self.longest.max(looks - 1);
            }
        }
        self.now = now;
    }
}

fn may_move(task: &Task) -> bool {
    (0..16).filter(|cpu| task.may_run_on(CpuId(*cpu))).count() > 1
}

/// At any time: no task on two CPUs, none where it may not be.
fn check_running(kernel: &Kernel) {
    let tasks = kernel.tasks();
    let mut seen = vec![None; tasks.len()];
    for cpu in (0..kernel.cpu_count() as u16).map(CpuId) {
        let curr = kernel.peek_rq(cpu).curr;
        let task = &tasks[curr.0 as usize];
        assert_eq!(
            seen[curr.0 as usize].replace(cpu),
            None,
            "{} runs twice",
            task.name
        );
        assert!(task.may_run_on(cpu), "{} runs on CPU {}", task.name, cpu.0);
    }
}

/// Checks that each count is that of its mask: masks may be wrong where cpusets overlap, counts may
/// not.
fn check_counts(kernel: &Kernel) {
    let engine = kernel.engine();
    for domain in kernel.root_domains() {
        let mask = domain.rto_mask.peek(engine, kernel.cpu_count());
        assert_eq!(domain.rto_count.peek(engine), mask.count() as i64);
    }
}

/// `PROPTEST_CASES`, which `cargo xtask swarm` sets, or as many as take a second.
fn cases() -> u32 {
    let wanted = std::env::var("PROPTEST_CASES").ok();
    wanted.map_or(48, |count| {
        count.parse().expect("PROPTEST_CASES is a number")
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    #[test]
    fn every_workload_ends_with_consistent_masks_and_its_own_priorities(case in case(0)) {
        let first = check(&case);
        prop_assert_eq!(first, check(&case), "the same run again");
    }

    #[test]
    fn tasks_of_one_queue_end_whatever_else_runs_and_becomes_of_them(case in case(5)) {
        let first = check(&case);
        prop_assert_eq!(first, check(&case), "the same run again");
    }
}
