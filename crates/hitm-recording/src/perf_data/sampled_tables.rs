//! The tables of `perf c2c report`, from the samples of a file.

use std::collections::BTreeMap;
use std::path::Path;

use hitm_files::input_file::{self, NamedBy};
use hitm_perf::c2c::{C2c, Display, MemoryNodes};
use hitm_perf::import::Importer;
use hitm_perf::read::read_facts;
use hitm_perf::{Lives, Sample, Spaces};
use hitm_trace::{Mapping, Record};

use super::PerfDataError;
use super::kernel::{KernelFound, KernelSource};
use super::own::OwnFacts;
use super::pass::{Known, Pass, SampleFormat, read_samples, sample_format};
use super::tables::{C2cReport, Naming};
use crate::recording::contended::Others;

/// Physical memory of each node, by the feature sections of a file.
fn memory_nodes(path: &Path) -> Result<MemoryNodes, PerfDataError> {
    if sample_format(path) != Some(SampleFormat::PerfData) {
        return Ok(MemoryNodes::default());
    }
    let failed = PerfDataError::reading(path);
    let file = input_file::open(path, NamedBy::User).map_err(|error| failed(error.into()))?;
    read_facts(file).map(|facts| facts.memory).map_err(failed)
}

/// The tables of `perf c2c report` for a file of samples.
pub fn tables_of_samples(
    path: &Path,
    kernel: Option<&KernelSource>,
    display: Option<Display>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<C2cReport, PerfDataError> {
    let mut lives = Lives::default();
    // A stream has the memory of its nodes only among its records.
    let mut memory = memory_nodes(path)?;
    let (c2c, perf, spaces) = loop {
        let mut c2c = C2c::of_memory(memory.clone());
        let mut spaces = Spaces::default();
        let mut visit = |_: usize, sample: &Sample, _: &[u64]| {
            spaces.pack(sample.process(), 0);
            c2c.add(sample);
        };
        let perf = read_samples(path, &lives, Others::Kept, &mut visit, progress)?;
        let is_same_memory = !c2c.has_physical() || perf.facts.memory == memory;
        if is_same_memory && perf.world.lives == lives {
            break (c2c, perf, spaces);
        }
        memory = perf.facts.memory;
        lives = perf.world.lives;
    };
    let display = display.unwrap_or(Display::for_arch(&perf.facts.arch));
    let tables = c2c.finish(&perf.world.maps, display);
    let events = perf.events.iter().map(|event| event.name.clone()).collect();
    let mut notes = perf.notes.clone();
    notes.extend(perf.unused.describe());
    let nodes = perf.facts.nodes.clone();
    let node_count = perf.facts.node_count;
    let pass = Pass {
        perf,
        importer: Importer::of_spaces(spaces),
        known: Known::default(),
        own: OwnFacts::default(),
    };
    let mappings = pass
        .mappings(&BTreeMap::new())
        .into_iter()
        .filter_map(|record| match record {
            Record::Mapping(mapping) => Some(mapping),
            _ => None,
        });
    let mut mappings: Vec<Mapping> = mappings.collect();
    let mut names = pass.extra_names();
    KernelFound::find(&mappings, kernel)?.install(&mut mappings, &mut names);
    Ok(C2cReport {
        tables,
        events,
        nodes,
        node_count,
        notes,
        naming: Naming::new(&mappings, names, pass.importer.spaces),
    })
}
