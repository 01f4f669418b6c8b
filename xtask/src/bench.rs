//! `cargo xtask bench`: runs named benchmarks and keeps their results.
//!
//! Each benchmark is a function that measures once; the framework repeats it and takes the median.
//! A [`Measure::Ratio`] measures two things in turn and takes the median of the ratios. On a busy
//! or virtual host that says more than either figure. Results are printed as a table and appended
//! to `target/bench-results.jsonl`, one JSON object a line, with a description of the host. `recording` also
//! writes the table of programs in docs/performance.md.
//!
//! The benchmarks themselves need the feature `bench`, so that the checks do not wait for the crates
//! that are measured: [`start`] builds this crate again, in release, and calls [`run_here`] there.

mod host;
#[cfg(feature = "bench")]
mod layout;
#[cfg(feature = "bench")]
mod perf_data;
#[cfg(feature = "bench")]
mod programs;
#[cfg(feature = "bench")]
mod recording;
#[cfg(feature = "bench")]
mod replay;
#[cfg(feature = "bench")]
mod sim;
#[cfg(feature = "bench")]
mod statistics;
#[cfg(feature = "bench")]
mod streams;
#[cfg(feature = "bench")]
mod whatif;

use std::fs::{self, OpenOptions};
use std::io::Write as _;

use anyhow::{Context, Result, ensure};
use serde::Serialize;

use crate::{root, run};
use host::Host;

/// Measures once.
pub type Sample = fn() -> Result<f64>;

/// Way from samples to a figure.
#[derive(Debug, Clone, Copy)]
pub enum Measure {
    /// The median of the samples.
    Median(Sample),
    /// The median of `first / second`, each pair measured one after the other.
    Ratio(Sample, Sample),
}

/// A benchmark.
#[derive(Debug, Clone, Copy)]
pub struct Bench {
    /// Its name, lower case with `-`.
    pub name: &'static str,
    /// Unit of the figure.
    pub unit: &'static str,
    /// Number of measurements; odd, so that the median is a sample.
    pub run_count: usize,
    /// Measurement of one figure.
    pub measure: Measure,
}

