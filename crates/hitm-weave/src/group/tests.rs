//! Turns of threads that fight over a lock.

use hitm_base::Machine;
use hitm_base::machine::preset;
use hitm_coherence::directory::Capacity;

use super::*;
use crate::output::tests::output;
use crate::{ProgramCpus, Wake};

const WINDOW: Cycles = Cycles(10_000);

fn group(thread_count: u32) -> Group {
    let machine = preset("broadwell-4s").expect("a preset");
    let machine = Machine::from_toml(machine, "preset").expect("a machine");
    let weave = Weave::new(machine, Capacity::Finite);
    let mut group = Group::new(
        weave,
        output().1,
        ProgramCpus::all([0, 1, 2].map(CpuId).into()),
    );
    for seat in 0..thread_count {
        let newcomer = Newcomer {
            tid: 100 + seat,
            seat,
            process: 0,
        };
        group.enter(newcomer, String::new());
    }
    group
}

/// The thread runs up to instruction `insn`, and waits.
fn run_to(group: &mut Group, slot: Slot, insn: u64, for_turn: bool) {
    group.unpark(slot);
    let doings = Doings {
        position: Position { insn, stores: 0 },
        ..Doings::default()
    };
    group.take_in(slot, doings);
    match for_turn {
        true => group.park_for_turn(slot),
        false => group.park(slot),
    }
}

fn round(group: &mut Group) -> Vec<Slot> {
    assert!(group.everybody_is_here());
    group.weave_all();
    let mut released = Vec::new();
    group.release(WINDOW, &mut released);
    released
}

#[test]
fn of_those_that_fight_the_slowest_goes_on_until_it_is_no_longer_that() {
    let mut group = group(3);
    let [a, b, c] = [0, 1, 2].map(Slot);
    run_to(&mut group, a, 500, true);
    run_to(&mut group, b, 300, true);
    // It does not fight, and is ahead.
    run_to(&mut group, c, 900, false);
    assert_eq!(round(&mut group), [b, c]);
    assert_eq!((group.turn(b), group.turn(c)), (200, 0));
    run_to(&mut group, b, 510, true);
    run_to(&mut group, c, 9000, false);
    assert_eq!(round(&mut group), [a, c]);
    assert_eq!(group.turn(a), 10);
    // Those that are as slow go in the order of their numbers.
    run_to(&mut group, a, 510, true);
    run_to(&mut group, c, 9100, false);
    assert_eq!(round(&mut group), [a, c]);
    assert_eq!(group.turn(a), 0);
}

#[test]
fn a_thread_that_is_alone_keeps_its_turn() {
    let mut group = group(1);
    run_to(&mut group, Slot(0), 500, true);
    assert_eq!(round(&mut group), [Slot(0)]);
    assert_eq!(group.turn(Slot(0)), u64::MAX);
}

#[test]
fn who_finds_another_value_has_slept_if_a_wake_follows() {
    const FUTEX: u64 = 0x40;
    for wakes in [false, true] {
        let mut group = group(2);
        let [waker, sleeper] = [0, 1].map(Slot);
        run_to(&mut group, sleeper, 100, false);
        group.unpark(sleeper);
        group.leave_for(sleeper, FUTEX);
        group.rejoin_unsure(sleeper, FUTEX);
        if wakes {
            let insn = 400;
            group.begin_wake(FUTEX, Wake { slot: waker, insn });
            group.end_wake(FUTEX, 0);
        }
        run_to(&mut group, waker, 500, false);
        assert!(round(&mut group).contains(&waker));
        let woken_at = Cycles(400) + group.wake_cost;
        let expected = if wakes { woken_at } else { Cycles(100) };
        assert_eq!(group.weave().clock(sleeper), expected);
    }
}

#[test]
fn a_sleep_ends_when_the_others_are_so_far_and_at_its_own_time() {
    let mut group = group(2);
    let [runner, sleeper] = [0, 1].map(Slot);
    run_to(&mut group, sleeper, 100, false);
    group.unpark(sleeper);
    group.leave(sleeper);
    group.set_alarm(sleeper, Cycles(15_000));
    run_to(&mut group, runner, 2_000, false);
    group.weave_all();
    assert_eq!(group.ring(WINDOW), [], "the others are at 2,000");
    assert_eq!(round(&mut group), [runner]);
    run_to(&mut group, runner, 9_000, false);
    group.weave_all();
    assert_eq!(group.ring(WINDOW), [sleeper]);
    assert!(!group.everybody_is_here(), "it is waited for");
    assert!(group.has_doubts() && !group.is_idle());
    assert!(group.rejoin_late(sleeper));
    assert!(!group.rejoin_late(sleeper), "once");
    round(&mut group);
    assert_eq!(group.weave().clock(sleeper), Cycles(15_100));
}

#[test]
fn where_nobody_runs_time_passes_to_the_first_end_of_a_sleep() {
    let mut group = group(2);
    let [first, second] = [0, 1].map(Slot);
    for (slot, delay) in [(first, 70_000), (second, 900_000)] {
        group.leave(slot);
        group.set_alarm(slot, Cycles(delay));
    }
    assert!(group.is_idle());
    assert_eq!(group.away().count(), 2);
    group.pass_to_alarm();
    assert_eq!(group.now(), Cycles(70_000));
    assert_eq!(group.ring(WINDOW), [first]);
    assert!(!group.is_idle(), "one is about to run");
    // A wake came first.
    assert!(group.rejoin(first, WINDOW) > 0);
    assert!(!group.is_idle());
    group.leave(first);
    assert!(group.is_idle());
    // Nobody waits for a thread that is gone.
    group.remove(second);
    assert!(!group.is_idle());
}
