//! Waits by the kernel's tracepoints, beside samples.

use std::collections::BTreeMap;
use std::ops::Bound;

use indexmap::IndexMap;

use super::known::{self, Class, Owner};
use super::site::{At, Functions};
use super::{Group, Key, Lock, Traced, object};
use crate::recording::LiveWait;

/// Adds the waits to the groups of the samples, and makes a group for each lock that has none.
pub(super) fn add(functions: &Functions<'_>, groups: &mut IndexMap<Key, Group>) {
    let Some(waits) = &functions.recording().waits else {
        return;
    };
    for group in groups.values_mut() {
        group.traced = Some(Traced::default());
    }
    let sampled = sampled(groups);
    let mut adding = Adding {
        functions,
        sampled,
        named: BTreeMap::new(),
        chains: BTreeMap::new(),
        groups,
    };
    let at = |wait: &LiveWait| {
        let at = functions.traced(wait.stack);
        at.filter(|_| !functions.is_idle(wait.object))
    };
    let has_name = |wait: &&LiveWait| {
        at(wait).is_some_and(|at| {
            let (_, owner) = known::lock_of(at.class, functions.name(at.taker));
            matches!(owner, Owner::Process | Owner::File)
        })
    };
    // Those whose lock has a name come first: others may wait for the same one.
    let (first, then): (Vec<&LiveWait>, Vec<&LiveWait>) = waits.iter().partition(has_name);
    for wait in first.into_iter().chain(then) {
        if let Some(at) = at(wait) {
            adding.add(at, wait);
        }
    }
}

/// Waits that are being added to groups.
struct Adding<'a> {
    functions: &'a Functions<'a>,
    groups: &'a mut IndexMap<Key, Group>,
    sampled: BTreeMap<(Class, String, u32), usize>,
    /// Groups of the kernel's locks that have a name, by class and address.
    named: BTreeMap<(Class, u64), usize>,
    /// Callers of each group.
    chains: BTreeMap<usize, Chains>,
}

impl Adding<'_> {
    fn add(&mut self, at: At, wait: &LiveWait) {
        let index = self.group(at, wait);
        let (_, group) = self
            .groups
            .get_index_mut(index)
            .expect("it was found or made");
        group.takers.insert(at.taker);
        // A sleeping thread is not sampled; it waits for the lock nevertheless.
        group.waited.entry(wait.thread).or_default();
        let chain = self.functions.chain(wait.stack, at.taker);
        let chains = self.chains.entry(index);
        let chains = chains.or_insert_with(|| Chains::of(&group.callers));
        let caller = match chains.first_with(&chain) {
            Some(caller) => caller,
            None => {
                let caller = group.callers.insert_full(chain.clone(), (0, 0)).0;
                chains.sorted.insert(chain, caller);
                caller
            }
        };
        let (_, traced_ns) = &mut group.callers[caller];
        *traced_ns = traced_ns.saturating_add(wait.wait_ns);
        group.traced.get_or_insert_default().add(wait);
    }

    /// The group of a wait's lock.
    fn group(&mut self, at: At, wait: &LiveWait) -> usize {
        let At { class, taker, .. } = at;
        let (name, owner) = known::lock_of(class, self.functions.name(taker));
        let is_word = wait.object.is_some();
        let has_name = matches!(owner, Owner::Process | Owner::File) && !is_word;
        let known = self.sampled.get(&(class, name.clone(), wait.thread));
        // A futex has its own address, by which its group is found below.
        let known = known.filter(|_| !is_word);
        let named = self.named.get(&(class, wait.lock));
        let known = named.filter(|_| !has_name && !is_word).or(known).copied();
        let is_known = known.is_some();
        let index = known.unwrap_or_else(|| {
            let has_object = owner == Owner::Process || is_word;
            let object = match has_object {
                true => object(self.functions, owner, wait.thread, wait.object),
                false => format!("at {:#x}", wait.lock),
            };
            let entry = self.groups.entry(Key {
                class,
                name,
                object,
            });
            let index = entry.index();
            entry.or_default().is_by_address = !has_object;
            index
        });
        if has_name && (is_known || owner == Owner::Process) {
            self.named.entry((class, wait.lock)).or_insert(index);
        }
        index
    }
}

/// The chains of a group's callers, to be found by how they begin.
#[derive(Debug, Default)]
struct Chains {
    /// Places of the callers.
    sorted: BTreeMap<String, usize>,
    /// Places that were found. They stay, as later callers come behind.
    found: BTreeMap<String, usize>,
}

impl Chains {
    fn of(callers: &IndexMap<String, (u64, u64)>) -> Chains {
        let places = callers.keys().cloned().zip(0..);
        Chains {
            sorted: places.collect(),
            found: BTreeMap::new(),
        }
    }

    /// The first caller whose chain begins with this one: samples have the program's own function behind
    /// the kernel's, tracepoints do not.
    fn first_with(&mut self, chain: &str) -> Option<usize> {
        if let Some(found) = self.found.get(chain) {
            return Some(*found);
        }
        let from = (Bound::Included(chain), Bound::Unbounded);
        let longer = self.sorted.range::<str, _>(from);
        let longer = longer.take_while(|(own, _)| own.starts_with(chain));
        let first = longer.map(|(_, place)| *place).min()?;
        self.found.insert(chain.to_owned(), first);
        Some(first)
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
        self.addresses.insert(wait.lock);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_caller_that_begins_so_is_found() {
        let callers = ["d", "b < c", "b < a"].map(|chain| (chain.to_owned(), (1, 0)));
        let mut chains = Chains::of(&callers.into());
        let found = ["b", "b < a", "d", "d < e", "b"].map(|chain| chains.first_with(chain));
        assert_eq!(found, [Some(1), Some(2), Some(0), None, Some(1)]);
    }
}
