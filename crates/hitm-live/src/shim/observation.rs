//! Decodes the region's bytes to locks, threads and processes.

use std::collections::BTreeMap;

use hitm_policy::cpus_of_use;
use serde::{Deserialize, Serialize};

use super::ShimError;
use super::layout::{
    self, LENGTH, LOCKS_AT, MAGIC, MODULES_AT, POOL_AT, PROCESSES_AT, THREADS_AT, VERSION, WORD,
    header, lock, module, process, thread, usage,
};

/// Uses that a table may hold, as a logarithm.
const TABLE_LOG2_MAX: u32 = 16;

/// Contents of a region.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Observation {
    /// Processes that acquired a lock, in the order of their first. A process that starts another
    /// program is counted anew.
    pub processes: Vec<Process>,
    /// Locks by process, address and kind.
    pub locks: Vec<LockUse>,
    /// Threads in the order of their first lock.
    pub threads: Vec<ThreadUse>,
    /// Programs that loaded the library, and unobserved operations.
    pub losses: Losses,
}

/// A process that acquired a lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Its number, of its own PID namespace.
    pub pid: u32,
    /// Its parent's.
    pub parent: u32,
    /// Its name when it took its first lock.
    pub comm: String,
}

/// A thread. Threads of a process beyond the first 512 share entries with ended ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadUse {
    /// Its number, the last one's if several shared the entry.
    pub tid: u32,
    /// Index of its process.
    pub process: usize,
    /// Threads that shared the entry.
    pub users: u64,
    /// Time between its first lock and its end (or now), without waits for locks and conditions and
    /// without other pauses that are known.
    pub ran_ns: u64,
    /// Time for which it waited or was otherwise known not to run; of the last user.
    pub paused_ns: u64,
}

hitm_base::words! {
    /// Type of a POSIX lock.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum LockKind {
        /// `pthread_mutex_t`.
        #[default]
        Mutex = "mutex",
        /// `pthread_rwlock_t`, by its readers.
        Read = "rwlock, read",
        /// `pthread_rwlock_t`, by its writers.
        Write = "rwlock, write",
        /// `pthread_spinlock_t`.
        Spin = "spinlock",
        /// `pthread_cond_t`: acquisitions are waits.
        Condition = "condition",
    }
}

impl LockKind {
    fn of(number: u64) -> Option<LockKind> {
        Some(match number {
            layout::kind::MUTEX => LockKind::Mutex,
            layout::kind::READ => LockKind::Read,
            layout::kind::WRITE => LockKind::Write,
            layout::kind::SPIN => LockKind::Spin,
            layout::kind::CONDITION => LockKind::Condition,
            _ => return None,
        })
    }
}

/// A program or library.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Module {
    /// Its file, cut after 480 bytes.
    pub path: String,
    /// The address as the ELF file's own symbols have it.
    pub offset: u64,
}

/// The return address of a call.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct CallSite {
    /// The address in the process.
    pub address: u64,
    /// Its place in a file; none before glibc 2.35, and in code that no file holds.
    pub module: Option<Module>,
    /// The calling function and its line. None until the file has been read.
    pub name: Option<String>,
}

/// A lock and the threads of one process that use it. Sums over threads; times in nanoseconds.
///
/// A cycle of a thread goes from one release of the lock to its next. Running time leaves out waits for
/// locks and conditions, sleep and preemption.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LockUse {
    /// Index of its process.
    pub process: usize,
    /// Its address.
    pub address: u64,
    /// Its kind.
    pub kind: LockKind,
    /// The variable that it is or lies in. None on the heap, and until the file has been read.
    pub variable: Option<String>,
    /// The first acquirer's call.
    pub call_site: CallSite,
    /// The call that waited longest; none if none waited.
    pub wait_site: Option<CallSite>,
    /// Times that it was acquired; of a condition, waits.
    pub acquisitions: u64,
    /// Acquisitions that had to wait.
    pub contended: u64,
    /// Attempts that failed: trylock of a held lock, timeouts.
    pub refused: u64,
    /// Signals and broadcasts of a condition.
    pub signals: u64,
    /// Acquisitions after a release by another thread.
    pub handovers: u64,
    /// Time waited.
    pub wait_ns: u64,
    /// The longest wait.
    pub wait_max_ns: u64,
    /// Time held, sleep and preemption included.
    pub held_ns: u64,
    /// The longest hold.
    pub held_max_ns: u64,
    /// Time held by threads that had waited.
    pub held_contended_ns: u64,
    /// Running time of holds in windows of 64 acquisitions of a thread in which it had to wait.
    pub ran_held_contended_ns: u64,
    /// Running time of the cycles of those windows.
    pub ran_cycle_contended_ns: u64,
    /// Running time of all holds whose cycle is known.
    pub ran_held_ns: u64,
    /// Running time of their cycles.
    pub ran_cycle_ns: u64,
    /// Threads that acquired it, in the order of their numbers; of those that share an entry the last.
    pub threads: Vec<u32>,
    /// All threads that acquired it.
    pub thread_count: u64,
}

