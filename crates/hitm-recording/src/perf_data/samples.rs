//! A file of samples, read in several passes.

use std::path::PathBuf;

use hitm_base::{Access, CodeAddr, Outcome};
use hitm_coherence::stats::{CallCollector, Statistics};
use hitm_perf::Sample;

use super::import::name_kernel;
use super::pass::{Known, read_accesses};
use super::{KernelSource, PerfDataError};
use crate::recording::contended::{Others, Passed, Source};
use crate::recording::statistics::{Shard, add_call};

/// Samples between two checks for full counts.
const SAMPLES_A_LOOK: u64 = 4096;

/// The samples at a path.
pub(crate) struct SamplesAt<'k> {
    path: PathBuf,
    /// Source of the kernel's names.
    kernel: Option<&'k KernelSource>,
    known: Known,
}

impl<'k> SamplesAt<'k> {
    pub(crate) fn new(path: PathBuf, kernel: Option<&'k KernelSource>) -> SamplesAt<'k> {
        SamplesAt {
            path,
            kernel,
            known: Known::default(),
        }
    }
}

/// Counts of a pass.
struct Counts<S> {
    shards: Vec<S>,
    calls: CallCollector,
    sample_count: u64,
    is_full: bool,
}

impl<S: Shard> Counts<S> {
    #[inline]
    fn add(&mut self, access: &Access, outcome: &Outcome, callers: &[CodeAddr]) {
        if self.is_full {
            return;
        }
        if let [only] = &mut self.shards[..] {
            only.add(access, outcome);
        }
        if !callers.is_empty() {
            add_call(&mut self.calls, &self.shards, access, outcome, callers);
        }
        self.sample_count += 1;
        if self.sample_count.is_multiple_of(SAMPLES_A_LOOK) {
            self.is_full = S::are_full(&self.shards);
            if !S::have_calls(&self.shards) {
                self.calls = CallCollector::default();
            }
        }
    }
}

impl Source for SamplesAt<'_> {
    type Error = PerfDataError;

    /// Samples are decoded one by one: more shards would only be more tables.
    const SHARDS: usize = 1;

    fn read<S: Shard>(
        &mut self,
        others: Others,
        make: &dyn Fn() -> S,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Passed<S>, PerfDataError> {
        let (counts, pass) = loop {
            let mut counts = Counts {
                shards: vec![make()],
                calls: CallCollector::default(),
                sample_count: 0,
                is_full: false,
            };
            let mut sink =
                |access: &Access, outcome: &Outcome, _: &Sample, callers: &[CodeAddr]| {
                    counts.add(access, outcome, callers);
                };
            let known = self.known.clone();
            let pass = read_accesses(&self.path, known, others, &mut sink, progress)?;
            let more = match others {
                Others::Kept => self.known.with(&pass.known),
                Others::PassedOver => None,
            };
            // This pass found reused numbers or aliases: the samples are counted again with them.
            match more {
                Some(more) => self.known = more,
                None => break (counts, pass),
            }
        };
        let mut recording = match others {
            Others::Kept => pass.recording(Statistics::default())?,
            Others::PassedOver => pass.empty_recording()?,
        };
        if others == Others::Kept {
            name_kernel(&mut recording, self.kernel)?;
        }
        Ok(Passed {
            recording,
            shards: counts.shards,
            calls: counts.calls,
            is_stopped: counts.is_full,
        })
    }
}
