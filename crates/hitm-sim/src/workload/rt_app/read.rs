//! From text to [`RtApp`]: objects and properties; `events` has what happens in a phase.

use std::collections::BTreeSet;
use std::time::Duration;

use hitm_base::of_word;

use super::events::{event, micros};
use super::json::{Document, Entry, entries};
use super::{
    DURATION_MAX, DeadlineTimes, EVENTS_MAX, Event, Global, Loops, Phase, Policy, RtApp,
    RtAppError, SchedParams, THREADS_MAX, Task,
};

/// Largest CPU number that a file may name.
const CPU_MAX: u32 = 65_535;
/// The device of `iorun` unless a file names another one.
const NULL_DEVICE: &str = "/dev/null";
/// Keys of `global` without an effect here: where rt-app logs, and how it calibrates its loop. No version of
/// rt-app since 2012 reads `frag`; its examples have it still.
const GLOBAL_WITHOUT_EFFECT: [&str; 9] = [
    "calibration",
    "frag",
    "lock_pages",
    "logdir",
    "log_basename",
    "log_size",
    "ftrace",
    "gnuplot",
    "cumulative_slack",
];

pub(super) fn parse(text: &str, origin: &str) -> Result<RtApp, RtAppError> {
    let document = Document { text, origin };
    let root = document.root()?;
    let mut app = RtApp {
        global: Global::default(),
        tasks: Vec::new(),
        inert: Vec::new(),
    };
    let mut device = None;
    let root = entries(document, "", &root);
    for entry in &root {
        match entry.key {
            "global" => (app.global, device) = global(entry, &mut app.inert)?,
            // rt-app makes resources where they are named; the object is kept for old files.
            "resources" | "tasks" => {}
            _ => return Err(entry.unknown("global, resources or tasks")),
        }
    }
    let tasks = root.iter().find(|entry| entry.key == "tasks");
    let missing = || document.unexpected(0, "", "no \"tasks\"".into(), "an object of tasks".into());
    let tasks = tasks.ok_or_else(missing)?.entries()?;
    let mut budget = Budget {
        threads: 0,
        events: 0,
        device,
        inert: Vec::new(),
    };
    for entry in &tasks {
        let task = task(entry, &app.global, &mut budget)?;
        app.tasks.push(task);
    }
    let resumed = check_names(&tasks, &app)?;
    app.inert.extend(budget.inert);
    app.inert.extend(resumed);
    Ok(app)
}

/// Rest of what may come, so that a small file makes no large model.
struct Budget {
    threads: u32,
    events: usize,
    /// `io_device`, if it is not /dev/null.
    device: Option<String>,
    /// Keys of tasks that change nothing.
    inert: Vec<String>,
}

/// Reads `global`, and its device, if that is not /dev/null.
fn global(
    entry: &Entry<'_, '_>,
    inert: &mut Vec<String>,
) -> Result<(Global, Option<String>), RtAppError> {
    let (mut global, mut device) = (Global::default(), None);
    for entry in entry.entries()? {
        match entry.key {
            "duration" => {
                let seconds = entry.integer(-1, DURATION_MAX.as_secs() as i64)?;
                global.duration = u64::try_from(seconds).ok().map(Duration::from_secs);
            }
            "default_policy" => global.default_policy = policy(&entry)?,
            "pi_enabled" => global.pi_enabled = entry.boolean()?,
            "mem_buffer_size" => {
                global.mem_buffer_size_bytes = entry.integer(1, 1 << 40)? as u64;
            }
            "io_device" => device = Some(entry.string()?).filter(|name| name != NULL_DEVICE),
            key if GLOBAL_WITHOUT_EFFECT.contains(&key) => inert.push(entry.path.clone()),
            _ => return Err(entry.unknown("a key of rt-app's global object")),
        }
    }
    Ok((global, device))
}

fn policy(entry: &Entry<'_, '_>) -> Result<Policy, RtAppError> {
    of_word(&Policy::WORDS, entry.string()?.as_str())
        .ok_or_else(|| entry.expected(&Policy::ALL.map(Policy::id).join(", ")))
}

