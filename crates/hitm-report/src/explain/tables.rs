//! Every table of fields, and the document that has it.

use hitm_live::neighbours::{group_taker, neighbour_report, process_taker, waiting_group};
use hitm_live::place::prove::{measurement, proof, spread};
use hitm_live::place::{
    domain_of_cpus, left_out, obstacle, placeable, placed, planned, status, status_task, undone,
};
use hitm_live::rt::{cpu_choice, late_thread, rt_run, thread_sample, thread_starts};
use hitm_live::throttle::{group_row, task_row};
use hitm_live::wakeups::{run_delay, task_latencies};

use super::{condition, meaning};
use crate::fields::{self, Column, Field};
use crate::fix;
use crate::live;
use crate::sim::fields as sim;

/// The fields of one kind of record, and the document that has them as a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldsOf {
    /// The document, by its name without a folder.
    pub document: &'static str,
    /// The heading of the section that has the table, or a name for the record.
    pub heading: &'static str,
    /// The fields in their order.
    pub columns: Vec<Column>,
    /// Ids of the columns that samples do not have.
    pub recorded: Vec<&'static str>,
}

fn table<T>(document: &'static str, heading: &'static str, fields: &[Field<T>]) -> FieldsOf {
    FieldsOf {
        document,
        heading,
        columns: fields.iter().map(Field::column).collect(),
        recorded: fields
            .iter()
            .filter(|field| !field.is_of(true))
            .map(|field| field.id)
            .collect(),
    }
}

/// Every table of fields.
pub fn tables() -> Vec<FieldsOf> {
    let mut all = documented();
    all.extend(of_placing());
    all
}

/// The tables that docs/formats has.
pub fn documented() -> Vec<FieldsOf> {
    let documents = [
        of_reports(),
        of_pages(),
        of_hosts(),
        of_changes(),
        of_models(),
        of_explanations(),
    ];
    documents.into_iter().flatten().collect()
}

fn of_reports() -> Vec<FieldsOf> {
    vec![
        table("report", "run", fields::run::ALL),
        table("report", "runs", fields::runs::ALL),
        table("report", "each run", fields::one_run::ALL),
        table("report", "members of runs", fields::member_runs::ALL),
        table("report", "totals", fields::totals::ALL),
        table("report", "counts", fields::source::ALL),
        table("report", "findings", fields::finding::ALL),
        table("report", "places", fields::finding_place::ALL),
        table("report", "pairs", fields::pair::ALL),
        table("report", "lines", fields::line::ALL),
        table("report", "fights", fields::fight::ALL),
        table("report", "objects", fields::object::ALL),
        table("report", "rows", fields::row::ALL),
        table("report", "call_paths", fields::call_path::ALL),
        table("report", "frames", fields::call_frame::ALL),
        table("report", "totals_by", fields::total_row::ALL),
        table("report", "filtered", fields::filtered::ALL),
        table("report", "quiet", fields::quiet::ALL),
        table("report", "handed_over", fields::handed::ALL),
        table("report", "objects and takers", fields::handed_row::ALL),
        table("report", "waiting", fields::waiting::ALL),
        table("report", "waits", fields::wait_row::ALL),
        table("report", "threads", fields::thread::ALL),
        table("report", "processes", fields::process::ALL),
        table("report", "of_machine", fields::machine::ALL),
        table("report", "watched", fields::watched::ALL),
        table("report", "unnamed", fields::unnamed::ALL),
        table("views", "Lines of a fleet", fields::fleet_row::ALL),
        table("ci", "compared", fields::compared::ALL),
        table("type", "type", fields::type_report::ALL),
        table("type", "lines", fields::type_line::ALL),
        table("type", "rows", fields::type_row::ALL),
        table("side-by-side", "rows", fields::side::ALL),
        table("compare", "runs", fields::run_cost::ALL),
        table("compare", "rows", fields::compared_row::ALL),
    ]
}

fn of_pages() -> Vec<FieldsOf> {
    vec![
        table("page", "summary", fields::summary::ALL),
        table("page", "boxes", fields::line_box::ALL),
        table("page", "seats", fields::seat::ALL),
        table("page", "cells", fields::cell::ALL),
        table("page", "transfers", fields::transfer::ALL),
        table("page", "unknown", fields::unknown::ALL),
        table("page", "frames", fields::frame::ALL),
        table("page", "stacks", fields::stack::ALL),
        table("page", "times", fields::time::ALL),
        table("page", "source lines", fields::source_line::ALL),
    ]
}

