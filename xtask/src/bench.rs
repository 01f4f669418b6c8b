//! `cargo xtask bench`: runs named benchmarks and keeps their results.
//!
//! Each benchmark is a function that measures once; the framework repeats it and takes the median.
//! A [`Measure::Ratio`] measures two things in turn and takes the median of the ratios. On a busy
//! or virtual host that says more than either figure. Results are printed as a table and appended
//! to docs/performance/history.jsonl, from which `tables` makes the tables of docs/performance.md. `recording` also
//! measures programs.
//!
//! The benchmarks themselves need the feature `bench`, so that the checks do not wait for the crates
//! that are measured: [`start`] builds this crate again, in release, and calls [`run_here`] there.

mod history;
mod host;
#[cfg(feature = "bench")]
mod layout;
#[cfg(feature = "bench")]
mod list;
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
mod tables;
#[cfg(feature = "bench")]
mod whatif;

use anyhow::{Context, Result, ensure};

use crate::run;
use history::{Entry, Figure};
use host::Run;

pub(crate) use tables::outdated;
pub use tables::write as write_tables;

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
#[cfg(feature = "bench")]
const BENCHES: &[Bench] = list::BENCHES;
#[cfg(not(feature = "bench"))]
const BENCHES: &[Bench] = &[];

impl Bench {
    fn run(&self) -> Result<Figure> {
        let mut samples = Vec::new();
        for _ in 0..self.run_count {
            samples.push(match self.measure {
                Measure::Median(sample) => sample()?,
                Measure::Ratio(first, second) => first()? / second()?,
            });
        }
        Figure::of(self.name, self.unit, samples)
    }
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
    // A history that is damaged is said before the minutes of the runs.
    history::read()?;
    let run = Run::describe();
    println!("{run}");
    println!(
        "{:<38} {:>12} {:>12} {:>12} {:>5}  unit",
        "bench", "median", "min", "max", "runs"
    );
    let keep = |figure: Figure| {
        println!("{}", row(&figure));
        let run = run.clone();
        history::append(&history::path(), &Entry { figure, run })
    };
    for bench in chosen {
        let figure = bench.run();
        keep(figure.with_context(|| format!("{} failed", bench.name))?)?;
    }
    #[cfg(feature = "bench")]
    if filter == "recording" {
        programs::measure(&keep)?;
    }
    Ok(())
}

fn row(figure: &Figure) -> String {
    let number = |number: Option<f64>| number.map_or("-".to_owned(), |it| format!("{it:.3}"));
    format!(
        "{:<38} {:>12.3} {:>12} {:>12} {:>5}  {}",
        figure.bench,
        figure.median,
        number(figure.min),
        number(figure.max),
        figure.run_count.unwrap_or(0),
        figure.unit
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
    fn a_ratio_is_taken_pair_by_pair() {
        let figure = BENCH.run().unwrap();
        assert_eq!((figure.median, figure.run_count), (3.0, Some(3)));
    }
}
