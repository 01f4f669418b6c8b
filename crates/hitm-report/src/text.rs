//! The report as text, in the manner of `perf c2c report --stdio`: event totals, the table of shared
//! lines, each line by offset, thread and code, and the threads' time. Lines are ordered by cycles
//! lost, because after a good fix HITM counts may rise while time lost falls.

mod calls;
pub mod of_type;
pub mod side_by_side;
pub(crate) mod style;
pub(crate) mod table;
pub mod whatif;

use hitm_base::{AccessOp, grouped};

use crate::fields::{
    Field, LINE_FIELDS, MACHINE_FIELDS, QUIET_FIELDS, ROW_FIELDS, RUN_FIELDS, SOURCE_FIELDS,
    THREAD_FIELDS, TOTALS_FIELDS, Unit, by_id,
};
use crate::model::{LineReport, Report, RowReport, SampledEvent, ThreadSummary};
use style::{Painter, Style};
use table::{Align, Column, Table, shorten, wrap};

/// How to write text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextOptions {
    /// Columns that a line of text may take, at least [`TextOptions::WIDTH_MIN`]; long names are
    /// shortened in the middle to fit.
    pub width: usize,
    /// Whether to use ANSI colours.
    pub color: bool,
}

impl TextOptions {
    /// The narrowest width at which the tables still fit.
    pub const WIDTH_MIN: usize = 100;
    /// Width when nobody knows better, as in a pipe.
    pub const WIDTH_DEFAULT: usize = 120;
}

/// Threads in the summary; of more, those that lost most are shown.
const THREADS_MAX: usize = 24;
/// The widest name in a table, however wide the terminal is.
const NAME_WIDTH_MAX: usize = 48;

/// Columns of the table of lines.
const LINE_COLUMNS: &[(&str, Align)] = &[
    ("rank", Align::Right),
    ("address", Align::Right),
    ("name", Align::Name),
    ("verdict_text", Align::Name),
    ("lost_cycles", Align::Right),
    ("lost_share", Align::Right),
    ("run_share", Align::Right),
    ("remote_hitm_count", Align::Right),
    ("local_hitm_count", Align::Right),
    ("load_latency_cycles_mean", Align::Right),
    ("nodes", Align::Right),
];
/// The same for samples, which know no time of threads.
const SAMPLED_LINE_COLUMNS: &[(&str, Align)] = &[
    ("rank", Align::Right),
    ("address", Align::Right),
    ("name", Align::Name),
    ("verdict_text", Align::Name),
    ("lost_share", Align::Right),
    ("remote_hitm_count", Align::Right),
    ("local_hitm_count", Align::Right),
    ("access_count", Align::Right),
    ("load_latency_cycles_mean", Align::Right),
    ("nodes", Align::Right),
];
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
/// Columns of the table of threads.
const THREAD_COLUMNS: &[(&str, Align)] = &[
    ("thread", Align::Right),
    ("name", Align::Name),
    ("instruction_count", Align::Right),
    ("cycles", Align::Right),
    ("lost_cycles", Align::Right),
    ("lost_share", Align::Right),
];

/// The whole report.
pub fn render(report: &Report, options: &TextOptions) -> String {
    let mut writer = Writer {
        out: String::new(),
        width: options.width.max(TextOptions::WIDTH_MIN),
        painter: Painter {
            color: options.color,
        },
    };
    writer.header(report);
    writer.totals(report);
    writer.line_table(report);
    let is_sampled = report.run.sampled.is_some();
    for line in &report.lines {
        writer.line(line, is_sampled);
    }
    if !is_sampled {
        writer.threads(report);
    }
    writer.diagnostics(report);
    writer.out
}

struct Writer {
    out: String,
    width: usize,
    painter: Painter,
}

impl Writer {
    fn push(&mut self, style: Style, text: &str) {
        self.out.push_str(&self.painter.paint(style, text));
        self.out.push('\n');
    }

    fn title(&mut self, text: &str) {
        let rule = "=".repeat(self.width.saturating_sub(text.chars().count() + 4));
        self.out.push('\n');
        self.push(Style::Bold, &format!("== {text} {rule}"));
    }

    fn paragraph(&mut self, style: Style, label: &str, text: &str) {
        let indent = label.chars().count() + 4;
        for (index, line) in wrap(text, self.width - indent).iter().enumerate() {
            let label = if index == 0 {
                format!("  {label}: ")
            } else {
                " ".repeat(indent)
            };
            self.push(style, &format!("{label}{line}"));
        }
    }

    fn table(&mut self, table: &Table) {
        let painter = self.painter;
        self.out.push_str(&table.render(self.width, painter));
    }

