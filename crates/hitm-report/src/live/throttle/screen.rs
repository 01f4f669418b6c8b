//! Tables and details of throttled groups, for a view that shows one row in one line.

use hitm_base::Printout;
use hitm_fields::Field;
use hitm_live::throttle::{GroupRow, TaskRow, ThrottleReport, group_row, task_row};

use super::text::held_text;
use crate::live::declared::{figures, rows};
use crate::live::screen::{WIDE, paragraph};

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

/// A row for each throttled group.
pub fn group_rows(report: &ThrottleReport, width: usize) -> Printout {
    let columns = match (report.has_causes(), width < WIDE) {
        (false, _) => COUNTED_GROUPS,
        (true, true) => GROUPS,
        (true, false) => GROUPS_WIDE,
    };
    rows(columns, &report.groups, width)
}

/// A group with its tasks, the locks that they held while they stood still, and all of its figures.
pub fn group_detail(group: &GroupRow, tasks: &[TaskRow], width: usize) -> Printout {
    let mut out = paragraph(&format!("Group {}", group.path), width);
    if !tasks.is_empty() {
        out.blank();
        out.line("Tasks");
        out.append(&rows(TASKS, tasks, width));
    }
    for held in &group.locks {
        out.append(&paragraph(&held_text(held), width));
    }
    figures(&mut out, group_row::ALL, group, width);
    out
}
