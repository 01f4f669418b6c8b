//! Layers of the view: each observes in a thread of its own and hands over a window at a time.

use std::panic;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use hitm::live::{LineWindows, LiveTarget, LockWindows};
use hitm_live::cgroups::Hierarchy;
use hitm_live::clock::{process_cpu_ns, thread_cpu_ns};
use hitm_live::target::Target;
use hitm_live::throttle::ThrottleWindows;
use hitm_live::tracepoints::drop_capabilities;
use hitm_live::wakeups::WakeupWindows;
use hitm_recording::Recording;
use hitm_report::live::{LiveLines, LiveLocks, Window};

use crate::commands::report::with_file;

/// Samples of each CPU in a second, as `hitm live locks` takes them.
const FREQUENCY: u32 = 999;
/// Part of a CPU that looking at lines may take.
const LINES_CPU_MAX: f64 = 0.01;
/// Time within which a layer notices the end.
const STEP: Duration = Duration::from_millis(100);

/// The threads that are viewed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Watched {
    /// Everything on this host.
    Host,
    /// A process and what it starts.
    Process(u32),
    /// A cgroup and those below it.
    Cgroup(String),
}

impl Watched {
    /// It in words.
    pub(super) fn text(&self) -> String {
        match self {
            Watched::Host => "everything on this host".to_owned(),
            Watched::Process(pid) => format!("process {pid}"),
            Watched::Cgroup(path) => format!("cgroup {path}"),
        }
    }

    fn of_locks(&self) -> LiveTarget {
        match self {
            Watched::Host => LiveTarget::System,
            Watched::Process(pid) => LiveTarget::Process(*pid),
            Watched::Cgroup(path) => LiveTarget::Cgroup(path.clone()),
        }
    }

    fn of_wakeups(&self) -> Target {
        match self {
            Watched::Host => Target::All,
            Watched::Process(pid) => Target::Process(*pid),
            Watched::Cgroup(path) => Target::Cgroup(path.clone()),
        }
    }

    /// The group whose tasks are looked at: of a process its own.
    fn group(&self) -> Option<String> {
        match self {
            Watched::Host => None,
            Watched::Process(pid) => Hierarchy::find().ok()?.group_of(*pid),
            Watched::Cgroup(path) => Some(path.clone()),
        }
    }
}

/// A layer of the view. One more is one more row of [`LAYERS`], and a [`Window`] of what it measures.
#[derive(Debug)]
pub(super) struct Layer {
    /// The title of its table.
    pub(super) title: &'static str,
    /// Observes, and sends a window at a time until the end.
    run: fn(&Watched, &Pace) -> Result<(), String>,
}

/// All of them, in the order of their tables.
pub(super) const LAYERS: [Layer; 4] = [
    Layer {
        title: "Locks by CPUs lost",
        run: locks,
    },
    Layer {
        title: "Throttled groups",
        run: groups,
    },
    Layer {
        title: "Late wake-ups",
        run: wakeups,
    },
    Layer {
        title: "Lines",
        run: lines,
    },
];

/// A window of one layer.
#[derive(Debug)]
pub(super) struct Sent {
    /// Number of the layer.
    pub(super) layer: usize,
    /// The window, or the reason why there is none.
    pub(super) window: Result<Box<dyn Window>, String>,
}

/// Layers that observe until the end.
#[derive(Debug)]
pub(super) struct Layers {
    windows: Receiver<Sent>,
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Layers {
    /// Starts to observe, for windows of a length. The calling thread gives up the capabilities that only observing
    /// needs.
    ///
    /// # Errors
    /// The process is not there.
    pub(super) fn start(watched: &Watched, window: Duration) -> Result<Layers> {
        if let Watched::Process(pid) = watched
            && hitm_live::procfs::threads(*pid).is_err()
        {
            bail!("no process {pid}");
        }
        let is_over = Arc::new(AtomicBool::new(false));
        let (sender, windows) = mpsc::channel();
        let threads = LAYERS.iter().enumerate().map(|(number, layer)| {
            let watched = watched.clone();
            let pace = Pace {
                window,
                is_over: Arc::clone(&is_over),
                layer: number,
                sender: sender.clone(),
            };
            thread::spawn(move || {
                if let Err(reason) = (layer.run)(&watched, &pace) {
                    pace.fail(reason);
                }
            })
        });
        let threads = threads.collect();
        // Placing does not need them, and a thread has its own.
        let _ = drop_capabilities();
        Ok(Layers {
            windows,
            is_over,
            threads,
        })
    }

    /// The windows that have ended since the last look. A bug in a layer is one of the view.
    pub(super) fn windows(&self) -> impl Iterator<Item = Sent> {
        self.windows.try_iter()
    }

    /// Returns true once a layer has ended, which none does before the end.
    pub(super) fn is_broken(&self) -> bool {
        self.threads.iter().any(JoinHandle::is_finished)
    }

    /// Ends the layers, and resumes a panic of theirs.
    pub(super) fn end(self) {
        self.is_over.store(true, Ordering::Release);
        for thread in self.threads {
            if let Err(bug) = thread.join() {
                panic::resume_unwind(bug);
            }
        }
    }
}

/// The length of windows, and the way to the view.
struct Pace {
    window: Duration,
    is_over: Arc<AtomicBool>,
    layer: usize,
    sender: Sender<Sent>,
}

impl Pace {
    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    fn send(&self, window: impl Window + 'static) {
        self.tell(Ok(Box::new(window)));
    }