/// All benchmarks of this build.
pub const BENCHES: &[Bench] = &[
    // First, while this process is small: Linux counts a parent's peak memory as its child's.
    #[cfg(feature = "bench")]
    Bench {
        name: "recording-slowdown",
        unit: "x native CPU time",
        run_count: 5,
        measure: Measure::Ratio(recording::recorded_cpu, recording::native_cpu),
    },
    #[cfg(feature = "bench")]
    Bench {
        name: "recording-memory",
        unit: "MiB over native",
        run_count: 3,
        measure: Measure::Median(recording::extra_memory),
    },
    #[cfg(feature = "bench")]
    Bench {
        name: "layout-show",
        unit: "CPU ms",
        run_count: 11,
        measure: Measure::Median(layout::show),
    },
    #[cfg(feature = "bench")]
    Bench {
        name: "layout-show-pahole",
        unit: "x pahole",
        run_count: 11,
        measure: Measure::Ratio(layout::show, layout::pahole_show),
    },
    #[cfg(feature = "bench")]
    Bench {
        name: "layout-list",
        unit: "CPU ms",
        run_count: 11,
        measure: Measure::Median(layout::list),
    },
    #[cfg(feature = "bench")]
    Bench {
        name: "layout-list-pahole",
        unit: "x pahole --sizes",
        run_count: 11,
        measure: Measure::Ratio(layout::list, layout::pahole_list),
    },
    #[cfg(feature = "bench")]
    Bench {
        name: "layout-list-memory",
        unit: "MiB",
        run_count: 3,
        measure: Measure::Median(layout::list_memory),
    },
    #[cfg(feature = "bench")]
    Bench {
        name: "layout-show-memory-pahole",
        unit: "x pahole's memory",
        run_count: 3,
        measure: Measure::Ratio(layout::show_memory, layout::pahole_show_memory),
    },
    #[cfg(feature = "bench")]
    Bench {
        name: "layout-list-memory-pahole",
        unit: "x pahole's memory",
        run_count: 3,
        measure: Measure::Ratio(layout::list_memory, layout::pahole_list_memory),
    },
    #[cfg(feature = "bench")]
    Bench {
        name: "layout-dwarf-show",
        unit: "CPU ms",
        run_count: 11,
        measure: Measure::Median(layout::dwarf_show),
    },
    #[cfg(feature = "bench")]
    Bench {
        name: "layout-dwarf-show-pahole",
        unit: "x pahole",
        run_count: 11,
        measure: Measure::Ratio(layout::dwarf_show, layout::pahole_dwarf_show),
    },
    #[cfg(feature = "bench")]
    Bench {
        name: "layout-dwarf-list",
        unit: "CPU ms",
        run_count: 11,
        measure: Measure::Median(layout::dwarf_list),
    },
    #[cfg(feature = "bench")]
    Bench {
        name: "layout-dwarf-list-pahole",
        unit: "x pahole --sizes",
        run_count: 11,
        measure: Measure::Ratio(layout::dwarf_list, layout::pahole_dwarf_list),
    },
    #[cfg(feature = "bench")]
    Bench {
        name: "layout-dwarf-list-memory-pahole",
        unit: "x pahole's memory",
        run_count: 3,
        measure: Measure::Ratio(layout::dwarf_list_memory, layout::pahole_dwarf_list_memory),
    },
    #[cfg(feature = "bench")]
    Bench {
        name: "whatif",
        unit: "x report",
        run_count: 3,
        measure: Measure::Ratio(whatif::whatif_cpu, whatif::report_cpu),
    },
    #[cfg(feature = "bench")]
    Bench {
        name: "perf-data-report",
        unit: "x faster than perf",
        run_count: 5,
        measure: Measure::Ratio(perf_data::perf_seconds, perf_data::hitm_seconds),
    },
    #[cfg(feature = "bench")]
    Bench {
        name: "perf-data-tables",
        unit: "x faster than perf",
        run_count: 3,
        measure: Measure::Ratio(perf_data::perf_seconds, perf_data::hitm_tables_seconds),
    },
    #[cfg(feature = "bench")]
    Bench {
        name: "perf-data-memory",
        unit: "x perf's memory",
        run_count: 3,
        measure: Measure::Ratio(perf_data::hitm_mebibytes, perf_data::perf_mebibytes),
    },
    #[cfg(feature = "bench")]
    Bench {
        name: "statistics-add",
        unit: "ns/access",
        run_count: 5,
        measure: Measure::Median(statistics::add_many_lines),
    },
    #[cfg(feature = "bench")]
    Bench {
        name: "statistics-many-lines",
        unit: "x one line",
        run_count: 5,
        measure: Measure::Ratio(statistics::add_many_lines, statistics::add_one_line),
    },
    #[cfg(feature = "bench")]
    Bench {
        name: "replay-one-core",
        unit: "M accesses/CPU s",
        run_count: 5,
        measure: Measure::Median(replay::one_core),
    },
    #[cfg(feature = "bench")]
    Bench {
        name: "replay-contended",
        unit: "M accesses/s",
        run_count: 5,
        measure: Measure::Median(replay::contended_one_core),
    },
    #[cfg(feature = "bench")]
    Bench {
        name: "replay-two-cores",
        unit: "x one thread",
        run_count: 5,
        measure: Measure::Ratio(replay::two_threads, replay::one_thread),
    },
    #[cfg(feature = "bench")]
    Bench {
        name: "replay-from-cold",
        unit: "M accesses/CPU s",
        run_count: 3,
        measure: Measure::Median(replay::from_cold),
    },
    #[cfg(feature = "bench")]
    Bench {
        name: "replay-worst-case",
        unit: "M accesses/CPU s",
        run_count: 3,
        measure: Measure::Median(replay::worst_case),
    },
    #[cfg(feature = "bench")]
    Bench {
        name: "sim-64-accesses",
        unit: "M accesses/CPU s",
        run_count: 3,
        measure: Measure::Median(sim::accesses::<64>),
    },
    #[cfg(feature = "bench")]
    Bench {
        name: "sim-64-time",
        unit: "virtual ms/CPU s",
        run_count: 1,
        measure: Measure::Median(sim::virtual_time::<64>),
    },
    #[cfg(feature = "bench")]
    Bench {
        name: "sim-64-memory",
        unit: "MiB",
        run_count: 1,
        measure: Measure::Median(sim::memory::<64>),
    },
    #[cfg(feature = "bench")]
    Bench {
        name: "sim-128-accesses",
        unit: "M accesses/CPU s",
        run_count: 3,
        measure: Measure::Median(sim::accesses::<128>),
    },
    #[cfg(feature = "bench")]
    Bench {
        name: "sim-128-time",
        unit: "virtual ms/CPU s",
        run_count: 1,
        measure: Measure::Median(sim::virtual_time::<128>),
    },
    #[cfg(feature = "bench")]
    Bench {
        name: "sim-128-memory",
        unit: "MiB",
        run_count: 1,
        measure: Measure::Median(sim::memory::<128>),
    },
    #[cfg(feature = "bench")]
    Bench {
        name: "sim-480-accesses",
        unit: "M accesses/CPU s",
        run_count: 3,
        measure: Measure::Median(sim::accesses::<480>),
    },
    #[cfg(feature = "bench")]
    Bench {
        name: "sim-480-time",
        unit: "virtual ms/CPU s",
        run_count: 1,
        measure: Measure::Median(sim::virtual_time::<480>),
    },
    #[cfg(feature = "bench")]
    Bench {
        name: "sim-480-memory",
        unit: "MiB",
        run_count: 1,
        measure: Measure::Median(sim::memory::<480>),
    },
    #[cfg(feature = "bench")]
    Bench {
        name: "sim-1024-accesses",
        unit: "M accesses/CPU s",
        run_count: 3,
        measure: Measure::Median(sim::accesses::<1024>),
    },
    #[cfg(feature = "bench")]
    Bench {
        name: "sim-1024-time",
        unit: "virtual ms/CPU s",
        run_count: 1,
        measure: Measure::Median(sim::virtual_time::<1024>),
    },
    #[cfg(feature = "bench")]
    Bench {
        name: "sim-1024-memory",
        unit: "MiB",
        run_count: 1,
        measure: Measure::Median(sim::memory::<1024>),
    },
    #[cfg(feature = "bench")]
    Bench {
        name: "sim-4096-accesses",
        unit: "M accesses/CPU s",
        run_count: 3,
        measure: Measure::Median(sim::accesses::<4096>),
    },
    #[cfg(feature = "bench")]
    Bench {
        name: "sim-4096-time",
        unit: "virtual ms/CPU s",
        run_count: 1,
        measure: Measure::Median(sim::virtual_time::<4096>),
    },
    #[cfg(feature = "bench")]
    Bench {
        name: "sim-4096-memory",
        unit: "MiB",
        run_count: 1,
        measure: Measure::Median(sim::memory::<4096>),
    },
];

