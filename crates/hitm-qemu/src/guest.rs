//! Classes of the guest's system calls, as the recorder needs them.

use libc::c_int;

/// A system call, as far as the barrier and the recording care.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Syscall {
    /// Returns soon: the thread stays in the barrier.
    Short,
    /// May wait for anything: the thread leaves the barrier until it returns.
    MayBlock,
    /// Waits on a futex: as above, and its return answers a wake.
    FutexWait,
    /// Wakes waiters, whose number it returns.
    FutexWake,
    /// The end of the thread.
    ThreadExit,
    /// The end of the process.
    ProcessExit,
    /// Another program takes the process over.
    Exec,
    /// A new process or thread.
    Clone,
    /// A new mapping.
    Mmap,
    /// A mapping goes, or moves.
    Unmap,
    /// A SysV segment is mapped.
    ShmAt,
    /// A SysV segment goes: its address is all that is said.
    ShmDt,
    /// `sched_setaffinity`.
    SetAffinity,
    /// `sched_getaffinity`.
    GetAffinity,
    /// `getcpu`.
    GetCpu,
    /// `prctl`, which may give the thread a name.
    Prctl,
    /// A message of the heap observer, which no kernel knows.
    HeapNote,
}

/// The number that the heap observer calls: far outside every kernel's table.
pub(crate) const HEAP_NOTE: i64 = 0x4849_544d;

/// System-call numbers of one architecture (Linux: `asm/unistd.h`).
#[derive(Debug)]
pub(crate) struct Numbers {
    futex: i64,
    thread_exit: i64,
    process_exit: i64,
    exec: [i64; 2],
    clone: [i64; 4],
    mmap: i64,
    /// munmap and mremap.
    unmap: [i64; 2],
    shmat: i64,
    shmdt: i64,
    set_affinity: i64,
    get_affinity: i64,
    get_cpu: i64,
    /// open, openat and openat2.
    open: [i64; 3],
    prctl: i64,
    unshare: i64,
    /// Calls that return soon and that programs make often. A call that is not named here is taken
    /// to block, which is always safe.
    short: &'static [i64],
}

/// x86-64. `short`: close, stat to lstat, lseek, mprotect, munmap, brk, rt_sigaction,
/// rt_sigprocmask, access, sched_yield, madvise, dup, dup2, timers' calls, getpid, uname, getcwd, readlink,
/// gettimeofday, getrlimit, getuid to getegid, sigaltstack, arch_prctl, gettid, time,
/// set_tid_address, clock_gettime, clock_getres, openat, newfstatat, set_robust_list, prlimit64,
/// getrandom, statx, rseq.
const X86_64: Numbers = Numbers {
    futex: 202,
    thread_exit: 60,
    process_exit: 231,
    exec: [59, 322],
    clone: [56, 57, 58, 435],
    mmap: 9,
    unmap: [11, 25],
    shmat: 30,
    shmdt: 67,
    set_affinity: 203,
    get_affinity: 204,
    get_cpu: 309,
    open: [2, 257, 437],
    prctl: 157,
    unshare: 272,
    short: &[
        3, 4, 5, 6, 8, 10, 11, 12, 13, 14, 21, 24, 28, 32, 33, 36, 37, 38, 39, 63, 79, 89, 96, 97,
        102, 104, 107, 108, 131, 158, 186, 201, 218, 222, 223, 224, 225, 226, 228, 229, 257, 262,
        273, 283, 286, 287, 302, 318, 332, 334,
    ],
};

/// AArch64, the same calls as far as the architecture has them.
const AARCH64: Numbers = Numbers {
    futex: 98,
    thread_exit: 93,
    process_exit: 94,
    exec: [221, 281],
    clone: [220, 435, -1, -1],
    mmap: 222,
    unmap: [215, 216],
    shmat: 196,
    shmdt: 197,
    set_affinity: 122,
    get_affinity: 123,
    get_cpu: 168,
    open: [-1, 56, 437],
    prctl: 167,
    unshare: 97,
    short: &[
        17, 23, 24, 48, 56, 57, 62, 78, 79, 80, 85, 86, 87, 96, 99, 102, 103, 107, 108, 109, 110,
        111, 113, 114, 124, 132, 134, 135, 160, 163, 169, 172, 174, 175, 176, 177, 178, 214, 215,
        226, 233, 261, 278, 291, 293,
    ],
};

