//! Results of simulations as text.

use std::collections::BTreeSet;

use hitm::sim::{
    C2cLine, Check, Comparison, Crossing, Outcome, Peak, SimReport, Summary, VariantReport,
};
use hitm_base::grouped;

use super::fields::{RowView, comparison, line, metric, outcome, peak, row, scenario};
use crate::Printout;
use crate::fields::Field;
use crate::text::style::Style;
use crate::text::table::{Align, Column, FieldTable, Shows, Table, gives_way, stays, wrap};
use crate::text::{TextOptions, Writer};

/// Options for the text of a simulation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SimTextOptions {
    /// Width and colours.
    pub text: TextOptions,
    /// Lines of each variant to show with their rows.
    pub lines_max: usize,
    /// Place of the workloads' own output.
    pub output: Output,
    /// True if lines are also shown as `perf c2c` would have sampled them.
    pub sampled: bool,
}

/// Place of what workloads print themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// It is left out.
    Hidden,
    /// Below the figures.
    Below,
    /// Above all else: what the user of the workload's own file looks for.
    First,
}

/// Functions of a variant that are shown.
const FUNCTIONS_MAX: usize = 12;
/// Figures that the table of variants has beside those of workloads.
const COMMON_COLUMNS: [&str; 4] = [
    "sched.stale_overloads",
    "time.kernel_of_busy",
    "root_domain.line_1.load_cycles_mean",
    "root_domain.line_3.load_cycles_mean",
];

/// Figures that belong to what histograms show: walks with interrupts off.
const IRQS_OFF: [&str; 2] = ["time.irqs_off_us_max", "time.irqs_off_us_max_mean"];

/// Figures of workloads that tell variants little apart.
pub(super) const DETAILS: [&str; 20] = [
    ".wakeups",
    ".late_us_min",
    ".requests_per_second",
    ".unfinished",
    ".run_us_mean",
    ".wait_thread_us_mean",
    ".wait_timer_us_mean",
    ".wait_interrupt_us_mean",
    ".wait_cpu_us_mean",
    ".latency_us_p90",
    ".latency_us_max",
    ".nr_periods",
    ".nr_throttled",
    ".nr_bursts",
    ".burst_usec",
    ".usage_usec",
    ".wait_quota_ms",
    ".wait_timer_ms",
    ".wait_interrupt_ms",
    ".wait_cpu_ms",
];

const LINE_COLUMNS: &[Shows<C2cLine>] = &[
    stays(line::object),
    stays(line::offset_bytes),
    stays(line::remote_hitm_count),
    gives_way(4, line::local_hitm_count),
    gives_way(3, line::node_hitm_count),
    stays(line::load_count),
    stays(line::store_count),
    stays(line::load_cycles_mean),
    gives_way(1, line::load_cycles_row_min),
    gives_way(2, line::load_cycles_row_max),
];
/// Quantities of CPUs: their mean, and the CPU with most.
const PEAK_COLUMNS: &[Field<Peak>] = &[peak::id, peak::mean, peak::max, peak::cpu, peak::unit];
const ROW_COLUMNS: &[Shows<RowView>] = &[
    stays(row::offset_bytes),
    stays(row::member),
    stays(row::function),
    stays(row::remote_hitm_share),
    gives_way(4, row::local_hitm_share),
    gives_way(2, row::node_hitm_share),
    gives_way(3, row::store_share),
    stays(row::load_cycles_mean),
    gives_way(1, row::load_cycles_max),
    stays(row::load_count),
    stays(row::store_count),
];

/// Columns of published figures beside simulated ones.
pub(super) const COMPARISON_COLUMNS: &[Field<Comparison>] = &[
    comparison::id,
    comparison::variant,
    comparison::published_min,
    comparison::simulated,
    comparison::ratio,
    comparison::unit,
];

/// One scenario, every variant in detail.
pub fn simulation_text(report: &SimReport, options: &SimTextOptions) -> Printout {
    let mut writer = Writer::new(&options.text);
    writer.sim_header("hitm sim", report);
    writer.variants(report);
    for variant in &report.variants {
        writer.variant(variant, options);
    }
    writer.comparisons(&report.comparisons);
    writer.crossing(report.crossing.as_ref());
    writer.out
}

/// Several scenarios: their variants in a table, and published figures beside simulated ones.
pub fn reproduction_text(reports: &[SimReport], options: &TextOptions) -> Printout {
    let mut writer = Writer::new(options);
    for (index, report) in reports.iter().enumerate() {
        if index > 0 {
            writer.out.blank();
        }
        writer.sim_header("hitm reproduce", report);
        writer.variants(report);
        writer.checks(report);
        writer.histograms(report);
        writer.placements(report);
        writer.comparisons(&report.comparisons);
        writer.crossing(report.crossing.as_ref());
    }
    writer.out
}

