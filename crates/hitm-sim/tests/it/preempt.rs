//! The time at which a running task gives up its CPU under each preemption model: a task is woken from
//! another CPU at 5 ms, with a tick every 4 ms.

use std::rc::Rc;

use hitm_base::{CpuId, Cycles, Nanos};
use hitm_sim::engine::Executor;
use hitm_sim::kernel::{
    Balancing, CpuMask, Kernel, KernelConfig, KernelCounts, Mechanism, Policy, Preemption, Task,
    TaskSpec, Thread,
};

use crate::rt::{boot, machine};

/// Long before the others' slices are over, and due before any of them.
const URGENT: Policy = Policy::Normal(-20);
const REAL_TIME: Policy = Policy::Fifo(50);
const WOKEN_AT_US: f64 = 5_000.0;

fn us(span: f64) -> Nanos {
    Nanos(span * 1e3)
}

fn booted(preemption: Preemption, mechanisms: &[Mechanism]) -> (Rc<Kernel>, Executor) {
    let config = KernelConfig {
        preemption,
        mechanisms: mechanisms.to_vec(),
        ..KernelConfig::new(Balancing::PushIpi)
    };
    boot(machine("broadwell-4s", 2), 1, Nanos(40e6), config)
}

fn spawn<F: Future<Output = ()> + 'static>(
    kernel: &Rc<Kernel>,
    cpu: u16,
    policy: Policy,
    body: impl FnOnce(Thread) -> F + 'static,
) -> Rc<Task> {
    let spec = TaskSpec {
        name: "t".to_owned(),
        policy,
        allowed: Some(CpuMask::of(2, [CpuId(cpu)])),
        cpu: CpuId(cpu),
        start: Cycles::ZERO,
    };
    kernel.spawn(&spec, body).unwrap()
}

/// Runs `first` on CPU 0, where a task of `policy` is woken from CPU 1; returns for how many
/// nanoseconds that waited for the CPU.
fn wait_ns<F: Future<Output = ()> + 'static>(
    kernel: &Rc<Kernel>,
    executor: &mut Executor,
    policy: Policy,
    first: impl FnOnce(Thread) -> F + 'static,
) -> u64 {
    let futex = kernel.futex("wanted").unwrap();
    let sleeps_on = Rc::clone(&futex);
    let woken = spawn(kernel, 0, policy, move |thread| async move {
        thread.futex_wait(&sleeps_on, 0).await;
        thread.run(thread.kernel().cycles(us(10.0))).await;
    });
    spawn(kernel, 0, Policy::Normal(0), move |thread| async move {
        // The other one sleeps by then.
        let begin = thread.kernel().cycles(us(1_000.0));
        thread.sleep_until(begin).await;
        first(thread).await;
    });
    spawn(kernel, 1, Policy::Normal(0), move |thread| async move {
        let at = thread.kernel().cycles(us(WOKEN_AT_US));
        thread.sleep_until(at).await;
        thread.futex_wake(&futex, 1).await;
    });
    executor.run().unwrap();
    let clock = kernel.engine().machine().clock;
    let totals = woken.totals();
    assert_eq!(totals.wakeups, 2, "its start and the wake-up");
    clock.nanos(totals.wake_latency_max).0 as u64
}

fn in_user_code(preemption: Preemption, policy: Policy) -> u64 {
    let (kernel, mut executor) = booted(preemption, &[]);
    wait_ns(&kernel, &mut executor, policy, |thread| async move {
        thread.run_always().await;
    })
}

/// The running task is in the kernel with a mutex for 20 ms.
fn in_the_kernel(preemption: Preemption, policy: Policy) -> u64 {
    let (kernel, mut executor) = booted(preemption, &[]);
    let mutex = kernel.mutex("held").unwrap();
    wait_ns(&kernel, &mut executor, policy, move |thread| async move {
        let work = thread.kernel().cycles(us(20e3));
        thread.with_mutex(&mutex, work, || (), || ()).await;
    })
}

/// The running task asks for time 10 us before the wake-up, for `section_us`.
fn in_a_section(mechanisms: &[Mechanism], section_us: f64) -> (u64, KernelCounts) {
    let (kernel, mut executor) = booted(Preemption::Lazy, mechanisms);
    let waited = wait_ns(
        &kernel,
        &mut executor,
        REAL_TIME,
        move |thread| async move {
            let kernel = thread.kernel();
            let begin = kernel.cycles(us(WOKEN_AT_US - 10.0));
            thread.run_until(begin).await;
            thread.slice_request().await;
            thread.run(kernel.cycles(us(section_us))).await;
            thread.slice_end().await;
            thread.run_always().await;
        },
    );
    (waited, kernel.counts())
}

#[test]
fn user_code_goes_at_once_but_under_lazy_at_the_next_tick() {
    let waits = |policy| Preemption::ALL.map(|model| in_user_code(model, policy));
    // From 5 to 8 ms.
    let fair = waits(URGENT);
    assert!(fair[..3].iter().all(|wait| *wait < 10_000), "{fair:?}");
    assert!((2_990_000..3_010_000).contains(&fair[3]), "{fair:?}");
    let real_time = waits(REAL_TIME);
    assert!(real_time.iter().all(|wait| *wait < 10_000), "{real_time:?}");
}

#[test]
fn kernel_code_with_a_mutex_goes_at_once_under_full_and_a_tick_later_under_lazy() {
    let full = in_the_kernel(Preemption::Full, URGENT);
    assert!(full < 10_000, "{full}");
    let lazy = in_the_kernel(Preemption::Lazy, URGENT);
    assert!((2_990_000..3_010_000).contains(&lazy), "{lazy}");
}

#[test]
fn a_section_that_asked_for_time_gets_it_once_and_no_more_than_granted() {
    let with = &[Mechanism::SliceExtension];
    let counts = |counts: KernelCounts| (counts.slices_extended, counts.slices_expired);
    let (plain, none) = in_a_section(&[], 15.0);
    assert!(plain < 5_000, "{plain}");
    assert_eq!(counts(none), (0, 0));
    // It ends 5 us after the wake-up, before what is granted is over, and yields.
    let (short, granted) = in_a_section(with, 15.0);
    assert_eq!(counts(granted), (1, 0), "{short}");
    // The timer ends this one.
    let (long, expired) = in_a_section(with, 100.0);
    assert_eq!(counts(expired), (1, 1), "{long}");
    assert!((8_000..10_000).contains(&long), "{long}");
}