fn task(entry: &Entry<'_, '_>, global: &Global, budget: &mut Budget) -> Result<Task, RtAppError> {
    let mut task = Task {
        name: entry.key.to_owned(),
        instances: 1,
        delay: Duration::ZERO,
        loops: Loops::Forever,
        sched: SchedParams::default(),
        phases: Vec::new(),
    };
    let (mut events, mut times) = (Vec::new(), Vec::new());
    let properties = entry.entries()?;
    for property in &properties {
        match property.key {
            "instance" => {
                let left = THREADS_MAX - budget.threads;
                task.instances = property.integer(0, left.into())? as u32;
            }
            "delay" => task.delay = micros(property)?,
            "loop" => task.loops = loops(property)?,
            "phases" => {
                for entry in property.entries()? {
                    task.phases.push(phase(&entry, budget)?);
                }
            }
            "dl-runtime" | "dl-period" | "dl-deadline" | "deadline" | "period" => {
                times.push(property);
            }
            _ if sched(property, &mut task.sched)? => {}
            _ => events.push(one_event(property, budget)?),
        }
    }
    budget.threads += task.instances;
    task.sched.deadline = match task.sched.policy.unwrap_or(global.default_policy) {
        Policy::Deadline => Some(deadline_times(entry, &times)?),
        _ => {
            let slice = times.iter().find(|time| time.key == "dl-runtime");
            if let Some(slice) = slice {
                return Err(slice.not_modelled("a slice of its own (without SCHED_DEADLINE)"));
            }
            budget
                .inert
                .extend(times.iter().map(|time| time.path.clone()));
            None
        }
    };
    if !events.is_empty() {
        if !task.phases.is_empty() {
            return Err(entry.expected("either \"phases\" or events, not both"));
        }
        task.phases.push(Phase {
            name: task.name.clone(),
            loops: Loops::Times(1),
            sched: SchedParams::default(),
            events,
        });
    }
    check_endless(entry, &task)?;
    check_priorities(entry, global, &task)?;
    check_phases(&properties, global, &task)?;
    Ok(task)
}

/// The times of a task of `SCHED_DEADLINE`; old names count where the new ones are not there.
fn deadline_times(
    entry: &Entry<'_, '_>,
    times: &[&Entry<'_, '_>],
) -> Result<DeadlineTimes, RtAppError> {
    let stated = |names: &[&str]| {
        let mut named = names
            .iter()
            .filter_map(|name| times.iter().find(|time| time.key == *name));
        named.next().map(|time| micros(time)).transpose()
    };
    let missing = || entry.expected("\"dl-runtime\" beside the policy SCHED_DEADLINE");
    let runtime = stated(&["dl-runtime"])?.ok_or_else(missing)?;
    let period = stated(&["dl-period", "period"])?.unwrap_or(runtime);
    Ok(DeadlineTimes {
        runtime,
        deadline: stated(&["dl-deadline", "deadline"])?.unwrap_or(period),
        period,
    })
}

fn phase(entry: &Entry<'_, '_>, budget: &mut Budget) -> Result<Phase, RtAppError> {
    let mut phase = Phase {
        name: entry.key.to_owned(),
        loops: Loops::Times(1),
        sched: SchedParams::default(),
        events: Vec::new(),
    };
    for property in entry.entries()? {
        match property.key {
            "loop" => phase.loops = loops(&property)?,
            "dl-runtime" | "dl-period" | "dl-deadline" => {
                return Err(property.not_modelled("a phase with times of SCHED_DEADLINE"));
            }
            _ if sched(&property, &mut phase.sched)? => {}
            _ => phase.events.push(one_event(&property, budget)?),
        }
    }
    Ok(phase)
}

fn one_event(entry: &Entry<'_, '_>, budget: &mut Budget) -> Result<Event, RtAppError> {
    budget.events += 1;
    if budget.events > EVENTS_MAX {
        return Err(entry.unknown(&format!("at most {EVENTS_MAX} events in a file")));
    }
    let event = event(entry)?;
    match event {
        Event::Io(_) if budget.device.is_some() => {
            Err(entry.not_modelled("writing to a device other than /dev/null (iorun)"))
        }
        _ => Ok(event),
    }
}

fn loops(entry: &Entry<'_, '_>) -> Result<Loops, RtAppError> {
    let times = entry.integer(-1, i64::MAX)?;
    Ok(u64::try_from(times).map_or(Loops::Forever, Loops::Times))
}

/// Reads a property of the scheduler; false when the key is none.
fn sched(entry: &Entry<'_, '_>, sched: &mut SchedParams) -> Result<bool, RtAppError> {
    match entry.key {
        "policy" => sched.policy = Some(policy(entry)?),
        "priority" => sched.priority = Some(entry.integer(-20, 99)? as i32),
        "cpus" => sched.cpus = Some(entry.indices(CPU_MAX)?),
        "taskgroup" => sched.taskgroup = Some(entry.string()?),
        "util_min" | "util_max" => return Err(entry.not_modelled("utilisation clamping")),
        "membind_nodes" | "nodes_membind" => {
            return Err(entry.not_modelled("binding memory to nodes"));
        }
        "dl-reclaim" if entry.boolean()? => {
            return Err(entry.not_modelled("reclaiming the runtime that others leave (GRUB)"));
        }
        "dl-reclaim" => {}
        _ => return Ok(false),
    }
    Ok(true)
}

