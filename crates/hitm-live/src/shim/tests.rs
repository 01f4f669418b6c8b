//! Regions written down by hand.

use proptest::prelude::*;

use super::layout::{
    self, LOCKS_AT, MODULES_AT, POOL_AT, PROCESSES_AT, THREADS_AT, WORD, header, kind, lock,
    module, pack_table, process, thread, usage,
};
use super::{LockKind, Observation, ShimError};

/// A region under construction. Its clock ticks three times in a nanosecond.
struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    fn new(tables: usize) -> Writer {
        let mut writer = Writer {
            bytes: vec![0; POOL_AT + tables * TABLE_BYTES],
        };
        writer.set(0, header::MAGIC, layout::MAGIC);
        writer.set(0, header::VERSION, layout::VERSION);
        writer.set(0, header::TICKS, 3);
        writer.set(0, header::TICKS_NANOS, 1);
        writer.set(0, header::LOADED, 1);
        writer
    }

    fn set(&mut self, at: usize, word: usize, value: u64) {
        let at = at + word * WORD;
        self.bytes[at..at + WORD].copy_from_slice(&value.to_ne_bytes());
    }

    fn process(&mut self, pid: u64) {
        let number = self.count(header::PROCESSES);
        let at = PROCESSES_AT + number * process::WORDS * WORD;
        self.set(at, process::PID, pid);
        self.set(at, process::COMM, u64::from_ne_bytes(*b"server\0\0"));
    }

    fn lock(&mut self, number: usize, process: u64, address: u64, kind: u64) {
        let at = LOCKS_AT + number * lock::WORDS * WORD;
        self.set(at, lock::ADDRESS, address);
        self.set(at, lock::TAG, (process + 1) << 8 | (kind + 1));
        self.set(at, lock::SITE, 0x5000_1234);
        self.set(at, lock::MODULE, 1);
    }

    fn thread(&mut self, tid: u64, process: u64) -> usize {
        let number = self.count(header::THREADS);
        let at = THREADS_AT + number * thread::WORDS * WORD;
        let table = POOL_AT + number * TABLE_BYTES;
        self.set(at, thread::TID, tid);
        self.set(at, thread::PROCESS, process);
        self.set(at, thread::STARTED, 3000);
        self.set(at, thread::PAUSED, 300);
        self.set(at, thread::USERS, 1);
        self.set(at, thread::TABLE, pack_table(table, TABLE_LOG2));
        table
    }

    fn usage(&mut self, at: usize, lock: u64, words: &[(usize, u64)]) {
        self.set(at, usage::ADDRESS, 0x7000);
        self.set(at, usage::LOCK, lock);
        self.set(at, usage::USERS, 1);
        for (word, value) in words {
            self.set(at, *word, *value);
        }
    }

    fn count(&mut self, counter: usize) -> usize {
        let at = counter * WORD;
        let count = u64::from_ne_bytes(*self.bytes[at..].first_chunk().unwrap());
        self.set(0, counter, count + 1);
        count as usize
    }

    fn parse(&self) -> Result<Observation, ShimError> {
        Observation::parse(&self.bytes, 9000)
    }
}

const TABLE_LOG2: u32 = 2;
const TABLE_BYTES: usize = (usage::WORDS * WORD) << TABLE_LOG2;
const USAGE_BYTES: usize = usage::WORDS * WORD;

/// Two threads that share a mutex, whose record was made twice.
fn shared_mutex() -> Writer {
    let mut writer = Writer::new(2);
    writer.process(40);
    let at = MODULES_AT;
    writer.set(0, header::MODULES, 1);
    writer.set(at, module::PROCESS, 1);
    writer.set(at, module::BIAS, 0x5000_0000);
    writer.set(at, module::PATH_LEN, 6);
    writer.set(at, module::PATH, u64::from_ne_bytes(*b"/bin/s\0\0"));
    writer.lock(7, 0, 0x7000, kind::MUTEX);
    writer.lock(8, 0, 0x7000, kind::MUTEX);
    let first = writer.thread(42, 0);
    let second = writer.thread(41, 0);
    writer.usage(
        first,
        7,
        &[
            (usage::ACQUISITIONS, 10),
            (usage::CONTENDED, 4),
            (usage::WAITED, 3000),
            (usage::WAIT_MAX, 900),
            (usage::WAIT_SITE, 0x5000_4444),
            (usage::WAIT_MODULE, 1),
            (usage::RAN_HELD_CONTENDED, 300),
            (usage::RAN_CYCLE_CONTENDED, 900),
            // Closed windows: the waits of this one are over.
            (usage::WINDOW_CONTENDED, 4),
            (usage::RAN_HELD, 500),
            (usage::RAN_CYCLE, 5000),
        ],
    );
    writer.usage(
        second + USAGE_BYTES,
        8,
        &[
            (usage::ACQUISITIONS, 5),
            (usage::WAIT_MAX, 600),
            // Its only window is under way, and it has waited.
            (usage::CONTENDED, 1),
            (usage::RAN_HELD, 300),
            (usage::RAN_CYCLE, 1200),
            (usage::HANDOVERS, 2),
        ],
    );
    writer
}

