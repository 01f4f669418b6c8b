//! The idle task: kernel/sched/idle.c and drivers/cpuidle/governors/menu.c, v6.12.
//!
//! **What Linux does:** an idle CPU stops its tick and takes an idle state. While it polls, or
//! waits in a state that is entered by `mwait`, it watches its own flags and `TIF_POLLING_NRFLAG`
//! says so: a write of `TIF_NEED_RESCHED` ends the state. A state entered by `hlt` or `wfi` ends by
//! an interrupt alone. The governor takes the deepest state whose target residency is within the
//! time that it expects to be idle. That is the time until the next timer, or the mean of the last
//! eight idle times where they agree.
//!
//! **What we do:** the same with three states: poll, shallow, deep. `idle` in a scenario fixes one of
//! the first two or lets the governor choose; `idle_wake` says how states other than polling end.
//!
//! **What a test could notice:** the governor has no correction factors by length of sleep, and no
//! latency limit. The interrupt or the idle loop that ends a state pays its exit latency once.

use std::cell::Cell;
use std::rc::Rc;

use hitm_base::Cycles;
use hitm_base::machine::MachineCost;

use super::Kernel;
use super::class::{Class, Enqueue, SchedClass};
use super::fair::Dequeue;
use super::functions as f;
use super::rq::Rq;
use super::task::{TIF_NEED_RESCHED, TIF_POLLING_NRFLAG, Task};
use crate::engine::{Mode, Rmw};

hitm_base::words! {
    /// The chooser of idle states.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum IdleGovernor {
        /// The shallow state at all times.
        Shallow = "shallow",
        /// `idle=poll`.
        Poll = "poll",
        /// The menu governor.
        Menu = "menu",
    }
}

hitm_base::words! {
    /// The end of an idle state other than polling.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum IdleWake {
        /// By a write to the flags (`mwait`).
        Write = "write",
        /// By an interrupt (`hlt`, `wfi`).
        Interrupt = "interrupt",
    }
}

/// An idle state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IdleState {
    Poll,
    Shallow,
    Deep,
}

/// Idle times that the governor remembers (`INTERVALS`).
const INTERVALS: usize = 8;
/// It is content with a deviation of 20 us (400 us²), or of a sixth of the mean.
const DEVIATION_NS: f64 = 20_000.0;
const DEVIATION_SHARE: f64 = 6.0;

/// The last idle times of a CPU, in nanoseconds.
#[derive(Debug, Default)]
pub(super) struct IdleHistory {
    intervals: Cell<[u64; INTERVALS]>,
    next: Cell<usize>,
}

impl IdleHistory {
    fn add(&self, nanos: u64) {
        let mut intervals = self.intervals.get();
        intervals[self.next.get()] = nanos;
        self.intervals.set(intervals);
        self.next.set((self.next.get() + 1) % INTERVALS);
    }

    /// The mean of the intervals if they agree, without up to two of the longest.
    fn typical(&self) -> Option<u64> {
        let mut sorted = self.intervals.get();
        sorted.sort_unstable();
        for kept in (INTERVALS * 3 / 4..=INTERVALS).rev() {
            let kept = &sorted[..kept];
            let count = kept.len() as f64;
            let mean = kept.iter().sum::<u64>() as f64 / count;
            let squares = kept.iter().map(|one| (*one as f64 - mean).powi(2));
            let deviation = (squares.sum::<f64>() / count).sqrt();
            if deviation <= DEVIATION_NS || mean > DEVIATION_SHARE * deviation {
                return Some(mean as u64);
            }
        }
        None
    }
}

/// The class of idle tasks, which are on no queue.
pub(super) enum IdleClass {}

impl SchedClass for IdleClass {
    fn has(p: &Task) -> bool {
        p.is_idle
    }

    async fn enqueue_task(_kernel: &Kernel, _rq: &Rq, p: &Task, _why: Enqueue) {
        unreachable!("{} is on no queue", p.name)
    }

    async fn dequeue_task(_kernel: &Kernel, _rq: &Rq, p: &Task, _how: Dequeue) -> bool {
        unreachable!("{} is on no queue", p.name)
    }

    /// The idle task is nobody's choice: it runs when no class has a task, after balancing.
    async fn pick_task(_kernel: &Kernel, _rq: &Rq) -> Option<Rc<Task>> {
        None
    }

