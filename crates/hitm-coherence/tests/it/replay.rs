//! Replays: the same statistics however the work is cut, and nothing lost.

use std::num::NonZeroUsize;

use expect_test::expect;
use hitm_base::{Access, AccessOp, CodeAddr, CpuId, Cycles, LINE_SIZE, Machine, ThreadId};
use hitm_coherence::directory::{Capacity, Grant};
use hitm_coherence::replay::{Replay, ReplayError, ReplayOptions, replay};
use hitm_coherence::stats::{Collector, Statistics};
use proptest::prelude::*;

use crate::engine::{Real, drive};
use crate::machines::{self, Step};

fn accesses(steps: &[Step], machine: &Machine) -> Vec<Access> {
    let mut now = 0;
    let cpu_count = machine.topology.cpu_count() as u16;
    let access = |(index, step): (usize, &Step)| {
        now += step.gap;
        let cpu = step.cpu % cpu_count;
        Access {
            thread: ThreadId(cpu.into()),
            cpu: CpuId(cpu),
            time: Cycles(now),
            addr: step.line * LINE_SIZE + index as u64 % 8 * 8,
            size: 8,
            op: step.op,
            code: CodeAddr(0x1000 + index as u64 % 5),
        }
    };
    steps.iter().enumerate().map(access).collect()
}

fn options(capacity: Capacity, shards: usize) -> ReplayOptions {
    ReplayOptions {
        capacity,
        shards: NonZeroUsize::new(shards).unwrap(),
    }
}

/// The same traffic by the first CPUs of both halves, which are threads of a core where there are
/// two. CPUs continue with their lines, and with those of their siblings.
fn by_few(steps: &[Step], machine: &Machine) -> Vec<Step> {
    let half = machine.topology.cpu_count() as u16 / 2;
    let few = [0, half, 1, half + 1];
    let step = |step: &Step| Step {
        cpu: few[usize::from(step.cpu % 4)],
        line: step.line % 5,
        ..*step
    };
    steps.iter().map(step).collect()
}

/// The statistics of one directory for all lines, by the reference driver.
fn unsharded(
    accesses: &[Access],
    steps: &[Step],
    machine: &Machine,
    capacity: Capacity,
) -> Statistics {
    let mut collector = Collector::default();
    let mut real = Real::new(machine.clone(), capacity);
    drive(
        &mut real,
        steps,
        machine.topology.cpu_count(),
        &mut |_, answer| {
            let access = &accesses[answer.step];
            let locked = machine.core.locked_hit;
            let mut latency = answer.done - answer.issued;
            if answer.is_hit && access.op == AccessOp::LockedRmw {
                latency = locked;
            }
            let stall = match access.op {
                AccessOp::Load if !answer.is_hit => {
                    latency.saturating_sub(machine.caches.l1.latency)
                }
                AccessOp::LockedRmw => latency.saturating_sub(locked),
                _ => Cycles::ZERO,
            };
            let grant = Grant {
                source: answer.source,
                done: answer.done,
                queued: answer.queued,
                other_node: answer.other_node,
                taken: answer.taken,
            };
            collector.add(access, &grant.outcome(latency, stall, Cycles::ZERO));
        },
    );
    let mut statistics = collector.finish();
    // A replay counts hits together, and has no visits.
    let lines = statistics.lines.values_mut();
    lines.for_each(|line| line.visits.clear());
    statistics
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn shards_and_pieces_do_not_matter(
        machine in machines::machine(), steps in machines::steps(), piece in 1usize..50,
        few in any::<bool>(), adjacent_line_milli in prop_oneof![Just(0), Just(400), Just(1_000)],
        capacity in prop_oneof![Just(Capacity::Finite), Just(Capacity::Infinite)],
    ) {
        let machine = Machine { adjacent_line_milli, ..machine };
        let steps = if few { by_few(&steps, &machine) } else { steps };
        let accesses = accesses(&steps, &machine);
        let expected = unsharded(&accesses, &steps, &machine, capacity);
        for shards in [1, 2, 3, 64] {
            let options = options(capacity, shards);
            prop_assert_eq!(&replay(&accesses, &machine, options).unwrap(), &expected);
        }
        let mut in_pieces = Replay::new(&machine, options(capacity, 2));
        for piece in accesses.chunks(piece) {
            in_pieces.push(piece).unwrap();
        }
        prop_assert_eq!(in_pieces.finish(), expected);
    }

    #[test]
    fn every_access_is_counted_once(machine in machines::machine(), steps in machines::steps()) {
        let accesses = accesses(&steps, &machine);
        let statistics =
            replay(&accesses, &machine, options(Capacity::Infinite, 4)).unwrap();
        let of = |op| accesses.iter().filter(|access| access.op == op).count() as u64;
        let sum = |count: fn(&hitm_coherence::stats::LineStats) -> u64| -> u64 {
            statistics.lines.values().map(count).sum()
        };
        prop_assert_eq!(sum(|line| line.loads.total()), of(AccessOp::Load));
        prop_assert_eq!(sum(|line| line.stores.total()), of(AccessOp::Store));
        prop_assert_eq!(sum(|line| line.rmws.total()), of(AccessOp::LockedRmw));
        prop_assert_eq!(
            sum(|line| line.rows.values().map(|row| row.sources.total()).sum()),
            accesses.len() as u64
        );
    }
}

