//! One pass over a file of samples: its accesses, and the facts that are complete at its end.

use std::collections::BTreeMap;
use std::io::{BufReader, Read as _};
use std::path::Path;

use hitm_base::{
    Access, AddrRange, Clock, CodeAddr, CpuId, Cycles, LineAddr, Machine, Outcome, ThreadId,
};
use hitm_coherence::stats::Statistics;
use hitm_files::input_file::{self, NamedBy};
use hitm_machine as machine;
use hitm_perf::c2c::Maps as _;
use hitm_perf::import::{Aliases, Importer};
use hitm_perf::maps::KERNEL;
use hitm_perf::read::{PerfData, Visit, is_perf_data, read, read_again};
use hitm_perf::{CpuMode, Lives, Sample, TaskId, script};
use hitm_trace::{
    End, EndReason, Header, Mapping, Record, Region, RegionKind, Sampled, SampledEvent,
    SampledProcess, ThreadExit, ThreadStart, Totals,
};

use super::PerfDataError;
use super::kernel::ExtraNames;
use super::own::OwnFacts;
use crate::recording::Recording;
use crate::recording::contended::Others;

/// Format of a file of samples, by its first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SampleFormat {
    /// perf.data, of either layout.
    PerfData,
    /// Output of `perf script -F pid,tid,cpu,time,event,addr,weight,data_src,ip,sym`.
    Script,
}

/// Returns the format of the file at `path`, `None` when it is neither.
pub fn sample_format(path: &Path) -> Option<SampleFormat> {
    let mut start = Vec::new();
    input_file::open(path, NamedBy::User)
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

/// Result of one pass over a file.
pub(super) struct Pass {
    pub(super) perf: PerfData,
    pub(super) importer: Importer,
    pub(super) known: Known,
    /// Facts of an export of hitm's.
    pub(super) own: OwnFacts,
}

/// Facts that are complete only at a file's end, and change how its samples are read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Known {
    /// Lines that are one line under another address.
    aliases: Aliases,
    /// Reuses of the numbers of processes and threads.
    pub(super) lives: Lives,
}

impl Known {
    /// Returns the facts to read the file with again, after a pass with `self` found `found`;
    /// `None` when it found nothing new. Aliases depend on the lives, so they start anew when those
    /// changed.
    pub(super) fn with(&self, found: &Known) -> Option<Known> {
        if self.lives != found.lives {
            return Some(Known {
                lives: found.lives.clone(),
                aliases: Aliases::new(),
            });
        }
        (self.aliases != found.aliases).then(|| found.clone())
    }
}

/// Reads the samples of a file in either format. `others` may skip records about processes and
/// mappings.
pub(super) fn read_samples(
    path: &Path,
    lives: &Lives,
    others: Others,
    visit: &mut Visit<'_>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<PerfData, PerfDataError> {
    let failed = PerfDataError::reading(path);
    let mut visit_with_lives = |event: usize, sample: &Sample, callers: &[u64]| {
        visit(event, &sample.with_lives(lives), callers);
    };
    let visit: &mut Visit<'_> = match lives.is_empty() {
        true => visit,
        false => &mut visit_with_lives,
    };
    let file = input_file::open(path, NamedBy::User).map_err(|error| failed(error.into()))?;
    match sample_format(path) {
        Some(SampleFormat::Script) => {
            let len = file.metadata().map_err(|error| failed(error.into()))?.len();
            let reader = BufReader::with_capacity(1 << 20, file);
            script::read(reader, visit, &mut |done| progress(done, len)).map_err(failed)
        }
        _ if others == Others::PassedOver => read_again(file, visit, progress).map_err(failed),
        _ => read(file, visit, progress).map_err(failed),
    }
}

/// Callback for accesses: their samples, and the callers of their functions, innermost first. A
/// sample without a call chain has none.
pub(super) type Sink<'s> = dyn FnMut(&Access, &Outcome, &Sample, &[CodeAddr]) + 's;

