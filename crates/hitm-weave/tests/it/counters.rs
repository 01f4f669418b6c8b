//! Threads that increment one atomic counter: the hand-over interval that the machine says, and the
//! published figures of a real machine.

use expect_test::expect;
use hitm_base::machine::{Contention, UpgradeRatio};
use hitm_base::{AccessOp, Cycles, Distance, Machine};

use crate::run::{Program, Run, machine};

/// Cycles for each increment of each thread; the threads ask for the line in the order of `cpus`.
fn cycles_per_increment(machine: &Machine, cpus: &[u16]) -> f64 {
    const INCREMENTS: u64 = 300;
    // The loop of the benchmark: increment, branch.
    let program = (0..INCREMENTS).fold(Program::default(), |program, _| {
        program.access(AccessOp::LockedRmw, 0x1000).work(1)
    });
    let run = Run::new(machine, cpus).programs(&vec![program; cpus.len()]);
    let total: u64 = (0..cpus.len()).map(|thread| run.clock(thread).0).sum();
    total as f64 / cpus.len() as f64 / INCREMENTS as f64
}

/// CPUs 0 to `count` - 1, in the order of their numbers.
fn in_order(count: u16) -> Vec<u16> {
    (0..count).collect()
}

/// The same CPUs in one of the orders in which unbound threads come first.
fn in_any_order(count: u16) -> Vec<u16> {
    let mut cpus = in_order(count);
    let mut state = 1_u64;
    for last in (1..cpus.len()).rev() {
        state = state
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(0x1405_7b7e_f767_814f);
        cpus.swap(last, (state >> 33) as usize % (last + 1));
    }
    cpus
}

/// The machine as its file described it before contended lines had numbers of their own.
fn near_first(mut machine: Machine) -> Machine {
    machine.contention = Contention::NEAR_FIRST;
    machine.upgrade = UpgradeRatio::ONE;
    for transfer in &mut machine.transfers {
        transfer.occupancy = Cycles((transfer.dirty.0 * 470 + 500) / 1_000);
    }
    machine.transfers_away_from_home = machine.transfers;
    machine
}

#[test]
fn a_saturated_line_is_handed_over_once_an_occupancy() {
    let machine = near_first(machine("icelake-2s"));
    let expected = machine.transfers[Distance::Llc.index()].occupancy.0 as f64;
    for count in [8, 16, 32] {
        let interval = cycles_per_increment(&machine, &in_order(count)) / f64::from(count);
        assert!(
            (interval / expected - 1.0).abs() < 0.03,
            "{count}: {interval} for {expected}"
        );
    }
}

#[test]
fn an_owner_increments_until_the_next_snoop_reaches_it() {
    let mut machine = machine("cascadelake-2s");
    machine.contention.jitter_milli = 0;
    let transfer = machine.transfers[Distance::Llc.index()];
    assert_eq!(transfer.occupancy, transfer.dirty);
    let increment = machine.core.locked_hit.0 + 2;
    for hold_milli in [0, 140, 400] {
        machine.contention.hold_milli = hold_milli;
        let hold = transfer.dirty.0 * u64::from(hold_milli) / 1_000;
        // One when the line arrives, one a loop as long as the owner hits it.
        let of_visit = 1 + hold.saturating_sub(2).div_ceil(increment);
        let expected = transfer.dirty.0 as f64 / of_visit as f64;
        let interval = cycles_per_increment(&machine, &in_order(16)) / 16.0;
        assert!(
            (interval / expected - 1.0).abs() < 0.03,
            "{hold_milli}: {interval} for {expected}"
        );
    }
}

#[test]
fn plain_stores_wait_for_the_next_visit_when_the_hold_is_over() {
    const STORES: u64 = 3_000;
    const THREADS: u64 = 8;
    let mut machine = machine("cascadelake-2s");
    machine.contention.jitter_milli = 0;
    let dirty = machine.transfers[Distance::Llc.index()].dirty.0;
    let writer = |thread: u64| {
        (0..STORES).fold(Program::default(), |program, _| {
            program.access(AccessOp::Store, 0x1000 + 8 * thread)
        })
    };
    let programs: Vec<Program> = (0..THREADS).map(writer).collect();
    for hold_milli in [125, 250, 900] {
        machine.contention.hold_milli = hold_milli;
        let hold = (dirty * u64::from(hold_milli) + 500) / 1_000;
        let run = Run::new(&machine, &in_order(THREADS as u16)).programs(&programs);
        let clocks: u64 = (0..THREADS as usize)
            .map(|thread| run.clock(thread).0)
            .sum();
        let of_store = clocks as f64 / (THREADS * STORES) as f64;
        let expected = (THREADS * dirty) as f64 / hold as f64;
        assert!(
            (of_store / expected - 1.0).abs() < 0.1,
            "hold {hold}: {of_store} for {expected}"
        );
    }
}

