//! Waits by the kernel's tracepoints, beside samples.

use std::collections::BTreeMap;

use indexmap::IndexMap;

use super::known::{self, Class, Owner};
use super::site::Functions;
use super::{Group, Key, Lock, Traced, object};
use crate::recording::{LiveRecording, LiveWait};

/// Adds the waits to the groups that samples found, and makes groups of the others, one for each lock.
pub(super) fn add(
    recording: &LiveRecording,
    functions: &Functions<'_>,
    groups: &mut IndexMap<Key, Group>,
) {
    let Some(waits) = &recording.waits else {
        return;
    };
    for group in groups.values_mut() {
        group.traced = Some(Traced::default());
    }
    let sampled = sampled(groups);
    for wait in waits {
        let Some(at) = functions.traced(wait.stack) else {
            continue;
        };
        let (name, owner) = known::lock_of(at.class, functions.name(at.taker));
        let known = sampled.get(&(at.class, name.clone(), wait.thread));
        let index = known.copied().unwrap_or_else(|| {
            let object = match owner {
                Owner::Process => object(recording, owner, wait.thread, None),
                Owner::File | Owner::Unknown => format!("at {:#x}", wait.lock),
            };
            let class = at.class;
            let entry = groups.entry(Key {
                class,
                name,
                object,
            });
            let index = entry.index();
            entry.or_default().is_by_address = owner != Owner::Process;
            index
        });
        let (_, group) = groups.get_index_mut(index).expect("it was found or made");
        group.takers.insert(at.taker);
        // A thread that sleeps is not sampled while it waits; it is one of the lock's all the same.
        group.waited.entry(wait.thread).or_default();
        let chain = functions.chain(wait.stack, at.taker);
        // Samples have the program's own function behind the kernel's, tracepoints have not.
        let longer = group.callers.keys().position(|own| own.starts_with(&chain));
        let traced_ns = match longer.and_then(|index| group.callers.get_index_mut(index)) {
            Some((_, (_, traced_ns))) => traced_ns,
            None => &mut group.callers.entry(chain).or_default().1,
        };
        *traced_ns = traced_ns.saturating_add(wait.wait_ns);
        group.traced.get_or_insert_default().add(wait);
    }
}

/// The groups that samples found, by the kind and name of the lock and by waiter: of several the first.
fn sampled(groups: &IndexMap<Key, Group>) -> BTreeMap<(Class, String, u32), usize> {
    let mut sampled = BTreeMap::new();
    for (index, (key, group)) in groups.iter().enumerate() {
        for thread in group.waited.keys() {
            let waiter = (key.class, key.name.clone(), *thread);
            sampled.entry(waiter).or_insert(index);
        }
    }
    sampled
}

impl Traced {
    fn add(&mut self, wait: &LiveWait) {
        self.count = self.count.saturating_add(wait.count);
        self.wait_ns = self.wait_ns.saturating_add(wait.wait_ns);
        self.longest_ns = self.longest_ns.max(wait.longest_ns);
        if let Err(place) = self.addresses.binary_search(&wait.lock) {
            self.addresses.insert(place, wait.lock);
        }
    }
}

/// Spinning that no sample saw was sampled when the interrupts came back, as time of the holder: it is moved to
/// where it belongs.
pub(super) fn move_unseen_spinning(lock: &mut Lock) {
    let Some(traced) = &lock.traced else {
        return;
    };
    if !matches!(lock.class, Class::Spinlock | Class::Rwlock) {
        return;
    }
    let unseen = traced.wait_ns.saturating_sub(lock.waited_ns);
    let from_held = unseen.min(lock.held_ns);
    let from_other = (unseen - from_held).min(lock.other_ns);
    lock.held_ns -= from_held;
    lock.other_ns -= from_other;
    lock.waited_ns += unseen;
}
