//! QEMU's way into the host's kernel for system calls that may block, with a stop before it.
//!
//! QEMU makes such calls by a routine of its own (`safe_syscall_base`, common-user/host/*/safe-syscall.inc.S),
//! which its signal handler knows by address. So the routine stays, and its first instructions, which only move
//! registers, are replaced by a jump: to a function here, which may call the rest as often as it likes.
//! A QEMU in which the routine begins in another way is left alone.

use std::ffi::{c_int, c_long, c_void};
use std::ptr::NonNull;
use std::sync::OnceLock;

/// The routine's C interface: the word that says that a signal waits, the number, and six arguments. -1 and
/// `errno` for an error, `QEMU_ERESTARTSYS` when a signal came first.
pub(crate) type SafeSyscall = unsafe extern "C" fn(
    pending: *const c_int,
    number: c_long,
    u64,
    u64,
    u64,
    u64,
    u64,
    u64,
) -> c_long;

/// Bytes of the instructions that are replaced: `push %rbp` and five moves between registers.
const HEAD: usize = 16;
/// `jmp *0(%rip)`, before the address.
const JUMP: [u8; 6] = [0xff, 0x25, 0, 0, 0, 0];

/// The rest of the routine, behind a copy of its first instructions.
static REST: OnceLock<SafeSyscall> = OnceLock::new();

/// Makes the system call as QEMU would.
///
/// # Safety
/// As for QEMU's routine, after [`replace`] has succeeded.
pub(crate) unsafe fn call(pending: *const c_int, number: c_long, args: [u64; 6]) -> c_long {
    let [a1, a2, a3, a4, a5, a6] = args;
    let rest = REST.get().expect("it was replaced before it is called");
    // SAFETY: as the caller says.
    unsafe { rest(pending, number, a1, a2, a3, a4, a5, a6) }
}

/// Lets QEMU call `function` instead; false if this QEMU has another routine.
///
/// # Safety
/// QEMU runs no other thread yet. The function is as the routine is.
pub(crate) unsafe fn replace(function: SafeSyscall) -> bool {
    // SAFETY: the name ends with a zero byte.
    let routine = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"safe_syscall_base".as_ptr()) };
    let Some(routine) = NonNull::new(routine.cast::<u8>()) else {
        return false;
    };
    // SAFETY: the routine is longer; as the caller says.
    unsafe { divert(routine, function) }
}

/// # Safety
/// `routine` is code of more than [`HEAD`] bytes, of the interface of `function`, that nobody runs now.
unsafe fn divert(routine: NonNull<u8>, function: SafeSyscall) -> bool {
    let mut head = [0; HEAD];
    // SAFETY: as the caller says.
    unsafe {
        routine
            .as_ptr()
            .copy_to_nonoverlapping(head.as_mut_ptr(), HEAD)
    };
    if !moves_registers(&head) {
        return false;
    }
    let mut copy = head.to_vec();
    copy.extend(JUMP);
    copy.extend((routine.as_ptr().addr() as u64 + HEAD as u64).to_le_bytes());
    let Some(copy) = executable(&copy) else {
        return false;
    };
    let mut jump = JUMP.to_vec();
    jump.extend((function as *const () as u64).to_le_bytes());
    // SAFETY: a copy of the routine's beginning, which goes on behind it.
    let rest = unsafe { std::mem::transmute::<*mut c_void, SafeSyscall>(copy) };
    // SAFETY: as the caller says.
    REST.set(rest).is_ok() && unsafe { write_code(routine, &jump) }
}

/// Returns true for `push %rbp` and moves between 64-bit registers, which run at any address.
fn moves_registers(head: &[u8; HEAD]) -> bool {
    let [push, moves @ ..] = head;
    let is_move = |bytes: &[u8]| matches!(bytes, [0x48..=0x4d, 0x89, 0xc0..=0xff]);
    *push == 0x55 && moves.chunks(3).all(is_move)
}

/// Memory with this code; none if the kernel does not allow it.
fn executable(code: &[u8]) -> Option<*mut c_void> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: new memory, which is larger than the code.
    unsafe {
        let memory = libc::mmap(std::ptr::null_mut(), 4096, protection, flags, -1, 0);
        if memory == libc::MAP_FAILED {
            return None;
        }
        memory.cast::<u8>().copy_from(code.as_ptr(), code.len());
        let protection = libc::PROT_READ | libc::PROT_EXEC;
        (libc::mprotect(memory, 4096, protection) == 0).then_some(memory)
    }
}

/// # Safety
/// Nobody runs the code at `place` now.
unsafe fn write_code(place: NonNull<u8>, code: &[u8]) -> bool {
    const PAGE: usize = 4096;
    let first = place.as_ptr().addr() & !(PAGE - 1);
    let bytes = place.as_ptr().addr() + code.len() - first;
    let protect = |protection: c_int| {
        let first = place.as_ptr().with_addr(first).cast();
        // SAFETY: pages of QEMU's own code.
        unsafe { libc::mprotect(first, bytes, protection) == 0 }
    };
    let all = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
    if !protect(all) {
        return false;
    }
    // SAFETY: as the caller says.
    unsafe { place.as_ptr().copy_from(code.as_ptr(), code.len()) };
    protect(libc::PROT_READ | libc::PROT_EXEC)
}

#[cfg(test)]
#[cfg(target_arch = "x86_64")]
mod tests {
    use super::*;

    /// Begins as QEMU's routine does, and answers the number.
    #[unsafe(naked)]
    unsafe extern "C" fn routine(
        _: *const c_int,
        _: c_long,
        _: u64,
        _: u64,
        _: u64,
        _: u64,
        _: u64,
        _: u64,
    ) -> c_long {
        core::arch::naked_asm!(
            "push rbp",
            "mov rax, rsi",
            "mov rbp, rdi",
            "mov rdi, rdx",
            "mov rsi, rcx",
            "mov rdx, r8",
            "nop",
            "pop rbp",
            "ret"
        )
    }

    unsafe extern "C" fn instead(
        pending: *const c_int,
        number: c_long,
        a1: u64,
        a2: u64,
        a3: u64,
        a4: u64,
        a5: u64,
        a6: u64,
    ) -> c_long {
        // SAFETY: it was replaced.
        1000 + unsafe { call(pending, number, [a1, a2, a3, a4, a5, a6]) }
    }

    #[test]
    fn a_routine_is_called_through_another_function() {
        let place = NonNull::new(routine as *mut u8).unwrap();
        // SAFETY: this test alone calls it.
        assert!(unsafe { divert(place, instead) });
        let pending = 0;
        // SAFETY: it reads no memory.
        assert_eq!(unsafe { routine(&pending, 7, 0, 0, 0, 0, 0, 0) }, 1007);
    }

    #[test]
    fn other_code_is_left_alone() {
        let mut head = [0x90; HEAD];
        assert!(!moves_registers(&head));
        head[0] = 0x55;
        assert!(!moves_registers(&head), "no moves");
    }
}
