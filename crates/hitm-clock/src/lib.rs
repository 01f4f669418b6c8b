//! The clock of a recorded machine: preloaded into QEMU, it replaces the time that QEMU's devices
//! and the guest's time-stamp counter are made of.
//!
//! A recorded guest runs hundreds of times slower than its own machine would. On the host's time it
//! would do little but handle timer ticks. So from the start of a recording the recorder's virtual
//! time replaces the host's. Both `clock_gettime(CLOCK_MONOTONIC)`, from which QEMU makes its
//! timers, and the `rdtsc` instruction, with which it answers the guest's, follow the recorder.
//! Before the start, and for every other clock, nothing changes.
//!
//! While every CPU of the guest idles, the recorder's time stands still, and QEMU waits for its
//! next timer. It waits in `ppoll`, which is therefore replaced as well. Once nothing in QEMU runs,
//! so that only the timer can end the wait, the time advances to the timer's expiry. So the length
//! of a guest's sleep does not depend on the host.
//!
//! `rdtsc` is an instruction and not a call. The kernel is asked to refuse it (`PR_SET_TSC`, which
//! threads inherit), and the handler of the signal that follows answers it. The vDSO reads the
//! counter too, and gets the true one.
//!
//! A machine of hundreds of CPUs does not boot on the time of a small host: its timer ticks alone
//! need more CPU time than the host has. Without a recorder, `HITM_CLOCK_SLOWDOWN=N` in the
//! environment slows time by a factor of N, for QEMU's timers and the guest's counter alike.
//!
//! x86-64 hosts only: elsewhere the library does nothing.
#![cfg(target_arch = "x86_64")]

use std::fs;
use std::mem::MaybeUninit;
use std::ptr::null_mut;
use std::sync::OnceLock;
use std::time::Duration;

use libc::{c_int, c_void, clockid_t, siginfo_t, timespec, ucontext_t};

/// The recorder's time (`hitm-qemu` declares the same).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct VirtualTime {
    /// Virtual nanoseconds since the recording began.
    pub nanos: extern "C" fn() -> u64,
    /// True while all CPUs idle, so that time advances only by `pass`.
    pub stands: extern "C" fn() -> bool,
    /// Advances a stopped clock to so many virtual nanoseconds.
    pub pass: extern "C" fn(u64),
}

/// Both clocks at one moment.
#[derive(Clone, Copy)]
struct Moment {
    nanos: u64,
    tsc: u64,
}

/// A time that passes more slowly than the host's.
struct SlowTime {
    slowdown: u64,
    start: Moment,
    /// Counts of the host's time-stamp counter in a second.
    tsc_hz: u64,
}

/// Sources of the time once the recording has begun.
struct Drive {
    time: VirtualTime,
    start: Moment,
    /// Counts of the time-stamp counter in a second.
    tsc_hz: u64,
}

static LOADED: OnceLock<Moment> = OnceLock::new();
static SLOW: OnceLock<SlowTime> = OnceLock::new();
static DRIVE: OnceLock<Drive> = OnceLock::new();

/// Pages of code that the kernel maps into every process.
const VDSO_BYTES: u64 = 4 << 12;

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// Time for which the counter is compared with the clock: its rate is right to one in ten thousand.
const COUNTER_LOOK: Duration = Duration::from_millis(10);

/// Runs when the library is loaded, before QEMU has any other thread.
#[used]
#[unsafe(link_section = ".init_array")]
static ON_LOAD: extern "C" fn() = on_load;

extern "C" fn on_load() {
    let _ = LOADED.set(Moment::now());
    let slowdown = std::env::var("HITM_CLOCK_SLOWDOWN").ok();
    let slowdown = slowdown.and_then(|text| text.parse().ok());
    if let Some(slowdown) = slowdown.filter(|&slowdown| slowdown > 1) {
        let _ = SLOW.set(SlowTime::begin(slowdown));
    }
    // SAFETY: the action is complete, and the handler only does what a handler may.
    let refused = unsafe {
        let mut action: libc::sigaction = MaybeUninit::zeroed().assume_init();
        action.sa_sigaction = on_fault as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER;
        libc::sigaction(libc::SIGSEGV, &action, null_mut());
        libc::prctl(libc::PR_SET_TSC, libc::PR_TSC_SIGSEGV)
    };
    if refused != 0 {
        // Then the counter stays the host's; QEMU's timers still follow the recorder.
        let message = b"hitm: this kernel does not let a process hide its time-stamp counter\n";
        // SAFETY: writes a buffer of this process.
        unsafe { libc::write(2, message.as_ptr().cast(), message.len()) };
    }
}

