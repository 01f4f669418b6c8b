//! The first screen: what is lost, the dearest findings, and the first of them with its picture, reason and remedy.

use hitm_base::grouped;
use hitm_fields::of_run;

use super::style::Style;
use super::table::{FieldTable, Shows, gives_way, pairs, stays, wrap};
use super::{TextOptions, Writer};
use crate::fields::{Field, finding, run};
use crate::model::{Finding, Report};
use crate::summary::{SummaryLine, WHERE};

/// Findings of the first screen.
const FIRST_MAX: usize = 3;

/// Figures of a finding.
const FINDING: &[Field<Finding>] = &[
    finding::lost_cycles,
    finding::waited_cycles,
    finding::run_share,
    finding::line_count,
    finding::handed_line_count,
    finding::thread_count,
];

/// Columns of findings.
const COLUMNS: &[Shows<Finding>] = &[
    stays(finding::number),
    stays(finding::name),
    stays(finding::kind_brief),
    stays(finding::run_share),
    gives_way(2, finding::line_count),
    gives_way(1, finding::thread_count),
    stays(finding::written_in),
];

/// The same of samples, and where no time of threads is known.
const SAMPLED_COLUMNS: &[Shows<Finding>] = &[
    stays(finding::number),
    stays(finding::name),
    stays(finding::kind_brief),
    stays(finding::lost_share.titled("lost")),
    gives_way(2, finding::line_count),
    gives_way(1, finding::thread_count),
    stays(finding::written_in),
];

/// The same of a running program.
const WATCHED_COLUMNS: &[Shows<Finding>] = &[
    stays(finding::number),
    stays(finding::name),
    stays(finding::kind_brief),
    stays(finding::most_share),
    gives_way(3, finding::most_error),
    stays(finding::least_share),
    gives_way(2, finding::line_count),
    gives_way(1, finding::thread_count),
    stays(finding::written_in),
];

/// Columns of the table of findings.
pub(crate) fn columns(report: &Report) -> &'static [Shows<Finding>] {
    let has_time = report.totals.thread_cycles > 0 && !report.is_sampled();
    match (&report.watched, has_time) {
        (Some(_), _) => WATCHED_COLUMNS,
        (None, true) => COLUMNS,
        (None, false) => SAMPLED_COLUMNS,
    }
}

/// The table of findings, without rows.
fn table(report: &Report) -> FieldTable<Finding> {
    FieldTable::new(columns(report))
}

impl Writer {
    /// The screen of a person in a hurry. Without sentences it has the table alone.
    pub(super) fn first_screen(&mut self, report: &Report, summary: &[SummaryLine]) {
        let has_findings = report.first_finding().is_some();
        let (lost, others) = summary.split_at(summary.len().min(1));
        self.summary(lost);
        if has_findings {
            self.out.blank();
            self.dearest(report);
            self.out.blank();
            self.picture(&report.findings[0]);
        }
        let others = others.iter();
        let others = others.filter(|line| !has_findings || line.label != WHERE);
        let others: Vec<SummaryLine> = others.cloned().collect();
        self.summary(&others);
    }

    fn dearest(&mut self, report: &Report) {
        let findings = &report.findings;
        let shown = findings.len().min(FIRST_MAX);
        let mut table = table(report);
        findings[..shown].iter().for_each(|one| table.push(one));
        self.table(&table.table);
        let others = &findings[shown..];
        if !others.is_empty() {
            let cost: f64 = others.iter().map(|one| one.run_share).sum();
            let more = match others.len() {
                1 => "1 more finding".to_owned(),
                count => format!("{} more findings", grouped(count as u64)),
            };
            let text = match report.is_sampled() {
                true => more,
                false => format!("{more}, {:.1}%", cost * 100.0),
            };
            self.sentence(Style::Dim, &text);
        }
    }

    /// The users of the first finding's line, in one line of text.
    fn picture(&mut self, finding: &Finding) {
        if finding.picture.is_empty() {
            return;
        }
        let parts = &finding.picture;
        let width = parts.iter().map(String::len).max().unwrap_or(1);
        let parts: Vec<String> = parts.iter().map(|part| format!("{part:>width$}")).collect();
        let mut legend = vec!["writer of each 8 bytes"];
        if finding.picture.iter().any(|part| part == "**") {
            legend.push("** several");
        }
        if finding.picture.iter().any(|part| part == "r") {
            legend.push("r only read");
        }
        let text = format!("|{}|  {}", parts.join(" "), legend.join(", "));
        self.labelled(Style::Plain, "Line", &text);
    }

    /// The five sentences of a summary, one below the other.
    fn summary(&mut self, summary: &[SummaryLine]) {
        for line in summary {
            let style = match line.is_command {
                true => Style::Bold,
                false => Style::Plain,
            };
            self.labelled(style, line.label, &line.text);
        }
    }

    /// A sentence with a word before it.
    fn labelled(&mut self, style: Style, label: &str, text: &str) {
        const INDENT: usize = 9;
        for (index, text) in wrap(text, self.width - INDENT).iter().enumerate() {
            let label = if index == 0 { label } else { "" };
            self.push(style, &format!("  {label:<5}  {text}"));
        }
    }

    /// All findings, where the first screen has not all of them.
    pub(super) fn findings(&mut self, report: &Report, options: &TextOptions) {
        let limit = options.percent_limit;
        let large = report.findings.iter();
        let large = large.take(report.totals_max);
        let large: Vec<&Finding> = large
            .filter(|one| limit.holds(one.lost_share.max(one.run_share)))
            .collect();
        if report.findings.len() <= FIRST_MAX || large.is_empty() {
            return;
        }
        self.title("Findings: what one change cures, by cost");
        let mut table = table(report);
        large.iter().for_each(|one| table.push(one));
        self.table(&table.table);
        let left = report.findings.len() - large.len();
        if left > 0 {
            let text = format!("  {} more findings.", grouped(left as u64));
            self.sentence(Style::Plain, &text);
        }
    }

    /// The line below the title: the machine and where the threads are.
    pub(super) fn setting(&mut self, report: &Report) {
        if report.is_sampled() {
            return;
        }
        let figure = |field: Field<_>| field.text(&report.run);
        let who = self.who.counted(report.threads.len() as u64);
        let text = format!(
            "as on {} ({} CPUs, {} nodes), {who} placed {}",
            figure(run::machine),
            figure(run::cpu_count),
            figure(run::node_count),
            super::shorten(&figure(run::placement), self.width / 3),
        );
        self.sentence(Style::Plain, &text);
    }
}

/// The table of all findings.
pub(crate) fn all(report: &Report) -> FieldTable<Finding> {
    let mut table = table(report);
    report.findings.iter().for_each(|one| table.push(one));
    table
}

/// Cost of a finding in figures.
pub(crate) fn cost(finding: &Finding, is_sampled: bool) -> String {
    let figures: Vec<Field<_>> = of_run(FINDING, is_sampled).copied().collect();
    pairs(finding, &figures)
}
