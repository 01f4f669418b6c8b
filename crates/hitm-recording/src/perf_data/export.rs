//! `hitm export --perf-data`: a recording as a perf.data file.
//!
//! The recording is read twice: the written file needs its mappings first, because perf names an
//! address by the mappings before its time.

use std::collections::BTreeMap;
use std::io::{self, BufWriter};
use std::path::Path;
use std::sync::Arc;

use hitm_base::{Access, AccessOp, AddrRange, CodeAddr, CpuId, Cycles, Machine, Outcome, ThreadId};
use hitm_files::output_file::OutputFile;
use hitm_perf::export::{Origin, Sampler, TIME_ORIGIN_NS};
use hitm_perf::maps::KERNEL;
use hitm_perf::write::{
    CpuInfo, FileInfo, LOADS_NAME, MmapInfo, Moment, PerfDataWriter, STORES_NAME, SampleForm,
};
use hitm_perf::{EventKind, Sample, Spaces, TaskId};
use hitm_trace::{
    Header, Mapping, Record, RegionKind, SampledProcess, ThreadExit, ThreadStart, Visitor,
};

use super::own;
use super::{PerfDataError, check_apart};
use crate::recording::{Budget, Objects, RecordingError, RecordingFile};

/// Contents of the written file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ExportSummary {
    /// Samples of loads and locked operations.
    pub load_samples: u64,
    /// Samples of stores.
    pub store_samples: u64,
    /// Accesses that the recording holds.
    pub accesses: u64,
    /// Fences, which no sample can show.
    pub fences: u64,
    /// Samples whose call chains are cut to fit a record of perf.data: the outermost callers are
    /// missing.
    pub cut_chains: u64,
    /// Bytes of the recording that were damaged and are missing from the export.
    pub missing_bytes: u64,
    /// Other omissions, in words.
    pub left_out: Vec<String>,
}

