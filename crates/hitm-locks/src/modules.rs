//! Programs and libraries with call sites.
//!
//! A call site is looked up when its lock is first seen, without a lock of the dynamic loader. The
//! thread may hold any lock of the program, and another thread may wait for that one inside the
//! loader.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use crate::layout::{WORD, header, module};
use crate::region::{Record, Region};

/// Limit on a process's cached modules.
const KNOWN_MAX: usize = 256;

/// First addresses of cached modules, and the numbers of their records plus 1.
static STARTS: [AtomicUsize; KNOWN_MAX] = [const { AtomicUsize::new(0) }; KNOWN_MAX];
static NUMBERS: [AtomicUsize; KNOWN_MAX] = [const { AtomicUsize::new(UNWRITTEN) }; KNOWN_MAX];

/// The number of a record that is being written.
const UNWRITTEN: usize = 0;
/// The number of a module for which there was no room.
const NO_ROOM: usize = usize::MAX;

/// `struct dl_find_object` of glibc 2.35 and later.
#[repr(C)]
struct FoundObject {
    flags: u64,
    map_start: *mut c_void,
    map_end: *mut c_void,
    link_map: *const LinkMap,
    unwind: *mut c_void,
    reserved: [u64; 7],
}

/// The public beginning of `struct link_map`.
#[repr(C)]
struct LinkMap {
    bias: usize,
    name: *const c_char,
}

type FindObject = unsafe extern "C" fn(*mut c_void, *mut FoundObject) -> c_int;

/// `_dl_find_object`, which takes no lock; null where the C library has none.
static FIND_OBJECT: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

/// Finds the loader's function.
pub(crate) fn look_up() {
    // SAFETY: a plain look-up by name.
    let function = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"_dl_find_object".as_ptr()) };
    FIND_OBJECT.store(function, Ordering::Release);
}

/// Drops the modules of the parent process.
pub(crate) fn forget() {
    for (start, number) in STARTS.iter().zip(&NUMBERS) {
        start.store(0, Ordering::Relaxed);
        number.store(UNWRITTEN, Ordering::Relaxed);
    }
}

/// Returns the number, plus 1, of the record of the module that `address` lies in; 0 for none.
pub(crate) fn number_of(region: Region, process: usize, address: usize) -> u64 {
    let Some(found) = find(address) else { return 0 };
    let start = found.map_start as usize;
    let known = STARTS.iter().zip(&NUMBERS);
    for (slot, number) in known {
        let taken = match slot.load(Ordering::Acquire) {
            0 => slot.compare_exchange(0, start, Ordering::AcqRel, Ordering::Acquire),
            taken => Err(taken),
        };
        if taken.map_or_else(|taken| taken == start, |_| true) {
            return numbered(number, || write(region, process, &found)) as u64;
        }
    }
    0
}

/// The number in a slot that has been claimed. Threads that come before its first one has written the record write
/// one each, and the first to have done so keeps the slot: none may wait here, as it may interrupt the other.
fn numbered(number: &AtomicUsize, write: impl FnOnce() -> usize) -> usize {
    match number.load(Ordering::Acquire) {
        UNWRITTEN => {
            let written = write();
            let kept = if written == 0 { NO_ROOM } else { written };
            // Whoever was first has a record of the same module.
            let _ = number.compare_exchange(UNWRITTEN, kept, Ordering::AcqRel, Ordering::Acquire);
            written
        }
        NO_ROOM => 0,
        known => known,
    }
}

fn find(address: usize) -> Option<FoundObject> {
    let function = FIND_OBJECT.load(Ordering::Acquire);
    if function.is_null() {
        return None;
    }
    // SAFETY: `look_up` found the function of this name, which fills the result in when it returns 0.
    unsafe {
        let function = std::mem::transmute::<*mut c_void, FindObject>(function);
        let mut found: FoundObject = std::mem::zeroed();
        (function(address as *mut c_void, &mut found) == 0).then_some(found)
    }
}

/// Writes a record; returns its number plus 1.
fn write(region: Region, process: usize, found: &FoundObject) -> usize {
    let Some(number) = region.take(header::MODULES, module::MAX) else {
        return 0;
    };
    let record = region.module(number);
    // SAFETY: the loader keeps a module's description while its code runs.
    let (bias, name) = unsafe {
        let map = &*found.link_map;
        (map.bias, CStr::from_ptr(map.name).to_bytes())
    };
    record[module::BIAS].set(bias as u64);
    record[module::START].set(found.map_start as u64);
    match name.is_empty() {
        true => write_own_path(record),
        false => write_path(record, name),
    }
    record[module::PROCESS].publish(process as u64 + 1);
    number + 1
}

/// The program itself has no name in the loader's list.
fn write_own_path(record: Record<{ module::WORDS }>) {
    let mut path = [0_u8; module::PATH_MAX];
    // SAFETY: the call writes at most so many bytes.
    let len = unsafe {
        libc::readlink(
            c"/proc/self/exe".as_ptr(),
            path.as_mut_ptr().cast(),
            path.len(),
        )
    };
    write_path(record, &path[..usize::try_from(len).unwrap_or(0)]);
}

fn write_path(record: Record<{ module::WORDS }>, path: &[u8]) {
    let path = &path[..path.len().min(module::PATH_MAX)];
    for (index, bytes) in path.chunks(WORD).enumerate() {
        let mut word = [0; WORD];
        word[..bytes.len()].copy_from_slice(bytes);
        record[module::PATH + index].set(u64::from_ne_bytes(word));
    }
    record[module::PATH_LEN].set(path.len() as u64);
}
