//! Events, as they come, to the times of locks.

mod spun;

use hitm_bpf::{HolderEvent, Moment};
use indexmap::{IndexMap, IndexSet};
use rustc_hash::FxHashMap;

use super::Present;
use super::lock::{Holder, Key, Lock};
use super::thread::{Faults, State, Thread};
use crate::recording::{LiveChain, LiveHeld, LiveHolders, LiveTaker};

/// Threads and locks that are kept: some 10,000 threads of 480 CPUs, and the words that they sleep for.
const ENTRIES_MAX: usize = 1 << 16;
/// The kernel's locks have no process.
const KERNEL: u32 = 0;
/// LCB_F_READ of the kernel's tracepoint: several threads may have the lock at once.
const READ: u32 = 2;

/// Threads, locks and takers of CPUs so far.
#[derive(Debug)]
pub(super) struct Accounts {
    /// The last moment: events of several CPUs may be a little out of order.
    now: u64,
    threads: FxHashMap<u32, Thread>,
    /// Threads by process and number in its PID namespace; none for numbers that are no thread's.
    known_as: FxHashMap<(u32, u32), Option<u32>>,
    locks: IndexMap<Key, Lock>,
    takers: IndexSet<(u32, String)>,
    /// Finds threads that had no event yet.
    present: fn(u32, u32) -> Option<Present>,
    lost_count: u64,
}

impl Accounts {
    pub(super) fn new(present: fn(u32, u32) -> Option<Present>) -> Accounts {
        Accounts {
            now: 0,
            threads: FxHashMap::default(),
            known_as: FxHashMap::default(),
            locks: IndexMap::new(),
            takers: IndexSet::new(),
            present,
            lost_count: 0,
        }
    }

    /// Takes an event.
    pub(super) fn take(&mut self, event: &HolderEvent) {
        let at = self.now.max(event.at_ns);
        self.now = at;
        if !self.meet(event) {
            self.lost_count += 1;
            return;
        }
        self.run_unseen(event);
        match event.moment {
            Moment::Preempted => {
                let other = (event.other.pid, event.other.comm.clone());
                let taker = self.takers.insert_full(other).0 as u32;
                self.leave(event, State::Preempted(taker));
                self.wait_off_cpu(event.tid);
            }
            Moment::Throttled => {
                self.leave(event, State::Throttled);
                self.wait_off_cpu(event.tid);
            }
            // The write comes with the registers.
            Moment::Writes { minor_faults } => {
                if let Some(thread) = self.threads.get_mut(&event.tid) {
                    thread.minor_faults = minor_faults;
                }
            }
            Moment::Asleep { in_fault: true, .. } => self.leave(event, State::Faulting),
            Moment::Asleep { waits, .. } => self.sleep(event, waits),
            Moment::Runs => self.run_since(event.tid, at),
            Moment::Wakes { releases } => {
                let word = event.word.filter(|_| releases);
                self.wake(event, word.map(|word| (event.pid, word)));
            }
            Moment::Begins { lock, owner, flags } => {
                self.begin(event.tid, (KERNEL, lock), owner, flags & READ != 0);
            }
            Moment::Ends { lock } => self.end(event.tid, (KERNEL, lock)),
        }
    }

    /// Notes the thread of an event, and its faults. Returns false where there is no room.
    fn meet(&mut self, event: &HolderEvent) -> bool {
        let tid = event.tid;
        if !self.threads.contains_key(&tid) {
            if self.threads.len() >= ENTRIES_MAX {
                return false;
            }
            let before = match event.moment {
                Moment::Runs => State::Unknown,
                _ => State::Running,
            };
            self.threads.insert(tid, Thread::new(before));
        }
        if self.known_as.len() >= 2 * ENTRIES_MAX {
            self.known_as.clear();
        }
        self.known_as
            .insert((event.pid, event.virtual_tid), Some(tid));
        let faults = Faults {
            minor_ns: event.minor_fault_ns,
            major_ns: event.major_fault_ns,
        };
        let at = self.now;
        if let Some(thread) = self.threads.get_mut(&tid) {
            thread.mark(at, faults);
        }
        true
    }

    /// The thread of a process that has a number in its PID namespace.
    fn thread_known_as(&mut self, pid: u32, virtual_tid: u32) -> Option<u32> {
        let key = (pid, virtual_tid);
        if let Some(known) = self.known_as.get(&key) {
            return *known;
        }
        let found = (self.present)(pid, virtual_tid);
        self.known_as.insert(key, found.map(|found| found.tid));
        let Present { tid, is_running } = found?;
        let state = match is_running {
            true => State::Running,
            false => State::Asleep(None),
        };
        self.threads
            .entry(tid)
            .or_insert_with(|| Thread::new(state));
        Some(tid)
    }