#[test]
fn an_owner_that_never_stops_writing_loses_its_line_all_the_same() {
    let mut machine = machine("cascadelake-2s");
    machine.contention.jitter_milli = 0;
    let dirty = machine.transfers[Distance::Remote.index()].dirty;
    // Longer than the time between two stores of the owner.
    machine.contention.hold_milli = 500;
    let writer = (0..200).fold(Program::default(), |program, _| {
        program.work(30).access(AccessOp::Store, 0x1000)
    });
    let mut programs = vec![writer; 2];
    programs.push(
        Program::default()
            .work(700)
            .access(AccessOp::LockedRmw, 0x1000),
    );
    let run = Run::new(&machine, &[0, 16, 17]).programs(&programs);
    let waited = run.outcomes(2)[0].latency;
    assert!(waited.0 <= dirty.0 * 3, "{waited} cycles");
}

/// perfbook, CodeSamples/count data: 8x Xeon 8176, nanoseconds for each increment of each thread.
const PUBLISHED: [(u16, f64); 17] = [
    (1, 4.83),
    (2, 63.9),
    (4, 113.0),
    (8, 203.0),
    (16, 372.0),
    (28, 624.0),
    (32, 705.0),
    (56, 1325.0),
    (64, 1586.0),
    (112, 3206.0),
    (128, 3766.0),
    (160, 4811.0),
    (224, 7064.0),
    (256, 8699.0),
    (320, 11636.0),
    (384, 13970.0),
    (420, 14820.0),
];

/// The table of docs/models/coherence.md. The hold of the preset comes from the rows up to 28.
#[test]
fn atomic_increments_on_eight_xeon_8176() {
    let machine = machine("xeon8176-8s");
    let before = near_first(machine.clone());
    let nanos = |machine: &Machine, cpus: &[u16]| {
        cycles_per_increment(machine, cpus) * 1e6 / machine.clock.khz() as f64
    };
    let mut table = String::from(
        "| CPUs | published | before | ratio | now | ratio | in order | ratio |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    for (count, published) in PUBLISHED {
        let (mixed, ordered) = (in_any_order(count), in_order(count));
        let modelled = [
            nanos(&before, &ordered),
            nanos(&machine, &mixed),
            nanos(&machine, &ordered),
        ];
        table += &format!("| {count} | {published} |");
        for nanos in modelled {
            table += &format!(" {nanos:.1} | {:.2} |", nanos / published);
        }
        table += "\n";
    }
    expect![[r#"
        | CPUs | published | before | ratio | now | ratio | in order | ratio |
        |---|---|---|---|---|---|---|---|
        | 1 | 4.83 | 7.4 | 1.54 | 7.4 | 1.54 | 7.4 | 1.54 |
        | 2 | 63.9 | 48.4 | 0.76 | 43.1 | 0.67 | 42.9 | 0.67 |
        | 4 | 113 | 90.1 | 0.80 | 86.9 | 0.77 | 85.7 | 0.76 |
        | 8 | 203 | 180.0 | 0.89 | 171.8 | 0.85 | 172.2 | 0.85 |
        | 16 | 372 | 359.7 | 0.97 | 342.3 | 0.92 | 342.2 | 0.92 |
        | 28 | 624 | 629.2 | 1.01 | 601.5 | 0.96 | 597.8 | 0.96 |
        | 32 | 705 | 813.8 | 1.15 | 753.4 | 1.07 | 706.5 | 1.00 |
        | 56 | 1325 | 1352.9 | 1.02 | 1500.9 | 1.13 | 1222.4 | 0.92 |
        | 64 | 1586 | 1580.0 | 1.00 | 1777.6 | 1.12 | 1403.2 | 0.88 |
        | 112 | 3206 | 2705.7 | 0.84 | 3545.3 | 1.11 | 2436.5 | 0.76 |
        | 128 | 3766 | 3287.9 | 0.87 | 4161.3 | 1.10 | 2847.4 | 0.76 |
        | 160 | 4811 | 4053.8 | 0.84 | 5464.2 | 1.14 | 3549.7 | 0.74 |
        | 224 | 7064 | 5585.9 | 0.79 | 8155.2 | 1.15 | 4928.8 | 0.70 |
        | 256 | 8699 | 6280.3 | 0.72 | 8975.2 | 1.03 | 5625.0 | 0.65 |
        | 320 | 11636 | 7718.2 | 0.66 | 11125.3 | 0.96 | 7010.8 | 0.60 |
        | 384 | 13970 | 9155.7 | 0.66 | 13480.3 | 0.96 | 8461.5 | 0.61 |
        | 420 | 14820 | 9964.2 | 0.67 | 14813.8 | 1.00 | 9245.1 | 0.62 |
    "#]]
    .assert_eq(&table);
}

#[test]
fn one_thread_pays_the_locked_operation_alone() {
    let machine = machine("xeon8176-8s");
    let alone = machine.core.locked_hit + Cycles(2);
    assert!((cycles_per_increment(&machine, &[0]) - alone.0 as f64).abs() < 1.0);
}
