//! Locks of a running host as tables.

mod fixed;
mod holders;
mod json;
mod lines;
mod lock;
pub mod lock_whatif;
pub mod neighbours;
mod program;
pub mod rt;
pub mod screen;
mod text;
pub mod throttle;
pub mod wakeups;
pub mod whatif;
mod window;

use hitm_live::locks;
use hitm_live::recording::LiveRecording;

pub use holders::{live_chain, live_holders, live_taker};
pub use json::render as json;
pub use lines::{LineView, LiveLines, live_line};
pub use lock::{LiveRun, LockView, live_caller, live_lock, live_run, live_thread};
pub use program::{ProgramLock, ProgramLocks, live_program, live_program_lock};
pub use text::render as text;
pub use window::Window;

/// The version of the JSON form.
pub const LIVE_SCHEMA: u32 = 1;

/// A task by its name and its number; by the number where its name is not known.
fn named(comm: &str, number: u32) -> String {
    format!("{comm} {number}").trim_start().to_owned()
}

/// The locks of a recording, and what is shown beside them.
#[derive(Debug, Clone, PartialEq)]
pub struct LiveLocks {
    /// The recording without its samples.
    pub run: LiveRun,
    /// Those that waste most CPU time first.
    pub locks: Vec<LockView>,
    /// Locks of a program that was started; none where nothing observed them.
    pub program: Option<ProgramLocks>,
}

