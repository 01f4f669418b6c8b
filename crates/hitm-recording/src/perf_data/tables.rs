//! The tables of `perf c2c report` for a recording: those that perf would show of its export.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use hitm_base::{Access, Outcome};
use hitm_layout::Symbolizer;
use hitm_perf::c2c::{C2c, Display, Row, Tables};
use hitm_perf::export::Sampler;
use hitm_perf::maps::{AddressMaps, Map, is_anonymous_name};
use hitm_perf::write::MmapInfo;
use hitm_perf::{CpuMode, Spaces, TaskId};
use hitm_trace::{Mapping, Record, Visitor};

use super::PerfDataError;
use super::export::{Scene, tid_of};
use super::kernel::{ExtraNames, KernelFound, KernelSource};
use crate::recording::{RecordingFile, symbolizer};

/// perf's tables, and the facts needed to show them.
pub struct C2cReport {
    /// Lines, rows and counts.
    pub tables: Tables,
    /// Names of the sampled events.
    pub events: Vec<String>,
    /// The NUMA node of each CPU, by number.
    pub nodes: Vec<Option<u32>>,
    /// Number of nodes.
    pub node_count: u32,
    /// Notes for the reader of the tables, one sentence each.
    pub notes: Vec<String>,
    pub(super) naming: Naming,
}

/// Names for the instructions of all processes.
pub(super) struct Naming {
    symbolizer: RefCell<Symbolizer<'static>>,
    extra: ExtraNames,
    spaces: Spaces,
}

impl Naming {
    /// `mappings` are in the common space of the processes.
    pub(super) fn new(mappings: &[Mapping], extra: ExtraNames, spaces: Spaces) -> Naming {
        Naming {
            symbolizer: RefCell::new(symbolizer(mappings.iter())),
            extra,
            spaces,
        }
    }
}

impl fmt::Debug for C2cReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("C2cReport")
            .field("tables", &self.tables)
            .finish_non_exhaustive()
    }
}

/// Source position of an instruction, as perf shows it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RowPlace {
    /// The function that the linker knows, empty when none is known.
    pub function: String,
    /// The source file of the instruction, empty when unknown.
    pub file: String,
    /// The line in it, 0 when unknown.
    pub line: u32,
    /// The file that holds the instruction, empty when unknown.
    pub object: String,
    /// The instruction is in the kernel.
    pub is_kernel: bool,
}

/// Builds the tables for the recording at `path`, every access a sample.
pub fn tables_of_recording(
    path: &Path,
    kernel: Option<&KernelSource>,
    display: Option<Display>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<C2cReport, PerfDataError> {
    let scene = Scene::read(path, &mut |read, all| progress(read, 2 * all))?;
    let mut counter = Counter {
        c2c: C2c::default(),
        sampler: Sampler::new(1, scene.header.clock, scene.origin.clone()),
        tids: scene.tids.clone(),
    };
    RecordingFile::open(path)?
        .visit(&mut counter, &mut |read, all| progress(all + read, 2 * all))?;
    let maps = address_maps(scene.mmaps());
    let display = display.unwrap_or(Display::for_arch(&scene.header.arch));
    let topology = &scene.machine.topology;
    let nodes = topology
        .cpus()
        .map(|cpu| Some(topology.node_of(cpu).into()));
    let (mut mappings, mut extra) = (scene.mappings().to_vec(), ExtraNames::default());
    KernelFound::find(&mappings, kernel)?.install(&mut mappings, &mut extra);
    Ok(C2cReport {
        tables: counter.c2c.finish(&maps, display),
        events: scene.event_names(),
        nodes: nodes.collect(),
        node_count: topology.node_count() as u32,
        notes: Vec::new(),
        naming: Naming::new(&mappings, extra, scene.spaces()),
    })
}

impl C2cReport {
    /// Source position of a row's instruction.
    pub fn place(&self, row: &Row) -> RowPlace {
        let naming = &self.naming;
        let code = naming
            .spaces
            .pack_known(row.process, row.ip)
            .unwrap_or(row.ip);
        let is_kernel = CpuMode::of_code(row.ip) == CpuMode::Kernel;
        let kernel_object = || is_kernel.then(|| "[kernel]".to_owned());
        if let Some(function) = naming.extra.code(code) {
            return RowPlace {
                function,
                object: kernel_object().unwrap_or_default(),
                is_kernel,
                ..RowPlace::default()
            };
        }
        let name = naming.symbolizer.borrow_mut().code(code);
        let location = name.location;
        // perf names the linker's symbol, and the line of what was inlined into it.
        let symbol = location.symbol.map(|(name, _)| name);
        RowPlace {
            function: symbol.or(location.function).unwrap_or_default(),
            file: location.file.unwrap_or_default(),
            line: location.line.unwrap_or(0),
            object: kernel_object().or(name.path).unwrap_or_default(),
            is_kernel,
        }
    }
}

struct Counter {
    c2c: C2c,
    sampler: Sampler,
    tids: Vec<u32>,
}

impl Visitor for Counter {
    fn access(&mut self, access: &Access, outcome: &Outcome) {
        let tid = tid_of(&self.tids, access.thread);
        if let Some((_, sample)) = self.sampler.sample(tid, access, outcome) {
            self.c2c.add(&sample);
        }
    }

    fn record(&mut self, _: Record) {}
}

/// The mappings that a reader of the exported file would see.
fn address_maps(mmaps: impl Iterator<Item = MmapInfo>) -> AddressMaps {
    let mut maps = AddressMaps::default();
    let mut files: BTreeMap<String, usize> = BTreeMap::new();
    for mmap in mmaps {
        let next = files.len();
        let index = match files.get(&mmap.path) {
            Some(known) => *known,
            None => *files.entry(mmap.path.clone()).or_insert(next),
        };
        let is_anonymous = is_anonymous_name(&mmap.path);
        // As in the exported file: a name that is no path has no inode.
        let file = match mmap.path.starts_with('/') && !is_anonymous {
            true => [1, 0, index as u64 + 1, 0],
            false => [0; 4],
        };
        maps.insert(
            TaskId {
                id: mmap.pid,
                life: mmap.life,
            },
            Map {
                start: mmap.start,
                end: mmap.end,
                file_offset: mmap.file_offset,
                file,
                is_shared: false,
                executable: mmap.executable,
                is_writable: !mmap.executable,
                path: index as u32,
                is_anonymous,
            },
        );
    }
    maps
}
