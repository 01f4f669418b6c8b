//! MCS spinlocks: Mellor-Crummey and Scott, "Algorithms for scalable synchronization on shared-memory
//! multiprocessors", 1991; kernel/locking/mcs_spinlock.h, v6.12.
//!
//! **What the lock does:** the word is the tail of a queue of nodes. Each waiter spins on its own
//! node; the holder keeps its node until it has told the next one.
//!
//! **What we do:** the same, with nodes of each CPU like those of queued spinlocks. A CPU needs one
//! for each lock that it holds, not only for those that it waits for.
//!
//! **What a test could notice:** a CPU holds at most [`NODES`] locks at once.

use std::cell::RefCell;

use hitm_base::CpuId;

use crate::engine::{Arena, Mode, Place, Rmw, SimError};
use crate::kernel::Kernel;
use crate::kernel::functions as f;
use crate::kernel::qspinlock::Node;

/// Locks that a CPU may hold and wait for at once: tasks hold up to six, interrupts come on top.
const NODES: usize = 16;
const NOBODY: u64 = 0;

/// The nodes of one CPU.
#[derive(Debug)]
pub(in crate::kernel) struct McsNodes {
    nodes: Vec<Node>,
    /// The lock that each node is for.
    used: RefCell<[Option<Place>; NODES]>,
}

impl McsNodes {
    pub(in crate::kernel) fn new(arena: &mut Arena, cpu: CpuId) -> Result<McsNodes, SimError> {
        Ok(McsNodes {
            nodes: Node::some(arena, cpu, NODES)?,
            used: RefCell::default(),
        })
    }

    fn find(&self, lock: Option<Place>) -> usize {
        let used = self.used.borrow();
        let found = used.iter().position(|of| *of == lock);
        found.expect("a CPU has a node for each lock that it holds")
    }
}

impl Kernel {
    /// A node of this CPU for a lock, and its number over all CPUs from 1 on.
    fn mcs_node(&self, lock: Place, is_held: bool) -> (Node, u64, usize) {
        let cpu = self.engine.cpu().index();
        let own = &self.mcs_nodes[cpu];
        let index = own.find(is_held.then_some(lock));
        own.used.borrow_mut()[index] = Some(lock);
        (own.nodes[index], (cpu * NODES + index) as u64 + 1, index)
    }

    fn mcs_free(&self, index: usize) {
        let own = &self.mcs_nodes[self.engine.cpu().index()];
        own.used.borrow_mut()[index] = None;
    }

    fn mcs_node_of(&self, number: u64) -> Node {
        let number = number as usize - 1;
        self.mcs_nodes[number / NODES].nodes[number % NODES]
    }

    pub(super) async fn mcs_spin_lock(&self, lock: Place) -> bool {
        let (engine, site) = (&self.engine, f::SPIN_LOCK);
        let (node, own, _) = self.mcs_node(lock, false);
        engine.store(site, node.next, NOBODY).await;
        engine.store(site, node.locked, 0).await;
        let before = engine.rmw(site, lock, Rmw::exchange(own)).await;
        if before == NOBODY {
            return false;
        }
        let mode = engine.set_mode(Mode::Spin);
        let before = self.mcs_node_of(before);
        engine.store(f::SPIN_LOCK_SLOWPATH, before.next, own).await;
        self.spin_while(node.locked, |locked| locked == 0).await;
        engine.set_mode(mode);
        true
    }

    pub(super) async fn mcs_spin_trylock(&self, lock: Place) -> bool {
        let (engine, site) = (&self.engine, f::SPIN_TRYLOCK);
        if engine.load(site, lock).await != NOBODY {
            return false;
        }
        let (node, own, index) = self.mcs_node(lock, false);
        engine.store(site, node.next, NOBODY).await;
        let is_taken = engine.compare_swap(site, lock, NOBODY, own).await == NOBODY;
        if !is_taken {
            self.mcs_free(index);
        }
        is_taken
    }

    pub(super) async fn mcs_spin_unlock(&self, lock: Place) {
        let (engine, site) = (&self.engine, f::SPIN_UNLOCK);
        let (node, own, index) = self.mcs_node(lock, true);
        let mut next = engine.load(site, node.next).await;
        if next == NOBODY {
            if engine.compare_swap(site, lock, own, NOBODY).await == own {
                self.mcs_free(index);
                return;
            }
            next = self.spin_while(node.next, |next| next == NOBODY).await;
        }
        let next = self.mcs_node_of(next);
        engine.store(site, next.locked, 1).await;
        self.mcs_free(index);
    }
}
