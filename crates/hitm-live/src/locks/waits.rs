//! Waits by the kernel's tracepoints, beside samples.

use std::collections::BTreeMap;

use indexmap::IndexMap;

use super::known::{self, Class, Owner};
use super::site::Functions;
use super::{Group, Key, Lock, Traced, object};
use crate::recording::{LiveRecording, LiveWait};

/// Adds the waits to the groups of the samples, and makes a group for each lock that has none.
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
        // A futex has its own address, by which its group is found below.
        let known = known.filter(|_| wait.object.is_none());
        let index = known.copied().unwrap_or_else(|| {
            let object = match (owner, wait.object) {
                (Owner::Process, _) | (_, Some(_)) => {
                    object(recording, owner, wait.thread, wait.object)
                }
                (Owner::File | Owner::Unknown, None) => format!("at {:#x}", wait.lock),
            };
            let class = at.class;
            let entry = groups.entry(Key {
                class,
                name,
                object,
            });
            let index = entry.index();
            entry.or_default().is_by_address = owner != Owner::Process && wait.object.is_none();
            index
        });
        let (_, group) = groups.get_index_mut(index).expect("it was found or made");
        group.takers.insert(at.taker);
        // A sleeping thread is not sampled; it waits for the lock nevertheless.
        group.waited.entry(wait.thread).or_default();
        let chain = functions.chain(wait.stack, at.taker);
        // Samples have the program's own function behind the kernel's; tracepoints do not.
        let longer = group.callers.keys().position(|own| own.starts_with(&chain));
        let traced_ns = match longer.and_then(|index| group.callers.get_index_mut(index)) {
            Some((_, (_, traced_ns))) => traced_ns,
            None => &mut group.callers.entry(chain).or_default().1,
        };
        *traced_ns = traced_ns.saturating_add(wait.wait_ns);
        group.traced.get_or_insert_default().add(wait);
    }
}

/// Groups of the samples, by kind and name of the lock and by waiter: of several the first.
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

/// Moves unseen spinning to the waiters. With interrupts off it is sampled only when they come
/// back, as time of the lock's holder.
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
