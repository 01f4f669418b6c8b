use hitm_base::{CodeAddr, DataSource, ThreadId};
use proptest::prelude::*;

use super::*;
use crate::stats::Collector;

fn access(cpu: u16, op: AccessOp, addr: u64, time: u64) -> Access {
    Access {
        time: Cycles(time),
        addr,
        code: CodeAddr(0x40_1000),
        thread: ThreadId(cpu.into()),
        cpu: CpuId(cpu),
        size: 4,
        op,
    }
}

fn outcome(source: DataSource, stall: u64) -> Outcome {
    Outcome::by_source(source, Cycles(stall), Cycles::ZERO, Cycles(stall))
}

fn pairs(giving: &Giving) -> Vec<(u16, u16, u64, u64, u64)> {
    let pairs = giving.pairs.iter();
    let flat = pairs.map(|((from, to), all)| (from.0, to.0, all.count, all.hitm_count, all.lost.0));
    flat.collect()
}

#[test]
fn a_modified_line_comes_from_its_writer_and_a_clean_one_from_its_last_user() {
    let plan = TrafficPlan::new([LineAddr::of(0x1000)], []);
    let mut collector = TrafficCollector::new(&plan);
    let mut add = |cpu, op, source| {
        collector.add(&access(cpu, op, 0x1008, 0), &outcome(source, 10));
    };
    // Nobody is known yet.
    add(0, AccessOp::Load, DataSource::RemoteHitm);
    add(1, AccessOp::Store, DataSource::LocalUpgrade);
    add(2, AccessOp::Load, DataSource::LocalHitm);
    // CPU 2 read it last; CPU 1 wrote it.
    add(3, AccessOp::LockedRmw, DataSource::RemoteHitm);
    add(4, AccessOp::Load, DataSource::L1);
    add(3, AccessOp::Load, DataSource::LocalPeer);
    // Its own writes give a CPU nothing.
    add(3, AccessOp::Load, DataSource::LocalHitm);
    let traffic = TrafficCollector::finish([collector]);
    let expected = [
        (0, 1, 1, 0, 10),
        (1, 2, 1, 1, 10),
        (1, 3, 1, 1, 10),
        (4, 3, 1, 0, 10),
    ];
    assert_eq!(pairs(&traffic.run), expected);
    assert_eq!(traffic.run.unknown.count, 2);
    assert_eq!(traffic.lines[&LineAddr::of(0x1000)], traffic.run);
}

#[test]
fn a_long_run_keeps_its_number_of_buckets() {
    let plan = TrafficPlan::default();
    let mut collector = TrafficCollector::new(&plan);
    let times = (0..10_000).map(|step| step * 1_000);
    for time in times {
        collector.add(
            &access(0, AccessOp::Load, 0x40, time),
            &outcome(DataSource::LocalHitm, 1),
        );
    }
    let traffic = TrafficCollector::finish([collector]);
    // 9,999,000 cycles in buckets of 65,536.
    assert_eq!(traffic.bucket, Cycles(65_536));
    assert_eq!(traffic.other_lines.len(), 153);
    assert_eq!(traffic.other_lines.iter().sum::<u64>(), 10_000);
    assert!(
        traffic.other_lines[..152]
            .iter()
            .all(|lost| (65..=66).contains(lost))
    );
}

/// From recordings that lie.
#[test]
fn the_last_moment_and_the_largest_loss_have_a_bucket() {
    let plan = TrafficPlan::default();
    let mut collector = TrafficCollector::new(&plan);
    for _ in 0..2 {
        let last = access(u16::MAX, AccessOp::Store, u64::MAX, u64::MAX);
        collector.add(&last, &outcome(DataSource::RemoteHitm, u64::MAX));
    }
    let traffic = TrafficCollector::finish([collector]);
    assert_eq!(traffic.other_lines.last(), Some(&u64::MAX));
    assert_eq!(traffic.run.unknown.count, 2);
}