    fn header(&mut self, report: &Report) {
        let run = |id| by_id(RUN_FIELDS, id).text(&report.run);
        let command = shorten(&report.run.command.join(" "), self.width - 13);
        self.push(Style::Bold, &format!("hitm report: {command}"));
        let machine = format!(
            "{} ({} CPUs, {} nodes, {}): {}",
            run("machine"),
            run("cpu_count"),
            run("node_count"),
            run("clock_khz"),
            run("machine_description"),
        );
        self.paragraph(Style::Plain, "machine", &machine);
        if let Some(events) = &report.run.sampled {
            self.sampled(events);
            if report.has_call_chains {
                self.paragraph(Style::Plain, "called by", calls::LEGEND);
            }
            return;
        }
        let how = format!(
            "threads placed {}, window {} cycles, seed {}",
            run("placement"),
            run("window_cycles"),
            run("seed")
        );
        self.paragraph(Style::Plain, "run", &how);
        if !report.run.complete {
            let text =
                "the recording was not closed properly: what follows covers what was written";
            self.paragraph(Style::Warning, "incomplete", text);
        }
        if report.run.lost_access_count > 0 {
            let text = format!(
                "{} accesses were dropped by the recorder",
                run("lost_access_count")
            );
            self.paragraph(Style::Warning, "lost", &text);
        }
    }

    fn sampled(&mut self, events: &[SampledEvent]) {
        for event in events {
            let text = format!(
                "{} samples, for {} events of {}",
                grouped(event.sample_count),
                grouped(event.event_count),
                event.name
            );
            self.paragraph(Style::Plain, "sampled", &text);
        }
        let text = "counts below are samples, shares and means are of samples; what lies between \
                    the samples is not known";
        self.paragraph(Style::Plain, "read as", text);
    }

    fn totals(&mut self, report: &Report) {
        self.title("Event totals");
        let totals = &report.totals;
        let counts = &totals.counts;
        let mut table = Table::new(vec![
            Column::new(
                match report.run.sampled {
                    Some(_) => "samples",
                    None => "accesses to shared lines",
                },
                Align::Left,
            ),
            Column::new("loads", Align::Right),
            Column::new("stores", Align::Right),
            Column::new("locked", Align::Right),
        ]);
        for source in SOURCE_FIELDS {
            let columns = [&counts.loads, &counts.stores, &counts.locked];
            let mut cells = vec![source.title.to_owned()];
            cells.extend(columns.map(|counts| source.text(counts)));
            if cells[1..].iter().any(|cell| cell != "0") {
                table.push(cells);
            }
        }
        let sums = ["load_count", "store_count", "locked_count"];
        let mut cells = vec!["all".to_owned()];
        cells.extend(sums.map(|id| by_id(TOTALS_FIELDS, id).text(totals)));
        table.push(cells);
        self.table(&table);
        let figure = |id| by_id(TOTALS_FIELDS, id).text(totals);
        if report.run.sampled.is_some() {
            let mut text = format!("  sampled lines: {}", figure("line_count"));
            if totals.tlb_known_count > 0 {
                text += &format!(
                    "; TLB misses: {} of {} samples that say so, {}",
                    figure("tlb_miss_count"),
                    figure("tlb_known_count"),
                    figure("tlb_miss_share")
                );
            }
            self.push(Style::Plain, &text);
            return;
        }
        let private = by_id(RUN_FIELDS, "private_access_count").text(&report.run);
        self.push(
            Style::Plain,
            &format!(
                "  private accesses, counted only: {private}; shared lines: {}",
                figure("line_count")
            ),
        );
        self.push(
            Style::Bold,
            &format!(
                "  lost to contention: {} of {} thread cycles, {}",
                figure("lost_cycles"),
                figure("thread_cycles"),
                figure("run_share")
            ),
        );
        self.machine(report);
    }

    fn machine(&mut self, report: &Report) {
        let Some(machine) = &report.of_machine else {
            return;
        };
        let figure = |id| by_id(MACHINE_FIELDS, id).text(machine);
        let pairs = |ids: &[&'static str]| {
            let texts = ids.iter().map(|id| {
                let title = by_id(MACHINE_FIELDS, id).title;
                format!("{title} {}", figure(id))
            });
            texts.collect::<Vec<String>>().join(", ")
        };
        let named = pairs(&[
            "object_hitm_count",
            "variable_hitm_count",
            "typed_hitm_count",
            "slab_hitm_count",
            "program_hitm_count",
        ]);
        let text = format!(
            "  HITM with a name: {} of {} ({named})",
            figure("named_share"),
            figure("hitm_count")
        );
        self.push(Style::Bold, &text);
        let text = format!(
            "  from user space: {} accesses; left out: {} accesses to devices",
            figure("user_access_count"),
            figure("device_access_count")
        );
        self.push(Style::Plain, &text);
        let unnamed = machine.unnamed.iter().map(|one| {
            let count = grouped(one.hitm_count);
            format!("{} {count} ({:#x})", one.function, one.address)
        });
        let unnamed = unnamed.collect::<Vec<String>>().join(", ");
        if !unnamed.is_empty() {
            self.paragraph(Style::Plain, "HITM without a name", &unnamed);
        }
    }

