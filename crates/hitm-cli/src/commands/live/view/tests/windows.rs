//! Windows as this host could have had them.

use std::time::Duration;

use hitm_live::cgroups::{Bandwidth, CpuStat};
use hitm_live::locks::{Class, Lock, LockCaller, LockThread, Traced};
use hitm_live::recording::LiveThread;
use hitm_live::spread::Spread;
use hitm_live::throttle::{
    Causes, GroupRow, Source, TaskRow, ThrottleCounts, ThrottleReport,
};
use hitm_live::wakeups::{Latencies, Measured, TaskLatencies, WakeupReport, WakeupTable};
use hitm_report::live::{LineView, LiveLines, LiveLocks, LiveRun, LockView, Window};

use super::super::layers::Sent;

pub(super) const MS: u64 = 1_000_000;

pub(super) fn sent(layer: usize, window: impl Window + 'static) -> Sent {
    Sent {
        layer,
        window: Ok(Box::new(window)),
    }
}

pub(super) fn thread(tid: u32, comm: &str, held_ms: u64, waited_ms: u64) -> LockThread {
    LockThread {
        thread: LiveThread {
            pid: 100,
            tid,
            comm: comm.into(),
            start_ticks: 1,
        },
        held_ns: held_ms * MS,
        waited_ns: waited_ms * MS,
    }
}

pub(super) fn lock(name: &str, object: &str, waited_ms: u64) -> LockView {
    LockView {
        lock: Lock {
            class: Class::Rwsem,
            name: name.into(),
            object: object.into(),
            threads: vec![
                thread(101, "copy", 430, waited_ms),
                thread(102, "evil\x1b[2J\n", 430, 0),
            ],
            held_ns: 860 * MS,
            waited_ns: waited_ms * MS,
            other_ns: 1140 * MS,
            working_samples: 2000,
            traced: Some(Traced {
                count: 12,
                wait_ns: 300 * MS,
                longest_ns: 40 * MS,
                addresses: [0xffff_8880_0123_4560].into(),
            }),
            words: std::collections::BTreeSet::default(),
            holders: None,
            is_hold_known: true,
            callers: vec![LockCaller {
                chain: "ext4_buffered_write_iter < vfs_write".into(),
                samples: waited_ms,
                traced_ns: 300 * MS,
            }],
        },
        duration_ns: 2000 * MS,
        cpu_count: 4,
    }
}

pub(super) fn locks(locks: Vec<LockView>, missing: &[&str]) -> Sent {
    sent(
        0,
        LiveLocks {
            run: LiveRun {
                kernel: "6.12.1".into(),
                target: "everything on this host".into(),
                layers: vec!["samples".into()],
                missing: missing.iter().map(|text| (*text).to_owned()).collect(),
                cpu_count: 4,
                duration_ns: 2000 * MS,
                period_ns: MS,
                sample_count: 2510,
                lost_count: 0,
                left_out_count: 0,
                few_count: 0,
                idle_count: 0,
            },
            locks,
            program: None,
        },
    )
}

pub(super) fn two_locks() -> Sent {
    locks(
        vec![
            lock(
                "inode's i_rwsem",
                "inode 8:1:7 /srv/data/of a/long/path.db",
                500,
            ),
            lock("mmap_lock", "process 100 (copy)", 20),
        ],
        &[],
    )
}

pub(super) fn groups(source: Source) -> Sent {
    let causes = Causes {
        quota_ns: 1800 * MS,
        timer_ns: 2 * MS,
        ipi_ns: MS,
        cpu_ns: 300 * MS,
        unassigned_ns: 0,
    };
    let mut group = GroupRow {
        id: 70,
        path: "/hogs\x1b]0;x".into(),
        bandwidth: Some(Bandwidth {
            quota_us: 4000,
            period_us: 20_000,
            burst_us: 0,
        }),
        stat: CpuStat {
            periods: 100,
            throttled_periods: 99,
            throttled_ns: 1500 * MS,
            bursts: 0,
        },
        causes,
        queues_ns: 1490 * MS,
        ..GroupRow::default()
    };
    for _ in 0..99 {
        group.spread.add(16 * MS);
    }
    let task = TaskRow {
        tid: 11,
        pid: 10,
        comm: "hog".into(),
        cgroup: 71,
        throttled_by: 70,
        episodes: 99,
        causes,
        longest_ns: 17 * MS,
    };
    let other = TaskRow {
        tid: 12,
        throttled_by: 80,
        ..task.clone()
    };
    sent(
        1,
        ThrottleReport {
            source,
            duration_ns: 2000 * MS,
            period_timer: Spread::default(),
            slack_timer: Spread::default(),
            handlers: Spread::default(),
            groups: vec![group],
            tasks: vec![task, other],
            limited_groups: 1,
            throttled_still: 1,
            counts: ThrottleCounts::default(),
            left_out: 0,
        },
    )
}

pub(super) fn by_bpf() -> Source {
    Source::Bpf {
        is_asynchronous: true,
    }
}

pub(super) fn wakeups() -> Sent {
    let task = |tid, longest_ns| {
        let mut slots = vec![0; 160];
        // From 16 us on.
        slots[52] = 3;
        TaskLatencies {
            tid,
            pid: tid,
            comm: format!("task {tid}"),
            latencies: Latencies {
                count: 3,
                sum_ns: 60_000,
                longest_ns,
                slots,
            },
        }
    };
    let mut report = WakeupReport {
        duration_ns: 2000 * MS,
        measured: Measured::Wakeups(WakeupTable {
            tasks: vec![task(7, 18_000), task(9, 19_000)],
            ..WakeupTable::default()
        }),
    };
    report.sort_by_longest();
    sent(2, report)
}

pub(super) fn lines(lines: Vec<LineView>) -> Sent {
    let lines = LiveLines {
        lines,
        processes: vec!["server 100".into(), "evil\x1b[2J 7".into()],
        notes: Vec::new(),
    };
    let [cost, rest] = [Duration::from_millis(42), Duration::from_millis(2200)];
    sent(3, lines.with_rest(cost, rest))
}

pub(super) fn line() -> LineView {
    LineView {
        process: "server 100".into(),
        name: "stats[].calls".into(),
        kind: "false sharing".into(),
        most_share: 0.201,
        most_error: 0.009,
        least_share: 0.031,
        change_rate_per_s: 481_234,
        line_count: 2,
        thread_count: 4,
        written_in: "server.c:42 count".into(),
        fix: "Give each thread's stats a cache line (align to 64 bytes).".into(),
    }
}
