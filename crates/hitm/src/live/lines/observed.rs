//! Samples of an observation, and the lines that they may stand at.

use std::collections::BTreeMap;

use hitm_live::lines::{CountedAccess, Seen};
use hitm_live::procfs;

use super::super::programs::{Programs, SeenAccess};
use super::candidates::{Candidates, SampledAt};
use super::code::Code;
use super::host::Host;
use super::memory::{Line, Memory};
use super::subject::LinesTarget;
use super::touches::Touch;

/// A thread that was sampled.
#[derive(Debug, Clone, Default)]
pub(super) struct SampledTask {
    pub(super) name: String,
    pub(super) samples: u64,
    /// The same by CPU.
    pub(super) cpus: BTreeMap<u32, u64>,
}

impl SampledTask {
    pub(super) fn new(tid: u32) -> SampledTask {
        // Idle CPUs have no number of their own.
        let name = match tid {
            0 => Some("swapper".to_owned()),
            _ => procfs::comm(tid).ok(),
        };
        SampledTask {
            name: name.unwrap_or_default(),
            ..SampledTask::default()
        }
    }

    /// Takes note of a CPU where it was seen by a watch.
    pub(super) fn touched(&mut self, cpu: u32) {
        if self.samples == 0 {
            *self.cpus.entry(cpu).or_default() += 1;
        }
    }
}

/// Result of an observation.
pub(super) struct Observed {
    pub(super) args: Vec<String>,
    pub(super) host: Host,
    pub(super) memory: Memory,
    pub(super) code: Code,
    pub(super) threads: BTreeMap<u32, SampledTask>,
    pub(super) candidates: Candidates,
    pub(super) period_ns: u64,
    /// Time of the phases of samples.
    pub(super) sampled_ns: u64,
    pub(super) duration_ns: u64,
    pub(super) sample_count: u64,
    /// Set when an address was in no known mapping.
    pub(super) is_stale: bool,
    /// Samples at an instruction that may have accessed memory at a known address.
    pub(super) addressed_count: u64,
    /// Accesses that a counter saw.
    pub(super) counted_count: u64,
    /// True where nothing is watched: lines are candidates, whose accesses are those that samples stand at.
    pub(super) is_by_samples: bool,
    /// Names of processes, as far as they are not asked for.
    pub(super) names: BTreeMap<u32, String>,
    pub(super) notes: Vec<String>,
}

impl Observed {
    pub(super) fn new(
        target: &LinesTarget,
        host: Host,
        processes: &[u32],
        period_ns: u64,
    ) -> Observed {
        let mut memory = Memory::default();
        memory.read(processes);
        let is_by_samples = !host.figures.watches_all;
        Observed {
            args: target.args(),
            is_by_samples,
            ..Observed::of(host, Programs::new(memory.mappings()), memory, period_ns)
        }
    }

    /// Nothing yet, of programs in this memory.
    pub(super) fn of(host: Host, programs: Programs, memory: Memory, period_ns: u64) -> Observed {
        Observed {
            args: Vec::new(),
            host,
            code: Code {
                programs,
                kernel: None,
            },
            memory,
            threads: BTreeMap::new(),
            candidates: Candidates::default(),
            period_ns,
            sampled_ns: 0,
            duration_ns: 0,
            sample_count: 0,
            is_stale: false,
            addressed_count: 0,
            counted_count: 0,
            is_by_samples: false,
            names: BTreeMap::new(),
            notes: Vec::new(),
        }
    }

    /// CPU time of the threads in their programs, as samples tell it.
    pub(super) fn cpu_ns(&self) -> u64 {
        self.sample_count * self.period_ns
    }

    /// Name of a process.
    pub(super) fn name(&self, pid: u32) -> String {
        let known = self.names.get(&pid).cloned();
        known.unwrap_or_else(|| procfs::comm(pid).unwrap_or_default())
    }

    /// Counts a sample for the lines that it may stand at.
    pub(super) fn sample(&mut self, seen: &Seen) {
        self.sample_count += 1;
        let thread = self.threads.entry(seen.tid);
        let thread = thread.or_insert_with(|| SampledTask::new(seen.tid));
        thread.samples += 1;
        *thread.cpus.entry(seen.cpu).or_default() += 1;
        let stack = seen.registers.map_or(0, |registers| registers.stack());
        let mut lines: BTreeMap<Line, SampledAt> = BTreeMap::new();
        let mut standing = Vec::new();
        let mut has_address = false;
        self.is_stale |= !self.memory.has(seen.pid, seen.code);
        for access in self.code.accesses(seen) {
            let Some(address) = access.address else {
                continue;
            };
            has_address = true;
            self.is_stale |= !self.memory.has(seen.pid, address);
            if let Some(line) = self.memory.line(seen.pid, address, stack) {
                lines.entry(line).or_default().add(&access, &self.host);
                if self.is_by_samples && self.host.may_stand(&access) {
                    standing.push((line, access));
                }
            }
        }
        self.addressed_count += u64::from(has_address);
        for (line, at) in &lines {
            self.candidates.sampled(*line, seen.tid, at);
        }
        for (line, access) in standing {
            self.touch_by_sample(seen, line, &access);
        }
    }

    /// Counts an access that a sample stands for, and what the thread goes on to do to the line: a store that does not
    /// wait is hardly sampled.
    fn touch_by_sample(&mut self, seen: &Seen, line: Line, access: &SeenAccess) {
        let stack = seen.registers.map_or(0, |registers| registers.stack());
        let memory = &self.memory;
        let is_there = |ahead: &SeenAccess| {
            let address = ahead.address.filter(|_| ahead.code != access.code);
            address.and_then(|address| memory.line(seen.pid, address, stack)) == Some(line)
        };
        let mut touches = Touch::of(seen, access);
        let ahead = self.code.programs.ahead(seen);
        for one in ahead.iter().filter(|one| is_there(one)) {
            touches.extend(Touch::of(seen, one));
        }
        if let Some(candidate) = self.candidates.lines.get_mut(&line) {
            candidate.touches.sampled(&touches, &seen.callers);
        }
    }

    /// Takes note of an access that a counter saw.
    pub(super) fn counted(&mut self, access: &CountedAccess) {
        self.counted_count += 1;
        // Where the stack is nobody knows: watches find that others do not touch it.
        if let Some(line) = self.memory.line(access.pid, access.address, 0) {
            self.candidates.counted(line, access.tid, access.is_hitm);
        }
    }

    /// Reads the mappings again. Files are read again where there are new ones.
    pub(super) fn look(&mut self, processes: &[u32]) {
        self.is_stale = false;
        let before = self.memory.mappings();
        self.memory.read(processes);
        let mappings = self.memory.mappings();
        if mappings != before {
            self.code.programs = Programs::new(mappings);
        }
    }
}
