//! The layers of `hitm live locks`: samples, the kernel's tracepoints, and the library in a program
//! of ours.

use std::cell::RefCell;
use std::thread;
use std::time::{Duration, Instant};

use hitm_live::holders::{Holders, Spun};
use hitm_live::recording::{FUTEX_LAYER, LiveHolders, LiveRecording};
use hitm_live::sampler::{Sampler, Target};
use hitm_live::shim::Launch;
use hitm_live::tracepoints::{self, Futexes, LockWaitCounts, Tracepoints};

use super::collect::Collector;
use super::exact::{self, ExactError};
use super::spins::Writes;
use super::{LiveError, LiveTarget, Members, kernel_symbols, online_cpus};
use hitm_kernel::KernelSymbols;

/// Interval between checks of a program without samples.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The layer of tracepoints, in words.
pub(super) const TRACEPOINTS: &str = "tracepoints of the kernel's lock waits, by BPF";

/// The layer of futexes whose words name an owner, in words.
pub(super) const OWNED_FUTEXES: &str =
    "waits in futex(2) for words that name an owner, by BPF at switches between threads";

/// The layer of holders, in words.
pub(super) const HOLDERS: &str = "states of the threads that hold locks, by BPF";

/// Layers that observe, and the faults of the others.
pub(super) struct Layers {
    /// Names of the kernel's functions, without which samples and tracepoints tell nothing of its
    /// locks.
    symbols: Result<KernelSymbols, Option<LiveError>>,
    tracepoints: Option<Tracepoints>,
    futexes: Option<Futexes>,
    holders: Option<Holders>,
    /// Samples that `holders` has not seen yet.
    spun: RefCell<Vec<Spun>>,
    writes: Writes,
    sampler: Option<Sampler>,
    /// None where no program is started.
    exact: Option<Result<Launch, ExactError>>,
    missing: Vec<String>,
}

impl Layers {
    /// Prepares all layers that must precede the program. Loading BPF programs takes up to half a
    /// second.
    pub(super) fn prepare(target: &LiveTarget) -> Layers {
        let symbols = kernel_symbols().map_err(Some);
        let mut missing = Vec::new();
        let tracepoints = match &symbols {
            Ok(_) => Tracepoints::attach(&target.waiters()),
            Err(_) => Err("the kernel hides the names of its functions".to_owned()),
        };
        let reason = |reason| missing.push(format!("tracepoints of locks: {reason}"));
        let tracepoints = tracepoints.map_err(reason).ok();
        let futexes = Futexes::attach(&target.waiters());
        let reason = |reason| missing.push(format!("waits in futex(2): {reason}"));
        let futexes = futexes.map_err(reason).ok();
        let holders = Holders::attach(&target.waiters());
        let reason = |reason| missing.push(format!("holders of locks: {reason}"));
        let holders = holders.map_err(reason).ok();
        let without_faults = holders.as_ref().and_then(Holders::without_faults);
        let reason = |reason| format!("page faults of holders, which count as running: {reason}");
        missing.extend(without_faults.map(reason));
        let exact = match target {
            LiveTarget::Program(command) => Some(exact::prepare(command)),
            _ => None,
        };
        Layers {
            symbols,
            tracepoints,
            futexes,
            holders,
            spun: RefCell::default(),
            writes: Writes::default(),
            sampler: None,
            exact,
            missing,
        }
    }

    /// The library for a program that is to be started.
    pub(super) fn launch(&self) -> Option<&Launch> {
        self.exact.as_ref()?.as_ref().ok()
    }

    /// Starts to sample. Drops the calling thread's capabilities that are not needed any more.
    ///
    /// # Errors
    /// There are no samples, and no other layer observes the target.
    pub(super) fn sample(&mut self, members: &Members, frequency: u32) -> Result<(), LiveError> {
        let opened = match &mut self.symbols {
            Ok(_) => open(&members.target(), frequency),
            Err(error) => Err(error.take().unwrap_or(LiveError::NoKernelNames)),
        };
        let error = opened.map(|sampler| self.sampler = Some(sampler)).err();
        match (error, self.exact.take()) {
            (None, None) => {}
            (None, Some(Err(exact))) => {
                let text = format!("exact locks of the program: {exact}");
                self.missing.push(text);
            }
            (Some(samples), Some(Err(exact))) => {
                let samples = Box::new(samples);
                return Err(LiveError::Unobservable { samples, exact });
            }
            (Some(samples), None) => return Err(samples),
            (error, exact) => {
                let text = error.map(|samples| format!("samples: {samples}"));
                self.missing.extend(text);
                self.exact = exact;
            }
        }
        // A clock for each thread is opened later, when the thread begins.
        if !self.sampler.as_ref().is_some_and(Sampler::is_by_thread) {
            self.missing.extend(tracepoints::drop_capabilities().err());
        }
        Ok(())
    }

