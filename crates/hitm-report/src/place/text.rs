//! Plans, placements and proofs as text.

use hitm_base::{counted, with_note};
use hitm_live::place::prove::Spread;
use hitm_live::place::{
    Backend, Decision, Placed, Plan, Recovered, Status, StatusTask, Task, Undone,
};

use super::{Change, Event, Proven};
use crate::Printout;

/// Threads that a plan or a status lists one by one.
const ROWS_MAX: usize = 20;

/// A plan, with its threads and with what is not done.
pub fn plan(plan: &Plan) -> Printout {
    let mut out = Printout::new();
    out.line(&format!("Placement for {}", plan.name));
    let share = plan.lock_share * 100.0;
    let needed = plan.needed_cpus;
    out.line(&format!(
        "  held {share:.1} % of a thread's time: {needed} CPUs can be of use"
    ));
    out.line(&format!(
        "  allowed to all of the threads: CPUs {}",
        plan.allowed_cpus
    ));
    if let Some(cpus) = plan.quota_cpus {
        out.line(&format!(
            "  their quotas are worth {}",
            counted(cpus as u64, "CPU")
        ));
    }
    match &plan.decision {
        Decision::Place(domain) => {
            let (level, all, cpus) = (domain.level, &domain.all_cpus, &domain.cpus);
            let part = match all == cpus {
                true => String::new(),
                false => format!(" (of its CPUs {all})"),
            };
            out.line(&format!("  domain: {level}, CPUs {cpus}{part}"));
            out.line(&format!("  means: {}", means(plan.backend)));
            out.line(&format!("  kept out: {}", kept_out(plan)));
        }
        Decision::Stay(reason) => out.line(&format!("  nothing to do: {reason}")),
    }
    rows(&mut out, plan);
    would_not(&mut out, plan);
    out
}

fn means(backend: Option<Backend>) -> String {
    let Some(backend) = backend else {
        return String::from("none");
    };
    let explained = match backend {
        Backend::CpusetV2 => {
            "a threaded child cgroup, which holds new threads and children as well"
        }
        Backend::CpusetV1 => "a child cpuset, which holds new threads and children as well",
        Backend::Affinity => "a mask for each thread, which new threads and children inherit",
    };
    format!("{} ({explained})", backend.id())
}

fn kept_out(plan: &Plan) -> &'static str {
    match (plan.keeps_others_out, plan.backend) {
        (true, Some(Backend::CpusetV2)) => "all threads of other cgroups, by a partition",
        (true, Some(Backend::CpusetV1)) => "all other threads of the same cpuset but the kernel's",
        _ => "nobody: other threads may still run on these CPUs (--keep-others-out)",
    }
}

fn rows(out: &mut Printout, plan: &Plan) {
    let new = match plan.follows_new_threads {
        true => ", and those that their processes make meanwhile",
        false => "",
    };
    out.line(&format!(
        "In: {}{new}",
        counted(plan.tasks.len() as u64, "thread")
    ));
    let row = |task: &Task| {
        let (tid, name, cpus) = (task.id.tid, &task.name, &task.mask.cpus);
        format!(
            "  {tid:>7}  {name}  may run on {cpus}, ran on {} last",
            task.cpu
        )
    };
    limited(out, plan.tasks.iter().map(row).collect());
}

fn would_not(out: &mut Printout, plan: &Plan) {
    let left = plan.left_out.iter();
    let left = left.map(|left| format!("  task {} {}: {}", left.tid, left.name, left.reason));
    let means = plan.obstacles.iter();
    let means = means.map(|(backend, why)| format!("  means {}: {}", backend.id(), why.reason));
    let lines: Vec<String> = means.chain(left).collect();
    if !lines.is_empty() {
        out.line("Not done, and why:");
        limited(out, lines);
    }
}

fn limited(out: &mut Printout, lines: Vec<String>) {
    let more = lines.len().saturating_sub(ROWS_MAX);
    for line in lines.iter().take(ROWS_MAX) {
        out.line(line);
    }
    if more > 0 {
        out.line(&format!("  and {more} more (--format json lists all)"));
    }
}

/// One line on threads that are placed, and what ends that.
pub fn applied_line(placed: Placed, end: &str) -> String {
    let ended = match placed.ended {
        0 => String::new(),
        ended => format!(", {ended} had ended"),
    };
    format!(
        "placed {}{ended}; {end}",
        counted(placed.placed as u64, "thread")
    )
}

/// One line on threads that were placed.
pub fn placed_line(plan: &Plan) -> String {
    let threads = counted(plan.tasks.len() as u64, "thread");
    let (name, share) = (&plan.name, plan.lock_share * 100.0);
    let domain = plan.decision.domain();
    let cpus = domain.map_or(String::new(), |domain| domain.cpus.to_string());
    let means = plan.backend.map_or("", Backend::id);
    format!(
        "placed {threads} on CPUs {cpus} by {means} for {name}: held {share:.1} % of a thread's time"
    )
}

/// One line on a change that a watch made.
pub fn change_line(change: &Change) -> String {
    let text = match &change.event {
        Event::Undone => "undone by somebody else".to_owned(),
        Event::Stayed(reason) => format!("nothing is placed: {reason}"),
        Event::Placed { waiting, plan } => format!("{}, {waiting:.1} waited", placed_line(plan)),
        Event::Released { name, undone } => {
            format!("calm, released {name}: {}", undone_line(undone))
        }
    };
    format!("{:7.1} s  {text}", change.at.as_secs_f64())
}

