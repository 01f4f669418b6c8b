//! Numbers of CPUs: those that a lock keeps busy, and those that quotas are worth.

/// Least work of one more CPU, as a part of its time, for which it is of use. Assumed, 0.01 to 0.1.
///
/// No estimate of a share is better: samples of a lock that is always held see it held in 99 % and
/// more, never in all, and half a per cent of u is 0.02 of 1/u at two CPUs. What it costs is known:
/// without the last CPU the lock is idle for less than a twentieth of its time, and with it the
/// lock's line would go to one more CPU at each hand-over. It decides for shares just below 1, 1/2,
/// 1/3 and so on: 0.49 keeps two CPUs busy and not three.
pub const LEAST_GAIN: f64 = 0.05;

/// Share of its time for which a thread holds a lock that it holds for `hold` and then leaves alone
/// for `between`, both in its own CPU time; 0 without a hold.
pub fn hold_share(hold: f64, between: f64) -> f64 {
    if hold > 0.0 {
        hold / (hold + between)
    } else {
        0.0
    }
}

/// CPUs that are of use to the threads of a lock that each holds for this share of its time, above
/// 0: 1/u, rounded up unless the last CPU had next to nothing to do.
pub fn cpus_of_use(hold_share: f64) -> usize {
    (1.0 / hold_share - LEAST_GAIN).ceil().max(1.0) as usize
}

/// Returns true if threads that waited for one lock become a group: not when most of them are of
/// another group already. Threads with two locks belong together once.
pub fn may_form_group(threads: usize, of_others: usize) -> bool {
    threads > 0 && of_others * 2 <= threads
}

/// The CPUs that a group asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Need {
    /// As many are needed, at least 1.
    pub least: usize,
    /// More are of no use: what quotas are worth, at least 1.
    pub most: usize,
}

impl Need {
    /// For a lock that keeps so many CPUs busy, and threads whose quotas together are worth so many.
    pub fn new(of_use: usize, quota_cpus: Option<usize>) -> Need {
        let most = quota_cpus.unwrap_or(usize::MAX).max(1);
        Need {
            least: of_use.clamp(1, most),
            most,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For each number of CPUs, the least hundredth of u from 0.05 to 1 that makes do with it.
    #[test]
    fn a_table_of_shares() {
        let mut table: Vec<(usize, u32)> = Vec::new();
        for hundredth in 5..=100 {
            let cpus = cpus_of_use(f64::from(hundredth) / 100.0);
            if table.last().is_none_or(|last| last.0 != cpus) {
                table.push((cpus, hundredth));
            }
        }
        let wide = [(20, 5), (17, 6), (15, 7), (13, 8), (12, 9), (10, 10)];
        let usual = [(9, 12), (8, 13), (7, 15), (6, 17), (5, 20), (4, 25)];
        let few = [(3, 33), (2, 49), (1, 96)];
        assert_eq!(table, [&wide[..], &usual, &few].concat());
    }

    #[test]
    fn a_cpu_with_next_to_nothing_to_do_is_of_no_use() {
        // Seed 003: fsdisk holds its inode for 43 % of the time, and has use for three CPUs.
        let shares = [0.43, 1.0, 0.998, 0.96, 0.95, 0.5, 0.49, 0.48, 0.25];
        assert_eq!(shares.map(cpus_of_use), [3, 1, 1, 1, 2, 2, 2, 3, 4]);
        assert_eq!(cpus_of_use(1e-300), usize::MAX);
        assert_eq!(cpus_of_use(hold_share(43.0, 57.0)), 3);
    }

    #[test]
    fn a_quota_bounds_what_is_needed() {
        let need = |least, most| Need { least, most };
        assert_eq!(Need::new(3, None), need(3, usize::MAX));
        assert_eq!(Need::new(3, Some(2)), need(2, 2));
        assert_eq!(Need::new(3, Some(0)), need(1, 1));
        assert_eq!(Need::new(0, Some(8)), need(1, 8));
    }

    #[test]
    fn threads_with_two_locks_belong_together_once() {
        let groups = [(4, 0), (4, 2), (4, 3), (1, 1), (0, 0)];
        let may = groups.map(|group| may_form_group(group.0, group.1));
        assert_eq!(may, [true, true, false, false, false]);
    }
}
