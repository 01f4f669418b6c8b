//! Loads that lose their line before they retire, alone and in a program whose time is published.

use expect_test::expect;
use hitm_base::{AccessOp, Cycles, DataSource, Distance, Machine};

use crate::run::{Program, Run, machine};

const FIRST: u64 = 0x1000;
const SECOND: u64 = 0x1040;

/// CPUs 0 and 1 share a package, 28 and 56 are in others.
const CPUS: [u16; 3] = [0, 28, 1];

fn xeon(ordering_clear: Option<u64>) -> Machine {
    let mut machine = machine("xeon8176-8s");
    machine.core.ordering_clear = ordering_clear.map(Cycles);
    machine
}

/// Thread 0 loads a line from afar, then one from nearby. Thread 2 takes the near one back, `after`
/// cycles from the start.
fn overtaken(machine: &Machine, after: u64) -> Run {
    let reader = Program::default()
        .load(FIRST)
        .load(SECOND)
        .work(4)
        .store(0x2000)
        .work(300);
    let taker = Program::default()
        .work(after)
        .access(AccessOp::LockedRmw, SECOND);
    Run::new(machine, &CPUS)
        .written_by(1, FIRST)
        .written_by(2, SECOND)
        .written_by(0, 0x2000)
        .programs(&[reader, Program::default(), taker])
}

/// The store buffer and the window are full at the same instruction, while a store waits for a near line
/// and a load for a far one. What comes after is known from the start, or when all before is priced.
#[test]
fn time_in_which_store_and_load_stop_a_thread_is_charged_once() {
    let mut machine = xeon(Some(40));
    machine.core.store_buffer_entries = 4;
    machine.core.load_window_insns = 30;
    let program = Program::default()
        .store(SECOND)
        .load(FIRST)
        .private_stores(3)
        .work(26)
        .store(SECOND);
    let others = [Program::default(), Program::default()];
    let run = || {
        Run::new(&machine, &CPUS)
            .written_by(1, FIRST)
            .written_by(2, SECOND)
    };
    let whole = run().programs(&[std::slice::from_ref(&program), &others].concat());
    let mut late = run();
    let last = program.events[2];
    let frontier = hitm_weave::Position {
        insn: last.insn,
        stores: last.stores,
    };
    // Nothing is priced that is later than another thread is.
    late.weave.leave(late.slots[2]);
    let until = Program::default().work(60).end;
    late.weave.push(late.slots[1], &[], until);
    late.weave
        .push(late.slots[0], &program.events[..2], frontier);
    late.advance();
    late.weave.push(late.slots[0], &[last], program.end);
    late.finish();
    let totals = |run: &Run| run.weave.totals(run.slots[0]);
    assert_eq!(totals(&late), totals(&whole));
    assert_eq!(totals(&late).stall, totals(&late).clock - Cycles(32));
}

#[test]
fn a_load_that_loses_its_line_before_it_retires_runs_again() {
    let near = xeon(None).transfers[Distance::Llc.index()].dirty.0;
    let far = xeon(None).transfers[Distance::Remote.index()].dirty.0;
    // The near line is here after 133 cycles, and its load waits for the far one until 417.
    let keeps = overtaken(&xeon(None), near + 20);
    let loses = overtaken(&xeon(Some(40)), near + 20);
    let clears = |run: &Run| run.weave.totals(run.slots[0]).clears;
    assert_eq!((clears(&keeps), clears(&loses)), (0, 1));
    let [first, second, store] = loses.outcomes(0)[..] else {
        panic!("two loads and a store")
    };
    assert_eq!(
        (first.latency, first.source),
        (Cycles(far), DataSource::RemoteHitm)
    );
    // From its second issue on. The taker has had the line for long.
    assert_eq!(
        (second.latency, second.source),
        (Cycles(near), DataSource::LocalHitm)
    );
    assert_eq!(keeps.outcomes(0)[1].latency, second.latency);
    let own = loses.log.iter().filter(|(access, _)| access.thread.0 == 0);
    let times: Vec<u64> = own.map(|(access, _)| access.time.0).collect();
    assert_eq!(times, [0, far + 40, far + 45]);
    // What ran behind the load runs again as well.
    assert_eq!(store.source, DataSource::L1);
    // The window was full when the first load retired: all of it but that load issues again.
    let lost = loses.clock(0).0 - keeps.clock(0).0;
    let window = u64::from(xeon(None).core.load_window_insns);
    assert_eq!(lost, 40 + window - 1);
    assert_eq!(second.stall.0, lost);
}