#[test]
fn uses_of_one_lock_are_added_up() {
    let observation = shared_mutex().parse().unwrap();
    let [lock] = &observation.locks[..] else {
        panic!("one lock: {:?}", observation.locks);
    };
    assert_eq!((lock.kind, lock.address), (LockKind::Mutex, 0x7000));
    assert_eq!(
        (lock.acquisitions, lock.contended, lock.handovers),
        (15, 5, 2)
    );
    assert_eq!((lock.wait_ns, lock.wait_max_ns), (1000, 300));
    assert_eq!(
        (lock.threads.as_slice(), lock.thread_count),
        (&[41, 42][..], 2)
    );
    // 600 of 2100 ticks.
    assert_eq!(lock.hold_share(), Some(200.0 / 700.0));
    assert_eq!(lock.needed_cpus(), Some(4));
    // 800 of 6200.
    assert_eq!(lock.hold_share_all(), Some(266.0 / 2066.0));
    let site = |site: &super::CallSite| {
        let module = site.module.clone().unwrap();
        (module.path, module.offset)
    };
    assert_eq!(site(&lock.call_site), ("/bin/s".to_owned(), 0x1234));
    let wait_site = lock.wait_site.as_ref().unwrap();
    assert_eq!(site(wait_site), ("/bin/s".to_owned(), 0x4444));
    assert_eq!(observation.processes[0].comm, "server");
    // From 3000 to now without the 300 paused.
    assert_eq!(observation.threads[0].ran_ns, 1900);
    assert_eq!(observation.losses.loaded, 1);
}

#[test]
fn signals_are_no_refusals() {
    let mut writer = Writer::new(1);
    writer.process(40);
    writer.lock(0, 0, 0x7000, kind::CONDITION);
    let table = writer.thread(41, 0);
    writer.usage(table, 4 << 32, &[(usage::REFUSED, 3)]);
    let observation = writer.parse().unwrap();
    let lock = &observation.locks[0];
    assert_eq!((lock.signals, lock.refused), (3, 0));
    assert_eq!(lock.threads, [0_u32; 0], "nobody waited");
}

#[test]
fn what_found_no_room_is_counted() {
    let mut writer = shared_mutex();
    writer.set(0, header::LOST, 5);
    writer.set(0, header::PROCESSES, process::MAX as u64 + 2);
    writer.set(0, header::UNOBSERVED, 6);
    let losses = writer.parse().unwrap().losses;
    assert_eq!(
        (losses.acquisitions, losses.processes, losses.operations),
        (5, 2, 6)
    );
}

fn problem(writer: &Writer) -> &'static str {
    match writer.parse() {
        Err(ShimError::Damaged { problem, .. }) => problem,
        other => panic!("{other:?}"),
    }
}

#[test]
fn contradictions_are_errors() {
    let with = |at: usize, word: usize, value: u64| {
        let mut writer = shared_mutex();
        writer.set(at, word, value);
        problem(&writer)
    };
    assert!(with(0, header::MAGIC, 1).contains("begin"));
    assert!(with(0, header::VERSION, 9).contains("version"));
    assert!(with(0, header::TICKS, 0).contains("clock"));
    assert!(with(THREADS_AT, thread::PROCESS, 1).contains("no process"));
    let beyond = pack_table(POOL_AT + TABLE_BYTES, TABLE_LOG2 + 1);
    assert!(with(THREADS_AT, thread::TABLE, beyond).contains("bounds"));
    let huge = pack_table(POOL_AT, 60);
    assert!(with(THREADS_AT, thread::TABLE, huge).contains("bounds"));
    let low = pack_table(0, TABLE_LOG2) | 64 << 8;
    assert!(with(THREADS_AT, thread::TABLE, low).contains("bounds"));
    assert!(with(POOL_AT, usage::LOCK, u64::from(u32::MAX)).contains("no lock"));
    let lock = LOCKS_AT + 7 * lock::WORDS * WORD;
    assert!(with(lock, lock::TAG, 0).contains("no process"));
    let mut other = shared_mutex();
    other.process(50);
    other.set(lock, lock::TAG, 2 << 8 | 1);
    assert!(problem(&other).contains("another process"));
    let all = pack_table(POOL_AT, TABLE_LOG2 + 1);
    assert!(with(THREADS_AT, thread::TABLE, all).contains("than the pool"));
}

#[test]
fn other_lengths_are_errors() {
    let writer = shared_mutex();
    for len in [0, 8, 4096, POOL_AT - 1] {
        assert!(Observation::parse(&writer.bytes[..len], 0).is_err());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// A program may write anything over the region.
    #[test]
    fn any_words_give_an_answer_or_an_error(words in prop::collection::vec((0_usize..6, 0_usize..48, any::<u64>()), 1..12)) {
        let mut writer = shared_mutex();
        let tables = [0, PROCESSES_AT, MODULES_AT, LOCKS_AT, THREADS_AT, POOL_AT];
        for (table, word, value) in words {
            writer.set(tables[table], word, value >> (value % 64));
        }
        if let Ok(observation) = writer.parse() {
            prop_assert!(observation.locks.len() <= 8);
        }
    }
}
