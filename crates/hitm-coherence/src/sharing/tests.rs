//! Small programs on a toy directory: one line, who owns it, who has a copy. The toy says which
//! accesses were contended; real prices do not matter to a verdict.

use std::collections::BTreeSet;

use hitm_base::{Access, AccessOp, CodeAddr, CpuId, Cycles, DataSource, Outcome, ThreadId};
use proptest::prelude::*;

mod fights;
mod pair;

use super::*;
use crate::stats::{Collector, Statistics};

const LINE: u64 = 0x4000;

/// One step of a small program: (thread, byte offset, operation, instruction).
type Step = (u32, u8, AccessOp, u64);

use hitm_base::AccessOp::{Load, LockedRmw, Store};

/// Owner and copies of the one line.
#[derive(Default)]
struct Toy {
    owner: Option<u32>,
    copies: BTreeSet<u32>,
}

impl Toy {
    fn access(&mut self, thread: u32, op: AccessOp) -> DataSource {
        let mine = self.owner == Some(thread);
        if op.is_write() {
            let source = match self.owner {
                _ if mine => DataSource::L1,
                Some(_) => DataSource::RemoteHitm,
                None if self.copies.iter().any(|copy| *copy != thread) => DataSource::RemoteUpgrade,
                None => DataSource::L1,
            };
            self.owner = Some(thread);
            self.copies.clear();
            source
        } else if mine || self.copies.contains(&thread) {
            DataSource::L1
        } else {
            let source = if self.owner.is_some() {
                DataSource::RemoteHitm
            } else {
                DataSource::LocalDram
            };
            self.copies.extend(self.owner.take());
            self.copies.insert(thread);
            source
        }
    }
}

fn run(steps: impl IntoIterator<Item = Step>) -> Statistics {
    run_seen_as(steps, |_, source| source)
}

/// The same, with sources as they are seen.
fn run_seen_as(
    steps: impl IntoIterator<Item = Step>,
    seen: impl Fn(AccessOp, DataSource) -> DataSource,
) -> Statistics {
    let mut toy = Toy::default();
    let mut collector = Collector::default();
    for (thread, offset, op, code) in steps {
        let source = seen(op, toy.access(thread, op));
        let latency = Cycles(if source.is_contention() { 300 } else { 4 });
        let access = Access {
            thread: ThreadId(thread),
            cpu: CpuId(thread as u16),
            time: Cycles::ZERO,
            addr: LINE + u64::from(offset),
            size: 4,
            op,
            code: CodeAddr(code),
        };
        collector.add(
            &access,
            &Outcome::by_source(source, latency, Cycles::ZERO, latency),
        );
    }
    collector.finish()
}

fn judge_steps(steps: impl IntoIterator<Item = Step>) -> Sharing {
    let statistics = run(steps);
    judge(
        statistics
            .lines
            .values()
            .next()
            .expect("one line was touched"),
        &Known::default(),
    )
}

/// `rounds` times the steps of every thread, threads in turn.
fn rounds(rounds: usize, steps: &[Step]) -> Vec<Step> {
    steps
        .iter()
        .copied()
        .cycle()
        .take(rounds * steps.len())
        .collect()
}

fn check(steps: impl IntoIterator<Item = Step>, verdict: Verdict) -> Sharing {
    let sharing = judge_steps(steps);
    assert_eq!(sharing.verdict, verdict, "{sharing:?}");
    sharing
}

/// `++member` of a plain integer.
fn increment(thread: u32, offset: u8) -> [Step; 2] {
    [(thread, offset, Load, 0x10), (thread, offset, Store, 0x14)]
}

#[test]
fn a_reader_and_three_writers_of_different_members_share_falsely() {
    let mut steps = vec![(0, 4, Load, 0x10)];
    for (thread, offset) in [(1, 0), (2, 8), (3, 12)] {
        steps.extend(increment(thread, offset));
    }
    let sharing = check(rounds(100, &steps), Verdict::FalseSharing);
    assert_eq!(sharing.disjoint_permille, 1000);
    assert_eq!(sharing.written, 0xff0f);
    assert_eq!(sharing.read_mostly, 0x00f0);
}

