//! Classes of the guest's system calls, as the recorder needs them.

use libc::c_int;

use crate::arch::SystemCalls;

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

impl SystemCalls {
    /// The flags of a call that makes a thread or a process; none of fork and vfork, which make a
    /// process, and of clone3, which QEMU refuses.
    pub(crate) fn clone_flags(&self, number: i64, args: &[u64; 6]) -> Option<u64> {
        (number == self.clone).then_some(args[0])
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
        (args[0] & CLEAR_TID != 0).then_some(args[self.clone_word])
    }

    /// Address of the path that a call opens, if it opens a file.
    pub(crate) fn opened_path(&self, number: i64, args: &[u64; 6]) -> Option<u64> {
        match number {
            _ if self.open == Some(number) => Some(args[0]),
            _ if number == self.openat || number == self.openat2 => Some(args[1]),
            _ => None,
        }
    }

    /// Returns true for mremap.
    pub(crate) fn is_mremap(&self, number: i64) -> bool {
        number == self.mremap
    }

    /// Returns true for execve, and not for execveat.
    pub(crate) fn is_execve(&self, number: i64) -> bool {
        number == self.execve
    }

    /// Classifies the system call `number` with second argument `operation`.
    pub(crate) fn classify(&self, number: i64, operation: u64) -> Syscall {
        match number {
            HEAP_NOTE => Syscall::HeapNote,
            _ if number == self.futex => futex(operation),
            _ if number == self.exit => Syscall::ThreadExit,
            _ if number == self.exit_group => Syscall::ProcessExit,
            _ if number == self.execve || number == self.execveat => Syscall::Exec,
            _ if self.makes_a_task(number) => Syscall::Clone,
            _ if number == self.mmap => Syscall::Mmap,
            _ if number == self.munmap || number == self.mremap => Syscall::Unmap,
            _ if number == self.shmat => Syscall::ShmAt,
            _ if number == self.shmdt => Syscall::ShmDt,
            _ if number == self.sched_setaffinity => Syscall::SetAffinity,
            _ if number == self.sched_getaffinity => Syscall::GetAffinity,
            _ if number == self.getcpu => Syscall::GetCpu,
            _ if number == self.prctl => Syscall::Prctl,
            _ if self.is_short(number) => Syscall::Short,
            _ => Syscall::MayBlock,
        }
    }

    fn makes_a_task(&self, number: i64) -> bool {
        let forks = [self.fork, self.vfork].contains(&Some(number));
        forks || number == self.clone || number == self.clone3
    }

    fn is_short(&self, number: i64) -> bool {
        let asks_time = [self.clock_gettime, self.gettimeofday].contains(&number);
        let is_named = asks_time
            || self.time == Some(number)
            || number == self.rt_sigaction
            || number == self.openat;
        is_named || self.timers.contains(&number) || self.short.contains(&number)
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
    use crate::arch::Architecture;

    fn calls(target: &str) -> &'static SystemCalls {
        &Architecture::of_target(target).unwrap().calls
    }

    #[test]
    fn a_thread_that_is_joined_has_a_word_for_its_end() {
        let args = [libc::CLONE_CHILD_CLEARTID as u64, 1, 2, 3, 4, 5];
        let word = |name| calls(name).futex_of_end(&args);
        assert_eq!([word("x86_64"), word("aarch64")], [Some(3), Some(4)]);
        let none = calls("x86_64");
        assert_eq!(none.futex_of_end(&[libc::CLONE_VM as u64; 6]), None);
    }

    #[test]
    fn a_refused_namespace_is_one_that_qemu_cannot_make() {
        let x86 = calls("x86_64");
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
        let path = |name, number| calls(name).opened_path(number, &args);
        assert_eq!([path("x86_64", 2), path("x86_64", 257)], [Some(1), Some(2)]);
        assert_eq!([path("aarch64", 56), path("aarch64", 2)], [Some(2), None]);
    }

    #[test]
    fn what_may_block_leaves_the_barrier() {
        let x86 = calls("x86_64");
        assert_eq!(x86.classify(0, 0), Syscall::MayBlock); // read
        assert_eq!(x86.classify(24, 0), Syscall::Short); // sched_yield
        assert_eq!(x86.classify(202, 128), Syscall::FutexWait); // FUTEX_WAIT_PRIVATE
        assert_eq!(x86.classify(202, 129), Syscall::FutexWake); // FUTEX_WAKE_PRIVATE
        assert_eq!(x86.classify(202, 137 | 256), Syscall::FutexWait); // WAIT_BITSET, realtime
        assert_eq!(x86.classify(9999, 0), Syscall::MayBlock);
        assert_eq!(x86.classify(309, 0), Syscall::GetCpu);
    }
}