    /// Some switches reach no tracepoint: a thread that leaves a CPU or wakes another one has got one before.
    fn run_unseen(&mut self, event: &HolderEvent) {
        let at = self.now;
        let known = self.threads.get(&event.tid).map(Thread::last);
        let since = match (event.moment, known) {
            (_, Some((_, State::Running)) | None) | (Moment::Runs, _) => return,
            (Moment::Preempted | Moment::Throttled | Moment::Asleep { .. }, Some((last, _))) => {
                last.max(at.saturating_sub(event.ran_ns))
            }
            (_, Some((last, _))) => last,
        };
        self.run_since(event.tid, since);
    }

    /// A thread changes its state: the locks that it has are counted up to then.
    fn enter(&mut self, tid: u32, state: State, at: u64) {
        let Some(thread) = self.threads.get_mut(&tid) else {
            return;
        };
        for key in std::mem::take(&mut thread.holds) {
            if let Some(lock) = self.locks.get_mut(&key)
                && lock.holder == Holder::Known(tid)
            {
                lock.charge_holder(thread, at);
                thread.holds.push(key);
            }
        }
        thread.enter(state, at);
    }

    /// A thread leaves its CPU. The word that it had to do with last says who has the lock.
    fn leave(&mut self, event: &HolderEvent, state: State) {
        let tid = event.tid;
        let thread = self.threads.get_mut(&tid);
        let woken_for = thread.and_then(|thread| thread.woken_for.take());
        let word = event.word.map(|word| (event.pid, word));
        let waits = matches!(event.moment, Moment::Asleep { waits: true, .. });
        let owner = self.owner(event).filter(|owner| !waits || *owner != tid);
        match (woken_for, word, owner) {
            (_, Some(word), Some(owner)) => self.found(word, owner),
            // It was woken, took the lock and gave it up, or would wait for it again.
            (Some(woken_for), Some(word), None) if woken_for == word => self.pass(word, tid),
            _ => {}
        }
        // It waits for another one, or does something else that has a word.
        if let Some(key) = woken_for.filter(|key| Some(*key) != word) {
            self.found(key, tid);
        }
        self.enter(tid, state, self.now);
    }

    /// The thread that the word of an event names as the owner of its lock.
    fn owner(&mut self, event: &HolderEvent) -> Option<u32> {
        let owner = event.owner.filter(|owner| *owner != 0)?;
        self.thread_known_as(event.pid, owner)
    }

    /// A thread that was woken for a lock does not have it, and nobody waits: it has been there and gone.
    fn pass(&mut self, key: Key, tid: u32) {
        let at = self.now;
        if let (Some(lock), Some(thread)) = (self.locks.get_mut(&key), self.threads.get(&tid))
            && lock.holder == Holder::Free
            && !lock.is_waited_for()
        {
            lock.charge_free(thread.first_run(lock.settled, at));
            lock.holder = Holder::Unknown;
        }
    }

    fn sleep(&mut self, event: &HolderEvent, waits: bool) {
        let (tid, at) = (event.tid, self.now);
        let contended = self.threads.get(&tid);
        let contended = contended.and_then(|thread| thread.contends.last().map(|(key, _)| *key));
        let word = event.word.filter(|_| waits).map(|word| (event.pid, word));
        self.leave(event, State::Asleep(word.or(contended)));
        let Some(key) = word.filter(|key| self.has_room(*key)) else {
            return;
        };
        let owner = self.owner(event).filter(|owner| *owner != tid);
        let has_value = event.owner.is_some_and(|owner| owner != 0);
        if let Some(lock) = self.locks.get_mut(&key) {
            // Who spins before it sleeps has an owner in the word.
            lock.is_watched = None;
            lock.owners += u64::from(owner.is_some());
            lock.others += u64::from(has_value && owner.is_none());
        }
        self.join(key, owner, at);
        if let Some(thread) = self.threads.get_mut(&tid) {
            thread.waits_for = Some(key);
        }
    }

    /// A thread waits from now on for a lock that `owner` has.
    fn join(&mut self, key: Key, owner: Option<u32>, at: u64) {
        match owner {
            Some(owner) => self.found(key, owner),
            // Whoever had it when somebody waited last need not have it now.
            None => self.forget_idle(key, at),
        }
        self.change(key, 1, at);
    }