/// Switches to `time`. Called by the recorder, once.
#[unsafe(no_mangle)]
pub extern "C" fn hitm_clock_drive(time: VirtualTime) {
    let Some(loaded) = LOADED.get() else { return };
    let start = Moment::now();
    let _ = DRIVE.set(Drive {
        time,
        start,
        tsc_hz: start.tsc_hz_since(*loaded),
    });
}

impl Moment {
    fn now() -> Moment {
        Moment {
            nanos: host_nanos(),
            tsc: host_tsc(),
        }
    }

    /// Frequency of the counter since an earlier moment.
    fn tsc_hz_since(self, earlier: Moment) -> u64 {
        let nanos = (self.nanos - earlier.nanos).max(1);
        let counted = self.tsc.wrapping_sub(earlier.tsc);
        (u128::from(counted) * u128::from(NANOS_PER_SECOND) / u128::from(nanos)) as u64
    }
}

impl SlowTime {
    /// Begins now, after measuring the counter's rate. Later the count is computed from the time:
    /// reading a refused counter takes three system calls.
    fn begin(slowdown: u64) -> SlowTime {
        let start = Moment::now();
        std::thread::sleep(COUNTER_LOOK);
        SlowTime {
            slowdown,
            start,
            tsc_hz: Moment::now().tsc_hz_since(start),
        }
    }

    fn nanos(&self, host_nanos: u64) -> u64 {
        self.start.nanos + host_nanos.saturating_sub(self.start.nanos) / self.slowdown
    }

    fn tsc(&self, host_nanos: u64) -> u64 {
        let nanos = self.nanos(host_nanos) - self.start.nanos;
        self.start.tsc.wrapping_add(counts(nanos, self.tsc_hz))
    }
}

/// Counts of a counter of `hz` in `nanos`.
fn counts(nanos: u64, hz: u64) -> u64 {
    (u128::from(nanos) * u128::from(hz) / u128::from(NANOS_PER_SECOND)) as u64
}

/// The time that replaces `CLOCK_MONOTONIC`, if there is one.
fn made_nanos() -> Option<u64> {
    match DRIVE.get() {
        Some(drive) => Some(drive.nanos()),
        None => SLOW.get().map(|slow| slow.nanos(host_nanos())),
    }
}

/// The count that replaces the time-stamp counter's, if there is one.
fn made_tsc() -> Option<u64> {
    match DRIVE.get() {
        Some(drive) => Some(drive.tsc()),
        None => SLOW.get().map(|slow| slow.tsc(host_nanos())),
    }
}

impl Drive {
    fn nanos(&self) -> u64 {
        self.start.nanos + (self.time.nanos)()
    }

    fn tsc(&self) -> u64 {
        let counted = counts((self.time.nanos)(), self.tsc_hz);
        self.start.tsc.wrapping_add(counted)
    }
}

