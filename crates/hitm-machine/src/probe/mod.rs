//! Measures the machine this runs on, with real threads pinned to real CPUs.
//!
//! | number | how |
//! |---|---|
//! | clock | a loop of known instructions (x86-64 only; elsewhere sysfs and an assumption) |
//! | modified line | two CPUs hand a counter to and fro with compare-and-swap; half a round trip |
//! | clean line | one CPU reads flushed lines, the other then chases pointers through them |
//! | occupancy | as many CPUs as there are increment one counter; ns an increment over the hand-over |
//! | reads | one CPU writes a line that one, then all others read; ns that each more fetch adds to a write |
//! | locked operation | increments of a counter that no other CPU uses |
//! | cache and memory latency | pointer chases through buffers of fitting size |
//! | system call | getppid |
//! | context switch | two threads of one CPU take turns by a futex, and by pipes |
//! | interrupt to another CPU | membarrier while the other one runs |
//! | idle exit | a futex wakes a CPU that was idle for 200 us, and for 4 ms |
//! | timer | lateness of a sleep of 200 us |
//!
//! Every figure is a median: an interrupt, or a neighbour of a virtual machine, lengthens some
//! samples and shortens none. The quartiles stand in the source of the number.
//!
//! Not measured: cycles per instruction, which are the program's and not the machine's. A loop that
//! the probe could time runs five times as fast as most code. Nor are the depths of the store
//! buffer, the reorder buffer and the fill buffers. A depth needs generated code around misses,
//! whose timing a hypervisor or a busy neighbour blurs, and a wrong depth is worse than the
//! vendor's number. Two-level home effects (both CPUs in one package, the line's memory in another)
//! are not separated.

mod code;
mod costs;
mod kernel_paths;
mod measure;
mod pin;
mod readers;

use std::collections::BTreeMap;
use std::path::Path;

use hitm_base::machine::{
    CacheLevel, CachePart, CorePart, DramPart, Home, Item, MachineError, MachineFile, Quantity,
    Reach, Sourced, TransferPart,
};
use hitm_base::{CpuId, Distance, Topology};
use measure::{Spread, spread};
use thiserror::Error;

use super::facts::machine_file;
use super::host::facts;
use crate::host_cpus;

/// Effort of the measurement.
#[derive(Debug, Clone)]
pub struct ProbeOptions {
    /// Samples of every figure; a sample takes one to twenty milliseconds.
    pub sample_count: usize,
    /// Pairs of CPUs measured at each distance, evenly chosen when there are more.
    pub pairs_per_distance_max: usize,
    /// Machine that lends the numbers which cannot be measured; `None` for the preset nearest to
    /// this host's maker.
    pub like: Option<MachineFile>,
}

impl Default for ProbeOptions {
    /// The options of `hitm machine probe`: every pair on hosts of up to 16 CPUs.
    fn default() -> ProbeOptions {
        ProbeOptions {
            sample_count: 101,
            pairs_per_distance_max: 120,
            like: None,
        }
    }
}

/// Progress of the probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeProgress {
    /// Name of the present step.
    pub step: String,
    /// Steps done.
    pub done: usize,
    /// All steps.
    pub total: usize,
}

/// Errors of measuring this host.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ProbeError {
    /// The kernel does not let a thread run on a CPU.
    #[error("cannot run a thread on CPU {cpu}: {source}")]
    Pin {
        /// The CPU, as the operating system numbers it.
        cpu: u32,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// This host cannot be described.
    #[error(transparent)]
    Host(#[from] MachineError),
}

/// Measures this host. Transfers stay assumed on a host of one usable CPU, and for distances whose
/// CPUs this process may not use; the description names the CPUs that were used.
pub fn probe(
    options: &ProbeOptions,
    progress: &mut dyn FnMut(&ProbeProgress),
) -> Result<MachineFile, ProbeError> {
    let host = facts(Path::new("/"))?;
    let mut file = machine_file(&host, options.like.as_ref())?;
    let topology = file.resolve()?.topology;
    let mut numbers: Vec<u32> = host.cpus.iter().map(|cpu| cpu.number).collect();
    numbers.sort_unstable();
    let usable = host_cpus::usable();
    let cpus: Vec<Cpu> = topology
        .cpus()
        .zip(numbers)
        .map(|(id, number)| Cpu { id, number })
        .filter(|cpu| usable.contains(&cpu.number))
        .collect();
    file.description += &format!("; measured on {} of them", cpus.len());
    let pairs = pairs(&topology, &cpus, options.pairs_per_distance_max);
    let total = pairs.values().map(Vec::len).sum::<usize>() + 7;
    let mut run = Run {
        options,
        file,
        topology,
        cpus,
        done: 0,
        total,
        progress,
    };
    let Some(first) = run.cpus.first().copied() else {
        return Ok(run.file); // Nothing to measure on; the assumptions stand.
    };
    run.core(first)?;
    run.loads(first)?;
    run.transfers(&pairs)?;
    run.occupancy(&pairs)?;
    run.memory(first)?;
    run.kernel_costs()?;
    run.say("done");
    settle_order(&mut run.file);
    run.file.resolve()?;
    Ok(run.file)
}

/// One CPU of this host.
#[derive(Debug, Clone, Copy)]
struct Cpu {
    /// Number in the model.
    id: CpuId,
    /// Number in the operating system.
    number: u32,
}

type Pairs = BTreeMap<Distance, Vec<(Cpu, Cpu)>>;

struct Run<'a> {
    options: &'a ProbeOptions,
    file: MachineFile,
    topology: Topology,
    cpus: Vec<Cpu>,
    done: usize,
    total: usize,
    progress: &'a mut dyn FnMut(&ProbeProgress),
}

