//! Totals by name, what filters leave, and rows that are too small to be shown one by one.

use hitm_base::grouped;

use super::style::Style;
use super::table::{FieldTable, Shown, Shows, gives_way, stays};
use super::{TextOptions, Writer};
use crate::by::{By, SortKey, TotalKind, TotalRow, TotalsBy};
use crate::fields::{Field, Value, filtered, line, row, total_row};
use crate::model::{LineReport, Report, RowReport};

/// Columns of a table of totals.
const TOTAL_COLUMNS: &[Shows<TotalRow>] = &[
    stays(total_row::lost_cycles),
    stays(total_row::lost_share),
    gives_way(2, total_row::run_share),
    gives_way(4, total_row::remote_hitm_count),
    gives_way(3, total_row::local_hitm_count),
    gives_way(5, total_row::access_count),
    gives_way(1, total_row::line_count),
    stays(total_row::name),
];
/// The table of totals, without rows.
pub(crate) fn total_table(is_sampled: bool) -> FieldTable<TotalRow> {
    let columns = TOTAL_COLUMNS.iter();
    FieldTable::new(columns.filter(|one| one.field.is_of(is_sampled)))
}

/// The least share that a row of text needs to be shown: thousandths of a per cent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PercentLimit(pub u32);

impl PercentLimit {
    /// Half a per cent.
    pub const DEFAULT: PercentLimit = PercentLimit(500);

    /// Shows every row.
    pub const NONE: PercentLimit = PercentLimit(0);

    /// Returns true if a share is large enough.
    pub(crate) fn holds(self, share: f64) -> bool {
        share * 100_000.0 >= f64::from(self.0)
    }

    pub(crate) fn text(self) -> String {
        format!("{}%", f64::from(self.0) / 1000.0)
    }
}

impl Writer {
    pub(super) fn filtered(&mut self, report: &Report) {
        let Some(filtered) = &report.filtered else {
            return;
        };
        let figure = |field: Field<_>| field.text(filtered);
        let what = filtered.filters.join(" and ");
        let lines = match filtered.line_count {
            1 => "1 line".to_owned(),
            _ => format!("{} lines", figure(filtered::line_count)),
        };
        let mut text = format!(
            "{what}: {} accesses to {lines}",
            figure(filtered::access_count)
        );
        if report.run.sampled.is_none() {
            text += &format!(
                " with {} of the lost cycles, {}",
                figure(filtered::lost_cycles),
                figure(filtered::lost_share)
            );
        }
        text += "; lines with such accesses are shown whole";
        if filtered.unfiltered_lost_cycles > 0 {
            text += &format!(
                ". Not looked at: {} cycles lost on lines that changed hands too rarely",
                figure(filtered::unfiltered_lost_cycles)
            );
        }
        self.paragraph(Style::Bold, "filter", &text);
    }

    pub(super) fn totals_by(&mut self, report: &Report, totals: &TotalsBy, options: &TextOptions) {
        let is_sampled = report.run.sampled.is_some();
        let what = order_text(report);
        let title = match totals.by {
            By::Source => "source line",
            By::Children => "function with all that it calls",
            by => by.id(),
        };
        self.title(&format!("By {title}, sorted by {what}"));
        let mut table = total_table(is_sampled);
        let (shown, folded) = split(totals, report.totals_max, options.percent_limit);
        shown.iter().for_each(|row| table.push(row));
        // Functions with all that they call have accesses in common, and no sum.
        let folded_row = fold(&folded, options.percent_limit);
        if let Some(row) = folded_row.filter(|_| totals.by != By::Children) {
            table.push(&row);
        }
        let rest = totals.rows.iter().filter(|row| row.kind == TotalKind::Rest);
        rest.for_each(|row| table.push(row));
        if totals.rows.is_empty() {
            self.push(Style::Plain, "  No access is left.");
        } else {
            self.table(&table.table);
        }
        if totals.by == By::Children && !folded.is_empty() {
            let more = grouped(folded.len() as u64);
            self.push(Style::Plain, &format!("  {more} more functions"));
        }
    }
}

/// The rows to show one by one, at most `rows_max`, and the others. The rest of the lines is neither.
fn split(
    totals: &TotalsBy,
    rows_max: usize,
    limit: PercentLimit,
) -> (Vec<&TotalRow>, Vec<&TotalRow>) {
    let rows = totals.rows.iter();
    let rows = rows.filter(|row| row.kind != TotalKind::Rest);
    let (mut shown, mut folded): (Vec<_>, Vec<_>) =
        rows.partition(|row| limit.holds(row.lost_share));
    if shown.len() > rows_max {
        folded.extend(shown.split_off(rows_max));
    }
    // One row takes no less room than what would stand for it.
    if folded.len() == 1 {
        shown.append(&mut folded);
    }
    (shown, folded)
}

