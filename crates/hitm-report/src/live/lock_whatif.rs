//! A spin lock's load as it was measured, and as the simulator has it under other settings.

use hitm::live::{KernelHere, LockAnswer, LockInputs, LockWhatIf};
use hitm_base::printable;
use hitm_fields::fields;
use serde_json::Value as Json;

use super::whatif::too_far_off;
use crate::Printout;
use crate::fields::Field;
use crate::live::screen;
use crate::object::{Node, Object};

fields! {
    /// Of a spin lock under one setting.
    pub live_lock_whatif for LockAnswer {
        /// Measured, simulated with the costs of hitm's watch, as it is without them, or with a change.
        label => name "", |row| &row.label;
        /// Times a second that a thread takes the lock.
        takes_per_s => decimal "takes/s", |row| row.run.takes_per_s;
        /// The least of them, over seeds and the errors of what was measured.
        takes_per_s_min => decimal "least", |row| row.takes_per_s.map(|all| all.least);
        /// The most of them.
        takes_per_s_max => decimal "most", |row| row.takes_per_s.map(|all| all.most);
        /// Gain in takes over the lock as it is.
        gain_share => share "gain", |row| row.gain.map(|gain| gain.mean);
        /// The least of it, run by run.
        gain_share_min => share "gain least", |row| row.gain.map(|gain| gain.least);
        /// The most of it.
        gain_share_max => share "gain most", |row| row.gain.map(|gain| gain.most);
        /// Part of the threads' CPU time in which they wait for the lock.
        spinning_share => share "spinning", |row| row.run.spinning;
        /// Part of the waiting in which the holder runs, outside of page faults.
        holder_running_share => share "running", |row| row.run.states[0];
        /// Part of the waiting in which the holder is in a page fault.
        holder_faulting_share => share "faulting", |row| row.run.states[1];
        /// Part of the waiting in which the holder wants a CPU and has none: it is preempted or throttled.
        holder_off_cpu_share => share "off CPU", |row| row.run.states[2];
        /// Part of the waiting in which the holder sleeps or wakes up, or nobody has the lock.
        holder_away_share => share "away", |row| row.run.states[3];
    }
}

fields! {
    /// Of the inputs of a simulated spin lock. Times are of one use of the lock.
    pub live_lock_inputs for LockInputs {
        /// The lock.
        lock => name "lock", |all| &all.title;
        /// Threads that take it.
        thread_count => count "threads", |all| all.threads.len();
        /// CPU time of the holder, without page faults and with what the watch adds.
        hold_ns => nanos "hold", |all| all.hold_ns as u64;
        /// Part of it that the watch adds.
        watch_ns => nanos "of the watch", |all| all.watch_ns as u64;
        /// Two standard errors of the time held.
        hold_error_share => share "+- of the hold", |all| all.hold_error;
        /// Page faults under the lock.
        faults => decimal "page faults", |all| all.faults;
        /// Cost of one of them while hitm observes them.
        observed_fault_ns => nanos "a fault, observed", |all| all.observed_fault_ns as u64;
        /// Cost of one of them otherwise, as measured with memory of hitm's own.
        fault_ns => nanos "a fault", |all| all.fault_ns as u64;
        /// Cost of one of a huge page, as measured with memory of hitm's own.
        huge_fault_ns => nanos "a huge fault", |all| all.huge_fault_ns.map(|ns| ns as u64);
        /// Sleep of the holder.
        asleep_ns => nanos "asleep", |all| all.asleep_ns as u64;
        /// CPU time outside of the lock.
        outside_ns => nanos "outside", |all| all.outside_ns as u64;
        /// Two standard errors of it.
        outside_error_ns => nanos "+- outside", |all| all.outside_error_ns as u64;
        /// Sleep outside of the lock.
        think_ns => nanos "asleep outside", |all| all.think_ns as u64;
        /// Other tasks that ran or wanted to, on average.
        other_tasks => decimal "other tasks", |all| {
            let rivals = all.rivals.others.iter().chain(&all.rivals.inside);
            rivals.map(|rival| rival.runnable).sum::<f64>()
        };
    }
}

