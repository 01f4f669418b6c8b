//! `--fail-on`: turns a report into the answer a continuous-integration job wants.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use hitm_base::LineAddr;
use hitm_coherence::sharing::Verdict;
use thiserror::Error;

use crate::{Flagged, LineReport, RUN_SHARE_MIN, Report, WORTH_SHARE_MIN};

/// A condition under which a run counts as failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gate {
    /// Lines lose together at least [`WORTH_SHARE_MIN`] of the run, and each at least [`RUN_SHARE_MIN`] and
    /// more than a fifth of its whole loss, between threads that use different bytes. That is false
    /// sharing, or read-mostly bytes beside a hot writer. The main verdict may be another. Lines of the C
    /// library, the loader and runtimes are no program's to lay out, and do not count.
    FalseSharing,
    /// A line loses more than this many cycles to contention of any kind.
    Cycles(u64),
}

/// Reason for which a text is no gate.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum GateError {
    /// Neither of the known conditions.
    #[error("unknown condition \"{found}\", expected false-sharing or cycles=N")]
    Unknown {
        /// The text.
        found: String,
    },
    /// `cycles=` without a whole number.
    #[error("\"{found}\" after cycles= is no whole number of cycles")]
    Cycles {
        /// The text after the equals sign.
        found: String,
    },
}

impl FromStr for Gate {
    type Err = GateError;

    fn from_str(text: &str) -> Result<Gate, GateError> {
        if text == "false-sharing" {
            return Ok(Gate::FalseSharing);
        }
        let Some(number) = text.strip_prefix("cycles=") else {
            return Err(GateError::Unknown {
                found: text.to_owned(),
            });
        };
        let digits = number.replace('_', "");
        let cycles = digits.parse().map_err(|_| GateError::Cycles {
            found: number.to_owned(),
        })?;
        Ok(Gate::Cycles(cycles))
    }
}

impl fmt::Display for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Gate::FalseSharing => f.write_str("false-sharing"),
            Gate::Cycles(cycles) => write!(f, "cycles={cycles}"),
        }
    }
}

/// One line that breaks a gate.
#[derive(Debug, Clone, PartialEq)]
pub struct GateFailure {
    /// The gate.
    pub gate: Gate,
    /// The line.
    pub line: LineAddr,
    /// Its name, when the report shows the line in detail.
    pub name: Option<String>,
    /// Its verdict.
    pub verdict: Verdict,
    /// Cycles lost on it: those that the gate is about.
    pub lost_cycles: u64,
    /// The same as a part of all threads' time, 0 to 1.
    pub run_share: f64,
}

impl fmt::Display for GateFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: line {:#x}", self.gate, self.line.first_byte())?;
        if let Some(name) = &self.name {
            write!(f, " ({name})")?;
        }
        write!(
            f,
            " lost {} cycles to {}, {:.1}% of the run: {}",
            self.lost_cycles,
            match self.gate {
                Gate::FalseSharing => "false sharing",
                Gate::Cycles(_) => "contention",
            },
            self.run_share * 100.0,
            self.verdict.id()
        )
    }
}

/// Every (gate, line) that fails, in the order of `gates` and then of cost. All contended lines are
/// looked at, not only those that the report shows. Empty: all gates hold.
pub fn failures(report: &Report, gates: &[Gate]) -> Vec<GateFailure> {
    let shown = report.lines.iter().map(|line| (line.line, line));
    let shown: BTreeMap<LineAddr, &LineReport> = shown.collect();
    let name_of = |line: LineAddr| {
        let shown = shown.get(&line)?;
        (!shown.objects.is_empty()).then(|| shown.name())
    };
    let mut failures = Vec::new();
    for gate in gates {
        let lines = report.flagged.iter().filter(|line| breaks(line, *gate));
        if *gate == Gate::FalseSharing && !is_worth_it(lines.clone()) {
            continue;
        }
        failures.extend(lines.map(|line| {
            let (lost_cycles, run_share) = cost_of(line, *gate);
            GateFailure {
                gate: *gate,
                line: line.line,
                name: name_of(line.line),
                verdict: line.verdict,
                lost_cycles,
                run_share,
            }
        }));
    }
    failures
}

/// Cycles of the kind that a gate is about, and the same as a part of all threads' time.
fn cost_of(line: &Flagged, gate: Gate) -> (u64, f64) {
    match gate {
        Gate::FalseSharing => (line.false_sharing_cycles, line.false_sharing_run_share),
        Gate::Cycles(_) => (line.lost_cycles, line.run_share),
    }
}

/// Returns true if the false sharing of lines is worth a change. Samples and a recording that was cut short do
/// not say how long the threads ran.
fn is_worth_it<'a>(lines: impl Iterator<Item = &'a Flagged> + Clone) -> bool {
    let is_run_known = lines.clone().all(|line| line.run_share > 0.0);
    let shares = lines.map(|line| line.false_sharing_run_share);
    !is_run_known || shares.sum::<f64>() >= WORTH_SHARE_MIN
}

fn breaks(line: &Flagged, gate: Gate) -> bool {
    match gate {
        Gate::FalseSharing => {
            let is_run_known = line.run_share > 0.0;
            line.has_false_sharing
                && !line.is_runtime
                && (!is_run_known || line.false_sharing_run_share >= RUN_SHARE_MIN)
        }
        Gate::Cycles(cycles_max) => line.lost_cycles > cycles_max,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gates_are_read_and_written_alike() {
        for text in ["false-sharing", "cycles=0", "cycles=1000000"] {
            assert_eq!(text.parse::<Gate>().unwrap().to_string(), text);
        }
        assert_eq!("cycles=1_000".parse(), Ok(Gate::Cycles(1000)));
    }

    #[test]
    fn what_is_no_gate_says_what_was_expected() {
        let error = "speed".parse::<Gate>().unwrap_err().to_string();
        assert_eq!(
            error,
            "unknown condition \"speed\", expected false-sharing or cycles=N"
        );
        let error = "cycles=1e6".parse::<Gate>().unwrap_err().to_string();
        assert_eq!(error, "\"1e6\" after cycles= is no whole number of cycles");
        assert!("cycles=".parse::<Gate>().is_err());
        assert!("cycles=-1".parse::<Gate>().is_err());
    }
}
