//! Tables and details of throttled groups, for a view that shows one row in one line.

use hitm_fields::Field;
use hitm_live::throttle::{GroupRow, TaskRow, ThrottleReport, group_row, task_row};

use super::text::{held_text, losses};
use crate::Printout;
use crate::live::Window;
use crate::live::screen::{figures, paragraph, rows, wide_or_narrow};
use crate::text::table::{Shows, gives_way, stays};

const GROUPS: &[Shows<GroupRow>] = &[
    stays(group_row::total_ns),
    gives_way(1, group_row::quota_ns),
    gives_way(2, group_row::timer_ns),
    gives_way(3, group_row::ipi_ns),
    gives_way(4, group_row::cpu_ns),
    stays(group_row::throttled_share),
    stays(group_row::quota_cpus),
    stays(group_row::p99_ns),
    stays(group_row::longest_ns),
    stays(group_row::cpu_stat_throttled_ns),
    stays(group_row::path),
];
/// Without BPF.
const COUNTED_GROUPS: &[Field<GroupRow>] = &[
    group_row::cpu_stat_throttled_ns,
    group_row::throttled_share,
    group_row::quota_cpus,
    group_row::run_delay_ns,
    group_row::path,
];
const TASKS: &[Field<TaskRow>] = &[
    task_row::total_ns,
    task_row::quota_ns,
    task_row::timer_ns,
    task_row::ipi_ns,
    task_row::cpu_ns,
    task_row::longest_ns,
    task_row::tid,
    task_row::comm,
];

impl Window for ThrottleReport {
    fn row_count(&self) -> usize {
        self.groups.len()
    }

    fn key(&self, row: usize) -> Option<String> {
        Some(self.groups.get(row)?.path.clone())
    }

    fn rows(&self, width: usize) -> Printout {
        match self.has_causes() {
            true => rows(wide_or_narrow(GROUPS, width), &self.groups, width),
            false => rows(COUNTED_GROUPS, &self.groups, width),
        }
    }

    fn detail(&self, row: usize, width: usize) -> Printout {
        let group = self.groups.get(row);
        group.map_or_else(Printout::new, |group| detail(self, group, width))
    }

    fn nothing(&self) -> String {
        let limited = self.limited_groups;
        format!("No group was throttled; {limited} have a quota.")
    }

    fn notes(&self) -> Vec<String> {
        let missing = self.source.reason();
        let missing = missing.map(|reason| format!("not used: BPF programs: {reason}"));
        let mut notes: Vec<String> = missing.into_iter().chain(losses(self)).collect();
        if self.throttled_still > 0 {
            let still = self.throttled_still;
            notes.push(format!(
                "{still} tasks are throttled still: they count when they run again."
            ));
        }
        notes
    }
}

/// A group with its tasks, the locks that they held while they stood still, and all of its figures.
fn detail(report: &ThrottleReport, group: &GroupRow, width: usize) -> Printout {
    let mut out = paragraph(&format!("Group {}", group.path), width);
    let tasks = report.tasks.iter();
    let tasks = tasks.filter(|task| task.throttled_by == group.id);
    let tasks: Vec<TaskRow> = tasks.cloned().collect();
    if !tasks.is_empty() {
        out.blank();
        out.line("Tasks");
        out.append(&rows(TASKS, &tasks, width));
    }
    for held in &group.locks {
        out.append(&paragraph(&held_text(held), width));
    }
    figures(&mut out, group_row::ALL, group, width);
    out
}
