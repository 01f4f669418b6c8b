//! Layers of the view: each observes in a thread of its own and hands over a window at a time.

use std::panic;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use hitm::live::{LiveTarget, LockWindows};
use hitm_live::cgroups::Hierarchy;
use hitm_live::throttle::{ThrottleReport, ThrottleWindows};
use hitm_live::tracepoints::drop_capabilities;
use hitm_live::wakeups::{self, WakeupReport, WakeupWindows};
use hitm_report::live::LiveLocks;

/// Samples of each CPU in a second, as `hitm live locks` takes them.
const FREQUENCY: u32 = 999;
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

    fn of_wakeups(&self) -> wakeups::Target {
        match self {
            Watched::Host => wakeups::Target::All,
            Watched::Process(pid) => wakeups::Target::Process(*pid),
            Watched::Cgroup(path) => wakeups::Target::Cgroup(path.clone()),
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

/// A window of one layer, or the reason why there is none.
#[derive(Debug)]
pub(super) enum Window {
    Locks(Result<LiveLocks, String>),
    Groups(Result<ThrottleReport, String>),
    Wakeups(Result<WakeupReport, String>),
}

/// Layers that observe until the end.
#[derive(Debug)]
pub(super) struct Layers {
    windows: Receiver<Window>,
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
        let layer = |run: fn(&Watched, &Pace)| {
            let watched = watched.clone();
            let pace = Pace {
                window,
                is_over: Arc::clone(&is_over),
                sender: sender.clone(),
            };
            thread::spawn(move || run(&watched, &pace))
        };
        let threads = vec![layer(locks), layer(groups), layer(wakeups)];
        // Placing does not need them, and a thread has its own.
        let _ = drop_capabilities();
        Ok(Layers {
            windows,
            is_over,
            threads,
        })
    }

    /// The windows that have ended since the last look. A bug in a layer is one of the view.
    pub(super) fn windows(&self) -> impl Iterator<Item = Window> {
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
    sender: Sender<Window>,
}

impl Pace {
    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    fn send(&self, window: Window) {
        // Without a view nobody misses it.
        let _ = self.sender.send(window);
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
    fn fail(&self, window: Window) {
        self.send(window);
        while !self.is_over() {
            thread::sleep(STEP);
        }
    }
}

fn locks(watched: &Watched, pace: &Pace) {
    let mut windows = match LockWindows::open(&watched.of_locks(), FREQUENCY) {
        Ok(windows) => windows,
        Err(error) => return pace.fail(Window::Locks(Err(error.to_string()))),
    };
    while !pace.is_over() {
        pace.pass(|step| windows.sample(step));
        let window = windows.end_window();
        pace.send(Window::Locks(Ok(LiveLocks::of(&window))));
    }
}

fn groups(watched: &Watched, pace: &Pace) {
    let mut windows = match ThrottleWindows::open(watched.group().as_deref()) {
        Ok(windows) => windows,
        Err(error) => return pace.fail(Window::Groups(Err(error.to_string()))),
    };
    while !pace.is_over() {
        windows.watch(pace.window, &|| pace.is_over(), &mut |_| {});
        match windows.end_window() {
            Ok(report) => pace.send(Window::Groups(Ok(report))),
            Err(error) => return pace.fail(Window::Groups(Err(error.to_string()))),
        }
    }
}

fn wakeups(watched: &Watched, pace: &Pace) {
    let mut windows = match WakeupWindows::open(&watched.of_wakeups()) {
        Ok(windows) => windows,
        Err(error) => return pace.fail(Window::Wakeups(Err(error.to_string()))),
    };
    while !pace.is_over() {
        pace.pass(thread::sleep);
        match windows.end_window() {
            Ok(mut report) => {
                report.sort_by_longest();
                pace.send(Window::Wakeups(Ok(report)));
            }
            Err(error) => return pace.fail(Window::Wakeups(Err(error.to_string()))),
        }
    }
}
