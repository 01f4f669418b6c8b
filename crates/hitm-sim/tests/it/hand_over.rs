//! Two threads that write one word in turn: what a hand-over costs, beside the published figures of
//! a real machine.

use expect_test::expect;
use hitm_base::machine::{Contention, UpgradeRatio, preset};
use hitm_base::{Cycles, DataSource, Machine};
use hitm_sim::engine::Rmw;

use crate::toy::{Log, TEST, Toy};

const TURNS: u64 = 400;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// Compare and swap until it succeeds.
    Blind,
    /// Load until it is this thread's turn, then compare and swap.
    ReadThenWrite,
}

/// Nanoseconds from turn to turn, one thread on CPU 0 and one on `other`.
fn nanos(machine: &Machine, other: u16, turn: Turn) -> f64 {
    let mut toy = Toy::new(machine.clone());
    let word = toy.word(0x1000);
    let log = Log::default();
    for (first, cpu) in [(0, 0), (1, other)] {
        let log = log.clone();
        toy.task(cpu, |engine| async move {
            for expected in (first..TURNS).step_by(2) {
                if turn == Turn::ReadThenWrite {
                    while engine.load(TEST, word).await != expected {
                        engine.work(TEST, Cycles(2));
                    }
                }
                let swap = Rmw::CompareSwap {
                    expected,
                    new: expected + 1,
                };
                while engine.rmw(TEST, word, swap).await != expected {
                    engine.work(TEST, Cycles(2));
                }
            }
            log.add(&engine, "done");
        });
    }
    toy.run().unwrap();
    let end = log.take().into_iter().map(|(time, _)| time).max().unwrap();
    end as f64 / TURNS as f64 * 1e6 / machine.clock.khz() as f64
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

/// perfbook, cpu/overheads.tex: nanoseconds a hand-over on 8x Xeon 8176, with the CPU beside CPU 0.
const PUBLISHED: [(Turn, &str, u16, f64); 6] = [
    (Turn::Blind, "same package", 1, 47.5),
    (Turn::Blind, "other package", 28, 148.8),
    (Turn::Blind, "other half", 112, 336.6),
    (Turn::ReadThenWrite, "same package", 1, 101.9),
    (Turn::ReadThenWrite, "other package", 28, 442.9),
    (Turn::ReadThenWrite, "other half", 112, 944.8),
];

/// The table of docs/models/coherence.md. All rows are calibration: the transfers come from the
/// first three, the upgrade ratios from the others.
#[test]
fn hand_overs_on_eight_xeon_8176() {
    let machine = Machine::from_toml(preset("xeon8176-8s").unwrap(), "xeon8176-8s").unwrap();
    let before = near_first(machine.clone());
    let mut table = String::from(
        "| turn | other CPU | published | before | ratio | now | ratio |\n|---|---|---|---|---|---|---|\n",
    );
    for (turn, place, other, published) in PUBLISHED {
        let words = match turn {
            Turn::Blind => "compare and swap",
            Turn::ReadThenWrite => "load, then compare and swap",
        };
        table += &format!("| {words} | {place} | {published} |");
        for machine in [&before, &machine] {
            let nanos = nanos(machine, other, turn);
            table += &format!(" {nanos:.1} | {:.2} |", nanos / published);
        }
        table += "\n";
    }
    expect![[r#"
        | turn | other CPU | published | before | ratio | now | ratio |
        |---|---|---|---|---|---|---|
        | compare and swap | same package | 47.5 | 27.5 | 0.58 | 47.6 | 1.00 |
        | compare and swap | other package | 148.8 | 78.0 | 0.52 | 148.8 | 1.00 |
        | compare and swap | other half | 336.6 | 171.8 | 0.51 | 335.8 | 1.00 |
        | load, then compare and swap | same package | 101.9 | 70.0 | 0.69 | 101.8 | 1.00 |
        | load, then compare and swap | other package | 442.9 | 206.5 | 0.47 | 421.7 | 0.95 |
        | load, then compare and swap | other half | 944.8 | 467.9 | 0.50 | 953.5 | 1.01 |
    "#]]
    .assert_eq(&table);
}

#[test]
fn dies_of_a_package_are_nodes_of_their_own() {
    let machine = Machine::from_toml(preset("xeon-480").unwrap(), "xeon-480").unwrap();
    // (the other CPU, HITM from another package, from another node)
    for (other, remote, node) in [(1, false, false), (40, false, true), (120, true, true)] {
        let mut toy = Toy::new(machine.clone());
        let word = toy.word(0x1000);
        for cpu in [0, other] {
            toy.task(cpu, |engine| async move {
                for _ in 0..50 {
                    engine.rmw(TEST, word, Rmw::Add(1)).await;
                    engine.work(TEST, Cycles(2));
                }
            });
        }
        let totals = toy.run().unwrap();
        let row = totals.profile.total(|_| true);
        let hitm = |source| row.sources.get(source);
        let all = hitm(DataSource::LocalHitm) + hitm(DataSource::RemoteHitm);
        assert!(all > 10, "{all}");
        assert_eq!(hitm(DataSource::RemoteHitm), if remote { all } else { 0 });
        assert_eq!(row.node_hitm, if node { all } else { 0 });
    }
}