    async fn put_prev_task(kernel: &Kernel, rq: &Rq, _p: &Task) {
        Class::update_idle(kernel, rq, false).await;
    }

    async fn set_next_task(kernel: &Kernel, rq: &Rq, _p: &Task) {
        rq.idle_since.set(kernel.engine.now());
        kernel.update_idle_core(rq.cpu).await;
        Class::update_idle(kernel, rq, true).await;
    }
}

impl Kernel {
    /// Runs the idle task of a CPU, for ever.
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
        let state = self.select_idle_state(rq);
        let polls = state == IdleState::Poll || self.config.idle_wake == IdleWake::Write;
        // From here on an interrupt alone ends the state: nobody may rely on the flags.
        if !polls {
            engine.rmw(site, flags, Rmw::And(!TIF_POLLING_NRFLAG)).await;
        }
        loop {
            let seen = engine.load(site, flags).await;
            if seen & TIF_NEED_RESCHED != 0 || self.is_nohz_kicked(rq) {
                break;
            }
            rq.idle_state.set(Some(state));
            engine.set_mode(Mode::Idle);
            engine.wait_for_write(flags, seen).await;
            engine.set_mode(Mode::Kernel);
        }
        // The interrupt that ended the state may have paid for it already.
        if let Some(state) = rq.idle_state.take() {
            engine.work(site, self.idle_exit_latency(state));
        }
        let idle = engine.now().saturating_sub(rq.idle_since.get());
        rq.idle_history
            .add(engine.machine().clock.nanos(idle).0 as u64);
        self.update_avg_idle(rq, idle).await;
        if polls {
            engine.rmw(site, flags, Rmw::And(!TIF_POLLING_NRFLAG)).await;
        }
        self.tick_restart(rq);
        self.note_idle_exit().await;
        engine.set_irqs(false);
        // Work that was queued with a write to the flags came without an interrupt.
        self.flush_smp_call_function_queue().await;
        engine.set_irqs(true);
        if self.is_nohz_kicked(rq) {
            self.nohz_idle_balance(rq).await;
        }
    }

    fn select_idle_state(&self, rq: &Rq) -> IdleState {
        match self.config.idle {
            IdleGovernor::Poll => IdleState::Poll,
            IdleGovernor::Shallow => IdleState::Shallow,
            IdleGovernor::Menu => {
                let clock = self.engine.machine().clock;
                let sleep = self.next_timer(rq).saturating_sub(self.engine.now());
                let typical = rq.idle_history.typical();
                let typical = typical.map(|nanos| clock.cycles(hitm_base::Nanos(nanos as f64)));
                let expected = typical.map_or(sleep, |typical| typical.min(sleep));
                if expected >= self.costs.machine.get(MachineCost::DeepIdleResidency) {
                    IdleState::Deep
                } else if expected >= self.costs.machine.get(MachineCost::IdleExit) {
                    // The shallow state's target residency is its exit latency on recent Xeons.
                    IdleState::Shallow
                } else {
                    IdleState::Poll
                }
            }
        }
    }

    pub(super) fn idle_exit_latency(&self, state: IdleState) -> Cycles {
        match state {
            IdleState::Poll => self.costs.machine.get(MachineCost::PollExit),
            IdleState::Shallow => self.costs.machine.get(MachineCost::IdleExit),
            IdleState::Deep => self.costs.machine.get(MachineCost::DeepIdleExit),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typical(nanos: &[u64]) -> Option<u64> {
        let history = IdleHistory::default();
        nanos.iter().for_each(|one| history.add(*one));
        history.typical()
    }

    #[test]
    fn idle_times_that_agree_have_a_mean_and_two_outliers_do_not_count() {
        assert_eq!(typical(&[50_000; 8]), Some(50_000));
        let mut two_long = [300_000u64; 8];
        two_long[2] = 5_000_000;
        two_long[5] = 9_000_000;
        assert_eq!(typical(&two_long), Some(300_000));
        two_long[7] = 7_000_000;
        assert_eq!(typical(&two_long), None);
        // The oldest are forgotten.
        assert_eq!(
            typical(&[[1_000_000; 8], [10_000; 8]].concat()),
            Some(10_000)
        );
    }
}
