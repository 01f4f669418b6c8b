//! The tables of `perf c2c report`: samples counted as perf counts them.
//!
//! Source: tools/perf/builtin-c2c.c and `c2c_decode_stats` in tools/perf/util/mem-events.c, Linux
//! 6.1. Every cell can be compared with perf's, because the following are perf's own. They are the
//! bits that make each count, the keys of lines and rows, the choice and order of those shown, and
//! the running means. The key of a row is its offset and instruction, whichever process ran it.
//!
//! [`C2c::add`] takes samples in the order of their times; [`C2c::finish`] makes [`Tables`].

mod counts;
mod physical;
pub mod published;
mod tables;

use hitm_base::LINE_SIZE;
use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;

pub use counts::Counts;
pub use physical::{MemoryNodes, Physical};
pub use tables::{Line, Row, Tables};

use crate::{CpuMode, DataSrc, Sample, TaskId};
use counts::Class;

/// Sort key of the lines, and the choice of columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Display {
    /// Local and remote HITM together: perf's choice on x86.
    #[default]
    TotalHitm,
    /// HITM in another node's cache.
    RemoteHitm,
    /// HITM in another cache of the node.
    LocalHitm,
    /// Transfers from peers: perf's choice on Arm, where samples do not say HITM.
    Peer,
}

impl Display {
    /// Returns perf's default for a recording of this architecture.
    pub fn for_arch(arch: &str) -> Display {
        match arch {
            "aarch64" | "arm64" => Display::Peer,
            _ => Display::TotalHitm,
        }
    }
}

/// Identity of a mapped address: perf tells lines apart by the file and the place in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct MapPlace {
    /// Device and inode, zeros for memory without a file.
    pub file: [u64; 4],
    /// Belongs to its process alone (`MAP_PRIVATE`).
    pub is_private: bool,
    /// The address as perf sees it: relative to the file, or as it is.
    pub address: u64,
}

/// Finds mappings.
pub trait Maps {
    /// Returns the mapping that holds `addr`, as a process sees it in a mode.
    fn find(&self, process: TaskId, mode: CpuMode, addr: u64) -> Option<MapPlace>;
}

/// perf's key of a row, and the process, which may tell lines apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct RowKey {
    addr: u64,
    ip: u64,
    pid: u32,
    life: u16,
    mode: CpuMode,
}

impl RowKey {
    fn process(&self) -> TaskId {
        TaskId {
            id: self.pid,
            life: self.life,
        }
    }
}

/// A mean as perf computes it, sample by sample (`update_stats`).
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct RunningMean {
    /// Samples.
    pub count: u64,
    /// Mean of their weights, in cycles.
    pub mean: f64,
}

impl RunningMean {
    fn add(&mut self, weight: u64) {
        self.count += 1;
        self.mean += (weight as f64 - self.mean) / self.count as f64;
    }

    /// Adds another mean. perf never merges means; here rows of different processes in one file's
    /// line become one.
    fn merge(&mut self, other: RunningMean) {
        if other.count > 0 {
            let count = self.count + other.count;
            self.mean += (other.mean - self.mean) * other.count as f64 / count as f64;
            self.count = count;
        }
    }
}

/// The means of a row, one for each class of samples.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Means {
    /// Loads that hit a modified line on another node.
    pub remote_hitm: RunningMean,
    /// Loads that hit a modified line in the node.
    pub local_hitm: RunningMean,
    /// Loads that a peer on another node served.
    pub remote_peer: RunningMean,
    /// Loads that a peer of the node served.
    pub local_peer: RunningMean,
    /// All other loads.
    pub load: RunningMean,
}

impl Means {
    fn merge(&mut self, other: &Means) {
        self.remote_hitm.merge(other.remote_hitm);
        self.local_hitm.merge(other.local_hitm);
        self.remote_peer.merge(other.remote_peer);
        self.local_peer.merge(other.local_peer);
        self.load.merge(other.load);
    }
}

