//! The lines of a running program as a recording.
//!
//! A recording has accesses, and watches tell rates. So threads visit each shared line by chance in proportion to their
//! rates, on the CPUs that they ran on, and the coherence engine prices the accesses of a visit on this host's model.
//! The same rules as for other recordings tell what threads fight over, and names come the same way. What a line costs
//! comes from samples alone: the draw's cycles are scaled to them.

mod draws;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;

use hitm_base::{AccessOp, AddrRange, Clock, CpuId, Cycles, Machine, Random, ThreadId};
use hitm_coherence::directory::{Capacity, Directory};
use hitm_recording::BlockWriter;
use hitm_trace::{
    End, EndReason, Header, Mapping, PROCESS_SHIFT, Record, Region, RegionKind, SHARED_END,
    SHARED_FIRST, Sampled, SampledEvent, SampledProcess, ThreadExit, ThreadStart, Totals,
    WatchedLine, WatchedRun, WriteError,
};

use super::super::maps::{Area, FileId};
use super::candidates::Candidate;
use super::kernel::LiveKernel;
use super::memory::{Line, Memory, Space};
use super::observed::Observed;
use super::touches::TouchRate;
use draws::{Least, Priced, count_of_each, hand_over, scale};

/// Lines that are told of.
const LINES_MAX: usize = 1000;

/// A shared line.
struct Told<'a> {
    line: Line,
    candidate: &'a Candidate,
    rates: Vec<TouchRate>,
}

/// Writes the recording of what was observed.
pub(super) fn write<W: Write>(
    observed: &mut Observed,
    machine: &HostMachine,
    to: W,
) -> Result<(), WriteError> {
    let of_kernel = observed.code.kernel.as_mut();
    let of_kernel = of_kernel.map_or_else(Vec::new, LiveKernel::records);
    let teller = Teller {
        observed: &*observed,
        machine,
        threads: threads(observed),
        files: files(&observed.memory),
    };
    let told = teller.shared();
    let mut watched = teller.run();
    // Lines know nothing of each other, so that one directory does for all.
    let mut directory = Directory::new(machine.machine.clone(), Capacity::Infinite);
    let mut accesses = Vec::new();
    let count = count_of_each(told.len());
    for one in &told {
        let mut priced = teller.priced(one, count, &mut directory);
        let least = teller.least(&teller.unwatched(one), count, &mut directory);
        watched
            .lines
            .push(teller.bounds(one, hand_over(&priced), least));
        scale(&mut priced, teller.most_ns(one));
        accesses.extend(priced);
    }
    accesses.sort_by_key(|one| one.access.time);
    let mut writer = BlockWriter::new(to, &teller.header(watched))?;
    teller
        .records(&accesses)
        .iter()
        .chain(&of_kernel)
        .for_each(|record| writer.push(record));
    for one in &accesses {
        writer.push_access(&one.access, &one.outcome, &one.callers);
    }
    writer.push(&Record::End(End {
        time: Cycles(observed.duration_ns),
        reason: EndReason::Exited { status: 0 },
        totals: Totals {
            threads: teller.threads.len() as u64,
            ..Totals::default()
        },
    }));
    writer.finish()
}

/// The host's model and its text.
#[derive(Debug)]
pub(super) struct HostMachine {
    pub(super) machine: Machine,
    pub(super) toml: String,
}

/// Threads by number: those that were sampled, in the order of their ids.
fn threads(observed: &Observed) -> BTreeMap<u32, ThreadId> {
    let tids = observed.threads.keys();
    tids.zip(0..)
        .map(|(tid, number)| (*tid, ThreadId(number)))
        .collect()
}

/// Addresses of shared files' first bytes: above those of processes.
fn files(memory: &Memory) -> BTreeMap<FileId, u64> {
    let shared: BTreeSet<FileId> = memory.areas().filter_map(|(_, area)| area.shared).collect();
    let numbers = (SHARED_FIRST..SHARED_END).map(|number| u64::from(number) << PROCESS_SHIFT);
    shared.into_iter().zip(numbers).collect()
}

struct Teller<'a> {
    observed: &'a Observed,
    machine: &'a HostMachine,
    threads: BTreeMap<u32, ThreadId>,
    files: BTreeMap<FileId, u64>,
}