impl Writer {
    fn sim_header(&mut self, command: &str, report: &SimReport) {
        let field = |field: Field<_>| field.text(report);
        self.push(
            Style::Bold,
            &format!("{command}: {}", field(scenario::scenario)),
        );
        let run = format!(
            "machine {}, {} CPUs; seeds {}; model {}, scenario {}",
            field(scenario::machine),
            field(scenario::cpu_count),
            field(scenario::seeds),
            field(scenario::model_version),
            field(scenario::scenario_hash),
        );
        for text in [
            field(scenario::description),
            format!("source: {}", field(scenario::source)),
            run,
        ] {
            for line in wrap(&text, self.width - 2) {
                self.push(Style::Plain, &format!("  {line}"));
            }
        }
    }

    fn histograms(&mut self, report: &SimReport) {
        for (label, text) in super::markdown::histograms(report) {
            self.out.blank();
            self.push(Style::Plain, &format!("  {label}, ns:"));
            for line in super::markdown::without_empty(text) {
                self.push(Style::Plain, &format!("  {line}"));
            }
        }
    }

    fn placements(&mut self, report: &SimReport) {
        for (label, lines) in super::markdown::placements(report) {
            self.out.blank();
            self.push(Style::Plain, &format!("  Placement under {label}:"));
            for line in lines {
                self.push(Style::Plain, &format!("  {line}"));
            }
        }
    }

    /// One row for each variant.
    fn variants(&mut self, report: &SimReport) {
        if report.variants.len() < 2 {
            return;
        }
        let ids = telling(report, &COMMON_COLUMNS).into_iter();
        let ids: Vec<&str> = ids.map(|summary| summary.id.as_str()).collect();
        self.title("Variants");
        let mut columns = vec![Column::new("Variant", Align::Left)];
        let titles: Vec<String> = ids.iter().map(|id| column_title(id)).collect();
        for (id, title) in ids.iter().zip(&titles) {
            let is_alone = titles.iter().filter(|other| *other == title).count() == 1;
            let title = if is_alone { title } else { *id };
            columns.push(Column::new(title, Align::Right));
        }
        let mut table = Table::new(columns);
        for variant in &report.variants {
            let mut cells = vec![variant.label.clone()];
            let mean = |id: &&str| {
                let one = variant.get(id);
                one.map_or("-".to_owned(), |one| number(one.mean))
            };
            cells.extend(ids.iter().map(mean));
            table.push(cells);
        }
        self.table(&table);
    }

    fn variant(&mut self, variant: &VariantReport, options: &SimTextOptions) {
        self.title(&variant.label);
        let outcome = variant.outcomes.first();
        if let Some(outcome) = outcome.filter(|_| options.output == Output::First) {
            self.workload_output(outcome);
            self.out.blank();
        }
        self.metrics(&variant.summaries);
        let Some(outcome) = outcome else {
            return;
        };
        self.run(outcome);
        if options.output == Output::Below {
            self.workload_output(outcome);
        }
        self.functions(outcome);
        let lines = &outcome.lines[..outcome.lines.len().min(options.lines_max)];
        self.lines(lines);
        if options.sampled {
            let sampled: Vec<C2cLine> = lines.iter().map(C2cLine::as_sampled).collect();
            self.title("The same lines as perf c2c would have sampled them");
            self.lines(&sampled);
        }
    }

    fn metrics(&mut self, summaries: &[Summary]) {
        let has_spread = summaries.iter().any(|summary| summary.run_count > 1);
        let mut columns = vec![
            Column::of_field(&metric::id),
            Column::of_field(&metric::mean),
        ];
        if has_spread {
            columns.extend(
                [metric::confidence, metric::min, metric::max]
                    .iter()
                    .map(Column::of_field),
            );
        }
        columns.push(Column::of_field(&metric::unit));
        let mut table = Table::new(columns);
        for summary in summaries {
            let mut cells = vec![summary.id.clone(), number(summary.mean)];
            if has_spread {
                cells.push(summary.confidence.map_or("-".to_owned(), number));
                cells.extend([number(summary.min), number(summary.max)]);
            }
            cells.push(summary.unit.to_owned());
            table.push(cells);
        }
        self.table(&table);
    }

