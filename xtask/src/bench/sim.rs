//! Cost of simulating by the number of CPUs: the thread pools of scenarios/000-root-domain on
//! machines from 64 to 4096 CPUs, one variant and one seed, by `hitm sim`.
//!
//! Each machine is machines/xeon-480.toml with other numbers in its tree, and each run has the same
//! CPU time to simulate, 4.8 s.

use std::fs::{self, File};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::recording::{Used, run_into};
use crate::{root, target};

/// Packages, dies of each and cores of each die, all with two threads, by the number of CPUs.
const TREES: [(usize, [u32; 3]); 5] = [
    (64, [2, 1, 16]),
    (128, [2, 1, 32]),
    (480, [2, 3, 40]),
    (1024, [4, 4, 32]),
    (4096, [8, 8, 32]),
];
/// CPU time of a run, over all simulated CPUs, in microseconds.
const CPU_MICROS: usize = 4_800_000;

/// A run of `hitm sim`.
struct Run {
    used: Used,
    accesses: f64,
    virtual_seconds: f64,
}

/// Millions of priced accesses a CPU second.
pub(super) fn accesses<const CPUS: usize>() -> Result<f64> {
    let run = simulate(CPUS)?;
    Ok(run.accesses / run.used.cpu_seconds / 1e6)
}

/// Milliseconds of virtual time a CPU second.
pub(super) fn virtual_time<const CPUS: usize>() -> Result<f64> {
    let run = simulate(CPUS)?;
    Ok(run.virtual_seconds / run.used.cpu_seconds * 1e3)
}

/// Peak memory of `hitm sim`, in MiB.
pub(super) fn memory<const CPUS: usize>() -> Result<f64> {
    Ok(simulate(CPUS)?.used.peak_mebibytes)
}

fn simulate(cpus: usize) -> Result<Run> {
    let hitm = crate::hitm()?;
    let folder = target().join("bench");
    fs::create_dir_all(&folder).context("cannot create target/bench")?;
    let (machine, scenario) = (
        format!("sim-{cpus}.machine.toml"),
        format!("sim-{cpus}.toml"),
    );
    fs::write(folder.join(&machine), machine_of(cpus)?).context("cannot write a machine")?;
    fs::write(folder.join(&scenario), scenario_of(cpus, &machine))
        .context("cannot write a scenario")?;
    let json = folder.join("sim.json");
    let output = File::create(&json).context("cannot write into target/bench")?;
    let mut command = Command::new(hitm);
    command.arg("sim").arg(folder.join(&scenario));
    command.args(["--format", "json"]);
    let used = run_into(&mut command, Stdio::from(output))?;
    let text = fs::read_to_string(&json).context("cannot read the result")?;
    let result: serde_json::Value = serde_json::from_str(&text).context("the result is no JSON")?;
    let run = &result["variants"][0]["runs"][0];
    let figure = |key: &str| run[key].as_f64().with_context(|| format!("no {key}"));
    Ok(Run {
        used,
        accesses: figure("access_count")?,
        virtual_seconds: figure("virtual_ns")? / 1e9,
    })
}

/// The text of xeon-480 with the tree of so many CPUs.
fn machine_of(cpus: usize) -> Result<String> {
    let tree = TREES.iter().find(|(count, _)| *count == cpus);
    let (_, [packages, dies, cores]) = tree.context("no tree of so many CPUs")?;
    let path = root().join("machines/xeon-480.toml");
    let mut text = fs::read_to_string(&path).context("cannot read machines/xeon-480.toml")?;
    let changes = [
        ("name = \"xeon-480\"", format!("name = \"xeon-of-{cpus}\"")),
        ("packages = 2\n", format!("packages = {packages}\n")),
        ("dies = 3\n", format!("dies = {dies}\n")),
        ("cores = 40\n", format!("cores = {cores}\n")),
    ];
    for (from, to) in changes {
        if !text.contains(from) {
            bail!("{} has no {from:?}", path.display());
        }
        text = text.replacen(from, &to, 1);
    }
    Ok(text)
}

fn scenario_of(cpus: usize, machine: &str) -> String {
    let micros = CPU_MICROS / cpus;
    format!(
        r#"schema = 1
name = "bench"
description = "Thread pools on {cpus} CPUs"
source = "made up for this benchmark"

[machine]
file = "{machine}"

[[workload]]
kind = "ffmpeg"
cores_per_instance = 4
workers = 12
runnable = 8
wakeups = "10000/s"

[run]
duration = "{micros}us"
"#
    )
}
