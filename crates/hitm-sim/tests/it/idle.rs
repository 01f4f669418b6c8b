//! Idle states: who pays for leaving them, and when an interrupt is needed.

use std::cell::RefCell;
use std::rc::Rc;

use hitm_base::machine::{MachineCost, Quantity};
use hitm_base::{CpuId, Nanos};
use hitm_sim::kernel::{
    Balancing, CpuMask, IdleGovernor, IdleWake, KernelConfig, Policy, TaskSpec,
};

use crate::rt::{boot, machine};

const SPACE_US: f64 = 100.0;
const WAKES: usize = 8;

fn config(idle: IdleGovernor, idle_wake: IdleWake) -> KernelConfig {
    let mut config = KernelConfig {
        idle,
        idle_wake,
        ..KernelConfig::new(Balancing::PushIpi)
    };
    let exits = [
        (MachineCost::PollExit, 50),
        (MachineCost::IdleExit, 5_000),
        (MachineCost::DeepIdleExit, 170_000),
    ];
    for (cost, nanos) in exits {
        config
            .costs
            .set(cost.parameter(), Quantity::Picos(nanos * 1_000));
    }
    config
}

fn pinned(name: &str, cpu: u16, start: hitm_base::Cycles) -> TaskSpec {
    TaskSpec {
        name: name.to_owned(),
        policy: Policy::Fifo(10),
        cpu: CpuId(cpu),
        allowed: Some(CpuMask::of(2, [CpuId(cpu)])),
        start,
    }
}

/// The median lateness in ns of a task that sleeps for `sleep_us` on an idle CPU.
fn timer_lateness(config: KernelConfig, sleep_us: f64) -> f64 {
    let (kernel, mut executor) = boot(machine("broadwell-4s", 2), 1, Nanos(20e6), config);
    let late = Rc::new(RefCell::new(Vec::new()));
    let seen = Rc::clone(&late);
    let start = kernel.cycles(Nanos(1e6));
    let spawned = kernel.spawn(&pinned("sleeper", 1, start), move |thread| async move {
        for _ in 0..4 * WAKES {
            let at = thread.now() + thread.kernel().cycles(Nanos(sleep_us * 1e3));
            thread.sleep_until(at).await;
            let late = thread.now().saturating_sub(at);
            let clock = thread.engine().machine().clock;
            seen.borrow_mut().push(clock.nanos(late).0);
        }
    });
    spawned.unwrap();
    executor.run().unwrap();
    let mut late = late.borrow().clone();
    late.sort_by(f64::total_cmp);
    late[late.len() / 2]
}

/// Interrupts sent while one CPU wakes a task of the other, idle one by a futex.
fn interrupts_of_wakes(config: KernelConfig) -> u64 {
    let (kernel, mut executor) = boot(machine("broadwell-4s", 2), 1, Nanos(20e6), config);
    let futex = kernel.futex("futex").unwrap();
    let start = kernel.cycles(Nanos(1e6));
    let woken = Rc::clone(&futex);
    let sleeper = kernel.spawn(&pinned("sleeper", 1, start), move |thread| async move {
        for _ in 0..WAKES {
            thread.futex_wait(&woken, 0).await;
        }
    });
    sleeper.unwrap();
    let waker = kernel.spawn(&pinned("waker", 0, start), move |thread| async move {
        for _ in 0..WAKES {
            thread
                .run(thread.kernel().cycles(Nanos(SPACE_US * 1e3)))
                .await;
            thread.futex_wake(&futex, 1).await;
        }
    });
    waker.unwrap();
    executor.run().unwrap();
    assert!(kernel.counts().wakeups >= WAKES as u64);
    kernel.counts().ipis
}

#[test]
fn an_idle_state_is_left_once() {
    let poll = timer_lateness(config(IdleGovernor::Poll, IdleWake::Write), SPACE_US);
    let shallow = timer_lateness(config(IdleGovernor::Shallow, IdleWake::Write), SPACE_US);
    // 5 us and not 10: the interrupt pays, the idle loop finds that it is awake.
    let exit = shallow - poll;
    assert!((4_900.0..5_100.0).contains(&exit), "{exit} ns");
}

#[test]
fn the_governor_sleeps_deeply_when_it_expects_long_idle_times() {
    let menu = |sleep_us| timer_lateness(config(IdleGovernor::Menu, IdleWake::Write), sleep_us);
    let (polled, shallow, deep) = (menu(3.0), menu(50.0), menu(700.0));
    let exits = [shallow - polled, deep - polled];
    assert!((4_500.0..5_500.0).contains(&exits[0]), "{exits:?}");
    assert!((169_000.0..171_000.0).contains(&exits[1]), "{exits:?}");
}

#[test]
fn only_a_state_that_does_not_watch_its_flags_needs_an_interrupt() {
    let interrupts = |wake| interrupts_of_wakes(config(IdleGovernor::Shallow, wake));
    assert_eq!(interrupts(IdleWake::Write), 0);
    assert_eq!(interrupts(IdleWake::Interrupt), WAKES as u64);
    let polls = config(IdleGovernor::Poll, IdleWake::Interrupt);
    assert_eq!(interrupts_of_wakes(polls), 0);
}
