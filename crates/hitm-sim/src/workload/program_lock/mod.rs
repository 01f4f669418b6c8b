//! Threads of a program that spin for a lock of their own, hold it for a time and touch fresh memory
//! while they do: a database with a list of free buffers.
//!
//! A transaction is uses of the lock with work of its own before each, then a sleep until its client asks
//! again. The holder takes elements from a list, which are memory that its address space has no page
//! table entries for, one behind the other. So pages fault in the lock, and the more address spaces take
//! from the list, the more often. Threads that cannot have the lock look at it, and sleep by the rule of
//! `back_off`. Where the kernel extends slices, a holder asks for it from having the lock to giving it
//! back.
//!
//! The lock's word and the list's head share a line, as members of one structure. An element is on a line
//! of its own.

mod back_off;
mod figures;
mod spec;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use hitm_base::{CpuId, Cycles, Nanos};

use self::back_off::BackOff;
use self::figures::FIGURES;
pub(super) use self::spec::KIND;
use super::cyclic::any_of;
use super::requests::Times;
use crate::engine::{MemberKey, Place, Random, Rmw, SimError};
use crate::kernel::{
    CpuMask, GroupId, HolderState, HolderWatch, Kernel, Policy, Task, TaskSpec, Thread,
    UserMapping, functions,
};

hitm_base::words! {
    /// The rule by which a thread that waits sleeps.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum BackOffRule {
        /// That of PostgreSQL's s_lock.
        SLock = "s_lock",
        /// It spins until it has the lock.
        None = "none",
    }
}

/// Configuration of the program.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ProgramLockConfig {
    /// Uses of the lock in a transaction.
    pub uses: u64,
    /// Mean work of a transaction without the lock.
    pub work: Nanos,
    /// Its distribution.
    pub work_times: Times,
    /// Sleep between two transactions of a thread.
    pub think: Nanos,
    /// Work under the lock, beside what is touched.
    pub hold: Nanos,
    /// Sleep under the lock.
    pub sleep: Nanos,
    /// Time from one look at a taken lock to the next.
    pub spin: Nanos,
    /// Sleeps of threads that wait.
    pub back_off: BackOffRule,
    /// Mean number of elements that a holder takes.
    pub touches: u64,
    /// Its distribution.
    pub touches_times: Times,
    /// Size of an element.
    pub touch_bytes: u64,
    /// True if each thread is a process with an address space of its own.
    pub processes: bool,
    /// True if the program cleared the memory at its start.
    pub initialised: bool,
}

/// Longest stretch of spinning without a back-off: nothing hangs on it, since threads spin on.
const SPIN_ON: Cycles = Cycles(1 << 40);

/// Sums over all threads so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LockCounts {
    /// Transactions.
    pub transactions: u64,
    /// Uses of the lock.
    pub uses: u64,
    /// Time from wanting the lock to having it, of uses that had to wait.
    pub waited: Cycles,
    /// The longest of these times.
    pub waited_max: Cycles,
    /// Time from having the lock to giving it back.
    pub held: Cycles,
    /// CPU time while waiting.
    pub spun: Cycles,
    /// Sleeps of threads that waited.
    pub sleeps: u64,
}

/// The program.
#[derive(Debug)]
pub struct ProgramLock {
    config: ProgramLockConfig,
    word: Place,
    head: Place,
    watch: Rc<HolderWatch>,
    mapping: UserMapping,
    /// Elements that were taken from the list.
    taken: Cell<u64>,
    tasks: RefCell<Vec<Rc<Task>>>,
    counts: Cell<LockCounts>,
}

/// A thread with what is its own.
struct Client {
    thread: Thread,
    space: usize,
    back_off: BackOff,
    random: Random,
}

impl ProgramLock {
    /// Makes the lock, and a thread for each mask, which may run there.
    ///
    /// # Errors
    /// A thread that may run on no CPU.
    pub fn spawn(
        kernel: &Rc<Kernel>,
        group: GroupId,
        threads: &[CpuMask],
        config: ProgramLockConfig,
    ) -> Result<Rc<ProgramLock>, SimError> {
        let line = kernel.user_line();
        let place = |path, offset| {
            let key = MemberKey::new("program_lock", path, offset);
            kernel.engine().place(line + offset, CpuId(0), key)
        };
        let spaces = if config.processes { threads.len() } else { 1 };
        let lock = Rc::new(ProgramLock {
            config,
            word: place("lock", 0),
            head: place("head", 8),
            watch: Rc::default(),
            mapping: kernel.user_mapping(spaces, config.initialised),
            taken: Cell::new(0),
            tasks: RefCell::default(),
            counts: Cell::default(),
        });
        let mut random = kernel.engine().random("program-lock");
        for (number, allowed) in threads.iter().enumerate() {
            let spec = TaskSpec {
                name: format!("program_lock/{number}"),
                policy: Policy::Normal(0),
                cpu: any_of(allowed, number)?,
                allowed: Some(allowed.clone()),
                start: Cycles(random.below(kernel.cycles(Nanos(1e6)).0)),
            };
            let shared = Rc::clone(&lock);
            let task = kernel.spawn_in(group, &spec, move |thread| async move {
                let own = format!("program-lock {number}");
                let client = Client {
                    space: if config.processes { number } else { 0 },
                    back_off: BackOff::new(),
                    random: thread.engine().random(&own),
                    thread,
                };
                shared.serve(client).await;
            })?;
            lock.tasks.borrow_mut().push(task);
        }
        Ok(lock)
    }

