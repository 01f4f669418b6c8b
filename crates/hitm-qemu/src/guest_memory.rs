//! Reading the guest's memory. In user mode the guest's addresses are the process's own, shifted by
//! QEMU's guest base (nearly always 0). Any of them may be invalid: the kernel copies, and says so.

use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use std::ffi::CString;

use hitm_base::{CpuId, Topology};

/// Guest base: QEMU adds it to a guest address to find it in this process.
static GUEST_BASE: AtomicU64 = AtomicU64::new(0);

/// This process; 0 until it is asked for.
static OWN_PID: AtomicI32 = AtomicI32::new(0);

/// A system call less for each look.
fn own_pid() -> libc::pid_t {
    match OWN_PID.load(Ordering::Relaxed) {
        0 => {
            let pid = std::process::id() as libc::pid_t;
            OWN_PID.store(pid, Ordering::Relaxed);
            pid
        }
        pid => pid,
    }
}

/// This process is a forked child.
pub(crate) fn forked() {
    OWN_PID.store(0, Ordering::Relaxed);
}

/// Learns the guest base from an instruction whose address is known on both sides.
pub(crate) fn learn_base(guest_addr: u64, host_addr: u64) {
    GUEST_BASE.store(host_addr.wrapping_sub(guest_addr), Ordering::Relaxed);
}

/// The address in this process of something of the guest's.
pub(crate) fn host_addr(guest_addr: u64) -> u64 {
    guest_addr.wrapping_add(GUEST_BASE.load(Ordering::Relaxed))
}

/// The guest's address of something in this process.
pub(crate) fn guest_addr(host_addr: u64) -> u64 {
    host_addr.wrapping_sub(GUEST_BASE.load(Ordering::Relaxed))
}

/// The bytes at `addr`, or `None` where the guest has no memory.
pub(crate) fn read(addr: u64, len: usize) -> Option<Vec<u8>> {
    let host_addr = host_addr(addr);
    let mut bytes = vec![0u8; len];
    let local = libc::iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: len,
    };
    let remote = libc::iovec {
        iov_base: host_addr as *mut libc::c_void,
        iov_len: len,
    };
    // SAFETY: the local buffer is `len` bytes long; the kernel checks the other address.
    let copied = unsafe { libc::process_vm_readv(own_pid(), &local, 1, &remote, 1, 0) };
    (copied == len as isize).then_some(bytes)
}

/// The word at `addr`, without a look whether there is one.
///
/// # Safety
/// The guest has readable memory there.
pub(crate) unsafe fn read_mapped(addr: u64) -> u64 {
    let host_addr = host_addr(addr) as *const u64;
    // SAFETY: as the caller says; another thread of the guest may be writing it.
    unsafe { host_addr.read_volatile() }
}

/// The first bytes, at most eight, at an address that an instruction of this process's guest has just used.
///
/// # Safety
/// It has used `size` bytes there.
pub(crate) unsafe fn value_at(addr: u64, size: u64) -> u64 {
    let at = host_addr(addr) as *const u8;
    let mut value = [0; 8];
    // SAFETY: the guest has readable memory there, or its own access would have failed. Others may write there:
    // whichever bytes are read, they are compared and no more.
    unsafe { at.copy_to_nonoverlapping(value.as_mut_ptr(), size.min(8) as usize) };
    u64::from_le_bytes(value)
}

/// The word at `addr`.
pub(crate) fn read_word(addr: u64) -> Option<u64> {
    let bytes = read(addr, 8)?;
    Some(u64::from_le_bytes(bytes.try_into().ok()?))
}

/// The words at `addr`.
pub(crate) fn read_words(addr: u64, count: usize) -> Option<Vec<u64>> {
    let bytes = read(addr, count * 8)?;
    let (words, _) = bytes.as_chunks();
    Some(words.iter().map(|word| u64::from_le_bytes(*word)).collect())
}

/// Writes words to `addr`, where the guest has memory that it may write to.
pub(crate) fn write_words(addr: u64, words: &[u64]) {
    let host_addr = host_addr(addr);
    let len = size_of_val(words);
    let local = libc::iovec {
        iov_base: words.as_ptr().cast_mut().cast(),
        iov_len: len,
    };
    let remote = libc::iovec {
        iov_base: host_addr as *mut libc::c_void,
        iov_len: len,
    };
    // SAFETY: the local buffer is read only; the kernel checks the other address.
    unsafe { libc::process_vm_writev(own_pid(), &local, 1, &remote, 1, 0) };
}

/// The string at `addr`, of less than `len_max` bytes.
pub(crate) fn read_string(addr: u64, len_max: usize) -> Option<CString> {
    const PAGE: u64 = 4096;
    let mut bytes = Vec::new();
    let mut at = addr;
    while bytes.len() < len_max {
        let part = read(at, (PAGE - at % PAGE) as usize)?;
        at += part.len() as u64;
        match part.iter().position(|byte| *byte == 0) {
            Some(end) => {
                bytes.extend_from_slice(&part[..end]);
                return CString::new(bytes).ok();
            }
            None => bytes.extend(part),
        }
    }
    None
}

/// A thread's name, as `prctl` takes it: 16 bytes with the terminator, which may lie at the very end
/// of a page.
pub(crate) fn read_name(addr: u64) -> String {
    let bytes = (1..=16)
        .rev()
        .find_map(|len| read(addr, len))
        .unwrap_or_default();
    let name = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(name).into_owned()
}

/// The CPUs of a `cpu_set_t` of `len` bytes.
pub(crate) fn read_cpu_set(addr: u64, len: u64) -> Vec<CpuId> {
    let len = (len as usize).min(Topology::CPUS_MAX / 8);
    cpus_of(read(addr, len).unwrap_or_default())
}

/// The CPUs of a mask.
pub(crate) fn cpus_of(mask: impl IntoIterator<Item = u8>) -> Vec<CpuId> {
    let bits = mask.into_iter().enumerate().flat_map(|(index, byte)| {
        let bits = (0..8).filter(move |bit| byte >> bit & 1 == 1);
        bits.map(move |bit| CpuId((index * 8 + bit) as u16))
    });
    bits.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_address_is_no_crash() {
        assert_eq!(read(8, 16), None);
        let words = [0x8000_0000_0000_0001u64, 1];
        assert_eq!(read_words(words.as_ptr() as u64, 2), Some(words.to_vec()));
        let cpus = read_cpu_set(words.as_ptr() as u64, 16);
        assert_eq!(cpus, [CpuId(0), CpuId(63), CpuId(64)]);
    }
}
