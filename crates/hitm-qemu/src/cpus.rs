//! The modelled machine's CPUs as the program sees them.
//!
//! QEMU passes the guest's questions about CPUs on to the host. Its system call is answered here
//! ([`crate::emulator`]): by what the callback before it has left in the thread's [`ANSWER`].
//! QEMU's own calls find no answer and go to the host.

use std::cell::RefCell;
use std::ffi::{c_int, c_long, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

use hitm_base::{CpuId, Machine, Topology};

use crate::emulator;
use crate::library::fail;

/// The answer to a thread's next system call.
#[derive(Debug)]
enum Answer {
    /// To sched_setaffinity: an error, or 0.
    Pinned(c_int),
    /// To sched_getaffinity; `of_host`: if the host knows the thread.
    Affinity { mask: Vec<u64>, of_host: bool },
    /// To getcpu.
    Cpu { cpu: u32, node: u32 },
}

thread_local! {
    static ANSWER: RefCell<Option<Answer>> = const { RefCell::new(None) };
}

/// The C library's `syscall`, found before QEMU gets another one.
static SYSCALL: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

/// Makes a system call of QEMU's.
///
/// # Safety
/// As for the C library's.
unsafe fn system_call(number: c_long, args: [u64; 6]) -> c_long {
    type Function = unsafe extern "C" fn(c_long, u64, u64, u64, u64, u64, u64) -> c_long;
    let [a1, a2, a3, a4, a5, a6] = args;
    let function = SYSCALL.load(Ordering::Relaxed);
    if function.is_null() {
        // SAFETY: as the caller says.
        return unsafe { libc::syscall(number, a1, a2, a3, a4, a5, a6) };
    }
    // SAFETY: it is that function, which takes its arguments in the same places; as the caller says.
    unsafe {
        let function = std::mem::transmute::<*mut c_void, Function>(function);
        function(number, a1, a2, a3, a4, a5, a6)
    }
}

/// CPUs that a program sees.
#[derive(Debug)]
pub(crate) struct Cpus {
    online: Vec<CpuId>,
    machine_toml: String,
    machine: OnceLock<Option<Machine>>,
    /// QEMU asks us, not the host.
    is_asked: bool,
}

impl Cpus {
    /// Lets QEMU ask for these CPUs of a machine.
    pub(crate) fn new(online: Vec<CpuId>, machine_toml: String) -> Cpus {
        // SAFETY: the name ends with a zero byte.
        let function = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"syscall".as_ptr()) };
        SYSCALL.store(function, Ordering::Relaxed);
        // SAFETY: both take a number and six words, in the same places.
        let places = unsafe { emulator::replace(c"syscall", answer as *mut c_void) };
        Cpus {
            is_asked: places > 0 && !online.is_empty(),
            online,
            machine_toml,
            machine: OnceLock::new(),
        }
    }

    /// Returns true if the program sees these CPUs; if not, it sees the host's.
    pub(crate) fn is_asked(&self) -> bool {
        self.is_asked
    }

    /// CPUs that are online, ascending.
    pub(crate) fn online(&self) -> &[CpuId] {
        &self.online
    }

    /// The machine, if its model is one.
    pub(crate) fn machine(&self) -> Option<&Machine> {
        let read = || Machine::from_toml(&self.machine_toml, "the machine").ok();
        self.machine.get_or_init(read).as_ref()
    }

    /// The machine's topology.
    pub(crate) fn topology(&self) -> Option<&Topology> {
        self.machine().map(|machine| &machine.topology)
    }

    /// CPUs of the machine, whether the program sees them or not.
    pub(crate) fn possible_count(&self) -> usize {
        let highest = self.online.last().map_or(1, |cpu| cpu.index() + 1);
        self.topology().map_or(highest, Topology::cpu_count)
    }

    /// Answers the thread's next sched_setaffinity: it is pinned, or there is no such CPU.
    pub(crate) fn answer_pinned(&self, is_pinned: bool) {
        let error = if is_pinned { 0 } else { libc::EINVAL };
        self.leave(Answer::Pinned(error));
    }

    /// Answers the thread's next sched_getaffinity: with the words of a mask, or with all CPUs, for a thread
    /// that only the host may know.
    pub(crate) fn answer_affinity(&self, mask: Option<Vec<u64>>) {
        let of_host = mask.is_none();
        let mut mask = mask.unwrap_or_else(|| self.online_mask());
        mask.resize(self.possible_count().div_ceil(64), 0);
        self.leave(Answer::Affinity { mask, of_host });
    }

    /// Answers the thread's next getcpu.
    pub(crate) fn answer_cpu(&self, cpu: CpuId) {
        let known = self.topology().filter(|all| cpu.index() < all.cpu_count());
        let node = known.map_or(0, |topology| topology.node_of(cpu).into());
        self.leave(Answer::Cpu {
            cpu: cpu.0.into(),
            node,
        });
    }

    fn leave(&self, answer: Answer) {
        if self.is_asked {
            ANSWER.set(Some(answer));
        }
    }

    /// The CPUs that are online as words of a mask.
    pub(crate) fn online_mask(&self) -> Vec<u64> {
        let mut mask = vec![0; self.possible_count().div_ceil(64)];
        for cpu in &self.online {
            mask[cpu.index() / 64] |= 1 << (cpu.index() % 64);
        }
        mask
    }
}

