//! Naming coverage in the report of a whole machine: how much of it has a name.

use hitm_fields::fields;
use std::collections::BTreeMap;

use hitm_base::CodeAddr;
use hitm_coherence::stats::Statistics;
use hitm_recording::KnownAs;

use crate::Names;
use crate::model::share;

/// By function, those with most HITMs.
fn by_function(unnamed: BTreeMap<CodeAddr, (u64, u64)>, names: &dyn Names) -> Vec<Unnamed> {
    let mut functions: BTreeMap<String, Unnamed> = BTreeMap::new();
    for (code, (hitm_count, address)) in unnamed {
        let function = names.code(code).function;
        let known = functions
            .entry(function.clone())
            .or_insert_with(|| Unnamed {
                function,
                hitm_count: 0,
                address,
            });
        known.hitm_count += hitm_count;
    }
    let mut list: Vec<Unnamed> = functions.into_values().collect();
    list.sort_by_key(|one| std::cmp::Reverse(one.hitm_count));
    list.truncate(UNNAMED_MAX);
    list
}

fields! {
    /// Naming coverage of a recorded machine: HITMs by what identifies their address.
    #[derive(Debug, Clone, PartialEq, Eq, Default)]
    pub struct MachineSummary in machine {
        /// Accesses of all kinds that found their line modified in another cache.
        pub hitm_count: u64 => count "HITM";
        /// Part of the HITMs at places that have a name.
        named_share => share "with a name", |machine| machine.named_share();
        /// HITMs at objects that walks over the kernel's memory found.
        pub object_hitm_count: u64 => count "objects";
        /// HITMs at the kernel's variables, per-CPU variables and page descriptors.
        pub variable_hitm_count: u64 => count "variables";
        /// HITMs at objects of slab caches whose type is known.
        pub typed_hitm_count: u64 => count "typed slabs";
        /// HITMs at objects of which only the slab cache is known.
        pub slab_hitm_count: u64 => count "other slabs";
        /// HITMs at memory of the recorded program.
        pub program_hitm_count: u64 => count "program";
        /// Accesses to device registers, which were left out.
        pub device_access_count: u64 => count "device accesses";
        /// Accesses from user space, private ones included.
        pub user_access_count: u64 => count "user accesses";
        /// Functions with HITMs at places without a name, most HITMs first, at most [`UNNAMED_MAX`].
        pub unnamed: Vec<Unnamed>;
    }
}

fields! {
    /// A function's HITMs at places without a name.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Unnamed in unnamed {
        /// A function that has HITMs at places without a name.
        pub function: String => known label "function";
        /// Number of these HITMs.
        pub hitm_count: u64 => count "HITM";
        /// One of the places.
        pub address: u64 => address "address";
    }
}

/// Functions that are listed: enough to see what kind of object is missing.
pub const UNNAMED_MAX: usize = 8;

impl MachineSummary {
    /// Counts what has a name. Lines without rows count as a whole by what their first byte belongs to;
    /// `nameless` are the HITMs of those whose first byte has no name, by instruction, each with one of the
    /// places.
    pub fn build(
        statistics: &Statistics,
        names: &dyn Names,
        nameless: impl Iterator<Item = (CodeAddr, u64, u64)>,
    ) -> MachineSummary {
        let mut summary = MachineSummary::default();
        let mut unnamed: BTreeMap<CodeAddr, (u64, u64)> = nameless
            .map(|(code, hitm_count, address)| (code, (hitm_count, address)))
            .collect();
        for (line, handed) in &statistics.rest.handed {
            summary.add(names.known_as(line.first_byte()), handed.hitm_count);
        }
        for (line, stats) in &statistics.lines {
            for (key, row) in &stats.rows {
                let hitm = row.sources.hitm();
                if hitm == 0 {
                    continue;
                }
                let addr = line.first_byte() + u64::from(key.offset);
                let known = names.known_as(addr);
                summary.add(known, hitm);
                if known.is_none() {
                    unnamed.entry(key.code).or_insert((0, addr)).0 += hitm;
                }
            }
        }
        summary.unnamed = by_function(unnamed, names);
        summary
    }

    fn add(&mut self, known: Option<KnownAs>, hitm: u64) {
        self.hitm_count += hitm;
        match known {
            Some(KnownAs::Object) => self.object_hitm_count += hitm,
            Some(KnownAs::Variable) => self.variable_hitm_count += hitm,
            Some(KnownAs::Typed) => self.typed_hitm_count += hitm,
            Some(KnownAs::Slab) => self.slab_hitm_count += hitm,
            Some(KnownAs::Program) => self.program_hitm_count += hitm,
            None => {}
        }
    }

    /// Part of the HITMs that have a name, 0 to 1.
    pub fn named_share(&self) -> f64 {
        let named = self.object_hitm_count
            + self.variable_hitm_count
            + self.typed_hitm_count
            + self.slab_hitm_count
            + self.program_hitm_count;
        share(named, self.hitm_count)
    }
}