/// Threads that were put back, in one line.
pub fn undone_line(undone: &Undone) -> String {
    let verb = if undone.restored == 1 {
        "is as it was"
    } else {
        "are as they were"
    };
    let mut parts = vec![format!(
        "{} {verb}",
        counted(undone.restored as u64, "thread")
    )];
    let mut add = |count: usize, what: &str| {
        if count > 0 {
            parts.push(format!("{count} {what}"));
        }
    };
    add(undone.inherited, "that began meanwhile got the same");
    add(undone.ended, "have ended");
    add(undone.changed, "keep a mask that somebody else gave them");
    if !undone.unclear.is_empty() {
        parts.push(format!(
            "{} began meanwhile, may have chosen the same CPUs and keep them: {}",
            counted(undone.unclear.len() as u64, "task"),
            undone.unclear.join(" ")
        ));
    }
    parts.join(", ")
}

/// Names of placements that were undone.
pub fn undone_all(names: &[String]) -> Printout {
    let mut out = Printout::new();
    if names.is_empty() {
        out.line("Nothing is placed.");
    }
    for name in names {
        out.line(&format!("Undone: the placement for {name}"));
    }
    out
}

/// Messages on placements of processes that had died.
pub fn recovered(recovered: &Recovered) -> Vec<String> {
    let mut notes = Vec::new();
    for (name, done) in &recovered.undone {
        notes.push(format!(
            "undid the placement for {name}, whose process and guard had died: {}",
            undone_line(done)
        ));
    }
    notes.extend(problems(recovered));
    if recovered.discarded > 0 {
        notes.push(format!(
            "dropped {} journals of placements that ended with an earlier boot",
            recovered.discarded
        ));
    }
    notes
}

/// Problems that are left of them.
pub fn problems(recovered: &Recovered) -> Vec<String> {
    let undone = recovered.undone.iter();
    let problems = undone.flat_map(|(_, undone)| undone.problems.iter().cloned());
    let damaged = recovered.damaged.iter();
    let damaged = damaged.map(|error| format!("a damaged journal stays: {error}"));
    problems.chain(damaged).collect()
}

/// Placements that are there. `now` is in seconds since 1970, and `name_of` names a process.
pub fn status(all: &[Status], now: u64, name_of: &dyn Fn(u32) -> String) -> Printout {
    let mut out = Printout::new();
    if all.is_empty() {
        out.line("Nothing is placed.");
    }
    for status in all {
        let head = &status.journal.head;
        let seconds = now.saturating_sub(head.since);
        let (cpus, means) = (&head.cpus, head.backend.id());
        out.line(&format!(
            "{}: CPUs {cpus} by {means} for {seconds} s",
            head.name
        ));
        let tool = head.tool.tid;
        let by = match status.has_tool {
            true => with_note(&format!("process {tool}"), &name_of(tool)),
            false => format!("process {tool}, which has ended"),
        };
        one_status(&mut out, status, &by);
    }
    out
}

fn one_status(out: &mut Printout, status: &Status, by: &str) {
    let guard = match (status.journal.guard(), status.has_guard) {
        (Some(guard), true) => format!("guard {}", guard.tid),
        _ => String::from("no guard"),
    };
    out.line(&format!(
        "  by {by}; {guard}; journal {}",
        status.path.display()
    ));
    let ended = match status.ended {
        0 => String::new(),
        ended => format!(", {ended} have ended"),
    };
    out.line(&format!(
        "  {}{ended}",
        counted(status.tasks.len() as u64, "thread")
    ));
    let row = |task: &StatusTask| {
        let (tid, name) = (task.tid, &task.name);
        let (before, cpus) = (&task.cpus_before, &task.cpus);
        let change = match before == cpus {
            true => format!("{cpus}, as before"),
            false => format!("{before} -> {cpus}"),
        };
        format!("  {tid:>7}  {name}  {change}")
    };
    limited(out, status.tasks.iter().map(row).collect());
}

/// A proof, interval by interval.
pub fn proof(proven: &Proven) -> Printout {
    let mut out = Printout::new();
    let (proof, unit) = (&proven.proof, &proven.unit);
    out.line(&format!("Proof by {unit}, a second"));
    for (index, one) in proof.measurements.iter().enumerate() {
        let kind = if one.is_placed { "placed " } else { "without" };
        out.line(&format!("  {:>3}  {kind}  {}", index + 1, rate(one.rate)));
    }
    let line = |spread: &Spread| {
        let (median, min, max) = (rate(spread.median), rate(spread.min), rate(spread.max));
        format!("median {median} ({min} to {max})")
    };
    out.line(&format!("  without: {}", line(&proof.without)));
    out.line(&format!("  placed:  {}", line(&proof.placed)));
    let (gain, min_gain) = (proof.gain * 100.0, proven.min_gain * 100.0);
    let kept = match proof.is_better {
        true => "the placement stays",
        false => "the placement is undone",
    };
    out.line(&format!(
        "  {gain:+.1} %, at least {min_gain:+.1} % asked for: {kept}"
    ));
    out
}

fn rate(rate: f64) -> String {
    match rate.abs() >= 1000.0 {
        true => format!("{rate:.0}"),
        false => format!("{rate:.2}"),
    }
}
