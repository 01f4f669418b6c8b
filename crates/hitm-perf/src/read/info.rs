//! Feature sections: the file's description of the machine and of its events.

use super::attr::{ATTR_LEN_MAX, ATTR_LEN_MIN, Attr};
use super::bytes::{ByteOrder, Bytes};
use super::events::IDS_MAX;
use super::header::EVENTS_MAX;
use super::side::PATH_LEN_MAX;
use crate::c2c::MemoryNodes;
use crate::format::feature;

/// CPUs that a file may describe; Linux can be built for 8192.
pub(super) const CPUS_MAX: u32 = 1 << 16;

/// Arguments of perf that are kept, more than Linux passes on.
const ARGS_MAX: u32 = 1 << 16;

/// Files with a build id that a file may name.
const BUILD_IDS_MAX: usize = 1 << 18;

/// Ranges of memory that a file may describe; machines have some for each node.
const MEMORY_RANGES_MAX: usize = 1 << 16;

/// Contents of the feature sections, empty where the file says nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FileFacts {
    /// Machine architecture, as `uname -m`.
    pub arch: String,
    /// Version of the kernel.
    pub os_release: String,
    /// Version of perf.
    pub perf_version: String,
    /// One line about the CPUs.
    pub cpu_description: String,
    /// Vendor, family, model and stepping, or what the architecture has.
    pub cpuid: String,
    /// The command line of perf.
    pub command: Vec<String>,
    /// CPUs that may come online.
    pub cpu_count: u32,
    /// For each CPU its core and its package.
    pub cores: Vec<(u32, u32)>,
    /// For each CPU its node.
    pub nodes: Vec<Option<u32>>,
    /// Number of nodes with CPUs or memory.
    pub node_count: u32,
    /// Physical memory of each node.
    pub memory: MemoryNodes,
    /// Build ids by path.
    pub build_ids: Vec<(String, Vec<u8>)>,
    /// Facts of hitm's own, in a form that hitm-perf does not know.
    pub own: Vec<u8>,
    /// Names of events by sample id.
    pub(super) event_names: Vec<(String, Attr, Vec<u64>)>,
    event_id_count: usize,
    /// The most bytes that a compressed record holds, 0 when not said.
    pub(super) compressed_len_max: u64,
    /// Sections that could not be read.
    pub(super) unreadable: u64,
}

impl FileFacts {
    /// Reads a feature section; one that is cut off is counted and gives what it has.
    pub(super) fn take(&mut self, bit: u8, section: &[u8], order: ByteOrder) {
        let mut bytes = Bytes::new(section, order);
        let read = match bit {
            feature::BUILD_ID => self.take_build_ids(bytes),
            feature::OSRELEASE => bytes.counted_text().map(|text| self.os_release = text),
            feature::VERSION => bytes.counted_text().map(|text| self.perf_version = text),
            feature::ARCH => bytes.counted_text().map(|text| self.arch = text),
            feature::CPUDESC => bytes.counted_text().map(|text| self.cpu_description = text),
            feature::CPUID => bytes.counted_text().map(|text| self.cpuid = text),
            feature::NRCPUS => bytes
                .u32()
                .map(|count| self.cpu_count = count.min(CPUS_MAX)),
            feature::CMDLINE => self.take_command(bytes),
            feature::EVENT_DESC => self.take_events(bytes, order),
            feature::CPU_TOPOLOGY => self.take_topology(bytes),
            feature::NUMA_TOPOLOGY => self.take_nodes(bytes),
            feature::MEM_TOPOLOGY => self.take_memory(bytes),
            feature::COMPRESSED => self.take_compression(bytes),
            feature::OWN => {
                self.own = section.to_vec();
                Some(())
            }
            _ => Some(()),
        };
        self.unreadable += u64::from(read.is_none());
    }

    fn take_command(&mut self, mut bytes: Bytes<'_>) -> Option<()> {
        let count = bytes.u32()?;
        self.command.clear();
        for _ in 0..count.min(ARGS_MAX) {
            self.command.push(bytes.counted_text()?);
        }
        Some(())
    }

    fn take_compression(&mut self, mut bytes: Bytes<'_>) -> Option<()> {
        let _version_type_level_ratio = bytes.take(16)?;
        self.compressed_len_max = bytes.u32()?.into();
        Some(())
    }

