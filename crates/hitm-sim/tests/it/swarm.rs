//! Random small workloads: what must hold whatever runs.

use std::collections::BTreeMap;
use std::rc::Rc;

use hitm_base::{CpuId, Cycles, Nanos};
use hitm_sim::kernel::{
    Balancing, CpuMask, Kernel, KernelConfig, Partition, PiMutex, Policy, RqView, Task, TaskSpec,
    Thread,
};
use proptest::prelude::*;

use crate::rt::{boot, check_quiescent, machine};

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
}

#[derive(Debug, Clone)]
struct Program {
    policy: Policy,
    /// Bits of the CPUs that it may use; all where none fits.
    cpus: u16,
    acts: Vec<Act>,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        (1u64..300_000).prop_map(Act::Run),
        (1u64..500_000).prop_map(Act::Sleep),
        Just(Act::Yield),
        (0usize..2, 1u64..100_000).prop_map(|(mutex, span)| Act::Locked(mutex, span)),
        (1u64..100_000).prop_map(Act::LockedTwice),
    ]
}

fn program() -> impl Strategy<Value = Program> {
    let policy = prop_oneof![
        3 => (1u8..6).prop_map(Policy::Fifo),
        1 => (1u8..6).prop_map(Policy::Rr),
        1 => Just(Policy::Normal(0)),
    ];
    let acts = proptest::collection::vec(act(), 1..12);
    (policy, any::<u16>(), acts).prop_map(|(policy, cpus, acts)| Program { policy, cpus, acts })
}

async fn perform(thread: Thread, acts: Vec<Act>, mutexes: Vec<Rc<PiMutex>>) {
    for act in acts {
        match act {
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

/// Runs the programs in slices of virtual time and checks each slice; returns the hash.
fn check(cpus: usize, balancing: Balancing, programs: &[Program], seed: u64) -> u64 {
    let config = KernelConfig {
        partition: if cpus >= 8 && seed % 2 == 1 {
            let half = |from: u16| CpuMask::of(cpus, (from..from + cpus as u16 / 2).map(CpuId));
            Partition::Exclusive(vec![half(0), half(cpus as u16 / 2)])
        } else {
            Partition::Whole
        },
        ..KernelConfig::new(balancing)
    };
    let (kernel, mut executor) = boot(machine("broadwell-4s", cpus), seed, Nanos(1e9), config);
    spawn_all(&kernel, programs);
    let mut waits = Waits::default();
    for slice in 1..=400u64 {
        executor.run_until(Cycles(slice * SLICE)).unwrap();
        check_running(&kernel);
        waits.look(&kernel);
    }
    if balancing != Balancing::Passive {
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
    if balancing != Balancing::Passive {
        check_quiescent(&kernel);
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
/// may use: what pushing, interrupts and the way out of idle take, with room for queues on lines.
/// 0.23 ms of this machine, where passive balancing looks every 64 ms.
const WAIT_MAX: u64 = 600_000;

/// How long tasks have seen worse ones run, in slices.
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
    fn every_workload_ends_with_consistent_masks_and_its_own_priorities(
        cpus in prop_oneof![Just(2usize), Just(4), Just(8), Just(16)],
        balancing in prop_oneof![
            Just(Balancing::PushIpi), Just(Balancing::PushPull), Just(Balancing::Passive),
        ],
        programs in proptest::collection::vec(program(), 1..24),
        seed in 0u64..1000,
    ) {
        let first = check(cpus, balancing, &programs, seed);
        prop_assert_eq!(first, check(cpus, balancing, &programs, seed), "the same run again");
    }
}
