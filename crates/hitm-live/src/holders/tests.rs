//! Holders by events that were made up.

use hitm_bpf::{HolderEvent, Moment, Other};

use super::account::Accounts;
use super::{Present, Spun, SpunWord, Write};
use crate::recording::{HolderTimes, LiveHeld};

const PID: u32 = 10;
const WORD: u64 = 0x40;
/// Two threads that fight, and a stranger's.
const A: u32 = 11;
const B: u32 = 12;
const C: u32 = 13;

fn event(at_ns: u64, tid: u32, moment: Moment) -> HolderEvent {
    HolderEvent {
        at_ns,
        moment,
        tid,
        pid: PID,
        virtual_tid: tid,
        minor_fault_ns: 0,
        major_fault_ns: 0,
        word: None,
        owner: None,
        ran_ns: 0,
        other: Other::default(),
    }
}

fn waits(at_ns: u64, tid: u32, owner: u32) -> HolderEvent {
    HolderEvent {
        word: Some(WORD),
        owner: Some(owner),
        ..event(
            at_ns,
            tid,
            Moment::Asleep {
                in_fault: false,
                waits: true,
            },
        )
    }
}

/// A thread gives the lock up and wakes a waiter. The lock has the next owner already, or none.
fn releases(at_ns: u64, tid: u32, woken: u32, owner: u32) -> HolderEvent {
    HolderEvent {
        word: Some(WORD),
        owner: Some(owner),
        other: Other {
            tid: woken,
            pid: PID,
            comm: String::new(),
        },
        ..event(at_ns, tid, Moment::Wakes { releases: true })
    }
}

fn preempted(at_ns: u64, tid: u32, owner: u32) -> HolderEvent {
    HolderEvent {
        word: Some(WORD),
        owner: Some(owner),
        other: Other {
            tid: 99,
            pid: 98,
            comm: "hog".to_owned(),
        },
        ..event(at_ns, tid, Moment::Preempted)
    }
}

fn runs(at_ns: u64, tid: u32) -> HolderEvent {
    event(at_ns, tid, Moment::Runs)
}

fn nobody(_pid: u32, _tid: u32) -> Option<Present> {
    None
}

/// The lock at a word after some events, which begin with both threads' first moments.
fn held(events: &[HolderEvent], end: u64) -> LiveHeld {
    let mut accounts = Accounts::new(nobody);
    for tid in [A, B, C] {
        accounts.take(&runs(1, tid));
    }
    events.iter().for_each(|event| accounts.take(event));
    let seen = accounts.end_window(end);
    let lock = seen.locks.into_iter().find(|lock| lock.lock == WORD);
    lock.expect("somebody waited")
}

#[test]
fn a_holder_that_is_preempted_is_not_one_that_runs() {
    let seen = held(
        &[
            waits(100, B, A),
            preempted(150, A, A),
            runs(250, A),
            releases(300, A, B, 0),
            runs(310, B),
        ],
        400,
    );
    let expected = HolderTimes {
        running_ns: 100,
        preempted_ns: 100,
        waking_ns: 10,
        ..HolderTimes::default()
    };
    assert_eq!(seen.times, expected);
    let takers: Vec<_> = seen.takers.iter().map(|by| (by.pid, by.ns)).collect();
    assert_eq!(takers, [(98, 100)]);
}

/// The woken thread finds the lock taken by the one that released it, which was preempted with it.
#[test]
fn who_takes_the_lock_again_before_the_woken_thread_runs_is_its_holder() {
    let seen = held(
        &[
            waits(100, B, A),
            releases(200, A, B, 0),
            preempted(250, A, A),
            runs(250, B),
            waits(260, B, A),
            runs(400, A),
            releases(450, A, B, 0),
            runs(460, B),
        ],
        500,
    );
    let expected = HolderTimes {
        running_ns: 100 + 50 + 50,
        preempted_ns: 140,
        waking_ns: 10,
        ..HolderTimes::default()
    };
    assert_eq!(seen.times, expected);
}

