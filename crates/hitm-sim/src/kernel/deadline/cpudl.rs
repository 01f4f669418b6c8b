//! The CPUs of a root domain by their earliest deadline: kernel/sched/cpudeadline.c, v6.12.
//!
//! A heap in an array, the latest deadline first, changed under a lock. Element n also has the place of
//! CPU n in the heap. Searches take no lock.

use std::cell::RefCell;

use hitm_base::{CpuId, Topology};

use super::entity;
use crate::engine::{Arena, Engine, Object, Opaque, Place, SimError};
use crate::kernel::Kernel;
use crate::kernel::cpumask::CpuMask;
use crate::kernel::functions as f;
use crate::kernel::mask::{SharedMask, Wanted};
use crate::kernel::task::Task;

/// Bytes of `struct cpudl_item`.
const ITEM_BYTES: u64 = 16;

#[derive(Debug)]
pub(super) struct Cpudl {
    lock: Place,
    size: Place,
    elements: Vec<Opaque>,
    /// CPUs without a task of the class.
    free_cpus: SharedMask,
    heap: RefCell<Heap>,
}

impl Cpudl {
    pub(super) fn new(
        arena: &mut Arena,
        root_domain: &Object,
        topology: &Topology,
    ) -> Result<Cpudl, SimError> {
        let elements = arena.cpu_array(root_domain, "cpudl.elements", ITEM_BYTES)?;
        let elements = elements
            .into_iter()
            .map(|place| arena.engine().opaque(place));
        let elements = elements.collect();
        Ok(Cpudl {
            lock: arena.place(root_domain, "cpudl.lock")?,
            size: arena.place(root_domain, "cpudl.size")?,
            elements,
            free_cpus: SharedMask::new(arena, root_domain, "cpudl.free_cpus", topology)?,
            heap: RefCell::new(Heap {
                items: Vec::new(),
                index: vec![None; topology.cpu_count()],
            }),
        })
    }

    /// A CPU without such tasks, without accesses.
    pub(super) fn boot(&self, engine: &Engine, cpu: CpuId) {
        self.free_cpus.boot_set(engine, cpu);
    }
}

/// The latest deadline first.
#[derive(Debug)]
struct Heap {
    items: Vec<(u64, CpuId)>,
    /// Place of each CPU in it.
    index: Vec<Option<usize>>,
}

impl Heap {
    /// Gives a CPU a deadline; returns the elements that were written.
    fn set(&mut self, cpu: CpuId, deadline: u64) -> Vec<usize> {
        let at = match self.index[cpu.index()] {
            Some(at) => at,
            None => {
                self.items.push((deadline, cpu));
                self.items.len() - 1
            }
        };
        self.items[at] = (deadline, cpu);
        self.index[cpu.index()] = Some(at);
        self.order(at)
    }

    /// Takes a CPU out; returns the elements that were written.
    fn remove(&mut self, cpu: CpuId) -> Vec<usize> {
        let Some(at) = self.index[cpu.index()].take() else {
            return Vec::new();
        };
        let last = self.items.pop().expect("the CPU is in it");
        if at == self.items.len() {
            return vec![at];
        }
        self.items[at] = last;
        self.index[last.1.index()] = Some(at);
        self.order(at)
    }

    /// Moves an element up or down to where it belongs.
    fn order(&mut self, mut at: usize) -> Vec<usize> {
        let mut written = vec![at];
        while at > 0 && self.items[(at - 1) / 2].0 < self.items[at].0 {
            self.swap(at, (at - 1) / 2);
            at = (at - 1) / 2;
            written.push(at);
        }
        loop {
            let below = [2 * at + 1, 2 * at + 2].into_iter();
            let latest = below
                .filter(|below| *below < self.items.len())
                .max_by_key(|below| self.items[*below].0);
            match latest.filter(|latest| self.items[*latest].0 > self.items[at].0) {
                Some(latest) => self.swap(at, latest),
                None => return written,
            }
            at = latest.expect("it was just swapped");
            written.push(at);
        }
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.items.swap(a, b);
        for at in [a, b] {
            self.index[self.items[at].1.index()] = Some(at);
        }
    }
}

