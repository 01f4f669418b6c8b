//! Ticket spinlocks: arch/x86/include/asm/spinlock.h of 4.1.
//!
//! **What Linux does:** one word with the ticket that is served and the next one to be drawn. A CPU
//! draws by a locked addition and spins on the word until its ticket is served; the holder adds one to
//! the served ticket.
//!
//! **What we do:** the same. Each half has 32 bits instead of 8 or 16, which changes no line.
//!
//! **What a test could notice:** no paravirtual variant; waiters do not back off by their distance.

use crate::engine::{Mode, Place};
use crate::kernel::Kernel;
use crate::kernel::functions as f;

const TICKET: u64 = 1 << 32;
const SERVED_MASK: u64 = TICKET - 1;

fn served(word: u64) -> u64 {
    word & SERVED_MASK
}

fn drawn(word: u64) -> u64 {
    word >> 32
}

impl Kernel {
    pub(super) async fn ticket_spin_lock(&self, lock: Place) -> bool {
        let (engine, site) = (&self.engine, f::SPIN_LOCK);
        let old = engine.fetch_add(site, lock, TICKET as i64).await;
        let own = drawn(old);
        if served(old) == own {
            return false;
        }
        let mode = engine.set_mode(Mode::Spin);
        self.spin_while(lock, |word| served(word) != own).await;
        engine.set_mode(mode);
        true
    }

    pub(super) async fn ticket_spin_trylock(&self, lock: Place) -> bool {
        let (engine, site) = (&self.engine, f::SPIN_TRYLOCK);
        let seen = engine.load(site, lock).await;
        if served(seen) != drawn(seen) {
            return false;
        }
        let new = seen + TICKET;
        engine.compare_swap(site, lock, seen, new).await == seen
    }

    pub(super) async fn ticket_spin_unlock(&self, lock: Place) {
        let (engine, site) = (&self.engine, f::SPIN_UNLOCK);
        // The holder alone changes this half, so an addition need not be locked.
        let seen = engine.load(site, lock).await;
        let next = (served(seen) + 1) & SERVED_MASK;
        engine.store_bits(site, lock, SERVED_MASK, next).await;
    }
}