#[test]
fn a_load_whose_line_stays_until_it_retires_runs_once() {
    let far = xeon(None).transfers[Distance::Remote.index()].dirty.0;
    for (after, clears) in [(far / 2, 1), (far + 20, 0)] {
        let run = overtaken(&xeon(Some(40)), after);
        assert_eq!(
            run.weave.totals(run.slots[0]).clears,
            clears,
            "after {after}"
        );
    }
}

#[test]
fn the_oldest_load_uses_its_data_however_soon_the_line_leaves() {
    // Nine threads write the line without end: it leaves at once.
    let writer = (0..60).fold(Program::default(), |program, _| {
        program.access(AccessOp::LockedRmw, FIRST)
    });
    let reader = (0..5).fold(Program::default(), |program, _| {
        program.load(FIRST).work(400)
    });
    let mut programs = vec![writer; 9];
    programs.push(reader);
    let cpus: Vec<u16> = (0..10).collect();
    let run = Run::new(&xeon(Some(40)), &cpus).programs(&programs);
    assert_eq!(run.weave.totals(run.slots[9]).clears, 0);
}

#[test]
fn stores_behind_a_load_commit_after_it_has_retired() {
    // The store's line is here. Without clears it commits when the older loads have their data.
    let run = overtaken(&xeon(Some(40)), 200);
    let end = |addr| {
        let (access, outcome) = run
            .log
            .iter()
            .find(|(access, _)| access.addr == addr)
            .unwrap();
        access.time + outcome.latency
    };
    assert!(end(0x2000) >= Cycles(417 + 40), "{}", end(0x2000));
}

/// Iterations of each thread in [`readers_beside_lockers`].
const ITERATIONS: u64 = 400;

/// The lock thread of false_sharing_example.c (github.com/joemario/perf-c2c-usage-files), compiled as
/// its first comment says, without optimisation: an exchange and an increment of a word in the first
/// line, then a store to the second.
fn locker() -> Program {
    (0..ITERATIONS).fold(Program::default(), |program, _| {
        let program = program.work(7).access(AccessOp::LockedRmw, FIRST);
        let program = program.load(FIRST).work(1).store(FIRST);
        let program = program.store(SECOND + 8).work(1);
        program.private_stores(1).work(2)
    })
}

/// A reader thread of the same program: a word of its own in each of the two lines.
fn reader(member: u64) -> Program {
    let offset = 32 + 8 * (member % 4);
    (0..ITERATIONS).fold(Program::default(), |program, _| {
        let program = program.work(24).load(FIRST + offset).private_stores(1);
        let program = program.work(1).load(SECOND + offset).private_stores(1);
        program.work(1).private_stores(1).work(2)
    })
}

/// Cycles an iteration of lockers and of readers, and clears an iteration of a reader. The program
/// runs with two threads on each of four sockets, as in the example of its first comment. Threads
/// begin up to a thousand cycles apart, differently for each `seed`.
fn readers_beside_lockers(machine: &Machine, seed: u64) -> [f64; 3] {
    let topology = &machine.topology;
    let nth_of = |package: u16, nth: usize| {
        let cpus = topology.cpus();
        let mut own = cpus.filter(|cpu| topology.package_of(*cpu) == package);
        own.nth(nth).unwrap().0
    };
    let cpus: Vec<u16> = (0..8)
        .map(|thread| nth_of(thread % 4, usize::from(thread / 4)))
        .collect();
    let delay = |thread: u64| (thread * 389 + seed * 7_919 * (thread + 1)) % 1_000;
    let programs = (0..8).map(|thread| {
        let body = if thread < 4 { locker() } else { reader(thread) };
        body.after(delay(thread))
    });
    let run = Run::new(machine, &cpus).programs(&programs.collect::<Vec<Program>>());
    let iterations = 4.0 * ITERATIONS as f64;
    let mean = |of: &dyn Fn(usize) -> u64, from: usize| {
        (from..from + 4).map(of).sum::<u64>() as f64 / iterations
    };
    let clock = |thread: usize| run.clock(thread).0 - delay(thread as u64);
    let clears = |thread: usize| run.weave.totals(run.slots[thread]).clears;
    [mean(&clock, 0), mean(&clock, 4), mean(&clears, 4)]
}