    fn take_events(&mut self, mut bytes: Bytes<'_>, order: ByteOrder) -> Option<()> {
        let count = bytes.u32()?;
        let attr_len = u64::from(bytes.u32()?);
        if !(ATTR_LEN_MIN..=ATTR_LEN_MAX).contains(&attr_len) {
            return None;
        }
        for _ in 0..count {
            // A stream may bring the section again and again.
            if self.event_names.len() >= EVENTS_MAX {
                return None;
            }
            let attr = Attr::read(bytes.take(attr_len as usize)?, order)?;
            let id_count = bytes.u32()?;
            let name = bytes.counted_text()?;
            let ids = bytes.take((id_count as usize).checked_mul(8)?)?;
            let mut ids = Bytes::new(ids, order);
            let ids: Vec<u64> = std::iter::from_fn(|| ids.u64()).collect();
            self.event_id_count += ids.len();
            if self.event_id_count > IDS_MAX {
                return None;
            }
            self.event_names.push((name, attr, ids));
        }
        Some(())
    }

    fn take_topology(&mut self, mut bytes: Bytes<'_>) -> Option<()> {
        // The CPUs of each package and of each core, as lists, and then each CPU's numbers.
        for _ in 0..2 {
            let count = bytes.u32()?;
            for _ in 0..count {
                bytes.counted_text()?;
            }
        }
        self.cores.clear();
        for _ in 0..self.cpu_count {
            self.cores.push((bytes.u32()?, bytes.u32()?));
        }
        Some(())
    }

    fn take_nodes(&mut self, mut bytes: Bytes<'_>) -> Option<()> {
        let count = bytes.u32()?;
        for _ in 0..count {
            let node = bytes.u32()?;
            bytes.skip(16)?; // memory, and how much of it was free
            for cpu in cpu_list(&bytes.counted_text()?) {
                if self.nodes.len() <= cpu {
                    self.nodes.resize(cpu + 1, None);
                }
                self.nodes[cpu] = Some(node);
            }
        }
        self.node_count = count;
        Some(())
    }

    /// Blocks of memory of each node, one bit a block.
    fn take_memory(&mut self, mut bytes: Bytes<'_>) -> Option<()> {
        self.memory = MemoryNodes::default();
        let _version = bytes.u64()?;
        let block_len = bytes.u64()?;
        let count = bytes.u64()?;
        for _ in 0..count {
            let node = u32::try_from(bytes.u64()?).ok()?;
            let _bits = bytes.u64()?;
            let bits = bytes.u64()?;
            for first in (0..bits).step_by(64) {
                let word = bytes.u64()?;
                let here = (0..64).filter(|bit| word >> bit & 1 == 1);
                for block in here.map(|bit| first + bit).filter(|block| *block < bits) {
                    let start = block.checked_mul(block_len)?;
                    self.memory
                        .insert(start, start.checked_add(block_len)?, node);
                    if self.memory.len() > MEMORY_RANGES_MAX {
                        return None;
                    }
                }
            }
        }
        Some(())
    }

    fn take_build_ids(&mut self, mut bytes: Bytes<'_>) -> Option<()> {
        while !bytes.rest().is_empty() {
            let _kind = bytes.u32()?;
            let misc = bytes.u16()?;
            let len = usize::from(bytes.u16()?);
            let body = bytes.take(len.checked_sub(8)?)?;
            self.take_build_id(misc, body)?;
        }
        Some(())
    }

    /// Reads the body of a `HEADER_BUILD_ID` record: process, 20 bytes, their length, the path.
    pub(super) fn take_build_id(&mut self, misc: u16, body: &[u8]) -> Option<()> {
        let id = body.get(4..24)?;
        let says_len = misc & crate::format::misc::BUILD_ID_SIZE != 0;
        let len = if says_len {
            usize::from(*body.get(24)?).min(20)
        } else {
            20
        };
        let path = Bytes::new(body.get(28..)?, ByteOrder::Little).text();
        if self.build_ids.len() >= BUILD_IDS_MAX || path.len() > PATH_LEN_MAX {
            return None;
        }
        self.build_ids.push((path, id[..len].to_vec()));
        Some(())
    }
}

/// CPUs of a list such as `0-3,8`; any other text gives none.
fn cpu_list(text: &str) -> Vec<usize> {
    let mut cpus = Vec::new();
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.parse::<usize>(), last.parse::<usize>()) {
            let end = last.saturating_add(1).min(CPUS_MAX as usize);
            cpus.extend((first..end).take(CPUS_MAX as usize));
        }
        if cpus.len() > CPUS_MAX as usize {
            break;
        }
    }
    cpus
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus() {
        assert_eq!(cpu_list("0-3,8"), [0, 1, 2, 3, 8]);
        assert_eq!(cpu_list(""), [0; 0]);
        assert_eq!(cpu_list("3-1,x,5"), [5]);
        assert_eq!(cpu_list("0-18446744073709551615").len(), CPUS_MAX as usize);
    }
}