impl Run<'_> {
    fn say(&mut self, step: &str) {
        let progress = ProbeProgress {
            step: step.into(),
            done: self.done,
            total: self.total,
        };
        (self.progress)(&progress);
        self.done += 1;
    }

    fn measured(&mut self, item: Item, quantity: Quantity, how: &str) {
        if item.dimension().admits(quantity) {
            let source = format!("measured by hitm machine probe on this host: {how}");
            self.file
                .items
                .insert(item, Sourced::from_source(quantity, source));
        }
    }

    fn time(&mut self, item: Item, spread: &Spread, how: &str) {
        let picos = (spread.median_ns * 1_000.0).round().max(1.0) as u64;
        self.measured(
            item,
            Quantity::Picos(picos),
            &format!("{how}, {}", spread.words("ns")),
        );
    }

    /// Measures the clock and the locked operation.
    fn core(&mut self, cpu: Cpu) -> Result<(), ProbeError> {
        self.say("clock and core");
        let count = self.options.sample_count;
        if let Some(ghz) = pin::on_cpu(cpu.number, || code::clock_ghz(count))? {
            let ghz = spread(ghz);
            let khz = Quantity::Kilohertz((ghz.median_ns * 1e6).round() as u64);
            let how = format!("a chain of dependent additions, {}", ghz.words("GHz"));
            self.measured(Item::Clock, khz, &how);
        }
        let locked = spread(pin::on_cpu(cpu.number, || {
            measure::owned_increments(count)
        })?);
        self.time(
            Item::Core(CorePart::LockedHit),
            &locked,
            "increments of an unshared counter",
        );
        Ok(())
    }

    /// Measures the load-to-use latency of each cache level.
    fn loads(&mut self, cpu: Cpu) -> Result<(), ProbeError> {
        self.say("cache latencies");
        let size = |level| {
            let item = Item::Cache(level, CachePart::Size);
            self.file.get(item).map_or(0, Quantity::raw)
        };
        let [l1, l2, llc] = CacheLevel::ALL.map(size);
        for (level, bytes) in [
            (CacheLevel::L1, l1 / 2),
            (CacheLevel::L2, l2 / 2),
            (CacheLevel::Llc, (4 * l2).max(8 << 20)),
        ] {
            // A buffer must miss the level above and fit the level below.
            let fits = match level {
                CacheLevel::L1 => true,
                CacheLevel::L2 => bytes >= 2 * l1,
                CacheLevel::Llc => bytes <= llc / 2,
            };
            if !fits || !(4096..=256 << 20).contains(&bytes) {
                continue;
            }
            let count = self.options.sample_count;
            let nanos = pin::on_cpu(cpu.number, || measure::chase(bytes as usize, count))?;
            let how = format!("pointer chase through {} KiB", bytes >> 10);
            self.time(Item::Cache(level, CachePart::Latency), &spread(nanos), &how);
        }
        Ok(())
    }

    fn transfers(&mut self, pairs: &Pairs) -> Result<(), ProbeError> {
        for (distance, pairs) in pairs {
            let mut dirty = Vec::new();
            let mut clean = Vec::new();
            for (a, b) in pairs {
                self.say(&format!("CPUs {} and {}", a.number, b.number));
                let cpus = [a.number, b.number];
                dirty.push(spread(measure::hand_over(cpus, self.options.sample_count)?));
                if let Some(nanos) = measure::clean_reads(cpus, self.options.sample_count)? {
                    clean.push(spread(nanos));
                }
            }
            for (part, spreads) in [(TransferPart::Dirty, dirty), (TransferPart::Clean, clean)] {
                if spreads.is_empty() {
                    continue;
                }
                let pair_count = spreads.len();
                let overall = Spread::of_spreads(&spreads);
                let what = match part {
                    TransferPart::Clean => "reads of lines that another CPU holds unmodified",
                    _ => "one-way compare-and-swap hand-over",
                };
                let how = format!("{what}, {pair_count} pairs of CPUs");
                self.time(Item::Transfer(Home::Near, *distance, part), &overall, &how);
            }
            // The measured value holds for every home of the line: the home is unknown.
            let away =
                |item: &Item| matches!(item, Item::Transfer(Home::Away, d, _) if d == distance);
            self.file.items.retain(|item, _| !away(item));
        }
        Ok(())
    }

    /// Measures the share of a hand-over during which the line is occupied, by contended
    /// increments.
    fn occupancy(&mut self, pairs: &Pairs) -> Result<(), ProbeError> {
        self.say("contended increments");
        let package = |cpu: &Cpu| self.topology.package_of(cpu.id);
        let Some(home) = self.cpus.first().map(package) else {
            return Ok(());
        };
        let mut seen = Vec::new();
        let cores: Vec<Cpu> = self
            .cpus
            .iter()
            .filter(|cpu| package(cpu) == home)
            .filter(|cpu| {
                // One CPU of each core: hardware threads share its cache, so no line moves between
                // them.
                let core = self.topology.core_of(cpu.id);
                let first = !seen.contains(&core);
                seen.push(core);
                first
            })
            .copied()
            .collect();
        self.ratio(Reach::Package, &cores)?;
        self.readers(&cores)?;
        let remote = pairs
            .get(&Distance::Remote)
            .and_then(|pairs| pairs.first())
            .copied();
        if let Some((a, b)) = remote {
            self.ratio(Reach::Remote, &[a, b])?;
        }
        Ok(())
    }

    fn ratio(&mut self, reach: Reach, cpus: &[Cpu]) -> Result<(), ProbeError> {
        if cpus.len() < 2 {
            return Ok(());
        }
        let numbers: Vec<u32> = cpus.iter().map(|cpu| cpu.number).collect();
        let contended = spread(measure::contended(&numbers, self.options.sample_count)?);
        let Some(mean_ns) = self.mean_ns(TransferPart::Dirty, cpus) else {
            return Ok(());
        };
        let ratio = (contended.median_ns / mean_ns * 1_000.0)
            .round()
            .clamp(1.0, 1_000.0);
        let how = format!(
            "increments of one counter by {} CPUs take {} each, a hand-over takes {mean_ns:.1} ns; \
             at most 1 is kept",
            cpus.len(),
            contended.words("ns"),
        );
        self.measured(
            Item::OccupancyRatio(reach),
            Quantity::Milli(ratio as u64),
            &how,
        );
        Ok(())
    }

    /// Measures memory of the first CPU's node and of every kind of other node.
    fn memory(&mut self, first: Cpu) -> Result<(), ProbeError> {
        self.say("memory latency");
        let node = |cpu: &Cpu| self.topology.node_of(cpu.id);
        let package = |cpu: &Cpu| self.topology.package_of(cpu.id);
        let home = [(DramPart::Local, Some(first))];
        let package_mate = self
            .cpus
            .iter()
            .find(|cpu| node(cpu) != node(&first) && package(cpu) == package(&first));
        let stranger = self.cpus.iter().find(|cpu| package(cpu) != package(&first));
        let others = [
            (DramPart::Package, package_mate.copied()),
            (DramPart::Remote, stranger.copied()),
        ];
        for (part, owner) in home.into_iter().chain(others) {
            let Some(owner) = owner else { continue };
            let count = self.options.sample_count;
            if let Some(nanos) = measure::memory(first.number, owner.number, count)? {
                let how = "pointer chase through flushed lines";
                self.time(Item::Dram(part), &spread(nanos), how);
            }
        }
        Ok(())
    }
}

