//! `hitm place apply --watch`.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use hitm::live::{LiveTarget, LockWindows};
use hitm_live::place::watch::{Change as Decided, Watcher};
use hitm_live::place::{Chooser, Place, PlaceError, Stop, Tick};
use hitm_report::place::{Change, Event};

use super::apply::{ApplyArgs, Report, launcher};
use super::shown;
use crate::Exit;

/// Time between two looks at the placement.
const PERIOD: Duration = Duration::from_millis(100);
/// Samples of each CPU in a second, as `hitm live locks` takes them.
const FREQUENCY: u32 = 999;

/// Places when threads fight for a lock, follows its hold share, and lets go when they do not fight any more.
pub(super) fn run(
    args: &ApplyArgs,
    place: Place<'_>,
    stop: Stop,
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
    let shown = match &target {
        LiveTarget::Cgroup(path) => format!("cgroup {path}"),
        LiveTarget::Process(pid) => format!("process {pid}"),
        _ => String::new(),
    };
    report.line(&format!(
        "Watching {shown} in windows of {:.1} s; undone by Ctrl-C",
        args.window.as_secs_f64()
    ))?;
    let log = Log {
        report: &mut report,
        begun: Instant::now(),
        changes: Vec::new(),
        last_reason: String::new(),
    };
    let watched = watch(args, stop, &mut windows, &mut watcher, log);
    // Whatever happened: what is placed is undone.
    let was_placed = watcher.is_placed();
    let undone = watcher.end()?;
    report.done.changes = Some(watched?);
    report.line(&match was_placed {
        true => format!("undone: {}", shown::undone_line(&undone)),
        false => String::from("ended; nothing was placed any more"),
    })?;
    if !undone.problems.is_empty() {
        bail!("{}", undone.problems.join("; "));
    }
    report.done.undone = Some(undone);
    report.end(Exit::Done)
}

/// Watches until a signal, the end of the time or of the processes. Returns the changes.
fn watch(
    args: &ApplyArgs,
    stop: Stop,
    windows: &mut LockWindows,
    watcher: &mut Watcher<'_>,
    mut log: Log<'_, '_>,
) -> Result<Vec<Change>> {
    let mut chooser = Chooser::new(args.wish.lock.clone());
    let mut begun = Instant::now();
    let is_over = |log: &Log<'_, '_>| args.time.is_some_and(|time| log.begun.elapsed() >= time);
    while !stop.is_requested() && !is_over(&log) {
        windows.sample(PERIOD);
        if watcher.tick()? == Some(Tick::Undone) {
            log.say(Event::Undone)?;
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
            Ok(decided) => {
                if let Some(event) = event(decided, waiting, contention.name) {
                    log.say(event)?;
                }
            }
            // Threads came, went or were moved between two looks: the next window has them as they are.
            Err(PlaceError::Refused(reason)) => log.say(Event::Stayed(reason))?,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(log.changes)
}

/// Meaning of a decision for the user; none where nothing changed.
fn event(decided: Decided, waiting: f64, name: String) -> Option<Event> {
    Some(match decided {
        Decided::None => return None,
        Decided::Stayed(reason) => Event::Stayed(reason),
        Decided::Placed(plan) => Event::Placed { waiting, plan },
        Decided::Released(undone) => Event::Released { name, undone },
    })
}

/// The changes so far.
struct Log<'a, 'b> {
    report: &'a mut Report<'b>,
    begun: Instant,
    changes: Vec<Change>,
    last_reason: String,
}

impl Log<'_, '_> {
    /// Tells an event. A reason is told once, until threads are placed again.
    fn say(&mut self, event: Event) -> Result<()> {
        match &event {
            Event::Stayed(reason) if *reason == self.last_reason => return Ok(()),
            Event::Stayed(reason) => self.last_reason.clone_from(reason),
            Event::Placed { .. } => self.last_reason.clear(),
            Event::Undone | Event::Released { .. } => {}
        }
        let at = self.begun.elapsed();
        let change = Change { at, event };
        let line = shown::change_line(&change);
        self.changes.push(change);
        self.report.line(&line)
    }
}
