//! The content of a simulation's runs, for names that two equal runs share.

use std::collections::BTreeMap;

use hitm_sim::engine::MODEL_VERSION;
use hitm_sim::scenario::{RunSpec, ShippedFile, Variant, WorkloadKind, shipped};
use hitm_sweep::name::{Naming, RunName};
use hitm_sweep::result::RESULT_VERSION;

use super::Simulation;

/// The scenario that comes with hitm under this name: `000-root-domain/ffmpeg`.
pub fn shipped_scenario(name: &str) -> Option<&'static ShippedFile> {
    shipped().find(|file| {
        let full = format!("{}/{}", file.folder, file.name);
        full == name || full.strip_suffix(".toml") == Some(name)
    })
}

/// Names of the scenarios that come with hitm, as [`shipped_scenario`] takes them.
pub fn shipped_scenarios() -> impl Iterator<Item = String> {
    shipped().map(|file| {
        let name = file.name.strip_suffix(".toml").unwrap_or(file.name);
        format!("{}/{name}", file.folder)
    })
}

/// The name of the run of a variant with a seed.
pub(crate) fn run_name(variant: &Naming, seed: u64) -> RunName {
    variant.clone().with("seed", &seed.to_string()).name()
}

impl Simulation {
    /// Returns, for each variant, all that decides its runs except the seed, and nothing else. The
    /// name of a run is made of that and its seed.
    ///
    /// Parsed values are hashed, so comments, names of files and notations do not count. Their form
    /// is that of `Debug`: a new key of a scenario is part of the name from its first day.
    pub(crate) fn namings(&self, variants: &[Variant]) -> Vec<Naming> {
        let shared = self.naming();
        // Layouts are long, and many variants share one.
        let mut with_layout: BTreeMap<&str, Naming> = BTreeMap::new();
        let mut namings = Vec::new();
        for variant in variants {
            let of_layout = with_layout.entry(&variant.layout).or_insert_with(|| {
                let (_, layouts) = self.layouts_of_variant(variant);
                shared.clone().with("layouts", &format!("{layouts:?}"))
            });
            let policies = (variant.balancing, variant.throttling, variant.placement);
            let naming = of_layout.clone().with("policies", &format!("{policies:?}"));
            let naming = naming.with("preempt", &format!("{:?}", variant.preempt));
            let naming = naming.with("mechanisms", &format!("{:?}", variant.mechanisms));
            namings.push(naming.with("load", &format!("{:?}", variant.wakeups_per_second)));
        }
        namings
    }

    /// The part of a name that all variants and seeds share.
    fn naming(&self) -> Naming {
        let scenario = &self.scenario;
        let mut kernel = scenario.kernel.clone();
        // Lists of the scenario: a variant has one entry of each.
        kernel.balancing.clear();
        kernel.throttling.clear();
        kernel.preempt.clear();
        kernel.placement.clear();
        kernel.mechanisms.clear();
        kernel.layouts.clear();
        let mut workloads = scenario.workloads.clone();
        for workload in &mut workloads {
            if let WorkloadKind::Pool(pool) = &mut workload.kind {
                pool.wakeups_per_second.clear();
            }
        }
        let run = RunSpec {
            seed: 0,
            seeds: 0,
            ..scenario.run
        };
        Naming::new(RESULT_VERSION)
            .with("model", &MODEL_VERSION.to_string())
            .with("machine", &format!("{:?}", self.machine))
            .with("finite caches", &scenario.machine.finite_caches.to_string())
            .with("kernel", &format!("{kernel:?}"))
            .with("workloads", &format!("{workloads:?}"))
            .with("run", &format!("{run:?}"))
            .with("rt-app", &format!("{:?}", self.rt_apps))
            .with("traces", &format!("{:?}", self.traces))
            .with("groups", &format!("{:?}", scenario.groups))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::run_name;
    use crate::sim::{LoadOptions, Simulation};

    const SCENARIO: &str = "schema = 1\nname = \"n\"\ndescription = \"d\"\nsource = \"s\"\n\
        [machine]\npreset = \"broadwell-4s\"\ncpus = 4\n\
        [kernel]\nbalancing = [\"passive\", \"push-ipi\"]\n\
        [[workload]]\nkind = \"hogs\"\n[run]\nduration = \"1ms\"\n";

    fn name(text: &str, settings: &[&str], variant: usize, seed: u64) -> String {
        let options = LoadOptions {
            settings: settings
                .iter()
                .map(|setting| (*setting).to_owned())
                .collect(),
            ..LoadOptions::default()
        };
        let simulation = Simulation::of_text(text, "x", Path::new(""), &options).unwrap();
        let variants = simulation.scenario().variants();
        let namings = simulation.namings(&variants);
        run_name(&namings[variant], seed).to_string()
    }

    #[test]
    fn equal_runs_share_a_name_however_they_are_stated() {
        let plain = name(SCENARIO, &[], 1, 1);
        let other_words = SCENARIO.replace("\"n\"", "\"other\" # and a comment");
        assert_eq!(name(&other_words, &[], 1, 1), plain);
        assert_eq!(name(SCENARIO, &["kernel.balancing=push-ipi"], 0, 1), plain);
        assert_eq!(name(SCENARIO, &["run.duration=1000us"], 1, 1), plain);
        assert_eq!(name(SCENARIO, &["run.seed=7", "run.seeds=3"], 1, 1), plain);
    }

    #[test]
    fn what_decides_a_run_changes_its_name() {
        let plain = name(SCENARIO, &[], 1, 1);
        assert_ne!(name(SCENARIO, &[], 0, 1), plain);
        assert_ne!(name(SCENARIO, &[], 1, 2), plain);
        for setting in [
            "run.duration=2ms",
            "kernel.tick=1000/s",
            "machine.cpus=8",
            "machine.preset=xeon-480",
            "machine.caches=finite",
            "kernel.layouts=root-domain-restructured",
            "workload.threads=2",
        ] {
            assert_ne!(name(SCENARIO, &[setting], 1, 1), plain, "{setting}");
        }
    }
}
