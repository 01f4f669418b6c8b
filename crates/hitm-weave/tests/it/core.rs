//! Latency that a core hides and that it does not: store buffer, forwarding, fences, the load
//! window.

use hitm_base::{Cycles, DataSource, Machine};

use crate::run::{Program, Run, machine};

const SHARED: u64 = 0x1000;

/// Remote hand-overs of 226 cycles, 8 stores in the buffer, 100 instructions past a load.
fn small_core() -> Machine {
    let mut machine = machine("icelake-2s");
    machine.core.store_buffer_entries = 8;
    machine.core.load_window_insns = 100;
    machine
}

/// CPUs 0 and 32 are in different packages; the second thread has written all shared lines.
fn run(program: Program) -> Run {
    let mut run = Run::new(&small_core(), &[0, 32]);
    for line in 0..32 {
        run = run.written_by(1, SHARED + line * 64);
    }
    run.programs(&[program, Program::default()])
}

fn remote() -> Cycles {
    small_core().transfers[hitm_base::Distance::Remote.index()].dirty
}

#[test]
fn a_store_that_fits_the_buffer_costs_nothing() {
    let run = run(Program::default().store(SHARED).work(999));
    let [store] = run.outcomes(0)[..] else {
        panic!("one store")
    };
    assert_eq!(
        (store.source, store.latency),
        (DataSource::RemoteHitm, remote())
    );
    assert_eq!((store.stall, run.clock(0)), (Cycles::ZERO, Cycles(1000)));
}

#[test]
fn stores_beyond_the_buffer_wait_for_the_oldest() {
    let stores = |count| (0..count).fold(Program::default(), |p, i| p.store(SHARED + i * 64));
    assert_eq!(run(stores(8)).clock(0), Cycles(8));
    let full = run(stores(12));
    let stalls: Vec<Cycles> = full
        .outcomes(0)
        .iter()
        .map(|outcome| outcome.stall)
        .collect();
    let lost: u64 = stalls.iter().map(|stall| stall.0).sum();
    assert_eq!(full.clock(0), Cycles(12 + lost));
    // Four stores found the buffer full; the first waited for all of a hand-over but the eight
    // cycles that it took to fill the buffer.
    assert_eq!(stalls[0], remote() - Cycles(8));
    assert_eq!(
        stalls.iter().filter(|stall| **stall > Cycles::ZERO).count(),
        4
    );
    assert_eq!(
        full.weave.totals(full.slots[0]).contention_stall,
        Cycles(lost)
    );
}

#[test]
fn private_stores_fill_the_buffer_too() {
    let run = run(Program::default().store(SHARED).private_stores(100));
    // Seven private stores find room behind the shared one. Where the eighth is, is interpolated
    // between the places that are known: at 7 of the 101 instructions.
    let stall = remote() - Cycles(7);
    assert_eq!(
        (run.outcomes(0)[0].stall, run.clock(0)),
        (stall, Cycles(101) + stall)
    );
}

#[test]
fn a_load_sees_a_younger_store_in_the_buffer() {
    let run = run(Program::default()
        .store(SHARED)
        .load(SHARED)
        .load(SHARED + 8)
        .work(10));
    let outcomes = run.outcomes(0);
    assert_eq!(outcomes[1].source, DataSource::StoreBuffer);
    // Other bytes of the line come with the store's own fill.
    assert_eq!(outcomes[2].source, DataSource::FillBuffer);
    assert_eq!(run.clock(0), Cycles(13));
}

#[test]
fn a_fence_waits_for_older_stores() {
    let fenced = run(Program::default().store(SHARED).fence().work(10));
    // The store commits when the line is there, one cycle, then the fence is over.
    assert_eq!(fenced.outcomes(0)[0].stall, remote() - Cycles(1));
    assert_eq!(fenced.clock(0), remote() + Cycles(12));
    let unfenced = run(Program::default().store(SHARED).work(11));
    assert_eq!(unfenced.clock(0), Cycles(12));
}

#[test]
fn a_load_stalls_for_what_the_window_does_not_cover() {
    let stall = |insns| run(Program::default().load(SHARED).work(insns)).outcomes(0)[0].stall;
    // Nothing issues after the window's end until the load is back.
    assert_eq!(stall(300), remote() - Cycles(100));
    let two = run(Program::default().load(SHARED).load(SHARED + 64).work(300));
    let stalls: Vec<Cycles> = two
        .outcomes(0)
        .iter()
        .map(|outcome| outcome.stall)
        .collect();
    assert_eq!(
        stalls,
        [remote() - Cycles(100), Cycles::ZERO],
        "independent loads overlap"
    );
}