impl Kernel {
    /// A CPU's earliest deadline is this one from now on. Its run queue is locked.
    pub(super) async fn cpudl_set(&self, cp: &Cpudl, cpu: CpuId, deadline: u64) {
        let (engine, site) = (&*self.engine, f::CPUDL_SET);
        engine.call(site, self.costs.function);
        self.spin_lock(cp.lock).await;
        engine.touch(site, cp.elements[cpu.index()]).await;
        let is_new = cp.heap.borrow().index[cpu.index()].is_none();
        let written = cp.heap.borrow_mut().set(cpu, deadline);
        if is_new {
            self.store_size(cp).await;
            cp.free_cpus.clear(engine, site, cpu).await;
        }
        self.write_elements(cp, written).await;
        self.spin_unlock(cp.lock).await;
    }

    /// A CPU has no task of the class any more.
    pub(super) async fn cpudl_clear(&self, cp: &Cpudl, cpu: CpuId) {
        let (engine, site) = (&*self.engine, f::CPUDL_CLEAR);
        engine.call(site, self.costs.function);
        self.spin_lock(cp.lock).await;
        engine.touch(site, cp.elements[cpu.index()]).await;
        let written = cp.heap.borrow_mut().remove(cpu);
        self.store_size(cp).await;
        self.write_elements(cp, written).await;
        cp.free_cpus.set(engine, site, cpu).await;
        self.spin_unlock(cp.lock).await;
    }

    async fn store_size(&self, cp: &Cpudl) {
        let size = cp.heap.borrow().items.len() as u64;
        self.engine.store(f::CPUDL_SET, cp.size, size).await;
    }

    async fn write_elements(&self, cp: &Cpudl, written: Vec<usize>) {
        for at in written {
            self.rewrite(f::CPUDL_SET, cp.elements[at]).await;
        }
    }

    /// Returns true if a task may go to a CPU without such tasks, or to the one with the latest deadline; `later` gets
    /// these CPUs.
    pub(super) async fn cpudl_find(&self, cp: &Cpudl, p: &Task, later: &mut CpuMask) -> bool {
        let (engine, site) = (&*self.engine, f::CPUDL_FIND);
        engine.call(site, self.costs.function);
        let allowed = std::rc::Rc::clone(&p.allowed.borrow());
        let wanted = Wanted {
            near: p.cpu.get(),
            allowed: &allowed,
        };
        cp.free_cpus
            .read_until_found(engine, site, wanted, later)
            .await;
        if !later.is_empty() {
            return true;
        }
        engine.touch(site, cp.elements[0]).await;
        let latest = cp.heap.borrow().items.first().copied();
        let fits =
            |item: &(u64, CpuId)| allowed.contains(item.1) && entity(p).deadline.get() < item.0;
        match latest.filter(fits) {
            Some((_, cpu)) => {
                later.set(cpu);
                true
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_first_is_the_latest(changes in proptest::collection::vec((0u16..9, 0u64..50, any::<bool>()), 1..80)) {
            let mut heap = Heap { items: Vec::new(), index: vec![None; 9] };
            let mut known = std::collections::BTreeMap::new();
            for (cpu, deadline, goes) in changes {
                let cpu = CpuId(cpu);
                match goes {
                    true => {
                        heap.remove(cpu);
                        known.remove(&cpu);
                    }
                    false => {
                        heap.set(cpu, deadline);
                        known.insert(cpu, deadline);
                    }
                }
                let first = heap.items.first().map(|item| item.0);
                prop_assert_eq!(first, known.values().max().copied());
                prop_assert_eq!(heap.items.len(), known.len());
                for (cpu, deadline) in &known {
                    let at = heap.index[cpu.index()].expect("it is there");
                    prop_assert_eq!(heap.items[at], (*deadline, *cpu));
                }
            }
        }
    }
}
