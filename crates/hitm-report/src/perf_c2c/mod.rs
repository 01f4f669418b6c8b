//! The tables of `perf c2c report --stdio`, in its words and columns.
//!
//! For those who know perf's report, and to compare the two cell by cell. The counts are
//! [`hitm_perf::c2c`]'s; here they get their titles. Source of titles, order and formats:
//! tools/perf/builtin-c2c.c, Linux 6.1. Unlike perf's, a percentage of nothing is `n/a`.

mod columns;
mod json;
mod totals;

use std::fmt::Write as _;

use columns::{Column, Head, Item, line_columns, row_columns};
use hitm_base::printable;
use hitm_fields::ranges;
use hitm_perf::c2c::{Counts, Display, Line, Physical, Row, Tables};
use hitm_recording::perf_data::{C2cReport, RowPlace};

use crate::Printout;
pub use json::{SCHEMA, json};
use totals::{EVENT_TOTALS, SHARED_TOTALS, Total};

/// The widest that a symbol or a source line is shown (`SYMBOL_WIDTH`).
const NAME_WIDTH_MAX: usize = 30;

/// The rule that frames a title, and the width in which the title is centred.
const RULE: &str = "=================================================";
/// The rule around the sums of a line.
const LINE_RULE: &str = "----------------------------------------------------------------------";

/// A shown line and its place in the table.
struct LineItem<'a> {
    index: usize,
    line: &'a Line,
    tables: &'a Tables,
    memory_nodes: Vec<u32>,
}

/// A shown row with everything that its cells need.
struct RowItem<'a> {
    row: &'a Row,
    line: &'a Line,
    symbol: String,
    object: String,
    source: String,
    nodes: Vec<u32>,
    memory_nodes: Vec<u32>,
}

/// The content of a cell.
#[derive(Debug, Clone, PartialEq)]
enum Cell {
    Count(u64),
    Address(u64),
    /// 0 to 100.
    Percent(f64),
    /// A mean in cycles.
    Mean(f64),
    Name(String),
    Numbers(Vec<u32>),
    /// Nodes whose memory it is, as a list of ranges; none when nobody knows.
    Nodes(Vec<u32>),
    Nothing,
}

impl Cell {
    /// As it is shown, printable.
    fn text(&self) -> String {
        match self {
            Cell::Count(count) => count.to_string(),
            Cell::Address(address) => format!("{address:#x}"),
            Cell::Percent(percent) => format!("{percent:.2}%"),
            Cell::Mean(mean) => format!("{mean:.0}"),
            Cell::Name(name) => printable(name).into_owned(),
            Cell::Numbers(numbers) => {
                let numbers: Vec<String> = numbers.iter().map(|n| format!("{n:>2}")).collect();
                numbers.join(" ")
            }
            Cell::Nodes(nodes) if nodes.is_empty() => "N/A".to_owned(),
            Cell::Nodes(nodes) => {
                let nodes: Vec<u64> = nodes.iter().map(|node| u64::from(*node)).collect();
                ranges(&nodes)
            }
            Cell::Nothing => String::new(),
        }
    }
}

fn line_items(report: &C2cReport) -> Vec<LineItem<'_>> {
    let tables = &report.tables;
    let lines = tables.lines.iter().enumerate();
    lines
        .map(|(index, line)| LineItem {
            index,
            line,
            tables,
            memory_nodes: memory_nodes(report, &line.physical),
        })
        .collect()
}

/// The nodes that the file describes the memory of. Like perf, without those that it does not list
/// among the machine's.
fn memory_nodes(report: &C2cReport, physical: &Physical) -> Vec<u32> {
    let nodes = physical.nodes.iter().map(u32::from);
    nodes.filter(|node| *node < report.node_count).collect()
}

fn row_items<'a>(report: &'a C2cReport, line: &'a Line) -> Vec<RowItem<'a>> {
    let name = |row: &'a Row| {
        let place = report.place(row);
        let cpus = row.cpus.iter();
        let nodes = cpus.filter_map(|cpu| report.nodes.get(usize::from(cpu)).copied().flatten());
        let mut nodes: Vec<u32> = nodes.collect();
        nodes.sort_unstable();
        nodes.dedup();
        RowItem {
            row,
            line,
            symbol: symbol(&place, row.ip),
            object: file_name(&place.object, "[unknown]"),
            source: source(&place, row.ip),
            nodes,
            memory_nodes: memory_nodes(report, &row.physical),
        }
    };
    line.rows.iter().map(name).collect()
}

fn symbol(place: &RowPlace, ip: u64) -> String {
    let level = if place.is_kernel { 'k' } else { '.' };
    match place.function.as_str() {
        "" => format!("[{level}] {ip:#018x}"),
        function => format!("[{level}] {function}"),
    }
}

fn file_name(path: &str, unknown: &str) -> String {
    match path.rsplit('/').next() {
        None | Some("") => unknown.to_owned(),
        Some(name) => name.to_owned(),
    }
}

fn source(place: &RowPlace, ip: u64) -> String {
    match (place.file.as_str(), place.line) {
        ("", _) | (_, 0) => format!("{}[{ip:x}]", file_name(&place.object, "")),
        (file, line) => format!("{}:{line}", file_name(file, "")),
    }
}