/// Writes the recording at `from` as perf.data to `to`; every `period`th load and store becomes a
/// sample. `progress` gets the bytes read so far and in all, over both readings.
pub fn export(
    from: &Path,
    to: &Path,
    period: u64,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<ExportSummary, PerfDataError> {
    check_apart(from, to)?;
    let scene = Scene::read(from, &mut |read, all| progress(read, 2 * all))?;
    let failed = |source| PerfDataError::Write {
        path: to.into(),
        source,
    };
    let mut file = OutputFile::create(to)?;
    let buffer = BufWriter::with_capacity(1 << 20, &mut file);
    let mut exporter = Exporter::new(&scene, buffer, period).map_err(failed)?;
    RecordingFile::open(from)?.visit(&mut exporter, &mut |read, all| {
        progress(all + read, 2 * all)
    })?;
    let summary = exporter.finish(&scene, period).map_err(failed)?;
    file.commit()?;
    Ok(summary)
}

/// Parts of a recording that must be known before its first access.
#[derive(Debug)]
pub(super) struct Scene {
    pub(super) header: Header,
    pub(super) machine: Machine,
    objects: Objects,
    /// Last exit record of each thread.
    exits: BTreeMap<ThreadId, ThreadExit>,
    /// Source of the accesses.
    pub(super) origin: Origin,
    /// Tids by the recording's thread number.
    pub(super) tids: Vec<u32>,
    /// Last name of each thread.
    names: BTreeMap<ThreadId, String>,
    /// Accesses have call chains.
    has_callers: bool,
    missing_bytes: u64,
    /// Omissions, in words.
    left_out: Vec<String>,
}

#[derive(Default)]
struct SceneVisitor {
    objects: Objects,
    budget: Budget,
    exits: BTreeMap<ThreadId, ThreadExit>,
    pid: Option<u32>,
    tids: Vec<u32>,
    names: BTreeMap<ThreadId, String>,
    has_callers: bool,
}

impl Visitor for SceneVisitor {
    fn access(&mut self, _: &Access, _: &Outcome) {}

    fn record(&mut self, record: Record) {
        match record {
            Record::Mapping(mapping) => self.objects.add_mapping(mapping, &mut self.budget),
            Record::Region(region) => self.objects.add_region(region, &mut self.budget),
            Record::HeapObject(object) => self.objects.add_heap(object, &mut self.budget),
            Record::ThreadExit(exit) if self.names.contains_key(&exit.thread) => {
                self.exits.insert(exit.thread, exit);
            }
            Record::ThreadStart(start) => {
                self.pid.get_or_insert(start.tid);
                let bytes = size_of::<ThreadExit>() + start.name.len();
                if self.budget.admits("threads", bytes) {
                    note_tid(&mut self.tids, start.thread, start.tid);
                    self.names.insert(start.thread, start.name);
                }
            }
            Record::Callers(_) => self.has_callers = true,
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
        let mut file = RecordingFile::open(path)?;
        let header = file.header().clone();
        let machine = file.machine()?;
        file.visit(&mut visitor, progress)?;
        // perf takes process 0 for the idle task.
        let pid = visitor.pid.filter(|pid| *pid > 0).unwrap_or(1);
        let origin = match &header.sampled {
            Some(sampled) => {
                let processes = sampled.processes.iter().map(task_of);
                Origin::Samples(Spaces::of(processes))
            }
            None => Origin::Process(pid),
        };
        Ok(Scene {
            header,
            machine,
            objects: visitor.objects,
            exits: visitor.exits,
            origin,
            tids: visitor.tids,
            names: visitor.names,
            has_callers: visitor.has_callers,
            missing_bytes: file.missing_bytes(),
            left_out: visitor.budget.describe().collect(),
        })
    }

    /// Spaces of the sampled processes, none for a recorded one.
    pub(super) fn spaces(&self) -> Spaces {
        match &self.origin {
            Origin::Process(_) => Spaces::default(),
            Origin::Samples(spaces) => spaces.clone(),
        }
    }

    /// Names of the sampled events, or those by which perf knows a c2c recording.
    pub(super) fn event_names(&self) -> Vec<String> {
        match &self.header.sampled {
            Some(sampled) => sampled
                .events
                .iter()
                .map(|event| event.name.clone())
                .collect(),
            None => vec![LOADS_NAME.to_owned(), STORES_NAME.to_owned()],
        }
    }

    /// All mappings, in the order in which perf is to read them: later ones hide earlier ones.
    pub(super) fn mmaps(&self) -> impl Iterator<Item = MmapInfo> + '_ {
        // Mappings of a sampled kernel name its addresses here; perf finds its own.
        let of_process = |mapping: &&Mapping| self.origin.place(mapping.range.start()).0.is_some();
        let files = self.objects.mappings.iter().filter(of_process);
        let files = files.map(|mapping| MmapInfo {
            file_offset: mapping.file_offset,
            executable: mapping.executable,
            build_id: mapping.build_id.clone(),
            ..self.mmap(mapping.range, &mapping.path)
        });
        let regions = self.objects.regions.iter();
        let regions = regions.filter_map(|region| {
            let path = match region.kind {
                RegionKind::Stack { .. } => "[stack]",
                RegionKind::AnonymousMap { .. } => "//anon",
                RegionKind::Brk => "[heap]",
                // Objects of a kernel are not mappings.
                RegionKind::Object { .. }
                | RegionKind::Slab { .. }
                | RegionKind::PerCpu { .. }
                | RegionKind::UserMemory { .. } => return None,
            };
            Some(self.mmap(region.range, path))
        });
        files.chain(regions)
    }

    /// Mapping of a range, in the process that it belongs to.
    fn mmap(&self, range: AddrRange, path: &str) -> MmapInfo {
        let (process, start) = self.origin.place(range.start());
        let process = process.unwrap_or(KERNEL);
        MmapInfo {
            pid: process.id,
            life: process.life,
            start,
            end: start.saturating_add(range.len()),
            file_offset: 0,
            executable: false,
            path: path.to_owned(),
            build_id: Vec::new(),
        }
    }

    /// Processes, the begin of each, and its name when no thread has that name.
    fn begins(&self) -> Vec<(TaskId, u64, Option<&str>)> {
        let program = self.header.args.first();
        let program = program.map_or("hitm", |arg| arg.rsplit('/').next().unwrap_or(arg));
        let Some(sampled) = &self.header.sampled else {
            let process = self.origin.process();
            return vec![(process, TIME_ORIGIN_NS, Some(program))];
        };
        let processes = sampled.processes.iter();
        let begins = processes.map(|process| {
            let time_ns = process.began_ns.max(START_NS);
            (task_of(process), time_ns, Some(process.name.as_str()))
        });
        begins.collect()
    }

    /// Mapped files.
    pub(super) fn mappings(&self) -> &[Mapping] {
        &self.objects.mappings
    }

    /// Section of what perf.data has no place for; none if a file cannot hold it. A file has the times of threads
    /// only if it has every access: they say how much of the run the accesses lost.
    fn own(&self, has_every_access: bool) -> Option<Vec<u8>> {
        let threads = self.names.iter().filter(|_| has_every_access);
        let threads = threads.map(|(thread, name)| {
            Record::ThreadStart(ThreadStart {
                thread: *thread,
                tid: tid_of(&self.tids, *thread),
                cpu: CpuId(0),
                time: Cycles::ZERO,
                name: name.clone(),
                seat: 0,
                process: 0,
            })
        });
        let exits = self.exits.values().filter(|_| has_every_access);
        let exits = exits.map(|exit| Record::ThreadExit(*exit));
        let regions = self.objects.regions.iter();
        let regions = regions.filter(|region| own::has_site(region));
        let regions = regions.map(|region| Record::Region(region.clone()));
        let blocks = self.objects.heap_blocks().map(own::heap_record);
        let records = threads.chain(exits).chain(regions).chain(blocks);
        own::encode(&self.header, records)
    }

    fn info(&self, own: Vec<u8>) -> FileInfo {
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
            own,
        }
    }
}