    fn tell(&self, window: Result<Box<dyn Window>, String>) {
        let layer = self.layer;
        // Without a view nobody misses it.
        let _ = self.sender.send(Sent { layer, window });
    }

    /// Does nothing for a time.
    fn rest(&self, time: Duration) {
        let begun = Instant::now();
        while !self.is_over() && begun.elapsed() < time {
            thread::sleep(STEP.min(time.saturating_sub(begun.elapsed())));
        }
    }

    /// Observes for the length of a window; `step` gets the time of each part.
    fn pass(&self, mut step: impl FnMut(Duration)) {
        let begun = Instant::now();
        while !self.is_over() {
            let left = self.window.saturating_sub(begun.elapsed());
            if left.is_zero() {
                return;
            }
            step(left.min(STEP));
        }
    }

    /// Says why a layer has no windows, and waits for the end.
    fn fail(&self, reason: String) {
        self.tell(Err(reason));
        while !self.is_over() {
            thread::sleep(STEP);
        }
    }
}

fn locks(watched: &Watched, pace: &Pace) -> Result<(), String> {
    let windows = LockWindows::open(&watched.of_locks(), FREQUENCY);
    let mut windows = windows.map_err(|error| error.to_string())?;
    while !pace.is_over() {
        pace.pass(|step| windows.sample(step));
        pace.send(LiveLocks::of(&windows.end_window()));
    }
    Ok(())
}

fn groups(watched: &Watched, pace: &Pace) -> Result<(), String> {
    let windows = ThrottleWindows::open(watched.group().as_deref());
    let mut windows = windows.map_err(|error| error.to_string())?;
    while !pace.is_over() {
        windows.watch(pace.window, &|| pace.is_over(), &mut |_| {});
        pace.send(windows.end_window().map_err(|error| error.to_string())?);
    }
    Ok(())
}

fn wakeups(watched: &Watched, pace: &Pace) -> Result<(), String> {
    let windows = WakeupWindows::open(&watched.of_wakeups());
    let mut windows = windows.map_err(|error| error.to_string())?;
    while !pace.is_over() {
        pace.pass(thread::sleep);
        let mut report = windows.end_window().map_err(|error| error.to_string())?;
        report.sort_by_longest();
        pace.send(report);
    }
    Ok(())
}

/// Looks at lines, and rests behind each look until it has taken no more than its part of a CPU.
fn lines(watched: &Watched, pace: &Pace) -> Result<(), String> {
    let windows = LineWindows::open(&watched.of_locks(), FREQUENCY, pace.window);
    let mut windows = windows.map_err(|error| error.to_string())?;
    while !pace.is_over() {
        let (begun, of_thread) = (Instant::now(), thread_cpu_ns());
        let recording = windows.look(&|| pace.is_over());
        let recording = recording.map_err(|error| error.to_string())?;
        // Threads that read programs are of this process; what other layers do meanwhile counts as well.
        let (of_thread, of_process) = (thread_cpu_ns() - of_thread, process_cpu_ns());
        let lines = match recording {
            Some(recording) => named(&recording).map_err(|error| error.to_string())?,
            None => LiveLines::default(),
        };
        let cost = Duration::from_nanos(of_thread + process_cpu_ns() - of_process);
        let rest = cost.div_f64(LINES_CPU_MAX).saturating_sub(begun.elapsed());
        pace.send(lines.with_rest(cost, rest));
        pace.rest(rest.max(pace.window.saturating_sub(begun.elapsed())));
    }
    Ok(())
}

fn named(recording: &[u8]) -> Result<LiveLines> {
    with_file(recording, |file| {
        let recording = Recording::load_contended(file, &mut |_, _| {})?;
        Ok(LiveLines::of(&recording))
    })
}
