//! Costs that clocks and watches add to a switch of threads: two that wake each other on one CPU.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use crate::lines::event::{self, Sight, Whom};
use crate::lines::{WATCHES_MAX, WORD_BYTES, WatchedAccess};

/// Times that each of the two gives the turn to the other one.
const TURNS: u32 = 60;
/// Games of each kind, in turn, of which the median counts: where a timer of somebody else comes first, a clock costs
/// next to nothing.
const GAMES: usize = 3;
/// The usual clock.
const PERIOD_NS: u64 = 1_000_000;

/// Costs of a switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Switches {
    pub(super) clock_ns: u64,
    pub(super) watches_ns: u64,
}

/// Events that both threads bear.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bears {
    Nothing,
    Clock,
    Watches,
}

/// Measures.
pub(super) fn measure() -> io::Result<Switches> {
    let cpu = current_cpu()?;
    let mut games: [Vec<u64>; 3] = Default::default();
    for _ in 0..GAMES {
        let all = [Bears::Nothing, Bears::Clock, Bears::Watches];
        for (games, bears) in games.iter_mut().zip(all) {
            games.push(game(bears, cpu)?);
        }
    }
    let [nothing, clock, watches] = games.map(|mut games| {
        games.sort_unstable();
        games[GAMES / 2]
    });
    Ok(Switches {
        clock_ns: clock.saturating_sub(nothing),
        watches_ns: watches.saturating_sub(nothing),
    })
}

/// CPU time of a switch. That of other threads does not count.
fn game(bears: Bears, cpu: usize) -> io::Result<u64> {
    let turn = AtomicU32::new(0);
    let line = [0u64; WATCHES_MAX];
    let play = |me| play(&turn, me, || bears.open(&line, cpu));
    let ns = thread::scope(|scope| -> io::Result<u64> {
        // Where the other one cannot start, nobody waits for it.
        let other = thread::Builder::new().spawn_scoped(scope, || play(1))?;
        let own = play(0);
        let other = other.join();
        let other = other.unwrap_or_else(|_| Err(io::Error::other("a thread ended early")));
        Ok(own? + other?)
    })?;
    Ok(ns / u64::from(2 * TURNS))
}

/// Takes turns with the other thread, and returns the CPU time that it took.
fn play(
    turn: &AtomicU32,
    me: u32,
    prepare: impl FnOnce() -> io::Result<Vec<File>>,
) -> io::Result<u64> {
    // The other one waits for this one, whatever came of it.
    let events = prepare();
    wait_for(turn, me);
    let begun = cpu_ns();
    for _ in 0..TURNS {
        wait_for(turn, me);
        turn.store(1 - me, Ordering::Release);
        wake(turn);
    }
    let ended = cpu_ns();
    events.map(|_| ended - begun)
}

impl Bears {
    /// Opens the events of this thread, which from then on stays on one CPU.
    fn open(self, line: &[u64; WATCHES_MAX], cpu: usize) -> io::Result<Vec<File>> {
        pin(cpu)?;
        let me = Whom::Thread(0);
        let events = match self {
            Bears::Nothing => Vec::new(),
            Bears::Clock => vec![Sight::Programs.clock(me, PERIOD_NS)?],
            Bears::Watches => {
                let words =
                    (0..WATCHES_MAX as u64).map(|word| line.as_ptr() as u64 + word * WORD_BYTES);
                let open = |word| Sight::Programs.watch(me, word, WatchedAccess::Write);
                words.map(open).collect::<io::Result<Vec<File>>>()?
            }
        };
        events.iter().for_each(|event| event::enable(event, true));
        Ok(events)
    }
}

fn wait_for(turn: &AtomicU32, me: u32) {
    loop {
        let whose = turn.load(Ordering::Acquire);
        if whose == me {
            return;
        }
        let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
        let forever = std::ptr::null::<libc::timespec>();
        // SAFETY: the word lives through the call, which only looks at it. It returns at once if the turn has gone.
        unsafe { libc::syscall(libc::SYS_futex, turn.as_ptr(), operation, whose, forever) };
    }
}

fn wake(turn: &AtomicU32) {
    let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the word lives through the call, which takes its address alone.
    unsafe { libc::syscall(libc::SYS_futex, turn.as_ptr(), operation, 1) };
}

/// CPU time of this thread.
fn cpu_ns() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the call fills the time in.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

pub(super) fn current_cpu() -> io::Result<usize> {
    // SAFETY: a system call without arguments.
    let cpu = unsafe { libc::sched_getcpu() };
    usize::try_from(cpu).map_err(|_| io::Error::last_os_error())
}

/// Keeps this thread on a CPU.
pub(super) fn pin(cpu: usize) -> io::Result<()> {
    let mut mask = [0u64; 128];
    let word = mask.get_mut(cpu / 64);
    *word.ok_or_else(|| io::Error::other("a CPU beyond the limit"))? = 1 << (cpu % 64);
    // SAFETY: the kernel reads the mask, which lives through the call.
    match unsafe { libc::sched_setaffinity(0, size_of_val(&mask), mask.as_ptr().cast()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
