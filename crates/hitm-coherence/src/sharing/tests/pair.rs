//! Lines that one thread uses, beside lines that others fetch.

use super::*;
use crate::stats::LineStats;

/// Statistics of a line that threads use so often, each access from the same source.
fn line(uses: &[(u32, AccessOp, DataSource, usize)]) -> LineStats {
    let mut collector = Collector::default();
    for (thread, op, source, count) in uses {
        let access = Access {
            thread: ThreadId(*thread),
            cpu: CpuId(*thread as u16),
            time: Cycles::ZERO,
            addr: LINE + 8,
            size: 8,
            op: *op,
            code: CodeAddr(0x10),
        };
        let outcome = Outcome::by_source(*source, Cycles(300), Cycles::ZERO, Cycles(300));
        (0..*count).for_each(|_| collector.add(&access, &outcome));
    }
    let statistics = collector.finish();
    statistics.lines.into_values().next().expect("one line")
}

fn judge_beside(own: &LineStats, other: Option<&LineStats>, are_samples: bool) -> Sharing {
    let known = Known {
        other_of_pair: other,
        are_samples,
        ..Known::default()
    };
    judge(own, &known)
}

#[test]
fn a_writer_alone_shares_a_pair_with_who_fetches_the_other_line() {
    let upgraded = (0, Store, DataSource::LocalUpgrade, 100);
    let own = line(&[upgraded]);
    let fetched = line(&[(1, Load, DataSource::LocalHitm, 40)]);
    let sharing = judge_beside(&own, Some(&fetched), false);
    assert_eq!(sharing.verdict, Verdict::PairSharing);
    assert_eq!(sharing.written, 0xff00);
    let fight = Fight {
        kind: FightKind::PairSharing,
        bytes: 0xff00,
        contended_count: 100,
        lost_cycles: own.contention_stall.0,
    };
    assert_eq!(sharing.fights, [fight]);
    assert!(fight.lost_cycles > 0 && sharing.layout_cycles() == fight.lost_cycles);
}

#[test]
fn no_pair_is_shared_without_a_reason() {
    let own = line(&[(0, Store, DataSource::LocalUpgrade, 100)]);
    let fetched = line(&[(1, Load, DataSource::LocalHitm, 40)]);
    let verdict =
        |other: Option<&LineStats>, are_samples| judge_beside(&own, other, are_samples).verdict;
    // The machine fetches no pairs, or the rows are samples.
    assert_eq!(verdict(None, false), Verdict::NoContention);
    assert_eq!(verdict(Some(&fetched), true), Verdict::NoContention);
    // The other line is fetched too rarely, or by the same thread.
    let rarely = line(&[
        (1, Load, DataSource::LocalHitm, 31),
        (2, Load, DataSource::L1, 900),
    ]);
    assert_eq!(verdict(Some(&rarely), false), Verdict::NoContention);
    let by_itself = line(&[(0, Load, DataSource::LocalHitm, 40)]);
    assert_eq!(verdict(Some(&by_itself), false), Verdict::NoContention);
    // Two threads that fight over the line itself need no pair.
    let hitm = |thread| (thread, Store, DataSource::LocalHitm, 100);
    let fought = line(&[hitm(0), hitm(1)]);
    let sharing = judge_beside(&fought, Some(&fetched), false);
    assert!(
        sharing
            .fights
            .iter()
            .all(|fight| fight.kind != FightKind::PairSharing)
    );
}