/// One row for several; none for none.
fn fold(rows: &[&TotalRow], limit: PercentLimit) -> Option<TotalRow> {
    let (first, others) = rows.split_first()?;
    let mut sum = (*first).clone();
    for row in others {
        sum.lost_cycles = sum.lost_cycles.saturating_add(row.lost_cycles);
        sum.lost_share += row.lost_share;
        sum.run_share += row.run_share;
        sum.remote_hitm_count += row.remote_hitm_count;
        sum.local_hitm_count += row.local_hitm_count;
        sum.access_count += row.access_count;
        sum.line_count = None;
    }
    let are_all_below = rows.iter().all(|row| !limit.holds(row.lost_share));
    sum.name = match are_all_below {
        true => below(rows.len(), limit),
        false => format!("({} more)", grouped(rows.len() as u64)),
    };
    Some(sum)
}

/// Stands for rows that are folded into one.
fn below(count: usize, limit: PercentLimit) -> String {
    format!("({} more below {})", grouped(count as u64), limit.text())
}

/// The order of a report's tables in words.
pub(super) fn order_text(report: &Report) -> &'static str {
    match (&report.run.sampled, report.sort) {
        (Some(_), SortKey::Lost) if report.watched.is_some() => "CPU time that stands at them",
        (Some(_), SortKey::Lost) => "sampled latency of contended loads",
        (_, sort) => sort.text(),
    }
}

impl PercentLimit {
    /// The lines to show one by one, and the others. Where nothing is lost, nothing is small.
    pub(super) fn split_lines(self, report: &Report) -> (Vec<&LineReport>, Vec<&LineReport>) {
        let lines = report.lines.iter();
        lines.partition(|line| report.totals.lost_cycles == 0 || self.holds(line.lost_share))
    }

    /// Returns true if a row of a line is to be shown by itself. One that is small in cycles may be the one whose
    /// stores take the line from everybody: a small row is small in every column.
    pub(super) fn holds_row(self, row: &RowReport) -> bool {
        let shares = [
            row.lost_share,
            row.remote_hitm_share,
            row.local_hitm_share,
            row.store_hit_share,
            row.store_miss_share,
        ];
        shares.into_iter().any(|share| self.holds(share))
    }
}

/// Adds one row for several lines.
pub(super) fn push_lines(
    table: &mut FieldTable<LineReport>,
    lines: &[&LineReport],
    limit: PercentLimit,
) {
    if lines.is_empty() {
        return;
    }
    let whole = |of: fn(&LineReport) -> u64| Value::Whole(lines.iter().map(|line| of(line)).sum());
    let share = |of: fn(&LineReport) -> f64| Value::Number(lines.iter().map(|line| of(line)).sum());
    let name = Value::Text(below(lines.len(), limit));
    table.push_folded(&[
        Shown::new(line::name, name),
        Shown::new(line::lost_cycles, whole(|line| line.lost_cycles)),
        Shown::new(line::lost_share, share(|line| line.lost_share)),
        Shown::new(line::run_share, share(|line| line.run_share)),
        Shown::new(
            line::remote_hitm_count,
            whole(|line| line.counts.remote_hitm()),
        ),
        Shown::new(
            line::local_hitm_count,
            whole(|line| line.counts.local_hitm()),
        ),
        Shown::new(line::access_count, whole(|line| line.counts.total())),
    ]);
}

/// Adds one row for several rows of a line.
pub(super) fn push_rows(
    table: &mut FieldTable<RowReport>,
    rows: &[&RowReport],
    limit: PercentLimit,
) {
    if rows.is_empty() {
        return;
    }
    let share = |of: fn(&RowReport) -> f64| Value::Number(rows.iter().map(|row| of(row)).sum());
    let accesses = rows.iter().map(|row| row.access_count).sum();
    let name = Value::Text(below(rows.len(), limit));
    table.push_folded(&[
        Shown::new(row::member, name),
        Shown::new(row::remote_hitm_share, share(|row| row.remote_hitm_share)),
        Shown::new(row::local_hitm_share, share(|row| row.local_hitm_share)),
        Shown::new(row::store_hit_share, share(|row| row.store_hit_share)),
        Shown::new(row::store_miss_share, share(|row| row.store_miss_share)),
        Shown::new(row::lost_share, share(|row| row.lost_share)),
        Shown::new(row::access_count, Value::Whole(accesses)),
    ]);
}
