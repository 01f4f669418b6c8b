//! Samples of a clock that `perf record` took, of a host without hitm.
//!
//! Nothing was watched there. So a line that several threads were sampled at is a candidate: what they do to it is
//! what the instructions do that samples stand at.

use std::collections::BTreeMap;
use std::path::Path;

use hitm_base::AddrRange;
use hitm_files::input_file::{self, NamedBy};
use hitm_live::lines::{Registers, Seen};
use hitm_machine::of_perf_data;
use hitm_perf::maps::{KERNEL, Map};
use hitm_perf::read::{
    ClockSample, Event, PerfData, ReadError, Unused, World, read, read_clocks_again, read_events,
};
use hitm_perf::{CpuMode, TaskId};
use hitm_recording::perf_data::{SampleFormat, sample_format};

use super::super::maps::{Area, FileId};
use super::super::programs::Programs;
use super::LinesError;
use super::host::Host;
use super::memory::Memory;
use super::observed::{Observed, SampledTask};
use super::told::{self, HostMachine};

/// Returns true if a file has samples of a clock with registers, and none of memory.
pub fn has_clock_samples(path: &Path) -> bool {
    if sample_format(path) != Some(SampleFormat::PerfData) {
        return false;
    }
    let file = input_file::open(path, NamedBy::User).map_err(ReadError::from);
    let events = file.and_then(read_events).unwrap_or_default();
    let (clocks, others): (Vec<&Event>, Vec<&Event>) = events
        .iter()
        .partition(|event| event.attr.is_clock_with_registers());
    !clocks.is_empty() && !others.iter().any(|event| event.attr.is_of_memory())
}

