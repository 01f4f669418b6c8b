//! Outputs about this host: live and place.

use hitm_fields::Field;
use hitm_live::place::prove::{measurement, proof, spread};
use hitm_live::place::{
    domain_of_cpus, left_out, obstacle, placeable, placed, planned, status, status_task, undone,
};
use hitm_live::rt::{cpu_choice, late_thread, rt_run, thread_sample, thread_starts};
use hitm_live::throttle::{
    causes, episode, group_row, held_lock, task_row, throttle_counts, throttle_report, work_times,
};
use hitm_live::wakeups::{latencies, run_delay, task_latencies, wakeup_report, wakeup_table};

use super::Output;
use super::form::{Form, Members, list, or_null, rows};
use crate::live::lock_whatif::{live_lock_inputs, live_lock_whatif};
use crate::live::whatif::{live_load, live_whatif};
use crate::live::{
    live_caller, live_chain, live_holders, live_lock, live_program, live_program_lock, live_run,
    live_taker, live_thread,
};

pub(super) fn outputs() -> Vec<Output> {
    let of = Output::new;
    let live = "docs/formats/live.md";
    let scheduling = "docs/live-scheduling.md";
    let place = "docs/place.md";
    vec![
        of("live-locks", "hitm live locks --format json", live, locks()),
        of(
            "live-throttle",
            "hitm live throttle --format json",
            live,
            throttle(),
        ),
        of(
            "live-wakeups",
            "hitm live wakeups --format json",
            live,
            wakeups(),
        ),
        of("live-rt", "hitm live rt --format json", scheduling, rt()),
        of("place-plan", "hitm place plan --format json", place, plan()),
        of(
            "place-apply",
            "hitm place apply --format json",
            place,
            applied(),
        ),
        of(
            "place-undo",
            "hitm place undo --format json",
            place,
            undone_names(),
        ),
        of(
            "place-status",
            "hitm place status --format json",
            place,
            placements(),
        ),
    ]
}

fn versioned() -> Members {
    Members::default().with("schema", Form::Whole)
}

fn locks() -> Members {
    let program = Members::of(live_program::ALL).with("locks", rows(live_program_lock::ALL));
    let holders = Members::of(live_holders::ALL)
        .with("takers", rows(live_taker::ALL))
        .with("chain", rows(live_chain::ALL));
    let lock = Members::of(live_lock::ALL)
        .with("holders", or_null(holders))
        .with("callers", rows(live_caller::ALL))
        .with("threads", rows(live_thread::ALL));
    let change = Members::default().with_all(&["change", "reason"], &Form::Text);
    let what_if = Members::default()
        .with("inputs", or_null(Members::of(live_lock_inputs::ALL)))
        .with("preemption", or_null(Form::Text))
        .with("refused", or_null(Form::Text))
        .with("rows", rows(live_lock_whatif::ALL))
        .with("refused_changes", list(change));
    versioned()
        .with("run", Members::of(live_run::ALL))
        .with("locks", list(lock))
        .with("program", or_null(program))
        .with_some("what_if", what_if)
}

fn histogram() -> Form {
    list(Members::default().with_all(&["from_ns", "count"], &Form::Whole))
}

/// The fields of a table, those by cause in an object of their own.
fn with_causes<T>(fields: &[Field<T>]) -> Members {
    let keys: Vec<&str> = causes::ALL.iter().map(|cause| cause.id).collect();
    Members::of(fields)
        .without(&keys)
        .with("causes", Members::of(causes::ALL))
}

fn throttle() -> Members {
    let work = || Members::of(work_times::ALL).with("histogram", histogram());
    let group = with_causes(group_row::ALL)
        .with("longest", or_null(with_causes(episode::ALL)))
        .with("locks", rows(held_lock::ALL));
    let simulated = Members::of(live_whatif::ALL)
        .with("throttled_histogram", histogram())
        .with("timer_histogram", histogram());
    let what_if = Members::default()
        .with("load", Members::of(live_load::ALL))
        .with("refused", or_null(Form::Text))
        .with("rows", list(simulated));
    Members::of(throttle_report::ALL)
        .with("schema", Form::Whole)
        .with("period_timer", work())
        .with("slack_timer", work())
        .with("handlers", work())
        .with("groups", list(group))
        .with("tasks", list(with_causes(task_row::ALL)))
        .with("counts", Members::of(throttle_counts::ALL))
        .with_some("what_if", what_if)
}

/// Delays of tasks that wait to run stand in the place of wake-ups that cannot be seen.
fn wakeups() -> Members {
    let task = Members::of(task_latencies::ALL)
        .with("histogram", histogram())
        .partly();
    let task = Members::of(run_delay::ALL).partly().joined(task);
    let cpu = Members::of(latencies::ALL)
        .with("histogram", histogram())
        .with("cpu", Form::Whole);
    let table = Members::of(wakeup_table::ALL).partly();
    Members::of(wakeup_report::ALL)
        .with("schema", Form::Whole)
        .joined(table)
        .with("tasks", list(task))
        .with_some("cpus", list(cpu))
        .with_some("reason", Form::Text)
}

fn rt() -> Members {
    let late = Members::of(late_thread::ALL).with("could_have_run", rows(cpu_choice::ALL));
    Members::of(rt_run::ALL)
        .with("schema", Form::Whole)
        .with("threads", rows(thread_starts::ALL))
        .with("iterations", list(rows(thread_sample::ALL)))
        .with("late", list(late))
}

fn plan() -> Members {
    Members::of(planned::ALL)
        .with("schema", Form::Whole)
        .with("domain", or_null(Members::of(domain_of_cpus::ALL)))
        .with("tasks", rows(placeable::ALL))
        .with("left_out", rows(left_out::ALL))
        .with(
            "obstacles",
            list(Members::of(obstacle::ALL).with("backend", Form::Text)),
        )
}

fn applied() -> Members {
    let proof = Members::of(proof::ALL)
        .with("unit", Form::Text)
        .with("min_gain", Form::Number)
        .with("measurements", rows(measurement::ALL))
        .with("without", Members::of(spread::ALL))
        .with("placed", Members::of(spread::ALL));
    let change = Members::default()
        .with("at_ms", Form::Whole)
        .with("change", Form::Text)
        .with_some("reason", Form::Text)
        .with_some("waiting", Form::Number)
        .with_some("plan", plan())
        .with_some("undone", Members::of(undone::ALL));
    versioned()
        .with_some("plan", plan())
        .with_some("proof", proof)
        .with_some("placed", Members::of(placed::ALL))
        .with_some("guard", Form::Any)
        .with_some("changes", list(change))
        .with_some("undone", Members::of(undone::ALL))
}

fn undone_names() -> Members {
    versioned().with("undone", list(Form::Text))
}

fn placements() -> Members {
    let one = Members::of(status::ALL).with("tasks", rows(status_task::ALL));
    versioned().with("placements", list(one))
}
