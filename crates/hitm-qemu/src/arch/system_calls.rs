//! Numbers of the system calls that the recorder looks at.

/// System calls of an architecture by their numbers (Linux: `asm/unistd.h`); none of those that it does not have.
#[derive(Debug)]
pub(crate) struct SystemCalls {
    pub(crate) clone: i64,
    pub(crate) clone3: i64,
    pub(crate) fork: Option<i64>,
    pub(crate) vfork: Option<i64>,
    /// Place of clone's argument with the word at which a thread's end is told, from 0 (clone(2)).
    pub(crate) clone_word: usize,
    pub(crate) execve: i64,
    pub(crate) execveat: i64,
    pub(crate) exit: i64,
    pub(crate) exit_group: i64,
    pub(crate) unshare: i64,
    pub(crate) prctl: i64,
    pub(crate) futex: i64,
    pub(crate) sched_setaffinity: i64,
    pub(crate) sched_getaffinity: i64,
    pub(crate) getcpu: i64,
    pub(crate) rt_sigaction: i64,
    pub(crate) rt_sigreturn: i64,

    pub(crate) mmap: i64,
    pub(crate) munmap: i64,
    pub(crate) mremap: i64,
    pub(crate) shmat: i64,
    pub(crate) shmdt: i64,

    pub(crate) open: Option<i64>,
    pub(crate) openat: i64,
    pub(crate) openat2: i64,

    pub(crate) clock_gettime: i64,
    pub(crate) gettimeofday: i64,
    pub(crate) time: Option<i64>,
    pub(crate) times: i64,
    pub(crate) getrusage: i64,
    /// getitimer, alarm, setitimer, timer_create to timer_delete, timerfd_create, timerfd_settime and
    /// timerfd_gettime.
    pub(crate) timers: &'static [i64],

    pub(crate) nanosleep: i64,
    pub(crate) clock_nanosleep: i64,
    pub(crate) poll: Option<i64>,
    pub(crate) ppoll: i64,
    pub(crate) select: Option<i64>,
    pub(crate) pselect6: i64,
    pub(crate) epoll_wait: Option<i64>,
    pub(crate) epoll_pwait: i64,
    pub(crate) rt_sigtimedwait: i64,
    pub(crate) semtimedop: i64,
    pub(crate) mq_timedsend: i64,
    pub(crate) mq_timedreceive: i64,

    /// More calls that return soon and that programs make often: close, stat to lstat, lseek, mprotect, brk,
    /// rt_sigprocmask, access, sched_yield, madvise, dup, dup2, getpid, uname, getcwd, readlink, getrlimit, getuid
    /// to getegid, sigaltstack, arch_prctl, gettid, set_tid_address, clock_getres, newfstatat, set_robust_list,
    /// prlimit64, getrandom, statx, rseq. A call that is not named here is taken to block, which is always safe.
    pub(crate) short: &'static [i64],
}
