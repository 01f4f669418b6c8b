//! Threads: their records, their tables of uses, and their running time.

use std::cell::Cell;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::layout::{self, TABLE_ALIGN, header, pack_table, thread, usage};
use crate::region::{self, Record, Region, Usage};
use crate::{clock, modules, process};

/// Records of a thread's first table, as a logarithm.
const FIRST_LOG2: u32 = 4;
/// Records of the largest table.
const LAST_LOG2: u32 = 16;

/// Threads of a process that get records of their own. Later ones reuse those of ended threads.
const OWN_RECORDS: usize = 512;

/// Shortest stretch between two operations after which a thread's CPU time is read, in nanoseconds.
/// Reading takes a system call, so shorter stretches count as run. Linux lets a thread run for 0.7
/// ms or more before it preempts it; a sleep and its wake-up take some 5 us at least.
const LONG_NANOS: u64 = 20_000;

/// Before its first lock.
const NEW: u8 = 0;
/// The thread takes a record, or a table.
const BUSY: u8 = 1;
/// The thread has a record.
const OBSERVED: u8 = 2;
/// There was no room, or the thread has ended.
const UNOBSERVED: u8 = 3;

/// This thread's state. Cells: a signal handler may interrupt any access.
pub(crate) struct Local {
    state: Cell<u8>,
    /// Number of its record.
    number: Cell<usize>,
    process: Cell<usize>,
    table: Cell<&'static [Usage]>,
    used: Cell<usize>,
    /// Times that the key's destructor was called.
    endings: Cell<u8>,
    long: Cell<u64>,
    /// Time of the last operation.
    last: Cell<u64>,
    /// Time for which the thread is known not to have run.
    paused: Cell<u64>,
    /// Last reading of its CPU time: the time, the CPU time, and `paused`.
    base: Cell<(u64, u64, u64)>,
}

thread_local! {
    static LOCAL: Local = const {
        Local {
            state: Cell::new(NEW),
            number: Cell::new(0),
            process: Cell::new(0),
            table: Cell::new(&[]),
            used: Cell::new(0),
            endings: Cell::new(0),
            long: Cell::new(0),
            last: Cell::new(0),
            paused: Cell::new(0),
            base: Cell::new((0, 0, 0)),
        }
    };
}

/// Key whose destructor runs at a thread's end, plus 1.
static KEY: AtomicU64 = AtomicU64::new(0);

/// Records that this process has taken, plus 1 each.
static RECORDS: [AtomicU32; OWN_RECORDS] = [const { AtomicU32::new(0) }; OWN_RECORDS];
static TAKEN: AtomicU32 = AtomicU32::new(0);

/// Runs before `main`.
pub(crate) fn prepare() {
    modules::look_up();
    let mut key = 0;
    // SAFETY: the destructor is a function of this library, which is never unloaded.
    if unsafe { libc::pthread_key_create(&mut key, Some(end)) } == 0 {
        KEY.store(u64::from(key) + 1, Ordering::Release);
    }
}

/// Clears the state in a child process, whose only thread has no record yet.
pub(crate) fn forget() {
    LOCAL.with(|local| {
        local.state.set(NEW);
        local.endings.set(0);
    });
    for record in &RECORDS {
        record.store(0, Ordering::Relaxed);
    }
    TAKEN.store(0, Ordering::Release);
}

/// Returns this thread's state, if it is observed.
#[inline]
pub(crate) fn current() -> Option<(Region, &'static Local)> {
    let region = region::get()?;
    let local = LOCAL.with(std::ptr::from_ref);
    // SAFETY: the state has no destructor and lasts as long as its thread, which alone uses it.
    let local = unsafe { &*local };
    if local.state.get() != OBSERVED && !local.become_observed(region) {
        return None;
    }
    Some((region, local))
}

/// Ends a thread. Other destructors of the thread may lock, so this one asks to be called once
/// more.
unsafe extern "C" fn end(_: *mut c_void) {
    let Some((region, local)) = current() else {
        return;
    };
    local.endings.set(local.endings.get() + 1);
    if local.endings.get() < 3 {
        return call_at_end();
    }
    local.state.set(UNOBSERVED);
    let record = region.thread(local.number.get());
    record[thread::PAUSED].set(local.paused.get());
    record[thread::ENDED].publish(clock::now());
}