    fn forget_idle(&mut self, key: Key, at: u64) {
        if let Some(lock) = self.locks.get_mut(&key)
            && !lock.is_waited_for()
            && lock.holder != Holder::Free
        {
            lock.charge_unknown(at);
            lock.holder = Holder::Unknown;
        }
    }

    fn change(&mut self, key: Key, change: i64, at: u64) {
        let Some(lock) = self.locks.get_mut(&key) else {
            return;
        };
        if lock.change(at, change) {
            charge(lock, &self.threads, at);
        }
    }

    fn run_since(&mut self, tid: u32, at: u64) {
        self.enter(tid, State::Running, at);
        let thread = self.threads.get_mut(&tid);
        if let Some(key) = thread.and_then(|thread| thread.waits_for.take()) {
            self.change(key, -1, at);
        }
    }

    /// A thread wakes another one, which slept for the word where it is one of a lock that is released.
    fn wake(&mut self, event: &HolderEvent, word: Option<Key>) {
        let (waker, woken, at) = (event.tid, event.other.tid, self.now);
        let sleeper = self.threads.get(&woken);
        if sleeper
            .is_some_and(|thread| matches!(thread.state(), State::Asleep(_) | State::Faulting))
        {
            self.enter(woken, State::Waking, at);
        }
        let contended = self.threads.get(&woken);
        let contended = contended.and_then(|thread| thread.contends.last().map(|(key, _)| *key));
        let by_holder = |key: &Key| {
            let lock = self.locks.get(key);
            lock.is_some_and(|lock| lock.holder == Holder::Known(waker))
        };
        let Some(key) = word.or(contended.filter(by_holder)) else {
            return;
        };
        self.release(key, waker, at);
        if let Some(thread) = self.threads.get_mut(&woken) {
            thread.woken_for = Some(key);
        }
        // Somebody has taken it already.
        let owner = self
            .owner(event)
            .filter(|owner| word.is_some() && *owner != waker);
        if let Some(owner) = owner {
            self.found(key, owner);
        }
    }

    /// The thread has had the lock up to now, and gives it up.
    fn release(&mut self, key: Key, tid: u32, at: u64) {
        self.found(key, tid);
        let (Some(lock), Some(thread)) = (self.locks.get_mut(&key), self.threads.get_mut(&tid))
        else {
            return;
        };
        lock.charge_holder(thread, at);
        lock.holder = Holder::Free;
        thread.holds.retain(|held| *held != key);
    }

    /// The thread has the lock at this moment.
    fn found(&mut self, key: Key, tid: u32) {
        let at = self.now;
        let (Some(lock), Some(thread)) = (self.locks.get_mut(&key), self.threads.get_mut(&tid))
        else {
            return;
        };
        match lock.holder {
            Holder::Known(holder) if holder == tid => return,
            Holder::Free => lock.charge_free(thread.first_run(lock.settled, at)),
            // Without a release it is the one that the waiters wait for all the time.
            Holder::Unknown => {}
            Holder::Known(holder) => {
                if let Some(holder) = self.threads.get_mut(&holder) {
                    lock.charge_holder(holder, at);
                    holder.holds.retain(|held| *held != key);
                }
            }
        }
        lock.holder = Holder::Known(tid);
        if let Some(thread) = self.threads.get_mut(&tid) {
            thread.holds.push(key);
        }
    }

    fn begin(&mut self, tid: u32, key: Key, owner: Option<u32>, is_shared: bool) {
        let at = self.now;
        let contends = self.threads.get(&tid).map(|thread| &thread.contends);
        // A mutex begins twice: it spins, then it sleeps.
        let is_known = contends.is_some_and(|all| all.iter().any(|(own, _)| *own == key));
        if is_known || !self.has_room(key) {
            return;
        }
        let owner = owner.filter(|owner| *owner != 0 && self.threads.contains_key(owner));
        if let Some(lock) = self.locks.get_mut(&key) {
            lock.owners += 1;
        }
        self.join(key, owner, at);
        if let Some(thread) = self.threads.get_mut(&tid) {
            thread.contends.push((key, is_shared));
        }
    }

