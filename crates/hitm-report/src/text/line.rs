//! One line: its verdict and advice, what it cost, and its table by offset, thread and code.

use hitm_base::{AccessOp, grouped};

use super::name::shorten_name;
use super::sources::{SourceRow, by_source};
use super::style::Style;
use super::table::{Align, FieldTable};
use super::{NAME_WIDTH_MAX, Writer, by, calls};
use crate::fields::{FIGHT_FIELDS, LINE_FIELDS, ROW_FIELDS, by_id};
use crate::model::{FightReport, LineReport, RowReport};
use crate::names::without_repeats;

/// Columns of a line's table; thread and code stand below each row.
const ROW_COLUMNS: &[(&str, Align)] = &[
    ("offset", Align::Right),
    ("member", Align::Name),
    ("op", Align::Left),
    ("remote_hitm_share", Align::Right),
    ("local_hitm_share", Align::Right),
    ("store_hit_share", Align::Right),
    ("store_miss_share", Align::Right),
    ("remote_hitm_cycles_mean", Align::Right),
    ("local_hitm_cycles_mean", Align::Right),
    ("load_cycles_mean", Align::Right),
    ("lost_share", Align::Right),
    ("access_count", Align::Right),
    ("cpu_count", Align::Right),
    ("nodes", Align::Right),
];

/// Columns that a narrow screen leaves out, the first one first.
const ROW_LEAVES_OUT: &[&str] = &[
    "nodes",
    "cpu_count",
    "load_cycles_mean",
    "local_hitm_cycles_mean",
    "store_hit_share",
    "remote_hitm_cycles_mean",
    "access_count",
    "store_miss_share",
    "local_hitm_share",
    "offset",
];

impl Writer {
    pub(super) fn line(&mut self, line: &LineReport, is_sampled: bool) {
        let figure = |id| by_id(LINE_FIELDS, id).text(line);
        let name = shorten_name(&line.name(), NAME_WIDTH_MAX);
        self.title(&format!(
            "Line {}: {} {name}",
            figure("rank"),
            figure("address")
        ));
        self.paragraph(
            Style::Verdict,
            by_id(LINE_FIELDS, "verdict_text").title,
            &line.verdict_text,
        );
        self.paragraph(
            Style::Bold,
            by_id(LINE_FIELDS, "advice").title,
            &line.advice,
        );
        self.fights(line, is_sampled);
        self.objects(line);
        let pairs = |ids: &[&'static str]| {
            let texts: Vec<String> = ids
                .iter()
                .map(|id| format!("{} {}", by_id(LINE_FIELDS, id).title, figure(id)))
                .collect();
            texts.join(", ")
        };
        let cost = match is_sampled {
            true => pairs(&["lost_share"]),
            false => pairs(&["lost_cycles", "stall_cycles", "lost_share", "run_share"]),
        };
        self.paragraph(Style::Plain, "cost", &cost);
        let accesses = pairs(&["load_count", "store_count", "locked_count"]);
        let stores = pairs(&["store_hit_count", "store_miss_count"]);
        self.paragraph(Style::Plain, "accesses", &format!("{accesses}; {stores}"));
        let latency = pairs(&[
            "load_latency_cycles_mean",
            "load_latency_cycles_max",
            "miss_latency_cycles_p50",
            "miss_latency_cycles_p99",
        ]);
        self.paragraph(Style::Plain, "latency", &latency);
        let who = pairs(&["thread_count", "cpu_count", "nodes", "disjoint_share"]);
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
            let figure = |id| by_id(FIGHT_FIELDS, id).text(&fight);
            let cost = match is_sampled {
                true => figure("lost_share"),
                false => format!(
                    "{} cycles ({})",
                    figure("lost_cycles"),
                    figure("lost_share")
                ),
            };
            let places = match fight.places.as_slice() {
                [] => String::new(),
                places => format!(" on {}", listed(places)),
            };
            let text = format!("{} {cost}{places}", figure("kind"));
            self.paragraph(Style::Plain, by_id(FIGHT_FIELDS, "kind").title, &text);
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
                object.addr
            );
            self.paragraph(Style::Plain, "object", &text);
        }
    }

    fn rows(&mut self, line: &LineReport, is_sampled: bool) {
        let mut table = FieldTable::new(ROW_FIELDS, ROW_COLUMNS).leave_out(ROW_LEAVES_OUT);
        let rows = by_source(line);
        let (large, small): (Vec<_>, Vec<_>) = rows
            .iter()
            .partition(|one| self.percent_limit.holds_row(&one.row));
        for one in large {
            let cells = blank_what_cannot_be(&one.row, table.cells(&one.row));
            let mut notes = vec![row_note(one)];
            notes.extend(calls::notes(&one.row, self.width));
            table.table.push_with_notes(cells, notes);
        }
        let small: Vec<&RowReport> = small.iter().map(|one| &one.row).collect();
        by::push_rows(&mut table, &small, self.percent_limit);
        self.table(&table.table);
        if line.rows_left_out > 0 {
            let figure = |id| by_id(LINE_FIELDS, id).text(line);
            let text = match is_sampled {
                true => format!("  {} more rows.", figure("rows_left_out_count")),
                false => format!(
                    "  {} more rows lost {} cycles.",
                    figure("rows_left_out_count"),
                    figure("rows_left_out_lost_cycles")
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
fn blank_what_cannot_be(row: &RowReport, mut cells: Vec<String>) -> Vec<String> {
    let blank = match row.op {
        AccessOp::Load => 5..7,
        AccessOp::Store => 3..5,
        AccessOp::LockedRmw | AccessOp::Fence => 0..0,
    };
    for cell in &mut cells[blank] {
        "-".clone_into(cell);
    }
    cells
}

fn row_note(one: &SourceRow) -> String {
    let row = &one.row;
    let mut parts = vec![row.threads_text()];
    for part in [&row.function, &row.source_short] {
        if !part.is_empty() {
            parts.push(shorten_name(part, NAME_WIDTH_MAX));
        }
    }
    parts.push(by_id(ROW_FIELDS, "code_address").text(row));
    if one.code_count > 1 {
        parts.push(format!("+{} more", one.code_count - 1));
    }
    parts.join("  ")
}