/// The kernel's own `CLOCK_MONOTONIC`.
fn host_nanos() -> u64 {
    let mut time = timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the kernel writes to `time`.
    unsafe { libc::syscall(libc::SYS_clock_gettime, libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * NANOS_PER_SECOND + time.tv_nsec as u64
}

/// The host's counter, also for a thread that may not read it.
fn host_tsc() -> u64 {
    // SAFETY: allows the instruction for as long as it takes, and forbids it again if it was forbidden.
    unsafe {
        let mut mode: c_int = libc::PR_TSC_ENABLE;
        libc::prctl(libc::PR_GET_TSC, &mut mode);
        libc::prctl(libc::PR_SET_TSC, libc::PR_TSC_ENABLE);
        let counter = core::arch::x86_64::_rdtsc();
        libc::prctl(libc::PR_SET_TSC, mode);
        counter
    }
}

/// The C library's function, as QEMU calls it.
///
/// # Safety
/// `time` is valid or null, as the C library demands.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clock_gettime(clock: clockid_t, time: *mut timespec) -> c_int {
    if clock == libc::CLOCK_MONOTONIC
        && !time.is_null()
        && let Some(nanos) = made_nanos()
    {
        // SAFETY: as the caller says.
        unsafe {
            (*time).tv_sec = (nanos / NANOS_PER_SECOND) as libc::time_t;
            (*time).tv_nsec = (nanos % NANOS_PER_SECOND) as libc::c_long;
        }
        return 0;
    }
    // SAFETY: as the caller says.
    unsafe { libc::syscall(libc::SYS_clock_gettime, clock, time) as c_int }
}

/// The C library's function, in which QEMU's main thread waits for descriptors and its next timer.
///
/// # Safety
/// As the C library demands.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ppoll(
    descriptors: *mut libc::pollfd,
    count: libc::nfds_t,
    timeout: *const timespec,
    signals: *const libc::sigset_t,
) -> c_int {
    let poll = |nanos: Option<u64>| {
        let mut time = timespec {
            tv_sec: (nanos.unwrap_or(0) / NANOS_PER_SECOND) as libc::time_t,
            tv_nsec: (nanos.unwrap_or(0) % NANOS_PER_SECOND) as libc::c_long,
        };
        let time = nanos.map_or(null_mut(), |_| &raw mut time);
        // SAFETY: as the caller says; the kernel's set of signals has eight bytes.
        unsafe { libc::syscall(libc::SYS_ppoll, descriptors, count, time, signals, 8) as c_int }
    };
    // SAFETY: as the caller says.
    let nanos = unsafe { timeout.as_ref() }
        .map(|time| time.tv_sec as u64 * NANOS_PER_SECOND + time.tv_nsec as u64);
    match (DRIVE.get(), nanos) {
        (Some(drive), Some(nanos)) => {
            let poll = |slice| poll(Some(slice));
            drive.time.wait(nanos, poll, only_this_thread_runs)
        }
        _ => {
            let slowdown = SLOW.get().map_or(1, |slow| slow.slowdown);
            poll(nanos.map(|nanos| nanos.saturating_mul(slowdown)))
        }
    }
}

/// Interval at which a waiting QEMU checks for idle CPUs. Short against a recorded tick, long
/// against the check.
const LOOK_NANOS: u64 = 500_000;

impl VirtualTime {
    /// Waits for `nanos` of virtual time, or until `poll`, which waits for a time of the host's,
    /// returns anything but a time-out. `nothing_runs` returns true when no thread is about to wake
    /// a CPU.
    fn wait(
        &self,
        nanos: u64,
        poll: impl Fn(u64) -> c_int,
        nothing_runs: impl Fn() -> bool,
    ) -> c_int {
        let expires = (self.nanos)() + nanos;
        loop {
            let missing = expires.saturating_sub((self.nanos)());
            let answer = poll(missing.min(LOOK_NANOS));
            if answer != 0 || (self.nanos)() >= expires {
                return answer;
            }
            if (self.stands)() && nothing_runs() {
                (self.pass)(expires);
                return 0;
            }
        }
    }
}

/// Returns true if all other threads of this process wait. A thread that was woken counts as
/// running from then on, with or without a CPU of the host.
fn only_this_thread_runs() -> bool {
    // SAFETY: returns a number.
    let this = unsafe { libc::gettid() }.to_string();
    let Ok(threads) = fs::read_dir("/proc/self/task") else {
        return false;
    };
    threads
        .flatten()
        .filter(|thread| thread.file_name().to_str() != Some(&this))
        .filter_map(|thread| fs::read_to_string(thread.path().join("stat")).ok())
        .all(|stat| state_of(&stat) == Some('S'))
}

/// The state in a line of /proc/PID/stat, which stands behind the name in parentheses.
fn state_of(stat: &str) -> Option<char> {
    stat.rsplit_once(") ")?.1.chars().next()
}

