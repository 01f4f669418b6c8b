//! The recording itself: start the program, drain the ring into the file, follow the program to
//! its end.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hitm_base::Cycles;
use hitm_coherence::directory::Capacity;
use hitm_files::limits;
use hitm_recording::generated;
use hitm_recording::generated::told::Told;
use hitm_trace::Caveat;
use hitm_trace::ring::{Consumer, ProducerState};
use hitm_trace::{EndReason, Loss};
use hitm_weave::board::Switch;
use hitm_weave::session::{self, Account, Session};
use hitm_weave::{Group, Output, Placement, Weave};

use super::command::command;
use super::control::{Begin, Control, Pipe};
use super::engine::{Engine, Shared};
use super::futex::FUTEX;
use super::host_time::{host_nanos, host_realtime_nanos};
use super::lifeline::Lifeline;
use super::region::Region;
use super::signals::Signals;
use super::sink::{Progress, Sink};
use super::{Callers, News, Prepared, ProgramClock, RecordError};

/// Time that the engine sleeps while the ring is full.
const RING_FULL_WAIT: Duration = Duration::from_micros(100);
/// Time that this process sleeps while the ring is empty.
const IDLE_SLEEP: Duration = Duration::from_millis(1);
const PROGRESS_EVERY: Duration = Duration::from_millis(100);
/// After a request to stop, time in which the recorder prices what it holds before programs are told.
const STOP_PATIENCE: Duration = Duration::from_secs(1);
/// After a request to stop, time in which programs may end. Then they are killed.
const END_PATIENCE: Duration = Duration::from_millis(1800);

/// The engine's findings about processes, and names that runtimes told.
type Findings = (Account, BTreeMap<u32, Told>);

/// Outcome of a recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// The status to exit with: the program's own, or 128 and the signal that killed it.
    pub exit_code: u8,
    /// Virtual time, records and bytes in the file.
    pub progress: Progress,
    /// End of the first process, as the recorder saw it; none if it saw none.
    pub end: Option<EndReason>,
    /// Programs whose rest is not recorded, and why.
    pub losses: Vec<(String, Loss)>,
    /// Programs that were not followed, each as `reason:program`, and how many of each.
    pub left_alone: BTreeMap<String, u64>,
    /// Lines of the control FIFO that were no commands.
    pub unknown_commands: u64,
    /// Answers that programs got from the host, and refusals.
    pub caveats: Vec<Caveat>,
    /// The one that asked for the recording's end; none when the program ended by itself.
    pub stopped_by: Option<StoppedBy>,
}

/// The one that asked for a recording's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoppedBy {
    /// A signal to this process.
    Signal,
    /// [`RecordConfig::duration`](super::RecordConfig::duration), or a command of
    /// [`RecordConfig::control`](super::RecordConfig::control).
    Config,
}

/// Returns who asked for the end. A signal counts first.
fn stopped_by(signals: &Signals, control: &Control) -> Option<StoppedBy> {
    match (signals.pending(), control.is_over()) {
        (Some(_), _) => Some(StoppedBy::Signal),
        (None, true) => Some(StoppedBy::Config),
        (None, false) => None,
    }
}

