//! The clock of a recorded machine: preloaded into QEMU, it replaces the time that QEMU's devices
//! and the guest's time-stamp counter are made of.
//!
//! A recorded guest runs hundreds of times slower than its own machine would. On the host's time it
//! would do little but handle timer ticks. So from the start of a recording the recorder's virtual
//! time is the only time there is: `clock_gettime(CLOCK_MONOTONIC)`, from which QEMU makes its timers,
//! and the `rdtsc` instruction, with which it answers the guest's, both follow the recorder. Before
//! the start, and for every other clock, everything is as it was.
//!
//! `rdtsc` is an instruction and not a call: the kernel is asked to refuse it (`PR_SET_TSC`, which
//! threads inherit), and the signal that follows is answered. The kernel's own page of user code reads
//! the counter as well, and gets the true one.
//!
//! x86-64 hosts only: elsewhere the library does nothing.
#![cfg(target_arch = "x86_64")]

use std::mem::MaybeUninit;
use std::ptr::null_mut;
use std::sync::OnceLock;

use libc::{c_int, c_void, clockid_t, siginfo_t, timespec, ucontext_t};

/// Virtual nanoseconds since the recording began.
type Source = extern "C" fn() -> u64;

/// Both clocks at one moment.
#[derive(Clone, Copy)]
struct Moment {
    nanos: u64,
    tsc: u64,
}

/// What the time is made of once the recording has begun.
struct Drive {
    source: Source,
    start: Moment,
    /// Counts of the time-stamp counter in a second.
    tsc_hz: u64,
}

static LOADED: OnceLock<Moment> = OnceLock::new();
static DRIVE: OnceLock<Drive> = OnceLock::new();

/// Pages of code that the kernel maps into every process.
const VDSO_BYTES: u64 = 4 << 12;

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// Runs when the library is loaded, before QEMU has any other thread.
#[used]
#[unsafe(link_section = ".init_array")]
static ON_LOAD: extern "C" fn() = on_load;

extern "C" fn on_load() {
    let _ = LOADED.set(Moment::now());
    // SAFETY: the action is complete, and the handler only does what a handler may.
    let refused = unsafe {
        let mut action: libc::sigaction = MaybeUninit::zeroed().assume_init();
        action.sa_sigaction = on_fault as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER;
        libc::sigaction(libc::SIGSEGV, &action, null_mut());
        libc::prctl(libc::PR_SET_TSC, libc::PR_TSC_SIGSEGV)
    };
    if refused != 0 {
        // The counter then stays the host's; QEMU's timers still follow the recorder.
        let message = b"hitm: this kernel does not let a process hide its time-stamp counter\n";
        // SAFETY: writes a buffer of this process.
        unsafe { libc::write(2, message.as_ptr().cast(), message.len()) };
    }
}

/// From now on the time is that of `source`. Called by the recorder, once.
#[unsafe(no_mangle)]
pub extern "C" fn hitm_clock_drive(source: Source) {
    let Some(loaded) = LOADED.get() else { return };
    let start = Moment::now();
    let nanos = (start.nanos - loaded.nanos).max(1);
    let counts = start.tsc.wrapping_sub(loaded.tsc);
    let tsc_hz = (u128::from(counts) * u128::from(NANOS_PER_SECOND) / u128::from(nanos)) as u64;
    let _ = DRIVE.set(Drive {
        source,
        start,
        tsc_hz,
    });
}

impl Moment {
    fn now() -> Moment {
        Moment {
            nanos: host_nanos(),
            tsc: host_tsc(),
        }
    }
}

impl Drive {
    fn nanos(&self) -> u64 {
        self.start.nanos + (self.source)()
    }

    fn tsc(&self) -> u64 {
        let counts =
            u128::from((self.source)()) * u128::from(self.tsc_hz) / u128::from(NANOS_PER_SECOND);
        self.start.tsc.wrapping_add(counts as u64)
    }
}

/// `CLOCK_MONOTONIC` as the kernel has it.
fn host_nanos() -> u64 {
    let mut time = timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the kernel writes to `time`.
    unsafe { libc::syscall(libc::SYS_clock_gettime, libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * NANOS_PER_SECOND + time.tv_nsec as u64
}

/// The host's counter, also for a thread to which it is refused.
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
        && let Some(drive) = DRIVE.get()
        && !time.is_null()
    {
        let nanos = drive.nanos();
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

/// Answers a refused `rdtsc` or `rdtscp`; any other fault is QEMU's own and ends it.
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
        let counter = match DRIVE.get() {
            Some(drive) if !in_vdso => drive.tsc(),
            _ => host_tsc(),
        };
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

/// The length of the instruction at `code` if it reads the counter, else 0.
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
