//! `hitm report` and `hitm import` of perf.data: sampled accesses as a recording.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, BufWriter, Read as _, Write as _};
use std::path::Path;

use hitm_base::{Access, Clock, CodeAddr, CpuId, Cycles, LineAddr, Machine, Outcome, ThreadId};
use hitm_coherence::stats::{CallCollector, Collector, Statistics};
use hitm_perf::c2c::{C2c, Display, Maps as _, MemoryNodes};
use hitm_perf::import::{Aliases, Importer};
use hitm_perf::maps::KERNEL;
use hitm_perf::read::{PerfData, ReadError, Visit, is_perf_data, read, read_facts};
use hitm_perf::{CpuMode, Lives, Sample, Spaces, TaskId, script};
use hitm_trace::{
    BlockEncoder, EncodeError, End, EndReason, Header, Mapping, Record, Region, RegionKind,
    Sampled, SampledEvent, SampledProcess, ThreadExit, ThreadStart, Totals, TraceWriter,
};

use super::kernel::{ExtraNames, KernelFound, KernelSource};
use super::tables::{C2cReport, Naming};
use super::weights::Weights;
use super::{PerfDataError, check_apart};
use crate::machine;
use crate::recording::Recording;

/// What a file of samples is, by its first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SampleFormat {
    /// perf.data, of either layout.
    PerfData,
    /// What `perf script -F pid,tid,cpu,time,event,addr,weight,data_src,ip,sym` prints.
    Script,
}

/// The format of the file at `path`, `None` when it is neither.
pub fn sample_format(path: &Path) -> Option<SampleFormat> {
    let mut start = Vec::new();
    File::open(path)
        .ok()?
        .take(4096)
        .read_to_end(&mut start)
        .ok()?;
    if is_perf_data(&start) {
        Some(SampleFormat::PerfData)
    } else if script::is_script(&start) {
        Some(SampleFormat::Script)
    } else {
        None
    }
}

/// What one pass over a file gives.
struct Pass {
    perf: PerfData,
    importer: Importer,
    known: Known,
}

/// What is known of a file only at its end, and makes its samples be read otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Known {
    /// Lines that are others under another address.
    aliases: Aliases,
    /// Numbers of processes and threads that were used again.
    lives: Lives,
}

impl Known {
    /// What to read the file again with, after a pass with this found that; `None` when it found nothing
    /// new. Which lines are one is asked for when it is known whose they are.
    fn with(&self, found: &Known) -> Option<Known> {
        if self.lives != found.lives {
            return Some(Known {
                lives: found.lives.clone(),
                aliases: Aliases::new(),
            });
        }
        (self.aliases != found.aliases).then(|| found.clone())
    }
}

/// Reads the samples of a file, of whichever format.
fn read_samples(
    path: &Path,
    lives: &Lives,
    visit: &mut Visit<'_>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<PerfData, PerfDataError> {
    let failed = |source: ReadError| PerfDataError::Read {
        path: path.into(),
        source: Box::new(source),
    };
    let mut visit_with_lives = |event: usize, sample: &Sample, callers: &[u64]| {
        visit(event, &sample.with_lives(lives), callers);
    };
    let visit: &mut Visit<'_> = match lives.is_empty() {
        true => visit,
        false => &mut visit_with_lives,
    };
    let file = File::open(path).map_err(|error| failed(error.into()))?;
    match sample_format(path) {
        Some(SampleFormat::Script) => {
            let len = file.metadata().map_err(|error| failed(error.into()))?.len();
            let reader = BufReader::with_capacity(1 << 20, file);
            script::read(reader, visit, &mut |done| progress(done, len)).map_err(failed)
        }
        _ => read(file, visit, progress).map_err(failed),
    }
}

/// Gets accesses, their samples, and who called their functions, innermost call first; none when the
/// sample does not say.
type Sink<'s> = dyn FnMut(&Access, &Outcome, &Sample, &[CodeAddr]) + 's;

