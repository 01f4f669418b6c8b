//! `hitm export --perf-data`: a recording as a perf.data file.
//!
//! The recording is read twice: mappings come first in the file that is written, because perf names
//! an address by what was mapped before its time.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter};
use std::path::Path;

use hitm_base::{Access, AccessOp, Machine, Outcome, ThreadId};
use hitm_perf::export::{Sampler, TIME_ORIGIN_NS};
use hitm_perf::write::{CpuInfo, FileInfo, MmapInfo, Moment, PerfDataWriter};
use hitm_perf::{EventKind, Sample};
use hitm_trace::{
    Header, Mapping, Record, Region, RegionKind, ThreadExit, ThreadStart, TraceReader, Visitor,
};

use super::PerfDataError;
use crate::recording::RecordingError;

/// What was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ExportSummary {
    /// Samples of loads and locked operations.
    pub load_samples: u64,
    /// Samples of stores.
    pub store_samples: u64,
    /// Accesses that the recording holds.
    pub accesses: u64,
    /// Fences, which no sample can show.
    pub fences: u64,
    /// Bytes of the recording that were damaged and are missing from the export.
    pub missing_bytes: u64,
}

/// Writes the recording at `from` as perf.data to `to`; every `period`th load and store becomes a
/// sample. `progress` is told how many bytes of how many have been read, both times together.
pub fn export(
    from: &Path,
    to: &Path,
    period: u64,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<ExportSummary, PerfDataError> {
    let scene = Scene::read(from, &mut |read, all| progress(read, 2 * all))?;
    let failed = |source| PerfDataError::Write {
        path: to.into(),
        source,
    };
    let file = BufWriter::with_capacity(1 << 20, File::create(to).map_err(failed)?);
    let mut exporter = Exporter::new(&scene, file, period).map_err(failed)?;
    visit(from, &mut exporter, &mut |read, all| {
        progress(all + read, 2 * all)
    })?;
    exporter.finish(&scene).map_err(failed)
}

/// What must be known of a recording before its first access.
#[derive(Debug)]
pub(super) struct Scene {
    pub(super) header: Header,
    pub(super) machine: Machine,
    mappings: Vec<Mapping>,
    regions: Vec<Region>,
    /// What each thread did, as far as it was told; the last of each.
    exits: BTreeMap<ThreadId, ThreadExit>,
    /// The tid of the first thread, which is the process's id.
    pub(super) pid: u32,
    missing_bytes: u64,
}

#[derive(Default)]
struct SceneVisitor {
    mappings: Vec<Mapping>,
    regions: Vec<Region>,
    exits: BTreeMap<ThreadId, ThreadExit>,
    pid: Option<u32>,
}

impl Visitor for SceneVisitor {
    fn access(&mut self, _: &Access, _: &Outcome) {}

    fn record(&mut self, record: Record) {
        match record {
            Record::Mapping(mapping) => self.mappings.push(mapping),
            Record::Region(region) => self.regions.push(region),
            Record::ThreadExit(exit) => {
                self.exits.insert(exit.thread, exit);
            }
            Record::ThreadStart(start) => {
                self.pid.get_or_insert(start.tid);
            }
            _ => {}
        }
    }
}

impl Scene {
    pub(super) fn read(
        path: &Path,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Scene, RecordingError> {
        let mut visitor = SceneVisitor::default();
        let (header, missing_bytes) = visit(path, &mut visitor, progress)?;
        let machine =
            Machine::from_toml(&header.machine_toml, "machine model").map_err(|source| {
                RecordingError::Machine {
                    path: path.into(),
                    source: source.into(),
                }
            })?;
        Ok(Scene {
            header,
            machine,
            mappings: visitor.mappings,
            regions: visitor.regions,
            exits: visitor.exits,
            // perf takes process 0 for the idle task.
            pid: visitor.pid.filter(|pid| *pid > 0).unwrap_or(1),
            missing_bytes,
        })
    }

    /// Everything that is mapped, as perf is told of it: what comes later hides what came before.
    pub(super) fn mmaps(&self) -> Vec<MmapInfo> {
        let files = self.mappings.iter().map(|mapping| MmapInfo {
            pid: self.pid,
            start: mapping.start,
            end: mapping.end,
            file_offset: mapping.file_offset,
            executable: mapping.executable,
            path: mapping.path.clone(),
            build_id: mapping.build_id.clone(),
        });
        let regions = self.regions.iter().map(|region| MmapInfo {
            pid: self.pid,
            start: region.start,
            end: region.end,
            file_offset: 0,
            executable: false,
            path: match region.kind {
                RegionKind::Stack { .. } => "[stack]",
                RegionKind::AnonymousMap { .. } => "//anon",
                RegionKind::Brk => "[heap]",
            }
            .to_owned(),
            build_id: Vec::new(),
        });
        files.chain(regions).collect()
    }

    /// The files that are mapped.
    pub(super) fn mappings(&self) -> &[Mapping] {
        &self.mappings
    }

    fn info(&self) -> FileInfo {
        let topology = &self.machine.topology;
        let cpus = topology.cpus().map(|cpu| CpuInfo {
            core: topology.core_of(cpu).into(),
            package: topology.package_of(cpu).into(),
            node: topology.node_of(cpu).into(),
        });
        FileInfo {
            hostname: self.machine.name.clone(),
            version: format!("hitm {}", self.header.hitm_version),
            arch: self.header.arch.clone(),
            cpu_description: self.machine.description.clone(),
            cpuid: "hitm,0,0,0".to_owned(),
            command: self.header.args.clone(),
            cpus: cpus.collect(),
        }
    }
}

/// Reads a recording from front to back; returns its header and how many bytes were damaged.
pub(super) fn visit<V: Visitor>(
    path: &Path,
    visitor: &mut V,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(Header, u64), RecordingError> {
    let open_failed = |source| RecordingError::Open {
        path: path.into(),
        source,
    };
    let read_failed = |source: hitm_trace::ReadError| RecordingError::Read {
        path: path.into(),
        source: source.into(),
    };
    let file = File::open(path).map_err(open_failed)?;
    let all = file.metadata().map_err(open_failed)?.len();
    let mut reader =
        TraceReader::new(BufReader::with_capacity(1 << 20, file)).map_err(read_failed)?;
    while let Some(chunk) = reader.next_chunk().map_err(read_failed)? {
        let block = hitm_trace::decode_chunk(&chunk).map_err(read_failed)?;
        block.visit(visitor).map_err(read_failed)?;
        progress(chunk.offset() + chunk.stored_len() as u64, all);
    }
    Ok((reader.header().clone(), reader.recovery().missing_bytes))
}

/// Writes records as they are read. The first failure is kept and ends the writing.
struct Exporter {
    writer: PerfDataWriter<BufWriter<File>>,
    sampler: Sampler,
    pid: u32,
    /// Tids by the recording's thread number.
    tids: Vec<u32>,
    summary: ExportSummary,
    failure: Option<io::Error>,
}

impl Exporter {
    fn new(scene: &Scene, file: BufWriter<File>, period: u64) -> io::Result<Exporter> {
        let mut writer = PerfDataWriter::new(file, period)?;
        let at = Moment {
            pid: scene.pid,
            tid: scene.pid,
            cpu: 0,
            time_ns: TIME_ORIGIN_NS,
        };
        let program = scene
            .header
            .args
            .first()
            .map_or("hitm", |arg| arg.rsplit('/').next().unwrap_or(arg));
        writer.comm(at, program, true)?;
        for mmap in scene.mmaps() {
            writer.mmap(at, &mmap)?;
        }
        Ok(Exporter {
            writer,
            sampler: Sampler::new(period, scene.header.clock, scene.pid),
            pid: scene.pid,
            tids: Vec::new(),
            summary: ExportSummary {
                missing_bytes: scene.missing_bytes,
                ..ExportSummary::default()
            },
            failure: None,
        })
    }

    fn finish(self, scene: &Scene) -> io::Result<ExportSummary> {
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        let mut writer = self.writer;
        for exit in scene.exits.values() {
            writer.exit(Moment {
                pid: self.pid,
                tid: tid_of(&self.tids, exit.thread),
                cpu: 0,
                time_ns: self.sampler.time_ns(exit.time),
            })?;
        }
        writer.finish(&scene.info())?;
        Ok(self.summary)
    }

    fn keep(&mut self, result: io::Result<()>) {
        if let Err(failure) = result {
            self.failure.get_or_insert(failure);
        }
    }

    fn start(&mut self, start: &ThreadStart) -> io::Result<()> {
        let index = start.thread.index();
        let is_new = self.tids.get(index).is_none_or(|tid| *tid == 0);
        note_tid(&mut self.tids, start.thread, start.tid);
        let at = Moment {
            pid: self.pid,
            tid: start.tid,
            cpu: start.cpu.0.into(),
            time_ns: self.sampler.time_ns(start.time),
        };
        if is_new && start.tid != self.pid {
            self.writer.fork(at, self.pid)?;
        }
        self.writer.comm(at, &start.name, false)
    }
}

impl Visitor for Exporter {
    fn access(&mut self, access: &Access, outcome: &Outcome) {
        if self.failure.is_some() {
            return;
        }
        self.summary.accesses += 1;
        self.summary.fences += u64::from(access.op == AccessOp::Fence);
        let tid = tid_of(&self.tids, access.thread);
        if let Some((kind, sample)) = self.sampler.sample(tid, access, outcome) {
            self.write(kind, &sample);
        }
    }

    fn record(&mut self, record: Record) {
        if let Record::ThreadStart(start) = record
            && self.failure.is_none()
        {
            let result = self.start(&start);
            self.keep(result);
        }
    }
}

impl Exporter {
    fn write(&mut self, kind: EventKind, sample: &Sample) {
        match kind {
            EventKind::Loads => self.summary.load_samples += 1,
            EventKind::Stores => self.summary.store_samples += 1,
        }
        let result = self.writer.sample(kind, sample);
        self.keep(result);
    }
}

/// Remembers the tid of a thread.
pub(super) fn note_tid(tids: &mut Vec<u32>, thread: ThreadId, tid: u32) {
    /// Threads that a recording can have and a table of tids can hold.
    const THREADS_MAX: usize = 1 << 22;
    let index = thread.index();
    if index < THREADS_MAX {
        if index >= tids.len() {
            tids.resize(index + 1, 0);
        }
        tids[index] = tid;
    }
}

/// The tid of a thread, 0 when the recording does not say.
pub(super) fn tid_of(tids: &[u32], thread: ThreadId) -> u32 {
    tids.get(thread.index()).copied().unwrap_or(0)
}
