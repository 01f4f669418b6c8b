//! One line: its verdict and advice, what it cost, and its table by offset, thread and code.

use hitm_base::{AccessOp, grouped};
use hitm_fields::of_run;

use super::name::shorten_name;
use super::sources::{SourceRow, by_source};
use super::style::Style;
use super::table::{FieldTable, Shown, Shows, gives_way, pairs, stays};
use super::{NAME_WIDTH_MAX, Writer, by, calls};
use crate::fields::{Field, Value, fight, line, row};
use crate::model::{FightReport, LineReport, RowReport, Who};
use crate::names::without_repeats;

/// Columns of a line's table; thread and code stand below each row.
const ROW_COLUMNS: &[Shows<RowReport>] = &[
    gives_way(10, row::offset),
    stays(row::member),
    stays(row::op),
    stays(row::remote_hitm_share),
    gives_way(9, row::local_hitm_share),
    gives_way(5, row::store_hit_share),
    gives_way(8, row::store_miss_share),
    gives_way(6, row::remote_hitm_cycles_mean),
    gives_way(4, row::local_hitm_cycles_mean),
    gives_way(3, row::load_cycles_mean),
    stays(row::lost_share),
    gives_way(7, row::access_count),
    gives_way(2, row::cpu_count),
    gives_way(1, row::nodes),
];

/// Cost of a line.
const COST: &[Field<LineReport>] = &[
    line::lost_cycles,
    line::stall_cycles,
    line::lost_share,
    line::run_share,
];

impl Writer {
    pub(super) fn line(&mut self, line: &LineReport, is_sampled: bool) {
        let figure = |field: Field<_>| field.text(line);
        let name = shorten_name(&line.name(), NAME_WIDTH_MAX);
        self.title(&format!(
            "Line {}: {} {name}",
            figure(line::rank),
            figure(line::address)
        ));
        self.paragraph(Style::Verdict, line::verdict_text.title, &line.verdict_text);
        self.paragraph(Style::Bold, line::advice.title, &line.advice);
        self.fights(line, is_sampled);
        self.objects(line);
        let pairs = |fields: &[Field<LineReport>]| pairs(line, fields);
        let cost: Vec<_> = of_run(COST, is_sampled).copied().collect();
        self.paragraph(Style::Plain, "cost", &pairs(&cost));
        let accesses = pairs(&[line::load_count, line::store_count, line::locked_count]);
        let stores = pairs(&[line::store_hit_count, line::store_miss_count]);
        self.paragraph(Style::Plain, "accesses", &format!("{accesses}; {stores}"));
        let latency = pairs(&[
            line::load_latency_cycles_mean,
            line::load_latency_cycles_max,
            line::miss_latency_cycles_p50,
            line::miss_latency_cycles_p99,
        ]);
        self.paragraph(Style::Plain, "latency", &latency);
        let who = pairs(&[
            line::thread_count,
            line::cpu_count,
            line::nodes,
            line::disjoint_share,
        ]);
        self.paragraph(Style::Plain, "shared by", &who);
        self.rows(line, is_sampled);
    }

    /// The fights by kind, when more than one kind is worth a word.
    fn fights(&mut self, line: &LineReport, is_sampled: bool) {
        let main: Vec<&FightReport> = line.fights.iter().filter(|fight| fight.is_main).collect();
        let kinds = FightReport::by_kind(&main);
        if kinds.len() < 2 {
            return;
        }
        for fight in kinds {
            let figure = |field: Field<_>| field.text(&fight);
            let cost = match is_sampled {
                true => figure(fight::lost_share),
                false => format!(
                    "{} cycles ({})",
                    figure(fight::lost_cycles),
                    figure(fight::lost_share)
                ),
            };
            let places = match fight.places.as_slice() {
                [] => String::new(),
                places => format!(" on {}", listed(places)),
            };
            let text = format!("{} {cost}{places}", figure(fight::kind));
            self.paragraph(Style::Plain, fight::kind.title, &text);
        }
    }

    fn objects(&mut self, line: &LineReport) {
        for object in &line.objects {
            let size = match object.size_bytes {
                0 => String::new(),
                size => format!(", {} bytes", grouped(size)),
            };
            let straddles = if object.straddles {
                ", straddles cache lines"
            } else {
                ""
            };
            let members = match object.members.as_slice() {
                [] => String::new(),
                members => format!(": {}", members.join(" ")),
            };
            let name = shorten_name(&object.name, NAME_WIDTH_MAX);
            let origin = match object.origin.as_str() {
                "" => String::new(),
                origin => format!(" ({origin})"),
            };
            let text = format!(
                "{name} at {:#x}{size}{straddles}{origin}{members}",
                object.address
            );
            self.paragraph(Style::Plain, "object", &text);
        }
    }

    fn rows(&mut self, line: &LineReport, is_sampled: bool) {
        let mut table = FieldTable::new(ROW_COLUMNS);
        let rows = by_source(line);
        let (large, small): (Vec<_>, Vec<_>) = rows
            .iter()
            .partition(|one| self.percent_limit.holds_row(&one.row));
        for one in large {
            let cells = table.cells_with(&one.row, &what_cannot_be(&one.row));
            let mut notes = vec![row_note(one, self.who)];
            notes.extend(calls::notes(&one.row, self.width));
            table.table.push_with_notes(cells, notes);
        }
        let small: Vec<&RowReport> = small.iter().map(|one| &one.row).collect();
        by::push_rows(&mut table, &small, self.percent_limit);
        self.table(&table.table);
        if line.rows_left_out_count > 0 {
            let figure = |field: Field<_>| field.text(line);
            let text = match is_sampled {
                true => format!("  {} more rows.", figure(line::rows_left_out_count)),
                false => format!(
                    "  {} more rows lost {} cycles.",
                    figure(line::rows_left_out_count),
                    figure(line::rows_left_out_lost_cycles)
                ),
            };
            self.sentence(Style::Plain, &text);
        }
    }
}

/// Places of a fight that are named; the others are counted.
const PLACES_MAX: usize = 8;

fn listed(places: &[String]) -> String {
    let places = without_repeats(places);
    let (named, rest) = places.split_at(places.len().min(PLACES_MAX));
    match rest.len() {
        0 => named.join(", "),
        count => format!("{} and {count} more", named.join(", ")),
    }
}

/// A load has no part in the stores, and a store none in the loads: `-` instead of 0.0%.
fn what_cannot_be(row: &RowReport) -> Vec<Shown<RowReport>> {
    let fields: &[Field<RowReport>] = match row.op {
        AccessOp::Load => &[row::store_hit_share, row::store_miss_share],
        AccessOp::Store => &[row::remote_hitm_share, row::local_hitm_share],
        AccessOp::LockedRmw | AccessOp::Fence => &[],
    };
    let nothing = |field: &Field<RowReport>| Shown::new(*field, Value::Missing);
    fields.iter().map(nothing).collect()
}

fn row_note(one: &SourceRow, who: Who) -> String {
    let row = &one.row;
    let mut parts = vec![row.threads_text(who)];
    for part in [&row.function, &row.source_short] {
        if !part.is_empty() {
            parts.push(shorten_name(part, NAME_WIDTH_MAX));
        }
    }
    parts.push(row::code_address.text(row));
    if one.code_count > 1 {
        parts.push(format!("+{} more", one.code_count - 1));
    }
    parts.join("  ")
}
