//! Findings of a recording -> remedies, the dearest finding's first.

use std::path::Path;

use hitm::fix::{Advised, Advisor, FixError, Incurable, Remedy, Tree};
use hitm_recording::Recording;
use hitm_report::pictures::{Pictures, Structure};
use hitm_report::{Finding, LineReport, Report, ReportOptions};

use super::{advice_error, java, structures, values};

/// Findings below this part of all threads' time are no reason to change a program. Assumed; 0.5 to 5 % make sense.
const SHARE_MIN: f64 = 0.01;

/// Remedies by the findings of reports.
#[derive(Debug)]
pub(super) struct FromFindings {
    allows_abi: bool,
}

/// A finding with what is needed to look for its remedies.
pub(super) struct Case<'c> {
    pub(super) file: &'c Path,
    pub(super) recording: &'c Recording,
    pub(super) report: &'c Report,
    pub(super) finding: &'c Finding,
    pub(super) tree: &'c Tree,
    pub(super) allows_abi: bool,
}

impl Case<'_> {
    /// The finding's lines, the costliest first.
    pub(super) fn lines(&self) -> impl Iterator<Item = &LineReport> {
        let lines = self.report.lines.iter();
        lines.filter(|line| self.finding.lines.contains(&line.line))
    }

    /// Returns true if its objects are heap blocks.
    pub(super) fn is_on_heap(&self) -> bool {
        let mut rows = self.lines().flat_map(|line| {
            let start = line.line.first_byte();
            line.rows
                .iter()
                .map(move |row| start + u64::from(row.offset))
        });
        rows.any(|addr| self.recording.heap_block_at(addr).is_some())
    }
}

impl FromFindings {
    pub(super) const fn new(allows_abi: bool) -> FromFindings {
        FromFindings { allows_abi }
    }

    fn remedies(
        &self,
        case: &Case<'_>,
        structure: Option<&Structure>,
    ) -> anyhow::Result<Vec<Remedy>> {
        if let Some(remedy) = java::remedy(case) {
            return Ok(vec![remedy]);
        }
        let found = match structure {
            Some(structure) => structures::remedies(case, structure)?,
            None => Vec::new(),
        };
        Ok(match found.is_empty() {
            true => values::remedies(case),
            false => found,
        })
    }
}

impl Advisor for FromFindings {
    fn advise(&mut self, file: &Path, tree: &Tree) -> Result<Advised, FixError> {
        let failed = |error| advice_error("cannot read the recording", error);
        let recording = Recording::load_contended(file, &mut |_, _| {});
        let recording = recording.map_err(|error| failed(error.into()))?;
        let report = Report::of_recording(&recording, &ReportOptions::default());
        let structures = Pictures::structures(&recording.names(), &report);
        let mut advised = Advised::default();
        let worth = report.findings.iter().filter(|finding| finding.is_told());
        for finding in worth.filter(|finding| finding.run_share >= SHARE_MIN) {
            let case = Case {
                file,
                recording: &recording,
                report: &report,
                finding,
                tree,
                allows_abi: self.allows_abi,
            };
            let remedies = match finding.has_false_sharing {
                true => {
                    let has = |structure: &&Structure| {
                        case.lines()
                            .any(|line| structure.ranks.contains(&line.rank))
                    };
                    self.remedies(&case, structures.iter().find(has))
                        .map_err(|error| advice_error("cannot look for remedies", error))?
                }
                false => Vec::new(),
            };
            if remedies.is_empty() || !finding.kind.is_curable_by_layout() {
                advised.incurable.push(incurable(finding));
            }
            advised.remedies.extend(remedies);
        }
        Ok(advised)
    }
}

fn incurable(finding: &Finding) -> Incurable {
    Incurable {
        finding: finding.name.clone(),
        kind: finding.kind_brief.clone(),
        share: finding.run_share,
        advice: finding.fix.clone(),
    }
}
