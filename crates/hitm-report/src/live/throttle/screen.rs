//! Tables and details of throttled groups, for a view that shows one row in one line.

use hitm_fields::Field;
use hitm_live::throttle::{GroupRow, TaskRow, ThrottleReport, group_row, task_row};

use super::text::{held_text, losses};
use crate::Printout;
use crate::live::Window;
use crate::live::screen::{WIDE, paragraph};
use crate::live::screen::{figures, rows};

const GROUPS: &[Field<GroupRow>] = &[
    group_row::total_ns,
    group_row::throttled_share,
    group_row::quota_cpus,
    group_row::p99_ns,
    group_row::longest_ns,
    group_row::cpu_stat_throttled_ns,
    group_row::path,
];
const GROUPS_WIDE: &[Field<GroupRow>] = &[
    group_row::total_ns,
    group_row::quota_ns,
    group_row::timer_ns,
    group_row::ipi_ns,
    group_row::cpu_ns,
    group_row::throttled_share,
    group_row::quota_cpus,
    group_row::p99_ns,
    group_row::longest_ns,
    group_row::cpu_stat_throttled_ns,
    group_row::path,
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
        let columns = match (self.has_causes(), width < WIDE) {
            (false, _) => COUNTED_GROUPS,
            (true, true) => GROUPS,
            (true, false) => GROUPS_WIDE,
        };
        rows(columns, &self.groups, width)
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
