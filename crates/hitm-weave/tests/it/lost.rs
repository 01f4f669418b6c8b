//! Lost cycles are what others' use of a line costs: where only a layout changes, they tell what it gains.

use hitm_base::machine::preset_names;
use hitm_base::{AccessOp, Cycles, Machine, Outcome};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use crate::run::{Program, Run, machine};

/// Programs by all presets together.
const PROGRAMS: u32 = 10_000;

const MEMBERS: usize = 6;

/// Times that each thread runs its body. The waits of the first one are not counted: a line's first touch is
/// a transfer, whatever the layout.
const ROUNDS: usize = 150;

/// Loop of one thread: operation, member, and instructions before it.
type Body = Vec<(AccessOp, usize, u64)>;

/// The line of each member.
type Layout = [u64; MEMBERS];

#[derive(Debug, Clone)]
struct Case {
    machine: usize,
    cpus: Vec<u16>,
    bodies: Vec<Body>,
    layouts: [Layout; 2],
}

fn body() -> impl Strategy<Value = Body> {
    let op = prop_oneof![
        4 => Just(AccessOp::Load),
        2 => Just(AccessOp::Store),
        1 => Just(AccessOp::LockedRmw),
    ];
    let work = prop_oneof![3 => 0..20u64, 1 => 0..400u64];
    prop::collection::vec((op, 0..MEMBERS, work), 1..6)
}

fn case(machine_count: usize) -> impl Strategy<Value = Case> {
    let threads = prop::collection::vec((any::<u16>(), body()), 2..7);
    let layout = || prop::array::uniform6(0..MEMBERS as u64);
    (0..machine_count, threads, [layout(), layout()]).prop_map(|(machine, threads, layouts)| {
        let (cpus, bodies) = threads.into_iter().unzip();
        Case {
            machine,
            cpus,
            bodies,
            layouts,
        }
    })
}

fn program(body: &Body, layout: &Layout) -> Program {
    let steps = body.iter().cycle().take(body.len() * ROUNDS);
    steps.fold(Program::default(), |program, (op, member, work)| {
        let addr = 0x1000 + layout[*member] * 64 + 8 * *member as u64;
        program.work(*work).access(*op, addr)
    })
}

/// Cycles of all threads, and those that they lost, without the waits of their first rounds.
fn sums(machine: &Machine, case: &Case, layout: &Layout) -> [i64; 2] {
    let cpu_count = machine.topology.cpu_count() as u16;
    let mut cpus: Vec<u16> = case.cpus.iter().map(|cpu| cpu % cpu_count).collect();
    cpus.sort_unstable();
    cpus.dedup();
    let bodies = case.bodies.iter().take(cpus.len());
    let programs: Vec<Program> = bodies.map(|body| program(body, layout)).collect();
    let run = Run::new(machine, &cpus).programs(&programs);
    let mut sums = [0, 0];
    for (thread, body) in case.bodies.iter().take(cpus.len()).enumerate() {
        let totals = run.weave.totals(run.slots[thread]);
        let first = &run.outcomes(thread as u32)[..body.len()];
        let of_first = |of: fn(&Outcome) -> u64| Cycles(first.iter().map(of).sum());
        let waited = of_first(|outcome| outcome.stall.0);
        let lost = of_first(|outcome| outcome.lost.0);
        sums[0] += (totals.clock - waited).0 as i64;
        sums[1] += (totals.contention_stall - lost).0 as i64;
    }
    sums
}

#[test]
fn a_layouts_gain_is_what_is_lost_less() {
    let machines: Vec<Machine> = preset_names().map(machine).collect();
    let seed = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    let config = Config {
        cases: PROGRAMS,
        failure_persistence: None,
        ..Config::default()
    };
    let changed = std::cell::Cell::new(0);
    let mut runner = TestRunner::new_with_rng(config, seed);
    let held = runner.run(&case(machines.len()), |case| {
        let machine = &machines[case.machine];
        let [before, after] = case.layouts.map(|layout| sums(machine, &case, &layout));
        let (saved, lost_less) = (before[0] - after[0], before[1] - after[1]);
        if saved.abs() * 100 <= 3 * before[0].min(after[0]) {
            return Ok(());
        }
        changed.set(changed.get() + 1);
        let off = (saved - lost_less).abs();
        prop_assert!(
            off * 5 <= saved.abs(),
            "cycles {} to {}, lost {} to {}",
            before[0],
            after[0],
            before[1],
            after[1]
        );
        Ok(())
    });
    held.unwrap_or_else(|error| panic!("{error}"));
    assert!(
        changed.get() > PROGRAMS / 4,
        "{} layouts matter",
        changed.get()
    );
}
