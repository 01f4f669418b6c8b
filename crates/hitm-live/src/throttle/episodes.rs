//! Parts of an episode by cause.

use std::borrow::Cow;

use hitm_bpf::{Episode, ThrottleEvent};

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

/// Returns the part of an event from `begin_ns` on; none where it ended before. cpu.stat counts a queue's time whole,
/// when it ends.
pub(super) fn cut_before(event: &ThrottleEvent, begin_ns: u64) -> Option<Cow<'_, ThrottleEvent>> {
    let mut cut = Cow::Borrowed(event);
    match event {
        _ if span(event).1 < begin_ns => return None,
        ThrottleEvent::Episode(episode) if episode.out_ns < begin_ns => {
            let mut episode = episode.clone();
            episode.out_ns = begin_ns;
            cut = Cow::Owned(ThrottleEvent::Episode(episode));
        }
        _ => {}
    }
    Some(cut)
}

/// Returns the part of an event up to `end_ns`; none where it began after it.
pub(super) fn cut_after(mut event: ThrottleEvent, end_ns: u64) -> Option<ThrottleEvent> {
    if span(&event).0 > end_ns {
        return None;
    }
    if let ThrottleEvent::Episode(episode) = &mut event {
        episode.in_ns = episode.in_ns.min(end_ns);
    }
    Some(event)
}

/// Begin and end of an event.
fn span(event: &ThrottleEvent) -> (u64, u64) {
    match event {
        ThrottleEvent::Episode(episode) => (episode.out_ns, episode.in_ns),
        ThrottleEvent::Queue(queue) => (queue.end_ns, queue.end_ns),
        ThrottleEvent::Timer(work) | ThrottleEvent::Handler(work) => (work.begin_ns, work.end_ns),
        ThrottleEvent::Lock(waiter) => (waiter.at_ns, waiter.at_ns),
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
