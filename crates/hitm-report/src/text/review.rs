//! The answer of `hitm review` as text.

use std::collections::BTreeMap;

use hitm_advise::review::{Coverage, MachineCost, MemberReview, Memory, Review, TypeReview};
use hitm_base::grouped;
use hitm_layout::structs::{Change, MemberPlace};

use super::style::Style;
use super::table::{Align, Column, FieldTable, Shown, Shows, Table, gives_way, stays};
use super::{TextOptions, Writer};
use crate::Printout;
use crate::fields::{Value, review_cost, review_line, review_member};
use crate::review::{
    LAYOUTS, ReviewLine, growth_text, lines, rename_words, unmatched_words, words,
};

const COST_COLUMNS: &[Shows<MachineCost>] = &[
    stays(review_cost::machine),
    gives_way(2, review_cost::cpu_count),
    gives_way(1, review_cost::folded_cpu_count),
    stays(review_cost::cycles_before),
    stays(review_cost::cycles_after),
    stays(review_cost::cycles_change),
    stays(review_cost::confidence),
];
const MEMBER_COLUMNS: &[Shows<MemberReview>] = &[
    stays(review_member::member),
    stays(review_member::line_before),
    stays(review_member::line_after),
    gives_way(2, review_member::offset_before_bytes),
    stays(review_member::offset_after_bytes),
    gives_way(1, review_member::size_after_bytes),
    stays(review_member::access_count),
    stays(review_member::change),
];

/// Most lines of a layout and most members that are shown; the rest is counted.
const ROWS_MAX: usize = 24;
/// Most names in a sentence.
const NAMES_MAX: usize = 12;

/// The whole answer.
pub fn render(review: &Review, options: &TextOptions) -> Printout {
    let mut writer = Writer::new(options);
    writer.review_head(review);
    for one in &review.types {
        writer.review_type(one);
    }
    writer.out
}

impl Writer {
    fn review_head(&mut self, review: &Review) {
        let [before, after] = &review.builds;
        self.push(Style::Bold, &format!("hitm review: {before} -> {after}"));
        if let Some(profile) = &review.profile {
            self.paragraph(Style::Plain, "profile", profile);
        }
        let all = review.types.len() + review.left_out.len();
        let compared = grouped(review.compared_count);
        self.sentence(
            Style::Plain,
            &match all {
                0 => format!("Nothing differs: types of both builds: {compared}."),
                _ => format!(
                    "Types of both builds: {compared}; layouts that differ: {}.",
                    grouped(all as u64)
                ),
            },
        );
        for (only, build) in review.only_counts.iter().zip(&review.builds) {
            if *only > 0 {
                let only = grouped(*only);
                self.sentence(
                    Style::Plain,
                    &format!("Types that only {build} has: {only}."),
                );
            }
        }
        if !review.left_out.is_empty() {
            let names = some(&review.left_out);
            let text = format!("name them with --type: {names}");
            self.paragraph(Style::Warning, "left out", &text);
        }
    }

    fn review_type(&mut self, review: &TypeReview) {
        self.title(&review.name);
        self.paragraph(Style::Plain, "memory", &memory_text(&review.memory));
        match &review.unpriced {
            Some(why) => self.paragraph(Style::Warning, "no costs", why),
            None => self.review_costs(review),
        }
        for unmatched in &review.unmatched {
            self.paragraph(Style::Warning, "no place", &unmatched_words(unmatched));
        }
        self.review_members(review);
        self.out.blank();
        for rename in &review.renames {
            self.paragraph(Style::Plain, "renamed", &rename_words(rename));
        }
        if review.worse.is_empty() && review.unmatched.is_empty() {
            self.sentence(Style::Plain, "Nothing gets worse.");
        }
        for worse in &review.worse {
            self.paragraph(Style::Warning, "worse", &words(worse));
        }
        if let Some(coverage) = &review.coverage {
            self.review_coverage(coverage);
        }
    }

    fn review_costs(&mut self, review: &TypeReview) {
        let is_folded = review
            .costs
            .iter()
            .any(|cost| cost.folded_cpu_count.is_some());
        let columns = COST_COLUMNS.iter();
        let columns =
            columns.filter(|one| is_folded || !one.field.is(&review_cost::folded_cpu_count));
        let mut table = FieldTable::new(columns);
        for cost in &review.costs {
            let [before, after] = cost.cycles();
            // The head of the column has the per cent sign.
            let change = growth_text(before, after);
            let change = Value::Text(change.trim_end_matches('%').to_owned());
            let change = Shown::new(review_cost::cycles_change, change);
            let cells = table.cells_with(cost, &[change]);
            table.table.push(cells);
        }
        self.out.blank();
        self.table(&table.table);
        let lines = lines(review);
        for layout in LAYOUTS {
            let of_layout = lines.iter().filter(|line| line.layout == layout);
            self.review_lines(layout, &of_layout.collect::<Vec<_>>(), review);
        }
    }