/// Its way onto the CPU was not seen, but that it ran for 40 ns.
#[test]
fn switches_without_a_tracepoint_are_filled_in() {
    let left = HolderEvent {
        ran_ns: 40,
        ..waits(300, B, A)
    };
    let seen = held(&[waits(100, B, A), releases(200, A, B, 0), left], 310);
    let expected = HolderTimes {
        running_ns: 100 + 60 + 10,
        ..HolderTimes::default()
    };
    assert_eq!(seen.times, expected);
}

/// Of three threads the third one takes the lock before the woken one runs.
#[test]
fn a_third_thread_s_hold_is_its_own() {
    let seen = held(
        &[
            waits(100, B, A),
            releases(200, A, B, C),
            preempted(220, C, C),
            runs(240, B),
            waits(250, B, C),
            runs(300, C),
            releases(310, C, B, 0),
            runs(315, B),
        ],
        400,
    );
    let expected = HolderTimes {
        running_ns: 100 + 20 + 10,
        preempted_ns: 20 + 50,
        waking_ns: 5,
        ..HolderTimes::default()
    };
    assert_eq!(seen.times, expected);
}

#[test]
fn each_waiter_s_time_counts() {
    let seen = held(
        &[
            waits(100, B, A),
            waits(150, C, A),
            event(200, A, Moment::Throttled),
            runs(300, A),
        ],
        400,
    );
    let expected = HolderTimes {
        running_ns: 50 + 100 + 200,
        throttled_ns: 200,
        ..HolderTimes::default()
    };
    assert_eq!(seen.times, expected);
}

#[test]
fn faults_are_those_between_the_looks_at_the_holder() {
    let faulted = |event: HolderEvent, minor_fault_ns| HolderEvent {
        minor_fault_ns,
        ..event
    };
    let seen = held(
        &[
            faulted(waits(50, A, 0), 7000),
            faulted(runs(60, A), 7000),
            waits(60, B, A),
            faulted(releases(160, A, B, 0), 7080),
            runs(161, B),
        ],
        200,
    );
    assert_eq!((seen.times.minor_fault_ns, seen.times.running_ns), (80, 20));
}

#[test]
fn a_holder_that_sleeps_for_another_lock_has_a_chain() {
    let other = HolderEvent {
        word: Some(0x80),
        ..waits(150, A, C)
    };
    let seen = held(
        &[
            waits(100, B, A),
            other,
            HolderEvent {
                word: Some(0x80),
                ..releases(180, C, A, 0)
            },
            runs(200, A),
        ],
        250,
    );
    let expected = HolderTimes {
        running_ns: 50 + 50,
        asleep_ns: 30,
        waking_ns: 20,
        ..HolderTimes::default()
    };
    assert_eq!(seen.times, expected);
    let chain: Vec<_> = seen.chain.iter().map(|next| (next.lock, next.ns)).collect();
    assert_eq!(chain, [(0x80, 30)]);
}

/// A condition's word has any number behind it.
#[test]
fn a_word_without_an_owner_has_no_holder() {
    let seen = held(&[waits(100, B, 77), waits(110, C, 78), runs(200, B)], 210);
    let expected = HolderTimes {
        unknown_ns: 100 + 100,
        ..HolderTimes::default()
    };
    assert_eq!(seen.times, expected);
}

#[test]
fn a_kernel_s_lock_is_handed_over() {
    let begins = |at, tid, owner| {
        let moment = Moment::Begins {
            lock: WORD,
            owner: Some(owner),
            flags: 32,
        };
        event(at, tid, moment)
    };
    let ends = |at, tid| event(at, tid, Moment::Ends { lock: WORD });
    let asleep = |at, tid| {
        let moment = Moment::Asleep {
            in_fault: true,
            waits: false,
        };
        event(at, tid, moment)
    };
    let seen = held(
        &[
            begins(100, B, A),
            asleep(120, A),
            begins(130, C, A),
            runs(160, A),
            ends(180, B),
            ends(200, C),
        ],
        300,
    );
    let expected = HolderTimes {
        running_ns: 20 + 2 * 20 + 20,
        major_fault_ns: 10 + 2 * 30,
        ..HolderTimes::default()
    };
    assert_eq!((seen.pid, seen.times), (0, expected));
}

