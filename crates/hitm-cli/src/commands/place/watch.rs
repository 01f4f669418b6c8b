//! `hitm place apply --watch`.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use hitm::live::{LiveTarget, LockWindows};
use hitm_live::place::watch::{Change, Watcher};
use hitm_live::place::{Chooser, Contention, Place, PlaceError, Stop, Tick};
use serde_json::{Value, json};

use super::apply::{ApplyArgs, Report, launcher};
use super::{json as as_json, text};
use crate::Exit;

/// Time between two looks at the placement.
const PERIOD: Duration = Duration::from_millis(100);
/// Samples of each CPU in a second, as `hitm live locks` takes them.
const FREQUENCY: u32 = 999;

/// Places when threads fight for a lock, follows its hold share, and lets go when they do not fight any more.
pub(super) fn run(
    args: &ApplyArgs,
    (place, stop): (Place<'_>, Stop),
    mut report: Report<'_>,
) -> Result<Exit> {
    let target = args.wish.target()?;
    let machine = hitm::place::host()?;
    let mut windows = LockWindows::open(&target, FREQUENCY)?;
    if let Some(reason) = &windows.missing {
        report.note(&format!(
            "waiters that sleep are not counted, those that spin alone: {reason}"
        ));
    }
    let launcher = launcher();
    let options = args.wish.options(false);
    let mut watcher = Watcher::new(place, &machine, options, &launcher);
    let log = Log {
        begun: Instant::now(),
        changes: Vec::new(),
        last_reason: String::new(),
    };
    let shown = match &target {
        LiveTarget::Cgroup(path) => format!("cgroup {path}"),
        LiveTarget::Process(pid) => format!("process {pid}"),
        _ => String::new(),
    };
    report.line(&format!(
        "Watching {shown} in windows of {:.1} s; undone by Ctrl-C",
        args.window.as_secs_f64()
    ))?;
    let watched = watch(args, stop, (&mut windows, &mut watcher), (log, &mut report));
    // Whatever happened: what is placed is undone.
    let was_placed = watcher.is_placed();
    let undone = watcher.end()?;
    report.json["changes"] = json!(watched?);
    report.json["undone"] = as_json::undone(&undone);
    report.line(&match was_placed {
        true => format!("undone: {}", text::undone(&undone)),
        false => String::from("ended; nothing was placed any more"),
    })?;
    if !undone.problems.is_empty() {
        bail!("{}", undone.problems.join("; "));
    }
    report.end(Exit::Done)
}

/// Watches until a signal, the end of the time or of the processes. Returns the changes.
fn watch(
    args: &ApplyArgs,
    stop: Stop,
    (windows, watcher): (&mut LockWindows, &mut Watcher<'_>),
    (mut log, report): (Log, &mut Report<'_>),
) -> Result<Vec<Value>> {
    let mut chooser = Chooser::new(args.wish.lock.clone());
    let mut begun = Instant::now();
    let is_over = |log: &Log| args.time.is_some_and(|time| log.begun.elapsed() >= time);
    while !stop.is_requested() && !is_over(&log) {
        windows.sample(PERIOD);
        if watcher.tick()? == Some(Tick::Undone) {
            log.say(
                "undone by somebody else",
                json!({ "change": "undone" }),
                report,
            )?;
            break;
        }
        if begun.elapsed() < args.window {
            continue;
        }
        begun = Instant::now();
        if !windows.has_processes() {
            break;
        }
        let window = windows.end_window();
        let (waiting, contention) = chooser.observe(&window, watcher.is_placed());
        match watcher.window(waiting, &contention) {
            Ok(change) => log.change(&change, (waiting, &contention), report)?,
            // Threads came, went or were moved between two looks: the next window has them as they are.
            Err(PlaceError::Refused(reason)) => log.stays(&reason, report)?,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(log.changes)
}

/// The changes so far.
struct Log {
    begun: Instant,
    changes: Vec<Value>,
    last_reason: String,
}

impl Log {
    fn say(&mut self, text: &str, mut change: Value, report: &mut Report<'_>) -> Result<()> {
        let at = self.begun.elapsed();
        change["at_ms"] = json!(at.as_millis() as u64);
        self.changes.push(change);
        report.line(&format!("{:7.1} s  {text}", at.as_secs_f64()))
    }

    fn stays(&mut self, reason: &str, report: &mut Report<'_>) -> Result<()> {
        if self.last_reason == reason {
            return Ok(());
        }
        reason.clone_into(&mut self.last_reason);
        let change = json!({ "change": "stayed", "reason": reason });
        self.say(&format!("nothing is placed: {reason}"), change, report)
    }

    fn change(
        &mut self,
        change: &Change,
        (waiting, contention): (f64, &Contention),
        report: &mut Report<'_>,
    ) -> Result<()> {
        match change {
            Change::None => Ok(()),
            Change::Stayed(reason) => self.stays(reason, report),
            Change::Placed(plan) => {
                self.last_reason.clear();
                let plan_json = as_json::plan(plan);
                let change = json!({ "change": "placed", "waiting": waiting, "plan": plan_json });
                let line = text::watched(plan, waiting);
                self.say(&line, change, report)
            }
            Change::Released(undone) => {
                let change = json!({ "change": "released", "undone": as_json::undone(undone) });
                let name = &contention.name;
                let line = format!("calm, released {name}: {}", text::undone(undone));
                self.say(&line, change, report)
            }
        }
    }
}
