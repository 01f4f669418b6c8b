//! Queued spinlocks, kernel/locking/qspinlock.c and mcs_spinlock.h, v6.12.
//!
//! **What Linux does:** one word: a locked byte, a pending bit and the tail of a queue. The first
//! waiter sets pending and spins on the word. Later ones spin each on a node of its own CPU and are
//! woken by their predecessor. The holder releases with a plain store to the locked byte.
//!
//! **What we do:** the same protocol on the same lines. Each access is one of the model.
//!
//! **What a test could notice:** no paravirtual variant, no `_Q_PENDING_LOOPS` bound on the wait for
//! a pending holder (it is one hand-over long), no lockdep.

use std::cell::Cell;

use hitm_base::CpuId;

use super::Kernel;
use super::functions as f;
use super::spinlock::SpinlockKind;
use crate::engine::{Arena, Mode, Place, Rmw, SimError};

const LOCKED: u64 = 1;
const LOCKED_MASK: u64 = 0xff;
const PENDING: u64 = 1 << 8;
const LOCKED_PENDING_MASK: u64 = 0xffff;
const TAIL_SHIFT: u32 = 16;
/// Nodes of a CPU: task, softirq, hardirq and NMI may each wait for a lock.
const NODES: usize = 4;

/// A waiter's place in a queue.
#[derive(Debug, Clone, Copy)]
pub(super) struct Node {
    pub(super) next: Place,
    pub(super) locked: Place,
}

/// The queue nodes of one CPU (`qnodes`).
#[derive(Debug)]
pub(super) struct QNodes {
    nodes: [Node; NODES],
    /// Number of nodes in use.
    depth: Cell<usize>,
}

impl Node {
    /// Nodes of a CPU.
    pub(super) fn some(arena: &mut Arena, cpu: CpuId, count: usize) -> Result<Vec<Node>, SimError> {
        let node = |_| {
            let object = arena.allocate("qnode", cpu)?;
            Ok(Node {
                next: arena.place(&object, "mcs.next")?,
                locked: arena.place(&object, "mcs.locked")?,
            })
        };
        (0..count).map(node).collect()
    }
}

impl QNodes {
    pub(super) fn new(arena: &mut Arena, cpu: CpuId) -> Result<QNodes, SimError> {
        let nodes = Node::some(arena, cpu, NODES)?;
        Ok(QNodes {
            nodes: std::array::from_fn(|index| nodes[index]),
            depth: Cell::new(0),
        })
    }

    pub(super) fn node(&self, depth: usize) -> Node {
        self.nodes[depth]
    }
}

fn encode_tail(cpu: CpuId, depth: usize) -> u64 {
    // Two bits of depth would not leave room for 4096 CPUs in 16. The model's tail is as wide as
    // with NR_CPUS of 16384 and more, which changes no line.
    ((cpu.index() as u64 + 1) * NODES as u64 + depth as u64) << TAIL_SHIFT
}

/// The CPU and the depth of a tail.
pub(super) fn decode_tail(word: u64) -> (usize, usize) {
    let number = (word >> TAIL_SHIFT) as usize;
    (number / NODES - 1, number % NODES)
}

fn tail_of(word: u64) -> u64 {
    word & !LOCKED_PENDING_MASK
}

impl Kernel {
    pub(super) async fn queued_spin_lock(&self, lock: Place) -> bool {
        let old = self
            .engine
            .compare_swap(f::SPIN_LOCK, lock, 0, LOCKED)
            .await;
        if old != 0 {
            let mode = self.engine.set_mode(Mode::Spin);
            self.spin_lock_slowpath(lock, old).await;
            self.engine.set_mode(mode);
        }
        old != 0
    }

    pub(super) async fn queued_spin_trylock(&self, lock: Place) -> bool {
        let site = f::SPIN_TRYLOCK;
        // A read first: a failed compare-and-swap would take the line from its holder.
        if self.engine.load(site, lock).await != 0 {
            return false;
        }
        self.engine.compare_swap(site, lock, 0, LOCKED).await == 0
    }

    pub(super) async fn queued_spin_unlock(&self, lock: Place) {
        self.engine
            .store_bits(f::SPIN_UNLOCK, lock, LOCKED_MASK, 0)
            .await;
    }