impl Numbers {
    /// The table of QEMU's target `name`.
    pub(crate) fn of_target(name: &str) -> Option<&'static Numbers> {
        match name {
            "x86_64" => Some(&X86_64),
            "aarch64" => Some(&AARCH64),
            _ => None,
        }
    }

    /// The flags of a call that makes a thread or a process; none of fork and vfork, which make a
    /// process, and of clone3, which QEMU refuses.
    pub(crate) fn clone_flags(&self, number: i64, args: &[u64; 6]) -> Option<u64> {
        const CLONE: [i64; 2] = [56, 220];
        CLONE.contains(&number).then_some(args[0])
    }

    /// Returns true for a call that QEMU refuses for the namespaces that it asks for: QEMU makes processes by
    /// fork alone, and a process of several threads, as QEMU's are, gets no other users.
    pub(crate) fn is_refused_namespace(&self, number: i64, args: &[u64; 6], result: i64) -> bool {
        const USERS: u64 = libc::CLONE_NEWUSER as u64;
        const ANY: u64 = (libc::CLONE_NEWCGROUP
            | libc::CLONE_NEWIPC
            | libc::CLONE_NEWNET
            | libc::CLONE_NEWNS
            | libc::CLONE_NEWPID
            | libc::CLONE_NEWUSER
            | libc::CLONE_NEWUTS) as u64;
        let refused = match self.clone_flags(number, args) {
            Some(flags) => flags & ANY,
            None if number == self.unshare => args[0] & USERS,
            None => 0,
        };
        refused != 0 && result == -i64::from(libc::EINVAL)
    }

    /// Word at which the thread that a clone makes wakes others when it ends, if it does.
    pub(crate) fn futex_of_end(&self, args: &[u64; 6]) -> Option<u64> {
        const CLEAR_TID: u64 = libc::CLONE_CHILD_CLEARTID as u64;
        // clone(2): the word is the fourth argument on x86-64, and the fifth on aarch64.
        let at = if self.clone[0] == 56 { 3 } else { 4 };
        (args[0] & CLEAR_TID != 0).then_some(args[at])
    }

    /// Address of the path that a call opens, if it opens a file.
    pub(crate) fn opened_path(&self, number: i64, args: &[u64; 6]) -> Option<u64> {
        let [open, others @ ..] = self.open;
        match number {
            _ if number == open => Some(args[0]),
            _ if others.contains(&number) => Some(args[1]),
            _ => None,
        }
    }

    /// Returns true for mremap.
    pub(crate) fn is_mremap(&self, number: i64) -> bool {
        number == self.unmap[1]
    }

    /// Returns true for execve, and not for execveat.
    pub(crate) fn is_execve(&self, number: i64) -> bool {
        number == self.exec[0]
    }

    /// Classifies the system call `number` with second argument `operation`.
    pub(crate) fn classify(&self, number: i64, operation: u64) -> Syscall {
        match number {
            HEAP_NOTE => Syscall::HeapNote,
            _ if number == self.futex => futex(operation),
            _ if number == self.thread_exit => Syscall::ThreadExit,
            _ if number == self.process_exit => Syscall::ProcessExit,
            _ if self.exec.contains(&number) => Syscall::Exec,
            _ if self.clone.contains(&number) => Syscall::Clone,
            _ if number == self.mmap => Syscall::Mmap,
            _ if self.unmap.contains(&number) => Syscall::Unmap,
            _ if number == self.shmat => Syscall::ShmAt,
            _ if number == self.shmdt => Syscall::ShmDt,
            _ if number == self.set_affinity => Syscall::SetAffinity,
            _ if number == self.get_affinity => Syscall::GetAffinity,
            _ if number == self.get_cpu => Syscall::GetCpu,
            _ if number == self.prctl => Syscall::Prctl,
            _ if self.short.contains(&number) => Syscall::Short,
            _ => Syscall::MayBlock,
        }
    }
}

fn futex(operation: u64) -> Syscall {
    const COMMAND_MASK: c_int = !(libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME);
    match operation as c_int & COMMAND_MASK {
        libc::FUTEX_WAIT | libc::FUTEX_WAIT_BITSET => Syscall::FutexWait,
        libc::FUTEX_WAKE | libc::FUTEX_WAKE_BITSET | libc::FUTEX_WAKE_OP => Syscall::FutexWake,
        libc::FUTEX_REQUEUE | libc::FUTEX_CMP_REQUEUE | libc::FUTEX_UNLOCK_PI => Syscall::Short,
        _ => Syscall::MayBlock,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_is_joined_has_a_word_for_its_end() {
        let args = [libc::CLONE_CHILD_CLEARTID as u64, 1, 2, 3, 4, 5];
        let word = |name| Numbers::of_target(name).unwrap().futex_of_end(&args);
        assert_eq!([word("x86_64"), word("aarch64")], [Some(3), Some(4)]);
        let none = Numbers::of_target("x86_64").unwrap();
        assert_eq!(none.futex_of_end(&[libc::CLONE_VM as u64; 6]), None);
    }

    #[test]
    fn a_refused_namespace_is_one_that_qemu_cannot_make() {
        let x86 = Numbers::of_target("x86_64").unwrap();
        let (users, pids) = (libc::CLONE_NEWUSER as u64, libc::CLONE_NEWPID as u64);
        let call = |number, flags, result| {
            x86.is_refused_namespace(number, &[flags, 0, 0, 0, 0, 0], result)
        };
        const EINVAL: i64 = -(libc::EINVAL as i64);
        assert!(call(272, users | pids, EINVAL) && call(56, pids, EINVAL));
        assert!(!call(272, pids, EINVAL) && !call(56, 17, EINVAL));
        assert!(!call(272, users, -1) && !call(58, users, EINVAL));
    }

    #[test]
    fn files_are_opened_by_their_paths() {
        let args = [1, 2, 3, 4, 5, 6];
        let path = |name, number| Numbers::of_target(name).unwrap().opened_path(number, &args);
        assert_eq!([path("x86_64", 2), path("x86_64", 257)], [Some(1), Some(2)]);
        assert_eq!([path("aarch64", 56), path("aarch64", 2)], [Some(2), None]);
    }

    #[test]
    fn what_may_block_leaves_the_barrier() {
        let x86 = Numbers::of_target("x86_64").unwrap();
        assert_eq!(x86.classify(0, 0), Syscall::MayBlock); // read
        assert_eq!(x86.classify(24, 0), Syscall::Short); // sched_yield
        assert_eq!(x86.classify(202, 128), Syscall::FutexWait); // FUTEX_WAIT_PRIVATE
        assert_eq!(x86.classify(202, 129), Syscall::FutexWake); // FUTEX_WAKE_PRIVATE
        assert_eq!(x86.classify(202, 137 | 256), Syscall::FutexWait); // WAIT_BITSET, realtime
        assert_eq!(x86.classify(9999, 0), Syscall::MayBlock);
        assert_eq!(x86.classify(309, 0), Syscall::GetCpu);
        assert!(Numbers::of_target("m68k").is_none());
    }
}
