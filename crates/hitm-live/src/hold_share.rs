//! The share of its time for which a thread holds a lock, and the CPUs that the lock can keep busy.

/// Least work of one more CPU, as a part of its time, for which it is of use. Assumed, 0.01 to 0.1: samples of a
/// lock that is held always see it held in 99 % and more, never in all, and a second CPU for the rest would only
/// make the line of the lock move. It decides for shares just below 1, 1/2, 1/3 and so on.
const LEAST_GAIN: f64 = 0.05;

/// CPUs that are of use to the threads of a lock that each holds for this share of its time, above 0: 1/u of seed 003,
/// rounded up unless the last CPU had next to nothing to do.
pub(crate) fn cpus_of_use(share: f64) -> usize {
    (1.0 / share - LEAST_GAIN).ceil().max(1.0) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_with_next_to_nothing_to_do_is_of_no_use() {
        // Seed 003: fsdisk holds its inode for 43 % of the time, and has use for three CPUs.
        let shares = [
            0.43,
            1.0,
            0.998,
            0.96,
            0.95,
            0.5,
            0.49,
            0.48,
            1.0 / 3.0,
            0.25,
        ];
        assert_eq!(shares.map(cpus_of_use), [3, 1, 1, 1, 2, 2, 2, 3, 3, 4]);
        assert_eq!(cpus_of_use(1e-300), usize::MAX);
    }
}
