//! `hitm report` and `hitm import` of perf.data: sampled accesses as a recording.

use std::io::BufWriter;
use std::path::Path;

use hitm_base::{Access, CodeAddr, Outcome};
use hitm_coherence::stats::{CallCollector, Collector, Statistics};
use hitm_files::output_file::OutputFile;
use hitm_perf::Sample;

use super::kernel::{KernelFound, KernelSource};
use super::pass::{Known, Pass, read_accesses};
use super::samples::SamplesAt;
use super::weights::Weights;
use super::{PerfDataError, check_apart};
use crate::BlockWriter;
use crate::recording::Recording;
use crate::recording::contended::{self, Others, Wanted};

/// Names the kernel's addresses in a recording of samples: from the given source, or else from this
/// host's caches under the kernel's build id.
pub fn name_kernel(
    recording: &mut Recording,
    source: Option<&KernelSource>,
) -> Result<(), PerfDataError> {
    let found = KernelFound::find(recording.mappings(), source)?;
    let (mappings, extra) = recording.names_mut();
    found.install(mappings, extra);
    Ok(())
}

/// Loads a file of samples as a recording, with the kernel's names as by [`name_kernel`]. Above a
/// limit of rows, lines that lost least are only summed up.
pub fn load(
    path: &Path,
    kernel: Option<&KernelSource>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Recording, PerfDataError> {
    let mut samples = SamplesAt::new(path.into(), kernel);
    contended::load(&mut samples, contended::OF_REPORT, progress)
}

/// Like [`load`], for a report of one type: above a limit of rows, lines without an object of
/// `type_name` are only summed up.
pub fn load_type(
    path: &Path,
    type_name: &str,
    kernel: Option<&KernelSource>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Recording, PerfDataError> {
    let mut samples = SamplesAt::new(path.into(), kernel);
    contended::load(&mut samples, Wanted::Type(type_name), progress)
}

/// Loads a file of samples as a recording with all rows, and the weights of the samples.
/// [`name_kernel`] names the kernel's addresses.
pub fn load_weighed(
    path: &Path,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(Recording, Weights), PerfDataError> {
    let mut count = |known: Known| -> Result<(Pass, Statistics, Weights), PerfDataError> {
        let (mut collector, mut weights) = (Collector::default(), Weights::default());
        let mut calls = CallCollector::default();
        let mut sink =
            |access: &Access, outcome: &Outcome, sample: &Sample, callers: &[CodeAddr]| {
                collector.add(access, outcome);
                weights.add(access, outcome, sample.period);
                if !callers.is_empty() {
                    calls.add(access, outcome, callers);
                }
            };
        let pass = read_accesses(path, known, Others::Kept, &mut sink, progress)?;
        let statistics = Statistics {
            calls: calls.finish(),
            ..collector.finish()
        };
        Ok((pass, statistics, weights))
    };
    let (mut pass, mut statistics, mut weights) = count(Known::default())?;
    let mut known = Known::default();
    // This pass found reused numbers or aliases: the samples are counted again with them.
    while let Some(more) = known.with(&pass.known) {
        known = more;
        (pass, statistics, weights) = count(known.clone())?;
    }
    Ok((pass.recording(statistics)?, weights))
}

/// Result of an import.
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
    /// Omissions and other notes, one sentence each.
    pub notes: Vec<String>,
}

/// Writes the samples at `from` as a recording to `to`. The file is read twice: the start of a
/// recording needs facts that are known only at the end of the samples.
pub fn import(
    from: &Path,
    to: &Path,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<ImportSummary, PerfDataError> {
    check_apart(from, to)?;
    let mut known = Known::default();
    let mut look = |known: &Known| {
        let mut progress = |done, all| progress(done, 2 * all);
        read_accesses(
            from,
            known.clone(),
            Others::Kept,
            &mut |_, _, _, _| {},
            &mut progress,
        )
    };
    let mut first = look(&known)?;
    while let Some(more) = known.with(&first.known) {
        let is_whose = more.lives != known.lives;
        known = more;
        // Aliases change nothing that is written before the accesses.
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
    let mut file = OutputFile::create(to)?;
    let buffer = BufWriter::with_capacity(1 << 20, &mut file);
    let mut writer = BlockWriter::new(buffer, &header).map_err(failed)?;
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
    let mut progress = |done, all| progress(all + done, 2 * all);
    read_accesses(from, known, Others::PassedOver, &mut sink, &mut progress)?;
    if let Some(end) = end {
        writer.push(&end);
    }
    writer.finish().map_err(failed)?;
    file.commit()?;
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