/// Pairs of CPUs at each distance, evenly thinned to `max`.
fn pairs(topology: &Topology, cpus: &[Cpu], max: usize) -> Pairs {
    let mut all: Pairs = BTreeMap::new();
    // A larger host is sampled before its pairs are listed: 128 CPUs have 8128 pairs.
    let step = cpus.len().div_ceil(128).max(1);
    let cpus: Vec<Cpu> = cpus.iter().step_by(step).copied().collect();
    for (index, a) in cpus.iter().enumerate() {
        for b in &cpus[index + 1..] {
            all.entry(topology.distance(a.id, b.id))
                .or_default()
                .push((*a, *b));
        }
    }
    for pairs in all.values_mut() {
        let step = pairs.len().div_ceil(max.max(1)).max(1);
        *pairs = pairs.iter().step_by(step).copied().collect();
    }
    all
}

/// Raises assumed latencies that are below a measured one at a nearer distance.
fn settle_order(file: &mut MachineFile) {
    let caches = CacheLevel::ALL.map(|level| Item::Cache(level, CachePart::Latency));
    let dram = [DramPart::Local, DramPart::Package, DramPart::Remote].map(Item::Dram);
    let [clean, dirty] = [TransferPart::Clean, TransferPart::Dirty]
        .map(|part| Distance::ALL.map(|distance| Item::Transfer(Home::Near, distance, part)));
    let clock = file.clock();
    for items in [&caches[..], &dram, &clean, &dirty] {
        let mut least = 0;
        for item in items {
            let Some(sourced) = file.items.get_mut(item) else {
                continue;
            };
            if sourced.origin.is_assumed() && sourced.value.picos(clock) < least {
                sourced.value = Quantity::Picos(least);
            }
            least = least.max(sourced.value.picos(clock));
        }
    }
}

#[cfg(test)]
mod tests;
