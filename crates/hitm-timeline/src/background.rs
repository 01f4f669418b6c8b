//! A timeline that a thread of its own fills, while the run goes on.

use std::ops::Range;
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;

use hitm_base::{CpuId, Cycles};

use crate::{Access, Scene, Timeline, Use};

/// Calls that are handed over together: some 100 KiB of them.
pub(crate) const BATCH: usize = 1024;
/// Batches on their way. A run waits when the other thread is that far behind.
pub(crate) const BATCHES_MAX: usize = 16;

/// A call of [`Timeline`].
#[derive(Debug)]
enum Call {
    Process(u32, String),
    Thread(usize, u32, String),
    Lock(String),
    Grant(Access),
    StoreWait(Access),
    Run(u32, CpuId, Range<Cycles>),
    LockWait(u32, u32, Range<Cycles>),
    LockUse(Use),
}

impl Call {
    fn make(self, timeline: &mut Timeline) {
        match self {
            Call::Process(pid, name) => {
                timeline.add_process(pid, &name);
            }
            Call::Thread(process, tid, name) => {
                timeline.add_thread(process, tid, &name);
            }
            Call::Lock(name) => {
                timeline.add_lock(&name);
            }
            Call::Grant(access) => timeline.grant(&access),
            Call::StoreWait(access) => timeline.store_wait(&access),
            Call::Run(thread, cpu, span) => timeline.run(thread, cpu, span),
            Call::LockWait(lock, thread, span) => timeline.lock_wait(lock, thread, span),
            Call::LockUse(used) => timeline.lock_use(&used),
        }
    }
}

/// Takes the calls of [`Timeline`] that a simulation makes, and has another thread make them in the same
/// order. So the timeline is the same to the byte.
#[derive(Debug)]
pub struct BackgroundTimeline {
    batch: Vec<Call>,
    full: SyncSender<Vec<Call>>,
    /// Batches that are empty again.
    empty: Receiver<Vec<Call>>,
    thread: JoinHandle<Timeline>,
    processes: usize,
    threads: u32,
    locks: u32,
}

impl BackgroundTimeline {
    /// A run of which nothing has happened yet.
    pub fn new(scene: Scene) -> BackgroundTimeline {
        let (full, batches) = sync_channel::<Vec<Call>>(BATCHES_MAX);
        let (give_back, empty) = channel();
        let thread = std::thread::spawn(move || {
            let mut timeline = Timeline::new(scene);
            for mut batch in batches {
                batch.drain(..).for_each(|call| call.make(&mut timeline));
                // At the end nobody takes it.
                let _ = give_back.send(batch);
            }
            timeline
        });
        BackgroundTimeline {
            batch: Vec::with_capacity(BATCH),
            full,
            empty,
            thread,
            processes: 0,
            threads: 0,
            locks: 0,
        }
    }

    /// Like [`Timeline::add_process`].
    pub fn add_process(&mut self, pid: u32, name: &str) -> usize {
        self.push(Call::Process(pid, name.to_owned()));
        self.processes += 1;
        self.processes - 1
    }

    /// Like [`Timeline::add_thread`].
    pub fn add_thread(&mut self, process: usize, tid: u32, name: &str) -> u32 {
        self.push(Call::Thread(process, tid, name.to_owned()));
        self.threads += 1;
        self.threads - 1
    }

    /// Like [`Timeline::add_lock`].
    pub fn add_lock(&mut self, name: &str) -> u32 {
        self.push(Call::Lock(name.to_owned()));
        self.locks += 1;
        self.locks - 1
    }

    /// Like [`Timeline::grant`].
    #[inline]
    pub fn grant(&mut self, access: &Access) {
        self.push(Call::Grant(*access));
    }

    /// Like [`Timeline::store_wait`].
    pub fn store_wait(&mut self, access: &Access) {
        self.push(Call::StoreWait(*access));
    }

    /// Like [`Timeline::run`].
    pub fn run(&mut self, thread: u32, cpu: CpuId, span: Range<Cycles>) {
        self.push(Call::Run(thread, cpu, span));
    }

    /// Like [`Timeline::lock_wait`].
    pub fn lock_wait(&mut self, lock: u32, thread: u32, span: Range<Cycles>) {
        self.push(Call::LockWait(lock, thread, span));
    }

    /// Like [`Timeline::lock_use`].
    pub fn lock_use(&mut self, used: &Use) {
        self.push(Call::LockUse(*used));
    }

    /// Waits until all calls are made, and returns the timeline.
    pub fn finish(mut self) -> Timeline {
        self.hand_over();
        drop(self.full);
        match self.thread.join() {
            Ok(timeline) => timeline,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }

    #[inline]
    fn push(&mut self, call: Call) {
        self.batch.push(call);
        if self.batch.len() == BATCH {
            self.hand_over();
        }
    }

    fn hand_over(&mut self) {
        let next = self.empty.try_recv();
        let next = next.unwrap_or_else(|_| Vec::with_capacity(BATCH));
        let batch = std::mem::replace(&mut self.batch, next);
        // Fails only after a panic of the other thread, which `finish` passes on.
        let _ = self.full.send(batch);
    }
}
