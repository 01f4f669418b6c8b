//! A sweep as text.

use hitm_base::grouped;

use super::{SweepEffect, SweepReport};
use crate::Printout;
use crate::fields::{Field, Unit, Value, sweep_effect, sweep_failure, sweep_key, sweep_metric};
use crate::text::style::Style;
use crate::text::table::{Column, Table};
use crate::text::{TextOptions, Writer};

/// Keys shown for each metric.
const KEYS_MAX: usize = 4;
/// Messages of failures that are shown.
const FAILURES_MAX: usize = 10;

/// The whole report.
pub fn render(report: &SweepReport, options: &TextOptions) -> Printout {
    let mut writer = Writer::new(options);
    let run = &report.run;
    writer.push(Style::Bold, &format!("hitm sweep: {}", run.file));
    let counts = format!(
        "{} runs at {} points, {} figures",
        grouped(run.run_count),
        grouped(run.point_count),
        grouped(run.row_count - run.failed_count)
    );
    writer.sentence(Style::Plain, &counts);
    writer.title("Keys");
    writer.sweep_table(sweep_key::ALL, report.keys.iter());
    writer.title("Metrics");
    writer.sweep_table(sweep_metric::ALL, report.metrics.iter());
    writer.title("Keys that explain a metric's spread");
    if report.effects.is_empty() {
        writer.sentence(
            Style::Plain,
            "No key explains 1 % of any metric's variance.",
        );
    } else {
        writer.sweep_table(sweep_effect::ALL, first_of_each(&report.effects));
    }
    if !report.failures.is_empty() {
        writer.title(&format!("{} failed", grouped(run.failed_count)));
        writer.sweep_table(
            sweep_failure::ALL,
            report.failures.iter().take(FAILURES_MAX),
        );
        if report.failures.len() > FAILURES_MAX {
            let left = report.failures.len() - FAILURES_MAX;
            writer.sentence(
                Style::Plain,
                &format!("{left} more messages are in the table."),
            );
        }
    }
    if run.left_out_count > 0 {
        let text = format!(
            "{} values beyond the first million are in no effect.",
            grouped(run.left_out_count)
        );
        writer.paragraph(Style::Warning, "note", &text);
    }
    writer.out
}

/// The first keys of each metric.
fn first_of_each(effects: &[SweepEffect]) -> impl Iterator<Item = &SweepEffect> {
    let mut seen = ("", 0);
    effects.iter().filter(move |effect| {
        seen = match seen.0 == effect.metric {
            true => (seen.0, seen.1 + 1),
            false => (effect.metric.as_str(), 1),
        };
        seen.1 <= KEYS_MAX
    })
}

impl Writer {
    /// A table of all fields.
    fn sweep_table<'t, T: 'static>(
        &mut self,
        fields: &'static [Field<T>],
        items: impl Iterator<Item = &'t T>,
    ) {
        let mut table = Table::new(fields.iter().map(Column::of_field).collect());
        for item in items {
            let cell = |field: &Field<T>| match (field.unit, (field.value)(item)) {
                (Unit::Decimal, Value::Number(number)) => figure(number),
                _ => field.text(item),
            };
            table.push(fields.iter().map(cell).collect());
        }
        self.table(&table);
    }
}

/// A figure with four significant digits, more where it is whole.
pub(crate) fn figure(number: f64) -> String {
    let size = number.abs();
    match size {
        0.0 => "0".to_owned(),
        s if !(1e-4..1e15).contains(&s) => format!("{number:.3e}"),
        s if s >= 1_000.0 => match number < 0.0 {
            true => format!("-{}", grouped(size.round() as u64)),
            false => grouped(size.round() as u64),
        },
        s => {
            let decimals = (3 - s.log10().floor() as i32).clamp(0, 7) as usize;
            format!("{number:.decimals$}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_four_digits() {
        let texts = [
            0.0,
            0.001_234_56,
            1.0,
            57.234,
            999.96,
            1_234_567.8,
            -1_500.4,
            1e-9,
        ];
        let texts = texts.map(figure);
        let expected = [
            "0",
            "0.001235",
            "1.000",
            "57.23",
            "1000.0",
            "1,234,568",
            "-1,500",
            "1.000e-9",
        ];
        assert_eq!(texts, expected);
    }
}
