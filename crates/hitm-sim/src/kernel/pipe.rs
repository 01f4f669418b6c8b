//! Pipes: fs/pipe.c and kernel/sched/wait.c, v6.12.
//!
//! **What Linux does:** a ring of 16 pages under a mutex. A writer adds its bytes to the last page
//! while there is room in it, and wakes a reader when the pipe was empty. A reader takes bytes from
//! the first page, and wakes a writer when the pipe was full. Both wait in queues of their own. All
//! wake-ups say that the waker is about to sleep, whether it is or not.
//!
//! **What we do:** the same, with the lines of the pipe, its buffers and the bytes.
//!
//! **What a test could notice:** pages are never given back; no polling, no splice; a message is read as
//! it was written.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use hitm_base::CpuId;

use super::Kernel;
use super::core::Wake;
use super::filemap::{PAGE_BYTES, PageBytes};
use super::functions as f;
use super::mutex::Mutex;
use super::process::Thread;
use super::task::{TASK_INTERRUPTIBLE, TASK_RUNNING, Task, TaskId};
use crate::engine::{Arena, Object, ObjectPool, Opaque, Place, SimError, Site};

/// `PIPE_DEF_BUFFERS`.
const PAGES: u64 = 16;

/// A `wait_queue_head`.
#[derive(Debug)]
struct WaitQueue {
    lock: Place,
    head: Opaque,
    waiters: RefCell<VecDeque<TaskId>>,
}

impl WaitQueue {
    fn new(arena: &mut Arena, object: &Object, path: &str) -> Result<WaitQueue, SimError> {
        Ok(WaitQueue {
            lock: arena.place(object, &format!("{path}.lock"))?,
            head: arena.opaque(object, &format!("{path}.head"))?,
            waiters: RefCell::new(VecDeque::new()),
        })
    }
}

/// A pipe: its ring of pages, its bytes and its wait queues.
#[derive(Debug)]
pub struct Pipe {
    mutex: Mutex,
    rd_wait: WaitQueue,
    wr_wait: WaitQueue,
    head: Place,
    tail: Place,
    buffers: ObjectPool,
    bytes: PageBytes,
    /// Bytes written and read so far.
    written: Cell<u64>,
    read: Cell<u64>,
}

impl Pipe {
    fn room(&self) -> u64 {
        PAGES * PAGE_BYTES - (self.written.get() - self.read.get())
    }

    fn has(&self, count: u64) -> bool {
        self.written.get() - self.read.get() >= count
    }

    /// The lines of the bytes from a position on, and the buffer that says where they lie.
    fn at(&self, position: u64, count: u64) -> (Vec<Place>, Opaque) {
        let page = self.bytes.page_of(position);
        let buffer = self.buffers.place(page, 0, CpuId(0));
        (self.bytes.lines(position, count), Opaque::of(buffer))
    }
}

impl Kernel {
    /// An empty pipe.
    ///
    /// # Errors
    /// A layout without `pipe_inode_info` or `pipe_buffer`.
    pub fn pipe(&self, name: &str) -> Result<Rc<Pipe>, SimError> {
        let stat = self.lock_stat(name);
        let arena = &mut *self.arena.borrow_mut();
        let object = arena.allocate("pipe_inode_info", CpuId(0))?;
        let buffers = arena.pool("pipe_buffer", &["len"])?;
        buffers.make_opaque(0..1);
        Ok(Rc::new(Pipe {
            mutex: Mutex::within(arena, &object, "mutex.", stat)?,
            rd_wait: WaitQueue::new(arena, &object, "rd_wait")?,
            wr_wait: WaitQueue::new(arena, &object, "wr_wait")?,
            head: arena.place(&object, "head")?,
            tail: arena.place(&object, "tail")?,
            buffers,
            bytes: PageBytes::new(arena, "pipe_bytes", PAGES),
            written: Cell::new(0),
            read: Cell::new(0),
        }))
    }

    /// Loads head and tail, counts of whole pages; the pipe is locked.
    async fn load_ends(&self, site: Site, pipe: &Pipe) {
        let (head, tail) = (pipe.written.get(), pipe.read.get());
        let engine = &self.engine;
        engine.load_known(site, pipe.head, head / PAGE_BYTES).await;
        engine.load_known(site, pipe.tail, tail / PAGE_BYTES).await;
    }