/// A benchmark's figure.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figure {
    /// Name of the benchmark.
    pub bench: &'static str,
    /// Unit of the three figures.
    pub unit: &'static str,
    /// Middle sample.
    pub median: f64,
    /// Smallest sample.
    pub min: f64,
    /// Largest sample.
    pub max: f64,
    /// Number of samples.
    pub run_count: usize,
}

impl Bench {
    fn run(&self) -> Result<Figure> {
        let mut samples = Vec::new();
        for _ in 0..self.run_count {
            samples.push(match self.measure {
                Measure::Median(sample) => sample()?,
                Measure::Ratio(first, second) => first()? / second()?,
            });
        }
        self.figure(samples)
    }

    fn figure(&self, mut samples: Vec<f64>) -> Result<Figure> {
        ensure!(!samples.is_empty(), "{} has no samples", self.name);
        ensure!(
            samples.iter().all(|sample| sample.is_finite()),
            "{}: a sample is no number",
            self.name
        );
        samples.sort_by(f64::total_cmp);
        Ok(Figure {
            bench: self.name,
            unit: self.unit,
            median: samples[samples.len() / 2],
            min: samples[0],
            max: samples[samples.len() - 1],
            run_count: samples.len(),
        })
    }
}

#[derive(Serialize)]
struct Record<'a> {
    schema: u32,
    #[serde(flatten)]
    figure: &'a Figure,
    host: &'a Host,
}

/// Builds the benchmarks in release and runs those whose name contains `filter`.
pub fn start(filter: &str) -> Result<()> {
    let build = [
        "run",
        "--release",
        "--quiet",
        "--package",
        "xtask",
        "--features",
        "bench",
        "--",
    ];
    run("cargo", &[&build[..], &["bench-here", filter]].concat())
}

/// Runs the benchmarks of this build whose name contains `filter`.
pub fn run_here(filter: &str) -> Result<()> {
    let chosen: Vec<&Bench> = BENCHES
        .iter()
        .filter(|bench| bench.name.contains(filter))
        .collect();
    ensure!(
        !chosen.is_empty(),
        "no benchmark has \"{filter}\" in its name"
    );
    let host = Host::describe();
    let folder = root().join("target");
    fs::create_dir_all(&folder).context("cannot create target")?;
    let path = folder.join("bench-results.jsonl");
    let mut file = OpenOptions::new()
        .create(true)
        .append(true)
        .open(&path)
        .with_context(|| format!("cannot open {}", path.display()))?;
    println!("{host}");
    println!(
        "{:<28} {:>12} {:>12} {:>12} {:>5}  unit",
        "bench", "median", "min", "max", "runs"
    );
    for bench in chosen {
        let figure = bench
            .run()
            .with_context(|| format!("{} failed", bench.name))?;
        println!("{}", row(&figure));
        let record = Record {
            schema: 1,
            figure: &figure,
            host: &host,
        };
        writeln!(file, "{}", serde_json::to_string(&record)?).context("cannot write results")?;
    }
    #[cfg(feature = "bench")]
    if filter == "recording" {
        programs::write_table()?;
    }
    Ok(())
}

fn row(figure: &Figure) -> String {
    format!(
        "{:<28} {:>12.3} {:>12.3} {:>12.3} {:>5}  {}",
        figure.bench, figure.median, figure.min, figure.max, figure.run_count, figure.unit
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const BENCH: Bench = Bench {
        name: "toy",
        unit: "ns",
        run_count: 3,
        measure: Measure::Ratio(|| Ok(6.0), || Ok(2.0)),
    };

    #[test]
    fn the_median_is_the_middle_sample() {
        let figure = BENCH.figure(vec![9.0, 1.0, 4.0]).unwrap();
        assert_eq!((figure.min, figure.median, figure.max), (1.0, 4.0, 9.0));
    }

    #[test]
    fn a_ratio_is_taken_pair_by_pair() {
        let figure = BENCH.run().unwrap();
        assert_eq!((figure.median, figure.run_count), (3.0, 3));
    }

    #[test]
    fn a_sample_that_is_no_number_is_an_error() {
        assert!(BENCH.figure(vec![1.0, f64::NAN]).is_err());
        assert!(BENCH.figure(Vec::new()).is_err());
    }
}
