//! Compact NUMA-aware spinlocks: Dice and Kogan, "Compact NUMA-aware locks", EuroSys 2019; the patch
//! set "Add NUMA-awareness to qspinlock" for Linux, versions 1 to 15.
//!
//! **What the patches do:** queued spinlocks with two queues. While it waits for the lock, the head
//! of the main queue looks for the first waiter of its own NUMA node. It moves the waiters before
//! that one to a secondary queue. The holder hands the lock to the main queue. When that has nobody
//! of the node, or the secondary queue's head has waited for a threshold, the secondary queue goes
//! first. When the secondary queue is empty, the head looks in 1 of 128 cases only.
//!
//! **What we do:** the same on the same lines. The node number of a waiter lies in the line of its
//! queue node, so that reading its `next` stands for reading both.
//!
//! **What a test could notice:** the secondary queue's head and tail are kept by value, which the
//! patches keep in nodes that the head has in its cache.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};

use hitm_base::{CpuId, Cycles};

use crate::engine::{Place, Random};
use crate::kernel::Kernel;
use crate::kernel::functions as f;
use crate::kernel::qspinlock::{Node, decode_tail};

/// With an empty secondary queue the head looks for a waiter of its node in one of so many cases
/// (`SHUFFLE_REDUCTION_PROB_ARG` is 7).
const LOOKS_ONE_IN: u64 = 128;
/// No waiter behind this one.
const NOBODY: u64 = 0;

/// The secondary queues of all locks that have one.
#[derive(Debug)]
pub(in crate::kernel) struct SecondaryQueues {
    queues: RefCell<BTreeMap<u32, Secondary>>,
    random: RefCell<Random>,
}

/// Waiters that were passed, as tails of the main queue's words.
#[derive(Debug, Default)]
struct Secondary {
    waiters: VecDeque<u64>,
    /// The time at which the first of them was passed.
    since: Cycles,
}

impl SecondaryQueues {
    pub(in crate::kernel) fn new(random: Random) -> SecondaryQueues {
        SecondaryQueues {
            queues: RefCell::default(),
            random: RefCell::new(random),
        }
    }

    fn is_empty(&self, lock: Place) -> bool {
        !self.queues.borrow().contains_key(&lock.number())
    }

    fn add(&self, lock: Place, now: Cycles, passed: Vec<u64>) {
        let mut queues = self.queues.borrow_mut();
        let queue = queues.entry(lock.number()).or_insert_with(|| Secondary {
            since: now,
            ..Secondary::default()
        });
        queue.waiters.extend(passed);
    }

    /// Takes all waiters of a lock's secondary queue.
    fn take(&self, lock: Place) -> Option<Vec<u64>> {
        let taken = self.queues.borrow_mut().remove(&lock.number())?;
        Some(taken.waiters.into())
    }

    fn ends(&self, lock: Place) -> Option<(u64, Cycles)> {
        let queues = self.queues.borrow();
        let queue = queues.get(&lock.number())?;
        Some((*queue.waiters.back()?, queue.since))
    }
}

impl Kernel {
    fn qnode_of(&self, tail: u64) -> Node {
        let (cpu, depth) = decode_tail(tail);
        self.qnodes[cpu].node(depth)
    }

    fn is_on_node_of(&self, tail: u64, cpu: CpuId) -> bool {
        let topology = &self.engine.machine().topology;
        let other = CpuId(decode_tail(tail).0 as u16);
        topology.node_of(other) == topology.node_of(cpu)
    }

    /// The head of the main queue moves waiters of other nodes out of the way.
    pub(in crate::kernel) async fn cna_order_queue(&self, lock: Place, node: Node) {
        let queues = &self.secondary_queues;
        let rolls = || queues.random.borrow_mut().chance(1, LOOKS_ONE_IN);
        if queues.is_empty(lock) && !rolls() {
            return;
        }
        let (engine, site) = (&self.engine, f::SPIN_LOCK_SLOWPATH);
        let cpu = engine.cpu();
        let mut passed = Vec::new();
        let mut next = engine.load(site, node.next).await;
        while next != NOBODY && !self.is_on_node_of(next, cpu) {
            passed.push(next);
            next = engine.load(site, self.qnode_of(next).next).await;
        }
        // If nobody of this node waits, or the next waiter is one, the order stays.
        let (true, Some(last)) = (next != NOBODY, passed.last()) else {
            return;
        };
        engine.store(site, self.qnode_of(*last).next, NOBODY).await;
        engine.store(site, node.next, next).await;
        if let Some((before, _)) = queues.ends(lock) {
            engine
                .store(site, self.qnode_of(before).next, passed[0])
                .await;
        }
        queues.add(lock, engine.now(), passed);
    }

    /// The tail that the lock's word gets when the main queue is empty: that of the secondary queue.
    pub(in crate::kernel) fn cna_last(&self, lock: Place) -> Option<u64> {
        self.secondary_queues.ends(lock).map(|(last, _)| last)
    }

    /// The head after this CPU, which has the lock: `next` of the main queue, or the first of the
    /// secondary queue. The secondary queue then goes before the main one.
    pub(in crate::kernel) async fn cna_successor(&self, lock: Place, next: Option<u64>) -> u64 {
        let (engine, site) = (&self.engine, f::SPIN_LOCK_SLOWPATH);
        let queues = &self.secondary_queues;
        if let (Some(next), Some((_, since))) = (next, queues.ends(lock)) {
            let waited = engine.now().saturating_sub(since);
            let may_stay = waited < self.costs.cna_threshold;
            if may_stay && self.is_on_node_of(next, engine.cpu()) {
                return next;
            }
        }
        let Some(passed) = queues.take(lock) else {
            return next.expect("a queue without a secondary one has a next waiter");
        };
        let (first, last) = (passed[0], passed[passed.len() - 1]);
        if let Some(next) = next {
            engine.store(site, self.qnode_of(last).next, next).await;
        }
        first
    }
}