/// More accesses than one thread deals out alone.
#[test]
fn several_threads_deal_out_as_one_does() {
    let text = hitm_base::machine::preset("icelake-2s").unwrap();
    let machine = Machine::from_toml(text, "preset icelake-2s").unwrap();
    let step = |number: u64| Step {
        gap: 20,
        cpu: (number / 7 * 31 % 128) as u16,
        line: number / 5 * 13 % 400,
        op: [AccessOp::Load, AccessOp::Load, AccessOp::Store][number as usize % 3],
    };
    let steps: Vec<Step> = (0..300_000).map(step).collect();
    let mut accesses = accesses(&steps, &machine);
    let alone = replay(&accesses, &machine, options(Capacity::Finite, 1)).unwrap();
    let mut together = Replay::new(&machine, options(Capacity::Finite, 3));
    for piece in accesses.chunks(140_000) {
        together.push(piece).unwrap();
    }
    assert!(together.finish() == alone);
    let index = accesses.len() - 2;
    let before = accesses[index - 1].time;
    accesses[index].time = Cycles(before.0 - 1);
    let expected = ReplayError::TimeGoesBack {
        index: index as u64,
        found: accesses[index].time,
        before,
    };
    let error = replay(&accesses, &machine, options(Capacity::Finite, 3)).unwrap_err();
    assert_eq!(error, expected);
}

#[test]
fn what_cannot_be_replayed_is_refused_with_its_place() {
    let machine = Machine::from_toml(
        hitm_base::machine::preset("icelake-2s").unwrap(),
        "preset icelake-2s",
    )
    .unwrap();
    let good = Access {
        thread: ThreadId(0),
        cpu: CpuId(0),
        time: Cycles(10),
        addr: 0x1000,
        size: 8,
        op: AccessOp::Load,
        code: CodeAddr(1),
    };
    let refused = |bad: Access| -> ReplayError {
        let mut replay = Replay::new(&machine, options(Capacity::Finite, 1));
        replay.push(&[good, good]).unwrap();
        let error = replay.push(&[good, bad]).unwrap_err();
        replay.finish();
        error
    };
    let errors = [
        refused(Access {
            time: Cycles(9),
            ..good
        }),
        refused(Access {
            time: Cycles::MAX,
            ..good
        }),
        refused(Access {
            cpu: CpuId(9999),
            ..good
        }),
        refused(Access {
            addr: 0x103c,
            ..good
        }),
        refused(Access { size: 0, ..good }),
    ];
    let text: Vec<String> = errors.iter().map(ReplayError::to_string).collect();
    expect![[r#"
        access 3 is at cycle 9, expected 10 or later
        access 3 is at cycle 18446744073709551615, expected at most 4611686018427387904
        access 3 is by CPU 9999, expected one below 128
        access 3 has 8 bytes at 0x103c, expected 1 to 64 within one line
        access 3 has 0 bytes at 0x1000, expected 1 to 64 within one line"#]]
    .assert_eq(&text.join("\n"));
}
