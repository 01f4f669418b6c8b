//! Interrupts between CPUs: kernel/smp.c and kernel/irq_work.c, v6.12.
//!
//! **What Linux does:** work for another CPU goes on its `call_single_queue`. A sender that finds
//! the queue empty sends the interrupt, unless the CPU is idle and watches its flags. Then a write
//! to them is enough. A reschedule is an interrupt that does nothing but return through the
//! scheduler.
//!
//! **What we do:** the same; the queue is kept by value, its head is a place.
//!
//! **What a test could notice:** entries are taken in one batch, interrupt work before wake-ups,
//! each kind first come, first served. `__flush_smp_call_function_queue` does so with the list that
//! it reverses. Calls of functions, which Linux runs before both, do not exist.

use std::cell::RefCell;
use std::collections::VecDeque;

use hitm_base::CpuId;
use hitm_base::machine::MachineCost;

use super::Kernel;
use super::functions as f;
use super::idle::IdleState;
use super::rq::CpuLoad;
use super::task::{TIF_NEED_RESCHED, TIF_POLLING_NRFLAG, TaskId};
use crate::engine::{Arena, Place, Rmw, SimError, Site, Vector};

/// The timer of a CPU.
pub(super) const TIMER_VECTOR: Vector = Vector(0);
/// `RESCHEDULE_VECTOR`.
pub(super) const RESCHEDULE_VECTOR: Vector = Vector(1);
/// `CALL_FUNCTION_SINGLE_VECTOR` and `IRQ_WORK_VECTOR`.
pub(super) const CALL_VECTOR: Vector = Vector(2);

/// Request to a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Call {
    /// Put a woken task on its run queue.
    Wake(TaskId),
    /// `rto_push_work`.
    RtoPush,
    /// Let its throttled queues run again.
    Unthrottle,
    /// Balance for all idle CPUs.
    NohzKick,
}

#[derive(Debug)]
pub(super) struct CallQueue {
    first: Place,
    entries: RefCell<VecDeque<Call>>,
}

impl CallQueue {
    pub(super) fn new(arena: &mut Arena, cpu: CpuId) -> Result<CallQueue, SimError> {
        let object = arena.allocate("call_single_queue", cpu)?;
        Ok(CallQueue {
            first: arena.place(&object, "first")?,
            entries: RefCell::new(VecDeque::new()),
        })
    }
}

impl Kernel {
    /// Asks a CPU to do something.
    pub(super) async fn queue_call(&self, cpu: CpuId, call: Call, site: Site) -> bool {
        let engine = &self.engine;
        if call == Call::RtoPush {
            let domain = &self.root_domains[self.rq(cpu).root_domain];
            engine
                .rmw(f::IRQ_WORK_QUEUE_ON, domain.rto_push_work, Rmw::Or(1))
                .await;
        }
        let queue = &self.call_queues[cpu.index()];
        let before = engine.fetch_add(site, queue.first, 1).await;
        queue.entries.borrow_mut().push_back(call);
        let needs_ipi = before == 0 && !self.set_nr_if_polling(cpu, site).await;
        if needs_ipi {
            self.send_ipi(cpu, CALL_VECTOR);
        }
        needs_ipi
    }

    /// Wakes an idle CPU that watches its flags; false when it does not.
    async fn set_nr_if_polling(&self, cpu: CpuId, site: Site) -> bool {
        if cpu == self.engine.cpu() {
            return false;
        }
        let flags = self.task(self.rq(cpu).idle).p.flags;
        let mut seen = self.engine.load(site, flags).await;
        loop {
            if seen & TIF_POLLING_NRFLAG == 0 {
                return false;
            }
            // A CPU that is about to leave idle anyway does what is queued on its way out.
            if seen & TIF_NEED_RESCHED != 0 {
                return true;
            }
            let new = seen | TIF_NEED_RESCHED;
            let old = self.engine.compare_swap(site, flags, seen, new).await;
            if old == seen {
                return true;
            }
            seen = old;
        }
    }