#[test]
fn an_initialiser_does_not_turn_false_sharing_into_mixed() {
    let mut steps: Vec<Step> = (0..64)
        .step_by(4)
        .map(|offset| (9, offset, Store, 0x1))
        .collect();
    for thread in 0..4 {
        steps.push((thread, 60, Load, 0x2)); // A parameter, read once by each worker.
    }
    let counters: Vec<Step> = (0..4).flat_map(|t| increment(t, 4 * t as u8)).collect();
    steps.extend(rounds(200, &counters));
    for thread in 0..4 {
        steps.push((9, 4 * thread, Load, 0x3)); // The results are collected.
    }
    let sharing = check(steps, Verdict::FalseSharing);
    assert_eq!(sharing.written, 0xffff);
    assert_eq!(sharing.read_mostly, 0);
}

#[test]
fn counters_of_sixteen_threads_in_one_line_share_falsely() {
    let counters: Vec<Step> = (0..16).flat_map(|t| increment(t, 4 * t as u8)).collect();
    check(rounds(50, &counters), Verdict::FalseSharing);
}

#[test]
fn an_atomic_counter_is_shared_truly() {
    let steps: Vec<Step> = (0..8).map(|t| (t, 16, LockedRmw, 0x10)).collect();
    let sharing = check(rounds(50, &steps), Verdict::TrueSharing);
    assert_eq!(sharing.disjoint_permille, 0);
    assert_eq!(sharing.lock_word, 0);
}

#[test]
fn a_compare_and_swap_loop_is_no_lock() {
    let steps: Vec<Step> = (0..4)
        .flat_map(|t| [(t, 0, Load, 0x10), (t, 0, LockedRmw, 0x18)])
        .collect();
    check(rounds(50, &steps), Verdict::TrueSharing);
}

#[test]
fn one_producer_and_one_consumer_share_truly() {
    let steps = [(0, 0, Store, 0x10), (1, 0, Load, 0x20)];
    check(rounds(100, &steps), Verdict::TrueSharing);
}

/// One critical section by `thread`, during which the others spin. The lock word is at offset 0, what
/// it guards at `data`.
fn critical_section(thread: u32, threads: u32, data: &[u8]) -> Vec<Step> {
    let mut steps = vec![(thread, 0, LockedRmw, 0x10)];
    let others = (0..threads).filter(|other| *other != thread);
    steps.extend(others.flat_map(|other| [(other, 0, Load, 0x20); 3]));
    for offset in data {
        steps.extend([
            (thread, *offset, Load, 0x30),
            (thread, *offset, Store, 0x34),
        ]);
    }
    steps.push((thread, 0, Store, 0x40));
    steps
}

#[test]
fn a_spin_lock_beside_its_data_is_a_lock() {
    let steps: Vec<Step> = (0..4)
        .flat_map(|t| critical_section(t, 4, &[8, 16]))
        .collect();
    let sharing = check(rounds(50, &steps), Verdict::Lock);
    assert_eq!(sharing.lock_word, 0xf);
    assert_eq!(sharing.guarded, 0xf0f00);
}

#[test]
fn a_spin_lock_alone_guards_nothing_in_its_line() {
    let steps: Vec<Step> = (0..4).flat_map(|t| critical_section(t, 4, &[])).collect();
    let sharing = check(rounds(50, &steps), Verdict::Lock);
    assert_eq!(sharing.guarded, 0);
}

#[test]
fn a_mutex_that_is_entered_by_reading_its_kind_is_a_lock() {
    // Kind at 16 (never written), lock at 0, owner at 8; release by a locked operation.
    let steps: Vec<Step> = (0..4)
        .flat_map(|t| {
            [
                (t, 16, Load, 0x10),
                (t, 0, LockedRmw, 0x14),
                (t, 8, Store, 0x18),
                (t, 8, Store, 0x20),
                (t, 0, LockedRmw, 0x24),
            ]
        })
        .collect();
    let sharing = check(rounds(50, &steps), Verdict::Lock);
    assert_eq!(sharing.guarded, 0xf00);
}

