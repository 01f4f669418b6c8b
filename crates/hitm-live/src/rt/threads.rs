//! The threads of the test.

use std::cell::UnsafeCell;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use hitm_base::rt_migrate::{RtMigrate, RtMigrateConfig, Sample};

use super::{Place, RtError, RtRun, allowed_cpus};
use crate::clock::monotonic_ns;

/// The C library's barrier: leaving it takes no lock that a thread of lower priority could hold.
struct Barrier(Box<UnsafeCell<libc::pthread_barrier_t>>);

// SAFETY: the C library's functions may be called by any thread.
unsafe impl Send for Barrier {}
// SAFETY: the same.
unsafe impl Sync for Barrier {}

impl Barrier {
    fn new(threads: usize) -> Barrier {
        // SAFETY: a barrier is plain memory, which the call initialises.
        unsafe {
            let barrier = Barrier(Box::new(UnsafeCell::new(std::mem::zeroed())));
            let status =
                libc::pthread_barrier_init(barrier.0.get(), std::ptr::null(), threads as u32);
            assert_eq!(status, 0, "a barrier of {threads} threads is a valid one");
            barrier
        }
    }

    fn wait(&self) {
        // SAFETY: the barrier was initialised, and has stayed in its place.
        unsafe { libc::pthread_barrier_wait(self.0.get()) };
    }
}

/// Results of a thread's iteration, on lines of their own.
#[derive(Default)]
#[repr(align(128))]
struct Notes {
    start: AtomicU64,
    end: AtomicU64,
    loops: AtomicU64,
    first_cpu: AtomicU32,
    last_cpu: AtomicU32,
}

/// The gate before the first barrier.
const CLOSED: u32 = 0;
const OPEN: u32 = 1;
const GO_HOME: u32 = 2;

struct Test {
    config: RtMigrateConfig,
    gate: AtomicU32,
    start: Barrier,
    end: Barrier,
    is_over: AtomicBool,
    /// `errno` of the last thread that was refused its priority; 0 for none.
    refused: AtomicI32,
    notes: Vec<Notes>,
}