pub(super) fn run(
    prepared: &Prepared<'_>,
    news: &mut dyn FnMut(News<'_>),
) -> Result<Ended, RecordError> {
    let Prepared { config, tools, .. } = prepared;
    let header = prepared.header();
    let system = |what: &str| {
        let what = what.to_string();
        move |source| RecordError::System {
            what,
            source: limits::explain_start(source),
        }
    };
    let pipe = config.control.as_ref().map(Pipe::open).transpose();
    let pipe = pipe.map_err(|(path, source)| RecordError::Control { path, source })?;
    let encoded = header.encode().map_err(|error| RecordError::System {
        what: "write the recording's header".into(),
        source: std::io::Error::other(error),
    })?;
    let mut region = Region::create_with_board(&encoded)
        .map_err(system("make the memory that is shared with QEMU"))?;
    let mut sink = Sink::create(&config.output, &header)?;
    let signals = Signals::catch();
    // SAFETY: the region is mapped until the end of this function, which drops what comes later first.
    let _lifeline = unsafe { Lifeline::hold(region.guard()) }
        .map_err(system("make a mutex that processes share"))?;
    let shared = Arc::new(Shared::default());
    let (engine, switch) = engine(prepared, &region, &shared).map_err(system("start a thread"))?;
    let mut control = Control::new(pipe, config.begin, config.duration, switch);
    region
        .write_text(&launch(prepared, &region))
        .map_err(system("make the memory that is shared with QEMU"))?;
    let child = command(prepared, &region).spawn();
    let child = child.map_err(|error| {
        end_early(&shared, &mut region.consumer, &engine);
        system(&format!("start {}", tools.qemu.path.display()))(error)
    })?;
    control.start();
    let recorded = Recorded {
        child,
        status: None,
        engine,
        shared: Arc::clone(&shared),
        ends_programs: !config.keeps_running,
        signals: &signals,
        control: &mut control,
    };
    let followed = recorded.follow(&mut region.consumer, &mut sink, news);
    let (status, (account, told)) = followed.map_err(system("wait for the program"))?;
    let not_started = || RecordError::NotStarted {
        qemu: tools.qemu.path.clone(),
        status: format!("{status}{}", limits::memory_hint()),
    };
    if !shared.has_started.load(Ordering::Acquire) {
        return Err(not_started());
    }
    let progress = sink.finish()?;
    generated::keep(&account.programs, &told, &config.output)?;
    // QEMU loads the recorder before it makes room for the program; a program that ran took time.
    let has_time = progress.time > Cycles::ZERO || config.begin != Begin::AtOnce;
    if !has_time && !status.success() && status.code().is_some() {
        return Err(not_started());
    }
    Ok(Ended {
        exit_code: exit_code_of(status),
        progress,
        end: account.end,
        unknown_commands: control.unknown_commands(),
        caveats: account.caveats.found(),
        losses: account.losses,
        left_alone: account.left_alone,
        stopped_by: stopped_by(&signals, &control),
    })
}

/// Starts the thread that prices what the processes do.
fn engine(
    prepared: &Prepared<'_>,
    region: &Region,
    shared: &Arc<Shared>,
) -> std::io::Result<(JoinHandle<Findings>, Switch)> {
    let config = prepared.config;
    let (machine, _) = &config.machine;
    let weave = Weave::new(machine.clone(), Capacity::Finite);
    let output = Output::new(region.producer()?, |producer| {
        std::thread::sleep(RING_FULL_WAIT);
        !producer.is_consumer_gone()
    });
    let (board, backing) = region.board(FUTEX)?;
    let switch = board.switch();
    let group = Group::new(weave, output, prepared.cpus.clone());
    let shared = Arc::clone(shared);
    let settings = session::Config {
        window: config.window,
        has_callers: config.callers != Callers::Nobody,
    };
    let session = Session::new(group, settings);
    let engine = Engine::new(session, board, backing, config.stall, shared);
    let thread = std::thread::Builder::new().name("engine".into());
    Ok((thread.spawn(move || engine.run())?, switch))
}

/// Ends the engine of a program that could not be started.
fn end_early(shared: &Shared, consumer: &mut Consumer, engine: &JoinHandle<Findings>) {
    let ended = EndReason::Exited { status: 0 };
    *shared.first_end.lock().expect("no holder panics") = Some(ended);
    while !engine.is_finished() {
        while consumer.try_take().is_some() {}
        std::thread::sleep(IDLE_SLEEP);
    }
}

/// Parts of the command line that takes other programs into the recording.
fn launch(prepared: &Prepared<'_>, region: &Region) -> String {
    let Prepared { config, tools, .. } = prepared;
    let absolute = |path: &Path| {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
        path.display().to_string()
    };
    let qemu = absolute(&tools.qemu.path);
    let plugin = absolute(&tools.qemu.plugin);
    let observer = tools.heap_observer.as_deref().map(absolute);
    let clock = match config.clock {
        ProgramClock::Host => String::new(),
        ProgramClock::Modelled => {
            format!("clock={},{}\n", host_realtime_nanos(), host_nanos())
        }
    };
    let allocators = config.allocators.0.iter();
    let allocators: String = allocators
        .map(|rule| format!("allocator={rule}\n"))
        .collect();
    format!(
        "{clock}qemu={qemu}\nplugin={plugin},{}\nobserver={}\nmemory={}\nfollow={}\nguard={}\ncallers={}\ncpus={}\n{allocators}",
        region.board_arguments(),
        observer.unwrap_or_default(),
        region.path(),
        if config.follows { "all" } else { "no" },
        if config.keeps_running { "no" } else { "yes" },
        match config.callers {
            Callers::Nobody => "no",
            Callers::InCompany => "company",
            Callers::All => "yes",
        },
        Placement::List(prepared.cpus.online().to_vec()),
    )
}

/// The program that is recorded, with all its processes.
#[derive(Debug)]
struct Recorded<'a> {
    child: Child,
    /// Exit status of the first process, once it has ended.
    status: Option<ExitStatus>,
    engine: JoinHandle<Findings>,
    shared: Arc<Shared>,
    /// Programs end with their recording.
    ends_programs: bool,
    signals: &'a Signals,
    control: &'a mut Control,
}