fn read_accesses(
    path: &Path,
    known: Known,
    sink: &mut Sink<'_>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Pass, PerfDataError> {
    let mut importer = Importer::default().with_aliases(known.aliases);
    let mut visit = |_: usize, sample: &Sample, callers: &[u64]| {
        if let Some((access, outcome)) = importer.access(sample) {
            sink(&access, &outcome, sample, importer.callers(sample, callers));
        }
    };
    let perf = read_samples(path, &known.lives, &mut visit, progress)?;
    let is_private = |line: LineAddr| {
        let (process, addr) = importer.spaces.unpack(line.first_byte());
        let maps = &perf.world.maps;
        let place = process.and_then(|process| maps.find(process, CpuMode::User, addr));
        place.is_some_and(|place| place.is_private)
    };
    let known = Known {
        aliases: importer.aliases(is_private),
        lives: perf.world.lives.clone(),
    };
    Ok(Pass {
        perf,
        importer,
        known,
    })
}

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
    let file = File::create(to).map_err(|source| PerfDataError::Write {
        path: to.into(),
        source,
    })?;
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

/// Puts records into blocks. The first failure is kept and ends the writing.
struct BlockWriter {
    writer: TraceWriter<BufWriter<File>>,
    encoder: BlockEncoder<Vec<u8>>,
    failure: Option<hitm_trace::WriteError>,
}

impl BlockWriter {
    const BLOCK_LEN: usize = 256 << 10;

    fn new(file: BufWriter<File>, header: &Header) -> Result<BlockWriter, hitm_trace::WriteError> {
        Ok(BlockWriter {
            writer: TraceWriter::new(file, header)?,
            encoder: BlockEncoder::new(vec![0; BlockWriter::BLOCK_LEN]),
            failure: None,
        })
    }

    fn push(&mut self, record: &Record) {
        // A record longer than a block is a path or a name; a reader can do without.
        self.encode(|encoder| encoder.push(record));
    }

    fn push_access(&mut self, access: &Access, outcome: &Outcome, callers: &[CodeAddr]) {
        self.encode(|encoder| match callers {
            [] => encoder.push_access(access, outcome),
            _ => encoder.push_access_of(callers, access, outcome),
        });
    }

    /// Encodes into this block, or else into the next one.
    fn encode(&mut self, encode: impl Fn(&mut BlockEncoder<Vec<u8>>) -> Result<(), EncodeError>) {
        if self.failure.is_none() && encode(&mut self.encoder).is_err() {
            self.flush();
            let _ = encode(&mut self.encoder);
        }
    }

    fn flush(&mut self) {
        let result = self
            .writer
            .write_block(self.encoder.meta(), self.encoder.bytes());
        self.failure = result.err();
        self.encoder.clear();
    }

    fn finish(mut self) -> Result<(), hitm_trace::WriteError> {
        self.flush();
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        self.writer
            .finish()?
            .flush()
            .map_err(|source| hitm_trace::WriteError::Io { offset: 0, source })
    }
}

impl Pass {
    fn extra_names(&self) -> ExtraNames {
        let spaces = &self.importer.spaces;
        let functions = self.perf.code_names.iter().filter_map(|((pid, ip), name)| {
            let process = TaskId::first(*pid);
            Some((spaces.pack_known(process, *ip)?, name.clone()))
        });
        ExtraNames {
            kernel: None,
            functions: functions.collect(),
        }
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = self.perf.notes.clone();
        notes.extend(self.importer.rejected.describe());
        let lives = &self.known.lives;
        if !lives.is_empty() {
            notes.push(format!(
                "{} numbers of processes and threads were given again to others, who are told apart",
                lives.len()
            ));
        }
        let aliases = &self.known.aliases;
        if !aliases.is_empty() {
            notes.push(format!(
                "{} lines are other lines' memory under another address, by their physical addresses: \
                 counted and named under the first",
                aliases.len()
            ));
        }
        notes.extend(self.perf.unused.describe());
        notes
    }

    fn thread_name(&self, process: TaskId, thread: TaskId) -> String {
        let names = &self.perf.world.names;
        let name = names.get(&(process, thread));
        let name = name.or_else(|| names.get(&(process, process)));
        name.cloned().unwrap_or_else(|| "unknown".to_owned())
    }

