//! Patterns with the fights that each must get, to the access.

use super::*;

/// Judges steps with these bytes known as lock objects.
fn judge_knowing(steps: Vec<Step>, lock_objects: &[u64]) -> Sharing {
    let statistics = run(steps);
    let line = statistics.lines.values().next();
    let known = Known {
        lock_objects,
        ..Known::default()
    };
    judge(line.expect("a line was touched"), &known)
}

/// (kind, bytes, contended accesses) of the fights.
fn fights_of(sharing: &Sharing) -> Vec<(FightKind, u64, u64)> {
    let fights = sharing.fights.iter();
    fights
        .map(|fight| (fight.kind, fight.bytes, fight.contended_count))
        .collect()
}

use FightKind::{FalseSharing, Lock, ReadMostlyWithHotWriter, TrueSharing};

/// A mutex as glibc's: lock at 0, owner at 8, users at 12, kind at 16.
fn mutex_section(thread: u32) -> Vec<Step> {
    vec![
        (thread, 16, Load, 0x100),
        (thread, 0, LockedRmw, 0x104),
        (thread, 8, Store, 0x108),
        (thread, 12, Load, 0x10c),
        (thread, 12, Store, 0x110),
        (thread, 16, Load, 0x120),
        (thread, 8, Store, 0x124),
        (thread, 12, Load, 0x128),
        (thread, 12, Store, 0x12c),
        (thread, 0, LockedRmw, 0x130),
    ]
}

#[test]
fn a_mutex_in_the_line_does_not_hide_false_sharing() {
    // Each thread counts at an offset of its own, and takes the mutex once in 16 turns, before it counts.
    let mut steps = Vec::new();
    for turn in 0..64 {
        for thread in 0..4 {
            if (turn + thread) % 16 == 0 {
                steps.extend(mutex_section(thread));
            }
            steps.extend(increment(thread, 40 + 4 * thread as u8));
        }
    }
    let sharing = check(rounds(4, &steps), Verdict::FalseSharing);
    let of = |kind| {
        let fights = sharing.fights.iter();
        let fights = fights.filter(|fight| fight.kind == kind);
        fights.fold((0, 0), |(bytes, count), fight| {
            (bytes | fight.bytes, count + fight.contended_count)
        })
    };
    let counters = 0x00ff_ff00_0000_0000;
    let (false_bytes, false_count) = of(FalseSharing);
    assert_eq!(false_bytes & counters, counters);
    // Of a section the first read and the first write find the line gone; then the counter hits. A thread that
    // takes the mutex again, with nobody in between, loses it through the line only.
    let (lock_bytes, lock_count) = of(Lock);
    assert_eq!((lock_bytes, lock_count), (0x000f_000f, 91));
    assert_eq!(of(TrueSharing), (0, 0));
    // Who used the line before its first visits, nobody looked.
    assert!(
        sharing.contended_count - false_count - lock_count <= 12,
        "{sharing:?}"
    );
    assert_eq!(sharing.main_kinds(), [FalseSharing]);
}

#[test]
fn the_parts_of_a_known_lock_object_are_one_place() {
    // A condition variable's words: waiters use 0 and 8, signallers 16 and 24, both 32.
    let steps = [
        (0, 0, LockedRmw, 0x10),
        (0, 8, Load, 0x14),
        (1, 16, Store, 0x20),
        (1, 24, Store, 0x24),
        (0, 32, LockedRmw, 0x18),
        (1, 32, Load, 0x28),
    ];
    let steps = rounds(100, &steps);
    let unknown = judge_knowing(steps.clone(), &[]);
    assert_eq!(unknown.verdict, Verdict::Mixed, "{unknown:?}");
    let known = judge_knowing(steps, &[0x0000_ffff_ffff_ffff]);
    assert_eq!(known.verdict, Verdict::Lock);
    assert_eq!((known.disjoint_permille, known.layout_cycles()), (0, 0));
    assert_eq!(known.fights.len(), 1);
}

/// A spin lock at `base` that a thread takes and gives back, with a store to the data beside it between.
fn spin_section(thread: u32, base: u8) -> [Step; 3] {
    [
        (thread, base, LockedRmw, 0x10),
        (thread, base + 4, Store, 0x14),
        (thread, base, Store, 0x18),
    ]
}