    /// The thread has got a lock of the kernel.
    fn end(&mut self, tid: u32, key: Key) {
        let at = self.now;
        let Some(thread) = self.threads.get_mut(&tid) else {
            return;
        };
        let Some(index) = thread.contends.iter().position(|(own, _)| *own == key) else {
            return;
        };
        let (_, is_shared) = thread.contends.remove(index);
        thread.woken_for = None;
        self.found(key, tid);
        self.change(key, -1, at);
        if is_shared {
            self.share(key, tid);
        }
    }

    /// A thread has the lock together with others: nobody knows who releases it last.
    fn share(&mut self, key: Key, tid: u32) {
        if let Some(lock) = self.locks.get_mut(&key) {
            lock.holder = Holder::Unknown;
        }
        if let Some(thread) = self.threads.get_mut(&tid) {
            thread.holds.retain(|held| *held != key);
        }
    }

    /// Makes an entry for a lock. Returns false where there is no room.
    fn has_room(&mut self, key: Key) -> bool {
        let is_there = self.locks.contains_key(&key);
        if !is_there && self.locks.len() >= ENTRIES_MAX {
            self.lost_count += 1;
            return false;
        }
        let now = self.now;
        self.locks.entry(key).or_insert_with(|| Lock::new(now));
        true
    }

    /// Returns the times of all locks that somebody waited for since the last call.
    pub(super) fn end_window(&mut self, now: u64) -> LiveHolders {
        self.now = self.now.max(now);
        self.resolve_woken();
        let at = self.now;
        for lock in self.locks.values_mut() {
            charge(lock, &self.threads, at);
            lock.holds.watch_until(at);
        }
        let takers = &self.takers;
        let locks = self.locks.iter_mut();
        let locks = locks.filter_map(|(key, lock)| held(*key, lock, takers));
        LiveHolders {
            locks: locks.collect(),
            lost_count: std::mem::take(&mut self.lost_count),
            ..LiveHolders::default()
        }
    }

    /// Threads that were woken for a lock and run still have it.
    fn resolve_woken(&mut self) {
        let woken = self.threads.iter().filter_map(|(tid, thread)| {
            let runs = thread.state() == State::Running;
            Some((thread.woken_for?, *tid)).filter(|_| runs)
        });
        let mut woken: Vec<(Key, u32)> = woken.collect();
        woken.sort_unstable();
        for (key, tid) in woken {
            if self
                .locks
                .get(&key)
                .is_some_and(|lock| lock.holder == Holder::Free)
            {
                self.found(key, tid);
            }
        }
    }
}

/// Takes the times of a lock, if somebody waited for it.
fn held(key: Key, lock: &mut Lock, names: &IndexSet<(u32, String)>) -> Option<LiveHeld> {
    let all = lock.times.all_ns();
    if all == 0 {
        return None;
    }
    // Where most looks found no thread, the number behind the word is no owner.
    let mut times = std::mem::take(&mut lock.times);
    let has_owner = lock.owners > lock.others;
    if !has_owner {
        times = crate::recording::HolderTimes {
            unknown_ns: all,
            ..Default::default()
        };
    }
    let takers = std::mem::take(&mut lock.takers).into_iter();
    let takers = takers.map(|(taker, ns)| {
        let (pid, comm) = &names[taker as usize];
        LiveTaker {
            pid: *pid,
            comm: comm.clone(),
            ns,
        }
    });
    let mut takers: Vec<LiveTaker> = takers.filter(|_| has_owner).collect();
    takers.sort_by(|a, b| {
        b.ns.cmp(&a.ns)
            .then_with(|| (a.pid, &a.comm).cmp(&(b.pid, &b.comm)))
    });
    let chain = std::mem::take(&mut lock.chain).into_iter();
    let chain = chain.map(|((pid, address), ns)| LiveChain {
        pid,
        lock: address,
        ns,
    });
    let mut chain: Vec<LiveChain> = chain.filter(|_| has_owner).collect();
    chain.sort_by_key(|other| (u64::MAX - other.ns, other.pid, other.lock));
    Some(LiveHeld {
        pid: key.0,
        lock: key.1,
        times,
        takers,
        chain,
        holds: lock.holds.take(),
    })
}

/// Counts a lock's time up to `at` by its present holder.
fn charge(lock: &mut Lock, threads: &FxHashMap<u32, Thread>, at: u64) {
    match lock.holder {
        Holder::Known(holder) => {
            if let Some(holder) = threads.get(&holder) {
                lock.charge_holder(holder, at);
            }
        }
        Holder::Free => lock.charge_free(at),
        Holder::Unknown => lock.charge_unknown(at),
    }
}
