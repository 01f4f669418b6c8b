//! Threads that others wake: they begin at the time of the wake, as soon as that is known.

use hitm_base::{Cycles, Machine};
use hitm_weave::{Slot, Wake};

use crate::run::{Program, Run, machine};

const SHARED: u64 = 0x1000;
const DELAY: i64 = 700;
const WINDOW: Cycles = Cycles(10_000);

/// A load cannot be passed by more than a hundred instructions.
fn small_core() -> Machine {
    let mut machine = machine("icelake-2s");
    machine.core.load_window_insns = 100;
    machine
}

/// Thread 1 is away, and has written all shared lines.
fn run() -> Run {
    let mut run = Run::new(&small_core(), &[0, 32]);
    for line in 0..4 {
        run = run.written_by(1, SHARED + line * 64);
    }
    run.weave.leave(Slot(1));
    run
}

/// Thread 0 wakes others by this instruction.
fn first_at(insn: u64) -> Wake {
    Wake {
        slot: Slot(0),
        insn,
    }
}

/// The waker's wait before its wake counts, and the one after it does not.
#[test]
fn a_woken_thread_begins_at_the_time_of_the_wake() {
    let mut alone = run();
    let before = Program::default().load(SHARED).work(599);
    alone.weave.push(Slot(0), &before.events, before.end);
    alone.advance();
    let waited = alone.clock(0) - Cycles(600);
    assert!(waited > Cycles(50), "{waited:?}");

    let mut run = run();
    let program = before.load(SHARED + 64).work(600);
    run.weave.wake(Slot(1), first_at(500), DELAY);
    run.advance();
    assert_eq!(
        run.weave.budget(Slot(1), WINDOW),
        0,
        "its waker has not told"
    );
    run.weave.push(Slot(0), &program.events, program.end);
    run.advance();
    assert_eq!(run.clock(1), Cycles(500 + DELAY as u64) + waited);
    assert!(run.clock(0) > run.clock(1));
    assert_eq!(run.weave.now(), run.clock(1), "nobody is priced beyond it");
    assert_eq!(run.weave.budget(Slot(1), WINDOW), WINDOW.0);
}

#[test]
fn what_a_woken_thread_did_before_is_priced_first() {
    let mut run = Run::new(&small_core(), &[0, 32, 1]).written_by(0, SHARED);
    let early = Program::default().work(3000).load(SHARED).work(10);
    run.weave.push(Slot(1), &early.events, early.end);
    run.weave.leave(Slot(1));
    let waker = Program::default().work(5000);
    run.weave.push(Slot(0), &waker.events, waker.end);
    run.weave.wake(Slot(1), first_at(1000), 0);
    run.advance();
    assert!(run.weave.is_returning(Slot(1)), "thread 2 is slower");
    let slow = Program::default().work(9000);
    run.weave.push(Slot(2), &slow.events, slow.end);
    run.advance();
    assert!(!run.weave.is_returning(Slot(1)));
    assert!(run.clock(1) > Cycles(3000));
}

#[test]
fn a_waker_that_is_gone_wakes_all_the_same() {
    let mut run = run();
    run.weave.wake(Slot(1), first_at(500), DELAY);
    run.weave.leave(Slot(0));
    assert!(!run.weave.is_returning(Slot(1)));
    // And one that is gone before it is back does not come back.
    let mut run = self::run();
    run.weave.wake(Slot(1), first_at(500), DELAY);
    run.weave.leave(Slot(1));
    run.weave.leave(Slot(0));
    run.advance();
    assert_eq!(run.weave.budget(Slot(1), WINDOW), 0);
}