    /// Passes samples to `collector` until `duration` is over or `goes_on`, which gets the number
    /// of samples, returns false.
    pub(super) fn run(
        &mut self,
        duration: Option<Duration>,
        goes_on: &mut dyn FnMut(u64) -> bool,
        collector: &mut Collector,
    ) {
        let (holders, spun, writes) = (&mut self.holders, &self.spun, &mut self.writes);
        let goes_on = &mut |count| {
            if let Some(holders) = holders {
                holders.look(spun.take(), &mut |seen| writes.of(seen));
            }
            goes_on(count)
        };
        let Some(sampler) = &mut self.sampler else {
            let start = Instant::now();
            while goes_on(0) && duration.is_none_or(|duration| start.elapsed() < duration) {
                thread::sleep(LOOK_EVERY);
            }
            return;
        };
        let symbols = self.symbols.as_ref();
        let symbols = symbols.expect("samples are taken where the kernel's names are known");
        collector.period_ns = sampler.period_ns();
        sampler.run(duration, goes_on, |record| {
            spun.borrow_mut().extend(collector.take(symbols, record));
        });
    }

    /// Returns the recording, and names the layers that contributed.
    pub(super) fn finish(mut self, mut collector: Collector) -> LiveRecording {
        let mut layers = Vec::new();
        let mut lost_count = 0;
        if let Some(sampler) = &self.sampler {
            layers.push(text(sampler));
            lost_count += sampler.threads_left_out;
        }
        layers.extend(self.read_tables(&mut collector));
        let holders = self.finish_holders();
        layers.extend(holders.as_ref().map(|_| HOLDERS.to_owned()));
        let program = self.launch().map(exact::observation);
        let program = program.and_then(|seen| {
            let reason = |reason| format!("exact locks of the program: {reason}");
            let seen = seen.map_err(|error| self.missing.push(reason(error)));
            seen.ok()
        });
        if program.is_some() {
            layers.push(
                "every use of the program's pthread locks, by a preloaded library".to_owned(),
            );
        }
        let mut recording = collector.finish();
        recording.period_ns = self.sampler.as_ref().map_or(0, Sampler::period_ns);
        recording.lost_count += lost_count;
        recording.holders = holders;
        recording.program = program;
        recording.layers = layers;
        recording.missing = self.missing;
        recording
    }

    /// Returns the states of holders, and says what is missing of them.
    fn finish_holders(&mut self) -> Option<LiveHolders> {
        let holders = self.holders.take()?;
        let unwatched = holders.unwatched().map(|(count, reason)| {
            format!("holders of spin locks: {count} threads are not watched: {reason}")
        });
        self.missing.extend(unwatched);
        let reason = |reason| self.missing.push(format!("holders of locks: {reason}"));
        let (spun, writes) = (self.spun.take(), &mut self.writes);
        let seen = holders.finish(spun, &mut |seen| writes.of(seen));
        let seen = seen.map_err(reason).ok()?;
        if seen.lost_count > 0 {
            let text = format!("holders of locks: {} events found no room", seen.lost_count);
            self.missing.push(text);
        }
        Some(seen)
    }

    /// Passes the tables of the BPF programs to `collector`. Returns the layers that could be read.
    fn read_tables(&mut self, collector: &mut Collector) -> Vec<String> {
        let locks = self.tracepoints.as_ref().zip(self.symbols.as_ref().ok());
        let locks = locks.map(|(tracepoints, symbols)| {
            let is_filtered = !tracepoints.takes_others();
            let table = tracepoints.read();
            table.map(|table| {
                let lost_count = collector.waits(symbols, &table.waits, is_filtered);
                losses(table.counts, lost_count)
            })
        });
        let futexes = self.futexes.as_ref().map(|futexes| {
            let table = futexes.read();
            table.map(|table| losses(table.counts, collector.futexes(&table.waits)))
        });
        let mut layers = Vec::new();
        for (layer, short, read) in [
            (TRACEPOINTS, "tracepoints of locks", locks),
            (FUTEX_LAYER, "waits in futex(2)", futexes),
        ] {
            match read {
                Some(Ok(losses)) => {
                    layers.push(layer.to_owned());
                    self.missing.extend(losses);
                }
                Some(Err(reason)) => self.missing.push(format!("{short}: {reason}")),
                None => {}
            }
        }
        layers
    }
}

/// Describes the waits that did not fit in the tables.
pub(super) fn losses(counts: LockWaitCounts, lost_here: u64) -> Option<String> {
    let waits = counts.lost_begins + counts.lost_waits + lost_here;
    let parts = [
        (waits, "waits that found no room"),
        (counts.lost_stacks, "waits without their callers"),
        (counts.lost_processes, "processes that were not followed"),
    ];
    let parts = parts.iter().filter(|(count, _)| *count > 0);
    let parts: Vec<String> = parts
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    (!parts.is_empty()).then(|| format!("tracepoints of locks: {}", parts.join(", ")))
}

pub(super) fn open(target: &Target, frequency: u32) -> Result<Sampler, LiveError> {
    Ok(Sampler::open(target, &online_cpus()?, frequency)?)
}

pub(super) fn text(sampler: &Sampler) -> String {
    let of_whom = match sampler.is_by_thread() {
        true => "of each thread",
        false => "of each CPU",
    };
    let hertz = 1_000_000_000 / sampler.period_ns();
    format!("samples of the CPU clock {of_whom} at {hertz} Hz, with callers")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_found_no_room_is_said() {
        let counts = LockWaitCounts {
            ended: 9,
            lost_begins: 1,
            lost_waits: 2,
            unmatched: 7,
            lost_processes: 5,
            ..LockWaitCounts::default()
        };
        let expected =
            "tracepoints of locks: 7 waits that found no room, 5 processes that were not followed";
        assert_eq!(losses(counts, 4).as_deref(), Some(expected));
        assert_eq!(losses(LockWaitCounts::default(), 0), None);
    }
}