impl LockUse {
    /// Share of its running time that a thread holds the lock, `t / T`, while it is contended. It
    /// is taken over windows of 64 acquisitions of a thread in which it had to wait. `None` if
    /// there are none.
    pub fn hold_share(&self) -> Option<f64> {
        share(self.ran_held_contended_ns, self.ran_cycle_contended_ns)
    }

    /// Limit on the speed of any number of threads while the lock is contended, as a multiple of
    /// one: `1/u`.
    pub fn bound(&self) -> Option<f64> {
        let share = self.hold_share().filter(|share| *share > 0.0);
        share.map(|share| 1.0 / share)
    }

    /// Hold share over all cycles, contended or not.
    pub fn hold_share_all(&self) -> Option<f64> {
        share(self.ran_held_ns, self.ran_cycle_ns)
    }

    /// Number of CPUs that are of use to the lock's threads, by the hold share while contended.
    pub fn needed_cpus(&self) -> Option<usize> {
        let share = self.hold_share().filter(|share| *share > 0.0);
        share.map(cpus_of_use)
    }
}

fn share(held: u64, cycle: u64) -> Option<f64> {
    (cycle > 0).then(|| (held as f64 / cycle as f64).min(1.0))
}

/// Counts of unobserved objects and operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Losses {
    /// Programs that loaded the library. 0: nothing was observed at all.
    pub loaded: u64,
    /// Acquisitions of locks that found no room.
    pub acquisitions: u64,
    /// Operations of threads and processes that found no room, and of threads that end.
    pub operations: u64,
    /// Holds that a thread other than the holder ended: not in the times.
    pub stale_holds: u64,
    /// Processes that found no room.
    pub processes: u64,
    /// Threads that found no room.
    pub threads: u64,
    /// Modules that found no room: call sites have addresses only.
    pub modules: u64,
}

impl Observation {
    /// Decodes a region's bytes, up to the end of the used part of its pool; `now` is the time of
    /// its clock. Programs write the region, so any bytes give a result or an error.
    ///
    /// # Errors
    /// The bytes are no region, or records contradict each other.
    pub fn parse(bytes: &[u8], now: u64) -> Result<Observation, ShimError> {
        let region = Region::new(bytes, now)?;
        let processes = region.processes();
        let threads = region.threads(processes.len())?;
        Ok(Observation {
            locks: region.locks(&threads, processes.len())?,
            threads: threads.iter().map(|thread| thread.shown).collect(),
            processes,
            losses: region.losses(),
        })
    }
}

/// Identity of a lock.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct LockKey {
    process: usize,
    address: u64,
    kind: LockKind,
}

/// A thread's record.
struct ThreadRecord {
    shown: ThreadUse,
    /// First byte and number of its uses.
    table: (usize, usize),
}

struct Region<'a> {
    bytes: &'a [u8],
    now: u64,
}

