//! Episodes for tests of what is measured and of how it is shown.

use hitm_live::cgroups::Bandwidth;
use hitm_live::throttle::Episode;

pub(crate) const MS: u64 = 1_000_000;
pub(crate) const US: u64 = 1000;
pub(crate) const QUOTA: Bandwidth = Bandwidth {
    quota_us: 4000,
    period_us: 20_000,
    burst_us: 0,
};

/// Out at 0 on CPU 0. The timer was due at 16 ms and came 20 us late. CPU 0 was asked 5 us later,
/// began 30 us later and took 4 us. The task ran another 2 ms later.
pub(crate) fn asked() -> Episode {
    Episode {
        out_ns: 100 * MS,
        due_ns: 116 * MS,
        timer_ns: 116 * MS + 20 * US,
        queued_ns: 116 * MS + 25 * US,
        handler_ns: 116 * MS + 55 * US,
        back_ns: 116 * MS + 59 * US,
        in_ns: 118 * MS + 59 * US,
        cgroup: 71,
        charged: 0,
        tid: 11,
        pid: 10,
        comm: "hog".to_owned(),
        out_cpu: 0,
        in_cpu: 1,
    }
}

/// Put back by the timer on the task's own CPU.
pub(crate) fn local() -> Episode {
    Episode {
        queued_ns: 0,
        handler_ns: 0,
        tid: 12,
        comm: "hog\u{1b}[31m".to_owned(),
        ..asked()
    }
}
