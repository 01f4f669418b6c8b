//! The lines of a running program as a recording.
//!
//! A recording has accesses, and watches tell rates. So each shared line gets accesses drawn by chance in proportion
//! to their rates, on the CPUs that their threads ran on, which the coherence engine prices on this host's model. The
//! same rules as for other recordings tell what threads fight over, and names come the same way. What a line costs
//! comes from samples alone: the draw's cycles are scaled to them.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;

use hitm_base::{
    Access, AddrRange, Clock, CodeAddr, CpuId, Cycles, Machine, Outcome, Random, ThreadId,
};
use hitm_coherence::directory::{Ask, Capacity, Directory, Grant};
use hitm_live::procfs;
use hitm_recording::BlockWriter;
use hitm_trace::{
    End, EndReason, Header, Mapping, Record, Region, RegionKind, Sampled, SampledEvent,
    SampledProcess, ThreadExit, ThreadStart, Totals, WatchedLine, WatchedRun, WriteError,
};

use super::super::programs::Programs;
use super::Observed;
use super::candidates::{Candidate, TouchRate};
use super::kernel::LiveKernel;
use super::memory::{Line, Memory};

/// Accesses that are drawn for a line: enough for shares of a hundredth.
const DRAWN: usize = 4000;
/// Accesses between two moves of threads.
const STAY: usize = 100;
/// Lines that are told of.
const LINES_MAX: usize = 1000;

/// A shared line.
struct Told<'a> {
    line: Line,
    candidate: &'a Candidate,
    rates: Vec<TouchRate>,
}

/// An access with its price.
struct Priced {
    access: Access,
    outcome: Outcome,
    callers: Vec<CodeAddr>,
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
    };
    let told = teller.shared();
    let mut watched = teller.run();
    // Lines know nothing of each other, so that one directory does for all.
    let mut directory = Directory::new(machine.machine.clone(), Capacity::Infinite);
    let mut accesses = Vec::new();
    for one in &told {
        let mut priced = teller.priced(one, &mut directory);
        watched.lines.push(teller.bounds(one, hand_over(&priced)));
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

/// This host's model and its text.
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

struct Teller<'a> {
    observed: &'a Observed,
    machine: &'a HostMachine,
    threads: BTreeMap<u32, ThreadId>,
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
                rates: candidate.touches.rates().collect(),
            })
            .collect();
        told.sort_by_key(|one| (std::cmp::Reverse(one.candidate.samples), one.line));
        told.truncate(LINES_MAX);
        told
    }

    fn address(&self, line: Line) -> u64 {
        self.observed
            .code
            .programs
            .address(line.pid, line.address)
            .unwrap_or(line.address)
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

    /// CPU time of the samples that may stand at a line.
    fn most_ns(&self, told: &Told<'_>) -> u64 {
        told.candidate.samples * self.observed.period_ns
    }

    /// Accesses to a line in proportion to their rates, priced.
    fn priced(&self, told: &Told<'_>, directory: &mut Directory) -> Vec<Priced> {
        let drawn = self.drawn(told).into_iter();
        let mut clock = Cycles::ZERO;
        drawn
            .map(|(access, callers)| {
                let outcome = price(directory, &access, &mut clock);
                Priced {
                    access,
                    outcome,
                    callers,
                }
            })
            .collect()
    }

    fn drawn(&self, told: &Told<'_>) -> Vec<(Access, Vec<CodeAddr>)> {
        let sum: f64 = told.rates.iter().map(|rate| rate.per_s).sum();
        let mut random = Random::new(told.line.address);
        let mut cpus: BTreeMap<u32, CpuId> = BTreeMap::new();
        let step_ns = (self.observed.duration_ns / DRAWN as u64).max(1);
        let mut draw = |number: usize| {
            if number.is_multiple_of(STAY) {
                cpus.clear();
            }
            let mut at = random.unit() * sum;
            let found = told.rates.iter().find(|rate| {
                at -= rate.per_s;
                at < 0.0
            });
            let rate = found.unwrap_or(&told.rates[0]);
            let touch = rate.touch;
            let code = |address| {
                CodeAddr(
                    self.observed
                        .code
                        .programs
                        .address(touch.pid, address)
                        .unwrap_or(address),
                )
            };
            let access = Access {
                time: Cycles(number as u64 * step_ns),
                addr: self.address(told.line) + u64::from(touch.offset),
                code: code(touch.code),
                thread: self.threads.get(&touch.tid).copied().unwrap_or(ThreadId(0)),
                cpu: *cpus
                    .entry(touch.tid)
                    .or_insert_with(|| self.cpu(touch.tid, &mut random)),
                size: touch.size,
                op: touch.op,
            };
            // A chain that leaves the code has followed a register that held no frame.
            let callers = rate.callers.iter();
            let callers =
                callers.take_while(|caller| self.observed.memory.is_code(touch.pid, **caller));
            let callers = callers.map(|caller| code(*caller));
            (access, callers.collect())
        };
        (0..DRAWN).map(&mut draw).collect()
    }

    /// Least part of the time for which two of a line's threads ran at once, by their mean number: of `n` that can
    /// run, `1 + (n - 1) * part` at most do so.
    fn together(&self, told: &Told<'_>) -> f64 {
        let tids: BTreeSet<u32> = told.rates.iter().map(|rate| rate.touch.tid).collect();
        let samples = tids.iter().filter_map(|tid| self.observed.threads.get(tid));
        let ran_ns = samples.map(|thread| thread.samples).sum::<u64>() * self.observed.period_ns;
        let mean = ran_ns as f64 / self.observed.sampled_ns.max(1) as f64;
        let most = tids.len().min(self.machine.machine.topology.cpu_count());
        ((mean - 1.0) / (most.max(2) - 1) as f64).clamp(0.0, 1.0)
    }

    fn bounds(&self, told: &Told<'_>, hand_over: Cycles) -> WatchedLine {
        let together = self.together(told);
        let change_rate_per_s = (told.candidate.changes.per_s() as f64 * together) as u64;
        let ns = self.machine.machine.clock.nanos(hand_over).0;
        let seconds = self.observed.sampled_ns as f64 / 1e9;
        let least = change_rate_per_s as f64 * ns * seconds;
        let most_ns = self.most_ns(told);
        WatchedLine {
            address: self.address(told.line),
            sample_count: told.candidate.samples,
            change_rate_per_s,
            most_ns,
            least_ns: (least as u64).min(most_ns),
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
                name: procfs::comm(pid).unwrap_or_default(),
                ..SampledProcess::default()
            });
        let event = |name: &str, sample_count, period_ns| SampledEvent {
            name: name.to_owned(),
            sample_count,
            period_sum: sample_count * period_ns,
        };
        let events = vec![
            event(
                "cpu-clock with registers",
                watched.sample_count,
                observed.period_ns,
            ),
            event("debug registers", watched.hit_count, 1),
        ];
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
        records.extend(memory_records(
            &self.observed.memory,
            &self.observed.code.programs,
        ));
        records
    }
}

