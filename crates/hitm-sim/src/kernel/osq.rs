//! The queue of optimistic spinners: kernel/locking/osq_lock.c, v6.12.
//!
//! **What Linux does:** spinners for a sleeping lock queue up like the waiters of an MCS lock, each
//! on a node of its own CPU. So one of them at a time looks at the lock. A spinner that must give
//! up its CPU leaves the queue from the middle.
//!
//! **What we do:** the same protocol on the same lines. A scenario may give each NUMA node a queue of its
//! own, so that one spinner of each node looks at the lock. A layout without `cpu` in
//! `optimistic_spin_node` saves each spinner the look at its predecessor's node.
//!
//! **What a test could notice:** no `vcpu_is_preempted`; a CPU has one node, as in Linux, since a
//! spinner is not preempted.

use std::rc::Rc;

use hitm_base::CpuId;

use super::Kernel;
use super::functions as f;
use super::task::{TIF_NEED_RESCHED, Task};
use crate::engine::{Arena, Opaque, Place, Rmw, SimError};
use crate::layout::{Member, StructLayout};

/// The node of one CPU (`osq_node`).
#[derive(Debug, Clone, Copy)]
pub(super) struct OsqNode {
    next: Place,
    prev: Place,
    locked: Place,
    /// The node's CPU, for its successor; a layout may be without.
    cpu: Option<Opaque>,
}

hitm_base::words! {
    /// The CPUs whose spinners wait in one queue.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum OsqKind {
        /// All.
        Global = "global",
        /// Those of a NUMA node.
        PerNode = "per-node",
    }
}

/// The structure of a tail of its own for each node, as a layout has it.
pub(super) const PER_NODE: &str = "osq_per_node";

/// The tails of a lock's queues.
#[derive(Debug)]
pub(super) struct Osq {
    global: Place,
    /// By NUMA node; none with one queue for all.
    per_node: Vec<Place>,
}

impl Osq {
    /// The queues of a lock whose own tail is `global`.
    pub(super) fn new(arena: &mut Arena, global: Place) -> Result<Osq, SimError> {
        let mut per_node = Vec::new();
        if arena.layouts().get(PER_NODE).is_some() {
            let engine = Rc::clone(arena.engine());
            let topology = &engine.machine().topology;
            let mut seen = Vec::new();
            for cpu in topology.cpus() {
                if !seen.contains(&topology.node_of(cpu)) {
                    seen.push(topology.node_of(cpu));
                    let object = arena.allocate(PER_NODE, cpu)?;
                    per_node.push(arena.place(&object, "tail")?);
                }
            }
        }
        Ok(Osq { global, per_node })
    }
}

/// A tail on a line of its own.
pub(super) fn per_node_layout() -> StructLayout {
    let members = vec![Member::plain("tail", 0, 4)];
    StructLayout::new(
        PER_NODE,
        hitm_base::LINE_SIZE,
        hitm_base::LINE_SIZE,
        members,
    )
}

/// No CPU, as a tail (`OSQ_UNLOCKED_VAL`) and as a neighbour.
const NOBODY: u64 = 0;

impl OsqNode {
    pub(super) fn new(arena: &mut Arena, cpu: CpuId) -> Result<OsqNode, SimError> {
        let object = arena.allocate("optimistic_spin_node", cpu)?;
        let layout = arena.layouts().get("optimistic_spin_node");
        let has_cpu = layout.is_some_and(|layout| layout.member("cpu").is_some());
        let cpu = match has_cpu {
            true => Some(arena.opaque(&object, "cpu")?),
            false => None,
        };
        Ok(OsqNode {
            cpu,
            next: arena.place(&object, "next")?,
            prev: arena.place(&object, "prev")?,
            locked: arena.place(&object, "locked")?,
        })
    }
}

impl Kernel {
    fn osq_node(&self, number: u64) -> OsqNode {
        self.osq_nodes[number as usize - 1]
    }

    /// The tail of the queue that this CPU waits in.
    fn osq_tail(&self, osq: &Osq) -> Place {
        let node = self.engine.machine().topology.node_of(self.engine.cpu());
        osq.per_node
            .get(usize::from(node))
            .copied()
            .unwrap_or(osq.global)
    }