/// The tables as text.
pub fn text(report: &C2cReport) -> Printout {
    let mut out = Printout::new();
    let tables = &report.tables;
    title(&mut out, "Trace Event Information");
    push_totals(&mut out, EVENT_TOTALS, tables, &tables.all);
    title(&mut out, "Global Shared Cache Line Event Information");
    push_totals(&mut out, SHARED_TOTALS, tables, &tables.shared);
    title(&mut out, "c2c details");
    for (index, event) in report.events.iter().enumerate() {
        let label = if index == 0 { "  Events" } else { "" };
        out.line(&format!("{label:<36}: {event}"));
    }
    out.line(&format!(
        "  {:<34}: {}",
        "Cachelines sort on",
        sort_name(tables.display)
    ));
    out.line(&format!(
        "  {:<34}: offset,iaddr",
        "Cacheline data grouping"
    ));
    for note in &report.notes {
        out.line(&format!("  {:<34}: {note}", "Note"));
    }
    out.blank();
    title(&mut out, "Shared Data Cache Line Table");
    out.line("#");
    let columns = line_columns(tables.display);
    let heads: Vec<&Head> = columns.iter().map(|column| &column.head).collect();
    let items = line_items(report);
    let rows = texts(&columns, &items);
    let widths = widths(&heads, &rows);
    push_heads(&mut out, &heads, &widths);
    rows.iter()
        .for_each(|row| push_row(&mut out, &heads, &widths, row));
    out.blank();
    title(&mut out, "Shared Cache Line Distribution Pareto");
    out.line("#");
    for item in &items {
        push_pareto(&mut out, report, item);
    }
    out
}

fn title(out: &mut Printout, text: &str) {
    out.line(RULE);
    out.line(&format!("{text:^width$}", width = RULE.len()));
    out.line(RULE);
}

fn push_totals(out: &mut Printout, totals: &[Total], tables: &Tables, of: &Counts) {
    for total in totals {
        out.line(&format!(
            "  {:<34}: {:>10}",
            total.title,
            total.text(tables, of)
        ));
    }
    out.blank();
}

fn sort_name(display: Display) -> &'static str {
    match display {
        Display::TotalHitm => "Total HITMs",
        Display::RemoteHitm => "Remote HITMs",
        Display::LocalHitm => "Local HITMs",
        Display::Peer => "Peer Snoop",
    }
}

/// A line's sums between rules, and its rows.
fn push_pareto(out: &mut Printout, report: &C2cReport, item: &LineItem<'_>) {
    let display = item.tables.display;
    let columns = row_columns(display);
    let heads: Vec<&Head> = columns.iter().map(|column| &column.head).collect();
    let cells = texts(&columns, &row_items(report, item.line));
    let widths = widths(&heads, &cells);
    if item.index == 0 {
        push_heads(out, &heads, &widths);
    } else {
        out.blank();
    }
    let counts = &item.line.counts;
    let sums = match display {
        Display::Peer => [counts.remote_peer, counts.local_peer],
        _ => [counts.remote_hitm, counts.local_hitm],
    };
    out.line(&format!("  {LINE_RULE}"));
    let mut line = format!("  {:>5}", item.index);
    let stores = [
        counts.store_l1_hit,
        counts.store_l1_miss,
        counts.store_unknown,
    ];
    for sum in sums.into_iter().chain(stores) {
        let _ = write!(line, "  {sum:>7}");
    }
    let address = format!("{:#x}", item.line.address);
    out.line(&format!("{line}  {address:>18}"));
    out.line(&format!("  {LINE_RULE}"));
    cells
        .iter()
        .for_each(|row| push_row(out, &heads, &widths, row));
}

/// The cells of items.
fn texts<I: Item>(columns: &[Column<I>], items: &[I]) -> Vec<Vec<String>> {
    let row = |item: &I| columns.iter().map(|one| one.cell(item).text()).collect();
    items.iter().map(row).collect()
}

/// The width of each column: its own, or what the longest name takes.
fn widths(heads: &[&Head], rows: &[Vec<String>]) -> Vec<usize> {
    let width = |(index, head): (usize, &&Head)| {
        if head.width > 0 {
            return head.width;
        }
        let longest = rows
            .iter()
            .map(|row| row[index].chars().count())
            .max()
            .unwrap_or(0);
        longest.max(head.title.len()).min(NAME_WIDTH_MAX)
    };
    heads.iter().enumerate().map(width).collect()
}

/// The two lines of titles and the line of dots.
fn push_heads(out: &mut Printout, heads: &[&Head], widths: &[usize]) {
    let (mut above, mut below, mut dots) = (String::new(), String::new(), String::new());
    for (head, &width) in heads.iter().zip(widths) {
        // The title of a group takes the room of all its columns; those after the first have none.
        if let Some(text) = head.above {
            let _ = write!(above, "  {text:>width$}");
        }
        let _ = write!(below, "  {:>width$}", head.title);
        let _ = write!(dots, "  {}", ".".repeat(width));
    }
    for line in [above, below, dots] {
        out.line(&format!("#{}", line[1..].trim_end()));
    }
    out.line("#");
}

fn push_row(out: &mut Printout, heads: &[&Head], widths: &[usize], cells: &[String]) {
    let mut line = String::new();
    for ((head, &width), cell) in heads.iter().zip(widths).zip(cells) {
        let short: String = if head.width == 0 {
            cell.chars().take(width).collect()
        } else {
            cell.clone()
        };
        let _ = match head.is_name {
            true => write!(line, "  {short:<width$}"),
            false => write!(line, "  {short:>width$}"),
        };
    }
    out.line(line.trim_end());
}