    fn run(&mut self, outcome: &Outcome) {
        let field = |field: Field<_>| field.text(outcome);
        let text = format!(
            "  seed {}: {} ns, {} accesses, {} events, event hash {}, timing hash {}",
            field(outcome::seed),
            field(outcome::virtual_ns),
            field(outcome::access_count),
            field(outcome::event_count),
            field(outcome::event_hash),
            field(outcome::timing_hash),
        );
        self.push(Style::Dim, &text);
        let text = format!(
            "  wake-up latency, ns: p50 {}, p90 {}, p99 {}, p99.9 {}, max {}",
            field(outcome::wakeup_ns_p50),
            field(outcome::wakeup_ns_p90),
            field(outcome::wakeup_ns_p99),
            field(outcome::wakeup_ns_p999),
            field(outcome::wakeup_ns_max),
        );
        self.push(Style::Plain, &text);
        self.peaks(&outcome.peaks);
    }

    fn peaks(&mut self, peaks: &[Peak]) {
        let mut table = Table::new(PEAK_COLUMNS.iter().map(Column::of_field).collect());
        for peak in peaks {
            table.push(vec![
                peak.id.to_owned(),
                number(peak.mean),
                number(peak.max),
                peak::cpu.text(peak),
                peak.unit.to_owned(),
            ]);
        }
        self.out.blank();
        self.table(&table);
    }

    fn workload_output(&mut self, outcome: &Outcome) {
        for workload in &outcome.workloads {
            let Some(text) = &workload.text else {
                continue;
            };
            self.out.blank();
            self.push(Style::Bold, &format!("  {}:", workload.name));
            self.out.block("", text);
        }
    }

    fn functions(&mut self, outcome: &Outcome) {
        let all: u64 = outcome.functions.iter().map(|(_, cycles)| cycles.0).sum();
        let mut table = Table::new(vec![
            Column::new("Kernel%", Align::Right),
            Column::new("Function", Align::Left),
        ]);
        for (name, cycles) in outcome.functions.iter().take(FUNCTIONS_MAX) {
            let share = cycles.0 as f64 * 100.0 / all as f64;
            table.push(vec![format!("{share:.1}"), (*name).to_owned()]);
        }
        self.out.blank();
        self.table(&table);
    }

    fn lines(&mut self, lines: &[C2cLine]) {
        if lines.is_empty() {
            return;
        }
        let mut table = FieldTable::new(LINE_COLUMNS);
        lines.iter().for_each(|line| table.push(line));
        self.out.blank();
        self.table(&table.table);
        for line in lines {
            let offset = line::offset_bytes.text(line);
            self.out.blank();
            self.push(Style::Bold, &format!("  {} + {offset}", line.object));
            let mut table = FieldTable::new(ROW_COLUMNS);
            RowView::of_line(line)
                .iter()
                .for_each(|row| table.push(row));
            self.table(&table.table);
        }
    }

    /// Writes the number of runs that pass the checks of their own workloads, and each check's
    /// first failure.
    fn checks(&mut self, report: &SimReport) {
        let checks = report.checks();
        if checks.is_empty() {
            return;
        }
        self.title("Checks of the workloads themselves");
        for check in checks {
            let style = match check.failed_seeds.is_empty() {
                true => Style::Plain,
                false => Style::Bold,
            };
            self.push(style, &format!("  {}", check_line(&check)));
            if let Some(failure) = check.failure {
                self.out.block("", failure);
            }
        }
    }

    fn comparisons(&mut self, comparisons: &[Comparison]) {
        if comparisons.is_empty() {
            return;
        }
        self.title("Published beside simulated");
        self.comparison_table(comparisons);
    }

    /// The figures at the load at which one of them is as published.
    fn crossing(&mut self, crossing: Option<&Crossing>) {
        let Some(crossing) = crossing else {
            return;
        };
        let met = format!(
            "{} of {} at {} {}",
            crossing.id,
            crossing.layout,
            number(crossing.published),
            crossing.unit
        );
        let Some(load) = crossing.load else {
            self.title(&format!("No load that was run has {met}"));
            return;
        };
        let load = number(load);
        self.title(&format!(
            "At {load} wake-ups a second and CPU asked for, {met}"
        ));
        self.comparison_table(&crossing.comparisons);
        if crossing.ranking.len() < 2 {
            return;
        }
        self.title(&format!("Layouts there, by {}", crossing.id));
        let mut table = Table::new(vec![
            Column::new("Layout", Align::Left),
            Column::new(&crossing.id, Align::Right),
            Column::new("Unit", Align::Left),
        ]);
        for (layout, value) in &crossing.ranking {
            table.push(vec![layout.clone(), number(*value), crossing.unit.clone()]);
        }
        self.table(&table);
    }

    fn comparison_table(&mut self, comparisons: &[Comparison]) {
        let heads = COMPARISON_COLUMNS.iter().map(Column::of_field);
        let mut table = Table::new(heads.collect());
        for one in comparisons {
            table.push(comparison_cells(one).into());
        }
        self.table(&table);
    }
}