/// A row of the table: means over ten starts, least and most of the readers.
fn row(words: &str, machine: &Machine) -> String {
    let runs: Vec<[f64; 3]> = (0..10)
        .map(|seed| readers_beside_lockers(machine, seed))
        .collect();
    let mean = |index: usize| runs.iter().map(|run| run[index]).sum::<f64>() / runs.len() as f64;
    let readers = || runs.iter().map(|run| run[1]);
    let least = readers().fold(f64::MAX, f64::min);
    let most = readers().fold(0.0, f64::max);
    format!(
        "| {words} | {:.0} | {:.0} | {least:.0} to {most:.0} | {:.2} |\n",
        mean(0),
        mean(1),
        mean(2)
    )
}

/// The table of docs/models/coherence.md. No number of it is calibrated on the published times.
#[test]
fn readers_beside_lockers_on_four_sockets() {
    let mut table = String::from(
        "| machine | lockers | readers | of ten starts | clears |\n|---|---|---|---|---|\n",
    );
    table += &row("before: loads keep their data", &xeon(None));
    table += &row("now", &machine("xeon8176-8s"));
    for cost in [20, 150] {
        table += &row(&format!("a clear costs {cost} cycles"), &xeon(Some(cost)));
    }
    for hold in [110, 140] {
        let mut machine = machine("xeon8176-8s");
        machine.contention.hold_milli = hold;
        table += &row(
            &format!("owner's hold {:.2}", f64::from(hold) / 1e3),
            &machine,
        );
    }
    for jitter in [1, 1_000] {
        let mut machine = machine("xeon8176-8s");
        machine.contention.jitter_milli = jitter;
        table += &row(&format!("jitter {:.1}", f64::from(jitter) / 1e3), &machine);
    }
    for width in [1, 8] {
        let mut machine = machine("xeon8176-8s");
        machine.core.retire_width = width;
        table += &row(&format!("{width} instructions retire a cycle"), &machine);
    }
    for read in [300, 1_000] {
        let mut machine = machine("xeon8176-8s");
        machine.contention.read_milli = read;
        let share = f64::from(read) / 1e3;
        table += &row(
            &format!("a read takes the line for {share:.1} of its latency"),
            &machine,
        );
    }
    let mut plain = machine("xeon8176-8s");
    plain.upgrade = hitm_base::machine::UpgradeRatio::ONE;
    table += &row("upgrade at the clean transfer", &plain);
    let mut broadwell = machine("broadwell-4s");
    table += &row("broadwell-4s, before and now", &broadwell);
    broadwell.core.ordering_clear = Some(Cycles(40));
    table += &row("broadwell-4s with clears of 40 cycles", &broadwell);
    broadwell.core.ordering_clear = None;
    broadwell.contention.read_milli = 1_000;
    table += &row(
        "broadwell-4s, a read takes the line for all of its latency",
        &broadwell,
    );
    expect![[r#"
        | machine | lockers | readers | of ten starts | clears |
        |---|---|---|---|---|
        | before: loads keep their data | 1850 | 339 | 263 to 471 | 0.00 |
        | now | 2734 | 2090 | 1477 to 3335 | 1.18 |
        | a clear costs 20 cycles | 2775 | 2094 | 1340 to 3380 | 1.19 |
        | a clear costs 150 cycles | 2917 | 2375 | 1604 to 3335 | 1.32 |
        | owner's hold 0.11 | 2734 | 2090 | 1477 to 3335 | 1.19 |
        | owner's hold 0.14 | 2760 | 2103 | 1477 to 3335 | 1.18 |
        | jitter 0.0 | 2738 | 2094 | 1477 to 3335 | 1.18 |
        | jitter 1.0 | 2802 | 2102 | 1908 to 2322 | 1.20 |
        | 1 instructions retire a cycle | 2760 | 2046 | 1599 to 3375 | 1.10 |
        | 8 instructions retire a cycle | 2711 | 1940 | 1477 to 3335 | 1.00 |
        | a read takes the line for 0.3 of its latency | 2839 | 1464 | 706 to 3363 | 0.81 |
        | a read takes the line for 1.0 of its latency | 4040 | 3774 | 2976 to 4605 | 1.81 |
        | upgrade at the clean transfer | 2035 | 1683 | 1085 to 2120 | 1.28 |
        | broadwell-4s, before and now | 2298 | 134 | 110 to 148 | 0.00 |
        | broadwell-4s with clears of 40 cycles | 2420 | 921 | 892 to 1041 | 1.00 |
        | broadwell-4s, a read takes the line for all of its latency | 3555 | 214 | 209 to 217 | 0.00 |
    "#]]
    .assert_eq(&table);
}