/// Runs the test on threads of its own: the caller keeps its priority.
pub(super) fn run(config: RtMigrateConfig, duration: Option<Duration>) -> Result<RtRun, RtError> {
    let parent = thread::spawn(move || parent(config, duration));
    match parent.join() {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

fn parent(config: RtMigrateConfig, duration: Option<Duration>) -> Result<RtRun, RtError> {
    let prio = config.prio(config.tasks - 1) + 1;
    become_fifo(prio).map_err(|source| RtError::NoPriority { prio, source })?;
    let test = Arc::new(Test {
        config,
        gate: AtomicU32::new(CLOSED),
        start: Barrier::new(config.tasks + 1),
        end: Barrier::new(config.tasks + 1),
        is_over: AtomicBool::new(false),
        refused: AtomicI32::new(0),
        notes: (0..config.tasks).map(|_| Notes::default()).collect(),
    });
    let children = start_children(&test)?;
    let result = test.iterations(duration);
    test.is_over.store(true, Ordering::Release);
    test.start.wait();
    join(children);
    result
}

/// Starts all threads, or none.
fn start_children(test: &Arc<Test>) -> Result<Vec<JoinHandle<()>>, RtError> {
    let tasks = test.config.tasks;
    let mut children = Vec::new();
    let start = |task: usize| {
        let test = Arc::clone(test);
        let thread = thread::Builder::new().name(format!("rt-migrate/{task}"));
        thread
            .stack_size(CHILD_STACK)
            .spawn(move || test.child(task))
    };
    for task in 0..tasks {
        match start(task) {
            Ok(child) => children.push(child),
            Err(source) => {
                open(&test.gate, GO_HOME, &children);
                join(children);
                let missing = RtError::NoThread {
                    task,
                    tasks,
                    source,
                };
                return Err(missing);
            }
        }
    }
    open(&test.gate, OPEN, &children);
    Ok(children)
}

fn open(gate: &AtomicU32, state: u32, children: &[JoinHandle<()>]) {
    gate.store(state, Ordering::Release);
    for child in children {
        child.thread().unpark();
    }
}

fn join(children: Vec<JoinHandle<()>>) {
    for child in children {
        if let Err(panic) = child.join() {
            std::panic::resume_unwind(panic);
        }
    }
}

/// Bytes of a thread's stack: it calls nothing deep, and 4096 of them should fit anywhere.
const CHILD_STACK: usize = 64 << 10;

impl Test {
    fn iterations(&self, duration: Option<Duration>) -> Result<RtRun, RtError> {
        let config = self.config;
        let mut run = RtRun {
            results: RtMigrate {
                config,
                iterations: Vec::new(),
            },
            places: Vec::new(),
            allowed: allowed_cpus(),
        };
        // The first pass touches code and stacks, so that they are in memory.
        self.iteration();
        let refused = self.refused.load(Ordering::Acquire);
        if refused != 0 {
            return Err(RtError::NoPriority {
                prio: config.base_prio,
                source: io::Error::from_raw_os_error(refused),
            });
        }
        let begin = monotonic_ns();
        let has_time =
            |duration: Duration| u128::from(monotonic_ns() - begin) < duration.as_nanos();
        loop {
            let (samples, places) = self.iteration();
            run.results.iterations.push(samples);
            run.places.push(places);
            let done = run.results.iterations.len();
            let goes_on = duration.map_or(done < config.loops, has_time);
            if !goes_on || config.check && run.results.failure(done - 1).is_some() {
                return Ok(run);
            }
        }
    }

    /// Lets the threads reach the barrier, opens it, and waits until all are done.
    fn iteration(&self) -> (Vec<Sample>, Vec<Place>) {
        thread::sleep(Duration::from_nanos(self.config.sleep.0 as u64));
        let opened = monotonic_ns();
        self.start.wait();
        self.end.wait();
        let micros = |time: &AtomicU64| time.load(Ordering::Acquire).saturating_sub(opened) / 1000;
        let sample = |notes: &Notes| Sample {
            start_us: micros(&notes.start),
            length_us: micros(&notes.end),
            loops: notes.loops.load(Ordering::Acquire),
        };
        let place = |notes: &Notes| Place {
            first_cpu: notes.first_cpu.load(Ordering::Acquire),
            last_cpu: notes.last_cpu.load(Ordering::Acquire),
        };
        let samples = self.notes.iter().map(sample).collect();
        (samples, self.notes.iter().map(place).collect())
    }

    fn child(&self, task: usize) {
        if let Err(error) = become_fifo(self.config.prio(task)) {
            let errno = error.raw_os_error().unwrap_or(libc::EPERM);
            self.refused.store(errno, Ordering::Release);
        }
        while self.gate.load(Ordering::Acquire) == CLOSED {
            thread::park();
        }
        if self.gate.load(Ordering::Acquire) == GO_HOME {
            return;
        }
        let notes = &self.notes[task];
        let busy = self.config.run_time.0 as u64;
        loop {
            self.start.wait();
            if self.is_over.load(Ordering::Acquire) {
                return;
            }
            let start = monotonic_ns();
            let first_cpu = current_cpu();
            let mut loops = 0;
            let mut now = start;
            while now - start < busy {
                now = monotonic_ns();
                loops += 1;
            }
            notes.start.store(start, Ordering::Release);
            notes.end.store(now, Ordering::Release);
            notes.loops.store(loops, Ordering::Release);
            notes.first_cpu.store(first_cpu, Ordering::Release);
            notes.last_cpu.store(current_cpu(), Ordering::Release);
            self.end.wait();
        }
    }
}

/// Makes the calling thread SCHED_FIFO.
fn become_fifo(prio: u8) -> io::Result<()> {
    let param = libc::sched_param {
        sched_priority: i32::from(prio),
    };
    // SAFETY: the call reads the parameter.
    match unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &param) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn current_cpu() -> u32 {
    // SAFETY: the call only answers; it cannot fail on Linux.
    u32::try_from(unsafe { libc::sched_getcpu() }).unwrap_or(0)
}