/// The figures of variants, each of the first one that has it.
pub(crate) fn figures(variants: &[VariantReport]) -> Vec<&Summary> {
    let mut figures: Vec<&Summary> = Vec::new();
    for summary in variants.iter().flat_map(|variant| &variant.summaries) {
        if figures.iter().all(|known| known.id != summary.id) {
            figures.push(summary);
        }
    }
    figures
}

/// The figures that tell variants apart: those of workloads, those of histograms, and some `common` ones.
pub(super) fn telling<'r>(report: &'r SimReport, common: &[&str]) -> Vec<&'r Summary> {
    let outcomes = report.variants.iter().flat_map(|one| &one.outcomes);
    let workloads = outcomes.flat_map(|outcome| &outcome.workloads);
    let workloads: BTreeSet<&str> = workloads.map(|one| one.name.as_str()).collect();
    let has_histograms = !super::markdown::histograms(report).is_empty();
    let is_shown = |id: &str| {
        let owner = id.split('.').next().unwrap_or_default();
        let of_workload = workloads.contains(owner) && !DETAILS.iter().any(|end| id.ends_with(end));
        let of_irqs = has_histograms && IRQS_OFF.contains(&id);
        of_workload || of_irqs || common.contains(&id)
    };
    let mut figures = figures(&report.variants);
    figures.retain(|summary| is_shown(&summary.id));
    figures
}

/// A published figure beside the simulated one, by the columns of [`COMPARISON_COLUMNS`].
pub(super) fn comparison_cells(one: &Comparison) -> [String; 6] {
    let simulated = one.simulated.map(|mean| with_spread(mean, one.spread));
    let ratio = one.ratio.map(|ratio| format!("{ratio:.2}"));
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    [
        one.id.clone(),
        one.label.clone(),
        published(one.published.0, one.published.1),
        or_dash(simulated),
        or_dash(ratio),
        one.unit.clone(),
    ]
}

/// A mean, and behind it the least and the largest of several seeds where they differ.
pub(super) fn with_spread(mean: f64, spread: Option<(f64, f64)>) -> String {
    match spread.map(|(least, most)| (number(least), number(most))) {
        Some((least, most)) if least != most => format!("{} ({least} to {most})", number(mean)),
        _ => number(mean),
    }
}

/// Returns the number of runs that pass a check, and the seed of the failure that is shown, as
/// text.
pub(super) fn check_line(check: &Check<'_>) -> String {
    let what = format!("{}, {}", check.variant, check.workload);
    match (check.failed_seeds.first(), check.run_count) {
        (None, 1) => format!("{what}: passes with the one seed"),
        (None, all) => format!("{what}: passes with {all} seeds"),
        (Some(seed), 1) => format!("{what}: fails with the one seed, {seed}:"),
        (Some(seed), all) => {
            let failed = check.failed_seeds.len();
            format!("{what}: fails with {failed} of {all} seeds; seed {seed}:")
        }
    }
}

/// A published value, or the ends of its range.
pub(super) fn published(least: f64, most: f64) -> String {
    match least == most {
        true => number(least),
        false => format!("{}-{}", number(least), number(most)),
    }
}

/// The last word of an id, and before it the line's when it is of one.
fn column_title(id: &str) -> String {
    let parts: Vec<&str> = id.split('.').collect();
    match parts[..] {
        ["root_domain", line, _] => format!("{line} cycles/load"),
        ["time", name] if !name.contains("_us_") => format!("{name} %"),
        _ => parts.last().copied().unwrap_or(id).to_owned(),
    }
}

/// A figure with about four digits.
pub(super) fn number(value: f64) -> String {
    let size = value.abs();
    if size >= 1000.0 {
        let sign = if value < 0.0 { "-" } else { "" };
        return format!("{sign}{}", grouped(size.round() as u64));
    }
    if value == value.trunc() {
        return format!("{value:.0}");
    }
    if size >= 100.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.2}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_time_are_percentages_and_spans_are_not() {
        assert_eq!(column_title("time.kernel_of_busy"), "kernel_of_busy %");
        assert_eq!(column_title("time.irqs_off_us_max"), "irqs_off_us_max");
    }

    #[test]
    fn a_spread_stands_behind_the_mean_where_there_is_one() {
        assert_eq!(with_spread(2.0, Some((1.5, 2.5))), "2 (1.50 to 2.50)");
        assert_eq!(with_spread(2.0, Some((2.0, 2.0))), "2");
        assert_eq!(with_spread(2.0, None), "2");
    }
}
