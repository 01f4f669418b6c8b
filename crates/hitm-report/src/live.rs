//! Locks of a running host as tables.

mod fields;
mod json;
mod text;

use hitm_live::locks::{self, Lock};
use hitm_live::recording::LiveRecording;

pub use fields::{LIVE_CALLER_FIELDS, LIVE_LOCK_FIELDS, LIVE_RUN_FIELDS, LIVE_THREAD_FIELDS};
pub use json::render as json;
pub use text::render as text;

/// The version of the JSON form.
pub const LIVE_SCHEMA: u32 = 1;

/// The locks of a recording, and what is shown beside them.
#[derive(Debug, Clone, PartialEq)]
pub struct LiveLocks {
    /// The recording without its samples.
    pub run: LiveRun,
    /// Those that waste most CPU time first.
    pub locks: Vec<LockView>,
}

/// What was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveRun {
    /// The recording's own words.
    pub kernel: String,
    /// The same.
    pub target: String,
    /// The same.
    pub layers: Vec<String>,
    /// The same.
    pub missing: Vec<String>,
    /// CPUs online.
    pub cpu_count: u32,
    /// Time of the host.
    pub duration_ns: u64,
    /// CPU time for which a sample stands.
    pub period_ns: u64,
    /// Samples that were taken.
    pub sample_count: u64,
    /// Samples that were not.
    pub lost_count: u64,
}

/// A lock, and the time that shares are of.
#[derive(Debug, Clone, PartialEq)]
pub struct LockView {
    /// What was judged.
    pub lock: Lock,
    /// Time of the host.
    pub duration_ns: u64,
}

impl LockView {
    fn cpu_ns(&self) -> u64 {
        self.lock.waited_ns + self.lock.held_ns + self.lock.other_ns
    }

    fn share(&self, part_ns: u64) -> f64 {
        part_ns as f64 / self.cpu_ns().max(1) as f64
    }

    /// CPUs that its waiters keep from other work.
    fn wasted_cpus(&self) -> f64 {
        self.lock.waited_ns as f64 / self.duration_ns.max(1) as f64
    }
}

impl LiveLocks {
    /// Judges a recording.
    pub fn of(recording: &LiveRecording) -> LiveLocks {
        let duration_ns = recording.duration_ns;
        let locks = locks::judge(recording).into_iter();
        LiveLocks {
            run: LiveRun {
                kernel: recording.kernel.clone(),
                target: recording.target.clone(),
                layers: recording.layers.clone(),
                missing: recording.missing.clone(),
                cpu_count: recording.cpu_count,
                duration_ns,
                period_ns: recording.period_ns,
                sample_count: recording.sample_count(),
                lost_count: recording.lost_count,
            },
            locks: locks.map(|lock| LockView { lock, duration_ns }).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use hitm_live::locks::{Class, LockThread};
    use hitm_live::recording::LiveThread;

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
                callers: vec![("ext4_buffered_write_iter < vfs_write".into(), 500)],
            },
            duration_ns: 2_000_000_000,
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
            },
            locks: vec![
                lock("inode's i_rwsem", "inode 8:1:7 /f", 500_000_000),
                lock("taken by f", "", 10_000_000),
            ],
        }
    }

    fn shown(locks: &LiveLocks, limit: PercentLimit) -> String {
        let options = TextOptions {
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
        let shown = shown(&small, PercentLimit::DEFAULT);
        assert!(shown.contains("No lock is contended."), "{shown}");
        assert!(shown.contains("1 more below"), "{shown}");
    }

    #[test]
    fn json_has_every_field() {
        let json: serde_json::Value = serde_json::from_str(&json(&locks())).unwrap();
        let lock = &json["locks"][0];
        assert_eq!(lock["hold_share"], 0.43);
        assert_eq!(lock["needed_cpus"], 3);
        assert_eq!(lock["wasted_cpus"], 0.25);
        assert_eq!(lock["threads"][1]["comm"], "evil\x1b[2J");
        assert_eq!(lock["callers"][0]["waiting_samples"], 500);
        assert_eq!(json["run"]["missing"][0], "BPF: not root");
    }
}
