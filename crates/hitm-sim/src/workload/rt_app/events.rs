//! The events of a phase.

use std::time::Duration;

use super::json::Entry;
use super::{Condition, DURATION_MAX, Event, RtAppError, Timer, TimerMode};

/// The verbs, for the message about one that is none of them.
const VERBS: &str = "an event (run, runtime, sleep, timer, mem, iorun, lock, unlock, wait, signal, broad, sync, barrier, suspend, resume, sem_wait, sem_post, yield, fork) or a property (loop, policy, priority, cpus, taskgroup)";
/// Most bytes that one `mem` or `iorun` writes: 1 TiB.
const MEM_BYTES_MAX: i64 = 1 << 40;

/// The key without what makes it unique in its object: a number, or anything behind `memrun`.
fn verb(key: &str) -> &str {
    match key.starts_with("memrun") {
        true => "memrun",
        false => key.trim_end_matches(|c: char| c.is_ascii_digit()),
    }
}

/// Reads one event.
pub(super) fn event(entry: &Entry<'_, '_>) -> Result<Event, RtAppError> {
    Ok(match verb(entry.key) {
        "run" => Event::Run(micros(entry)?),
        "runtime" => Event::Runtime(micros(entry)?),
        "sleep" => Event::Sleep(micros(entry)?),
        "timer" => Event::Timer(timer(entry)?),
        "mem" => Event::Mem(entry.integer(0, MEM_BYTES_MAX)? as u64),
        "iorun" => Event::Io(entry.integer(0, MEM_BYTES_MAX)? as u64),
        "lock" => Event::Lock(entry.name()?),
        "unlock" => Event::Unlock(entry.name()?),
        "wait" => Event::Wait(condition(entry)?),
        "signal" => Event::Signal(entry.name()?),
        "broad" => Event::Broadcast(entry.name()?),
        "sync" => Event::Sync(condition(entry)?),
        "barrier" => Event::Barrier(entry.name()?),
        "suspend" => {
            entry.string()?;
            Event::Suspend
        }
        "resume" => Event::Resume(entry.name()?),
        "sem_wait" => Event::SemWait(entry.name()?),
        "sem_post" => Event::SemPost(entry.name()?),
        "memrun" => return Err(entry.not_modelled("a pattern of memory accesses")),
        "yield" => {
            entry.string()?;
            Event::Yield
        }
        "fork" => Event::Fork(entry.name()?),
        _ => return Err(entry.unknown(VERBS)),
    })
}

/// A time in microseconds, as rt-app writes all times but its duration.
pub(super) fn micros(entry: &Entry<'_, '_>) -> Result<Duration, RtAppError> {
    let micros = entry.integer(0, DURATION_MAX.as_micros() as i64)?;
    Ok(Duration::from_micros(micros as u64))
}

fn timer(entry: &Entry<'_, '_>) -> Result<Timer, RtAppError> {
    let (mut name, mut period, mut mode) = (None, None, TimerMode::Relative);
    for part in entry.entries()? {
        match part.key {
            "ref" => name = Some(part.name()?),
            "period" => period = Some(micros(&part)?).filter(|period| !period.is_zero()),
            "mode" => {
                mode = match part.string()?.as_str() {
                    "relative" => TimerMode::Relative,
                    "absolute" => TimerMode::Absolute,
                    _ => return Err(part.expected("\"relative\" or \"absolute\"")),
                }
            }
            _ => return Err(part.unknown("ref, period or mode")),
        }
    }
    let expected = "a timer with \"ref\" and a \"period\" of at least 1";
    let (name, period) = name.zip(period).ok_or_else(|| entry.expected(expected))?;
    Ok(Timer { name, period, mode })
}

fn condition(entry: &Entry<'_, '_>) -> Result<Condition, RtAppError> {
    let (mut name, mut mutex) = (None, None);
    for part in entry.entries()? {
        match part.key {
            "ref" => name = Some(part.name()?),
            "mutex" => mutex = Some(part.name()?),
            _ => return Err(part.unknown("ref or mutex")),
        }
    }
    let (name, mutex) = name
        .zip(mutex)
        .ok_or_else(|| entry.expected("a condition with \"ref\" and \"mutex\""))?;
    Ok(Condition { name, mutex })
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_number_behind_a_verb_means_nothing() {
        assert_eq!(super::verb("run12"), "run");
        assert_eq!(super::verb("run"), "run");
        assert_eq!(super::verb("memrun_a"), "memrun");
    }
}