    /// Cycles of each line of a layout, a column for each machine.
    fn review_lines(&mut self, layout: &str, lines: &[&ReviewLine], review: &TypeReview) {
        let cycles = review_line::cycles;
        let mut rows: BTreeMap<(u32, u64), (f64, Vec<String>, String)> = BTreeMap::new();
        for line in lines {
            let at = (line.line.instance, line.line.line);
            let row = rows.entry(at).or_insert_with(|| {
                (
                    0.0,
                    vec!["-".to_owned(); review.costs.len()],
                    line.line.members.join(" "),
                )
            });
            let machine = review
                .costs
                .iter()
                .position(|cost| cost.machine == line.machine);
            row.0 += line.line.cost.cycles();
            row.1[machine.expect("lines are those of costs")] = cycles.cell(line);
        }
        let left_out = rows.len().saturating_sub(ROWS_MAX);
        if left_out > 0 {
            let mut costs: Vec<f64> = rows.values().map(|row| row.0).collect();
            costs.sort_by(|a, b| b.total_cmp(a));
            let least = costs[ROWS_MAX - 1];
            rows.retain(|_, row| row.0 >= least);
        }
        let mut columns = vec![Column::new("line", Align::Right)];
        let machines = review.costs.iter();
        columns.extend(machines.map(|cost| Column::new(&cost.machine, Align::Right)));
        columns.push(Column::new("members", Align::Words));
        let mut table = Table::new(columns);
        for ((instance, line), (_, cycles, members)) in rows {
            let line = match instance {
                0 => line.to_string(),
                other => format!("{other}:{line}"),
            };
            table.push([vec![line], cycles, vec![members]].concat());
        }
        self.out.blank();
        self.push(
            Style::Bold,
            &format!("  {layout}, cycles of each touched line as the model estimates them"),
        );
        self.table(&table);
        if left_out > 0 {
            self.sentence(Style::Dim, &format!("{left_out} cheaper lines left out"));
        }
    }

    fn review_members(&mut self, review: &TypeReview) {
        let mut members = review.members.iter();
        let is_counted = members.any(|member| member.access_count.is_some());
        let columns = MEMBER_COLUMNS.iter();
        let columns =
            columns.filter(|one| is_counted || !one.field.is(&review_member::access_count));
        let mut table = FieldTable::new(columns);
        let changed = |member: &&MemberReview| {
            let (places, size) = (&member.places, |place: &MemberPlace| place.size_bytes);
            let [before, after] = [&places.before, &places.after].map(|at| at.as_ref().map(size));
            let is_resized = before != after && after.is_some();
            member.places.change != Change::Same || is_resized
        };
        let mut rows: Vec<_> = review.members.iter().filter(changed).collect();
        // Those that are accessed most stay when there are many; the order is that of offsets.
        let all = rows.len();
        if all > ROWS_MAX {
            let mut counts: Vec<u64> = rows
                .iter()
                .map(|row| row.access_count.unwrap_or(0))
                .collect();
            counts.sort_unstable_by(|a, b| b.cmp(a));
            let least = counts[ROWS_MAX - 1].max(1);
            let used = rows.iter().filter(|row| row.access_count >= Some(least));
            rows = match used.count() {
                0 => rows.into_iter().take(ROWS_MAX).collect(),
                _ => {
                    rows.retain(|row| row.access_count >= Some(least));
                    rows
                }
            };
        }
        rows.iter().for_each(|row| table.push(row));
        if rows.is_empty() {
            return;
        }
        self.out.blank();
        self.push(Style::Bold, "  members that lie elsewhere");
        self.table(&table.table);
        if all > rows.len() {
            let left_out = all - rows.len();
            self.sentence(
                Style::Dim,
                &format!("{left_out} other members left out; JSON has all"),
            );
        }
    }

    fn review_coverage(&mut self, coverage: &Coverage) {
        let each = match coverage.access_count {
            1 => "access is",
            _ => "accesses are",
        };
        let text = format!(
            "{} {each} {}; functions: {}, CPUs: {} ({})",
            grouped(coverage.access_count),
            coverage.counted.name(),
            grouped(coverage.function_count),
            grouped(coverage.cpu_count),
            coverage.source,
        );
        self.paragraph(Style::Plain, "confidence", &text);
        for note in &coverage.notes {
            self.paragraph(Style::Plain, "note", note);
        }
        if !coverage.unknown_members.is_empty() {
            let text = format!(
                "{}: they cost nothing wherever they are",
                some(&coverage.unknown_members)
            );
            self.paragraph(Style::Plain, "members not in the profile", &text);
        }
        for (lacking, layout) in coverage.lacking.iter().zip(["old", "new"]) {
            if !lacking.is_empty() {
                let names = lacking.iter();
                let names = names.map(|(name, count)| format!("{name} ({count} accesses)"));
                let label = format!("not in the {layout} layout, nor in its cost");
                self.paragraph(Style::Warning, &label, &some(&names.collect::<Vec<_>>()));
            }
        }
    }
}

fn memory_text([before, after]: &[Memory; 2]) -> String {
    let change = |of: fn(&Memory) -> u64| match (of(before), of(after)) {
        (one, other) if one == other => grouped(one),
        (one, other) => format!("{} -> {}", grouped(one), grouped(other)),
    };
    format!(
        "size {}, lines {}, holes {}, bytes in holes {}, padding {}",
        change(|of| of.size_bytes),
        change(|of| of.line_count),
        change(|of| of.hole_count),
        change(|of| of.hole_bytes),
        change(|of| of.padding_bytes),
    )
}

/// Some names, and the number of the others.
fn some(names: &[String]) -> String {
    let (shown, others) = names.split_at(names.len().min(NAMES_MAX));
    match others.len() {
        0 => shown.join(", "),
        others => format!("{} and {others} more", shown.join(", ")),
    }
}