#[test]
fn a_lock_that_is_only_spun_on_and_released_by_exchange_is_a_lock() {
    let steps: Vec<Step> = (0..4)
        .flat_map(|t| {
            let mut steps = vec![(t, 0, LockedRmw, 0x10)];
            steps.extend(
                (0..4)
                    .filter(|o| *o != t)
                    .flat_map(|o| [(o, 0, Load, 0x20); 2]),
            );
            steps.push((t, 0, LockedRmw, 0x30));
            steps
        })
        .collect();
    check(rounds(50, &steps), Verdict::Lock);
}

#[test]
fn readers_of_a_flag_beside_a_hot_counter() {
    let mut steps = Vec::new();
    for reader in 1..4 {
        steps.push((reader, 0, Load, 0x10));
    }
    steps.extend(increment(0, 4));
    let sharing = check(rounds(100, &steps), Verdict::ReadMostlyWithHotWriter);
    assert_eq!((sharing.read_mostly, sharing.written), (0xf, 0xf0));
}

#[test]
fn a_flag_that_is_written_once_is_still_read_mostly() {
    let mut steps = vec![(7, 0, Store, 0x1)];
    for _ in 0..300 {
        steps.extend([(1, 0, Load, 0x10), (2, 0, Load, 0x10)]);
        steps.extend(increment(0, 4));
    }
    steps.push((0, 0, Store, 0x2));
    check(steps, Verdict::ReadMostlyWithHotWriter);
}

#[test]
fn threads_that_read_a_flag_and_then_bump_one_atomic_counter() {
    let steps: Vec<Step> = (0..4)
        .flat_map(|t| [(t, 0, Load, 0x10), (t, 8, LockedRmw, 0x14)])
        .collect();
    // Moving the flag away saves half: what is left is the counter. First reads of the flag are not counted.
    let sharing = check(rounds(100, &steps), Verdict::Mixed);
    assert_eq!(sharing.disjoint_permille, 498);
}

#[test]
fn shared_counter_and_private_counters_mix() {
    // Each turn one thread bumps its own counter (two contended accesses: the load and the upgrade
    // for the store) and another one the common counter (one).
    let mut steps = Vec::new();
    for turn in 0..400_u32 {
        let thread = turn % 4;
        steps.extend(increment(thread, 4 * thread as u8));
        steps.push(((thread + 2) % 4, 32, LockedRmw, 0x20));
    }
    let sharing = check(steps, Verdict::Mixed);
    assert_eq!(sharing.disjoint_permille, 665);
}

#[test]
fn padded_members_do_not_contend() {
    let steps: Vec<Step> = increment(1, 0).to_vec();
    check(rounds(1000, &steps), Verdict::NoContention);
}

#[test]
fn read_only_data_and_a_hand_over_do_not_contend() {
    let mut steps: Vec<Step> = vec![(0, 0, Store, 0x10)];
    steps.extend(rounds(
        100,
        &[(1, 0, Load, 0x20), (2, 0, Load, 0x20), (3, 8, Load, 0x24)],
    ));
    check(steps, Verdict::NoContention);
}

#[test]
fn rare_contention_in_a_busy_line_is_not_worth_a_verdict() {
    let mut steps = Vec::new();
    for _ in 0..40 {
        steps.extend(rounds(5000, &increment(0, 0)));
        steps.extend(increment(1, 4));
    }
    check(steps, Verdict::NoContention);
}

#[test]
fn elements_of_48_bytes_share_the_lines_that_they_straddle() {
    // Elements 0 and 1 of an array of 48-byte structs: bytes 0..48 and 48..64 of the first line.
    let mut steps: Vec<Step> = increment(0, 0).to_vec();
    steps.extend(increment(0, 40));
    steps.extend(increment(1, 48));
    check(rounds(100, &steps), Verdict::FalseSharing);
}

#[test]
fn every_verdict_has_its_own_id() {
    let ids: BTreeSet<&str> = Verdict::ALL.iter().map(|verdict| verdict.id()).collect();
    assert_eq!(ids.len(), Verdict::ALL.len());
}