/// Makes a recording of the samples of a clock in a file, with the bytes that its own file would have.
///
/// # Errors
/// The file cannot be read, or is of another architecture.
pub fn lines_of_samples(
    path: &Path,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Vec<u8>, LinesError> {
    let failed = |source| LinesError::Samples {
        path: path.into(),
        source: Box::new(source),
    };
    let open = || input_file::open(path, NamedBy::User).map_err(|error| failed(error.into()));
    let found = read(open()?, &mut |_, _, _| {}, progress).map_err(failed)?;
    if !["", std::env::consts::ARCH].contains(&found.facts.arch.as_str()) {
        return Err(LinesError::Architecture {
            path: path.into(),
            arch: found.facts.arch,
        });
    }
    let mut samples = Samples::of(&found);
    let clocks = read_clocks_again(open()?, &mut |sample| samples.add(sample), progress);
    let passed_over = clocks.map_err(failed)?.unused;
    let (machine, toml) = of_perf_data(&found.facts, samples.cpu_count)?;
    let mut observed = samples.finish();
    observed.notes.extend(found.notes);
    // The second pass took no records about processes, and other samples than the first one.
    let unused = Unused {
        no_memory_event: passed_over.no_memory_event,
        guest: passed_over.guest,
        ..found.unused
    };
    observed.notes.extend(unused.describe());
    let mut recording = Vec::new();
    told::write(
        &mut observed,
        &HostMachine { machine, toml },
        &mut recording,
    )?;
    Ok(recording)
}

/// Threads that are kept.
const THREADS_MAX: usize = 1 << 17;

/// Samples that are read.
struct Samples {
    observed: Observed,
    first_ns: u64,
    last_ns: u64,
    cpu_count: u32,
    /// CPUs of threads whose samples do not say: one for each.
    own_cpus: BTreeMap<u32, u32>,
    in_kernel_count: u64,
    without_registers_count: u64,
    left_out_count: u64,
    has_data_maps: bool,
}

impl Samples {
    fn of(found: &PerfData) -> Samples {
        let world = &found.world;
        let names = world.names.iter();
        let processes = names.filter(|(ids, _)| ids.0.id == ids.1.id);
        // Of several processes with one number, the last one has samples, mostly.
        let names: BTreeMap<u32, String> = processes
            .map(|(ids, name)| (ids.0.id, name.clone()))
            .collect();
        let mut areas: BTreeMap<u32, Vec<Area>> = BTreeMap::new();
        let known = world.maps.iter().map(|(process, _)| process);
        let forked = world.names.keys().map(|ids| ids.0);
        let mut processes: Vec<TaskId> = known.chain(forked).collect();
        processes.sort_unstable();
        processes.dedup();
        for process in processes.into_iter().filter(|process| *process != KERNEL) {
            let maps = world.maps.of(process);
            let own = maps.iter().filter_map(|map| area(map, world));
            areas.insert(process.id, own.collect());
        }
        let has_data_maps = areas.values().flatten().any(|area| !area.is_executable);
        let memory = Memory::noted(areas);
        let clock = found
            .events
            .iter()
            .find(|event| event.attr.is_clock_with_registers());
        let period_ns = clock.map_or(0, |clock| clock.period_sum / clock.sample_count.max(1));
        let programs = Programs::ended(memory.mappings());
        let mut observed = Observed {
            args: found.facts.command.clone(),
            is_by_samples: true,
            names,
            ..Observed::of(Host::elsewhere(), programs, memory, period_ns.max(1))
        };
        for (ids, name) in &world.names {
            let task = SampledTask {
                name: name.clone(),
                ..SampledTask::default()
            };
            observed.threads.insert(ids.1.id, task);
        }
        Samples {
            observed,
            first_ns: u64::MAX,
            last_ns: 0,
            cpu_count: found.facts.cpu_count.max(1),
            own_cpus: BTreeMap::new(),
            in_kernel_count: 0,
            without_registers_count: 0,
            left_out_count: 0,
            has_data_maps,
        }
    }

    fn add(&mut self, read: ClockSample<'_>) {
        let sample = read.sample;
        if sample.mode != CpuMode::User {
            self.in_kernel_count += 1;
            return;
        }
        let threads = &self.observed.threads;
        if threads.len() >= THREADS_MAX && !threads.contains_key(&sample.tid) {
            self.left_out_count += 1;
            return;
        }
        let registers = Registers::of_mask(read.registers.mask, &read.registers.values);
        self.without_registers_count += u64::from(registers.is_none());
        let cpu = u16::try_from(sample.cpu).map_or_else(|_| self.own_cpu(sample.tid), u32::from);
        self.cpu_count = self.cpu_count.max(cpu + 1);
        self.first_ns = self.first_ns.min(sample.time_ns);
        self.last_ns = self.last_ns.max(sample.time_ns);
        self.observed.sample(&Seen {
            pid: sample.pid,
            tid: sample.tid,
            cpu,
            time_ns: sample.time_ns,
            code: sample.ip,
            callers: read.callers.to_vec(),
            registers,
            ..Seen::default()
        });
    }

    /// A CPU for a thread, as if all ran at once as far as there are CPUs.
    fn own_cpu(&mut self, tid: u32) -> u32 {
        let next = self.own_cpus.len() as u32 % self.cpu_count;
        *self.own_cpus.entry(tid).or_insert(next)
    }

    fn finish(self) -> Observed {
        let mut observed = self.observed;
        // Threads of other programs are named as well.
        observed.threads.retain(|_, thread| thread.samples > 0);
        observed.duration_ns = self.last_ns.saturating_sub(self.first_ns).max(1);
        observed.sampled_ns = observed.duration_ns;
        let mut note = |is_so: bool, text: String| observed.notes.extend(is_so.then_some(text));
        note(
            self.in_kernel_count > 0,
            format!(
                "{} samples are of the kernel, and passed over",
                self.in_kernel_count
            ),
        );
        note(
            self.without_registers_count > 0,
            format!(
                "{} samples have not all general registers: perf record --user-regs without names takes all",
                self.without_registers_count
            ),
        );
        note(
            self.left_out_count > 0,
            format!(
                "{} samples are of more threads than are kept",
                self.left_out_count
            ),
        );
        note(
            !self.own_cpus.is_empty(),
            "samples do not say on which CPU they were taken, so threads are taken to have one each: perf record \
             --sample-cpu notes it"
                .to_owned(),
        );
        note(
            !self.has_data_maps,
            "the file has no mappings of data, so memory that is only read or that processes share is not told from \
             other memory: perf record -d notes them"
                .to_owned(),
        );
        observed
    }
}

/// A mapping as the process had it.
fn area(map: &Map, world: &World) -> Option<Area> {
    let path = world.paths.get(map.path as usize)?;
    let is_named = !map.is_anonymous || path == "[heap]";
    let [major, minor, inode, _] = map.file;
    let file = FileId::new(major << 32 | minor, inode);
    Some(Area {
        range: AddrRange::with_len(map.start, map.end.checked_sub(map.start)?)?,
        offset: map.file_offset,
        path: if is_named {
            path.clone()
        } else {
            String::new()
        },
        is_executable: map.executable,
        is_writable: map.is_writable,
        shared: (map.is_shared && inode != 0).then_some(file),
        build_id: world.build_ids.get(&map.path).cloned(),
    })
}
