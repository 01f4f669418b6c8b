//! One writer and several readers of one line: how long a read keeps the line taken.
//!
//! Between two writes each reader fetches the line at most once. With more readers a write takes
//! longer, by the time for which each fetch keeps the line from the next.

use hitm_base::Distance;
use hitm_base::machine::{ContentionPart, Home, Item, Quantity, TransferPart};

use super::measure::{Beside, beside_readers, spread};
use super::{Cpu, ProbeError, Run};

/// More fetches between two writes than with one reader, for the difference to say anything.
const MORE_FETCHES_MIN: f64 = 0.5;

impl Run<'_> {
    /// Measures the share of a read's latency for which it keeps a fought-over line taken, on one CPU of
    /// each core of a package. Two cores cannot tell.
    pub(super) fn readers(&mut self, cores: &[Cpu]) -> Result<(), ProbeError> {
        let Some(clean_ns) = self.mean_ns(TransferPart::Clean, cores) else {
            return Ok(());
        };
        if cores.len() < 3 {
            return Ok(());
        }
        self.say("one writer and several readers");
        let numbers: Vec<u32> = cores.iter().map(|cpu| cpu.number).collect();
        let count = self.options.sample_count;
        let one = Medians::of(&beside_readers(&numbers[..2], count)?);
        let all = Medians::of(&beside_readers(&numbers, count)?);
        let Some(share) = one.share_of_a_read(&all, clean_ns) else {
            return Ok(());
        };
        let how = format!(
            "one CPU writes a line that {} read: a write each {:.1} ns, {:.2} fetches a write, a fetch \
             each {:.1} ns by each reader; with one reader {:.1} ns, {:.2} and {:.1} ns; a read of the \
             line alone takes {clean_ns:.1} ns",
            cores.len() - 1,
            all.write_ns,
            all.fetches,
            all.fetch_ns,
            one.write_ns,
            one.fetches,
            one.fetch_ns,
        );
        let item = Item::Contention(ContentionPart::ReadOccupancy);
        self.measured(item, Quantity::Milli(share), &how);
        Ok(())
    }

    /// Mean of a transfer among these CPUs, in ns.
    pub(super) fn mean_ns(&self, part: TransferPart, cpus: &[Cpu]) -> Option<f64> {
        let mut picos = Vec::new();
        for (index, a) in cpus.iter().enumerate() {
            for b in &cpus[index + 1..] {
                let distance: Distance = self.topology.distance(a.id, b.id);
                let item = Item::Transfer(Home::Near, distance, part);
                picos.extend(
                    self.file
                        .get(item)
                        .map(|value| value.picos(self.file.clock())),
                );
            }
        }
        let count = picos.len().max(1);
        let mean = picos.into_iter().sum::<u64>() as f64 / count as f64 / 1_000.0;
        (mean > 0.0).then_some(mean)
    }
}

/// The middle of the samples with one number of readers.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Medians {
    write_ns: f64,
    fetches: f64,
    fetch_ns: f64,
}

impl Medians {
    fn of(samples: &[Beside]) -> Medians {
        let median = |of: fn(&Beside) -> f64| spread(samples.iter().map(of).collect()).median_ns;
        Medians {
            write_ns: median(|sample| sample.write_ns),
            fetches: median(|sample| sample.fetches),
            fetch_ns: median(|sample| sample.fetch_ns),
        }
    }

    /// Cost of more fetches between two writes, as thousandths of a read that waits for nobody; `None`
    /// where there are no more of them.
    fn share_of_a_read(&self, all: &Medians, clean_ns: f64) -> Option<u64> {
        let fetches = all.fetches - self.fetches;
        if fetches < MORE_FETCHES_MIN {
            return None;
        }
        let each_ns = (all.write_ns - self.write_ns) / fetches;
        Some((each_ns / clean_ns * 1_000.0).round().clamp(1.0, 1_000.0) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_more_fetches_take_is_a_share_of_a_read() {
        let one = Medians {
            write_ns: 100.0,
            fetches: 0.9,
            fetch_ns: 111.0,
        };
        let all = Medians {
            write_ns: 180.0,
            fetches: 4.9,
            fetch_ns: 110.0,
        };
        assert_eq!(one.share_of_a_read(&all, 40.0), Some(500));
        assert_eq!(one.share_of_a_read(&all, 10.0), Some(1_000));
        assert_eq!(one.share_of_a_read(&one, 40.0), None);
        let faster = Medians {
            write_ns: 90.0,
            ..all
        };
        assert_eq!(one.share_of_a_read(&faster, 40.0), Some(1));
    }

    #[test]
    fn a_writer_beside_readers_is_counted() {
        let cpus: Vec<u32> = crate::host_cpus::usable().into_iter().take(2).collect();
        let samples = beside_readers(&cpus, 3).unwrap();
        assert_eq!(samples.len(), 3);
        assert!(samples.iter().all(|sample| sample.write_ns > 0.0));
    }
}