impl Teller<'_> {
    /// Lines that several threads share, those of most samples first.
    fn shared(&self) -> Vec<Told<'_>> {
        let lines = self.observed.candidates.lines.iter();
        let shared = lines.filter(|(_, candidate)| candidate.touches.is_shared());
        let mut told: Vec<Told<'_>> = shared
            .map(|(line, candidate)| Told {
                line: *line,
                candidate,
                rates: candidate.touches.rates(&candidate.codes),
            })
            .collect();
        told.sort_by_key(|one| (std::cmp::Reverse(one.candidate.samples), one.line));
        told.truncate(LINES_MAX);
        told
    }

    fn address(&self, line: Line) -> u64 {
        let programs = &self.observed.code.programs;
        match line.space {
            Space::Process(pid) => programs.address(pid, line.at).unwrap_or(line.at),
            Space::File(file) => self.files.get(&file).map_or(line.at, |base| base + line.at),
            Space::Kernel => line.at,
        }
    }

    /// A CPU of a thread, by chance and as often as it was seen there.
    fn cpu(&self, tid: u32, random: &mut Random) -> CpuId {
        let thread = self.observed.threads.get(&tid);
        let seen = thread.map_or(0, |thread| thread.cpus.values().sum());
        let mut at = random.below(u64::max(seen, 1));
        let mut cpus = thread.into_iter().flat_map(|thread| &thread.cpus);
        let found = cpus.find(|(_, count)| {
            let is_here = at < **count;
            at = at.saturating_sub(**count);
            is_here
        });
        let count = self.machine.machine.topology.cpu_count() as u32;
        CpuId((found.map_or(0, |(cpu, _)| *cpu) % count) as u16)
    }

    /// CPU time of the samples that may stand at a line, without what locked operations take that nobody fights for, as
    /// often as watches let threads make them.
    fn most_ns(&self, told: &Told<'_>) -> u64 {
        let locked = told.rates.iter();
        let locked = locked.filter(|rate| rate.touch.op == AccessOp::LockedRmw);
        let per_s: f64 = locked.map(|rate| rate.per_s).sum();
        // Samples alone tell no rates.
        let seconds = match self.observed.is_by_samples {
            true => 0.0,
            false => self.observed.sampled_ns as f64 / 1e9,
        };
        let alone_ns = per_s * seconds * self.observed.host.figures.locked_ps as f64 / 1000.0;
        let all_ns = told.candidate.standing * self.observed.period_ns;
        all_ns.saturating_sub(alone_ns as u64)
    }

    /// Accesses as often as threads make them while nobody watches, at least; none of threads that never met another.
    fn unwatched<'t>(&self, told: &Told<'t>) -> Told<'t> {
        let per_s = told.candidate.pace.per_s();
        let mut watched: BTreeMap<u32, f64> = BTreeMap::new();
        for rate in &told.rates {
            *watched.entry(rate.touch.tid).or_default() += rate.per_s;
        }
        let rates = told.rates.iter().filter_map(|rate| {
            let tid = rate.touch.tid;
            Some(TouchRate {
                per_s: rate.per_s / watched[&tid] * per_s.get(&tid)? * self.ran_share(tid),
                ..rate.clone()
            })
        });
        Told {
            rates: rates.collect(),
            ..*told
        }
    }

    /// Threads of a line that run at once, in the mean.
    fn running(&self, told: &Told<'_>) -> f64 {
        let tids: BTreeSet<u32> = told.rates.iter().map(|rate| rate.touch.tid).collect();
        tids.iter().map(|tid| self.ran_share(*tid)).sum()
    }

    /// Part of the time for which a thread ran.
    fn ran_share(&self, tid: u32) -> f64 {
        let thread = self.observed.threads.get(&tid);
        let ran_ns = thread.map_or(0, |thread| thread.samples) * self.observed.period_ns;
        ran_ns as f64 / self.observed.sampled_ns.max(1) as f64
    }

    fn bounds(&self, told: &Told<'_>, hand_over: Cycles, least: Least) -> WatchedLine {
        // On one CPU, threads have it one after the other: nobody takes it from anybody.
        let most_ns = match hand_over {
            Cycles::ZERO => 0,
            _ => self.most_ns(told),
        };
        let seconds = self.observed.sampled_ns as f64 / 1e9;
        let least_ns = least.changes_per_s * least.change_ns * seconds;
        WatchedLine {
            address: self.address(told.line),
            sample_count: told.candidate.standing,
            change_rate_per_s: least.changes_per_s as u64,
            most_ns,
            least_ns: (least_ns as u64).min(most_ns),
        }
    }

    fn run(&self) -> WatchedRun {
        let observed = self.observed;
        let lines = observed.candidates.lines.values();
        WatchedRun {
            duration_ns: observed.duration_ns,
            cpu_ns: observed.cpu_ns(),
            period_ns: observed.period_ns,
            sample_count: observed.sample_count,
            addressed_count: observed.addressed_count,
            watched_count: lines.clone().filter(|one| one.rounds > 0).count() as u64,
            hit_count: lines.map(|one| one.hit_count).sum(),
            lines: Vec::new(),
            host: observed.host.text(),
            is_by_samples: observed.is_by_samples,
        }
    }

    fn header(&self, watched: WatchedRun) -> Header {
        let observed = self.observed;
        let processes = observed
            .code
            .programs
            .processes()
            .map(|pid| SampledProcess {
                pid,
                name: observed.name(pid),
                ..SampledProcess::default()
            });
        let event = |name: &str, sample_count, period_ns| SampledEvent {
            name: name.to_owned(),
            sample_count,
            period_sum: sample_count * period_ns,
        };
        let mut events = vec![
            event(
                "cpu-clock with registers",
                watched.sample_count,
                observed.period_ns,
            ),
            event("debug registers", watched.hit_count, 1),
        ];
        if observed.is_by_samples {
            events.truncate(1);
        }
        Header {
            hitm_version: env!("CARGO_PKG_VERSION").to_owned(),
            args: observed.args.clone(),
            machine_toml: self.machine.toml.clone(),
            window: Cycles::ZERO,
            placement: "as it ran".to_owned(),
            seed: 0,
            arch: std::env::consts::ARCH.to_owned(),
            qemu_version: String::new(),
            clock: Clock::from_khz(1_000_000),
            page_size_bytes: 4096,
            sampled: Some(Sampled {
                events,
                processes: processes.collect(),
                notes: observed.notes.clone(),
                watched: Some(watched),
                ..Sampled::default()
            }),
        }
    }

    /// Threads and memory.
    fn records(&self, accesses: &[Priced]) -> Vec<Record> {
        let mut lost: BTreeMap<ThreadId, u64> = BTreeMap::new();
        for one in accesses {
            *lost.entry(one.access.thread).or_default() += one.outcome.lost.0;
        }
        let cpi_milli = u64::from(self.machine.machine.core.cpi_milli).max(1);
        let mut records = Vec::new();
        for (tid, thread) in &self.observed.threads {
            let number = self.threads[tid];
            let ran = thread.samples * self.observed.period_ns;
            let lost = lost.get(&number).copied().unwrap_or(0).min(ran);
            records.push(Record::ThreadStart(ThreadStart {
                thread: number,
                tid: *tid,
                cpu: self.cpu(*tid, &mut Random::new(u64::from(*tid))),
                time: Cycles::ZERO,
                name: thread.name.clone(),
                seat: number.0,
                process: 0,
            }));
            records.push(Record::ThreadExit(ThreadExit {
                thread: number,
                time: Cycles(self.observed.duration_ns),
                insns: (ran - lost) * 1000 / cpi_milli,
                accesses: 0,
                stall: Cycles(lost),
                contention_stall: Cycles(lost),
            }));
        }
        records.extend(self.memory_records());
        records
    }

    /// Files and other memory of the processes.
    fn memory_records(&self) -> impl Iterator<Item = Record> + '_ {
        let mut file_ends_at = 0;
        let mut shared = BTreeSet::new();
        self.observed.memory.areas().filter_map(move |(pid, area)| {
            if let Some(file) = area.shared {
                let start = self.files.get(&file)?.checked_add(area.offset)?;
                let is_new = shared.insert((start, area.range.len()));
                return is_new.then(|| mapping(area, start))?;
            }
            let is_behind_file = area.range.start() == file_ends_at;
            if area.path.starts_with('/') {
                file_ends_at = area.range.end();
            } else if area.path.is_empty() && is_behind_file {
                // A program's variables that begin as zeros are named with those before them.
                return None;
            }
            let start = self
                .observed
                .code
                .programs
                .address(pid, area.range.start())?;
            if area.path.starts_with('/') || area.is_executable {
                return mapping(area, start);
            }
            let range = AddrRange::with_len(start, area.range.len())?;
            let kind = match area.path.as_str() {
                "[heap]" => RegionKind::Brk,
                _ => RegionKind::AnonymousMap { stack: Vec::new() },
            };
            Some(Record::Region(Region { range, kind }))
        })
    }
}

/// A file's part, as if it were mapped at an address.
fn mapping(area: &Area, start: u64) -> Option<Record> {
    Some(Record::Mapping(Mapping {
        range: AddrRange::with_len(start, area.range.len())?,
        file_offset: area.offset,
        path: area.path.clone(),
        build_id: area.build_id.clone().unwrap_or_default(),
        executable: area.is_executable,
    }))
}

#[cfg(test)]
mod tests;
