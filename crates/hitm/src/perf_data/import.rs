//! `hitm report` and `hitm import` of perf.data: sampled accesses as a recording.

use std::io::BufWriter;
use std::path::Path;

use hitm_base::{Access, CodeAddr, Outcome};
use hitm_coherence::stats::{CallCollector, Collector, Statistics};
use hitm_perf::Sample;

use super::block_writer::BlockWriter;
use super::kernel::{KernelFound, KernelSource};
use super::pass::{Known, Pass, read_accesses};
use super::weights::Weights;
use super::{PerfDataError, check_apart};
use crate::output_file::OutputFile;
use crate::recording::Recording;

/// Names the kernel's addresses in a recording of samples: from what is given, or else from what
/// caches of this host have under the kernel's build id.
pub fn name_kernel(
    recording: &mut Recording,
    source: Option<&KernelSource>,
) -> Result<(), PerfDataError> {
    let found = KernelFound::find(recording.mappings(), source)?;
    let (mappings, extra) = recording.names_mut();
    found.install(mappings, extra);
    Ok(())
}

/// Reads a file of samples as a recording. The kernel's addresses are named by [`name_kernel`].
pub fn load(path: &Path, progress: &mut dyn FnMut(u64, u64)) -> Result<Recording, PerfDataError> {
    load_with(path, |(), _, _, _| {}, progress).map(|(recording, ())| recording)
}

/// As [`load`], with what the samples stand for.
pub(crate) fn load_weighed(
    path: &Path,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(Recording, Weights), PerfDataError> {
    let add = |weights: &mut Weights, access: &Access, outcome: &Outcome, sample: &Sample| {
        weights.add(access, outcome, sample.period);
    };
    load_with(path, add, progress)
}

/// Reads samples as a recording, and counts them with `add` as well.
fn load_with<T: Default>(
    path: &Path,
    add: impl Fn(&mut T, &Access, &Outcome, &Sample),
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(Recording, T), PerfDataError> {
    let mut count = |known: Known| -> Result<(Pass, Statistics, T), PerfDataError> {
        let (mut collector, mut own) = (Collector::default(), T::default());
        let mut calls = CallCollector::default();
        let mut sink =
            |access: &Access, outcome: &Outcome, sample: &Sample, callers: &[CodeAddr]| {
                collector.add(access, outcome);
                add(&mut own, access, outcome, sample);
                if !callers.is_empty() {
                    calls.add(access, outcome, callers);
                }
            };
        let pass = read_accesses(path, known, &mut sink, progress)?;
        let statistics = Statistics {
            calls: calls.finish(),
            ..collector.finish()
        };
        Ok((pass, statistics, own))
    };
    let (mut pass, mut statistics, mut own) = count(Known::default())?;
    let mut known = Known::default();
    // Whose accesses they are, or which lines are one, is known now: they are counted again.
    while let Some(more) = known.with(&pass.known) {
        known = more;
        (pass, statistics, own) = count(known.clone())?;
    }
    let (header, machine) = pass.header()?;
    let mut recording = Recording::of_parts(header, machine, statistics);
    pass.records()
        .into_iter()
        .for_each(|record| recording.take(record));
    recording.extra_names = pass.extra_names();
    Ok((recording, own))
}

/// What an import wrote.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ImportSummary {
    /// Accesses in the recording.
    pub accesses: u64,
    /// Threads that made them.
    pub threads: u64,
    /// Threads that ended while perf recorded, those without samples included.
    pub ended_threads: u64,
    /// Samples of each event.
    pub events: Vec<(String, u64)>,
    /// What was left out or must be known, one sentence each.
    pub notes: Vec<String>,
}

/// Writes the samples at `from` as a recording to `to`. The file is read twice: a recording begins
/// with what is known only at the end of the samples.
pub fn import(
    from: &Path,
    to: &Path,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<ImportSummary, PerfDataError> {
    check_apart(from, to)?;
    let mut known = Known::default();
    let mut look = |known: &Known| {
        let mut progress = |done, all| progress(done, 2 * all);
        read_accesses(from, known.clone(), &mut |_, _, _, _| {}, &mut progress)
    };
    let mut first = look(&known)?;
    while let Some(more) = known.with(&first.known) {
        let is_whose = more.lives != known.lives;
        known = more;
        // Which lines are one changes nothing of what is written before the accesses.
        if !is_whose {
            break;
        }
        first = look(&known)?;
    }
    let (header, _) = first.header()?;
    let failed = |error: hitm_trace::WriteError| PerfDataError::WriteTrace {
        path: to.into(),
        source: Box::new(error),
    };
    let file = OutputFile::create(to)?;
    let mut writer =
        BlockWriter::new(BufWriter::with_capacity(1 << 20, file), &header).map_err(failed)?;
    let mut records = first.records();
    let end = records.pop();
    for record in &records {
        writer.push(record);
    }
    let mut accesses = 0;
    let mut sink = |access: &Access, outcome: &Outcome, _: &Sample, callers: &[CodeAddr]| {
        accesses += 1;
        writer.push_access(access, outcome, callers);
    };
    read_accesses(from, known, &mut sink, &mut |done, all| {
        progress(all + done, 2 * all)
    })?;
    if let Some(end) = end {
        writer.push(&end);
    }
    writer.finish().map_err(failed)?;
    Ok(ImportSummary {
        accesses,
        threads: first.importer.threads().count() as u64,
        ended_threads: first.perf.world.exits.len() as u64,
        events: first
            .perf
            .events
            .iter()
            .map(|event| (event.name.clone(), event.sample_count))
            .collect(),
        notes: first.notes(),
    })
}