/// Files and other memory of the processes.
fn memory_records<'a>(
    memory: &'a Memory,
    programs: &'a Programs,
) -> impl Iterator<Item = Record> + 'a {
    let mut file_ends_at = 0;
    memory.areas().filter_map(move |(pid, area)| {
        let is_behind_file = area.range.start() == file_ends_at;
        if area.path.starts_with('/') {
            file_ends_at = area.range.end();
        } else if area.path.is_empty() && is_behind_file {
            // A program's variables that begin as zeros are named with those before them.
            return None;
        }
        let start = programs.address(pid, area.range.start())?;
        let range = AddrRange::with_len(start, area.range.len())?;
        if area.path.starts_with('/') || area.is_executable {
            return Some(Record::Mapping(Mapping {
                range,
                file_offset: area.offset,
                path: area.path.clone(),
                build_id: Vec::new(),
                executable: area.is_executable,
            }));
        }
        let kind = match area.path.as_str() {
            "[heap]" => RegionKind::Brk,
            _ => RegionKind::AnonymousMap { stack: Vec::new() },
        };
        Some(Record::Region(Region { range, kind }))
    })
}

/// The engine's answer to an access, each of them after the one before has been served.
fn price(directory: &mut Directory, access: &Access, clock: &mut Cycles) -> Outcome {
    let line = directory.line(access.line(), access.cpu);
    if let Some((source, latency)) = directory.hit(access.cpu, line, access.op.is_write()) {
        return Grant::own(source, *clock + latency).outcome(latency, Cycles::ZERO, Cycles::ZERO);
    }
    let ask = Ask {
        now: *clock,
        cpu: access.cpu,
        line,
        exclusive: access.op.is_write(),
        ticket: 0,
    };
    let grant = match directory.request(ask) {
        Some(grant) => grant,
        None => directory.serve_next(line).1,
    };
    let latency = grant.done.saturating_sub(*clock);
    *clock = grant.done;
    grant.outcome(latency, latency, Cycles::ZERO)
}

/// Mean price of a hand-over.
fn hand_over(priced: &[Priced]) -> Cycles {
    let lost = priced.iter().map(|one| one.outcome.lost.0);
    let (sum, count) = lost
        .filter(|lost| *lost > 0)
        .fold((0, 0), |(sum, count), lost| (sum + lost, count + 1));
    Cycles(sum / u64::max(count, 1))
}

/// Scales what hand-overs cost to `most_ns` in all, in nanoseconds.
fn scale(priced: &mut [Priced], most_ns: u64) {
    let lost: u64 = priced.iter().map(|one| one.outcome.lost.0).sum();
    for one in priced {
        if one.outcome.lost > Cycles::ZERO {
            let part =
                u128::from(one.outcome.lost.0) * u128::from(most_ns) / u128::from(lost.max(1));
            let part = Cycles(part as u64);
            one.outcome = Outcome {
                stall: part,
                lost: part,
                ..one.outcome
            };
        }
    }
}
