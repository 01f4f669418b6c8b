//! Parts of an episode by cause.

use std::collections::{BTreeMap, VecDeque};

use hitm_bpf::Episode;

/// Time of episodes by the cause of the wait. Each moment belongs to one cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Causes {
    /// The group's quota: until the time for which the refilling timer was set.
    pub quota_ns: u64,
    /// The timer: it started late, and walked until it reached the task's CPU.
    pub timer_ns: u64,
    /// The interrupt to the task's CPU, and that CPU's own walk over its queues.
    pub ipi_ns: u64,
    /// The CPU: the task could run and others ran.
    pub cpu_ns: u64,
    /// Unknown: the task's unthrottling was not observed.
    pub unassigned_ns: u64,
}

impl Causes {
    /// Splits an episode that ended.
    pub fn of(episode: &Episode) -> Causes {
        let out = episode.out_ns;
        let end = episode.in_ns.max(out);
        if episode.back_ns == 0 {
            return Causes {
                unassigned_ns: end - out,
                ..Causes::default()
            };
        }
        let back = episode.back_ns.clamp(out, end);
        // A walk on the task's own CPU sends no interrupt.
        let reached = match episode.queued_ns {
            0 => back,
            queued => queued.clamp(out, back),
        };
        // A change of the quota refills it without a timer.
        let due = match episode.due_ns {
            0 => reached,
            due => due.clamp(out, reached),
        };
        Causes {
            quota_ns: due - out,
            timer_ns: reached - due,
            ipi_ns: back - reached,
            cpu_ns: end - back,
            unassigned_ns: 0,
        }
    }

    /// Sum of all parts.
    pub fn total_ns(&self) -> u64 {
        self.assigned_ns() + self.unassigned_ns
    }

    /// Sum of the parts with a cause.
    pub fn assigned_ns(&self) -> u64 {
        self.quota_ns + self.timer_ns + self.ipi_ns + self.cpu_ns
    }

    /// Adds the parts of `other`.
    pub fn add(&mut self, other: &Causes) {
        self.quota_ns += other.quota_ns;
        self.timer_ns += other.timer_ns;
        self.ipi_ns += other.ipi_ns;
        self.cpu_ns += other.cpu_ns;
        self.unassigned_ns += other.unassigned_ns;
    }
}

/// Cuts an unfinished episode at `end_ns`. One whose task was not put back yet waits for the quota.
pub(super) fn cut(episode: &Episode, end_ns: u64) -> Episode {
    let mut cut = episode.clone();
    cut.in_ns = end_ns;
    if cut.back_ns == 0 {
        cut.due_ns = end_ns;
        cut.back_ns = end_ns;
    }
    cut
}

/// Ends that are kept for further episodes. Episodes of one queue that end together are one time of
/// the queue. One with an earlier end may come later: a task that waits for a CPU reports its
/// episode late.
const PENDING_MAX: usize = 16;

/// Time that a group's queues were throttled, each CPU's once.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Queues {
    /// By CPU: the end and the begin of a time.
    pending: BTreeMap<u32, VecDeque<(u64, u64)>>,
    done_ns: u64,
}

impl Queues {
    /// Adds an episode to the time of its task's queue.
    pub(super) fn add(&mut self, episode: &Episode) {
        let end = match episode.back_ns {
            0 => episode.in_ns,
            back => back,
        };
        let pending = self.pending.entry(episode.out_cpu).or_default();
        if let Some((_, begin)) = pending.iter_mut().find(|(known, _)| *known == end) {
            *begin = episode.out_ns.min(*begin);
            return;
        }
        pending.push_back((end, episode.out_ns));
        if pending.len() > PENDING_MAX {
            let (end, begin) = pending.pop_front().unwrap_or_default();
            self.done_ns += end.saturating_sub(begin);
        }
    }

    /// Sum over all CPUs.
    pub fn total_ns(&self) -> u64 {
        let pending = self.pending.values().flatten();
        self.done_ns
            + pending
                .map(|(end, begin)| end.saturating_sub(*begin))
                .sum::<u64>()
    }
}
