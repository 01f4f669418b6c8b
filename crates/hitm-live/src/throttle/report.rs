//! Results of an observation, and the quantities that are reported of them.
//!
//! A member with a kind and a title is in text, JSON and the view alike; docs/formats/live.md is checked against it.

use hitm_bpf::{Episode, ThrottleCounts};
use hitm_fields::fields;

use super::Causes;
use crate::cgroups::{Bandwidth, CpuStat};
use crate::spread::Spread;

/// Something that has times by cause.
pub trait HasCauses {
    /// The times.
    fn causes(&self) -> &Causes;
}

fields! {
    /// Fields of everything that has times by cause.
    pub Caused for T: HasCauses {
        /// Its part until the timer was due that gave the quota.
        quota_ns => nanos "quota", |item| item.causes().quota_ns;
        /// Its part until the timer reached the task's CPU: late, or walking.
        timer_ns => nanos "timer", |item| item.causes().timer_ns;
        /// Its part until that CPU had put its tasks back.
        ipi_ns => nanos "interrupt", |item| item.causes().ipi_ns;
        /// Its part until the task had a CPU.
        cpu_ns => nanos "CPU", |item| item.causes().cpu_ns;
        /// Its part without a known cause.
        unassigned_ns => nanos "no cause", |item| item.causes().unassigned_ns;
    }
}

impl HasCauses for Causes {
    fn causes(&self) -> &Causes {
        self
    }
}

impl HasCauses for TaskRow {
    fn causes(&self) -> &Causes {
        &self.causes
    }
}

impl HasCauses for GroupRow {
    fn causes(&self) -> &Causes {
        &self.causes
    }
}

fields! {
    /// Times by cause.
    pub causes for Causes {
        /// Their sum.
        total_ns => nanos "throttled", |causes| causes.total_ns();
        ..Caused: quota_ns, timer_ns, ipi_ns, cpu_ns, unassigned_ns;
    }
}

fields! {
    /// Durations of one kind of work.
    pub work_times for Spread {
        /// Times that it was done.
        count => count "times", |times| times.count();
        /// Its time in all.
        sum_ns => nanos "in all", |times| times.sum_ns();
        /// The longest of them.
        longest_ns => nanos "longest", |times| times.longest_ns();
    }
}

fields! {
    /// Episodes of one task.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct TaskRow in task_row {
        /// Its number.
        pub tid: u32 => number "thread";
        /// Its process.
        pub pid: u32 => number "process";
        /// Its name.
        pub comm: String => name "name";
        /// The number of its group.
        pub cgroup: u64;
        /// Number of the group whose quota throttled it first: its own, or an ancestor.
        pub throttled_by: u64;
        /// Times that it was throttled.
        pub episodes: u64 => count "times";
        /// Time of its episodes by cause.
        pub causes: Causes;
        /// Time for which it stood still, each throttling from leaving the CPU to running again.
        total_ns => nanos "throttled", |task| task.causes.total_ns();
        ..Caused: quota_ns, timer_ns, ipi_ns, cpu_ns, unassigned_ns;
        /// The longest of them.
        pub longest_ns: u64 => nanos "longest";
    }
}

impl TaskRow {
    pub(super) fn of(episode: &Episode, throttled_by: u64) -> TaskRow {
        TaskRow {
            tid: episode.tid,
            pid: episode.pid,
            comm: episode.comm.clone(),
            cgroup: episode.cgroup,
            throttled_by,
            episodes: 0,
            causes: Causes::default(),
            longest_ns: 0,
        }
    }
}

fields! {
    /// A kernel lock that a throttled task held while others waited for it.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct HeldLock in held_lock {
        /// The lock's address.
        pub lock: u64 => address "lock";
        /// The throttled thread that held it.
        pub holder: u32 => number "holder";
        /// Waits that began meanwhile.
        pub waits: u64 => count "waits";
        /// The last thread that began to wait.
        pub waiter: u32 => number "waiter";
        /// Its name.
        pub waiter_comm: String => name "name";
    }
}

fields! {
    /// A throttling of a task.
    pub episode for Episode {
        /// The thread.
        tid => number "thread";
        /// Its name.
        comm => name "name";
        /// The moment at which it left its CPU.
        out_ns => number "out";
        /// The CPU that it left.
        out_cpu => number "from CPU";
        /// The CPU that it runs on again.
        in_cpu => number "to CPU";
    }
}

