//! The report as text, in the manner of `perf c2c report --stdio`: event totals, the table of shared
//! lines, each line by offset, thread and code, and the threads' time. Lines are ordered by cycles
//! lost, because after a good fix HITM counts may rise while time lost falls.

pub(crate) mod by;
pub(crate) mod calls;
pub mod compare;
pub(crate) mod findings;
mod handed;
mod line;
pub(crate) mod name;
pub mod of_type;
mod pairs;
pub mod review;
pub mod side_by_side;
mod sources;
pub(crate) mod style;
pub(crate) mod table;
mod totals;
mod waiting;
pub mod whatif;

use std::cmp::Reverse;

use hitm_base::{grouped, printable};

use crate::Printout;
use crate::fields::{self, Field};
use crate::glossary::CALLED_BY;
use crate::model::{LineReport, ProcessSummary, Report, SampledEvent, ThreadSummary, Watched, Who};
use crate::summary::SummaryLine;
pub use by::PercentLimit;
use style::{Painter, Style};
use table::{FieldTable, Shows, Table, gives_way, shorten, stays, wrap};

/// Options for text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextOptions {
    /// Columns that a line of text may take, at least [`TextOptions::WIDTH_MIN`]. Long names give way first, in the
    /// middle of their path, then columns, and a line below the table names them.
    pub width: usize,
    /// True if ANSI colours are used.
    pub color: bool,
    /// True if the totals of all events are shown.
    pub has_events: bool,
    /// The least share that a row of a table needs.
    pub percent_limit: PercentLimit,
}

impl TextOptions {
    /// The narrowest width at which the tables still fit.
    pub const WIDTH_MIN: usize = 80;
    /// Width when nobody knows better, as in a pipe.
    pub const WIDTH_DEFAULT: usize = 120;
}

/// Threads in the summary; of more, those that lost most are shown.
const THREADS_MAX: usize = 24;
/// The widest name in a table, however wide the terminal is.
const NAME_WIDTH_MAX: usize = 48;

/// Columns of the table of lines.
const LINE_COLUMNS: &[Shows<LineReport>] = &[
    stays(fields::line::rank),
    gives_way(5, fields::line::address),
    stays(fields::line::name),
    stays(fields::line::verdict_brief),
    stays(fields::line::lost_cycles),
    stays(fields::line::lost_share),
    gives_way(3, fields::line::run_share),
    gives_way(7, fields::line::remote_hitm_count),
    gives_way(4, fields::line::local_hitm_count),
    gives_way(6, fields::line::access_count),
    gives_way(2, fields::line::load_latency_cycles_mean),
    gives_way(1, fields::line::nodes),
];

/// The table of lines, without rows.
pub(crate) fn line_table(is_sampled: bool) -> FieldTable<LineReport> {
    // Where the time of threads is known, numbers of accesses say little.
    let is_shown = |one: &&Shows<LineReport>| match one.field.is(&fields::line::access_count) {
        true => is_sampled,
        false => one.field.is_of(is_sampled),
    };
    FieldTable::new(LINE_COLUMNS.iter().filter(is_shown))
}

/// Columns of the table of threads.
const THREAD_COLUMNS: &[Shows<ThreadSummary>] = &[
    stays(fields::thread::thread),
    stays(fields::thread::name),
    gives_way(1, fields::thread::instruction_count),
    gives_way(2, fields::thread::cycles),
    stays(fields::thread::lost_cycles),
    stays(fields::thread::lost_share),
];

/// Columns of the table of processes.
const PROCESS_COLUMNS: &[Shows<ProcessSummary>] = &[
    stays(fields::process::process),
    stays(fields::process::pid),
    gives_way(1, fields::process::parent),
    stays(fields::process::program),
    gives_way(3, fields::process::thread_count),
    gives_way(2, fields::process::instruction_count),
    stays(fields::process::lost_cycles),
    gives_way(4, fields::process::end),
];