    /// Makes a CPU pass through the scheduler.
    pub(super) fn smp_send_reschedule(&self, cpu: CpuId) {
        self.send_ipi(cpu, RESCHEDULE_VECTOR);
    }

    fn send_ipi(&self, cpu: CpuId, vector: Vector) {
        self.count(|counts| counts.ipis += 1);
        let load = &self.rq(cpu).load;
        load.set(CpuLoad {
            ipis: load.get().ipis + 1,
            ..load.get()
        });
        self.engine.work(
            f::IRQ_WORK_QUEUE_ON,
            self.costs.machine.get(MachineCost::IpiSend),
        );
        self.engine.send_ipi(
            cpu,
            vector,
            self.costs.machine.get(MachineCost::IpiDelivery),
        );
    }

    /// Does what this CPU was asked to do. Interrupts are off.
    pub(super) async fn flush_smp_call_function_queue(&self) {
        let (engine, site) = (&self.engine, f::FLUSH_SMP_CALL_FUNCTION_QUEUE);
        let cpu = engine.cpu();
        let queue = &self.call_queues[cpu.index()];
        let all = Rmw::exchange(0);
        if engine.load(site, queue.first).await == 0 {
            return;
        }
        engine.rmw(site, queue.first, all).await;
        let calls: Vec<Call> = queue.entries.borrow_mut().drain(..).collect();
        for call in &calls {
            if *call == Call::RtoPush {
                let domain = &self.root_domains[self.rq(cpu).root_domain];
                engine.rmw(site, domain.rto_push_work, Rmw::And(!1)).await;
                self.rto_push_irq_work_func().await;
            }
        }
        if calls.contains(&Call::Unthrottle) {
            self.cfsb_csd_unthrottle(cpu).await;
        }
        let wakes = calls.iter().filter_map(|call| match call {
            Call::Wake(task) => Some(*task),
            Call::RtoPush | Call::Unthrottle | Call::NohzKick => None,
        });
        let wakes: Vec<TaskId> = wakes.collect();
        if !wakes.is_empty() {
            self.sched_ttwu_pending(cpu, &wakes).await;
        }
    }

    async fn sched_ttwu_pending(&self, cpu: CpuId, tasks: &[TaskId]) {
        let (engine, site) = (&self.engine, f::SCHED_TTWU_PENDING);
        let rq = self.rq(cpu);
        self.rq_lock(rq).await;
        self.update_rq_clock(rq).await;
        for task in tasks {
            let task = self.task(*task);
            engine.touch(site, task.p.wake_entry).await;
            self.spin_while(task.p.on_cpu, |on_cpu| on_cpu != 0).await;
            if task.cpu.get() != cpu {
                self.set_task_cpu(&task, cpu).await;
            }
            self.ttwu_do_activate(rq, &task).await;
        }
        engine.store(site, rq.p.ttwu_pending, 0).await;
        self.rq_unlock(rq).await;
    }

    /// The interrupt handler of a CPU, for ever.
    pub(super) async fn handle_interrupts(&self) {
        loop {
            let vector = self.engine.next_interrupt().await;
            let rq = self.rq(self.engine.cpu());
            rq.interrupts.set(rq.interrupts.get() + 1);
            self.engine
                .work(f::IRQENTRY, self.costs.machine.get(MachineCost::IrqEntry));
            // A CPU that polls is no slower to interrupt than a busy one.
            let state = rq.idle_state.take();
            if let Some(state) = state.filter(|state| *state != IdleState::Poll) {
                let latency = self.idle_exit_latency(state);
                self.engine.work(f::IRQENTRY, latency);
            }
            match vector {
                TIMER_VECTOR => self.hrtimer_interrupt().await,
                CALL_VECTOR => self.flush_smp_call_function_queue().await,
                _ => {}
            }
            // Without work for the CPU, it goes back to its idle state.
            let flags = self.task(rq.idle).p.flags;
            let wants = self.engine.value(flags) & TIF_NEED_RESCHED != 0;
            let stays = !wants && !self.is_nohz_kicked(rq);
            rq.idle_state.set(state.filter(|_| stays));
        }
    }
}