fields! {
    /// A group with a quota, and the effect on its tasks.
    #[derive(Debug, Clone, PartialEq, Eq, Default)]
    pub struct GroupRow in group_row {
        /// The number of the group.
        pub id: u64;
        /// Its folder below the root of the hierarchy.
        pub path: String => name "group";
        /// Its quota; none when the group or its quota has been removed.
        pub bandwidth: Option<Bandwidth>;
        /// CPU time that it may use in a period, in microseconds.
        quota_us => number "quota us", |group| group.bandwidth.map(|own| own.quota_us);
        /// Length of a period, in microseconds.
        period_us => number "period us", |group| group.bandwidth.map(|own| own.period_us);
        /// Unused time of earlier periods that it may use besides, in microseconds.
        burst_us => number "burst us", |group| group.bandwidth.map(|own| own.burst_us);
        /// CPUs that the quota is worth: quota_us over period_us.
        quota_cpus => decimal "quota CPUs", |group| group.bandwidth.map(Bandwidth::cpus);
        /// Growth of the counters of its cpu.stat.
        pub stat: CpuStat;
        /// Periods in which it ran.
        periods => count "periods", |group| group.stat.periods;
        /// Periods in which it used its quota up.
        throttled_periods => count "used up", |group| group.stat.throttled_periods;
        /// throttled_periods as a part of periods.
        throttled_share => share "used up", |group| group.stat.throttled_share();
        /// Time that its queues were throttled, each CPU's once, as cpu.stat counts it.
        cpu_stat_throttled_ns => nanos "cpu.stat", |group| group.stat.throttled_ns;
        /// Periods in which it used unused time of earlier ones.
        bursts => count "bursts", |group| group.stat.bursts;
        /// The lengths of the episodes.
        pub spread: Spread;
        /// Times that a task of it was throttled.
        episodes => count "times", |group| group.spread.count();
        /// Sums over all episodes of its tasks.
        pub causes: Causes;
        /// Time for which its tasks stood still, each throttling from leaving the CPU to running again.
        total_ns => nanos "throttled", |group| group.causes.total_ns();
        ..Caused: quota_ns, timer_ns, ipi_ns, cpu_ns, unassigned_ns;
        /// Time that half of the throttlings do not exceed.
        p50_ns => nanos "p50", |group| group.spread.quantile_ns(500);
        /// Time that 99 of 100 throttlings do not exceed.
        p99_ns => nanos "p99", |group| group.spread.quantile_ns(990);
        /// Like `spread`, without the wait for a CPU afterwards.
        pub throttled: Spread;
        /// p50_ns without the wait for a CPU afterwards.
        throttled_p50_ns => nanos "p50 stopped", |group| group.throttled.quantile_ns(500);
        /// p99_ns without the wait for a CPU afterwards.
        throttled_p99_ns => nanos "p99 stopped", |group| group.throttled.quantile_ns(990);
        /// The episode that lasted longest.
        pub longest: Option<Episode>;
        /// The longest throttling of a task.
        longest_ns => nanos "longest", |group| group.spread.longest_ns();
        /// Time for which its queues were seen throttled with a task that stood still, each CPU's once.
        pub queues_ns: u64 => nanos "queues";
        /// Walks of its timers.
        pub walks: Spread;
        /// Walks of its timers.
        timer_walks => count "walks", |group| group.walks.count();
        /// CLOCK_MONOTONIC of the last moment for which its period timer was set.
        pub timer_due_ns: Option<u64>;
        /// Locks that its tasks held while throttled.
        pub locks: Vec<HeldLock>;
        /// Without BPF: time for which its tasks were ready and did not run.
        pub run_delay_ns: Option<u64> => nanos "delay";
    }
}

/// The source of figures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// Every episode, from BPF programs.
    Bpf {
        /// Timers ask other CPUs to unthrottle (Linux 6.4 and later).
        is_asynchronous: bool,
    },
    /// The kernel's counters alone, with the reason.
    Counters(String),
}

impl Source {
    /// Its name in JSON.
    pub const fn id(&self) -> &'static str {
        match self {
            Source::Bpf {
                is_asynchronous: true,
            } => "bpf",
            Source::Bpf {
                is_asynchronous: false,
            } => "bpf-sync",
            Source::Counters(_) => "counters",
        }
    }

    /// The reason why there are only counters.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Source::Bpf { .. } => None,
            Source::Counters(reason) => Some(reason),
        }
    }
}

fields! {
    /// Result of an observation.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ThrottleReport in throttle_report {
        /// The source of figures.
        pub source: Source => label "source", |report| report.source.id();
        /// The reason why there are only counters.
        reason => words "reason", |report| report.source.reason();
        /// Length of the observation.
        pub duration_ns: u64 => nanos "time";
        /// Walks of period timers.
        pub period_timer: Spread;
        /// Walks of slack timers, which give back quota that other CPUs did not use.
        pub slack_timer: Spread;
        /// Work of CPUs that unthrottled at a timer's request.
        pub handlers: Spread;
        /// Throttled groups, longest time first.
        pub groups: Vec<GroupRow>;
        /// Throttled tasks, longest time first.
        pub tasks: Vec<TaskRow>;
        /// Groups that have a quota.
        pub limited_groups: u64 => count "groups with a quota";
        /// Tasks that are throttled at the end.
        pub throttled_still: u64 => count "throttled still";
        /// The programs' own totals and losses.
        pub counts: ThrottleCounts;
        /// Rows of tasks and of groups that did not fit into tables.
        pub left_out: u64 => count "left out";
    }
}

impl ThrottleReport {
    /// Returns true if each throttling was observed, with its causes; otherwise only the kernel's
    /// counters are known.
    pub fn has_causes(&self) -> bool {
        matches!(self.source, Source::Bpf { .. })
    }
}

fields! {
    /// Totals and losses of the programs.
    pub throttle_counts for ThrottleCounts {
        /// Episodes that ended.
        episodes => count "episodes";
        /// Timers' walks.
        timers => count "timers";
        /// CPUs that unthrottled at a walk's request.
        handlers => count "handlers";
        /// Events that are missing because the reader fell behind.
        lost_events => count "lost events";
        /// Episodes that are missing because too many tasks were throttled already.
        lost_tasks => count "lost tasks";
        /// Episodes without the time of unthrottling, because too many tasks of their CPU were throttled already.
        not_followed => count "not followed";
        /// Episodes that are missing because their end was not seen.
        unseen_ends => count "ends not seen";
        /// Episodes that are missing because the kernel refused a row of a table that had room.
        refused => count "refused";
    }
}
