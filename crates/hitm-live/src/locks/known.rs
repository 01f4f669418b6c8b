//! The kernel's functions for locks, and the locks that their callers take.
//!
//! Source: kernel/locking of Linux 6.1 to 6.18 (rwsem.c, mutex.c, osq_lock.c, qspinlock.c,
//! qrwlock.c, rtmutex_api.c, percpu-rwsem.c) and kernel/futex. Compilers append `.isra.0` and the
//! like to a name; [`bare`] removes them.

use serde::Serialize;

/// Returns true for a thunk, by which compilers keep CPUs from speculating. A stack ends there,
/// because the kernel finds no caller of one (`arch/x86/lib/retpoline.S`).
pub(super) fn is_thunk(name: &str) -> bool {
    name.starts_with("__x86_indirect_") || name.ends_with("_return_thunk")
}

hitm_base::words! {
    /// A kind of lock.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Class {
        /// A reader-writer semaphore: waiters spin while the owner runs, then sleep.
        Rwsem = "rwsem",
        /// A mutex: waiters spin while the owner runs, then sleep.
        Mutex = "mutex",
        /// A spin lock, queued.
        Spinlock = "spinlock",
        /// A reader-writer spin lock, queued.
        Rwlock = "rwlock",
        /// A mutex with priority inheritance.
        Rtmutex = "rtmutex",
        /// A reader-writer semaphore with a counter for each CPU.
        PercpuRwsem = "percpu_rwsem",
        /// A lock of a program whose waiters sleep in the kernel.
        Futex = "futex",
        /// A pthread_spinlock_t: waiters never sleep.
        PthreadSpinlock = "pthread_spinlock",
        /// A loop of a program that waits for another thread's write, and does nothing else.
        SpinLoop = "spin_loop",
    }
}

/// The function in which a pthread_spinlock_t is waited for.
const SPIN_LOCK: &str = "pthread_spin_lock";

impl Class {
    /// Returns true if waiters spin in code of their program.
    pub const fn is_spun_for(self) -> bool {
        matches!(self, Class::PthreadSpinlock | Class::SpinLoop)
    }

    /// Returns true for the kernel's locks, whose holders run its functions.
    pub(super) const fn is_of_kernel(self) -> bool {
        !matches!(self, Class::Futex) && !self.is_spun_for()
    }

    /// The kind of lock that is spun for in a function of a program.
    pub(super) fn spun_for_in(function: &str) -> Class {
        // glibc's debug information has the name with two underscores.
        match function.trim_start_matches('_') {
            SPIN_LOCK => Class::PthreadSpinlock,
            _ => Class::SpinLoop,
        }
    }
}

/// Part of a function in acquiring or releasing a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// Called to acquire a lock. Without a waiter's function inside, its time is the lock's own
    /// cost.
    Acquire(Class),
    /// Runs only while a lock is waited for.
    Wait(Class),
}

impl Role {
    /// The kind of lock.
    pub(super) const fn class(self) -> Class {
        match self {
            Role::Acquire(class) | Role::Wait(class) => class,
        }
    }
}

