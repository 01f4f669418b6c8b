//! The priority of every CPU, kernel/sched/cpupri.c, v6.12.
//!
//! **What Linux does:** one vector for each priority has a count and a mask of the CPUs at it. So a
//! CPU of lowest priority is found without looking at all run queues. The vectors are updated
//! without a lock: a CPU enters its new vector (mask, then count) before it leaves the old one
//! (count, then mask). So it may be found twice but never missed.
//!
//! **What we do:** the same accesses in the same order. The search reads the mask that it wants once;
//! Linux reads it for `cpumask_any_and` and again for `cpumask_and`, the second time from its cache
//! ([`Mechanism::SecondMaskRead`]).
//!
//! **What a test could notice:** capacities and the fitness function are not modelled, so all CPUs
//! fit; CPUs never leave (`cpu_active_mask`).

use hitm_base::{CpuId, Topology};

use super::Kernel;
use super::cpumask::CpuMask;
use super::functions as f;
use super::mask::{SharedMask, Wanted};
use super::mechanisms::Mechanism;
use super::task::{MAX_RT_PRIO, Task};
use crate::engine::{Arena, Engine, Object, Place, SimError};

/// Vectors: idle and fair together, 99 real-time priorities, higher than real-time.
pub const CPUPRI_NR_PRIORITIES: usize = 101;

/// The vector of CPUs with a task of the deadline class.
pub(super) const CPUPRI_HIGHER: usize = CPUPRI_NR_PRIORITIES - 1;

#[derive(Debug)]
struct CpupriVec {
    count: Place,
    mask: SharedMask,
}

/// `struct cpupri` of a root domain.
#[derive(Debug)]
pub struct Cpupri {
    pri_to_cpu: Vec<CpupriVec>,
    cpu_to_pri: Vec<Place>,
}

/// The vector of a task's priority.
pub fn convert_prio(prio: u32) -> usize {
    (MAX_RT_PRIO - 1).saturating_sub(prio) as usize
}

/// The value of `cpu_to_pri` for a CPU of no vector, stored as 0; vectors count from 1.
const CPUPRI_INVALID: u64 = 0;

impl Cpupri {
    pub(super) fn new(
        arena: &mut Arena,
        root_domain: &Object,
        topology: &Topology,
    ) -> Result<Cpupri, SimError> {
        let mut pri_to_cpu = Vec::new();
        for index in 0..CPUPRI_NR_PRIORITIES {
            let path = format!("cpupri.pri_to_cpu[{index}]");
            pri_to_cpu.push(CpupriVec {
                count: arena.place(root_domain, &format!("{path}.count"))?,
                mask: SharedMask::new(arena, root_domain, &format!("{path}.mask"), topology)?,
            });
        }
        Ok(Cpupri {
            pri_to_cpu,
            // `kcalloc` of an int for each CPU.
            cpu_to_pri: arena.cpu_array(root_domain, "cpupri.cpu_to_pri", 4)?,
        })
    }

    /// Puts a CPU into the vector of nothing to do, without accesses.
    pub(super) fn boot(&self, engine: &Engine, cpu: CpuId) {
        let idle = &self.pri_to_cpu[0];
        engine.set(idle.count, engine.value(idle.count) + 1);
        idle.mask.boot_set(engine, cpu);
        engine.set(self.cpu_to_pri[cpu.index()], 1);
    }

    /// The CPUs of a vector and its count, without an access: for checks.
    pub fn peek(&self, engine: &Engine, vector: usize, cpu_count: usize) -> (CpuMask, u64) {
        let vec = &self.pri_to_cpu[vector];
        (vec.mask.peek(engine, cpu_count), engine.value(vec.count))
    }
}

impl Kernel {
    /// `cpu`'s highest priority is `prio` from now on.
    pub(super) async fn cpupri_set(&self, cp: &Cpupri, cpu: CpuId, prio: u32) {
        self.cpupri_set_vector(cp, cpu, convert_prio(prio)).await;
    }

    /// `cpu` goes to a vector.
    pub(super) async fn cpupri_set_vector(&self, cp: &Cpupri, cpu: CpuId, vector: usize) {
        let (engine, site) = (&*self.engine, f::CPUPRI_SET);
        engine.call(site, self.costs.function);
        let current = cp.cpu_to_pri[cpu.index()];
        let old = engine.load(site, current).await;
        let new = vector as u64 + 1;
        if new == old {
            return;
        }
        let vec = &cp.pri_to_cpu[new as usize - 1];
        // On x86 both are locked operations, which are the barriers that the order needs.
        vec.mask.set(engine, site, cpu).await;
        engine.fetch_add(site, vec.count, 1).await;
        if old != CPUPRI_INVALID {
            let vec = &cp.pri_to_cpu[old as usize - 1];
            engine.fetch_add(site, vec.count, -1).await;
            vec.mask.clear(engine, site, cpu).await;
        }
        engine.store(site, current, new).await;
    }

    /// Returns true if CPUs run at a lower priority than `p`'s and may run it. They are put into
    /// `lowest_mask` if one is given.
    pub(super) async fn cpupri_find(
        &self,
        cp: &Cpupri,
        p: &Task,
        mut lowest_mask: Option<&mut CpuMask>,
    ) -> bool {
        let (engine, site) = (&*self.engine, f::CPUPRI_FIND);
        engine.call(site, self.costs.function);
        let allowed = std::rc::Rc::clone(&p.allowed.borrow());
        let wanted = Wanted {
            near: p.cpu.get(),
            allowed: &allowed,
        };
        let mut mask = self.masks.take();
        for vec in &cp.pri_to_cpu[..convert_prio(p.prio.get())] {
            if engine.load(site, vec.count).await == 0 {
                continue;
            }
            engine.touch(site, p.p.cpus_mask).await;
            let reads = if lowest_mask.is_some() && self.has(Mechanism::SecondMaskRead) {
                2
            } else {
                1
            };
            for _ in 0..reads {
                vec.mask
                    .read_until_found(engine, site, wanted, &mut mask)
                    .await;
            }
            if mask.is_empty() {
                continue;
            }
            if let Some(lowest) = lowest_mask.as_deref_mut() {
                lowest.clone_from(&mask);
            }
            self.masks.give_back(mask);
            return true;
        }
        self.masks.give_back(mask);
        false
    }
}
