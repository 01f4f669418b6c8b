//! The measuring loops. Each returns its samples in ns.

use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::ProbeError;
use super::code::{fence, flush};
use super::pin::{on_cpu, on_cpus};

/// Median and quartiles of samples.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Spread {
    pub(super) median_ns: f64,
    low: f64,
    high: f64,
    count: usize,
}

impl Spread {
    /// Describes the samples, for the source of a number.
    pub(super) fn words(&self, unit: &str) -> String {
        format!(
            "median {:.2} {unit} of {} samples, quartiles {:.2} to {:.2}",
            self.median_ns, self.count, self.low, self.high
        )
    }

    /// Returns true if the quartiles are close together, so that the median is the machine's and
    /// not an effect of other programs.
    pub(super) fn is_steady(&self) -> bool {
        const QUARTILES_MAX: f64 = 4.0;
        self.count > 0 && self.high <= QUARTILES_MAX * self.low
    }

    /// Median of medians, and the widest quartiles. `spreads` must not be empty.
    pub(super) fn of_spreads(spreads: &[Spread]) -> Spread {
        let overall = spread(spreads.iter().map(|spread| spread.median_ns).collect());
        Spread {
            median_ns: overall.median_ns,
            low: spreads
                .iter()
                .map(|spread| spread.low)
                .fold(f64::INFINITY, f64::min),
            high: spreads.iter().map(|spread| spread.high).fold(0.0, f64::max),
            count: spreads.iter().map(|spread| spread.count).sum(),
        }
    }
}

/// The spread of `samples`; all zero without any.
pub(super) fn spread(mut samples: Vec<f64>) -> Spread {
    samples.sort_by(f64::total_cmp);
    let at = |share: usize| {
        samples
            .get(samples.len() * share / 4)
            .copied()
            .unwrap_or(0.0)
    };
    Spread {
        median_ns: at(2),
        low: at(1),
        high: at(3),
        count: samples.len(),
    }
}

/// A counter on lines of its own: 256 bytes keep adjacent-line prefetchers away.
#[repr(align(256))]
struct Alone(AtomicU64);

fn nanos_each(start: Instant, count: u64) -> f64 {
    start.elapsed().as_nanos() as f64 / count.max(1) as f64
}

/// Two CPUs pass a counter back and forth; returns half a round trip.
pub(super) fn hand_over(cpus: [u32; 2], sample_count: usize) -> Result<Vec<f64>, ProbeError> {
    const ROUNDS: u64 = 5_000;
    let counter = Alone(AtomicU64::new(0));
    let both = on_cpus(&cpus, |me| {
        let mut samples = Vec::with_capacity(sample_count);
        let mut mine = me as u64;
        // One sample more: the first has cold caches and a thread that just woke.
        for _ in 0..=sample_count {
            let start = Instant::now();
            for _ in 0..ROUNDS {
                let order = (Ordering::AcqRel, Ordering::Relaxed);
                while counter
                    .0
                    .compare_exchange(mine, mine + 1, order.0, order.1)
                    .is_err()
                {}
                mine += 2;
            }
            samples.push(nanos_each(start, 2 * ROUNDS));
        }
        samples.split_off(1)
    })?;
    Ok(both.into_iter().next().unwrap_or_default())
}

/// All of `cpus` increment a counter at once; returns the ns between two increments on any of them.
pub(super) fn contended(cpus: &[u32], sample_count: usize) -> Result<Vec<f64>, ProbeError> {
    const SAMPLE: Duration = Duration::from_millis(4);
    let counter = Alone(AtomicU64::new(0));
    let mut samples = Vec::with_capacity(sample_count);
    for _ in 0..sample_count {
        let stop = AtomicBool::new(false);
        let before = counter.0.load(Ordering::Relaxed);
        let spans = on_cpus(cpus, |me| {
            let start = Instant::now();
            while !stop.load(Ordering::Relaxed) {
                for _ in 0..64 {
                    counter.0.fetch_add(1, Ordering::AcqRel);
                }
                if me == 0 && start.elapsed() >= SAMPLE {
                    stop.store(true, Ordering::Relaxed);
                }
            }
            start.elapsed().as_nanos() as f64
        })?;
        let increments = counter.0.load(Ordering::Relaxed) - before;
        let span = spans.iter().copied().fold(0.0, f64::max);
        samples.push(span / increments.max(1) as f64);
    }
    Ok(samples)
}

/// A writer beside readers of its line, in one sample.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Beside {
    /// From write to write.
    pub(super) write_ns: f64,
    /// Fetches of all readers between two writes.
    pub(super) fetches: f64,
    /// From fetch to fetch of one reader.
    pub(super) fetch_ns: f64,
}

/// The first of `cpus` writes a line without end, and the others read it. A reader that finds a new value
/// has fetched the line.
pub(super) fn beside_readers(cpus: &[u32], sample_count: usize) -> Result<Vec<Beside>, ProbeError> {
    const SAMPLE: Duration = Duration::from_millis(4);
    let sample = |_| {
        let word = Alone(AtomicU64::new(0));
        let stop = Alone(AtomicU64::new(0));
        let counts = on_cpus(cpus, |me| {
            let start = Instant::now();
            let (mut last, mut fetches) = (0, 0_u64);
            while stop.0.load(Ordering::Relaxed) == 0 {
                if me == 0 {
                    (0..64).for_each(|_| _ = word.0.fetch_add(1, Ordering::AcqRel));
                    if start.elapsed() >= SAMPLE {
                        stop.0.store(1, Ordering::Relaxed);
                    }
                    continue;
                }
                for _ in 0..64 {
                    let value = word.0.load(Ordering::Acquire);
                    fetches += u64::from(value != last);
                    last = value;
                }
            }
            fetches
        })?;
        let span_ns = SAMPLE.as_nanos() as f64;
        let writes = word.0.load(Ordering::Relaxed).max(1) as f64;
        let fetches = counts.iter().sum::<u64>() as f64;
        let readers = cpus.len().saturating_sub(1) as f64;
        Ok(Beside {
            write_ns: span_ns / writes,
            fetches: fetches / writes,
            fetch_ns: span_ns * readers / fetches.max(1.0),
        })
    };
    (0..sample_count).map(sample).collect()
}

