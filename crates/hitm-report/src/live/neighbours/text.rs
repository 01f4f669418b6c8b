//! The report as text.

use hitm_base::{grouped, printable};
use hitm_live::neighbours::{
    GroupTaker, NeighbourReport, ProcessTaker, WaitingGroup, group_taker, process_taker,
    waiting_group,
};

use crate::Printout;
use crate::live::fixed::{Fixed, first_rows, head, row, span};

/// Groups that are shown closely.
const CLOSE_MAX: usize = 3;
/// Processes that are shown of each.
const PROCESSES_MAX: usize = 5;

const GROUPS: &[Fixed<WaitingGroup>] = &[
    Fixed::new(waiting_group::waited_ns, 9),
    Fixed::new(waiting_group::others_ns, 9),
    Fixed::new(waiting_group::own_ns, 9),
    Fixed::new(waiting_group::quota_ns, 9),
    Fixed::new(waiting_group::idle_ns, 9),
    Fixed::new(waiting_group::interrupt_ns, 10),
    Fixed::new(waiting_group::steal_ns, 9),
];
const TAKERS: &[Fixed<GroupTaker>] = &[
    Fixed::new(group_taker::ns, 9),
    Fixed::new(group_taker::share, 8),
];
const PROCESSES: &[Fixed<ProcessTaker>] = &[
    Fixed::new(process_taker::ns, 9),
    Fixed::new(process_taker::pid, 8),
    Fixed::new(process_taker::comm, 15),
];

/// Shows the report to people.
pub fn text(report: &NeighbourReport) -> Printout {
    let mut out = Printout::new();
    let waited_ns: u64 = report.groups.iter().map(|group| group.waited_ns).sum();
    out.line(&format!(
        "Ready without a CPU in {}, by BPF programs: {} in all, each task's time counted.",
        span(report.duration_ns),
        span(waited_ns)
    ));
    if !report.groups.is_empty() {
        out.blank();
        out.line(&format!("{} group", head(GROUPS)));
        first_rows(&mut out, &report.groups, |group| {
            let name = named(&group.path, group.container.as_deref());
            format!("{} {name}", row(GROUPS, group))
        });
    }
    for group in report.groups.iter().take(CLOSE_MAX) {
        takers(&mut out, group);
    }
    notes(report).iter().for_each(|note| out.line(note));
    out
}

/// A group by its folder, with the container that it is.
fn named(path: &str, container: Option<&str>) -> String {
    match container {
        Some(container) => format!("{} ({})", printable(path), printable(container)),
        None => printable(path).into_owned(),
    }
}

fn takers(out: &mut Printout, group: &WaitingGroup) {
    if group.takers.is_empty() {
        return;
    }
    out.blank();
    out.line(&format!(
        "These ran while {} waited:",
        printable(&group.path)
    ));
    out.line(&format!("{} group", head(TAKERS)));
    first_rows(out, &group.takers, |taker| {
        let name = named(&taker.path, taker.container.as_deref());
        format!("{} {name}", row(TAKERS, taker))
    });
    out.line(&format!("{} group", head(PROCESSES)));
    for taker in group.processes.iter().take(PROCESSES_MAX) {
        out.line(&format!(
            "{} {}",
            row(PROCESSES, taker),
            printable(&taker.path)
        ));
    }
}

/// Sentences on what is not known, and on what was lost.
fn notes(report: &NeighbourReport) -> Vec<String> {
    let mut notes = Vec::new();
    let lacks = |is_lacking: fn(&WaitingGroup) -> bool| report.groups.iter().any(is_lacking);
    if lacks(|group| group.interrupt_ns.is_none()) {
        notes.push(
            "This kernel does not count the time of interrupts (CONFIG_IRQ_TIME_ACCOUNTING): it is with the tasks \
             that were interrupted."
                .to_owned(),
        );
    }
    if lacks(|group| group.steal_ns.is_none()) {
        notes.push(
            "This kernel does not count stolen time (CONFIG_PARAVIRT_TIME_ACCOUNTING): it is with the tasks that ran."
                .to_owned(),
        );
    }
    let losses = [
        (
            report.lost_places,
            "waits were lost: 64 groups waited on one CPU",
        ),
        (
            report.lost_tasks,
            "waits were lost: the kernel had no memory for them",
        ),
        (report.lost_rows, "times were lost: 16,384 rows have takers"),
    ];
    let losses = losses.into_iter().filter(|(count, _)| *count > 0);
    notes.extend(losses.map(|(count, what)| format!("{} {what}.", grouped(count))));
    match notes.is_empty() {
        true => notes,
        false => [vec![String::new()], notes].concat(),
    }
}
