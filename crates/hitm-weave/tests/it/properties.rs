//! Properties that hold for any programs.

use hitm_base::{AccessOp, Cycles, Machine};
use hitm_weave::Position;
use proptest::prelude::*;

use crate::run::{Program, Run, machine};

pub(crate) fn small_machine() -> Machine {
    let mut machine = machine("icelake-2s");
    machine.core.store_buffer_entries = 4;
    machine.core.load_window_insns = 30;
    machine.core.fill_buffers = 2;
    machine
}

/// The same; loads can lose their line.
pub(crate) fn clearing_machine() -> Machine {
    let mut machine = small_machine();
    machine.core.ordering_clear = Some(Cycles(25));
    machine
}

/// Both of them.
pub(crate) fn machines() -> impl Strategy<Value = Machine> {
    prop_oneof![Just(small_machine()), Just(clearing_machine())]
}

/// Two threads of one core, another core, another package.
pub(crate) const CPUS: [u16; 4] = [0, 64, 1, 32];

fn program() -> impl Strategy<Value = Program> {
    let op = prop_oneof![
        6 => Just(AccessOp::Load),
        6 => Just(AccessOp::Store),
        2 => Just(AccessOp::LockedRmw),
        1 => Just(AccessOp::Fence),
    ];
    let step = (
        op,
        0..4u64,
        0..8u64,
        prop_oneof![4 => 0..8u64, 1 => 0..400u64],
        0..3u64,
    );
    prop::collection::vec(step, 0..60).prop_map(|steps| {
        steps.into_iter().fold(
            Program::default(),
            |program, (op, line, word, work, stores)| {
                let addr = if op == AccessOp::Fence {
                    0
                } else {
                    0x1000 + line * 64 + word * 8
                };
                program.access(op, addr).work(work).private_stores(stores)
            },
        )
    })
}

pub(crate) fn programs() -> impl Strategy<Value = Vec<Program>> {
    prop::collection::vec(program(), 1..=CPUS.len())
}

/// Runs the programs, pushed in pieces of as many events as `pieces` says in turn.
fn in_pieces(machine: &Machine, programs: &[Program], pieces: &[usize]) -> Run {
    let mut run = Run::new(machine, &CPUS[..programs.len()]);
    let mut done = vec![0; programs.len()];
    let mut sizes = pieces.iter().cycle();
    let mut clocks = vec![Cycles::ZERO; programs.len()];
    while programs
        .iter()
        .zip(&done)
        .any(|(program, done)| *done < program.events.len())
    {
        for (thread, program) in programs.iter().enumerate() {
            let from = done[thread];
            let to = (from + sizes.next().unwrap()).min(program.events.len());
            let frontier = match program.events.get(to) {
                Some(next) => Position {
                    insn: next.insn,
                    stores: next.stores,
                },
                None => program.end,
            };
            run.weave
                .push(run.slots[thread], &program.events[from..to], frontier);
            done[thread] = to;
        }
        let now = run.weave.now();
        run.advance();
        assert!(run.weave.now() >= now, "virtual time goes on");
        for (thread, clock) in clocks.iter_mut().enumerate() {
            assert!(run.clock(thread) >= *clock, "a clock never goes back");
            *clock = run.clock(thread);
        }
    }
    for (slot, program) in run.slots.clone().into_iter().zip(programs) {
        run.weave.push(slot, &[], program.end);
    }
    run.finish();
    run
}

/// Clock, accesses and stall of each thread. Which of two accesses that a thread waited for at the
/// same time is charged may depend on the pieces; the sum may not.
fn sums(machine: &Machine, programs: &[Program], pieces: &[usize]) -> Vec<(Cycles, u64, Cycles)> {
    let run = in_pieces(machine, programs, pieces);
    let totals = run.slots.iter().map(|slot| run.weave.totals(*slot));
    totals
        .map(|totals| (totals.clock, totals.accesses, totals.stall))
        .collect()
}

fn is_counted(op: AccessOp) -> bool {
    op != AccessOp::Fence
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn totals_are_the_sums_of_what_came_out(machine in machines(), programs in programs()) {
        let run = Run::new(&machine, &CPUS[..programs.len()]).programs(&programs);
        for (thread, program) in programs.iter().enumerate() {
            let totals = run.weave.totals(run.slots[thread]);
            let outcomes = run.outcomes(thread as u32);
            let stall: u64 = outcomes.iter().map(|outcome| outcome.stall.0).sum();
            let expected = program.events.iter().filter(|event| is_counted(event.op)).count();
            prop_assert_eq!(outcomes.len(), expected);
            prop_assert_eq!((totals.accesses, totals.stall.0), (expected as u64, stall));
            prop_assert!(totals.contention_stall <= totals.stall);
            // What is no stall is work, and the commit cycles that a fence waits for.
            let work = totals.clock.0 - totals.stall.0;
            prop_assert!(work >= program.end.insn, "{} < {}", work, program.end.insn);
        }
    }

    #[test]
    fn a_lone_thread_has_no_contention(machine in machines(), program in program()) {
        let run = Run::new(&machine, &[5]).programs(std::slice::from_ref(&program));
        for outcome in run.outcomes(0) {
            prop_assert!(!outcome.source.is_contention(), "{:?}", outcome);
        }
        prop_assert_eq!(run.weave.totals(run.slots[0]).contention_stall, Cycles::ZERO);
    }

    #[test]
    fn a_lone_thread_may_be_pushed_in_any_pieces(
        machine in machines(), program in program(), pieces in prop::collection::vec(1usize..20, 1..6),
    ) {
        let programs = [program];
        prop_assert_eq!(sums(&machine, &programs, &[usize::MAX / 2]), sums(&machine, &programs, &pieces));
    }

    #[test]
    fn threads_may_be_pushed_in_any_pieces(
        machine in machines(), programs in programs(), pieces in prop::collection::vec(1usize..20, 1..6),
    ) {
        prop_assert_eq!(sums(&machine, &programs, &[usize::MAX / 2]), sums(&machine, &programs, &pieces));
    }

    #[test]
    fn writers_of_one_line_follow_each_other_in_time(machine in machines(), programs in programs()) {
        // Whoever gets a line by a locked operation has it after the one before it.
        let run = Run::new(&machine, &CPUS[..programs.len()]).programs(&programs);
        for line in 0x40..0x44 {
            let locked = run.log.iter().filter(|(access, outcome)| {
                access.line().0 == line
                    && access.op == AccessOp::LockedRmw
                    && outcome.source.is_contention()
            });
            let ends: Vec<Cycles> =
                locked.map(|(access, outcome)| access.time + outcome.latency).collect();
            prop_assert!(ends.is_sorted(), "line {:#x}: {:?}", line, ends);
        }
    }

    #[test]
    fn the_same_programs_give_the_same_run(machine in machines(), programs in programs()) {
        let [first, second] = [(), ()].map(|()| in_pieces(&machine, &programs, &[7, 3]));
        prop_assert_eq!(first.log, second.log);
    }
}