    fn line_table(&mut self, report: &Report) {
        let (title, columns) = match report.run.sampled {
            Some(_) => (
                "Shared cache lines, by sampled latency of contended loads",
                SAMPLED_LINE_COLUMNS,
            ),
            None => (
                "Shared cache lines, by cycles lost to contention",
                LINE_COLUMNS,
            ),
        };
        self.title(title);
        if report.lines.is_empty() {
            self.push(Style::Plain, "  No line is contended.");
        } else {
            let mut table = FieldTable::new(LINE_FIELDS, columns);
            for line in &report.lines {
                table.push(line);
            }
            self.table(&table.table);
        }
        let quiet = &report.quiet;
        let figure = |id| by_id(QUIET_FIELDS, id).text(quiet);
        if quiet.left_out_line_count > 0 {
            let text = if report.run.sampled.is_some() {
                format!(
                    "  {} more contended lines; --top shows more.",
                    figure("left_out_line_count")
                )
            } else {
                format!(
                    "  {} more contended lines lost {} cycles; --top shows more.",
                    figure("left_out_line_count"),
                    figure("left_out_lost_cycles")
                )
            };
            self.push(Style::Plain, &text);
        }
        if quiet.line_count > 0 {
            let text = if report.run.sampled.is_some() {
                format!(
                    "  {} lines have too few contended samples for a verdict.",
                    figure("line_count")
                )
            } else {
                format!(
                    "  {} lines changed hands too rarely to matter and lost {} cycles.",
                    figure("line_count"),
                    figure("lost_cycles")
                )
            };
            self.push(Style::Plain, &text);
        }
    }

    fn line(&mut self, line: &LineReport, is_sampled: bool) {
        let figure = |id| by_id(LINE_FIELDS, id).text(line);
        let name = shorten(&line.name(), NAME_WIDTH_MAX);
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
            let name = shorten(&object.name, NAME_WIDTH_MAX);
            let text = format!("{name} at {:#x}{size}{straddles}{members}", object.addr);
            self.paragraph(Style::Plain, "object", &text);
        }
    }

    fn rows(&mut self, line: &LineReport, is_sampled: bool) {
        let mut table = FieldTable::new(ROW_FIELDS, ROW_COLUMNS);
        for row in &line.rows {
            let cells = blank_what_cannot_be(row, table.cells(row));
            let mut notes = vec![row_note(row)];
            notes.extend(calls::notes(row, self.width));
            table.table.push_with_notes(cells, notes);
        }
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
            self.push(Style::Plain, &text);
        }
    }

    fn threads(&mut self, report: &Report) {
        self.title("Threads, in virtual cycles");
        let mut shown: Vec<&ThreadSummary> = report.threads.iter().collect();
        if shown.len() > THREADS_MAX {
            shown.sort_by_key(|thread| (std::cmp::Reverse(thread.lost_cycles), thread.thread));
            shown.truncate(THREADS_MAX);
        }
        let mut table = FieldTable::new(THREAD_FIELDS, THREAD_COLUMNS);
        for thread in &shown {
            table.push(thread);
        }
        self.table(&table.table);
        if report.threads.len() > shown.len() {
            let text = format!(
                "  {} of {} threads, those that lost most.",
                shown.len(),
                report.threads.len()
            );
            self.push(Style::Plain, &text);
        }
    }

    fn diagnostics(&mut self, report: &Report) {
        if report.diagnostics.is_empty() {
            return;
        }
        self.title("Diagnostics");
        for diagnostic in &report.diagnostics {
            self.paragraph(Style::Warning, "note", diagnostic);
        }
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

fn row_note(row: &RowReport) -> String {
    let mut parts = vec![row.threads_text()];
    for part in [&row.function, &row.source_short] {
        if !part.is_empty() {
            parts.push(shorten(part, NAME_WIDTH_MAX));
        }
    }
    parts.push(by_id(ROW_FIELDS, "code_address").text(row));
    parts.join("  ")
}

/// A table over the fields of one kind of record.
pub(crate) struct FieldTable<T: 'static> {
    fields: Vec<&'static Field<T>>,
    pub(crate) table: Table,
}

impl<T> FieldTable<T> {
    pub(crate) fn new(fields: &'static [Field<T>], columns: &[(&str, Align)]) -> FieldTable<T> {
        let picked: Vec<_> = columns.iter().map(|(id, _)| by_id(fields, id)).collect();
        let heads = picked.iter().zip(columns).map(|(field, (_, align))| {
            let per_cent = if field.unit == Unit::Share { "%" } else { "" };
            Column::new(&format!("{}{per_cent}", field.title), *align)
        });
        FieldTable {
            table: Table::new(heads.collect()),
            fields: picked,
        }
    }

    fn cells(&self, item: &T) -> Vec<String> {
        self.fields.iter().map(|field| field.cell(item)).collect()
    }

    pub(crate) fn push(&mut self, item: &T) {
        self.table.push(self.cells(item));
    }
}
