use std::cell::UnsafeCell;
use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use hitm_bpf::{Filter, HeldTicks, HolderEvents};

use crate::with_bpf;

/// CPU time of each thread, and of its work in a turn.
const WORK: Duration = Duration::from_millis(400);
const INSIDE: Duration = Duration::from_micros(450);
const OUTSIDE: Duration = Duration::from_micros(300);
/// Five standard errors of some 800 ticks.
const TOLERANCE: f64 = 0.09;

/// A mutex of the C library.
struct Mutex(UnsafeCell<libc::pthread_mutex_t>);

// SAFETY: a mutex is for several threads.
unsafe impl Sync for Mutex {}

impl Mutex {
    fn new(protocol: libc::c_int, robust: libc::c_int) -> Box<Mutex> {
        let mutex = Box::new(Mutex(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER)));
        // SAFETY: both live, and nobody has the mutex yet.
        unsafe {
            let mut attributes = std::mem::zeroed::<libc::pthread_mutexattr_t>();
            assert_eq!(libc::pthread_mutexattr_init(&raw mut attributes), 0);
            assert_eq!(
                libc::pthread_mutexattr_setprotocol(&raw mut attributes, protocol),
                0
            );
            assert_eq!(
                libc::pthread_mutexattr_setrobust(&raw mut attributes, robust),
                0
            );
            assert_eq!(
                libc::pthread_mutex_init(mutex.0.get(), &raw const attributes),
                0
            );
        }
        mutex
    }

    fn while_locked<T>(&self, work: impl FnOnce() -> T) -> T {
        // SAFETY: the mutex lives, and is unlocked by the thread that has it.
        unsafe {
            assert_eq!(libc::pthread_mutex_lock(self.0.get()), 0);
            let done = work();
            assert_eq!(libc::pthread_mutex_unlock(self.0.get()), 0);
            done
        }
    }
}

fn cpu_time() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` outlives the call.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

/// Returns the CPU time that it took.
fn work(time: Duration) -> Duration {
    let begun = cpu_time();
    while cpu_time() - begun < time {
        std::hint::spin_loop();
    }
    cpu_time() - begun
}

/// A thread's time inside and outside of the lock, and its number.
fn fight(mutex: &Mutex) -> (Duration, Duration, u32) {
    let (mut inside, mut outside) = (Duration::ZERO, Duration::ZERO);
    while inside + outside < WORK {
        inside += mutex.while_locked(|| work(INSIDE));
        outside += work(OUTSIDE);
    }
    // SAFETY: a plain system call.
    (inside, outside, unsafe { libc::gettid() }.unsigned_abs())
}

#[test]
fn the_clock_finds_the_owner_that_a_word_names() {
    with_bpf("owners of locks", || {
        let filter = Filter::Processes(vec![std::process::id()]);
        let mut events = HolderEvents::attach(&filter).unwrap();
        let (none, inherit) = (libc::PTHREAD_PRIO_NONE, libc::PTHREAD_PRIO_INHERIT);
        let (stalled, robust) = (libc::PTHREAD_MUTEX_STALLED, libc::PTHREAD_MUTEX_ROBUST);
        for (protocol, robust) in [(none, stalled), (none, robust), (inherit, stalled)] {
            let mutex = Mutex::new(protocol, robust);
            let word = mutex.0.get() as u64;
            let fights = thread::scope(|scope| {
                let threads = [0, 1].map(|_| scope.spawn(|| fight(&mutex)));
                // Other tests' threads are of this process: where their events find no room, words are not noted.
                while threads.iter().any(|thread| !thread.is_finished()) {
                    events.drain(|_| {});
                    thread::sleep(Duration::from_millis(10));
                }
                threads.map(|thread| thread.join().unwrap())
            });
            let ticks = events.take_ticks().unwrap();
            let of = |word: Option<u64>, tid: u32| {
                let mut rows = ticks.iter();
                let row = rows.find(|row: &&HeldTicks| (row.word, row.tid) == (word, tid));
                row.map_or(0, |row| row.count) as f64
            };
            let sum = |parts: [f64; 2]| parts[0] + parts[1];
            let inside = sum(fights.map(|(inside, _, _)| inside.as_secs_f64()));
            let outside = sum(fights.map(|(_, outside, _)| outside.as_secs_f64()));
            let held = sum(fights.map(|(_, _, tid)| of(Some(word), tid)));
            let all = sum(fights.map(|(_, _, tid)| of(None, tid)));
            let truth = inside / (inside + outside);
            assert!(
                (held / all - truth).abs() < TOLERANCE,
                "{protocol} {robust}: {held} of {all}, in truth {truth}: {ticks:?}"
            );
        }
    });
}

/// Writers have a reader-writer lock for all of their work; its words name nobody.
#[test]
fn a_word_without_an_owner_has_no_ticks() {
    with_bpf("owners of locks", || {
        let filter = Filter::Processes(vec![std::process::id()]);
        let mut events = HolderEvents::attach(&filter).unwrap();
        let lock = std::sync::RwLock::new(BTreeMap::from([(0, 0)]));
        let word = (&raw const lock) as u64;
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        *lock.write().unwrap().entry(0).or_insert(0) += 1;
                        let _held = lock.write().unwrap();
                        work(Duration::from_millis(1));
                    }
                });
            }
        });
        let inside = word..word + size_of_val(&lock) as u64;
        let ticks = events.take_ticks().unwrap();
        let own = ticks
            .iter()
            .filter(|row| row.word.is_some_and(|word| inside.contains(&word)));
        assert_eq!(own.count(), 0, "{ticks:?}");
    });
}