fn of_hosts() -> Vec<FieldsOf> {
    vec![
        table("live", "run", live::live_run::ALL),
        table("live", "locks", live::live_lock::ALL),
        table("live", "holders", live::live_holders::ALL),
        table("live", "takers of CPUs", live::live_taker::ALL),
        table("live", "chain", live::live_chain::ALL),
        table("live", "callers", live::live_caller::ALL),
        table("live", "threads", live::live_thread::ALL),
        table("live", "program", live::live_program::ALL),
        table("live", "locks of the program", live::live_program_lock::ALL),
        table("live", "throttled groups", group_row::ALL),
        table("live", "throttled tasks", task_row::ALL),
        table("live", "wake-ups", task_latencies::ALL),
        table("live", "run delays", run_delay::ALL),
        table("live", "neighbours", neighbour_report::ALL),
        table("live", "waiting groups", waiting_group::ALL),
        table("live", "takers", group_taker::ALL),
        table("live", "processes that took", process_taker::ALL),
        table("live", "load", live::whatif::live_load::ALL),
        table("live", "what-if rows", live::whatif::live_whatif::ALL),
    ]
}

fn of_changes() -> Vec<FieldsOf> {
    vec![
        table("layout", "The table of members", fields::layout_member::ALL),
        table("whatif", "run", fields::whatif_run::ALL),
        table("whatif", "threads", fields::whatif_thread::ALL),
        table("whatif", "lines", fields::whatif_line::ALL),
        table("whatif", "members", fields::whatif_member::ALL),
        table("whatif", "objects", fields::whatif_object::ALL),
        table("whatif", "moves", fields::whatif_move::ALL),
        table("fix", "fix", fix::fix::ALL),
        table("fix", "remedies", fix::fix_remedy::ALL),
        table("fix", "left", fix::fix_left::ALL),
        table("fix", "machines", fix::fix_machine::ALL),
        table("review", "review", fields::review::ALL),
        table("review", "types", fields::review_type::ALL),
        table("review", "costs", fields::review_cost::ALL),
        table("review", "lines", fields::review_line::ALL),
        table("review", "members", fields::review_member::ALL),
        table("review", "worse", fields::review_worse::ALL),
        table("review", "unmatched", fields::review_unmatched::ALL),
        table("review", "renamed", fields::review_rename::ALL),
        table("review", "coverage", fields::review_coverage::ALL),
    ]
}

fn of_models() -> Vec<FieldsOf> {
    vec![
        table("sweep", "run", fields::sweep_run::ALL),
        table("sweep", "keys", fields::sweep_key::ALL),
        table("sweep", "metrics", fields::sweep_metric::ALL),
        table("sweep", "effects", fields::sweep_effect::ALL),
        table("sweep", "failures", fields::sweep_failure::ALL),
        table("sim", "the scenario", sim::scenario::ALL),
        table("sim", "variants", sim::variant::ALL),
        table("sim", "metrics", sim::metric::ALL),
        table("sim", "runs", sim::outcome::ALL),
        table("sim", "cpus", sim::peak::ALL),
        table("sim", "lines", sim::line::ALL),
        table("sim", "rows", sim::row::ALL),
        table("sim", "comparisons", sim::comparison::ALL),
        table("sim", "crossing", sim::crossing::ALL),
        table("sim", "sensitivity", sim::varied::ALL),
        table("sim", "numbers", sim::number::ALL),
        table("sim", "figures", sim::figure::ALL),
        table("sim", "effects", sim::effect::ALL),
    ]
}

fn of_explanations() -> Vec<FieldsOf> {
    vec![
        table("explain", "meanings", meaning::ALL),
        table("explain", "conditions", condition::ALL),
    ]
}

/// Tables whose JSON docs/place.md and docs/live-scheduling.md show.
fn of_placing() -> Vec<FieldsOf> {
    vec![
        table("place", "plan", planned::ALL),
        table("place", "left out", left_out::ALL),
        table("place", "domain", domain_of_cpus::ALL),
        table("place", "obstacles", obstacle::ALL),
        table("place", "tasks", placeable::ALL),
        table("place", "placed", placed::ALL),
        table("place", "measurements", measurement::ALL),
        table("place", "spread", spread::ALL),
        table("place", "proof", proof::ALL),
        table("place", "status", status::ALL),
        table("place", "tasks of the status", status_task::ALL),
        table("place", "undone", undone::ALL),
        table("live-scheduling", "rt", rt_run::ALL),
        table("live-scheduling", "starts", thread_starts::ALL),
        table("live-scheduling", "samples", thread_sample::ALL),
        table("live-scheduling", "late threads", late_thread::ALL),
        table("live-scheduling", "CPUs", cpu_choice::ALL),
    ]
}
