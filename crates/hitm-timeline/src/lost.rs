//! Lost cycles of each CPU over virtual time.

use hitm_base::{CpuId, Cycles};

/// Buckets of time: between half as many and as many cover the run.
const BUCKETS_MAX: usize = 256;
/// Width of a bucket at first, as a power of two: 1,024 cycles.
const SHIFT_MIN: u32 = 10;

/// Lost cycles by CPU and bucket. Buckets double when the run outgrows them.
#[derive(Debug)]
pub(crate) struct Lost {
    shift: u32,
    cpus: Vec<Vec<u64>>,
}

impl Lost {
    pub(crate) fn new(cpu_count: usize) -> Lost {
        Lost {
            shift: SHIFT_MIN,
            cpus: vec![Vec::new(); cpu_count],
        }
    }

    #[inline]
    pub(crate) fn add(&mut self, cpu: CpuId, time: Cycles, lost: Cycles) {
        while time.0 >> self.shift >= BUCKETS_MAX as u64 {
            self.fold();
        }
        let bucket = (time.0 >> self.shift) as usize;
        let Some(buckets) = self.cpus.get_mut(cpu.index()) else {
            return;
        };
        if bucket >= buckets.len() {
            buckets.resize(bucket + 1, 0);
        }
        buckets[bucket] = buckets[bucket].saturating_add(lost.0);
    }

    fn fold(&mut self) {
        for buckets in &mut self.cpus {
            let pairs = buckets.chunks(2);
            let sum = |pair: &[u64]| {
                pair.iter()
                    .fold(0, |sum: u64, lost| sum.saturating_add(*lost))
            };
            *buckets = pairs.map(sum).collect();
        }
        self.shift += 1;
    }

    /// Width of a bucket.
    pub(crate) fn bucket(&self) -> Cycles {
        Cycles(1 << self.shift)
    }

    /// Buckets of each CPU.
    pub(crate) fn cpus(&self) -> &[Vec<u64>] {
        &self.cpus
    }

    /// Buckets of all CPUs together.
    pub(crate) fn sum(&self) -> Vec<u64> {
        let len = self.cpus.iter().map(Vec::len).max().unwrap_or(0);
        let mut sums = vec![0_u64; len];
        for buckets in &self.cpus {
            for (sum, lost) in sums.iter_mut().zip(buckets) {
                *sum = sum.saturating_add(*lost);
            }
        }
        sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_longer_run_has_wider_buckets_and_the_same_sum() {
        let mut lost = Lost::new(2);
        for index in 0..1000 {
            lost.add(
                CpuId((index % 2) as u16),
                Cycles(index * 5000),
                Cycles(index),
            );
        }
        assert_eq!(lost.sum().iter().sum::<u64>(), (0..1000_u64).sum::<u64>());
        assert_eq!(lost.bucket(), Cycles(1 << 15));
        assert!(lost.sum().len() <= BUCKETS_MAX);
    }
}