/// Writes records as they are read. The first failure is kept and ends the writing.
struct Exporter<'f> {
    writer: PerfDataWriter<BufWriter<&'f mut OutputFile>>,
    sampler: Sampler,
    /// Tids by the recording's thread number.
    tids: Vec<u32>,
    /// Names by thread.
    names: BTreeMap<ThreadId, String>,
    /// Threads whose start was written, and their processes.
    started: BTreeMap<ThreadId, u32>,
    /// Callers of the next access.
    callers: Option<Arc<[CodeAddr]>>,
    summary: ExportSummary,
    failure: Option<io::Error>,
}

impl<'f> Exporter<'f> {
    fn new(
        scene: &Scene,
        file: BufWriter<&'f mut OutputFile>,
        period: u64,
    ) -> io::Result<Exporter<'f>> {
        let form = SampleForm {
            period,
            has_callers: scene.has_callers,
        };
        let mut writer = PerfDataWriter::new(file, form)?;
        let begins = scene.begins();
        for (process, time_ns, name) in &begins {
            let at = moment(*process, *time_ns);
            if process.life > 0 {
                // The number's earlier owner has ended.
                writer.exit(at)?;
                writer.fork_process(at)?;
            }
            if let Some(name) = name {
                writer.comm(at, name, true)?;
            }
        }
        let began_ns: BTreeMap<TaskId, u64> = begins
            .iter()
            .map(|(process, time_ns, _)| (*process, *time_ns))
            .collect();
        for mmap in scene.mmaps() {
            let process = TaskId {
                id: mmap.pid,
                life: mmap.life,
            };
            let time_ns = began_ns.get(&process).copied().unwrap_or(START_NS);
            writer.mmap(moment(process, time_ns), &mmap)?;
        }
        Ok(Exporter {
            writer,
            sampler: Sampler::new(period, scene.header.clock, scene.origin.clone()),
            tids: scene.tids.clone(),
            names: scene.names.clone(),
            started: BTreeMap::new(),
            callers: None,
            summary: ExportSummary {
                missing_bytes: scene.missing_bytes,
                left_out: scene.left_out.clone(),
                ..ExportSummary::default()
            },
            failure: None,
        })
    }

    fn finish(mut self, scene: &Scene, period: u64) -> io::Result<ExportSummary> {
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        let mut writer = self.writer;
        for exit in scene.exits.values() {
            let own = self.started.get(&exit.thread).copied();
            writer.exit(Moment {
                pid: own.unwrap_or_else(|| scene.origin.process().id),
                tid: tid_of(&self.tids, exit.thread),
                cpu: 0,
                time_ns: self.sampler.time_ns(exit.time),
            })?;
        }
        let cut_chains = writer.cut_chain_count();
        let own = scene.own(period == 1);
        if own.is_none() {
            let missing = "the machine model, blocks of the heap and the threads' times take more than perf.data can \
                           hold in one section: a report of this file does not have them";
            self.summary.left_out.push(missing.to_owned());
        }
        writer.finish(&scene.info(own.unwrap_or_default()))?;
        Ok(ExportSummary {
            cut_chains,
            ..self.summary
        })
    }

    fn keep(&mut self, result: io::Result<()>) {
        if let Err(failure) = result {
            self.failure.get_or_insert(failure);
        }
    }

    /// Writes a thread's start and name, before its first sample.
    fn start(&mut self, thread: ThreadId, sample: &Sample) -> io::Result<()> {
        let at = Moment {
            pid: sample.pid,
            tid: sample.tid,
            cpu: sample.cpu,
            time_ns: sample.time_ns,
        };
        if sample.tid != sample.pid {
            self.writer.fork(at, sample.pid)?;
        }
        match self.names.get(&thread) {
            Some(name) => self.writer.comm(at, name, false),
            None => Ok(()),
        }
    }
}

