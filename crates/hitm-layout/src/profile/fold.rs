//! A profile of a large machine on a smaller one.

use std::collections::BTreeMap;

use hitm_base::{CpuId, Cycles};

use super::{Counts, CpuSet, Profile, RowKey};

impl Profile {
    /// The CPUs that make accesses, ascending.
    pub fn cpus(&self) -> Vec<CpuId> {
        let mut sets: Vec<&CpuSet> = self.rows.keys().map(|key| &key.cpus).collect();
        sets.sort_unstable();
        sets.dedup();
        let mut cpus: Vec<CpuId> = sets.into_iter().flat_map(CpuSet::iter).collect();
        cpus.sort_unstable();
        cpus.dedup();
        cpus
    }

    /// Returns the profile on a machine of `cpu_count` CPUs, at least one; none when it fits as it is.
    ///
    /// The i-th of k CPUs that make accesses goes to CPU i * `cpu_count` / k. A CPU that gets several
    /// does the work of all of them, one after another. So accesses and work add up to what they
    /// were, and each CPU has the mean rates of those that it stands for.
    pub fn folded(&self, cpu_count: usize) -> Option<Profile> {
        let cpus = self.cpus();
        cpus.last()
            .filter(|last| cpu_count > 0 && last.index() >= cpu_count)?;
        let target = |index: usize| CpuId((index * cpu_count / cpus.len()) as u16);
        let indices = 0..cpus.len();
        let targets: BTreeMap<CpuId, CpuId> =
            indices.map(|index| (cpus[index], target(index))).collect();
        let mut folded = Profile::new(&self.name, &self.source, self.period);
        for (cpu, to) in &targets {
            let work = folded.work.entry(*to).or_insert(Cycles::ZERO);
            *work = Cycles(work.0.saturating_add(self.work_of(*cpu).0));
        }
        for (key, counts) in self.rows() {
            for (cpus, counts) in split(&key.cpus, &targets, counts) {
                let key = RowKey {
                    cpus,
                    ..key.clone()
                };
                folded.add(key, counts);
            }
        }
        Some(folded)
    }

    /// Returns the profile without the members that `is_known` does not know, and their accesses by
    /// member.
    pub fn split_by(&self, is_known: &dyn Fn(&str) -> bool) -> (Profile, BTreeMap<String, u64>) {
        let mut known = Profile {
            rows: BTreeMap::new(),
            ..self.clone()
        };
        let mut others: BTreeMap<String, u64> = BTreeMap::new();
        for (key, counts) in self.rows() {
            if is_known(&key.member) {
                known.add(key.clone(), counts);
            } else {
                let count = others.entry(key.member.clone()).or_default();
                *count = count.saturating_add(counts.total());
            }
        }
        (known, others)
    }
}

/// Splits a row's counts, of which each CPU makes an equal share, by the number of CPUs that a target
/// stands for: the CPUs of a row make equal shares again.
fn split(cpus: &CpuSet, targets: &BTreeMap<CpuId, CpuId>, counts: Counts) -> Vec<(CpuSet, Counts)> {
    let mut weights: BTreeMap<CpuId, u128> = BTreeMap::new();
    for cpu in cpus.iter() {
        *weights.entry(targets[&cpu]).or_default() += 1;
    }
    let mut by_weight: BTreeMap<u128, Vec<CpuId>> = BTreeMap::new();
    for (target, weight) in weights {
        by_weight.entry(weight).or_default().push(target);
    }
    let all = cpus.len() as u128;
    let mut done = 0;
    let mut rows = Vec::new();
    for (weight, targets) in by_weight {
        let next = done + weight * targets.len() as u128;
        // Differences of rounded sums add up to the count.
        let part = |count: u64| {
            let until = |sum: u128| (u128::from(count) * sum / all) as u64;
            until(next) - until(done)
        };
        let part = Counts {
            loads: part(counts.loads),
            stores: part(counts.stores),
            rmws: part(counts.rmws),
        };
        done = next;
        rows.extend(CpuSet::of(targets.into_iter()).map(|cpus| (cpus, part)));
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(rows: &[(&str, &str, u64)]) -> Profile {
        let mut profile = Profile::new("test", "made up", Cycles(1000));
        for (member, cpus, loads) in rows {
            let key = RowKey {
                member: (*member).to_owned(),
                instance: 0,
                function: "f".to_owned(),
                comm: String::new(),
                cpus: CpuSet::parse(cpus).expect("CPUs"),
            };
            let counts = Counts {
                loads: *loads,
                ..Counts::default()
            };
            profile.add(key, counts);
        }
        profile
    }

    fn rows(profile: &Profile) -> Vec<(String, String, u64)> {
        let rows = profile.rows();
        rows.map(|(key, counts)| (key.member.clone(), key.cpus.to_string(), counts.loads))
            .collect()
    }

    #[test]
    fn accesses_and_work_stay_what_they_are() {
        let large = profile(&[("a", "0-479", 4801), ("b", "479", 7)]);
        let small = large.folded(96).expect("480 CPUs are more than 96");
        let row = |member: &str, cpus: &str, loads| (member.to_owned(), cpus.to_owned(), loads);
        assert_eq!(rows(&small), [row("a", "0-95", 4801), row("b", "95", 7)]);
        assert_eq!(small.work.len(), 96);
        assert!(small.work.values().all(|work| *work == Cycles(5000)));
    }

    #[test]
    fn uneven_shares_are_rows_of_their_own() {
        let large = profile(&[("a", "0-4", 50)]);
        let small = large.folded(2).expect("5 CPUs are more than 2");
        let found: Vec<(String, u64)> = rows(&small)
            .into_iter()
            .map(|(_, cpus, loads)| (cpus, loads))
            .collect();
        assert_eq!(found, [("0".to_owned(), 30), ("1".to_owned(), 20)]);
        assert_eq!(small.work[&CpuId(0)], Cycles(3000));
        assert_eq!(small.work[&CpuId(1)], Cycles(2000));
    }

    #[test]
    fn few_cpus_with_high_numbers_stay_apart() {
        let large = profile(&[("a", "100", 5), ("b", "400", 5)]);
        let small = large.folded(64).expect("CPU 400 is beyond 64");
        let cpus: Vec<CpuId> = small.cpus();
        assert_eq!(cpus, [CpuId(0), CpuId(32)]);
        assert_eq!(large.folded(480), None);
    }

    #[test]
    fn unknown_members_are_counted() {
        let both = profile(&[("a", "0", 5), ("b", "1", 6), ("b", "2", 1)]);
        let (known, others) = both.split_by(&|member| member == "a");
        assert_eq!(known.members(), ["a"]);
        assert_eq!(others, BTreeMap::from([("b".to_owned(), 7)]));
    }
}
