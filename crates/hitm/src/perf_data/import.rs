//! `hitm report` and `hitm import` of perf.data: sampled accesses as a recording.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, BufWriter, Read as _, Write as _};
use std::path::Path;

use hitm_base::{Access, Clock, CpuId, Cycles, LineAddr, Machine, Outcome, ThreadId};
use hitm_coherence::stats::{Collector, Statistics};
use hitm_perf::c2c::{C2c, Display, Maps as _};
use hitm_perf::import::{Aliases, Importer};
use hitm_perf::maps::KERNEL_PID;
use hitm_perf::read::{PerfData, ReadError, is_perf_data, read};
use hitm_perf::{CpuMode, Sample, Spaces, script};
use hitm_trace::{
    BlockEncoder, End, EndReason, Header, Mapping, Record, Region, RegionKind, Sampled,
    SampledEvent, SampledProcess, ThreadStart, Totals, TraceWriter,
};

use super::PerfDataError;
use super::kernel::{ExtraNames, KernelFound, KernelSource};
use super::tables::{C2cReport, Naming};
use super::weights::Weights;
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
    /// Lines that are others under another address.
    aliases: Aliases,
}

/// Reads the samples of a file, of whichever format.
fn read_samples(
    path: &Path,
    visit: &mut dyn FnMut(usize, &Sample),
    progress: &mut dyn FnMut(u64, u64),
) -> Result<PerfData, PerfDataError> {
    let failed = |source: ReadError| PerfDataError::Read {
        path: path.into(),
        source: Box::new(source),
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

fn read_accesses(
    path: &Path,
    mut importer: Importer,
    sink: &mut dyn FnMut(&Access, &Outcome, &Sample),
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Pass, PerfDataError> {
    let mut visit = |_: usize, sample: &Sample| {
        if let Some((access, outcome)) = importer.access(sample) {
            sink(&access, &outcome, sample);
        }
    };
    let perf = read_samples(path, &mut visit, progress)?;
    let is_private = |line: LineAddr| {
        let (pid, addr) = importer.spaces.unpack(line.first_byte());
        let place = pid.and_then(|pid| perf.world.maps.find(pid, CpuMode::User, addr));
        place.is_some_and(|place| place.is_private)
    };
    let aliases = importer.aliases(is_private);
    Ok(Pass {
        perf,
        importer,
        aliases,
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
    let mut count = |importer: Importer| -> Result<(Pass, Statistics, T), PerfDataError> {
        let (mut collector, mut own) = (Collector::default(), T::default());
        let mut sink = |access: &Access, outcome: &Outcome, sample: &Sample| {
            collector.add(access, outcome);
            add(&mut own, access, outcome, sample);
        };
        let pass = read_accesses(path, importer, &mut sink, progress)?;
        Ok((pass, collector.finish(), own))
    };
    let (mut pass, mut statistics, mut own) = count(Importer::default())?;
    if !pass.aliases.is_empty() {
        // Which lines are one is known now: they are counted again.
        let importer = Importer::default().with_aliases(pass.aliases);
        (pass, statistics, own) = count(importer)?;
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
    let first = read_accesses(
        from,
        Importer::default(),
        &mut |_, _, _| {},
        &mut |done, all| progress(done, 2 * all),
    )?;
    let importer = Importer::default().with_aliases(first.aliases.clone());
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
    let mut sink = |access: &Access, outcome: &Outcome, _: &Sample| {
        accesses += 1;
        writer.push(&Record::Access {
            access: *access,
            outcome: *outcome,
        });
    };
    read_accesses(from, importer, &mut sink, &mut |done, all| {
        progress(all + done, 2 * all)
    })?;
    if let Some(end) = end {
        writer.push(&end);
    }
    writer.finish().map_err(failed)?;
    Ok(ImportSummary {
        accesses,
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
        if self.failure.is_some() {
            return;
        }
        if self.encoder.push(record).is_err() {
            self.flush();
            // A record longer than a block is a path or a name; a reader can do without.
            let _ = self.encoder.push(record);
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
        let functions =
            self.perf.code_names.iter().filter_map(|((pid, ip), name)| {
                Some((spaces.pack_known(*pid, *ip)?, name.clone()))
            });
        ExtraNames {
            kernel: None,
            functions: functions.collect(),
        }
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = self.perf.notes.clone();
        notes.extend(self.importer.rejected.describe());
        if !self.aliases.is_empty() {
            notes.push(format!(
                "{} lines are other lines' memory under another address, by their physical addresses: \
                 counted and named under the first",
                self.aliases.len()
            ));
        }
        notes.extend(self.perf.unused.describe());
        notes
    }

    fn thread_name(&self, pid: u32, tid: u32) -> String {
        let names = &self.perf.world.names;
        let name = names.get(&(pid, tid)).or_else(|| names.get(&(pid, pid)));
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
        let processes = self.importer.spaces.pids().map(|pid| SampledProcess {
            pid,
            name: self.thread_name(pid, pid),
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
            }),
        };
        Ok((header, machine))
    }

    /// Threads, mappings and the end, which is the last.
    fn records(&self) -> Vec<Record> {
        let mut numbers: BTreeMap<u32, ThreadId> = BTreeMap::new();
        let mut records = Vec::new();
        for (index, ((pid, tid), (cpu, time))) in self.importer.threads().enumerate() {
            let thread = ThreadId(index as u32);
            numbers.entry(pid).or_insert(thread);
            records.push(Record::ThreadStart(ThreadStart {
                thread,
                tid,
                cpu: CpuId(cpu.0),
                time: Cycles(time),
                name: self.thread_name(pid, tid),
                seat: thread.0,
            }));
        }
        let threads = records.len() as u64;
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
    fn mappings(&self, numbers: &BTreeMap<u32, ThreadId>) -> Vec<Record> {
        let world = &self.perf.world;
        let spaces = &self.importer.spaces;
        let known = world.maps.iter().filter_map(|(pid, map)| {
            let start = match pid {
                KERNEL_PID => map.start,
                _ => spaces.pack_known(pid, map.start)?,
            };
            Some((pid, map, start))
        });
        let record = |(pid, map, start): (u32, &hitm_perf::maps::Map, u64)| {
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
            let kind = match (path.as_str(), numbers.get(&pid)) {
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

/// The tables of `perf c2c report` for a file of samples.
pub fn tables_of_samples(
    path: &Path,
    kernel: Option<&KernelSource>,
    display: Option<Display>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<C2cReport, PerfDataError> {
    let mut c2c = C2c::default();
    let mut spaces = Spaces::default();
    let mut visit = |_: usize, sample: &Sample| {
        spaces.pack(sample.pid, 0);
        c2c.add(sample);
    };
    let perf = read_samples(path, &mut visit, progress)?;
    let display = display.unwrap_or(Display::for_arch(&perf.facts.arch));
    let tables = c2c.finish(&perf.world.maps, display);
    let events = perf.events.iter().map(|event| event.name.clone()).collect();
    let mut notes = perf.notes.clone();
    notes.extend(perf.unused.describe());
    let nodes = perf.facts.nodes.clone();
    let pass = Pass {
        perf,
        importer: Importer::of_spaces(spaces),
        aliases: Aliases::new(),
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
        notes,
        naming: Naming::new(&mappings, names, pass.importer.spaces),
    })
}