impl Visitor for Exporter<'_> {
    fn access(&mut self, access: &Access, outcome: &Outcome) {
        let callers = self.callers.take();
        if self.failure.is_some() {
            return;
        }
        self.summary.accesses += 1;
        self.summary.fences += u64::from(access.op == AccessOp::Fence);
        let tid = tid_of(&self.tids, access.thread);
        if let Some((kind, sample)) = self.sampler.sample(tid, access, outcome) {
            if self.started.insert(access.thread, sample.pid).is_none() {
                let result = self.start(access.thread, &sample);
                self.keep(result);
            }
            self.write(kind, &sample, callers.as_deref().unwrap_or_default());
        }
    }

    fn record(&mut self, record: Record) {
        if let Record::Callers(callers) = record {
            self.callers = Some(callers);
        }
    }
}

impl Exporter<'_> {
    fn write(&mut self, kind: EventKind, sample: &Sample, callers: &[CodeAddr]) {
        match kind {
            EventKind::Loads => self.summary.load_samples += 1,
            EventKind::Stores => self.summary.store_samples += 1,
        }
        let callers: Vec<u64> = callers
            .iter()
            .map(|caller| self.sampler.place(caller.0))
            .collect();
        let result = self.writer.sample(kind, sample, &callers);
        self.keep(result);
    }
}

/// Time of records that precede the first sample: perf does not order events at 0.
const START_NS: u64 = 1;

/// Process of a header.
fn task_of(process: &SampledProcess) -> TaskId {
    TaskId {
        id: process.pid,
        life: process.life.try_into().unwrap_or(u16::MAX),
    }
}

/// Time and place of a process's record.
fn moment(process: TaskId, time_ns: u64) -> Moment {
    Moment {
        pid: process.id,
        tid: process.id,
        cpu: 0,
        time_ns,
    }
}

/// Stores the tid of a thread.
fn note_tid(tids: &mut Vec<u32>, thread: ThreadId, tid: u32) {
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

/// Tid of a thread, 0 when the recording has none.
pub(super) fn tid_of(tids: &[u32], thread: ThreadId) -> u32 {
    tids.get(thread.index()).copied().unwrap_or(0)
}