    async fn spin_lock_slowpath(&self, lock: Place, mut seen: u64) {
        let (engine, site) = (&self.engine, f::SPIN_LOCK_SLOWPATH);
        if seen == PENDING {
            // The pending waiter is about to get it.
            seen = self.spin_while(lock, |word| word == PENDING).await;
        }
        if seen & !LOCKED_MASK == 0 {
            // Without a queue the first waiter needs no node, but spins on the word itself.
            let old = engine.rmw(site, lock, Rmw::Or(PENDING)).await;
            if old & !LOCKED_MASK == 0 {
                if old & LOCKED_MASK != 0 {
                    self.spin_while(lock, |word| word & LOCKED_MASK != 0).await;
                }
                engine
                    .store_bits(site, lock, LOCKED_PENDING_MASK, LOCKED)
                    .await;
                return;
            }
            // A queue has come up meanwhile: takes the bit back, unless it was somebody else's.
            if old & PENDING == 0 {
                engine.rmw(site, lock, Rmw::And(!PENDING)).await;
            }
        }
        self.spin_lock_queue(lock).await;
    }

    async fn spin_lock_queue(&self, lock: Place) {
        let (engine, site) = (&self.engine, f::SPIN_LOCK_SLOWPATH);
        let cpu = engine.cpu();
        let own = &self.qnodes[cpu.index()];
        let depth = own.depth.get();
        own.depth.set(depth + 1);
        let node = own.nodes[depth];
        engine.store(site, node.locked, 0).await;
        engine.store(site, node.next, 0).await;
        // The lines of the node may have been misses, and the holder may have let go meanwhile.
        if !self.queued_spin_trylock(lock).await {
            let tail = encode_tail(cpu, depth);
            let swap = Rmw::Swap {
                mask: !LOCKED_PENDING_MASK,
                value: tail,
            };
            let old = engine.rmw(site, lock, swap).await;
            if tail_of(old) != 0 {
                let (before, before_depth) = decode_tail(old);
                let before = self.qnodes[before].nodes[before_depth];
                engine.store(site, before.next, tail).await;
                self.spin_while(node.locked, |locked| locked == 0).await;
            }
            self.spin_lock_at_head(lock, node, tail).await;
        }
        own.depth.set(depth);
    }

    /// The head of the queue takes the lock and makes the next waiter the head.
    async fn spin_lock_at_head(&self, lock: Place, node: Node, tail: u64) {
        let (engine, site) = (&self.engine, f::SPIN_LOCK_SLOWPATH);
        let is_cna = self.config.spinlock == SpinlockKind::Cna;
        if is_cna {
            self.cna_order_queue(lock, node).await;
        }
        let seen = self
            .spin_while(lock, |word| word & LOCKED_PENDING_MASK != 0)
            .await;
        let mut is_last = false;
        // The last in the queue clears the tail with the same write, unless somebody queues behind
        // it just now.
        if tail_of(seen) == tail {
            let last = if is_cna { self.cna_last(lock) } else { None };
            let new = last.unwrap_or(0) | LOCKED;
            is_last = engine.compare_swap(site, lock, seen, new).await == seen;
            if is_last && last.is_none() {
                return;
            }
        }
        let mut next = None;
        if !is_last {
            engine.store_bits(site, lock, LOCKED_MASK, LOCKED).await;
            next = Some(self.spin_while(node.next, |next| next == 0).await);
        }
        let next = match next {
            Some(next) if !is_cna => next,
            next => self.cna_successor(lock, next).await,
        };
        let (next, next_depth) = decode_tail(next);
        let next = self.qnodes[next].nodes[next_depth];
        engine.store(site, next.locked, 1).await;
    }

    /// Spins until `goes_on` is false for the value of a place; returns that value.
    pub(super) async fn spin_while(&self, place: Place, goes_on: impl Fn(u64) -> bool) -> u64 {
        loop {
            let seen = self.engine.load(f::SPIN_LOCK_SLOWPATH, place).await;
            if !goes_on(seen) {
                return seen;
            }
            self.engine.wait_for_write(place, seen).await;
        }
    }
}