/// Increments a counter that no other CPU uses.
pub(super) fn owned_increments(sample_count: usize) -> Vec<f64> {
    const ROUNDS: u64 = 50_000;
    let counter = Alone(AtomicU64::new(0));
    let sample = |_| {
        let start = Instant::now();
        for _ in 0..ROUNDS {
            counter.0.fetch_add(1, Ordering::AcqRel);
        }
        nanos_each(start, ROUNDS)
    };
    (0..sample_count).map(sample).collect()
}

/// Bytes between two lines of a chase: the adjacent line of a spatial prefetcher is never used.
const STRIDE: usize = 128;
/// The chase runs through windows of this size, one after the other, in random order within each.
/// The TLB covers the pages of a window, and no prefetcher can learn the order.
const WINDOW: usize = 256 << 10;

/// A cycle of pointers through a buffer.
struct Chase {
    cells: Vec<AtomicU64>,
    order: Vec<usize>,
}

impl Chase {
    fn new(bytes: usize) -> Chase {
        let per_line = STRIDE / 8;
        let line_count = (bytes / STRIDE).max(2);
        let cells: Vec<AtomicU64> = (0..(line_count + 1) * per_line)
            .map(|_| AtomicU64::new(0))
            .collect();
        // The allocation is aligned to 8 bytes only, so skip to the start of a line.
        let base = cells.as_ptr() as usize;
        let skip = (STRIDE - base % STRIDE) % STRIDE / 8;
        let mut lines: Vec<usize> = (0..line_count).map(|line| skip + line * per_line).collect();
        let mut state = 0x9e37_79b9_7f4a_7c15u64;
        for window in lines.chunks_mut(WINDOW / STRIDE) {
            for last in (1..window.len()).rev() {
                // xorshift64: any fixed order will do that no prefetcher can predict.
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                window.swap(last, (state % (last as u64 + 1)) as usize);
            }
        }
        let chase = Chase {
            cells,
            order: lines,
        };
        for (at, next) in chase.order.iter().zip(chase.order.iter().cycle().skip(1)) {
            chase.cells[*at].store(*next as u64, Ordering::Relaxed);
        }
        chase
    }

    /// Runs one round; returns ns a step.
    fn round(&self) -> f64 {
        let mut at = self.order[0];
        let start = Instant::now();
        for _ in 0..self.order.len() {
            at = self.cells[at].load(Ordering::Relaxed) as usize;
        }
        let nanos = nanos_each(start, self.order.len() as u64);
        black_box(at);
        nanos
    }

    /// Evicts every line from all caches; returns false where that is not possible.
    fn flush(&self) -> bool {
        let done = self
            .order
            .iter()
            .all(|at| flush(self.cells[*at].as_ptr().cast()));
        fence();
        done
    }
}

/// Chases through `bytes` repeatedly: latency of the cache that holds them.
pub(super) fn chase(bytes: usize, sample_count: usize) -> Vec<f64> {
    const STEPS: usize = 20_000;
    let chase = Chase::new(bytes);
    let rounds = STEPS.div_ceil(chase.order.len());
    chase.round();
    let sample = |_| (0..rounds).map(|_| chase.round()).sum::<f64>() / rounds as f64;
    (0..sample_count).map(sample).collect()
}

/// `reader` chases through lines that `owner` has just read from memory and no other cache holds.
/// `None` where lines cannot be flushed.
pub(super) fn clean_reads(
    [owner, reader]: [u32; 2],
    sample_count: usize,
) -> Result<Option<Vec<f64>>, ProbeError> {
    const BYTES: usize = 32 << 10;
    const ROUNDS: usize = 8;
    let chase = Chase::new(BYTES);
    if !chase.flush() {
        return Ok(None);
    }
    let turn = Barrier::new(2);
    let both = on_cpus(&[owner, reader], |me| {
        let mut samples = Vec::with_capacity(sample_count);
        for _ in 0..sample_count {
            let mut sum = 0.0;
            for _ in 0..ROUNDS {
                if me == 0 {
                    chase.flush();
                    chase.round();
                }
                turn.wait();
                if me == 1 {
                    sum += chase.round();
                }
                turn.wait();
            }
            samples.push(sum / ROUNDS as f64);
        }
        samples
    })?;
    Ok(both.into_iter().nth(1))
}

/// `reader` chases through flushed lines whose pages `owner` touched first, so that they lie in the
/// owner's memory. `None` where lines cannot be flushed.
pub(super) fn memory(
    reader: u32,
    owner: u32,
    sample_count: usize,
) -> Result<Option<Vec<f64>>, ProbeError> {
    const BYTES: usize = 4 << 20;
    let chase = on_cpu(owner, || Chase::new(BYTES))?;
    if !chase.flush() {
        return Ok(None);
    }
    let samples = on_cpu(reader, || {
        let sample = |_| {
            chase.flush();
            chase.round()
        };
        (0..sample_count).map(sample).collect::<Vec<f64>>()
    })?;
    Ok(Some(samples))
}