fn call_at_end() {
    let key = KEY.load(Ordering::Acquire);
    if let Some(key) = key.checked_sub(1) {
        // SAFETY: the key was made; its value only has to be none of the destructor's null pointers.
        unsafe { libc::pthread_setspecific(key as libc::pthread_key_t, (&raw const KEY).cast()) };
    }
}

impl Local {
    #[cold]
    fn become_observed(&self, region: Region) -> bool {
        if self.state.get() == NEW {
            self.state.set(BUSY);
            let found = self.register(region);
            self.state.set(found.map_or(UNOBSERVED, |()| OBSERVED));
            if found.is_some() {
                return true;
            }
        }
        region.header(header::UNOBSERVED).add_shared(1);
        false
    }

    fn register(&self, region: Region) -> Option<()> {
        let process = process::number(region)?;
        let number = take_record(region)?;
        let record = region.thread(number);
        let ticks = |nanos| region::ticks_of(nanos);
        self.number.set(number);
        self.process.set(process);
        self.long.set(ticks(LONG_NANOS));
        self.paused.set(0);
        self.endings.set(0);
        // The table's owner must be visible before the table is.
        // SAFETY: the call always succeeds.
        record[thread::TID].set(unsafe { libc::gettid() } as u64);
        record[thread::PROCESS].set(process as u64);
        let (at, log2) = layout::unpack_table(record[thread::TABLE].get());
        match at {
            0 => {
                self.used.set(0);
                self.take_table(region, FIRST_LOG2)?;
            }
            _ => self.inherit(region.usages(at, 1 << log2)),
        }
        let now = clock::now();
        record[thread::STARTED].set(now);
        record[thread::PAUSED].set(0);
        record[thread::ENDED].set(0);
        record[thread::USERS].add(1);
        self.last.set(now);
        self.rebase(region, now, clock::thread_ran());
        call_at_end();
        Some(())
    }

    /// Continues with the table of an ended thread: keeps the sums and drops unfinished
    /// acquisitions.
    fn inherit(&self, table: &'static [Usage]) {
        let used = table
            .iter()
            .filter(|entry| entry[usage::ADDRESS].get() != 0);
        self.used.set(used.count());
        for entry in table {
            entry[usage::ACQUIRED].set(0);
            entry[usage::DEPTH].set(0);
            entry[usage::RELEASED].set(crate::usage::NEW_USER);
        }
        self.table.set(table);
    }

    fn take_table(&self, region: Region, log2: u32) -> Option<()> {
        let bytes = size_of::<Usage>() << log2;
        let at = region.take_pool(bytes.next_multiple_of(TABLE_ALIGN))?;
        let table = region.usages(at, 1 << log2);
        for entry in self.table.get().iter().take(self.used_or_none()) {
            copy(entry, table);
        }
        self.table.set(table);
        let record = region.thread(self.number.get());
        record[thread::TABLE].publish(pack_table(at, log2));
        Some(())
    }

    /// Records to copy into a larger table: all of the old one, none of another thread's.
    fn used_or_none(&self) -> usize {
        match self.used.get() {
            0 => 0,
            _ => self.table.get().len(),
        }
    }