impl<'a> Region<'a> {
    fn new(bytes: &'a [u8], now: u64) -> Result<Region<'a>, ShimError> {
        let region = Region { bytes, now };
        let damaged = |at, problem| Err(ShimError::Damaged { at, problem });
        if bytes.len() < POOL_AT || bytes.len() > LENGTH {
            return damaged(bytes.len(), "it has another length");
        }
        if region.header(header::MAGIC) != MAGIC {
            return damaged(0, "it does not begin as a region does");
        }
        if region.header(header::VERSION) != VERSION {
            return damaged(header::VERSION * WORD, "it has another version");
        }
        if region.header(header::TICKS) == 0 {
            return damaged(header::TICKS * WORD, "its clock stands");
        }
        Ok(region)
    }

    /// The word at byte `at`; 0 beyond the end.
    fn word(&self, at: usize) -> u64 {
        let bytes = self.bytes.get(at..).and_then(<[u8]>::first_chunk);
        bytes.map_or(0, |bytes| u64::from_ne_bytes(*bytes))
    }

    fn header(&self, index: usize) -> u64 {
        self.word(index * WORD)
    }

    /// Number of records taken of a table of `max`.
    fn taken(&self, counter: usize, max: usize) -> usize {
        usize::try_from(self.header(counter)).map_or(max, |taken| taken.min(max))
    }

    fn lost(&self, counter: usize, max: usize) -> u64 {
        self.header(counter).saturating_sub(max as u64)
    }

    fn nanos(&self, ticks: u64) -> u64 {
        let nanos = u128::from(ticks) * u128::from(self.header(header::TICKS_NANOS))
            / u128::from(self.header(header::TICKS));
        u64::try_from(nanos).unwrap_or(u64::MAX)
    }

    fn losses(&self) -> Losses {
        Losses {
            loaded: self.header(header::LOADED),
            acquisitions: self.header(header::LOST),
            operations: self.header(header::UNOBSERVED),
            stale_holds: self.header(header::STALE),
            processes: self.lost(header::PROCESSES, process::MAX),
            threads: self.lost(header::THREADS, thread::MAX),
            modules: self.lost(header::MODULES, module::MAX),
        }
    }

    fn processes(&self) -> Vec<Process> {
        let taken = self.taken(header::PROCESSES, process::MAX);
        let at = |number| PROCESSES_AT + number * process::WORDS * WORD;
        let records = (0..taken).map(at);
        let process = |at: usize| Process {
            pid: self.word(at + process::PID * WORD) as u32,
            parent: self.word(at + process::PARENT * WORD) as u32,
            comm: self.text(at + process::COMM * WORD, 2 * WORD),
        };
        records.map(process).collect()
    }

    /// Text of at most `len` bytes, which a zero ends.
    fn text(&self, at: usize, len: usize) -> String {
        let bytes = self.bytes.get(at..at + len).unwrap_or_default();
        let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
        String::from_utf8_lossy(text).into_owned()
    }

    fn threads(&self, processes: usize) -> Result<Vec<ThreadRecord>, ShimError> {
        let taken = self.taken(header::THREADS, thread::MAX);
        let at = |number| THREADS_AT + number * thread::WORDS * WORD;
        let mut room = self.bytes.len() - POOL_AT;
        let mut threads = Vec::new();
        for at in (0..taken).map(at) {
            let word = |index: usize| self.word(at + index * WORD);
            let table = word(thread::TABLE);
            if table == 0 {
                continue; // It is being written, or the pool was full.
            }
            let damaged = |problem| ShimError::Damaged { at, problem };
            let process = usize::try_from(word(thread::PROCESS)).unwrap_or(usize::MAX);
            if process >= processes {
                return Err(damaged("a thread of no process"));
            }
            let table = self
                .table(table)
                .ok_or_else(|| damaged("a thread's table is out of bounds"))?;
            // No two threads share a table, so all tables together cannot exceed the pool.
            room = room
                .checked_sub(table.1 * usage::WORDS * WORD)
                .ok_or_else(|| damaged("threads have more tables than the pool holds"))?;
            let end = match word(thread::ENDED) {
                0 => self.now,
                ended => ended,
            };
            let life = end.saturating_sub(word(thread::STARTED));
            let ran = life.saturating_sub(word(thread::PAUSED));
            let shown = ThreadUse {
                tid: word(thread::TID) as u32,
                process,
                users: word(thread::USERS),
                ran_ns: self.nanos(ran.saturating_add(word(thread::EARLIER))),
                paused_ns: self.nanos(word(thread::PAUSED)),
            };
            threads.push(ThreadRecord { shown, table });
        }
        Ok(threads)
    }

    fn table(&self, word: u64) -> Option<(usize, usize)> {
        let (at, log2) = layout::unpack_table(word);
        if log2 > TABLE_LOG2_MAX || at < POOL_AT {
            return None;
        }
        let end = at.checked_add((usage::WORDS * WORD) << log2)?;
        (end <= self.bytes.len()).then_some((at, 1 << log2))
    }

    fn locks(&self, threads: &[ThreadRecord], processes: usize) -> Result<Vec<LockUse>, ShimError> {
        let mut locks = BTreeMap::new();
        for ThreadRecord { shown, table } in threads {
            for index in 0..table.1 {
                let at = table.0 + index * usage::WORDS * WORD;
                if self.word(at + usage::ADDRESS * WORD) == 0 {
                    continue;
                }
                let damaged = |problem| ShimError::Damaged { at, problem };
                let number = self.word(at + usage::LOCK * WORD) as u32 as usize;
                let lock = (number < lock::MAX).then_some(LOCKS_AT + number * lock::WORDS * WORD);
                let lock = lock.ok_or_else(|| damaged("a use of no lock"))?;
                let key = self.lock_key(lock, processes);
                let key = key.ok_or_else(|| damaged("a use of a lock of no process"))?;
                if key.process != shown.process {
                    return Err(damaged("a thread uses another process's lock"));
                }
                let merged = locks.entry(key).or_insert_with(|| self.unused(lock, key));
                self.add(merged, at, shown.tid);
            }
        }
        let mut locks: Vec<LockUse> = locks.into_values().collect();
        for lock in &mut locks {
            lock.threads.sort_unstable();
            lock.threads.dedup();
        }
        Ok(locks)
    }

    /// The lock whose record is at `at`.
    fn lock_key(&self, at: usize, processes: usize) -> Option<LockKey> {
        let tag = self.word(at + lock::TAG * WORD);
        let kind = LockKind::of((tag & 0xff).checked_sub(1)?)?;
        let process = usize::try_from((tag >> 8).checked_sub(1)?).ok()?;
        let address = self.word(at + lock::ADDRESS * WORD);
        (process < processes).then_some(LockKey {
            process,
            address,
            kind,
        })
    }

    fn unused(&self, at: usize, key: LockKey) -> LockUse {
        let word = |index: usize| self.word(at + index * WORD);
        LockUse {
            process: key.process,
            address: key.address,
            kind: key.kind,
            call_site: self.call_site(word(lock::SITE), word(lock::MODULE)),
            ..LockUse::default()
        }
    }

    /// Adds the use at `at` to its lock's sums.
    fn add(&self, sum: &mut LockUse, at: usize, tid: u32) {
        let word = |index: usize| self.word(at + index * WORD);
        let nanos = |index: usize| self.nanos(word(index));
        let add = |sum: &mut u64, value: u64| *sum = sum.saturating_add(value);
        let refused = match sum.kind {
            LockKind::Condition => &mut sum.signals,
            _ => &mut sum.refused,
        };
        add(refused, word(usage::REFUSED));
        add(&mut sum.acquisitions, word(usage::ACQUISITIONS));
        add(&mut sum.contended, word(usage::CONTENDED));
        add(&mut sum.handovers, word(usage::HANDOVERS));
        add(&mut sum.wait_ns, nanos(usage::WAITED));
        add(&mut sum.held_ns, nanos(usage::HELD));
        add(&mut sum.held_contended_ns, nanos(usage::HELD_CONTENDED));
        let (held, cycle) = self.contended_run(at);
        add(&mut sum.ran_held_contended_ns, self.nanos(held));
        add(&mut sum.ran_cycle_contended_ns, self.nanos(cycle));
        add(&mut sum.ran_held_ns, nanos(usage::RAN_HELD));
        add(&mut sum.ran_cycle_ns, nanos(usage::RAN_CYCLE));
        sum.held_max_ns = sum.held_max_ns.max(nanos(usage::HELD_MAX));
        let wait_max = nanos(usage::WAIT_MAX);
        if wait_max > sum.wait_max_ns {
            sum.wait_max_ns = wait_max;
            let site = self.call_site(word(usage::WAIT_SITE), word(usage::WAIT_MODULE));
            sum.wait_site = Some(site);
        }
        if word(usage::ACQUISITIONS) > 0 {
            sum.threads.push(tid);
            add(&mut sum.thread_count, word(usage::USERS));
        }
    }

    /// Ticks of running time in windows with a wait, held and in all; includes the present window.
    fn contended_run(&self, at: usize) -> (u64, u64) {
        let word = |index: usize| self.word(at + index * WORD);
        let (held, cycle) = (
            word(usage::RAN_HELD_CONTENDED),
            word(usage::RAN_CYCLE_CONTENDED),
        );
        if word(usage::CONTENDED) == word(usage::WINDOW_CONTENDED) {
            return (held, cycle);
        }
        let since = |now: usize, start: usize| word(now).saturating_sub(word(start));
        (
            held.saturating_add(since(usage::RAN_HELD, usage::WINDOW_HELD)),
            cycle.saturating_add(since(usage::RAN_CYCLE, usage::WINDOW_CYCLE)),
        )
    }

    fn call_site(&self, address: u64, module: u64) -> CallSite {
        let number = usize::try_from(module)
            .ok()
            .and_then(|number| number.checked_sub(1));
        let number = number.filter(|number| *number < module::MAX);
        let module = number.and_then(|number| {
            let at = MODULES_AT + number * module::WORDS * WORD;
            let word = |index: usize| self.word(at + index * WORD);
            let len = usize::try_from(word(module::PATH_LEN)).unwrap_or(usize::MAX);
            (word(module::PROCESS) != 0).then(|| Module {
                path: self.text(at + module::PATH * WORD, len.min(module::PATH_MAX)),
                offset: address.wrapping_sub(word(module::BIAS)),
            })
        });
        CallSite {
            address,
            module,
            name: None,
        }
    }
}