/// Takes back an answer that nobody has asked for.
pub(crate) fn take_back() {
    ANSWER.set(None);
}

/// The C library's `syscall`, as QEMU calls it.
unsafe extern "C" fn answer(
    number: c_long,
    a1: u64,
    a2: u64,
    a3: u64,
    a4: u64,
    a5: u64,
    a6: u64,
) -> c_long {
    // Others may come from a signal handler, where there may be no thread-local memory yet.
    if matches!(
        number,
        libc::SYS_sched_getaffinity | libc::SYS_sched_setaffinity | libc::SYS_getcpu
    ) && let Some(answer) = ANSWER.take()
    {
        // SAFETY: QEMU's own call, with its own memory.
        return unsafe { give(answer, number, [a1, a2, a3]) };
    }
    // SAFETY: QEMU's own call.
    unsafe { system_call(number, [a1, a2, a3, a4, a5, a6]) }
}

/// # Safety
/// The arguments are those of a system call.
unsafe fn give(answer: Answer, number: c_long, args: [u64; 3]) -> c_long {
    // SAFETY: as the caller says.
    let of_host = || unsafe { system_call(number, [args[0], args[1], args[2], 0, 0, 0]) };
    match (number, answer) {
        (libc::SYS_sched_setaffinity, Answer::Pinned(0)) => 0,
        (libc::SYS_sched_setaffinity, Answer::Pinned(error)) => fail(error),
        (
            libc::SYS_sched_getaffinity,
            Answer::Affinity {
                mask,
                of_host: asks,
            },
        ) => {
            if asks && of_host() < 0 {
                return -1;
            }
            let len = mask.len() * 8;
            // As Linux: no part of a mask.
            if (args[1] as usize) < len {
                return fail(libc::EINVAL);
            }
            // SAFETY: QEMU's buffer has as many bytes as it says.
            unsafe { (args[2] as *mut u8).copy_from(mask.as_ptr().cast(), len) };
            len as c_long
        }
        (libc::SYS_getcpu, Answer::Cpu { cpu, node }) => {
            for (place, value) in [(args[0], cpu), (args[1], node)] {
                if place != 0 {
                    // SAFETY: QEMU's own words.
                    unsafe { *(place as *mut u32) = value };
                }
            }
            0
        }
        _ => of_host(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpus() -> Cpus {
        let text = hitm_base::machine::preset("broadwell-4s").unwrap();
        Cpus {
            online: vec![CpuId(1), CpuId(70)],
            machine_toml: text.to_owned(),
            machine: OnceLock::new(),
            is_asked: true,
        }
    }

    fn affinity(bytes: u64) -> (c_long, [u64; 4]) {
        let mut words = [u64::MAX; 4];
        let at = words.as_mut_ptr() as u64;
        // SAFETY: the buffer has the bytes.
        let answer = unsafe { answer(libc::SYS_sched_getaffinity, 0, bytes, at, 0, 0, 0) };
        (answer, words)
    }

    #[test]
    fn a_question_is_answered_once() {
        let cpus = cpus();
        cpus.answer_affinity(Some(cpus.online_mask()));
        let all = cpus.possible_count().div_ceil(64);
        let (answer, words) = affinity(32);
        assert_eq!(answer, all as c_long * 8);
        assert_eq!(words[..2], [1 << 1, 1 << 6]);
        // QEMU's own question goes to the host.
        let (_, words) = affinity(32);
        assert_ne!(words[..2], [1 << 1, 1 << 6]);
        cpus.answer_affinity(Some(cpus.online_mask()));
        assert_eq!(affinity(8).0, -1, "the mask does not fit");
    }

    #[test]
    fn a_thread_that_is_unknown_to_the_host_too_has_no_mask() {
        let cpus = cpus();
        let mut words = [0u64; 4];
        let mut ask = |tid| {
            cpus.answer_affinity(None);
            let at = words.as_mut_ptr() as u64;
            // SAFETY: the buffer has the bytes.
            unsafe { answer(libc::SYS_sched_getaffinity, tid, 32, at, 0, 0, 0) }
        };
        assert_eq!(ask(u64::from(u32::MAX >> 1)), -1);
        assert!(ask(0) > 0);
        assert_eq!(words[..2], [1 << 1, 1 << 6]);
    }

    #[test]
    fn a_pinned_thread_and_its_cpu() {
        let cpus = cpus();
        let pin = |is_pinned| {
            cpus.answer_pinned(is_pinned);
            // SAFETY: no memory is read.
            unsafe { answer(libc::SYS_sched_setaffinity, 0, 0, 0, 0, 0, 0) }
        };
        assert_eq!((pin(true), pin(false)), (0, -1));
        cpus.answer_cpu(CpuId(70));
        let (mut cpu, mut node) = (0u32, 0u32);
        let at = [&raw mut cpu as u64, &raw mut node as u64];
        // SAFETY: two words.
        unsafe { answer(libc::SYS_getcpu, at[0], at[1], 0, 0, 0, 0) };
        let topology = cpus.topology().unwrap();
        assert_eq!((cpu, node), (70, u32::from(topology.node_of(CpuId(70)))));
        take_back();
    }
}