    fn header(&self) -> Result<(Header, Machine), PerfDataError> {
        let facts = &self.perf.facts;
        let cpu_count = facts.cpu_count.max(self.importer.cpu_count_min());
        let (machine, machine_toml) = machine::of_perf_data(facts, cpu_count)?;
        let events = self.perf.events.iter().map(|event| SampledEvent {
            name: event.name.clone(),
            sample_count: event.sample_count,
            period_sum: event.period_sum,
        });
        let processes = self.importer.spaces.processes();
        let processes = processes.map(|process| SampledProcess {
            pid: process.id,
            life: process.life.into(),
            began_ns: self.known.lives.began_ns(process),
            name: self.thread_name(process, process),
        });
        let arch = match facts.arch.as_str() {
            "" => "unknown",
            arch => arch,
        };
        let header = Header {
            hitm_version: env!("CARGO_PKG_VERSION").to_owned(),
            args: facts.command.clone(),
            machine_toml,
            window: Cycles::ZERO,
            placement: "as sampled".to_owned(),
            seed: 0,
            arch: arch.to_owned(),
            qemu_version: String::new(),
            // Times of samples are in nanoseconds.
            clock: Clock::from_khz(1_000_000),
            page_size_bytes: 4096,
            sampled: Some(Sampled {
                events: events.collect(),
                processes: processes.collect(),
                notes: self.notes(),
                tlb_known_count: self.importer.tlb_known_count,
                tlb_miss_count: self.importer.tlb_miss_count,
            }),
        };
        Ok((header, machine))
    }

    /// Threads, mappings and the end, which is the last.
    fn records(&self) -> Vec<Record> {
        let mut numbers: BTreeMap<TaskId, ThreadId> = BTreeMap::new();
        let mut records = Vec::new();
        let mut threads = 0;
        for (index, (ids, (cpu, time))) in self.importer.threads().enumerate() {
            let thread = ThreadId(index as u32);
            threads += 1;
            numbers.entry(ids.0).or_insert(thread);
            records.push(Record::ThreadStart(ThreadStart {
                thread,
                tid: ids.1.id,
                cpu: CpuId(cpu.0),
                time: Cycles(time),
                name: self.thread_name(ids.0, ids.1),
                seat: thread.0,
            }));
            if let Some(time) = self.perf.world.exits.get(&ids) {
                // Samples do not say what it did in all.
                records.push(Record::ThreadExit(ThreadExit {
                    thread,
                    time: Cycles(*time),
                    insns: 0,
                    accesses: 0,
                    stall: Cycles::ZERO,
                    contention_stall: Cycles::ZERO,
                }));
            }
        }
        records.extend(self.mappings(&numbers));
        records.push(Record::End(End {
            time: Cycles::ZERO,
            reason: EndReason::Exited { status: 0 },
            totals: Totals {
                threads,
                ..Totals::default()
            },
        }));
        records
    }

    /// What is mapped in the kernel, and in the processes that have samples.
    fn mappings(&self, numbers: &BTreeMap<TaskId, ThreadId>) -> Vec<Record> {
        let world = &self.perf.world;
        let spaces = &self.importer.spaces;
        let known = world.maps.iter().filter_map(|(process, map)| {
            let start = match process {
                KERNEL => map.start,
                _ => spaces.pack_known(process, map.start)?,
            };
            Some((process, map, start))
        });
        let record = |(process, map, start): (TaskId, &hitm_perf::maps::Map, u64)| {
            let end = start.saturating_add(map.end - map.start);
            let path = world
                .paths
                .get(map.path as usize)
                .cloned()
                .unwrap_or_default();
            if !map.is_anonymous {
                return Record::Mapping(Mapping {
                    start,
                    end,
                    file_offset: map.file_offset,
                    path,
                    build_id: world.build_ids.get(&map.path).cloned().unwrap_or_default(),
                    executable: map.executable,
                });
            }
            let kind = match (path.as_str(), numbers.get(&process)) {
                ("[heap]", _) => RegionKind::Brk,
                (name, Some(thread)) if name.starts_with("[stack") => {
                    RegionKind::Stack { thread: *thread }
                }
                _ => RegionKind::AnonymousMap { stack: Vec::new() },
            };
            Record::Region(Region { start, end, kind })
        };
        known.map(record).collect()
    }
}

/// Which node has which memory, by the feature sections of a file.
fn memory_nodes(path: &Path) -> Result<MemoryNodes, PerfDataError> {
    if sample_format(path) != Some(SampleFormat::PerfData) {
        return Ok(MemoryNodes::default());
    }
    let failed = |source: ReadError| PerfDataError::Read {
        path: path.into(),
        source: Box::new(source),
    };
    let file = File::open(path).map_err(|error| failed(error.into()))?;
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
    // A stream says only among its records which node has which memory.
    let mut memory = memory_nodes(path)?;
    let (c2c, perf, spaces) = loop {
        let mut c2c = C2c::of_memory(memory.clone());
        let mut spaces = Spaces::default();
        let mut visit = |_: usize, sample: &Sample, _: &[u64]| {
            spaces.pack(sample.process(), 0);
            c2c.add(sample);
        };
        let perf = read_samples(path, &lives, &mut visit, progress)?;
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