/// Reads the accesses of a file, with what an earlier pass found in it.
pub(super) fn read_accesses(
    path: &Path,
    known: Known,
    others: Others,
    sink: &mut Sink<'_>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Pass, PerfDataError> {
    let importer = Importer::default();
    let mut importer = match others {
        Others::Kept => importer.with_aliases(known.aliases),
        Others::PassedOver => importer.with_all_aliases(known.aliases),
    };
    let mut visit = |_: usize, sample: &Sample, callers: &[u64]| {
        if let Some((access, outcome)) = importer.access(sample) {
            sink(&access, &outcome, sample, importer.callers(sample, callers));
        }
    };
    let perf = read_samples(path, &known.lives, others, &mut visit, progress)?;
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
    let own = OwnFacts::decode(&perf.facts.own);
    Ok(Pass {
        perf,
        importer,
        known,
        own,
    })
}

impl Pass {
    pub(super) fn extra_names(&self) -> ExtraNames {
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

    pub(super) fn notes(&self) -> Vec<String> {
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
        notes.extend(self.own.notes());
        notes
    }

    fn thread_name(&self, process: TaskId, thread: TaskId) -> String {
        let names = &self.perf.world.names;
        let name = names.get(&(process, thread));
        let name = name.or_else(|| names.get(&(process, process)));
        name.cloned().unwrap_or_else(|| "unknown".to_owned())
    }

    /// The machine model of an export, or one of what perf says of the machine; and its text.
    fn machine(&self) -> Result<(Machine, String), PerfDataError> {
        let sampled = self.importer.cpu_count_min();
        let has_all = |machine: &Machine| machine.topology.cpu_count() >= sampled as usize;
        match &self.own.machine {
            Some(own) if has_all(&own.machine) => Ok((own.machine.clone(), own.toml.clone())),
            _ => {
                let facts = &self.perf.facts;
                let cpu_count = facts.cpu_count.max(sampled);
                Ok(machine::of_perf_data(facts, cpu_count)?)
            }
        }
    }

    pub(super) fn header(&self) -> Result<(Header, Machine), PerfDataError> {
        let facts = &self.perf.facts;
        let (machine, machine_toml) = self.machine()?;
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
                watched: None,
            }),
        };
        Ok((header, machine))
    }

    /// Returns a recording with these statistics and all other facts of the samples.
    pub(super) fn recording(&self, statistics: Statistics) -> Result<Recording, PerfDataError> {
        let mut recording = self.empty_recording()?;
        recording.statistics = statistics;
        let records = self.records().into_iter();
        records.for_each(|record| recording.take(record));
        recording.extra_names = self.extra_names();
        Ok(recording)
    }

    /// Returns a recording with a header alone.
    pub(super) fn empty_recording(&self) -> Result<Recording, PerfDataError> {
        let (header, machine) = self.header()?;
        Ok(Recording::of_parts(header, machine, Statistics::default()))
    }

    /// Records of threads and mappings, and of the end, which comes last.
    pub(super) fn records(&self) -> Vec<Record> {
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
                process: 0,
            }));
            if let Some(time) = self.perf.world.exits.get(&ids) {
                records.push(Record::ThreadExit(ThreadExit {
                    thread,
                    time: Cycles(*time),
                    ..self.own.totals_of(ids.1.id)
                }));
            }
        }
        records.extend(self.mappings(&numbers));
        records.extend(self.own.records());
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

    /// Mappings of the kernel, and of the processes with samples.
    pub(super) fn mappings(&self, numbers: &BTreeMap<TaskId, ThreadId>) -> Vec<Record> {
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
            let len = map.end.saturating_sub(map.start).min(u64::MAX - start);
            let range = AddrRange::with_len(start, len)?;
            let path = world
                .paths
                .get(map.path as usize)
                .cloned()
                .unwrap_or_default();
            if !map.is_anonymous {
                return Some(Record::Mapping(Mapping {
                    range,
                    file_offset: map.file_offset,
                    path,
                    build_id: world.build_ids.get(&map.path).cloned().unwrap_or_default(),
                    executable: map.executable,
                }));
            }
            let kind = match (path.as_str(), numbers.get(&process)) {
                ("[heap]", _) => RegionKind::Brk,
                (name, Some(thread)) if name.starts_with("[stack") => {
                    RegionKind::Stack { thread: *thread }
                }
                _ => RegionKind::AnonymousMap { stack: Vec::new() },
            };
            Some(Record::Region(Region { range, kind }))
        };
        known.filter_map(record).collect()
    }
}