fn any_step() -> impl Strategy<Value = Step> {
    let op = prop_oneof![Just(Load), Just(Store), Just(LockedRmw)];
    (0..6_u32, 0..16_u8, op, 0..4_u64)
        .prop_map(|(thread, word, op, code)| (thread, word * 4, op, code))
}

fn any_program() -> impl Strategy<Value = Vec<Step>> {
    (proptest::collection::vec(any_step(), 1..30), 1..60_usize)
        .prop_map(|(steps, count)| rounds(count, &steps))
}

proptest! {
    #[test]
    fn the_names_of_the_threads_do_not_matter(steps in any_program(), shift in 1..6_u32) {
        let renamed = steps.iter().map(|&(t, offset, op, code)| (100 - (t + shift) % 6, offset, op, code));
        prop_assert_eq!(judge_steps(renamed.collect::<Vec<_>>()), judge_steps(steps));
    }

    #[test]
    fn a_longer_run_of_the_same_program_has_no_other_kind_of_contention(
        steps in proptest::collection::vec(any_step(), 2..20),
    ) {
        // Long enough for the start not to matter, and past the least count on both sides.
        let (short, long) = (judge_steps(rounds(2000, &steps)), judge_steps(rounds(4000, &steps)));
        if short.verdict != Verdict::NoContention && long.verdict != Verdict::NoContention {
            prop_assert!(short.disjoint_permille.abs_diff(long.disjoint_permille) <= 10);
        }
    }

    #[test]
    fn the_masks_agree_with_the_verdict(steps in any_program()) {
        let sharing = judge_steps(steps);
        prop_assert!(sharing.disjoint_permille <= 1000);
        prop_assert_eq!(sharing.lock_word & sharing.guarded, 0);
        match sharing.verdict {
            Verdict::NoContention => {}
            Verdict::Lock => prop_assert!(sharing.lock_word & sharing.written != 0),
            _ => prop_assert!(sharing.written != 0),
        }
    }

    #[test]
    fn one_thread_never_contends(steps in any_program()) {
        let alone = steps.into_iter().map(|(_, offset, op, code)| (3, offset, op, code));
        prop_assert_eq!(judge_steps(alone.collect::<Vec<_>>()).verdict, Verdict::NoContention);
    }
}

/// Judges samples of Intel's machines, which say of stores only that the L1 has the line when they
/// leave.
fn check_samples(steps: impl IntoIterator<Item = Step>, verdict: Verdict) {
    let statistics = run_seen_as(steps, |op, source| match op {
        Store => DataSource::L1,
        _ => source,
    });
    let line = statistics
        .lines
        .values()
        .next()
        .expect("a line was touched");
    let known = Known {
        are_samples: true,
        ..Known::default()
    };
    assert_eq!(judge(line, &known).verdict, verdict);
}

#[test]
fn a_writer_whose_stores_do_not_say_so_is_one_nevertheless() {
    let apart = [(0, 0, Store, 0x10), (1, 8, Load, 0x20), (2, 8, Load, 0x20)];
    check_samples(rounds(100, &apart), Verdict::ReadMostlyWithHotWriter);
    let same = [(0, 8, Store, 0x10), (1, 8, Load, 0x20), (2, 8, Load, 0x20)];
    check_samples(rounds(100, &same), Verdict::TrueSharing);
    let counters = [increment(0, 0), increment(1, 8)].concat();
    check_samples(rounds(100, &counters), Verdict::FalseSharing);
    // A thread that wrote the line once still does not count.
    let mut begun = vec![(9, 0, Store, 0x90)];
    begun.extend(rounds(100, &[(1, 8, Load, 0x20), (2, 8, Load, 0x20)]));
    check_samples(begun, Verdict::NoContention);
}

/// A reader between writers has most of the waiting that samples tell of: that of stores is hidden.
#[test]
fn writers_beside_a_reader_disturb_one_another_whatever_their_stores_waited() {
    let read = [(3, 24, Load, 0x40)];
    let [one, two, three] =
        [(0, 0), (1, 8), (2, 16)].map(|(thread, offset)| increment(thread, offset));
    let steps = [&one[..], &read, &two, &read, &three].concat();
    check_samples(rounds(100, &steps), Verdict::FalseSharing);
}
