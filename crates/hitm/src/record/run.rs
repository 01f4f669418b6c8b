//! The recording itself: start the program, drain the ring into the file, follow the program to
//! its end.

use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

use hitm_base::Cycles;
use hitm_trace::ring::{Consumer, ProducerState};
use hitm_trace::{
    BlockEncoder, BlockMeta, End, EndReason, Header, Record, Totals, TraceWriter, WriteError,
};

use super::command::command;
use super::region::Region;
use super::signals::Signals;
use super::target::Target;
use super::tools::Tools;
use super::{RecordConfig, RecordError};

/// How long this process sleeps while the ring is empty.
const IDLE_SLEEP: Duration = Duration::from_millis(1);
const PROGRESS_EVERY: Duration = Duration::from_millis(100);
/// After a request to stop, how long the recorder may take to price what it holds.
const STOP_PATIENCE: Duration = Duration::from_secs(5);

/// How far a recording is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// The latest virtual time that is in the file.
    pub time: Cycles,
    /// Records in the file.
    pub record_count: u64,
    /// Bytes of the file.
    pub file_bytes: u64,
}

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
        move |source| RecordError::System { what, source }
    };
    let encoded = header.encode().map_err(|error| RecordError::System {
        what: "write the recording's header".into(),
        source: std::io::Error::other(error),
    })?;
    let mut region = Region::create(&encoded).map_err(system("make shared memory"))?;
    let file = File::create(&config.output)
        .map_err(system(&format!("create {}", config.output.display())))?;
    let mut sink = Sink::new(file, header, config)?;
    let signals = Signals::catch();
    let child = command(target, tools, &region).spawn();
    let mut child = child.map_err(system(&format!("start {}", tools.qemu.path.display())))?;
    let status = follow(
        &mut child,
        &mut region.consumer,
        &mut sink,
        &signals,
        progress,
    );
    let status = status.map_err(system("wait for the program"))?;
    if region.consumer.producer_state() == ProducerState::NotAttached {
        return Err(RecordError::NotStarted {
            qemu: tools.qemu.path.clone(),
            status: status.to_string(),
        });
    }
    let is_complete = region.consumer.producer_state() == ProducerState::Finished;
    sink.drain(&mut region.consumer);
    if !is_complete {
        sink.take_partial(&mut region.consumer);
        sink.write_end(status);
    }
    let progress = sink.finish()?;
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
    sink: &mut Sink<'_>,
    signals: &Signals,
    progress: &mut dyn FnMut(&Progress),
) -> std::io::Result<ExitStatus> {
    let mut reported_at = Instant::now();
    let mut stop = Stop::default();
    loop {
        consumer.beat();
        let drained = sink.drain(consumer);
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        stop.look(child, consumer, signals, sink.failure.is_some());
        if reported_at.elapsed() >= PROGRESS_EVERY {
            progress(&sink.progress);
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
    requested_at: Option<Instant>,
    passed_on: bool,
}

impl Stop {
    fn look(&mut self, child: &Child, consumer: &Consumer, signals: &Signals, has_failed: bool) {
        let pending = signals.pending();
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

/// The file, and what is in it.
struct Sink<'a> {
    /// Gone after the first error: the program runs on, the recording does not.
    writer: Option<TraceWriter<File>>,
    failure: Option<WriteError>,
    progress: Progress,
    config: &'a RecordConfig,
}

impl<'a> Sink<'a> {
    fn new(file: File, header: &Header, config: &'a RecordConfig) -> Result<Sink<'a>, RecordError> {
        let writer = TraceWriter::new(file, header).map_err(|source| RecordError::Write {
            path: config.output.clone(),
            source,
        })?;
        Ok(Sink {
            writer: Some(writer),
            failure: None,
            progress: Progress::default(),
            config,
        })
    }

    /// Writes every full block of the ring; says whether there was one.
    fn drain(&mut self, consumer: &mut Consumer) -> bool {
        let mut drained = false;
        while let Some(block) = consumer.try_take() {
            drained = true;
            self.write(block.meta, block.bytes);
        }
        drained
    }

    fn take_partial(&mut self, consumer: &mut Consumer) {
        if let Some(block) = consumer.take_partial() {
            self.write(block.meta, block.bytes);
        }
    }

    /// The last record, when the recorder could not write it.
    fn write_end(&mut self, status: ExitStatus) {
        let reason = match (status.code(), status.signal()) {
            (Some(status), _) => EndReason::Exited { status },
            (None, signal) => EndReason::Signalled {
                signal: signal.unwrap_or(0),
            },
        };
        let end = End {
            time: self.progress.time,
            reason,
            totals: Totals::default(),
        };
        let mut encoder = BlockEncoder::new([0u8; 256]);
        encoder
            .push(&Record::End(end))
            .expect("an end record is smaller than the buffer");
        self.write(encoder.meta(), encoder.bytes());
    }

    fn write(&mut self, meta: BlockMeta, bytes: &[u8]) {
        let Some(writer) = &mut self.writer else {
            return;
        };
        if let Err(error) = writer.write_block(meta, bytes) {
            self.failure = Some(error);
            self.writer = None;
            return;
        }
        self.progress.time = self.progress.time.max(meta.last_time);
        self.progress.record_count += u64::from(meta.record_count);
        self.progress.file_bytes = writer.len();
    }

    fn finish(self) -> Result<Progress, RecordError> {
        let failed = |source| RecordError::Write {
            path: self.config.output.clone(),
            source,
        };
        if let Some(failure) = self.failure {
            return Err(failed(failure));
        }
        if let Some(writer) = self.writer {
            writer.finish().map_err(failed)?;
        }
        Ok(self.progress)
    }
}

fn exit_code(status: ExitStatus) -> u8 {
    match (status.code(), status.signal()) {
        (Some(code), _) => code as u8,
        (None, signal) => 128 + signal.unwrap_or(0) as u8,
    }
}