#[test]
fn neighbouring_locks_are_worth_a_line_each_where_they_part_a_section() {
    // Threads 0 and 2 share a lock, 1 and 3 another one. Taken in turn, each section finds its lock gone, wherever
    // it lies.
    let base = |thread: u32| if thread.is_multiple_of(2) { 0 } else { 32 };
    let in_turn: Vec<Step> = (0..4).flat_map(|t| spin_section(t, base(t))).collect();
    let sharing = check(rounds(100, &in_turn), Verdict::Lock);
    assert_eq!(sharing.disjoint_permille, 0);
    // With sections at a time, stores within one find the line gone as well, and nobody has used their lock.
    let at_a_time: Vec<Step> = [0, 2]
        .into_iter()
        .flat_map(|t| {
            let both = spin_section(t, base(t))
                .into_iter()
                .zip(spin_section(t + 1, base(t + 1)));
            both.flat_map(|(a, b)| [a, b])
        })
        .collect();
    let sharing = check(rounds(100, &at_a_time), Verdict::Mixed);
    let kinds: Vec<FightKind> = sharing.fights.iter().map(|fight| fight.kind).collect();
    assert_eq!(kinds, [FalseSharing, Lock, Lock]);
    assert!(
        (660..=670).contains(&sharing.disjoint_permille),
        "{sharing:?}"
    );
}

#[test]
fn a_lock_for_each_thread_is_false_sharing() {
    // A mutex is known by its type; each thread takes its own.
    let mut steps = Vec::new();
    for thread in 0..4 {
        let base = 16 * thread as u8;
        steps.extend([
            (thread, base, LockedRmw, 0x10),
            (thread, base, LockedRmw, 0x14),
        ]);
    }
    let locks = [0, 1, 2, 3].map(|lock| 0xffff_u64 << (16 * lock));
    let sharing = judge_knowing(rounds(100, &steps), &locks);
    assert_eq!(sharing.verdict, Verdict::FalseSharing, "{sharing:?}");
}

#[test]
fn a_sequence_lock_is_shared_truly() {
    let mut steps = vec![
        (0, 0, Load, 0x10),
        (0, 0, Store, 0x14),
        (0, 8, Store, 0x18),
        (0, 16, Store, 0x1c),
        (0, 0, Store, 0x20),
    ];
    for reader in 1..4 {
        let reads = [(0, 0x30), (8, 0x34), (16, 0x38), (0, 0x3c)];
        steps.extend(reads.map(|(at, code)| (reader, at, Load, code)));
    }
    let sharing = check(rounds(100, &steps), Verdict::TrueSharing);
    assert_eq!(sharing.disjoint_permille, 0);
    assert_eq!((sharing.lock_word, sharing.layout_cycles()), (0, 0));
}

#[test]
fn a_reference_count_among_members_that_are_read() {
    let mut steps = Vec::new();
    for turn in 0..64 {
        for thread in 0..4 {
            if turn % 16 == thread * 4 {
                steps.push((thread, 0, LockedRmw, 0x10));
            }
            steps.extend([(thread, 8, Load, 0x20), (thread, 16, Load, 0x24)]);
        }
    }
    let sharing = check(rounds(40, &steps), Verdict::Mixed);
    assert_eq!(sharing.read_mostly, 0x000f_0f00);
    let [readers, counter] = fights_of(&sharing)[..] else {
        panic!("two fights: {sharing:?}");
    };
    // Each of 16 x 40 increments takes the line from its readers, who look at offset 8 first. Only
    // the first of them counts, as the next finds a clean copy.
    assert_eq!((readers.0, readers.1), (ReadMostlyWithHotWriter, 0x0f00));
    assert!(readers.2.abs_diff(16 * 40) <= 2, "{readers:?}");
    assert_eq!((counter.0, counter.1), (TrueSharing, 0xf));
    assert!(counter.2.abs_diff(16 * 40) <= 2, "{counter:?}");
}

#[test]
fn indices_of_two_sides_in_one_line() {
    let side = |thread, own, other, code| {
        [
            (thread, own, Load, code),
            (thread, other, Load, code + 4),
            (thread, own, Store, code + 8),
        ]
    };
    let polled = rounds(100, &[side(0, 0, 8, 0x10), side(1, 8, 0, 0x20)].concat());
    // The first read of a turn is of the own index, which the other side only reads. But it would be the other's
    // index that is gone, and the right to write the own one, if each had a line of its own.
    let sharing = check(polled.clone(), Verdict::TrueSharing);
    assert!(sharing.disjoint_permille <= 3);
    // With copies of the other side's index, hardly ever refreshed, all of it is false.
    let copied = polled.into_iter().filter(|(_, _, _, code)| code % 16 != 4);
    check(copied.collect::<Vec<_>>(), Verdict::FalseSharing);
}

#[test]
fn a_place_written_once_in_ten_reads_is_read_mostly_and_in_nine_is_not() {
    let program = |reads: usize| {
        let mut steps = vec![(1, 0, Store, 0x30)];
        for _ in 0..reads {
            steps.extend([(1, 0, Load, 0x10), (0, 8, Store, 0x20)]);
        }
        rounds(50, &steps)
    };
    check(program(10), Verdict::ReadMostlyWithHotWriter);
    check(program(9), Verdict::FalseSharing);
}