/// A thread that repeats phases in which no time passes would never let the others run.
fn check_endless(entry: &Entry<'_, '_>, task: &Task) -> Result<(), RtAppError> {
    let takes_time = |event: &Event| match event {
        Event::Run(time) | Event::Runtime(time) | Event::Sleep(time) => !time.is_zero(),
        Event::Mem(bytes) | Event::Io(bytes) => *bytes > 0,
        Event::Timer(_)
        | Event::Wait(_)
        | Event::Sync(_)
        | Event::Barrier(_)
        | Event::Suspend
        | Event::SemWait(_) => true,
        _ => false,
    };
    let endless_phase = task
        .phases
        .iter()
        .find(|phase| phase.loops == Loops::Forever && !phase.events.iter().any(takes_time));
    let idle = !task
        .phases
        .iter()
        .any(|phase| phase.events.iter().any(takes_time));
    if endless_phase.is_some() || (idle && task.loops == Loops::Forever) {
        return Err(entry.expected(
            "an event that takes time (run, sleep, timer, ...), since the loop has no end",
        ));
    }
    Ok(())
}

/// Priorities in the range of their policy, where each phase inherits what it does not state.
fn check_priorities(entry: &Entry<'_, '_>, global: &Global, task: &Task) -> Result<(), RtAppError> {
    let mut policy = task.sched.policy.unwrap_or(global.default_policy);
    let phases = task.phases.iter().map(|phase| &phase.sched);
    for sched in std::iter::once(&task.sched).chain(phases) {
        policy = sched.policy.unwrap_or(policy);
        let range = match policy {
            Policy::Fifo | Policy::Rr => 1..=99,
            Policy::Deadline => 0..=0,
            Policy::Other | Policy::Batch | Policy::Idle => -20..=19,
        };
        if sched
            .priority
            .is_some_and(|priority| !range.contains(&priority))
        {
            let expected = format!(
                "priorities from {} to {} for {}",
                range.start(),
                range.end(),
                policy.id()
            );
            return Err(entry.expected(&expected));
        }
    }
    Ok(())
}

/// Phases leave their task on its CPUs, in its group and on its side of `SCHED_DEADLINE`.
fn check_phases(
    properties: &[Entry<'_, '_>],
    global: &Global,
    task: &Task,
) -> Result<(), RtAppError> {
    let is_deadline = |policy| policy == Policy::Deadline;
    let own = task.sched.policy.unwrap_or(global.default_policy);
    let listed = properties.iter().find(|property| property.key == "phases");
    let listed = listed.map(Entry::entries).transpose()?.unwrap_or_default();
    for (entry, phase) in listed.iter().zip(&task.phases) {
        for property in entry.entries()? {
            let (sched, of_task) = (&phase.sched, &task.sched);
            let what = match property.key {
                "cpus" if sched.cpus != of_task.cpus => "a phase on CPUs of its own",
                "taskgroup" if sched.taskgroup != of_task.taskgroup => {
                    "a phase in a task group of its own"
                }
                "policy" if sched.policy.is_some_and(is_deadline) != is_deadline(own) => {
                    "a phase that enters or leaves SCHED_DEADLINE"
                }
                _ => continue,
            };
            return Err(property.not_modelled(what));
        }
    }
    Ok(())
}

/// Every forked task exists. Keys that resume what is no task are returned: rt-app wakes nobody for them.
fn check_names(tasks: &[Entry<'_, '_>], app: &RtApp) -> Result<Vec<String>, RtAppError> {
    let names: BTreeSet<&str> = app.tasks.iter().map(|task| task.name.as_str()).collect();
    let mut resumed = Vec::new();
    for (entry, task) in tasks.iter().zip(&app.tasks) {
        let phases = task.phases.iter();
        let events = phases.flat_map(|phase| phase.events.iter().map(move |event| (phase, event)));
        for (phase, event) in events {
            match event {
                Event::Resume(name) if !names.contains(name.as_str()) => {
                    resumed.push(format!("{}.{}.resume", entry.path, phase.name));
                }
                Event::Fork(name) if !names.contains(name.as_str()) => {
                    return Err(entry.document.unexpected(
                        jsonc_parser::common::Ranged::start(entry.value),
                        &entry.path,
                        format!("fork of {name:?}"),
                        "the name of a task of this file".into(),
                    ));
                }
                _ => {}
            }
        }
    }
    resumed.dedup();
    Ok(resumed)
}
