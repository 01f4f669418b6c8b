//! First touches of a program's memory: arch/x86/mm/fault.c and mm/memory.c, v6.13.
//!
//! **What Linux does:** a page that an address space has no entry for ends in an exception. The handler
//! finds the mapping under a lock of its own, which counts its readers, so that threads of one address
//! space meet there. A page that nobody has touched is cleared. It gets one reference more and its entry,
//! under the lock of the page table. With huge pages an entry has 2 MiB, all of which are cleared.
//!
//! **What we do:** the same lines and locks, and [`KernelCost::PageFault`] and [`KernelCost::ClearPage`]
//! for what is left. Work that may be preempted is in pieces of a page.
//!
//! **What a test could notice:** there is always memory, and nothing is read from a disk. Page tables
//! themselves cost nothing to make. The first touch of a cleared page finds its line in memory, not in
//! the cache of the CPU that has cleared it.
//!
//! [`KernelCost::PageFault`]: super::KernelCost::PageFault
//! [`KernelCost::ClearPage`]: super::KernelCost::ClearPage

use std::cell::{Cell, RefCell};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use hitm_base::{CpuId, Cycles};

use super::functions as f;
use super::process::{Exit, Thread};
use super::{Kernel, Mechanism};
use crate::engine::{MemberKey, Mode, Place};

/// Bytes of a page, and of a huge one.
const PAGE_BYTES: u64 = 4096;
const HUGE_PAGE_BYTES: u64 = 2 << 20;
/// Entries of a page table.
const ENTRIES: u64 = 512;

/// A mapping, shared by all address spaces that have it.
#[derive(Debug)]
pub struct UserMapping {
    page_bytes: u64,
    /// All pages were cleared before the run.
    is_initialised: bool,
    spaces: Vec<AddressSpace>,
    /// References of each page that anybody has touched.
    folios: RefCell<BTreeMap<u64, Place>>,
    faults: Cell<u64>,
}

/// The mapping in one address space.
#[derive(Debug)]
struct AddressSpace {
    vm_lock: Place,
    /// Lock and entries of each page table.
    tables: RefCell<BTreeMap<u64, [Place; 2]>>,
    mapped: RefCell<BTreeSet<u64>>,
}

impl UserMapping {
    /// Faults so far.
    pub fn faults(&self) -> u64 {
        self.faults.get()
    }

    /// The page that an offset lies in, if an address space has no entry for it.
    fn unmapped(&self, space: usize, offset_bytes: u64) -> Option<u64> {
        let page = offset_bytes / self.page_bytes;
        let is_mapped = self.spaces[space].mapped.borrow().contains(&page);
        (!is_mapped).then_some(page)
    }
}

impl Kernel {
    /// A mapping that `spaces` address spaces have and none has touched. Its pages are huge under
    /// [`Mechanism::HugePages`]. Touches clear pages unless the program did so at its start.
    pub fn user_mapping(&self, spaces: usize, is_initialised: bool) -> UserMapping {
        let space = |_| AddressSpace {
            vm_lock: self.user_place("vm_area_struct", "vm_lock", CpuId(0)),
            tables: RefCell::default(),
            mapped: RefCell::default(),
        };
        UserMapping {
            page_bytes: match self.has(Mechanism::HugePages) {
                true => HUGE_PAGE_BYTES,
                false => PAGE_BYTES,
            },
            is_initialised,
            spaces: (0..spaces).map(space).collect(),
            folios: RefCell::default(),
            faults: Cell::new(0),
        }
    }

    /// A word at the begin of a line of its own.
    pub(super) fn user_place(&self, type_name: &str, path: &str, home: CpuId) -> Place {
        let key = MemberKey::new(type_name, path, 0);
        self.engine.place(self.user_line(), home, key)
    }
}

impl Thread {
    /// Touches memory of a mapping in an address space: a fault if it is the first touch of its page
    /// there.
    pub async fn touch(&self, mapping: &UserMapping, space: usize, offset_bytes: u64) {
        let Some(page) = mapping.unmapped(space, offset_bytes) else {
            return;
        };
        let engine = &self.kernel.engine;
        mapping.faults.set(mapping.faults.get() + 1);
        engine.set_mode(Mode::Kernel);
        self.note_fault(true);
        self.handle_fault(mapping, space, page).await;
        self.note_fault(false);
        self.kernel.exit_to_user(&self.task, Exit::Interrupt).await;
        engine.set_mode(Mode::User);
    }

    fn note_fault(&self, is_in_fault: bool) {
        if let Some(watch) = &*self.task.holds.borrow() {
            watch.fault(self.now(), is_in_fault);
        }
    }

    async fn handle_fault(&self, mapping: &UserMapping, space: usize, page: u64) {
        let (kernel, site) = (&self.kernel, f::HANDLE_MM_FAULT);
        let engine = &kernel.engine;
        let space = &mapping.spaces[space];
        engine.call(site, Cycles::ZERO);
        engine.fetch_add(site, space.vm_lock, 1).await;
        kernel.might_sleep(&self.task).await;
        let own = kernel.costs.page_fault;
        kernel.run_in_kernel(&self.task, site, own).await;
        let (folio, is_first) = self.folio(mapping, page);
        if is_first && !mapping.is_initialised {
            self.clear(mapping.page_bytes).await;
        }
        engine.fetch_add(site, folio, 1).await;
        let [lock, entries] = self.page_table(space, page / ENTRIES);
        kernel.spin_lock(lock).await;
        engine.store(site, entries, page).await;
        space.mapped.borrow_mut().insert(page);
        kernel.spin_unlock(lock).await;
        engine.fetch_add(site, space.vm_lock, -1).await;
    }

    /// The references of a page; true for its first touch.
    fn folio(&self, mapping: &UserMapping, page: u64) -> (Place, bool) {
        match mapping.folios.borrow_mut().entry(page) {
            Entry::Occupied(known) => (*known.get(), false),
            Entry::Vacant(new) => {
                let place = self.kernel.user_place("page", "_refcount", self.cpu());
                (*new.insert(place), true)
            }
        }
    }

    fn page_table(&self, space: &AddressSpace, number: u64) -> [Place; 2] {
        let new = || {
            let place = |path| self.kernel.user_place("ptdesc", path, self.cpu());
            [place("ptl"), place("pte")]
        };
        *space.tables.borrow_mut().entry(number).or_insert_with(new)
    }

    async fn clear(&self, bytes: u64) {
        let (kernel, page) = (&self.kernel, self.kernel.costs.clear_page);
        for _ in 0..bytes / PAGE_BYTES {
            kernel.run_in_kernel(&self.task, f::CLEAR_PAGE, page).await;
            kernel.cond_resched(&self.task).await;
        }
    }
}