/// The whole report, below its summary. Without sentences it begins with the run.
pub fn render(report: &Report, summary: &[SummaryLine], options: &TextOptions) -> Printout {
    let mut writer = Writer::new(options);
    writer.who = report.who();
    writer.header(report, summary);
    writer.findings(report, options);
    writer.run_facts(report);
    if options.has_events {
        writer.totals(report);
    }
    writer.waiting(&report.waiting);
    for totals in &report.totals_by {
        writer.totals_by(report, totals, options);
    }
    writer.pairs(report);
    writer.line_table(report);
    let is_sampled = report.run.sampled.is_some();
    let (large, _) = options.percent_limit.split_lines(report);
    for line in large {
        writer.line(line, is_sampled);
    }
    if !is_sampled {
        // Filters are about lines and their rows.
        if report.filtered.is_none() {
            writer.handed(&report.handed);
        }
        writer.processes(report);
        writer.threads(report);
    }
    writer.diagnostics(report);
    writer.out
}

/// Puts text together of lines, titles, paragraphs and tables.
pub(crate) struct Writer {
    pub(crate) out: Printout,
    pub(crate) width: usize,
    percent_limit: PercentLimit,
    painter: Painter,
    /// Those that contend.
    who: Who,
    /// Columns left out as said below tables before: tables of one kind say it once.
    said: Vec<String>,
}

impl Writer {
    pub(crate) fn new(options: &TextOptions) -> Writer {
        Writer {
            out: Printout::new(),
            width: options.width.max(TextOptions::WIDTH_MIN),
            percent_limit: options.percent_limit,
            painter: Painter {
                color: options.color,
            },
            who: Who::default(),
            said: Vec::new(),
        }
    }

    pub(crate) fn push(&mut self, style: Style, text: &str) {
        self.out.spans(&[(self.painter.color(style), text)]);
    }

    /// A sentence, indented, in as many lines as it needs.
    pub(crate) fn sentence(&mut self, style: Style, text: &str) {
        for line in wrap(text, self.width - 2) {
            self.push(style, &format!("  {line}"));
        }
    }

    pub(crate) fn title(&mut self, text: &str) {
        // What is escaped counts as it is shown.
        let text = printable(text);
        let rule = "=".repeat(self.width.saturating_sub(text.chars().count() + 4));
        self.out.blank();
        self.push(Style::Bold, &format!("== {text} {rule}"));
    }