/// Emulates a refused `rdtsc` or `rdtscp`; any other fault is QEMU's own and ends it.
unsafe extern "C" fn on_fault(_: c_int, _: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes the context of the thread that faulted, at an instruction that it
    // has just fetched.
    unsafe {
        let registers = &mut (*context.cast::<ucontext_t>()).uc_mcontext.gregs;
        let at = registers[libc::REG_RIP as usize] as u64;
        let length = rdtsc_length(at as *const u8);
        if length == 0 {
            libc::signal(libc::SIGSEGV, libc::SIG_DFL);
            return;
        }
        let vdso = libc::getauxval(libc::AT_SYSINFO_EHDR);
        let in_vdso = (vdso..vdso + VDSO_BYTES).contains(&at);
        let made = if in_vdso { None } else { made_tsc() };
        let counter = made.unwrap_or_else(host_tsc);
        registers[libc::REG_RAX as usize] = (counter & 0xffff_ffff) as i64;
        registers[libc::REG_RDX as usize] = (counter >> 32) as i64;
        if length == RDTSCP.len() {
            registers[libc::REG_RCX as usize] = 0; // The number of the processor.
        }
        registers[libc::REG_RIP as usize] += length as i64;
    }
}

const RDTSC: [u8; 2] = [0x0f, 0x31];
const RDTSCP: [u8; 3] = [0x0f, 0x01, 0xf9];

/// Length of the instruction at `code` if it reads the counter, else 0.
///
/// # Safety
/// `code` is the address of an instruction.
unsafe fn rdtsc_length(code: *const u8) -> usize {
    // SAFETY: two bytes are read only of an instruction that begins with 0f, and the third only of
    // one that begins with 0f 01: none of these is shorter.
    unsafe {
        if *code != RDTSC[0] {
            return 0;
        }
        match *code.add(1) {
            byte if byte == RDTSC[1] => RDTSC.len(),
            byte if byte == RDTSCP[1] && *code.add(2) == RDTSCP[2] => RDTSCP.len(),
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    thread_local! {
        static NOW: Cell<u64> = const { Cell::new(0) };
        static STANDS: Cell<bool> = const { Cell::new(false) };
    }

    extern "C" fn now() -> u64 {
        NOW.get()
    }

    extern "C" fn stands() -> bool {
        STANDS.get()
    }

    extern "C" fn pass(nanos: u64) {
        NOW.set(nanos);
    }

    const TIME: VirtualTime = VirtualTime {
        nanos: now,
        stands,
        pass,
    };

    /// A guest hundreds of times slower than the host, whose CPUs halt at `halt`.
    fn run_guest(halt: u64) {
        NOW.set((NOW.get() + 1_000).min(halt));
        STANDS.set(NOW.get() == halt);
    }

    #[test]
    fn idle_time_is_passed_over_and_busy_time_is_not() {
        let polls = Cell::new(0);
        let poll = |nanos: u64| {
            assert!(nanos <= LOOK_NANOS);
            polls.set(polls.get() + 1);
            run_guest(5_000);
            0
        };
        assert_eq!(TIME.wait(7_000_000, poll, || true), 0);
        assert_eq!((NOW.get(), polls.get()), (7_000_000, 5));
    }

    #[test]
    fn nothing_is_passed_over_while_a_thread_is_about_to_wake_a_cpu() {
        STANDS.set(true);
        let looks = Cell::new(0);
        let nothing_runs = || {
            looks.set(looks.get() + 1);
            looks.get() > 3
        };
        assert_eq!(TIME.wait(10, |_| 0, nothing_runs), 0);
        assert_eq!((NOW.get(), looks.get()), (10, 4));
    }

    #[test]
    fn an_event_comes_before_the_timer() {
        STANDS.set(true);
        assert_eq!(TIME.wait(10, |_| 1, || true), 1);
        assert_eq!(NOW.get(), 0);
    }

    #[test]
    fn slow_time_begins_where_the_host_is() {
        let start = Moment {
            nanos: 1_000,
            tsc: u64::MAX,
        };
        let slow = SlowTime {
            slowdown: 8,
            start,
            tsc_hz: 2 * NANOS_PER_SECOND,
        };
        assert_eq!((slow.nanos(1_000), slow.tsc(1_000)), (1_000, u64::MAX));
        // A counter may wrap.
        assert_eq!((slow.nanos(9_000), slow.tsc(9_000)), (2_000, 1_999));
    }

    #[test]
    fn a_threads_name_may_look_like_the_end_of_its_name() {
        assert_eq!(state_of("17 (CPU 0/TCG) R 1 17"), Some('R'));
        assert_eq!(state_of("17 (a) R) S 1 17"), Some('S'));
        assert_eq!(state_of("17"), None);
    }
}