/// Returns the part of the function `name`, without a compiler's suffix.
pub(super) fn role(name: &str) -> Option<Role> {
    use Class::{Futex, Mutex, PercpuRwsem, Rtmutex, Rwlock, Rwsem, SpinLoop, Spinlock};
    let role = match name {
        "down_write"
        | "down_write_killable"
        | "down_write_nested"
        | "down_read"
        | "down_read_killable"
        | "down_read_interruptible"
        | "down_read_nested"
        | "__down_write"
        | "__down_read"
        | "__down_write_common"
        | "__down_read_common" => Role::Acquire(Rwsem),
        "rwsem_down_write_slowpath"
        | "rwsem_down_read_slowpath"
        | "rwsem_optimistic_spin"
        | "rwsem_spin_on_owner"
        | "rwsem_down_write_failed"
        | "rwsem_down_read_failed" => Role::Wait(Rwsem),
        "mutex_lock"
        | "mutex_lock_killable"
        | "mutex_lock_interruptible"
        | "mutex_lock_io"
        | "mutex_lock_nested"
        | "ww_mutex_lock" => Role::Acquire(Mutex),
        "__mutex_lock"
        | "__mutex_lock_slowpath"
        | "__mutex_lock_killable_slowpath"
        | "__mutex_lock_interruptible_slowpath"
        | "mutex_spin_on_owner"
        | "mutex_optimistic_spin"
        | "__ww_mutex_lock" => Role::Wait(Mutex),
        "_raw_spin_lock"
        | "_raw_spin_lock_irq"
        | "_raw_spin_lock_irqsave"
        | "_raw_spin_lock_bh"
        | "_raw_spin_lock_nested" => Role::Acquire(Spinlock),
        "native_queued_spin_lock_slowpath"
        | "queued_spin_lock_slowpath"
        | "__pv_queued_spin_lock_slowpath"
        | "pv_wait_node" => Role::Wait(Spinlock),
        "_raw_read_lock"
        | "_raw_read_lock_irq"
        | "_raw_read_lock_irqsave"
        | "_raw_read_lock_bh"
        | "_raw_write_lock"
        | "_raw_write_lock_irq"
        | "_raw_write_lock_irqsave"
        | "_raw_write_lock_bh" => Role::Acquire(Rwlock),
        "queued_read_lock_slowpath" | "queued_write_lock_slowpath" => Role::Wait(Rwlock),
        "rt_mutex_lock" | "rt_mutex_lock_interruptible" | "rt_mutex_lock_killable" => {
            Role::Acquire(Rtmutex)
        }
        "__rt_mutex_slowlock"
        | "rt_mutex_slowlock"
        | "rt_mutex_slowlock_block"
        | "__rt_mutex_slowlock_locked"
        | "rtmutex_spin_on_owner" => Role::Wait(Rtmutex),
        "percpu_down_write" | "percpu_down_read" => Role::Acquire(PercpuRwsem),
        "__percpu_down_read" | "percpu_rwsem_wait" => Role::Wait(PercpuRwsem),
        "futex_wait" | "futex_lock_pi" => Role::Wait(Futex),
        // A program calls it while it waits, again and again.
        "__x64_sys_sched_yield" | "__arm64_sys_sched_yield" | "do_sched_yield" => {
            Role::Wait(SpinLoop)
        }
        _ => return None,
    };
    Some(role)
}

/// Returns true for functions that wait below another one, which has the kind of lock.
pub(super) fn is_shared_part(name: &str) -> bool {
    matches!(name, "osq_lock" | "osq_wait_next")
}

/// Returns true if `name` releases a lock and has passed the point from which others may take it.
pub(super) fn is_behind_release(name: &str) -> bool {
    matches!(
        name,
        "rwsem_wake"
            | "__mutex_unlock_slowpath"
            | "rwsem_downgrade_wake"
            | "mark_wakeup_next_waiter"
    )
}

/// Returns true if the function takes a lock for its caller: its name contains the word lock, as in
/// `xfs_ilock`, `lock_mm_and_find_vma`, `btrfs_inode_lock`, `task_rq_lock`.
pub(super) fn takes_for_caller(name: &str) -> bool {
    name.split('_')
        .any(|word| matches!(word, "lock" | "ilock" | "xlock" | "locks"))
}

/// A named lock: its class, its name, and the functions that take it and hold it while they run.
struct Named {
    class: Class,
    name: &'static str,
    owner: Owner,
    takers: &'static [&'static str],
}

/// The thing that a lock belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    /// The file that the system call names.
    File,
    /// The address space of the process.
    Process,
    /// The word that a program's threads wait for.
    Word,
    /// Not known.
    Unknown,
}

const NAMED: &[Named] = &[
    Named {
        class: Class::Rwsem,
        name: "inode's i_rwsem",
        owner: Owner::File,
        takers: &[
            "ext4_buffered_write_iter",
            "ext4_dio_write_iter",
            "ext4_dio_read_iter",
            "ext4_file_write_iter",
            "generic_file_write_iter",
            "shmem_file_write_iter",
            "btrfs_buffered_write",
            "btrfs_direct_write",
            "f2fs_file_write_iter",
            "xfs_file_buffered_write",
            "xfs_file_buffered_read",
            "nfs_start_io_write",
            "ovl_write_iter",
            "fuse_file_write_iter",
            "fuse_cache_write_iter",
        ],
    },
    Named {
        class: Class::Rwsem,
        name: "mm's mmap_lock",
        owner: Owner::Process,
        takers: &[
            "vm_mmap_pgoff",
            "__vm_munmap",
            "__x64_sys_munmap",
            "__do_sys_brk",
            "__x64_sys_brk",
            "do_mprotect_pkey",
            "do_madvise",
            "madvise_lock",
            "do_user_addr_fault",
            "exc_page_fault",
            "do_page_fault",
            "__do_sys_mremap",
            "__x64_sys_mremap",
            "dup_mmap",
            "exit_mmap",
            "__access_remote_vm",
        ],
    },
    Named {
        class: Class::Mutex,
        name: "pipe's mutex",
        owner: Owner::File,
        takers: &[
            "pipe_read",
            "pipe_write",
            "anon_pipe_read",
            "anon_pipe_write",
        ],
    },
    Named {
        class: Class::Mutex,
        name: "file's f_pos_lock",
        owner: Owner::File,
        takers: &["fdget_pos", "__fdget_pos"],
    },
];