    pub(crate) fn paragraph(&mut self, style: Style, label: &str, text: &str) {
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

    pub(crate) fn table(&mut self, table: &Table) {
        table.render(&mut self.out, self.width, self.painter);
        let Some(left_out) = table.left_out(self.width) else {
            return;
        };
        if self.said.contains(&left_out) {
            return;
        }
        self.sentence(Style::Dim, &left_out);
        self.said.push(left_out);
    }

    fn header(&mut self, report: &Report, summary: &[SummaryLine]) {
        self.push(Style::Bold, &shorten(&report.title(), self.width));
        self.setting(report);
        if !report.run.complete && !report.is_sampled() {
            let text = "the recording ends before the run: what follows covers what was written";
            self.paragraph(Style::Warning, "incomplete", text);
        }
        if report.run.lost_access_count > 0 {
            let text = format!(
                "{} accesses were dropped by the recorder",
                fields::run::lost_access_count.text(&report.run)
            );
            self.paragraph(Style::Warning, "lost", &text);
        }
        self.filtered(report);
        self.first_screen(report, summary);
    }

    fn run_facts(&mut self, report: &Report) {
        self.title("Run");
        let run = |field: Field<_>| field.text(&report.run);
        let machine = format!(
            "{} ({} CPUs, {} nodes, {}): {}",
            run(fields::run::machine),
            run(fields::run::cpu_count),
            run(fields::run::node_count),
            run(fields::run::clock_khz),
            run(fields::run::machine_description),
        );
        self.paragraph(Style::Plain, "machine", &machine);
        if let Some(events) = &report.run.sampled {
            match &report.watched {
                Some(watched) => self.watched(watched),
                None => self.sampled(events),
            }
            if report.has_call_chains {
                self.paragraph(Style::Plain, "called by", &CALLED_BY.clause());
            }
            return;
        }
        // A placement may name every CPU.
        let how = format!(
            "threads placed {}, window {} cycles, seed {}",
            shorten(&run(fields::run::placement), self.width / 2),
            run(fields::run::window_cycles),
            run(fields::run::seed)
        );
        self.paragraph(Style::Plain, "run", &how);
        if let Some(runs) = &report.runs {
            self.paragraph(Style::Plain, "runs", &runs.shown_text());
        }
    }

    /// Samples and watches of a running program.
    fn watched(&mut self, seen: &Watched) {
        let figure = |field: Field<_>| field.text(seen);
        let samples = format!(
            "{} of {} of CPU time in {}, {} with an address",
            figure(fields::watched::sample_count),
            figure(fields::watched::cpu_ns),
            figure(fields::watched::duration_ns),
            figure(fields::watched::addressed_share),
        );
        self.paragraph(Style::Plain, "samples", &samples);
        let watches = match seen.is_by_samples {
            true => {
                "nothing: lines are candidates, at which several threads were sampled".to_owned()
            }
            false => format!(
                "{} lines by debug registers, {} accesses seen",
                figure(fields::watched::watched_count),
                figure(fields::watched::hit_count),
            ),
        };
        self.paragraph(Style::Plain, "watched", &watches);
        if let Some(host) = &seen.host {
            self.paragraph(Style::Plain, "host", host);
        }
        let drawn = match seen.is_by_samples {
            true => "samples at them",
            false => "those that watches saw",
        };
        let drawn = format!(
            "accesses are drawn in proportion to {drawn}, the same number of each line; their latencies are the \
             machine model's"
        );
        self.paragraph(Style::Plain, "lines", &drawn);
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

    fn line_table(&mut self, report: &Report) {
        let order = by::order_text(report);
        self.title(&format!("Shared cache lines, by {order}"));
        if report.lines.is_empty() {
            self.push(Style::Plain, "  No line is contended.");
        } else {
            let mut table = line_table(report.is_sampled());
            let (large, small) = self.percent_limit.split_lines(report);
            large.iter().for_each(|line| table.push(line));
            by::push_lines(&mut table, &small, self.percent_limit);
            self.table(&table.table);
        }
        let quiet = &report.quiet;
        let figure = |field: Field<_>| field.text(quiet);
        if quiet.left_out_line_count > 0 {
            let text = if report.run.sampled.is_some() {
                format!(
                    "  {} more contended lines; --top shows more.",
                    figure(fields::quiet::left_out_line_count)
                )
            } else {
                format!(
                    "  {} more contended lines lost {} cycles; --top shows more.",
                    figure(fields::quiet::left_out_line_count),
                    figure(fields::quiet::left_out_lost_cycles)
                )
            };
            self.sentence(Style::Plain, &text);
        }
        if quiet.line_count > 0 {
            let text = if report.run.sampled.is_some() {
                format!(
                    "  {} lines have too few contended samples for a verdict or to matter.",
                    figure(fields::quiet::line_count)
                )
            } else {
                format!(
                    "  {} lines changed hands too rarely to matter and lost {} cycles.",
                    figure(fields::quiet::line_count),
                    figure(fields::quiet::lost_cycles)
                )
            };
            self.sentence(Style::Plain, &text);
        }
    }

    fn threads(&mut self, report: &Report) {
        self.title("Threads, in virtual cycles");
        let cost = |thread: &ThreadSummary| (Reverse(thread.lost_cycles), thread.thread);
        self.costliest(THREAD_COLUMNS, &report.threads, "threads", cost);
    }

    fn processes(&mut self, report: &Report) {
        if report.processes.is_empty() {
            return;
        }
        self.title("Processes");
        let cost = |process: &ProcessSummary| {
            let cost = (process.lost_cycles, process.instruction_count);
            (Reverse(cost), process.process)
        };
        self.costliest(PROCESS_COLUMNS, &report.processes, "processes", cost);
    }

    /// A table of items; of many, those that cost most.
    fn costliest<T, K: Ord>(
        &mut self,
        columns: &[Shows<T>],
        items: &[T],
        what: &str,
        cost: impl Fn(&T) -> K,
    ) {
        let mut shown: Vec<&T> = items.iter().collect();
        if shown.len() > THREADS_MAX {
            shown.sort_by_key(|item| cost(item));
            shown.truncate(THREADS_MAX);
        }
        let mut table = FieldTable::new(columns);
        shown.iter().for_each(|item| table.push(item));
        self.table(&table.table);
        if items.len() > shown.len() {
            let (shown, all) = (shown.len(), items.len());
            let text = format!("  {shown} of {all} {what}, those that lost most.");
            self.sentence(Style::Plain, &text);
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
