//! The engine against the weave: what both model must cost the same.

use hitm_base::{Access, AccessOp, CodeAddr, CpuId, Cycles, Machine, Outcome, ThreadId};
use hitm_coherence::directory::Capacity;
use hitm_sim::engine::Rmw;
use hitm_weave::{Position, ThreadEvent, Weave};

use crate::toy::{Log, TEST, Toy, icelake};

#[derive(Clone, Copy)]
enum Step {
    Store(u64),
    Add(u64),
    Work(u64),
}

fn machine() -> Machine {
    let mut machine = icelake();
    machine.core.cpi_milli = 1000;
    machine.core.store_buffer_entries = 8;
    machine
}

/// Clock of each thread at its end.
fn in_weave(programs: &[(u16, Vec<Step>)]) -> Vec<u64> {
    let mut weave = Weave::new(machine(), Capacity::Infinite);
    let mut sink = |_: &Access, _: &Outcome| {};
    let mut slots = Vec::new();
    for (id, (cpu, steps)) in (0..).zip(programs) {
        let slot = weave.add_thread(ThreadId(id), CpuId(*cpu));
        let mut at = Position::default();
        let mut events = Vec::new();
        for step in steps {
            let (op, addr) = match step {
                Step::Work(span) => {
                    at.insn += span;
                    continue;
                }
                Step::Store(addr) => (AccessOp::Store, *addr),
                Step::Add(addr) => (AccessOp::LockedRmw, *addr),
            };
            events.push(ThreadEvent {
                insn: at.insn,
                stores: at.stores,
                addr,
                code: CodeAddr(1),
                size: 8,
                op,
            });
            at.insn += 1;
            at.stores += u64::from(op == AccessOp::Store);
        }
        weave.push(slot, &events, at);
        slots.push(slot);
    }
    weave.finish(&mut sink);
    slots
        .iter()
        .map(|slot| weave.totals(*slot).clock.0)
        .collect()
}

fn in_engine(programs: &[(u16, Vec<Step>)]) -> Vec<u64> {
    let mut toy = Toy::new(machine());
    // Linux places a page where it is first touched: by the first program, in all of these.
    let home = programs[0].0;
    let places: Vec<_> = (0..16).map(|line| toy.word_near(line * 64, home)).collect();
    let log = Log::default();
    for (cpu, steps) in programs {
        let (steps, places, log, cpu) = (steps.clone(), places.clone(), log.clone(), *cpu);
        toy.task(cpu, |engine| async move {
            for step in steps {
                match step {
                    Step::Store(addr) => {
                        engine.store(TEST, places[(addr / 64) as usize], 1).await;
                    }
                    Step::Add(addr) => {
                        engine
                            .rmw(TEST, places[(addr / 64) as usize], Rmw::Add(1))
                            .await;
                        // The weave counts the instruction and what it waits for apart.
                        engine.work(TEST, Cycles(1));
                    }
                    Step::Work(span) => engine.work(TEST, Cycles(span)),
                }
            }
            log.add(&engine, cpu.to_string());
        });
    }
    toy.run().unwrap();
    let mut ends: Vec<(usize, u64)> = Vec::new();
    for (at, cpu) in log.take() {
        let index = programs
            .iter()
            .position(|(known, _)| known.to_string() == cpu);
        ends.push((index.unwrap(), at));
    }
    ends.sort_unstable();
    ends.into_iter().map(|(_, at)| at).collect()
}

#[track_caller]
fn check(programs: &[(u16, Vec<Step>)]) {
    assert_eq!(in_engine(programs), in_weave(programs));
}

#[test]
fn a_store_buffer_that_overflows_costs_the_same() {
    let lines = |count: u64| (0..count).map(|line| Step::Store(line * 64)).collect();
    check(&[(0, lines(8))]);
    check(&[(0, lines(16))]);
    // The lines are the other package's first.
    let other = (0..16).map(|line| Step::Add(line * 64)).collect();
    let mut late = vec![Step::Work(100_000)];
    late.extend((0..16).map(|line| Step::Store(line * 64)));
    check(&[(32, other), (0, late)]);
}

#[test]
fn stores_of_four_cpus_to_one_line_cost_the_same() {
    let stores = |cpu| (cpu, [Step::Store(0), Step::Work(3)].repeat(500));
    check(&[0, 1, 32, 33].map(stores));
}

#[test]
fn contended_increments_cost_the_same() {
    let increments = |cpu| (cpu, [Step::Add(0), Step::Work(3)].repeat(200));
    check(&[0, 1, 2, 3, 32, 33, 34, 35].map(increments));
}

#[test]
fn a_locked_operation_waits_for_stores_as_long() {
    let mixed = |cpu| {
        let round = [
            Step::Store(0),
            Step::Store(64),
            Step::Work(40),
            Step::Add(128),
        ];
        (cpu, round.repeat(100))
    };
    check(&[0, 32].map(mixed));
}
