//! Cpusets that overlap, as in 2007: what their masks miss, and how they are cleaned up.

use std::rc::Rc;

use hitm_base::{CpuId, Nanos};
use hitm_sim::engine::Executor;
use hitm_sim::kernel::{
    Balancing, CpuMask, Kernel, KernelConfig, Partition, Policy, Task, TaskSpec,
};

use crate::rt::{boot, machine};

const CPUS: usize = 3;

fn mask(cpus: &[u16]) -> CpuMask {
    CpuMask::of(CPUS, cpus.iter().map(|cpu| CpuId(*cpu)))
}

fn overlapping() -> Partition {
    Partition::Overlapping(vec![mask(&[0, 1]), mask(&[1, 2])])
}

/// Times of a task, in ms.
struct Busy {
    from: u32,
    span: u32,
}

/// A task that begins on CPU `cpu`.
fn busy(kernel: &Rc<Kernel>, priority: u8, cpu: u16, cpus: &[u16], busy: &Busy) -> Rc<Task> {
    let millis = |time: u32| kernel.cycles(Nanos(f64::from(time) * 1e6));
    let spec = TaskSpec {
        name: format!("priority {priority}"),
        policy: Policy::Fifo(priority),
        cpu: CpuId(cpu),
        allowed: Some(mask(cpus)),
        start: millis(busy.from),
    };
    let span = millis(busy.span);
    let spawned = kernel.spawn(&spec, move |thread| async move { thread.run(span).await });
    spawned.unwrap()
}

/// CPU 0 is of the first cpuset, CPU 2 of the second, CPU 1 of both. All are busy. On CPU 1 wait `a`,
/// which is of the first cpuset, and then `b` of the second. The second cpuset's CPU 2 is done at 10
/// ms, CPU 0 at 20, CPU 1 at 30.
fn run(partition: Partition) -> (Rc<Kernel>, Executor, Rc<Task>) {
    let config = KernelConfig {
        partition,
        ..KernelConfig::new(Balancing::PushPull)
    };
    let (kernel, executor) = boot(machine("broadwell-4s", CPUS), 1, Nanos(100e6), config);
    busy(&kernel, 60, 0, &[0], &Busy { from: 0, span: 20 });
    busy(&kernel, 50, 1, &[1], &Busy { from: 0, span: 30 });
    busy(&kernel, 60, 2, &[2], &Busy { from: 0, span: 10 });
    busy(&kernel, 40, 1, &[0, 1], &Busy { from: 1, span: 20 });
    let b = busy(&kernel, 30, 1, &[1, 2], &Busy { from: 2, span: 20 });
    (kernel, executor, b)
}

/// The overload mask of a cpuset.
fn overloaded(kernel: &Kernel, cpuset: usize) -> Vec<u16> {
    let domain = &kernel.root_domains()[cpuset];
    let mask = domain.rto_mask.peek(kernel.engine(), CPUS);
    mask.iter().map(|cpu| cpu.0).collect()
}

fn run_to(executor: &mut Executor, kernel: &Kernel, millis: u32) {
    let time = kernel.cycles(Nanos(f64::from(millis) * 1e6));
    executor.run_until(time).unwrap();
}

#[test]
fn a_task_is_missed_by_the_cpus_of_its_own_cpuset() {
    let (kernel, mut executor, b) = run(overlapping());
    run_to(&mut executor, &kernel, 15);
    // `a` made CPU 1 overloaded, so that only the first cpuset knows of it: CPU 2 is idle.
    assert_eq!(
        (overloaded(&kernel, 0), overloaded(&kernel, 1)),
        (vec![1], vec![])
    );
    assert_eq!(b.cpu(), CpuId(1));
    assert_eq!(kernel.peek_rq(CpuId(2)).rt_queued, []);

    let (kernel, mut executor, b) = run(Partition::Whole);
    run_to(&mut executor, &kernel, 15);
    assert_eq!(b.cpu(), CpuId(2), "one domain finds it");
}

#[test]
fn a_mask_names_a_cpu_without_reason_until_somebody_pulls_from_it() {
    let (kernel, mut executor, _) = run(overlapping());
    // `a` is pulled by CPU 0 at 20 ms; `b`, which was the last to wait, clears its own cpuset's mask.
    run_to(&mut executor, &kernel, 35);
    assert!((0..CPUS as u16).all(|cpu| !kernel.peek_rq(CpuId(cpu)).rt_overloaded));
    assert_eq!(
        (overloaded(&kernel, 0), overloaded(&kernel, 1)),
        (vec![1], vec![])
    );
    assert_eq!(kernel.counts().stale_overloads, 0);
    // At 40 ms `a` is done, and CPU 0 looks for work.
    run_to(&mut executor, &kernel, 45);
    assert_eq!(overloaded(&kernel, 0), [] as [u16; 0]);
    assert_eq!(kernel.counts().stale_overloads, 1);
}

#[test]
fn the_chain_of_interrupts_does_not_go_with_it() {
    let engine = Rc::clone(run(overlapping()).0.engine());
    let config = KernelConfig {
        partition: overlapping(),
        ..KernelConfig::new(Balancing::PushIpi)
    };
    let layouts = hitm_sim::layout::Layouts::linux_6_12();
    let error = Kernel::new(&engine, layouts, config).unwrap_err();
    assert!(error.to_string().contains("cpusets overlap"), "{error}");
}