/// The wait goes on in the second window, with the same holder.
#[test]
fn a_window_has_the_times_since_the_last_one() {
    let mut accounts = Accounts::new(nobody);
    for event in [runs(1, A), runs(1, B), waits(100, B, A)] {
        accounts.take(&event);
    }
    let running = |accounts: &mut Accounts, end| {
        let seen = accounts.end_window(end).locks;
        seen.iter().map(|lock| lock.times.running_ns).sum::<u64>()
    };
    assert_eq!(running(&mut accounts, 150), 50);
    accounts.take(&releases(230, A, B, 0));
    accounts.take(&runs(230, B));
    assert_eq!(running(&mut accounts, 300), 80);
    assert_eq!(running(&mut accounts, 400), 0);
}

const SPUN: (u32, u64) = (PID, WORD);

/// A sample of a thread that spins.
fn spins(time_ns: u64, tid: u32) -> Spun {
    Spun {
        pid: PID,
        tid,
        time_ns,
        period_ns: 1_000_000,
        word: Some(SpunWord {
            address: WORD,
            bytes: 4,
        }),
    }
}

fn spun_accounts() -> Accounts {
    let mut accounts = Accounts::new(nobody);
    for tid in [A, B, C] {
        accounts.take(&runs(1, tid));
    }
    accounts.watch(SPUN, 1000);
    accounts
}

#[test]
fn who_has_written_to_a_spun_word_is_its_holder() {
    let mut accounts = spun_accounts();
    accounts.write(SPUN, A, 2000, Write::Got);
    // Each sample is a millisecond of a waiter.
    accounts.sampled(&spins(201_000, B));
    accounts.write(SPUN, B, 250_000, Write::Other);
    accounts.take(&event(300_000, A, Moment::Preempted));
    accounts.sampled(&spins(401_000, B));
    accounts.take(&runs(500_000, A));
    accounts.write(SPUN, A, 600_000, Write::Stored);
    accounts.write(SPUN, B, 600_100, Write::Got);
    // It has the lock since.
    accounts.sampled(&spins(650_000, B));
    // A waiter that loses its CPU waits on, but not one that was sampled long ago.
    accounts.sampled(&spins(700_000, C));
    accounts.take(&event(800_000, C, Moment::Preempted));
    accounts.take(&runs(900_000, C));
    accounts.take(&event(2_900_000, C, Moment::Preempted));
    // The release is an exchange.
    accounts.write(SPUN, B, 2_950_000, Write::Other);
    accounts.unwatch(SPUN, 3_000_000);
    accounts.sampled(&spins(3_100_000, C));
    let seen = accounts.end_window(4_000_000);
    let [lock] = &seen.locks[..] else {
        panic!("{seen:?}");
    };
    let expected = HolderTimes {
        running_ns: 2_000_000 + 100_000,
        preempted_ns: 1_000_000,
        ..HolderTimes::default()
    };
    assert_eq!((lock.pid, lock.lock, lock.times), (PID, WORD, expected));
}

/// Of ticket locks only releases are known: each begins the hold of the next thread that releases.
#[test]
fn a_release_tells_who_had_the_lock() {
    let mut accounts = spun_accounts();
    accounts.sampled(&spins(101_000, B));
    accounts.take(&event(200_000, A, Moment::Preempted));
    accounts.sampled(&spins(301_000, B));
    accounts.take(&runs(400_000, A));
    accounts.write(SPUN, A, 500_000, Write::Stored);
    let seen = accounts.end_window(600_000);
    let expected = HolderTimes {
        running_ns: 1_000_000,
        preempted_ns: 1_000_000,
        ..HolderTimes::default()
    };
    assert_eq!(seen.locks[0].times, expected);
}

/// A mutex that spins before it sleeps has its owner in the word.
#[test]
fn a_word_that_threads_sleep_for_is_not_watched() {
    let mut accounts = spun_accounts();
    assert!(!accounts.is_slept_for(SPUN));
    accounts.take(&waits(2000, B, A));
    assert!(accounts.is_slept_for(SPUN));
    accounts.watch(SPUN, 3000);
    accounts.write(SPUN, C, 3500, Write::Got);
    accounts.take(&releases(4000, A, B, 0));
    accounts.take(&runs(4100, B));
    let expected = HolderTimes {
        running_ns: 2000,
        waking_ns: 100,
        ..HolderTimes::default()
    };
    assert_eq!(accounts.end_window(5000).locks[0].times, expected);
}