    /// Queues up; false when the task must give up its CPU before its turn.
    pub(super) async fn osq_lock(&self, task: &Task, osq: &Osq) -> bool {
        let tail = self.osq_tail(osq);
        let (engine, site) = (&self.engine, f::OSQ_LOCK);
        let own = u64::from(engine.cpu().0) + 1;
        let node = self.osq_node(own);
        engine.store(site, node.locked, 0).await;
        engine.store(site, node.next, NOBODY).await;
        if let Some(cpu) = node.cpu {
            engine.dirty(site, cpu).await;
        }
        let before = engine.rmw(site, tail, Rmw::exchange(own)).await;
        if before == NOBODY {
            return true;
        }
        engine.store(site, node.prev, before).await;
        engine.store(site, self.osq_node(before).next, own).await;
        loop {
            if engine.load(site, node.locked).await != 0 {
                return true;
            }
            if self.need_resched(task).await {
                break;
            }
            // `vcpu_is_preempted(node_cpu(node->prev))`: its argument is read on bare metal too.
            if let Some(cpu) = self.osq_node(before).cpu {
                engine.touch(site, cpu).await;
            }
            engine.wait_for_write(node.locked, 0).await;
        }
        self.osq_leave(tail, own).await
    }

    /// Takes the node of a CPU out of the queue; true when its turn came meanwhile.
    async fn osq_leave(&self, tail: Place, own: u64) -> bool {
        let (engine, site) = (&self.engine, f::OSQ_LOCK);
        let node = self.osq_node(own);
        // Step A of osq_lock.c: without this node as its `next`, the node before waits in its own
        // unlock or leave.
        let before = loop {
            let before = engine.load(site, node.prev).await;
            let next = self.osq_node(before).next;
            if engine.compare_swap(site, next, own, NOBODY).await == own {
                break before;
            }
            // The node before is leaving too, or hands over just now.
            if engine.load(site, node.locked).await != 0 {
                return true;
            }
            engine.call(site, self.costs.function);
        };
        // Step B: takes the node behind out of `next`, or moves the tail back when there is none.
        let next = self.osq_wait_next(tail, own, before).await;
        if next != NOBODY {
            // Step C: both neighbours stand still, each until it gets the pointer that is written
            // here.
            engine.store(site, self.osq_node(next).prev, before).await;
            engine.store(site, self.osq_node(before).next, next).await;
        }
        false
    }

    /// Successor of the node of a CPU, which leaves: nobody when it could make `before` the last.
    async fn osq_wait_next(&self, tail: Place, own: u64, before: u64) -> u64 {
        let (engine, site) = (&self.engine, f::OSQ_UNLOCK);
        let node = self.osq_node(own);
        loop {
            if engine.load(site, tail).await == own
                && engine.compare_swap(site, tail, own, before).await == own
            {
                return NOBODY;
            }
            if engine.load(site, node.next).await != NOBODY {
                // An exchange: with the pointer left in, a leaving node behind could end its step A
                // on this one.
                let next = engine.rmw(site, node.next, Rmw::exchange(NOBODY)).await;
                if next != NOBODY {
                    return next;
                }
            }
            engine.call(site, self.costs.function);
        }
    }

    /// Gives the turn to the next.
    pub(super) async fn osq_unlock(&self, osq: &Osq) {
        let (engine, site) = (&self.engine, f::OSQ_UNLOCK);
        let tail = self.osq_tail(osq);
        let own = u64::from(engine.cpu().0) + 1;
        if engine.compare_swap(site, tail, own, NOBODY).await == own {
            return;
        }
        let node = self.osq_node(own);
        let mut next = engine.rmw(site, node.next, Rmw::exchange(NOBODY)).await;
        if next == NOBODY {
            next = self.osq_wait_next(tail, own, NOBODY).await;
        }
        if next != NOBODY {
            engine.store(site, self.osq_node(next).locked, 1).await;
        }
    }

    /// Returns true if the running task must call the scheduler.
    pub(super) async fn need_resched(&self, task: &Task) -> bool {
        let flags = self.engine.load(f::OSQ_LOCK, task.p.flags).await;
        flags & TIF_NEED_RESCHED != 0
    }
}