    async fn pipe_write(&self, task: &Rc<Task>, pipe: &Pipe, count: u64) {
        let (engine, site) = (&self.engine, f::PIPE_WRITE);
        self.mutex_lock(task, &pipe.mutex).await;
        while pipe.room() < count {
            self.mutex_unlock(task, &pipe.mutex).await;
            self.wait_event(task, &pipe.wr_wait, site, || pipe.room() >= count)
                .await;
            self.mutex_lock(task, &pipe.mutex).await;
        }
        let was_empty = !pipe.has(1);
        self.load_ends(site, pipe).await;
        let position = pipe.written.get();
        let (lines, buffer) = pipe.at(position, count);
        engine.call(site, self.costs.function);
        engine.overwrite_all(site, &lines).await;
        engine.dirty(site, buffer).await;
        pipe.written.set(position + count);
        if position % PAGE_BYTES + count >= PAGE_BYTES {
            let head = (position + count) / PAGE_BYTES;
            engine.store(site, pipe.head, head).await;
        }
        let has_room = pipe.room() >= count;
        self.mutex_unlock(task, &pipe.mutex).await;
        // Wake-ups are of one writer at a time: it wakes the next while there is room.
        if has_room {
            self.wake_up_one(&pipe.wr_wait, site).await;
        }
        if was_empty {
            self.wake_up_one(&pipe.rd_wait, site).await;
        }
    }

    async fn pipe_read(&self, task: &Rc<Task>, pipe: &Pipe, count: u64) {
        let (engine, site) = (&self.engine, f::PIPE_READ);
        self.mutex_lock(task, &pipe.mutex).await;
        while !pipe.has(count) {
            self.mutex_unlock(task, &pipe.mutex).await;
            self.wait_event(task, &pipe.rd_wait, site, || pipe.has(count))
                .await;
            self.mutex_lock(task, &pipe.mutex).await;
        }
        let was_full = pipe.room() < count;
        self.load_ends(site, pipe).await;
        let position = pipe.read.get();
        let (lines, buffer) = pipe.at(position, count);
        engine.touch(site, buffer).await;
        engine.call(site, self.costs.function);
        engine.load_all(site, &lines, |_, _| {}).await;
        engine.dirty(site, buffer).await;
        pipe.read.set(position + count);
        if position % PAGE_BYTES + count >= PAGE_BYTES {
            let tail = (position + count) / PAGE_BYTES;
            engine.store(site, pipe.tail, tail).await;
        }
        let has_more = pipe.has(count);
        self.mutex_unlock(task, &pipe.mutex).await;
        if was_full {
            self.wake_up_one(&pipe.wr_wait, site).await;
        }
        if has_more {
            // Another reader may have been waiting for less than it found.
            self.wake_up_one(&pipe.rd_wait, site).await;
        }
    }

    /// Sleeps until a condition holds; the task that makes it hold wakes one sleeper.
    async fn wait_event(
        &self,
        task: &Rc<Task>,
        queue: &WaitQueue,
        site: Site,
        holds: impl Fn() -> bool,
    ) {
        let engine = &self.engine;
        loop {
            self.spin_lock(queue.lock).await;
            if !queue.waiters.borrow().contains(&task.id) {
                queue.waiters.borrow_mut().push_back(task.id);
                engine.dirty(site, queue.head).await;
            }
            // The state before the test: a wake-up between the two is not lost.
            self.set_current_state(task, TASK_INTERRUPTIBLE).await;
            self.spin_unlock(queue.lock).await;
            if holds() {
                break;
            }
            self.schedule().await;
        }
        engine.store(site, task.p.state, TASK_RUNNING).await;
        self.spin_lock(queue.lock).await;
        queue.waiters.borrow_mut().retain(|id| *id != task.id);
        self.spin_unlock(queue.lock).await;
    }

    /// Wakes the first sleeper, if there is one (`wake_up_interruptible_sync_poll`).
    async fn wake_up_one(&self, queue: &WaitQueue, site: Site) {
        self.engine.touch(site, queue.head).await;
        if queue.waiters.borrow().is_empty() {
            return;
        }
        self.spin_lock(queue.lock).await;
        let first = queue.waiters.borrow_mut().pop_front();
        if let Some(first) = first {
            self.try_to_wake_up(&self.task(first), Wake::Sync).await;
        }
        self.spin_unlock(queue.lock).await;
    }
}

impl Thread {
    /// `write` of a message to a pipe.
    pub async fn write_pipe(&self, pipe: &Pipe, count: u64) {
        self.enter();
        self.kernel.pipe_write(&self.task, pipe, count).await;
        self.leave().await;
    }

    /// `read` of a message from a pipe.
    pub async fn read_pipe(&self, pipe: &Pipe, count: u64) {
        self.enter();
        self.kernel.pipe_read(&self.task, pipe, count).await;
        self.leave().await;
    }
}