prop_compose! {
    fn counted()(
        addr in 0u64..6 * 64,
        cpu in 0u16..4,
        op in prop::sample::select(vec![AccessOp::Load, AccessOp::Store, AccessOp::LockedRmw, AccessOp::Fence]),
        source in prop::sample::select(DataSource::ALL.to_vec()),
        stall in 0u64..500,
        time in 0u64..1 << 22,
    ) -> (Access, Outcome) {
        let access = Access { size: 1, ..access(cpu, op, addr, time) };
        (access, outcome(source, stall))
    }
}

proptest! {
    /// Whatever the plan: hand-overs and lost cycles are those of the rows.
    #[test]
    fn nothing_is_lost_beside_the_plan(
        accesses in prop::collection::vec(counted(), 0..200),
        planned in 0u64..64,
        every in 1usize..4,
        shards in 1u64..4,
    ) {
        let mut all = Collector::default();
        accesses.iter().for_each(|(access, outcome)| all.add(access, outcome));
        let all = all.finish();
        let rows = all.lines.iter().flat_map(|(line, stats)| stats.rows.keys().map(|key| (*line, *key)));
        let lines = (0..6).filter(|line| planned >> line & 1 == 1).map(LineAddr);
        let plan = TrafficPlan::new(lines, rows.step_by(every));
        let mut collectors: Vec<TrafficCollector<'_>> = (0..shards).map(|_| TrafficCollector::new(&plan)).collect();
        for (access, outcome) in &accesses {
            collectors[(access.line().0 % shards) as usize].add(access, outcome);
        }
        let traffic = TrafficCollector::finish(collectors);
        let lost: u64 = all.lines.values().map(|stats| stats.contention_stall.0).sum();
        let given = |giving: &Giving| {
            let all = giving.pairs.values().chain([&giving.unknown]);
            all.fold(Transfers::default(), |mut sum, one| { sum.merge(one); sum })
        };
        let sum = |series: &[u64]| series.iter().sum::<u64>();
        let of_lines: u64 = traffic.other_rows.values().chain(traffic.rows.values()).map(|series| sum(series)).sum();
        prop_assert_eq!(given(&traffic.run).lost.0, lost);
        prop_assert_eq!(of_lines + sum(&traffic.other_lines), lost);
        for (line, giving) in &traffic.lines {
            let stats = &all.lines[line];
            let contended = stats.loads.contended() + stats.stores.contended() + stats.rmws.contended();
            prop_assert_eq!(given(giving).count, contended);
            prop_assert_eq!(given(giving).hitm_count, stats.hitm());
        }
        for ((line, key), series) in &traffic.rows {
            prop_assert_eq!(sum(series), all.lines[line].rows[key].contention_stall.0);
        }
    }
}

#[test]
fn pairs_have_the_last_instruction_of_the_giver() {
    let (planned, other) = (LineAddr::of(0x1000), LineAddr::of(0x2000));
    let plan = TrafficPlan::new([planned], []).with_pairs();
    let mut collector = TrafficCollector::new(&plan);
    let mut add = |cpu, code, line: LineAddr, source| {
        let store = Access {
            code: CodeAddr(code),
            ..access(cpu, AccessOp::Store, line.first_byte(), 0)
        };
        collector.add(&store, &outcome(source, 10));
    };
    for line in [planned, other] {
        add(0, 0xa, line, DataSource::RemoteDram);
        add(0, 0xb, line, DataSource::L1);
        add(1, 0xc, line, DataSource::RemoteHitm);
        add(0, 0xb, line, DataSource::RemoteHitm);
    }
    let traffic = TrafficCollector::finish([collector]);
    let pairs = traffic.pairs.iter();
    let pairs: Vec<(Option<LineAddr>, u64, u64, u64)> = pairs
        .map(|(pair, sum)| {
            let giver = pair.giver.expect("the giver is known").0;
            (pair.line, giver, pair.taker.0, sum.count)
        })
        .collect();
    let expected = [
        (None, 0xb, 0xc, 1),
        (None, 0xc, 0xb, 1),
        (Some(planned), 0xb, 0xc, 1),
        (Some(planned), 0xc, 0xb, 1),
    ];
    assert_eq!(pairs, expected);
}
