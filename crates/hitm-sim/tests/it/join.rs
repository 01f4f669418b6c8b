//! Independent loads, overlapped.

use hitm_base::{Cycles, Distance};
use hitm_coherence::directory::Capacity;
use hitm_sim::engine::{Place, RunTotals};
use proptest::prelude::*;

use crate::toy::{Log, TEST, Toy, icelake};

#[test]
fn independent_loads_overlap() {
    let remote = icelake().transfers[Distance::Remote.index()].dirty.0;
    let end = |joined: bool| {
        let mut toy = Toy::new(icelake());
        let lines: Vec<_> = (0..8).map(|line| toy.word(line * 64)).collect();
        let writes = lines.clone();
        toy.task(32, |engine| async move {
            for line in writes {
                engine.fetch_add(TEST, line, 5).await;
            }
        });
        let log = Log::default();
        let seen = log.clone();
        toy.task(0, move |engine| async move {
            engine.work(TEST, Cycles(100_000));
            let mut sum = 0;
            if joined {
                engine.load_all(TEST, &lines, |_, value| sum += value).await;
            } else {
                for line in lines {
                    sum += engine.load(TEST, line).await;
                }
            }
            seen.add(&engine, sum.to_string());
        });
        toy.run().unwrap();
        let (at, sum) = log.take().remove(0);
        assert_eq!(sum, "40");
        at - 100_000
    };
    assert_eq!(end(false), 8 * remote);
    assert!((remote..remote + 16).contains(&end(true)), "{}", end(true));
}

#[test]
fn more_loads_than_fill_buffers_take_turns() {
    let mut machine = icelake();
    machine.core.fill_buffers = 2;
    let remote = machine.transfers[Distance::Remote.index()].dirty.0;
    let mut toy = Toy::new(machine);
    let lines: Vec<_> = (0..8).map(|line| toy.word(line * 64)).collect();
    let writes = lines.clone();
    toy.task(32, |engine| async move {
        for line in writes {
            engine.fetch_add(TEST, line, 1).await;
        }
    });
    let log = Log::default();
    let seen = log.clone();
    toy.task(0, |engine| async move {
        engine.work(TEST, Cycles(100_000));
        engine.load_all(TEST, &lines, |_, _| {}).await;
        seen.add(&engine, "done");
    });
    toy.run().unwrap();
    let took = log.take()[0].0 - 100_000;
    assert!((4 * remote..4 * remote + 16).contains(&took), "{took}");
}

/// A round of a CPU: it stores to these words, waits so long, and loads so many from the first of
/// these on. One of them is left out if there is one of that number.
type Round = (Vec<usize>, u64, (usize, usize), Option<usize>);

/// Runs the rounds of some CPUs, which share words, two in each line.
fn run(
    programs: &[Vec<Round>],
    fill_buffers: u16,
    capacity: Capacity,
) -> (RunTotals, Vec<(u64, String)>) {
    const WORDS: u64 = 24;
    let mut machine = icelake();
    machine.core.fill_buffers = fill_buffers;
    let mut toy = Toy::of(&Toy::config(machine, capacity));
    let words: Vec<Place> = (0..WORDS).map(|word| toy.word(word * 32)).collect();
    let log = Log::default();
    for (index, rounds) in programs.iter().enumerate() {
        let (words, rounds, log) = (words.clone(), rounds.clone(), log.clone());
        // CPUs 0 and 1 share a core, CPU 42 is in the other package.
        let cpu = [0, 1, 7, 42][index];
        toy.task(cpu, |engine| async move {
            for (stores, work, (from, count), skipped) in rounds {
                for word in stores {
                    let value = engine.now().0 + u64::from(cpu);
                    engine.store(TEST, words[word], value).await;
                }
                engine.work(TEST, Cycles(work));
                let places = &words[from..][..count.min(words.len() - from)];
                let mut sum = 0u64;
                let add = |index: usize, value: u64| sum = sum.rotate_left(index as u32) ^ value;
                match skipped.filter(|skipped| *skipped < places.len()) {
                    Some(skipped) => engine.load_others(TEST, places, skipped, add).await,
                    None => engine.load_all(TEST, places, add).await,
                }
                log.add(&engine, format!("{cpu} {sum:x}"));
            }
        });
    }
    let totals = toy.run().unwrap();
    (totals, log.take())
}

proptest! {
    /// If everything fits the caches, their size makes no difference. Without it, hits are priced
    /// and counted many at a time; with it, one after the other.
    #[test]
    fn loads_together_are_what_they_are_one_by_one(
        programs in prop::collection::vec(
            prop::collection::vec(
                (
                    prop::collection::vec(0usize..24, 0..4),
                    0u64..600,
                    (0usize..24, 1usize..24),
                    prop::option::of(0usize..24),
                ),
                1..8,
            ),
            1..5,
        ),
        fill_buffers in 1u16..12,
    ) {
        let (one_by_one, seen) = run(&programs, fill_buffers, Capacity::Finite);
        let (together, seen_together) = run(&programs, fill_buffers, Capacity::Infinite);
        prop_assert_eq!(seen_together, seen);
        prop_assert_eq!(together.event_hash, one_by_one.event_hash);
        prop_assert_eq!(
            (together.accesses, together.events),
            (one_by_one.accesses, one_by_one.events)
        );
        let rows = |totals: &RunTotals| -> Vec<String> {
            let rows = totals.profile.rows();
            rows.iter().map(|row| format!("{row:?}")).collect()
        };
        prop_assert_eq!(rows(&together), rows(&one_by_one));
    }
}