const COLUMNS: &[Field<LockAnswer>] = &[
    live_lock_whatif::label,
    live_lock_whatif::takes_per_s,
    live_lock_whatif::takes_per_s_min,
    live_lock_whatif::takes_per_s_max,
    live_lock_whatif::gain_share,
    live_lock_whatif::gain_share_min,
    live_lock_whatif::gain_share_max,
    live_lock_whatif::spinning_share,
    live_lock_whatif::holder_running_share,
    live_lock_whatif::holder_faulting_share,
    live_lock_whatif::holder_off_cpu_share,
    live_lock_whatif::holder_away_share,
];

/// The reason why no change is simulated.
fn refusal(what_if: &LockWhatIf) -> Option<String> {
    match (&what_if.inputs, what_if.refused) {
        (Err(unfit), _) => Some(format!("Refused: {unfit}.")),
        (Ok(_), refused) => refused.map(too_far_off),
    }
}

/// Changes that are not simulated, with the reason.
fn refused_changes(what_if: &LockWhatIf) -> impl Iterator<Item = [String; 2]> + '_ {
    let refused = what_if.refused_changes.iter();
    refused.map(|(change, refusal)| [change.clone(), refusal.to_string()])
}

/// The kernel's preemption model in words.
fn preemption(kernel: &KernelHere) -> String {
    match kernel.preemption {
        Some(model) => model.id().to_owned(),
        None => format!("not known, {} assumed", KernelHere::ASSUMED.id()),
    }
}

/// The rows as a table.
pub fn text(what_if: &LockWhatIf, width: usize) -> Printout {
    let mut out = Printout::new();
    out.blank();
    out.line("What if: the lock in the simulator, on a model of this host");
    if let Ok(inputs) = &what_if.inputs {
        describe(&mut out, inputs);
        out.line(&format!(
            "  preemption {}, {} ticks a second",
            preemption(&what_if.kernel),
            what_if.kernel.hz
        ));
        out.append(&screen::rows(COLUMNS, &what_if.rows, width));
    }
    if let Some(refusal) = refusal(what_if) {
        out.line(&refusal);
    }
    for [change, reason] in refused_changes(what_if) {
        out.line(&format!("Refused, {change}: {reason}."));
    }
    out
}

fn describe(out: &mut Printout, inputs: &LockInputs) {
    use live_lock_inputs as all;
    let text = |field: Field<_>| field.text(inputs);
    out.line(&format!("  {}", printable(&inputs.title)));
    out.line(&format!(
        "  {} threads; a use holds it for {} ({} of the watch), +- {}, with {} page faults of {} ({} observed)",
        text(all::thread_count),
        text(all::hold_ns),
        text(all::watch_ns),
        text(all::hold_error_share),
        text(all::faults),
        text(all::fault_ns),
        text(all::observed_fault_ns),
    ));
    out.line(&format!(
        "  asleep in it {}; outside {} +- {}, asleep {}; beside it {} tasks",
        text(all::asleep_ns),
        text(all::outside_ns),
        text(all::outside_error_ns),
        text(all::think_ns),
        text(all::other_tasks),
    ));
}

/// The inputs and the rows as JSON.
pub fn json(what_if: &LockWhatIf) -> Json {
    object(what_if).json()
}

/// The inputs and the rows as an object.
pub(super) fn object(what_if: &LockWhatIf) -> Object {
    let inputs = what_if.inputs.as_ref().ok();
    let row = |row: &LockAnswer| Object::of(live_lock_whatif::ALL, row);
    let change = |[change, reason]: [String; 2]| {
        Object::default()
            .with("change", change)
            .with("reason", reason)
    };
    Object::default()
        .with_or_null(
            "inputs",
            inputs.map(|inputs| Object::of(live_lock_inputs::ALL, inputs)),
        )
        .with(
            "preemption",
            what_if.kernel.preemption.map(|model| model.id()),
        )
        .with("refused", refusal(what_if))
        .with("rows", what_if.rows.iter().map(row).collect::<Node>())
        .with(
            "refused_changes",
            refused_changes(what_if).map(change).collect::<Node>(),
        )
}