/// Returns true for a function in which threads of a program wait for something other than a lock: for work, or for the end
/// of another thread.
pub(super) fn waits_for_work(function: &str) -> bool {
    const OF_GLIBC: [&str; 7] = [
        "pthread_cond_",
        "sem_",
        "new_sem_",
        "pthread_barrier_wait",
        "pthread_join",
        "pthread_timedjoin",
        "pthread_clockjoin",
    ];
    let bare = function.trim_start_matches('_');
    OF_GLIBC.iter().any(|begin| bare.starts_with(begin))
        // A note of Go's runtime, and what threads of Rust are parked by.
        || function.starts_with("runtime.note")
        || function.starts_with("std::thread::park")
        || function.contains("Condvar")
}

/// Returns true for a function of the C library that a program calls to wait in.
pub fn is_library_wait(function: &str) -> bool {
    let bare = function.trim_start_matches('_');
    waits_for_work(function)
        || bare.starts_with("pthread_rwlock_")
        || bare.starts_with("pthread_mutex_")
}

/// Name and owner of the lock of `class` that `taker` takes.
pub(super) fn lock_of(class: Class, taker: &str) -> (String, Owner) {
    let named = NAMED
        .iter()
        .find(|named| named.class == class && named.takers.contains(&taker));
    match named {
        Some(named) => (named.name.to_owned(), named.owner),
        None if class == Class::Futex => ("word".to_owned(), Owner::Word),
        None if class == Class::PthreadSpinlock => (format!("in {SPIN_LOCK}"), Owner::Word),
        None if class.is_spun_for() => (format!("in {taker}"), Owner::Word),
        None => (format!("taken by {taker}"), Owner::Unknown),
    }
}

/// Removes the `.isra.0`, `.constprop.0`, `.part.0`, `.cold` or `.llvm.0` of a compiler's copy. Points in names of Go's
/// functions stay.
pub(super) fn bare(name: &str) -> &str {
    const OF_COPIES: [&str; 5] = [".isra.", ".constprop.", ".part.", ".cold", ".llvm."];
    let ends = OF_COPIES.iter().filter_map(|suffix| name.find(suffix));
    ends.min().map_or(name, |end| &name[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_copies_are_those_of_the_function() {
        assert_eq!(bare("rwsem_wake.isra.0"), "rwsem_wake");
        assert_eq!(bare("f.part.0.constprop.0.cold"), "f");
        assert_eq!(bare("runtime.futexsleep"), "runtime.futexsleep");
        assert_eq!(role(bare("down_write")), Some(Role::Acquire(Class::Rwsem)));
    }

    #[test]
    fn waits_for_work_are_no_waits_for_locks() {
        for name in [
            "___pthread_cond_wait",
            "__new_sem_wait_slow64",
            "runtime.notesleep",
        ] {
            assert!(waits_for_work(name) && is_library_wait(name), "{name}");
        }
        for name in ["pthread_rwlock_wrlock", "runtime.lock2", "__lll_lock_wait"] {
            assert!(!waits_for_work(name), "{name}");
        }
        assert!(is_library_wait("___pthread_rwlock_wrlock"));
    }

    #[test]
    fn functions_that_lock_for_others_say_so() {
        for name in ["xfs_ilock", "lock_mm_and_find_vma", "task_rq_lock"] {
            assert!(takes_for_caller(name), "{name}");
        }
        for name in ["folio_unlock", "block_write_begin", "do_clock_gettime"] {
            assert!(!takes_for_caller(name), "{name}");
        }
    }
}