impl LiveLocks {
    /// Judges a recording.
    pub fn of(recording: &LiveRecording) -> LiveLocks {
        let duration_ns = recording.duration_ns;
        let cpu_count = recording.cpu_count;
        let judged = locks::judge(recording);
        let locks = judged.locks.into_iter();
        LiveLocks {
            run: LiveRun {
                kernel: recording.kernel.clone(),
                target: recording.target.clone(),
                layers: recording.layers.clone(),
                missing: recording.missing.clone(),
                cpu_count,
                duration_ns,
                period_ns: recording.period_ns,
                sample_count: recording.sample_count(),
                lost_count: recording.lost_count,
                left_out_count: judged.left_out_count,
                few_count: judged.few_count,
                idle_count: judged.idle_count,
            },
            locks: locks
                .map(|lock| LockView {
                    lock,
                    duration_ns,
                    cpu_count,
                })
                .collect(),
            program: recording
                .program
                .as_ref()
                .map(|seen| ProgramLocks::of(seen, cpu_count)),
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use hitm_live::locks::{Class, Lock, LockCaller, LockHolders, LockThread, Traced};
    use hitm_live::recording::{FUTEX_LAYER, LiveThread};
    use hitm_live::shim::{CallSite, LockKind, LockUse, Losses, Module, Observation, Process};

    use super::*;
    use crate::text::{PercentLimit, TextOptions};

    fn part(tid: u32, comm: &str, held_ns: u64, waited_ns: u64) -> LockThread {
        LockThread {
            thread: LiveThread {
                pid: 100,
                tid,
                comm: comm.into(),
                start_ticks: 1,
            },
            held_ns,
            waited_ns,
        }
    }

    fn lock(name: &str, object: &str, waited_ns: u64) -> LockView {
        LockView {
            lock: Lock {
                class: Class::Rwsem,
                name: name.into(),
                object: object.into(),
                threads: vec![
                    part(101, "copy", 430_000_000, waited_ns / 2),
                    part(102, "evil\x1b[2J", 430_000_000, waited_ns / 2),
                ],
                held_ns: 860_000_000,
                waited_ns,
                other_ns: 1_140_000_000,
                working_samples: 2000,
                traced: None,
                words: std::collections::BTreeSet::default(),
                holders: None,
                is_hold_known: true,
                callers: vec![LockCaller {
                    chain: "ext4_buffered_write_iter < vfs_write".into(),
                    samples: 500,
                    traced_ns: 0,
                }],
            },
            duration_ns: 2_000_000_000,
            cpu_count: 4,
        }
    }

    fn locks() -> LiveLocks {
        LiveLocks {
            run: LiveRun {
                kernel: "6.12.1".into(),
                target: "./copy".into(),
                layers: vec!["samples".into()],
                missing: vec!["BPF: not root".into()],
                cpu_count: 4,
                duration_ns: 2_000_000_000,
                period_ns: 1_000_000,
                sample_count: 2510,
                lost_count: 0,
                left_out_count: 0,
                few_count: 0,
                idle_count: 0,
            },
            locks: vec![
                lock("inode's i_rwsem", "inode 8:1:7 /f", 500_000_000),
                lock("taken by f", "", 10_000_000),
            ],
            program: None,
        }
    }

    fn shown(locks: &LiveLocks, limit: PercentLimit) -> String {
        let options = TextOptions {
            has_events: false,
            width: 100,
            color: false,
            percent_limit: limit,
        };
        text(locks, &options).to_string()
    }

    #[test]
    fn a_lock_has_its_share_and_its_bound() {
        expect![[r#"
            hitm live locks: ./copy
              host: 4 CPUs, Linux 6.12.1
              samples: 2,510 in 2.0 s, 0 lost
              layer: samples
              not used: BPF: not root

            == Locks by CPU time that their waiters waste ======================================================
              CPUs lost waited% held%   u% +-% CPUs of use bound threads class lock
                   0.25    20.0  34.4 43.0 1.1           3  2.33       2 rwsem inode's i_rwsem
                         of inode 8:1:7 /f
                         100 % by ext4_buffered_write_iter < vfs_write
                         threads copy 101, evil\x1b[2J 102
              u: u is the share of its working time for which a thread holds the lock; 1/u CPUs are of use to
                 its threads, and together they are at most 1/u times as fast as one
              1 more below 0.5% of the sampled time (--percent-limit)
        "#]].assert_eq(&shown(&locks(), PercentLimit::DEFAULT));
    }

    #[test]
    fn small_ones_are_folded_but_counted() {
        assert!(shown(&locks(), PercentLimit::NONE).contains("taken by f"));
        let mut small = locks();
        small.locks.remove(0);
        let below = shown(&small, PercentLimit::DEFAULT);
        assert!(below.contains("1 more below"), "{below}");
        assert!(!below.contains("contended"), "{below}");
        small.locks.clear();
        let none = shown(&small, PercentLimit::DEFAULT);
        assert!(none.contains("\n  No contended lock was seen."), "{none}");
        small.run.few_count = 2;
        let few = shown(&small, PercentLimit::DEFAULT);
        assert!(!few.contains("contended"), "{few}");
        assert!(
            few.contains("  few: 2 locks with waits in fewer than 10 samples\n"),
            "{few}"
        );
        small.run.few_count = 0;
        // Who sleeps for a lock of a program has no samples.
        small.run.layers.push(FUTEX_LAYER.into());
        let none = shown(&small, PercentLimit::DEFAULT);
        assert!(none.contains("\n  No lock is contended."), "{none}");
    }

    /// It is held for a thousandth of the time: any host is small for it.
    #[test]
    fn a_lock_that_limits_nothing_has_no_cpus_of_use() {
        let mut seen = locks();
        let lock = &mut seen.locks[0].lock;
        (lock.held_ns, lock.other_ns) = (2_000_000, 1_998_000_000);
        let json: serde_json::Value = serde_json::from_str(&json(&seen, None)).unwrap();
        assert_eq!(json["locks"][0]["needed_cpus"], serde_json::Value::Null);
        assert_eq!(json["locks"][0]["bound"], 1000.0);
    }

    #[test]
    fn sleepers_are_shown_where_nobody_spins() {
        let mut seen = locks();
        seen.locks.remove(0);
        let lock = &mut seen.locks[0].lock;
        lock.waited_ns = 0;
        lock.traced = Some(Traced {
            count: 1200,
            wait_ns: 900_000_000,
            longest_ns: 4_000_000,
            addresses: [0xffff_8880_0123_4560, 0xffff_8880_0123_4600].into(),
        });
        lock.callers[0].traced_ns = 900_000_000;
        let shown = shown(&seen, PercentLimit::DEFAULT);
        let note =
            "slept 900.0 ms in 1,200 waits, the longest 4.0 ms, at 0xffff888001234560 and 1 more";
        assert!(shown.contains(note), "{shown}");
        assert!(
            shown.contains("100 % by ext4_buffered_write_iter"),
            "{shown}"
        );
        let json: serde_json::Value = serde_json::from_str(&json(&seen, None)).unwrap();
        let lock = &json["locks"][0];
        assert_eq!(lock["slept_ns"], 900_000_000);
        assert_eq!(lock["wait_count"], 1200);
        assert_eq!(lock["addresses"][1], "0xffff888001234600");
        assert_eq!(lock["callers"][0]["wait_ns"], 900_000_000);
    }

    /// As those of Go, of Rust's standard library and of rwlocks.
    #[test]
    fn a_word_that_names_no_owner_says_so() {
        let mut seen = locks();
        let lock = &mut seen.locks[0].lock;
        (lock.class, lock.is_hold_known) = (Class::Futex, false);
        for unknown_ns in [0, 400_000_000] {
            let mut holders = LockHolders::default();
            holders.times.unknown_ns = unknown_ns;
            seen.locks[0].lock.holders = Some(holders);
            let shown = shown(&seen, PercentLimit::DEFAULT);
            let said = "holder not known: the word names no owner\n";
            assert!(shown.contains(said), "{shown}");
            let json: serde_json::Value = serde_json::from_str(&json(&seen, None)).unwrap();
            assert_eq!(json["locks"][0]["hold_share"], serde_json::Value::Null);
        }
    }

    fn used(kind: LockKind, acquisitions: u64, wait_ns: u64) -> LockUse {
        let site = |name: &str, module| CallSite {
            address: 0x5000_1234,
            module,
            name: Some(name.into()).filter(|_| !name.is_empty()),
        };
        let module = Module {
            path: "/opt/server".into(),
            offset: 0x1234,
        };
        LockUse {
            process: 0,
            address: 0x7f00_0000_1000,
            kind,
            variable: Some("queue.lock".into()).filter(|_| kind == LockKind::Mutex),
            call_site: site("serve server.c:40", Some(module.clone())),
            wait_site: Some(site("", Some(module))),
            acquisitions,
            contended: acquisitions / 4,
            refused: 0,
            signals: 0,
            handovers: 7,
            wait_ns,
            wait_max_ns: wait_ns / 2,
            held_ns: 800_000_000,
            held_max_ns: 40_000,
            held_contended_ns: 0,
            ran_held_contended_ns: 300,
            ran_cycle_contended_ns: 750,
            ran_held_ns: 500,
            ran_cycle_ns: 2000,
            threads: vec![101, 102],
            thread_count: 2,
        }
    }

    fn with_program(locks: LiveLocks) -> LiveLocks {
        let seen = Observation {
            processes: vec![Process {
                pid: 100,
                parent: 1,
                comm: "server".into(),
            }],
            locks: vec![
                used(LockKind::Condition, 50, 1_900_000_000),
                used(LockKind::Write, 3, 0),
                used(LockKind::Mutex, 10_000, 600_000_000),
            ],
            threads: Vec::new(),
            losses: Losses {
                loaded: 1,
                ..Losses::default()
            },
        };
        LiveLocks {
            program: Some(ProgramLocks::of(&seen, 4)),
            ..locks
        }
    }

    #[test]
    fn a_programs_own_locks_are_a_table_of_their_own() {
        let mut seen = with_program(locks());
        seen.locks.clear();
        expect![[r#"
            hitm live locks: ./copy
              host: 4 CPUs, Linux 6.12.1
              samples: 2,510 in 2.0 s, 0 lost
              layer: samples
              not used: BPF: not root

            == The program's own locks by the time that their threads waited ===================================
                waited acquired contended% handed over   u% CPUs of use bound threads kind  lock of
              600.0 ms   10,000       25.0           7 40.0           3  2.50       2 mutex serve server.c:40
                        queue.lock at 0x7f0000001000 of process 100 (server)
                        longest wait 300.0 ms at /opt/server+0x1234
                        held 800.0 ms, the longest 40.0 us
              1 more waited for below 0.5% of the time (--percent-limit)
              u: u is the share of its working time for which a thread holds the lock; 1/u CPUs are of use to
                 its threads, and together they are at most 1/u times as fast as one
              conditions: 1 with 50 waits; the longest took 950.0 ms at /opt/server+0x1234
              seen: 10,053 acquisitions by 0 threads of 1 processes; 0 operations lost, 0 holds ended by other
                    threads
        "#]].assert_eq(&shown(&seen, PercentLimit::DEFAULT));
    }

    /// A process that ends before its name is read has none.
    #[test]
    fn a_name_that_is_not_known_leaves_no_gap() {
        let mut seen = with_program(locks());
        seen.locks[0].lock.threads[0].thread.comm.clear();
        let program = seen.program.as_mut().unwrap();
        for lock in &mut program.locks {
            lock.process.comm.clear();
        }
        let shown = shown(&seen, PercentLimit::DEFAULT);
        assert!(shown.contains("threads 101, evil"), "{shown}");
        assert!(shown.contains("of process 100\n"), "{shown}");
    }

    #[test]
    fn json_has_the_programs_locks() {
        let json: serde_json::Value =
            serde_json::from_str(&json(&with_program(locks()), None)).unwrap();
        let lock = &json["program"]["locks"][0];
        assert_eq!(lock["kind"], "mutex");
        assert_eq!(lock["address"], "0x7f0000001000");
        assert_eq!(lock["call_site"], "serve server.c:40");
        assert_eq!(lock["wait_site"], "/opt/server+0x1234");
        assert_eq!(lock["hold_share"], 0.4);
        assert_eq!(lock["needed_cpus"], 3);
        assert_eq!(lock["bound"], 2.5);
        assert_eq!(json["program"]["locks"][2]["kind"], "condition");
        assert_eq!(json["program"]["program_count"], 1);
    }

    #[test]
    fn json_has_every_field() {
        let json: serde_json::Value = serde_json::from_str(&json(&locks(), None)).unwrap();
        let lock = &json["locks"][0];
        assert_eq!(lock["hold_share"], 0.43);
        assert_eq!(lock["needed_cpus"], 3);
        assert_eq!(lock["wasted_cpus"], 0.25);
        assert_eq!(lock["threads"][1]["comm"], "evil\x1b[2J");
        assert_eq!(lock["callers"][0]["waiting_samples"], 500);
        assert_eq!(lock["slept_ns"], serde_json::Value::Null);
        assert_eq!(json["run"]["missing"][0], "BPF: not root");
        assert_eq!(json["program"], serde_json::Value::Null);
    }
}