    /// Sums so far.
    pub fn counts(&self) -> LockCounts {
        self.counts.get()
    }

    /// Time that threads have waited so far, by [`HolderState`].
    pub fn waits(&self) -> [Cycles; HolderState::COUNT] {
        self.watch.waits()
    }

    /// CPU time of all threads up to `end`.
    pub fn used(&self, kernel: &Kernel, end: Cycles) -> Cycles {
        let tasks = self.tasks.borrow();
        let used = tasks.iter().map(|task| kernel.used(task, end));
        used.fold(Cycles::ZERO, |sum, one| sum + one)
    }

    fn count(&self, change: impl FnOnce(&mut LockCounts)) {
        let mut counts = self.counts.get();
        change(&mut counts);
        self.counts.set(counts);
    }

    async fn serve(&self, mut client: Client) {
        let cycles = |span| client.thread.kernel().cycles(span);
        let (work, think) = (cycles(self.config.work), cycles(self.config.think));
        // Of each part between two uses.
        let work = Cycles(work.0 / self.config.uses);
        loop {
            for _ in 0..self.config.uses {
                let work = self.config.work_times.draw(work, &mut client.random);
                client.thread.run(work).await;
                self.use_lock(&mut client).await;
            }
            self.count(|counts| counts.transactions += 1);
            if think > Cycles::ZERO {
                client.thread.sleep(think).await;
            }
        }
    }

    async fn use_lock(&self, client: &mut Client) {
        self.acquire(client).await;
        let begin = client.thread.now();
        client.thread.slice_request().await;
        self.hold(client).await;
        let thread = &client.thread;
        thread.holds_no_more(&self.watch);
        thread.engine().store(functions::USER, self.word, 0).await;
        let held = thread.now().saturating_sub(begin);
        thread.slice_end().await;
        self.count(|counts| {
            counts.uses += 1;
            counts.held += held;
        });
    }

    /// Takes the lock.
    async fn acquire(&self, client: &mut Client) {
        if !self.try_take(&client.thread).await {
            let (begin, used) = (client.thread.now(), self.cpu_time(&client.thread));
            self.watch.wait_begins(begin);
            loop {
                if self.looks_free(client).await && self.try_take(&client.thread).await {
                    break;
                }
            }
            client.back_off.taken();
            let now = client.thread.now();
            self.watch.wait_ends(now);
            let spun = self.cpu_time(&client.thread).saturating_sub(used);
            let waited = now.saturating_sub(begin);
            self.count(|counts| {
                counts.spun += spun;
                counts.waited += waited;
                counts.waited_max = counts.waited_max.max(waited);
            });
        }
        client.thread.holds(&self.watch);
    }

    fn cpu_time(&self, thread: &Thread) -> Cycles {
        thread.kernel().used(thread.task(), thread.now())
    }

    async fn try_take(&self, thread: &Thread) -> bool {
        let swap = Rmw::exchange(1);
        thread.engine().rmw(functions::USER, self.word, swap).await == 0
    }

    /// Looks at the lock once; where it is taken, until that may have changed or it is time to sleep,
    /// which the thread then does.
    async fn looks_free(&self, client: &mut Client) -> bool {
        let thread = &client.thread;
        let seen = thread.engine().load(functions::USER, self.word).await;
        if seen == 0 {
            return true;
        }
        if self.config.back_off == BackOffRule::None {
            let end = thread.now() + SPIN_ON;
            thread.spin_on(self.word, seen, end).await;
            return false;
        }
        let look = thread.kernel().cycles(self.config.spin);
        let begin = thread.now();
        let patience = Cycles(look.0 * client.back_off.spins_left());
        thread.spin_on(self.word, seen, begin + patience).await;
        let spins = thread.now().saturating_sub(begin).0.div_ceil(look.0.max(1));
        let spins = spins.clamp(1, client.back_off.spins_left());
        if let Some(delay_us) = client.back_off.spun(spins, &mut client.random) {
            self.count(|counts| counts.sleeps += 1);
            let delay = thread.kernel().cycles(Nanos(delay_us as f64 * 1e3));
            client.thread.sleep(delay).await;
        }
        false
    }

    /// Does what is done under the lock.
    async fn hold(&self, client: &mut Client) {
        let (config, thread) = (&self.config, &client.thread);
        let (engine, kernel) = (thread.engine(), thread.kernel());
        for _ in 0..self.elements(&mut client.random) {
            let element = self.taken.get();
            self.taken.set(element + 1);
            let offset = element * config.touch_bytes;
            engine.load(functions::USER, self.head).await;
            thread.touch(&self.mapping, client.space, offset).await;
            let home = thread.cpu();
            let key = MemberKey::new("program_lock", "element", 0);
            let data = engine.place(kernel.user_line(), home, key);
            let next = engine.load(functions::USER, data).await;
            engine.store(functions::USER, self.head, next).await;
        }
        let hold = kernel.cycles(config.hold);
        thread.run(hold).await;
        if config.sleep.0 > 0.0 {
            thread.sleep(kernel.cycles(config.sleep)).await;
        }
    }

    fn elements(&self, random: &mut Random) -> u64 {
        if self.config.touches == 0 {
            return 0;
        }
        let mean = Cycles(self.config.touches);
        self.config.touches_times.draw(mean, random).0
    }
}
