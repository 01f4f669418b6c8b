//! Figures of a program's lock: throughput, and where holders were while others waited.

use hitm_base::Cycles;

use super::ProgramLock;
use crate::kernel::HolderState;
use crate::workload::figures::{Add, Figure, Figures, Window, figures};
use crate::workload::metric::WorkloadResult;

figures! {
    FIGURES {
        TRANSACTIONS_PER_SECOND: "transactions_per_second", "1/s", "Transactions of all threads a second";
        SPIN_CPU_SHARE: "spin_cpu_share", "%", "The part of the threads' CPU time that they spent waiting for the lock, in the whole run";
        LOCK_WAIT_US_MEAN: "lock_wait_us_mean", "us", "Mean time from wanting the lock to having it";
        LOCK_WAIT_US_MAX: "lock_wait_us_max", "us", "The longest of these times";
        HOLD_US_MEAN: "hold_us_mean", "us", "Mean time from having the lock to giving it back, with all that happened meanwhile";
        BACK_OFF_SLEEPS: "back_off_sleeps", "count", "Times that a thread slept because it had spun long enough, in the whole run";
        WAIT_HOLDER_RUNNING: "wait_holder_running", "%", "The part of all waiting during which the holder ran its own code";
        WAIT_HOLDER_FAULT: "wait_holder_fault", "%", "The part of it during which the holder ran in the kernel for a page";
        WAIT_HOLDER_PREEMPTED: "wait_holder_preempted", "%", "The part of it during which the holder wanted a CPU and had none";
        WAIT_HOLDER_PREEMPTED_IN_FAULT: "wait_holder_preempted_in_fault", "%", "The same, for holders that had lost their CPU in the kernel for a page";
        WAIT_HOLDER_ASLEEP: "wait_holder_asleep", "%", "The part of it during which the holder slept, or had been woken and had no CPU yet";
        WAIT_NO_HOLDER: "wait_no_holder", "%", "The part of it during which nobody had the lock: those that waited slept, or had not seen it yet";
        FAULTS: "faults", "count", "First touches of a page, in the whole run";
        SLICES_EXTENDED: "slices_extended", "count", "Time slices that were extended because a holder had asked for it, in the whole run";
        SLICES_EXPIRED: "slices_expired", "count", "Extensions that were not enough, in the whole run";
    }
}

/// By [`HolderState`].
const SHARES: [(HolderState, Figure); HolderState::COUNT] = [
    (HolderState::Running, WAIT_HOLDER_RUNNING),
    (HolderState::Fault, WAIT_HOLDER_FAULT),
    (HolderState::Preempted, WAIT_HOLDER_PREEMPTED),
    (
        HolderState::PreemptedInFault,
        WAIT_HOLDER_PREEMPTED_IN_FAULT,
    ),
    (HolderState::Asleep, WAIT_HOLDER_ASLEEP),
    (HolderState::Free, WAIT_NO_HOLDER),
];

impl Figures for ProgramLock {
    fn operations(&self) -> u64 {
        self.counts().transactions
    }

    fn figures(&self, window: Window<'_>, add: Add<'_>) -> WorkloadResult {
        let counts = self.counts();
        add(TRANSACTIONS_PER_SECOND, window.per_second);
        let used = self.used(window.kernel, window.end);
        if used > Cycles::ZERO {
            add(SPIN_CPU_SHARE, percent(counts.spun, used));
        }
        if counts.uses > 0 {
            let mean = |sum| window.micros(sum) / counts.uses as f64;
            add(LOCK_WAIT_US_MEAN, mean(counts.waited));
            add(LOCK_WAIT_US_MAX, window.micros(counts.waited_max));
            add(HOLD_US_MEAN, mean(counts.held));
        }
        add(BACK_OFF_SLEEPS, counts.sleeps as f64);
        let waits = self.waits();
        let all = waits.into_iter().fold(Cycles::ZERO, |sum, one| sum + one);
        if all > Cycles::ZERO {
            for (state, figure) in SHARES {
                add(figure, percent(waits[state as usize], all));
            }
        }
        add(FAULTS, self.mapping.faults() as f64);
        let kernel = window.kernel.counts();
        add(SLICES_EXTENDED, kernel.slices_extended as f64);
        add(SLICES_EXPIRED, kernel.slices_expired as f64);
        WorkloadResult::default()
    }
}

fn percent(part: Cycles, all: Cycles) -> f64 {
    part.0 as f64 * 100.0 / all.0 as f64
}
