//! The objects of a structure in a recorded kernel.
//!
//! An object is found as a report finds it: by the address of an access. Those that walks found are there without
//! accesses, too. Not among them: structures of the program that was recorded with the kernel, whose pages lie apart.

use std::collections::BTreeMap;

use hitm_kernel::PAGE_DESCRIPTOR;
use hitm_layout::StructLayout;
use hitm_trace::RegionKind;

use super::AddressNames;
use super::machine::KnownAs;
use crate::kernel_names::{MOVED, descriptor_end};

/// An object of a structure in a recorded kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelInstance {
    /// As in the report; `inode in shmem_inode_info` for one inside an object of another type.
    pub name: String,
    /// Its category in the report.
    pub known_as: KnownAs,
    /// Address of its first byte.
    pub start: u64,
    /// Its bytes: fewer than its type has where the next object begins before.
    pub size_bytes: u64,
}

impl AddressNames<'_> {
    /// The kernel's objects of a structure, by address; they may overlap. Those that were recorded in another layout
    /// are not among them.
    pub fn kernel_instances(&self, wanted: &str) -> Vec<KernelInstance> {
        let size_bytes = |_: &_, layout: &StructLayout| layout.size;
        let Some(type_bytes) = self.with_kernel_type(wanted, size_bytes) else {
            return Vec::new();
        };
        let walked = self
            .kernel_regions
            .all()
            .filter_map(|region| match &region.kind {
                RegionKind::Object { type_name, .. } if type_name == wanted => {
                    Some(region.range.start())
                }
                _ => None,
            });
        let mut found: BTreeMap<u64, KernelInstance> = BTreeMap::new();
        for start in walked.filter(|start| !MOVED.contains(start)) {
            let instance = self.kernel_instance(start, start, wanted, type_bytes);
            found.entry(start).or_insert(instance);
        }
        for (addr, _) in self.recording.places() {
            let last = found.range(..=addr).next_back();
            let is_known =
                last.is_some_and(|(start, last)| addr - start < last.size_bytes.min(type_bytes));
            if is_known || addr >> 63 == 0 || MOVED.contains(&addr) || self.is_of_program(addr) {
                continue;
            }
            if let Some(start) = self.instance_in_kernel(addr, wanted) {
                let instance = self.kernel_instance(start, addr, wanted, type_bytes);
                found.entry(start).or_insert(instance);
            }
        }
        found.into_values().collect()
    }

    /// The object of type `wanted`, of `type_bytes` bytes, at `start`, which holds the byte at `addr`.
    fn kernel_instance(
        &self,
        start: u64,
        addr: u64,
        wanted: &str,
        type_bytes: u64,
    ) -> KernelInstance {
        let label = self.data(addr, 1).unwrap_or_default();
        let is_page = wanted == PAGE_DESCRIPTOR && descriptor_end(addr).is_some();
        let is_typed = |type_name: String| type_name == wanted;
        let is_whole = is_page || self.type_of(addr, 1).is_some_and(is_typed);
        KernelInstance {
            name: match is_whole {
                true => label.object,
                false => format!("{wanted} in {}", label.object),
            },
            known_as: self.known_as(addr).unwrap_or(KnownAs::Object),
            start,
            size_bytes: type_bytes.min(self.end_of_room(addr).saturating_sub(start)),
        }
    }

    /// End of the memory that belongs to the object around the byte at `addr`.
    fn end_of_room(&self, addr: u64) -> u64 {
        let Some(region) = self.kernel_region(addr) else {
            return descriptor_end(addr).unwrap_or(u64::MAX);
        };
        match region.kind {
            RegionKind::Slab { stride_bytes, .. } => {
                let stride = stride_bytes.max(1);
                addr - (addr - region.range.start()) % stride + stride
            }
            _ => region.range.end(),
        }
    }

    fn is_of_program(&self, addr: u64) -> bool {
        self.known_as(addr) == Some(KnownAs::Program)
    }

    /// The kernel's structures with recorded accesses, and how many; most accessed first.
    pub fn accessed_kernel_types(&self) -> Vec<(String, u64)> {
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        for (line, stats) in &self.statistics.lines {
            for (key, row) in &stats.rows {
                let addr = line.first_byte() + u64::from(key.offset);
                if addr >> 63 == 0 || MOVED.contains(&addr) || self.is_of_program(addr) {
                    continue;
                }
                if let Some(type_name) = self.type_of(addr, key.size) {
                    *counts.entry(type_name).or_default() += row.sources.total();
                }
            }
        }
        counts.retain(|name, _| self.with_kernel_type(name, |_, _| ()).is_some());
        let mut counts: Vec<(String, u64)> = counts.into_iter().collect();
        counts.sort_by(|a, b| (b.1, &a.0).cmp(&(a.1, &b.0)));
        counts
    }

    /// Returns true if objects of a structure were recorded in another layout.
    pub fn has_moved(&self, wanted: &str) -> bool {
        let mut moved = self
            .kernel_regions
            .all()
            .filter(|region| MOVED.contains(&region.range.start()));
        moved.any(|region| match &region.kind {
            RegionKind::Object { type_name, .. } | RegionKind::Slab { type_name, .. } => {
                type_name == wanted
            }
            _ => false,
        })
    }
}
