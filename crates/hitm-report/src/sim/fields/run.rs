//! The quantities of one run.

use hitm::sim::{Outcome, Peak};
use hitm_fields::fields;

fields! {
    /// Of one run.
    pub outcome for Outcome {
        /// Seed of the run.
        seed => number "Seed", |o| o.header.seed;
        /// Simulated nanoseconds.
        virtual_ns => count "Virtual";
        /// Nanoseconds before counting began.
        warm_up_ns => count "Warm-up";
        /// Cycles after the warm-up that a CPU did not stand still for lines, idle ones among them; mean over the CPUs.
        work_cycles_mean => cycles "Work";
        /// User code's part of all CPU time.
        user_share => share "User", |o| o.modes.user;
        /// The part of kernel code of tasks, lock waits apart.
        kernel_share => share "Kernel", |o| o.modes.kernel;
        /// The part of lock waits.
        spin_share => share "Spin", |o| o.modes.spin;
        /// The part of interrupt handlers.
        irq_share => share "Irq", |o| o.modes.irq;
        /// The part without anything to do.
        idle_share => share "Idle", |o| o.modes.idle;
        /// Tasks woken after the warm-up.
        wakeup_count => count "Wakeups", |o| o.counts.wakeups;
        /// Context switches after the warm-up.
        switch_count => count "Switches", |o| o.counts.switches;
        /// Tasks put on another CPU.
        migration_count => count "Migrations", |o| o.counts.migrations;
        /// RT tasks pushed.
        push_count => count "Pushes", |o| o.counts.pushes;
        /// RT tasks pulled.
        pull_count => count "Pulls", |o| o.counts.pulls;
        /// Interrupts sent to other CPUs.
        ipi_count => count "IPIs", |o| o.counts.ipis;
        /// Accesses priced in the whole run.
        access_count => count "Accesses", |o| o.accesses;
        /// Accesses and suspensions in the whole run.
        event_count => count "Events", |o| o.events;
        /// Hash over every access with its time, CPU, price and value: equal runs have equal hashes.
        event_hash => label "Event hash", |o| format!("{:016x}", o.event_hash);
        /// Hash over every access with its address, function, time, CPU and price, without its value: where and when all was.
        timing_hash => label "Timing hash", |o| format!("{:016x}", o.timing_hash);
        /// Mean nanoseconds from wake-up to CPU.
        wakeup_ns_mean => count "Mean", |o| o.latencies.mean_ns;
        /// Half of the wake-ups took at most this long.
        wakeup_ns_p50 => count "p50", |o| quantile(o, 0.5);
        /// 90 % of them took at most this long.
        wakeup_ns_p90 => count "p90", |o| quantile(o, 0.9);
        /// 99 % of them took at most this long.
        wakeup_ns_p99 => count "p99", |o| quantile(o, 0.99);
        /// 99.9 % of them took at most this long.
        wakeup_ns_p999 => count "p99.9", |o| quantile(o, 0.999);
        /// The longest of them.
        wakeup_ns_max => count "Max", |o| o.latencies.max_ns;
    }
}

fields! {
    /// Of a quantity of CPUs.
    pub peak for Peak {
        /// The quantity: time in interrupt handlers, interrupts received, or time that CPUs waited for
        /// the lock of the run queue, both as parts of the run.
        id => known label "Metric";
        /// The mean over the CPUs.
        mean => number "Mean";
        /// The largest.
        max => number "Max";
        /// The CPU that has it, the first of several.
        cpu => number "CPU", |p| u64::from(p.cpu.0);
        /// Unit of both.
        unit => known label "Unit";
    }
}

fn quantile(outcome: &Outcome, quantile: f64) -> Option<u64> {
    let most = outcome.latencies.max_ns;
    let value = outcome.latencies.histogram.value_at_quantile(quantile);
    value.map(|value| value.min(most))
}
