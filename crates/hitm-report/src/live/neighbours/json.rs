//! The report as JSON; docs/formats/live.md describes the members. Times are nanoseconds.

use hitm_live::neighbours::{
    NeighbourReport, WaitingGroup, group_taker, neighbour_report, process_taker, waiting_group,
};

use crate::object::{Node, Object, list};

/// Rises when a member changes its meaning or disappears.
const SCHEMA: u32 = 1;

/// The report as one JSON object.
pub fn json(report: &NeighbourReport) -> String {
    let groups = report.groups.iter().map(group).collect::<Node>();
    let all = Object::default().with("schema", SCHEMA);
    let all = all.and(Object::of(neighbour_report::ALL, report));
    all.with("groups", groups).text()
}

fn group(group: &WaitingGroup) -> Object {
    Object::of(waiting_group::ALL, group)
        .with("takers", list(group_taker::ALL, &group.takers))
        .with("processes", list(process_taker::ALL, &group.processes))
}
