//! The page tables of a stopped kernel's processes: four levels of pages on x86-64.
//!
//! An entry is in use when bit 0 is set. Bits 12 to 51 are the physical address it leads to, and
//! bit 7 marks a large page, which ends the walk (Intel SDM volume 3, section 4.5).

use std::collections::BTreeSet;

use super::slabs::{DIRECT_MAP, PAGE_BYTES};
use super::walk::{KernelObject, Walker, word};

const PRESENT: u64 = 1;
const LARGE: u64 = 1 << 7;
const ADDRESS: u64 = 0x000f_ffff_ffff_f000;
/// Levels above the one whose entries lead to the program's pages.
const UPPER_LEVELS: usize = 3;
/// Bytes of the top level that map user space.
const USER_BYTES: u64 = PAGE_BYTES / 2;
/// Limit on the pages of all tables.
const TABLES_MAX: usize = 100_000;

/// Name of a page table.
pub const PAGE_TABLE: &str = "page table";

impl Walker<'_> {
    /// Pages of the page tables of these address spaces.
    pub fn page_tables(&mut self, spaces: &[u64]) -> Vec<KernelObject> {
        let Some(offset) = self.member_offset("mm_struct", "pgd") else {
            return Vec::new();
        };
        let tops = spaces
            .iter()
            .filter_map(|space| self.pointer(space.wrapping_add(offset)));
        let mut level: BTreeSet<u64> = tops.filter(|top| *top >= DIRECT_MAP).collect();
        let mut tables = level.clone();
        let mut size = USER_BYTES;
        for _ in 0..UPPER_LEVELS {
            let mut next = BTreeSet::new();
            for table in &level {
                let Ok(bytes) = self.memory.read(*table, size) else {
                    continue;
                };
                let entries = bytes.chunks_exact(8).map(word);
                let used = entries.filter(|entry| entry & (PRESENT | LARGE) == PRESENT);
                next.extend(used.map(|entry| DIRECT_MAP + (entry & ADDRESS)));
            }
            if tables.len() + next.len() > TABLES_MAX {
                break;
            }
            tables.extend(&next);
            level = next;
            size = PAGE_BYTES;
        }
        let objects = tables.into_iter().map(|start| KernelObject {
            start,
            size: PAGE_BYTES,
            name: PAGE_TABLE.to_owned(),
            type_name: String::new(),
        });
        objects.collect()
    }
}
