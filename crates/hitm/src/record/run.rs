//! The recording itself: start the program, drain the ring into the file, follow the program to
//! its end.

use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

use hitm_base::Cycles;
use hitm_trace::ring::{Consumer, ProducerState};
use hitm_trace::{EndReason, Header};

use super::command::command;
use super::region::Region;
use super::signals::Signals;
use super::sink::{Progress, Sink};
use super::target::Target;
use super::tools::Tools;
use super::{RecordConfig, RecordError};
use crate::limits;

/// How long this process sleeps while the ring is empty.
const IDLE_SLEEP: Duration = Duration::from_millis(1);
const PROGRESS_EVERY: Duration = Duration::from_millis(100);
/// After a request to stop, how long the recorder may take to price what it holds.
const STOP_PATIENCE: Duration = Duration::from_secs(5);

/// How a recording ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// The status to exit with: the program's own, or 128 and the signal that killed it.
    pub exit_code: u8,
    /// What is in the file.
    pub progress: Progress,
    /// Whether the recorder wrote its own last words; if not, the program was killed or replaced
    /// itself, and up to a window of each thread is missing.
    pub is_complete: bool,
}

pub(crate) fn run(
    config: &RecordConfig,
    target: &Target,
    tools: &Tools,
    header: &Header,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Ended, RecordError> {
    let system = |what: &str| {
        let what = what.to_string();
        move |source| RecordError::System {
            what,
            source: limits::explain_start(source),
        }
    };
    let encoded = header.encode().map_err(|error| RecordError::System {
        what: "write the recording's header".into(),
        source: std::io::Error::other(error),
    })?;
    let mut region =
        Region::create(&encoded).map_err(system("make the memory that is shared with QEMU"))?;
    let mut sink = Sink::create(&config.output, header)?;
    let signals = Signals::catch();
    let child = command(target, tools, &region, config.keeps_running).spawn();
    let mut child = child.map_err(system(&format!("start {}", tools.qemu.path.display())))?;
    let stop = Stop {
        ends_at: config.duration.map(|span| Instant::now() + span),
        ..Stop::default()
    };
    let status = follow(
        &mut child,
        &mut region.consumer,
        &mut sink,
        (&signals, stop),
        progress,
    );
    let status = status.map_err(system("wait for the program"))?;
    let not_started = || RecordError::NotStarted {
        qemu: tools.qemu.path.clone(),
        status: format!("{status}{}", limits::memory_hint()),
    };
    if region.consumer.producer_state() == ProducerState::NotAttached {
        return Err(not_started());
    }
    let is_complete = region.consumer.producer_state() == ProducerState::Finished;
    sink.drain(&mut region.consumer);
    if !is_complete {
        sink.take_partial(&mut region.consumer);
        sink.write_end(match (status.code(), status.signal()) {
            (Some(status), _) => EndReason::Exited { status },
            (None, signal) => EndReason::Signalled {
                signal: signal.unwrap_or(0),
            },
        });
    }
    let progress = sink.finish()?;
    // QEMU loads the recorder before it makes room for the program; a program that ran took time.
    if is_complete && progress.time == Cycles::ZERO && !status.success() {
        return Err(not_started());
    }
    Ok(Ended {
        exit_code: exit_code(status),
        progress,
        is_complete,
    })
}

/// Drains the ring until the program has ended.
fn follow(
    child: &mut Child,
    consumer: &mut Consumer,
    sink: &mut Sink,
    (signals, mut stop): (&Signals, Stop),
    progress: &mut dyn FnMut(&Progress),
) -> std::io::Result<ExitStatus> {
    let mut reported_at = Instant::now();
    loop {
        consumer.beat();
        let drained = sink.drain(consumer);
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        stop.look(child, consumer, signals, sink.has_failed());
        if reported_at.elapsed() >= PROGRESS_EVERY {
            progress(&sink.progress());
            reported_at = Instant::now();
        }
        if !drained {
            std::thread::sleep(IDLE_SLEEP);
        }
    }
}

/// The end of a recording before the program's own.
#[derive(Debug, Default)]
struct Stop {
    /// The time at which it is to end, if nobody asks earlier.
    ends_at: Option<Instant>,
    requested_at: Option<Instant>,
    passed_on: bool,
}

impl Stop {
    fn look(&mut self, child: &Child, consumer: &Consumer, signals: &Signals, has_failed: bool) {
        let is_late = self.ends_at.is_some_and(|end| Instant::now() >= end);
        let late = is_late.then_some((libc::SIGTERM, true));
        let pending = signals.pending().or(late);
        if self.requested_at.is_none() && (pending.is_some() || has_failed) {
            consumer.request_stop();
            self.requested_at = Some(Instant::now());
        }
        let (Some(requested_at), Some((signal, true)), false) =
            (self.requested_at, pending, self.passed_on)
        else {
            return;
        };
        let is_over = consumer.producer_state() == ProducerState::Finished;
        if is_over || requested_at.elapsed() > STOP_PATIENCE {
            // SAFETY: a signal to the child, which has not been waited for and so still exists.
            unsafe { libc::kill(child.id() as libc::pid_t, signal) };
            self.passed_on = true;
        }
    }
}

fn exit_code(status: ExitStatus) -> u8 {
    match (status.code(), status.signal()) {
        (Some(code), _) => code as u8,
        (None, signal) => 128 + signal.unwrap_or(0) as u8,
    }
}
