//! Profiles: who touches which member, how often. The advisor weighs layouts by them.
//!
//! A [`Profile`] counts accesses by member, function, thread class and CPU. It says nothing of
//! lines, so that it holds for every layout of the structure. It comes from a table
//! ([`Profile::parse`]; `docs/formats/profile.md`), from a recording (the facade counts), or from
//! any other counts ([`Profile::new`] and [`Profile::add`]).
//!
//! Invariant: no two rows are of the same member, instance, function, thread class and CPUs; rows
//! are in that order.
//!
//! Not modelled: the order of accesses within a function, and phases. A function that touches
//! several members is taken to touch them at about the same time; everything else is independent.

mod cpu_set;
mod fold;
mod parse;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ops::AddAssign;

use hitm_base::{CpuId, Cycles};

pub use cpu_set::CpuSet;
pub use parse::ProfileError;

/// The largest count: sums stop there, far from the end of the numbers.
const COUNT_MAX: u64 = 1 << 50;

/// Accesses to the members of one structure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// Short name.
    pub name: String,
    /// Origin of the counts, in one line.
    pub source: String,
    /// Cycles of each CPU's own work in which the accesses were counted: without what it waited for
    /// contended lines.
    pub period: Cycles,
    /// The same for CPUs that worked for another time.
    pub work: BTreeMap<CpuId, Cycles>,
    rows: BTreeMap<RowKey, Counts>,
}

/// Key of a row: accesses with different keys are counted apart.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RowKey {
    /// Path of the member in the structure: `cpupri.pri_to_cpu[0].count`.
    pub member: String,
    /// Instance of the structure, where several were counted.
    pub instance: u32,
    /// The function that makes the accesses.
    pub function: String,
    /// Name of the threads that run it; empty where it is not known.
    pub comm: String,
    /// The CPUs that run it, each as often as the others.
    pub cpus: CpuSet,
}

/// Numbers of accesses, over all CPUs of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Plain loads.
    pub loads: u64,
    /// Plain stores.
    pub stores: u64,
    /// Locked read-modify-writes.
    pub rmws: u64,
}

impl Counts {
    /// All of them.
    pub const fn total(self) -> u64 {
        self.loads
            .saturating_add(self.stores)
            .saturating_add(self.rmws)
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        let sum = |a: u64, b: u64| a.saturating_add(b).min(COUNT_MAX);
        self.loads = sum(self.loads, other.loads);
        self.stores = sum(self.stores, other.stores);
        self.rmws = sum(self.rmws, other.rmws);
    }
}

impl Profile {
    /// A profile without rows.
    pub fn new(name: impl Into<String>, source: impl Into<String>, period: Cycles) -> Profile {
        Profile {
            name: name.into(),
            source: source.into(),
            period,
            work: BTreeMap::new(),
            rows: BTreeMap::new(),
        }
    }

    /// Counts accesses, with those that were counted for the same key.
    pub fn add(&mut self, key: RowKey, counts: Counts) {
        *self.rows.entry(key).or_default() += counts;
    }

    /// The rows, by key.
    pub fn rows(&self) -> impl Iterator<Item = (&RowKey, Counts)> {
        self.rows.iter().map(|(key, counts)| (key, *counts))
    }

    /// The members that are touched, each once, by name.
    pub fn members(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.rows.keys().map(|key| key.member.as_str()).collect();
        names.dedup();
        names
    }

    /// Cycles of own work of a CPU.
    pub fn work_of(&self, cpu: CpuId) -> Cycles {
        self.work.get(&cpu).copied().unwrap_or(self.period)
    }
}