    /// Returns the use of a lock, if the thread has used it before.
    #[inline]
    pub(crate) fn find(&self, address: usize, kind: u64) -> Option<&'static Usage> {
        let table = self.table.get();
        for index in places(table, address) {
            let entry = &table[index];
            let found = entry[usage::ADDRESS].get();
            if found == address as u64 && entry[usage::LOCK].get() >> 32 == kind {
                return Some(entry);
            }
            if found == 0 {
                return None;
            }
        }
        None
    }

    /// Adds a lock that the thread has not used before; `None` when there is no room.
    #[cold]
    pub(crate) fn insert(
        &self,
        region: Region,
        address: usize,
        key: u64,
    ) -> Option<&'static Usage> {
        if (self.used.get() + 1) * 2 > self.table.get().len() && !self.grow(region) {
            return None;
        }
        let table = self.table.get();
        let index =
            places(table, address).find(|index| table[*index][usage::ADDRESS].get() == 0)?;
        let entry = &table[index];
        entry[usage::LOCK].set(key);
        entry[usage::USERS].set(1);
        entry[usage::ADDRESS].publish(address as u64);
        self.used.set(self.used.get() + 1);
        Some(entry)
    }

    fn grow(&self, region: Region) -> bool {
        let log2 = self.table.get().len().ilog2() + 1;
        if log2 > LAST_LOG2 || self.state.replace(BUSY) == BUSY {
            return false;
        }
        let grown = self.take_table(region, log2);
        self.state.set(OBSERVED);
        grown.is_some()
    }

    pub(crate) fn number(&self) -> usize {
        self.number.get()
    }

    pub(crate) fn process(&self) -> usize {
        self.process.get()
    }

    /// Notes that the thread has come to `now`. After a long stretch its CPU time is read, to find
    /// how much of that it ran. Returns the time for which it is known not to have run.
    #[inline]
    pub(crate) fn arrive(&self, region: Region, now: u64) -> u64 {
        let gap = now.saturating_sub(self.last.get());
        match gap > self.long.get() {
            true => self.note_absence(region, now, gap),
            false => {
                self.last.set(self.last.get().max(now));
                self.paused.get()
            }
        }
    }

    #[cold]
    fn note_absence(&self, region: Region, now: u64, gap: u64) -> u64 {
        let (time, ran, paused) = self.base.get();
        let ran_now = clock::thread_ran();
        let known = ran_now.saturating_sub(ran) + (self.paused.get() - paused);
        // The base may precede the stretch, and waits take some CPU time.
        let away = now.saturating_sub(time).saturating_sub(known).min(gap);
        self.paused.set(self.paused.get() + away);
        self.rebase(region, now, ran_now)
    }

    /// Notes that the thread has waited until `now`, from its arrival on. Returns the time for
    /// which it is known not to have run.
    pub(crate) fn resume(&self, region: Region, now: u64) -> u64 {
        let waited = now.saturating_sub(self.last.get());
        self.last.set(now);
        self.paused.set(self.paused.get() + waited);
        // CPU time spent in waits would hide absences later.
        let (_, _, paused) = self.base.get();
        match self.paused.get() - paused > self.long.get() {
            true => self.rebase(region, now, clock::thread_ran()),
            false => self.paused.get(),
        }
    }

    /// Stores the thread's CPU time at `now`. Returns the time for which it did not run. The
    /// call's own time is added to `paused` alone.
    fn rebase(&self, region: Region, now: u64, ran: u64) -> u64 {
        let paused = self.paused.get();
        let done = clock::now();
        self.paused.set(paused + done.saturating_sub(now));
        region.thread(self.number.get())[thread::PAUSED].set(self.paused.get());
        self.last.set(done);
        self.base.set((now, ran, paused));
        paused
    }
}

/// Takes a record: a new one, or that of an ended thread of this process.
fn take_record(region: Region) -> Option<usize> {
    let taken = TAKEN.fetch_add(1, Ordering::AcqRel) as usize;
    if taken >= OWN_RECORDS
        && let Some(number) = take_ended(region)
    {
        return Some(number);
    }
    let number = region.take(header::THREADS, thread::MAX)?;
    if let Some(slot) = RECORDS.get(taken) {
        slot.store(number as u32 + 1, Ordering::Release);
    }
    Some(number)
}

fn take_ended(region: Region) -> Option<usize> {
    RECORDS.iter().find_map(|slot| {
        let number = slot.load(Ordering::Acquire).checked_sub(1)? as usize;
        let record = region.thread(number);
        let ended = record[thread::ENDED].read_published();
        let is_ours = ended != 0 && record[thread::ENDED].replace(ended, 0).is_ok();
        if is_ours {
            add_life(record, ended);
        }
        is_ours.then_some(number)
    })
}

/// Adds the life of an ended thread to those of earlier ones.
fn add_life(record: Record<{ thread::WORDS }>, ended: u64) {
    let life = ended.saturating_sub(record[thread::STARTED].get());
    record[thread::EARLIER].add(life.saturating_sub(record[thread::PAUSED].get()));
}

/// Copies an entry to its place in a larger table.
fn copy(entry: &Usage, table: &[Usage]) {
    let address = entry[usage::ADDRESS].get();
    if address == 0 {
        return;
    }
    let free =
        places(table, address as usize).find(|index| table[*index][usage::ADDRESS].get() == 0);
    if let Some(index) = free {
        for (from, to) in entry.iter().zip(&table[index]) {
            to.set(from.get());
        }
    }
}

/// Slots in which a lock may be, in the order of probing.
#[inline]
fn places(table: &[Usage], address: usize) -> impl Iterator<Item = usize> + use<> {
    // Fibonacci hashing: the highest bits of the product depend on all bits of the address.
    let hash = (address as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    let mask = table.len().wrapping_sub(1);
    (0..table.len()).map(move |probe| (hash as usize + probe) & mask)
}