impl Recorded<'_> {
    /// Drains the ring until the first process has ended, and nobody is recorded any more.
    fn follow(
        mut self,
        consumer: &mut Consumer,
        sink: &mut Sink,
        news: &mut dyn FnMut(News<'_>),
    ) -> std::io::Result<(ExitStatus, Findings)> {
        let mut stop = Stop::default();
        let mut reported_at = Instant::now();
        let mut stalled = None;
        loop {
            let is_over = self.engine.is_finished();
            if self.shared.has_started.load(Ordering::Acquire) {
                sink.take_name();
            }
            let drained = sink.drain(consumer);
            if let (Some(status), true) = (self.status, is_over) {
                sink.drain(consumer);
                return match self.engine.join() {
                    Ok(findings) => Ok((status, findings)),
                    Err(panic) => std::panic::resume_unwind(panic),
                };
            }
            self.look()?;
            self.control.look();
            let late = self.control.is_over().then_some((libc::SIGTERM, true));
            stalled = stalled.or(self.stalled(news).then_some((libc::SIGKILL, true)));
            let pending = self.signals.pending().or(late).or(stalled);
            stop.look(&self, consumer, pending, sink.has_failed());
            if stop.is_too_long() && self.ends_programs {
                news(News::Note(
                    "the program did not end within 2 s: it is killed",
                ));
                self.signal(libc::SIGKILL);
            }
            if reported_at.elapsed() >= PROGRESS_EVERY {
                news(News::Progress(sink.progress()));
                reported_at = Instant::now();
            }
            if !drained {
                std::thread::sleep(IDLE_SLEEP);
            }
        }
    }

    /// Tells the engine when the first process has ended.
    fn look(&mut self) -> std::io::Result<()> {
        if self.status.is_none() {
            self.status = self.child.try_wait()?;
            if let Some(status) = self.status {
                let reason = match (status.code(), status.signal()) {
                    (Some(status), _) => EndReason::Exited { status },
                    (None, signal) => EndReason::Signalled {
                        signal: signal.unwrap_or(0),
                    },
                };
                *self.shared.first_end.lock().expect("no holder panics") = Some(reason);
            }
        }
        Ok(())
    }

    /// Tells what the watchdog has found; true if the recording has ended for it.
    fn stalled(&self, news: &mut dyn FnMut(News<'_>)) -> bool {
        let stalled = self.shared.stall.lock().expect("no holder panics").take();
        let Some(stalled) = stalled else { return false };
        news(News::Note(&stalled.text));
        stalled.ends
    }

    /// Sends a signal to every process.
    fn signal(&self, signal: i32) {
        let running = self.shared.running.lock().expect("no holder panics");
        let child = self.status.is_none().then_some(self.child.id());
        for pid in running
            .iter()
            .copied()
            .filter(|pid| Some(*pid) != child)
            .chain(child)
        {
            // SAFETY: a signal to a process that has not been waited for, or was there a moment ago.
            unsafe { libc::kill(pid as libc::pid_t, signal) };
        }
    }
}

/// The end of a recording before the program's own.
#[derive(Debug, Default)]
struct Stop {
    requested_at: Option<Instant>,
    passed_on: bool,
    has_killed: bool,
}

impl Stop {
    /// Ends the recording when a signal is `pending` or the file `has_failed`. The signal is passed
    /// on to the program if it came to this process alone.
    fn look(
        &mut self,
        recorded: &Recorded<'_>,
        consumer: &Consumer,
        pending: Option<(libc::c_int, bool)>,
        has_failed: bool,
    ) {
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
            recorded.signal(signal);
            self.passed_on = true;
        }
    }

    /// Returns true once when programs have had their time to end.
    fn is_too_long(&mut self) -> bool {
        let is_over = self
            .requested_at
            .is_some_and(|at| at.elapsed() > END_PATIENCE);
        is_over && !std::mem::replace(&mut self.has_killed, true)
    }
}

/// The status to exit with: the program's own, or 128 and the signal that killed it.
pub(crate) fn exit_code_of(status: ExitStatus) -> u8 {
    match (status.code(), status.signal()) {
        (Some(code), _) => code as u8,
        (None, signal) => 128 + signal.unwrap_or(0) as u8,
    }
}