#[test]
fn an_array_of_tasks_that_move_between_threads_is_shared_falsely() {
    // Each counter has two writers over the run, but never two at a time.
    let mut steps = Vec::new();
    for task in 0..8 {
        for _ in 0..100 {
            steps.extend(increment(0, 8 * task));
            steps.extend(increment(1, (32 + 8 * task) % 64));
        }
    }
    let sharing = check(steps, Verdict::FalseSharing);
    let shared = fights_of(&sharing)[0];
    assert_eq!((shared.0, shared.1), (FalseSharing, 0x0f0f_0f0f_0f0f_0f0f));
    // They meet when a counter changes its writer.
    assert!(
        (990..1000).contains(&sharing.disjoint_permille),
        "{sharing:?}"
    );
}

#[test]
fn a_loop_over_the_words_of_a_record_is_one_visit() {
    // One instruction of the writer fills eight words, one of the reader reads them.
    let words = (0..8).map(|word| 8 * word);
    let mut steps: Vec<Step> = words.clone().map(|at| (0, at, Store, 0x10)).collect();
    steps.extend(words.map(|at| (1, at, Load, 0x20)));
    let sharing = check(rounds(100, &steps), Verdict::TrueSharing);
    assert_eq!(sharing.disjoint_permille, 0);
}

#[test]
fn data_at_a_pace_of_its_own_is_not_the_locks() {
    let mut steps: Vec<Step> = (0..4).flat_map(|t| critical_section(t, 4, &[8])).collect();
    for thread in 0..4 {
        for _ in 0..8 {
            steps.extend([(thread, 24, Load, 0x90), (thread, 24, Store, 0x94)]);
        }
    }
    let sharing = judge_steps(rounds(50, &steps));
    assert_eq!((sharing.lock_word, sharing.guarded), (0xf, 0xf00));
}

#[test]
fn what_is_small_is_not_counted() {
    let mut steps = rounds(95, &[(0, 0, LockedRmw, 0x10), (1, 0, LockedRmw, 0x10)]);
    steps.extend(rounds(5, &[(0, 8, Store, 0x20), (1, 16, Store, 0x24)]));
    let sharing = judge_steps(steps);
    // Of the first visits to the two members nobody knows who had used them before.
    assert!((8 * 300..=10 * 300).contains(&sharing.layout_cycles()));
    assert!(!sharing.has_layout_fight(), "{sharing:?}");
    assert_eq!(sharing.main_kinds(), [TrueSharing]);
}

proptest! {
    #[test]
    fn fights_are_no_more_than_what_was_lost(steps in any_program()) {
        for line in run(steps).lines.values() {
            let sharing = judge(line, &Known::default());
            let contended: u64 = sharing.fights.iter().map(|fight| fight.contended_count).sum();
            let costs: Vec<u64> = sharing.fights.iter().map(|fight| fight.lost_cycles).collect();
            let lost: u64 = costs.iter().sum();
            prop_assert!(contended <= sharing.contended_count);
            prop_assert!(sharing.layout_cycles() <= lost && lost <= line.contention_stall.0);
            prop_assert!(costs.is_sorted_by(|a, b| a >= b));
        }
    }

    #[test]
    fn a_place_with_a_line_of_its_own_has_no_false_sharing(
        steps in any_program(),
        word in 0..16_u8,
    ) {
        let alone = steps.into_iter().filter(|(_, offset, _, _)| *offset == 4 * word);
        for line in run(alone.collect::<Vec<_>>()).lines.values() {
            let sharing = judge(line, &Known::default());
            prop_assert!(sharing.fights.iter().all(|fight| !fight.kind.is_curable_by_layout()));
        }
    }

    #[test]
    fn threads_with_places_of_their_own_share_falsely_or_not_at_all(steps in any_program()) {
        let own = steps.into_iter().map(|(thread, _, op, code)| {
            (thread, thread as u8 * 8, op, 16 * u64::from(thread) + code)
        });
        for line in run(own.collect::<Vec<_>>()).lines.values() {
            let sharing = judge(line, &Known::default());
            prop_assert!(sharing.fights.iter().all(|fight| fight.kind.is_curable_by_layout()));
        }
    }

    #[test]
    fn a_line_that_is_one_lock_object_has_one_fight(steps in any_program()) {
        let sharing = judge_knowing(steps, &[u64::MAX]);
        let kinds: Vec<FightKind> = sharing.fights.iter().map(|fight| fight.kind).collect();
        prop_assert!(kinds.is_empty() || kinds == [Lock], "{kinds:?}");
    }
}
