//! The answer of `hitm whatif` as text.

use hitm_base::grouped;
use hitm_whatif::{LineChange, MemberChange, MovedObject, ObjectKind};

use super::style::Style;
use super::table::{Align, Column, FieldTable, Shows, Table, gives_way, shorten, stays};
use super::{TextOptions, Writer};
use crate::Printout;
use crate::fields::{
    Field, Unit, Value, whatif_line, whatif_member, whatif_move, whatif_object, whatif_run,
    whatif_thread,
};
use crate::whatif::{ThreadView, WhatifView};

const THREAD_COLUMNS: &[Shows<ThreadView>] = &[
    stays(whatif_thread::thread),
    stays(whatif_thread::name),
    gives_way(1, whatif_thread::instruction_count),
    stays(whatif_thread::cycles_before),
    stays(whatif_thread::cycles_after),
    gives_way(2, whatif_thread::cycles_change),
    gives_way(3, whatif_thread::lost_cycles_before),
    gives_way(4, whatif_thread::lost_cycles_after),
];
const ITERATION_COLUMNS: &[Shows<ThreadView>] = &[
    stays(whatif_thread::cycles_per_iteration_before),
    stays(whatif_thread::cycles_per_iteration_after),
];
const LINE_COLUMNS: &[Shows<LineChange>] = &[
    stays(whatif_line::name),
    gives_way(2, whatif_line::address),
    gives_way(1, whatif_line::line_of_object),
    gives_way(3, whatif_line::access_count_before),
    gives_way(4, whatif_line::access_count_after),
    gives_way(5, whatif_line::hitm_count_before),
    gives_way(6, whatif_line::hitm_count_after),
    stays(whatif_line::lost_cycles_before),
    stays(whatif_line::lost_cycles_after),
];
const MEMBER_COLUMNS: &[Shows<MemberChange>] = &[
    stays(whatif_member::r#struct),
    stays(whatif_member::member),
    stays(whatif_member::offset_before_bytes),
    stays(whatif_member::offset_after_bytes),
    gives_way(1, whatif_member::access_count_before),
    gives_way(2, whatif_member::access_count_after),
    gives_way(3, whatif_member::hitm_count_before),
    gives_way(4, whatif_member::hitm_count_after),
    stays(whatif_member::lost_cycles_before),
    stays(whatif_member::lost_cycles_after),
];
const OBJECT_COLUMNS: &[Field<MovedObject>] = &[
    whatif_object::name,
    whatif_object::r#struct,
    whatif_object::kind,
    whatif_object::moved_access_count,
    whatif_object::address,
    whatif_object::element_count,
    whatif_object::size_before_bytes,
    whatif_object::size_after_bytes,
];

/// The whole answer.
pub fn render(view: &WhatifView, options: &TextOptions) -> Printout {
    let mut writer = Writer::new(options);
    writer.whatif_runs(view);
    writer.whatif_threads(view);
    writer.whatif_lines(view);
    writer.whatif_members(view);
    if !view.report.notes.is_empty() {
        writer.title("Notes");
        for note in &view.report.notes {
            writer.paragraph(Style::Warning, "note", note);
        }
    }
    writer.out
}

impl Writer {
    /// The two runs, a quantity a line.
    fn whatif_runs(&mut self, view: &WhatifView) {
        let command = shorten(&view.report.command.join(" "), self.width - 13);
        self.push(Style::Bold, &format!("hitm whatif: {command}"));
        if !view.report.layouts.is_empty() {
            let layouts = view.report.layouts.join(", ");
            self.paragraph(Style::Plain, "layout", &layouts);
        }
        let heads = [
            ("", Align::Left),
            ("before", Align::Right),
            ("after", Align::Right),
            ("change", Align::Right),
        ];
        let heads = heads.map(|(title, align)| Column::new(title, align));
        let mut table = Table::new(heads.into());
        let run = &view.run;
        for field in whatif_run::ALL {
            let [before, after] = [&run.before, &run.after].map(|side| (field.value)(side));
            if field.title.is_empty() || (before == Value::Missing && after == Value::Missing) {
                continue;
            }
            let change = match field.unit {
                Unit::Count | Unit::Cycles => change(&before, &after),
                _ => String::new(),
            };
            let texts = match field.is(&whatif_run::cycles_per_iteration) {
                // Two digits more than a count needs.
                true => [&before, &after].map(|value| match value {
                    Value::Number(number) => format!("{number:.2}"),
                    _ => "-".to_owned(),
                }),
                false => [field.text(&run.before), field.text(&run.after)],
            };
            // A placement names every CPU.
            let [before, after] = texts.map(|text| shorten(&text, self.width / 3));
            table.push(vec![field.title.to_owned(), before, after, change]);
        }
        self.table(&table);
    }

    fn whatif_threads(&mut self, view: &WhatifView) {
        self.title("Threads, in virtual cycles");
        let iterates = view
            .threads
            .iter()
            .any(|thread| thread.cycles_per_iteration.is_some());
        let extra = if iterates { ITERATION_COLUMNS } else { &[] };
        let mut table = FieldTable::new(THREAD_COLUMNS.iter().chain(extra));
        let mut shown: Vec<_> = view.threads.iter().collect();
        shown.sort_by_key(|thread| {
            let cycles = thread.change.cycles;
            (
                std::cmp::Reverse(cycles.before.max(cycles.after)),
                thread.change.thread,
            )
        });
        shown.truncate(super::THREADS_MAX);
        shown.sort_by_key(|thread| thread.change.thread);
        shown.iter().for_each(|thread| table.push(thread));
        self.table(&table.table);
        if view.threads.len() > shown.len() {
            let text = format!(
                "  {} of {} threads, those that ran longest.",
                shown.len(),
                view.threads.len()
            );
            self.sentence(Style::Plain, &text);
        }
    }

    fn whatif_lines(&mut self, view: &WhatifView) {
        self.title("Contended cache lines, by cycles lost in either run");
        if view.report.lines.is_empty() {
            self.push(Style::Plain, "  No line is contended.");
            return;
        }
        let mut table = FieldTable::new(LINE_COLUMNS);
        view.report.lines.iter().for_each(|line| table.push(line));
        self.table(&table.table);
        if view.left_out.0 > 0 {
            let text = format!(
                "  {} more contended lines; --top shows more.",
                view.left_out.0
            );
            self.sentence(Style::Plain, &text);
        }
    }

    fn whatif_members(&mut self, view: &WhatifView) {
        let report = &view.report;
        if report.objects.is_empty() {
            return;
        }
        self.title("Moved members");
        let mut table = FieldTable::new(MEMBER_COLUMNS);
        let is_used = |member: &&MemberChange| {
            member.sums.before.accesses > 0 || member.sums.after.accesses > 0
        };
        report
            .members
            .iter()
            .filter(is_used)
            .for_each(|member| table.push(member));
        self.table(&table.table);
        let unused = report
            .members
            .iter()
            .filter(|member| !is_used(member))
            .count();
        if unused > 0 {
            let text = format!("  {unused} members without recorded accesses.");
            self.sentence(Style::Plain, &text);
        }
        self.title("Moved objects");
        let mut table = FieldTable::new(OBJECT_COLUMNS);
        report.objects.iter().for_each(|object| table.push(object));
        self.table(&table.table);
        if view.left_out.1 > 0 {
            let text = format!("  {} more objects; --top shows more.", view.left_out.1);
            self.sentence(Style::Plain, &text);
        }
        let figure = |field: Field<_>| field.text(&report.moves);
        let kinds = ObjectKind::ALL.map(|kind| (report.moves.objects_of(kind), kind));
        let kinds = kinds.into_iter().filter(|(count, _)| *count > 0);
        let kinds: Vec<String> = kinds
            .map(|(count, kind)| format!("{} {}", grouped(count), phrase(kind, count)))
            .collect();
        let text = format!(
            "  Moved objects: {} ({}).",
            figure(whatif_move::object_count),
            kinds.join(", ")
        );
        self.sentence(Style::Plain, &text);
        let text = format!(
            "  {} accesses moved, {} of them in holes; {} were split.",
            figure(whatif_move::moved_access_count),
            figure(whatif_move::hole_access_count),
            figure(whatif_move::split_access_count)
        );
        self.sentence(Style::Plain, &text);
    }
}

/// Says how objects are known, after their number.
fn phrase(kind: ObjectKind, count: u64) -> &'static str {
    match (kind, count) {
        (ObjectKind::Walked, _) => "walked",
        (ObjectKind::Slab, _) => "in slabs",
        (ObjectKind::Variable, 1) => "variable",
        (ObjectKind::Variable, _) => "variables",
        (ObjectKind::Heap, 1) => "heap block",
        (ObjectKind::Heap, _) => "heap blocks",
    }
}

/// The growth from one number to another, with its sign.
fn change(before: &Value, after: &Value) -> String {
    let number = |value: &Value| match value {
        Value::Whole(number) => Some(*number as f64),
        Value::Number(number) => Some(*number),
        _ => None,
    };
    match (number(before), number(after)) {
        (Some(before), Some(after)) if before > 0.0 => {
            format!("{:+.1}%", (after / before - 1.0) * 100.0)
        }
        _ => String::new(),
    }
}