/// Set of CPUs or nodes: one word while all numbers are below 64.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NumberSet {
    low: u64,
    /// Ascending, from 64 on.
    high: Vec<u16>,
}

impl NumberSet {
    fn insert(&mut self, number: u16) {
        if number < 64 {
            self.low |= 1 << number;
        } else if let Err(place) = self.high.binary_search(&number) {
            self.high.insert(place, number);
        }
    }

    fn merge(&mut self, other: &NumberSet) {
        self.low |= other.low;
        other.high.iter().for_each(|number| self.insert(*number));
    }

    /// Number of members.
    pub fn count(&self) -> usize {
        self.low.count_ones() as usize + self.high.len()
    }

    /// Members, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u16> + '_ {
        let low = (0..64).filter(|number| self.low >> number & 1 == 1);
        low.chain(self.high.iter().copied())
    }
}

/// Samples of a row that have one `data_src`: they count alike.
#[derive(Debug, Clone, Copy)]
struct Cell {
    data_src: DataSrc,
    class: Class,
    count: u64,
}

#[derive(Debug, Clone, Default)]
struct RowData {
    cells: Vec<Cell>,
    means: Means,
    cpus: NumberSet,
    /// Set once a sample has a physical address.
    physical: Option<Box<Physical>>,
}

impl RowData {
    fn add(&mut self, sample: &Sample) {
        let known = self
            .cells
            .iter_mut()
            .find(|cell| cell.data_src == sample.data_src);
        let class = match known {
            Some(cell) => {
                cell.count += 1;
                cell.class
            }
            None => {
                let class = Class::of(sample.data_src, sample.addr);
                self.cells.push(Cell {
                    data_src: sample.data_src,
                    class,
                    count: 1,
                });
                class
            }
        };
        match class {
            Class::RemoteHitm => self.means.remote_hitm.add(sample.weight),
            Class::LocalHitm => self.means.local_hitm.add(sample.weight),
            Class::RemotePeer => self.means.remote_peer.add(sample.weight),
            Class::LocalPeer => self.means.local_peer.add(sample.weight),
            Class::Load => self.means.load.add(sample.weight),
            Class::Other => {}
        }
        if let Ok(cpu) = u16::try_from(sample.cpu) {
            self.cpus.insert(cpu);
        }
    }

    fn counts(&self, addr: u64) -> Counts {
        let mut counts = Counts::default();
        for cell in &self.cells {
            counts.add(cell.data_src, addr, cell.count);
        }
        counts
    }
}

/// Key by which physical addresses are counted: line, process and mode.
type LineOf = (u64, TaskId, CpuMode);

/// Collects samples into rows.
#[derive(Debug, Default)]
pub struct C2c {
    rows: IndexMap<RowKey, RowData, FxBuildHasher>,
    memory: MemoryNodes,
    /// Physical addresses of lines: perf counts them over all rows, in the order of the samples.
    lines: IndexMap<LineOf, Physical, FxBuildHasher>,
    has_physical: bool,
}

impl C2c {
    /// Counts physical addresses against this memory of nodes.
    pub fn of_memory(memory: MemoryNodes) -> C2c {
        C2c {
            memory,
            ..C2c::default()
        }
    }

    /// Returns true if a sample had a physical address.
    pub fn has_physical(&self) -> bool {
        self.has_physical
    }

    /// Counts one sample.
    #[inline]
    pub fn add(&mut self, sample: &Sample) {
        let key = RowKey {
            addr: sample.addr,
            ip: sample.ip,
            pid: sample.pid,
            life: sample.lives[0],
            mode: sample.mode,
        };
        let row = self.rows.entry(key).or_default();
        row.add(sample);
        if sample.phys_addr == 0 {
            return;
        }
        self.has_physical = true;
        if !self.memory.is_empty() {
            let physical = row.physical.get_or_insert_default();
            physical.add(sample.phys_addr, &self.memory);
            let line = (sample.addr / LINE_SIZE, sample.process(), sample.mode);
            let physical = self.lines.entry(line).or_default();
            physical.add(sample.phys_addr, &self.memory);
        }
    }
}
