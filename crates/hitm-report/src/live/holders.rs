//! Places of a lock's holders while others waited.

use std::cmp::Reverse;

use hitm_fields::fields;
use hitm_live::locks::{HolderChain, LockHolders};
use hitm_live::recording::LiveTaker;

use super::{LockView, named};
use crate::object::{Object, list};

fields! {
    /// Of the holders of a lock: time that others waited, each waiter's by itself.
    pub live_holders for LockHolders {
        /// Waiters' time while the holder ran, outside of page faults. Interrupts and stolen time are in it.
        running_ns => nanos "running", |all| all.times.running_ns;
        /// Waiters' time while the holder was ready to run and another thread had its CPU.
        preempted_ns => nanos "preempted", |all| all.times.preempted_ns;
        /// Waiters' time from the moment at which the holder's group had no quota left to the next at which it ran.
        throttled_ns => nanos "throttled", |all| all.times.throttled_ns;
        /// Waiters' time while the holder was in a page fault that needed no input: of fresh memory, for example.
        minor_fault_ns => nanos "in a minor page fault", |all| all.times.minor_fault_ns;
        /// Waiters' time while the holder was in a page fault that waited for input.
        major_fault_ns => nanos "in a major page fault", |all| all.times.major_fault_ns;
        /// Waiters' time while the holder slept.
        asleep_ns => nanos "asleep", |all| all.times.asleep_ns;
        /// Waiters' time while the lock was free and its next holder on the way to a CPU, or the holder had slept and was.
        waking_ns => nanos "waking up", |all| all.times.waking_ns;
        /// Waiters' time of which the holder or its state is not known.
        unknown_ns => nanos "not known", |all| all.times.unknown_ns;
    }
}

fields! {
    /// Of those that had a preempted holder's CPU.
    pub live_taker for LiveTaker {
        /// The process; 0 for the kernel.
        pid => number "pid";
        /// The name of the thread that took the CPU.
        comm => name "preempted by";
        /// Waiters' time.
        ns => nanos "preempted";
    }
}

fields! {
    /// Of a lock that holders of another one waited for.
    pub live_chain for HolderChain {
        /// Its class, its name and its object, or its address.
        title => name "asleep for";
        /// Waiters' time of the first lock.
        ns => nanos "asleep";
    }
}

/// The states, takers and other locks of a lock's holders as JSON.
pub(super) fn object(holders: &LockHolders) -> Object {
    Object::of(live_holders::ALL, holders)
        .with("takers", list(live_taker::ALL, &holders.takers))
        .with("chain", list(live_chain::ALL, &holders.chain))
}

/// Takers and other locks that are named.
const NAMED: usize = 3;

/// Lines about a lock's holders.
pub(super) fn notes(view: &LockView) -> Vec<String> {
    let Some(holders) = &view.lock.holders else {
        return Vec::new();
    };
    let all = holders.times.all_ns().max(1);
    let share = |ns: u64| ns as f64 * 100.0 / all as f64;
    if !holders.times.names_owner() {
        let reason = match view.lock.class.is_spun_for() {
            true => "writes to the word do not tell who has the lock",
            false => "the word names no owner",
        };
        return vec![format!("holder not known: {reason}")];
    }
    let states = live_holders::ALL.iter().zip(holders.times.parts());
    let mut states: Vec<(&str, u64)> = states.map(|(field, ns)| (field.title, ns)).collect();
    states.sort_by_key(|(_, ns)| Reverse(*ns));
    let states = states.into_iter().filter(|(_, ns)| share(*ns) >= 0.05);
    let states = states.map(|(title, ns)| format!("{title} {:.1} %", share(ns)));
    let mut notes = vec![format!("holder {}", joined(states))];
    let own = view.lock.threads.first().map(|part| part.thread.pid);
    let takers = holders.takers.iter().take(NAMED).map(|taker| {
        let who = match Some(taker.pid) == own {
            true => "its own process".to_owned(),
            false => named(&taker.comm, taker.pid),
        };
        format!("{who} {:.1} %", share(taker.ns))
    });
    if !holders.takers.is_empty() {
        notes.push(format!("preempted by {}", joined(takers)));
    }
    let chain = holders.chain.iter().take(NAMED);
    let chain = chain.map(|next| format!("{} {:.1} %", next.title, share(next.ns)));
    if !holders.chain.is_empty() {
        notes.push(format!("asleep for {}", joined(chain)));
    }
    notes
}

fn joined(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<String>>().join(", ")
}
