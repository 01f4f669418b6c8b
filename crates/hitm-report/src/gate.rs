//! `--fail-on`: turns a report into the answer a continuous-integration job wants.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use crate::model::share;
use crate::{Finding, Pattern, RUN_SHARE_MIN, Report, WORTH_SHARE_MIN};

/// A condition under which a run counts as failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gate {
    /// Findings lose together at least [`WORTH_SHARE_MIN`] of the run, and each at least [`RUN_SHARE_MIN`], on lines
    /// that lose more than a fifth of their whole loss between threads that use different bytes. That is false
    /// sharing, or read-mostly bytes beside a hot writer. The main verdict may be another. What belongs to the C
    /// library, the loader and runtimes is no program's to lay out, and does not count.
    FalseSharing,
    /// A finding loses more than this many cycles to contention of any kind.
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

/// One finding that breaks a gate.
#[derive(Debug, Clone, PartialEq)]
pub struct GateFailure<'a> {
    /// The gate.
    pub gate: Gate,
    /// The finding.
    pub finding: &'a Finding,
    /// Cycles lost by it: those that the gate is about.
    pub lost_cycles: u64,
    /// The same as a part of all threads' time, 0 to 1.
    pub run_share: f64,
}

impl fmt::Display for GateFailure<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let finding = self.finding;
        let lines = match (finding.line_count, finding.address) {
            (0, _) | (_, None) => String::new(),
            (1, Some(address)) => format!(" (line {address:#x})"),
            (count, Some(address)) => format!(" ({count} lines, the first at {address:#x})"),
        };
        write!(
            f,
            "{}: {}{lines} lost {} cycles to {}, {:.1}% of the run: {}",
            self.gate,
            finding.name,
            self.lost_cycles,
            match self.gate {
                Gate::FalseSharing => "false sharing",
                Gate::Cycles(_) => "contention",
            },
            self.run_share * 100.0,
            finding.kind.id()
        )
    }
}

/// Every (gate, finding) that fails, in the order of `gates` and then of cost. All findings are looked at, not only
/// those that the report shows, but those with names that `suppressed` has. Empty: all gates hold.
pub fn failures<'a>(
    report: &'a Report,
    gates: &[Gate],
    suppressed: &[Pattern],
) -> Vec<GateFailure<'a>> {
    let is_looked_at =
        |finding: &&Finding| !suppressed.iter().any(|name| name.matches(&finding.name));
    let mut failures = Vec::new();
    for gate in gates {
        let findings = report.findings.iter().filter(is_looked_at);
        let failing = findings.map(|finding| {
            let lost_cycles = match gate {
                Gate::FalseSharing => finding.false_sharing_cycles,
                Gate::Cycles(_) => finding.lost_cycles,
            };
            GateFailure {
                gate: *gate,
                finding,
                lost_cycles,
                run_share: share(lost_cycles, report.totals.thread_cycles),
            }
        });
        let failing: Vec<GateFailure<'_>> = failing.filter(|one| one.breaks(report)).collect();
        if *gate != Gate::FalseSharing || is_worth_it(report, &failing) {
            failures.extend(failing);
        }
    }
    failures
}

/// Returns true if the false sharing of findings is worth a change. Samples and a recording that was cut short do
/// not say how long the threads ran.
fn is_worth_it(report: &Report, failing: &[GateFailure<'_>]) -> bool {
    let shares = failing.iter().map(|one| one.run_share);
    report.totals.thread_cycles == 0 || shares.sum::<f64>() >= WORTH_SHARE_MIN
}

impl GateFailure<'_> {
    fn breaks(&self, report: &Report) -> bool {
        match self.gate {
            Gate::FalseSharing => {
                self.finding.has_false_sharing
                    && !self.finding.is_of_runtime
                    && (report.totals.thread_cycles == 0 || self.run_share >= RUN_SHARE_MIN)
            }
            Gate::Cycles(cycles_max) => self.lost_cycles > cycles_max,
        }
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
