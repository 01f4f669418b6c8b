//! The idle task: kernel/sched/idle.c, v6.12.
//!
//! **What Linux does:** an idle CPU stops its tick, watches its own flags with `mwait`, and passes
//! through the scheduler when `TIF_NEED_RESCHED` appears in them, by a write or by an interrupt.
//!
//! **What we do:** the same: the CPU is parked on the line of its flags.
//!
//! **What a test could notice:** one idle state; its exit latency does not depend on how long the CPU
//! slept.

use super::Kernel;
use super::functions as f;
use super::task::{TIF_NEED_RESCHED, TIF_POLLING_NRFLAG};
use crate::engine::{Mode, Rmw};

impl Kernel {
    /// What the idle task of a CPU does, for ever.
    pub(super) async fn cpu_idle(&self) {
        loop {
            self.do_idle().await;
            self.schedule().await;
        }
    }

    async fn do_idle(&self) {
        let (engine, site) = (&self.engine, f::DO_IDLE);
        let rq = self.rq(engine.cpu());
        let flags = self.task(rq.idle).p.flags;
        engine.rmw(site, flags, Rmw::Or(TIF_POLLING_NRFLAG)).await;
        self.tick_stop(rq);
        self.note_idle_entry(rq).await;
        let mut slept = false;
        loop {
            let seen = engine.load(site, flags).await;
            if seen & TIF_NEED_RESCHED != 0 || self.is_nohz_kicked(rq) {
                break;
            }
            slept = true;
            engine.set_mode(Mode::Idle);
            engine.wait_for_write(flags, seen).await;
            engine.set_mode(Mode::Kernel);
        }
        if slept {
            engine.work(site, self.costs.idle_exit);
        }
        let idle = engine.now().saturating_sub(rq.idle_since.get());
        self.update_avg_idle(rq, idle).await;
        engine.rmw(site, flags, Rmw::And(!TIF_POLLING_NRFLAG)).await;
        self.tick_restart(rq);
        self.note_idle_exit().await;
        engine.set_irqs(false);
        self.flush_smp_call_function_queue().await;
        engine.set_irqs(true);
        if self.is_nohz_kicked(rq) {
            self.nohz_idle_balance(rq).await;
        }
    }
}
