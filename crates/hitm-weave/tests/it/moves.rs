//! Threads that move to other CPUs.

use hitm_base::{AccessOp, CpuId, Cycles, ThreadId};
use hitm_weave::Slot;

use crate::run::{Program, Run, machine};

const SHARED: u64 = 0x1000;

/// CPUs of a thread's accesses, in program order.
fn cpus_of(run: &Run, thread: u32) -> Vec<u16> {
    let own = run.log.iter().map(|(access, _)| access);
    let own = own.filter(|access| access.thread == ThreadId(thread));
    own.map(|access| access.cpu.0).collect()
}

#[test]
fn what_was_done_before_a_move_happens_on_the_cpu_before() {
    let mut run = Run::new(&machine("icelake-2s"), &[0, 1]).written_by(1, SHARED);
    let before = Program::default().load(SHARED).store(SHARED).fence();
    run.weave.push(Slot(0), &before.events, before.end);
    run.weave.place(Slot(0), CpuId(32));
    assert_eq!(run.weave.cpu(Slot(0)), CpuId(32));
    let after = before.clone().load(SHARED).store(SHARED);
    let new = &after.events[before.events.len()..];
    run.weave.push(Slot(0), new, after.end);
    run.weave.place(Slot(0), CpuId(33));
    run.advance();
    run.finish();
    assert_eq!(cpus_of(&run, 0), [0, 0, 32, 32]);
    assert_eq!(run.weave.cpu(Slot(0)), CpuId(33));
    let stalls: Vec<Cycles> = run
        .outcomes(0)
        .iter()
        .map(|outcome| outcome.latency)
        .collect();
    assert!(
        stalls[2] > stalls[0],
        "its line comes after it, from farther: {stalls:?}"
    );
}

#[test]
fn a_thread_that_has_done_nothing_moves_at_once() {
    let mut run = Run::new(&machine("icelake-2s"), &[0]);
    run.weave.place(Slot(0), CpuId(5));
    let program = Program::default().access(AccessOp::LockedRmw, SHARED);
    let run = run.programs(&[program]);
    assert_eq!(cpus_of(&run, 0), [5]);
}
