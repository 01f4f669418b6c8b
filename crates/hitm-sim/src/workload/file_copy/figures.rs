//! Figures of file copies and their locks: how long these were held and waited for, and where their
//! threads were put.

use std::fmt::Write;

use hitm_base::{Cycles, Distance};
use hitm_policy::cpus_of_use;

use super::FileCopy;
use crate::kernel::{Decision, LockStat};
use crate::workload::figures::{Add, Figures, Window, figures};
use crate::workload::metric::WorkloadResult;

figures! {
    FIGURES {
        SCORE: "score", "points", "Score of all threads: KB/s over the baseline, times 10";
        LOCK_HOLD_NS: "lock_hold_ns", "ns", "Mean time for which a writer had the lock, of the whole run";
        LOCK_WAIT_NS: "lock_wait_ns", "ns", "Mean time for which a writer waited for it";
        LOCK_HAND_OVER_NS: "lock_hand_over_ns", "ns", "Mean time from the end of one use to the start of the next that waited";
        HOLD_SHARE: "hold_share", "%", "Share of its time for which a thread holds the lock, as placement estimates it";
        NEEDED_CPUS: "needed_cpus", "count", "CPUs that the lock can keep busy, by that share";
        CHOSEN_CPUS: "chosen_cpus", "count", "CPUs that its threads were given";
    }
}

impl Figures for FileCopy {
    fn operations(&self) -> u64 {
        self.blocks()
    }

    fn figures(&self, window: Window<'_>, add: Add<'_>) -> WorkloadResult {
        add(SCORE, self.score(window.per_second));
        let (locks, placements) = file_copy_metrics(self, window, add);
        WorkloadResult {
            text: Some(format!("{locks}{placements}")),
            placements: (!placements.is_empty()).then_some(placements),
            ..WorkloadResult::default()
        }
    }
}

/// Adds the figures of a file copy's first lock. Returns the table of locks, and what placement did.
fn file_copy_metrics(copy: &FileCopy, window: Window<'_>, add: Add<'_>) -> (String, String) {
    let locks: Vec<&LockStat> = copy
        .targets()
        .iter()
        .map(|file| file.i_rwsem.stat())
        .collect();
    let mut text = String::from(
        "lock        writes  contended    wait ns    spin ns    hold ns  hand-over ns  hand-overs by distance\n",
    );
    for lock in &locks {
        lock_line(lock, window, &mut text);
    }
    if let [first, ..] = locks[..] {
        lock_figures(first, window, add);
    }
    (text, placements(window))
}

/// Describes the decisions of placement, and for its last group what it knew at the end.
fn placements(window: Window<'_>) -> String {
    let mut text = String::new();
    let decisions = window.kernel.lock_decisions();
    for decision in &decisions {
        decision_line(decision, window, &mut text);
    }
    let last = decisions.last().filter(|last| last.cpus.is_some());
    let share = last.and_then(|last| Some((last.lock, window.kernel.lock_hold_share(last.lock)?)));
    if let Some((lock, share)) = share {
        let _ = writeln!(
            text,
            "at the end: lock {}: held {:.1} % of a thread's time, {} CPUs needed",
            lock.number(),
            share * 100.0,
            cpus_of_use(share)
        );
    }
    text
}

fn lock_line(lock: &LockStat, window: Window<'_>, text: &mut String) {
    let totals = lock.totals();
    let mean = |sum: Cycles, count: u64| window.clock.nanos(sum).0 / count.max(1) as f64;
    let _ = write!(
        text,
        "{:<10} {:>7} {:>9.1}% {:>10.0} {:>10.0} {:>10.0} {:>13.0} ",
        lock.name(),
        totals.writes,
        totals.contended as f64 * 100.0 / totals.writes.max(1) as f64,
        mean(totals.wait, totals.writes),
        mean(totals.spin, totals.writes),
        mean(totals.hold, totals.writes),
        mean(totals.hand_over, totals.contended),
    );
    for distance in Distance::ALL {
        let count = totals.hand_overs[distance.index()];
        if count > 0 {
            let _ = write!(text, " {} {count}", name(distance));
        }
    }
    text.push('\n');
}

fn name(distance: Distance) -> &'static str {
    match distance {
        Distance::Same => "cpu",
        Distance::Smt => "core",
        Distance::Cluster => "cluster",
        Distance::Llc => "llc",
        Distance::Die => "die",
        Distance::Package => "package",
        Distance::Remote => "remote",
        Distance::FarRemote => "far",
    }
}

/// The figures of one lock.
fn lock_figures(lock: &LockStat, window: Window<'_>, add: Add<'_>) {
    let totals = lock.totals();
    let mean = |sum: Cycles, count: u64| window.clock.nanos(sum).0 / count.max(1) as f64;
    add(LOCK_HOLD_NS, mean(totals.hold, totals.writes));
    add(LOCK_WAIT_NS, mean(totals.wait, totals.writes));
    let hand_over = mean(totals.hand_over, totals.contended);
    add(LOCK_HAND_OVER_NS, hand_over);
    let Some(last) = window.kernel.lock_decisions().into_iter().last() else {
        return;
    };
    let share = window
        .kernel
        .lock_hold_share(last.lock)
        .unwrap_or(last.hold_share);
    add(HOLD_SHARE, share * 100.0);
    add(NEEDED_CPUS, cpus_of_use(share) as f64);
    let cpus = last.cpus.map_or(0, |cpus| cpus.len());
    add(CHOSEN_CPUS, cpus as f64);
}

fn decision_line(decision: &Decision, window: Window<'_>, text: &mut String) {
    let millis = window.clock.nanos(decision.at).0 / 1e6;
    let _ = write!(text, "{millis:.3} ms: lock {}: ", decision.lock.number());
    let _ = match &decision.cpus {
        Some(cpus) => {
            let cpus: Vec<String> = cpus.iter().map(|cpu| cpu.0.to_string()).collect();
            writeln!(
                text,
                "held {:.1} % of a thread's time, {} CPUs needed: CPUs {}",
                decision.hold_share * 100.0,
                decision.needed,
                cpus.join(",")
            )
        }
        None => writeln!(text, "threads may run anywhere"),
    };
}
