//! The allocator that comes next: the one that the program would have used.

use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

type Malloc = unsafe extern "C" fn(usize) -> *mut c_void;
type Calloc = unsafe extern "C" fn(usize, usize) -> *mut c_void;
type Realloc = unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void;
type Memalign = unsafe extern "C" fn(usize, usize) -> *mut c_void;
type PosixMemalign = unsafe extern "C" fn(*mut *mut c_void, usize, usize) -> c_int;
type Free = unsafe extern "C" fn(*mut c_void);

static MALLOC: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
static CALLOC: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
static REALLOC: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
static MEMALIGN: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
static POSIX_MEMALIGN: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
static FREE: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

/// Set while the functions above are looked up: the look-up itself may allocate.
static IS_LOOKING_UP: AtomicBool = AtomicBool::new(false);

/// Memory for what the look-up allocates. Never given back.
static BOOTSTRAP: Bootstrap = Bootstrap {
    memory: [0; BOOTSTRAP_LEN],
    used: AtomicUsize::new(0),
};
const BOOTSTRAP_LEN: usize = 16 << 10;

#[repr(C, align(16))]
struct Bootstrap {
    memory: [u8; BOOTSTRAP_LEN],
    used: AtomicUsize,
}

impl Bootstrap {
    fn allocate(&self, size: usize) -> *mut c_void {
        let size = size.next_multiple_of(16);
        let at = self.used.fetch_add(size, Ordering::Relaxed);
        if at + size > BOOTSTRAP_LEN {
            return std::ptr::null_mut();
        }
        (&raw const self.memory)
            .cast::<u8>()
            .wrapping_add(at)
            .cast_mut()
            .cast()
    }

    fn contains(&self, block: *mut c_void) -> bool {
        let start = (&raw const self.memory) as usize;
        (start..start + BOOTSTRAP_LEN).contains(&(block as usize))
    }
}

/// The next allocator's functions.
#[derive(Clone, Copy)]
pub(crate) struct Allocator;

/// Declares a method that calls a looked-up function.
macro_rules! next_function {
    ($method:ident, $slot:ident: $type:ty, ($($arg:ident: $arg_type:ty),*) -> $result:ty) => {
        /// # Safety
        /// As for the C function of this name.
        pub(crate) unsafe fn $method(self, $($arg: $arg_type),*) -> $result {
            let function = $slot.load(Ordering::Acquire);
            // SAFETY: `look_up` found the function of this name and signature.
            unsafe { std::mem::transmute::<*mut c_void, $type>(function)($($arg),*) }
        }
    };
}

impl Allocator {
    /// The next allocator, looked up at the first call.
    pub(crate) fn get() -> Allocator {
        if FREE.load(Ordering::Acquire).is_null() {
            look_up();
        }
        Allocator
    }

    /// # Safety
    /// As for C's malloc.
    pub(crate) unsafe fn malloc(self, size: usize) -> *mut c_void {
        let function = MALLOC.load(Ordering::Acquire);
        if function.is_null() {
            return BOOTSTRAP.allocate(size);
        }
        // SAFETY: `look_up` found the function of this name and signature.
        unsafe { std::mem::transmute::<*mut c_void, Malloc>(function)(size) }
    }

    /// # Safety
    /// As for C's calloc.
    pub(crate) unsafe fn calloc(self, count: usize, size: usize) -> *mut c_void {
        let function = CALLOC.load(Ordering::Acquire);
        if function.is_null() {
            return BOOTSTRAP.allocate(count.saturating_mul(size)); // Zero, and used once.
        }
        // SAFETY: `look_up` found the function of this name and signature.
        unsafe { std::mem::transmute::<*mut c_void, Calloc>(function)(count, size) }
    }

    /// # Safety
    /// As for C's free.
    pub(crate) unsafe fn free(self, block: *mut c_void) {
        let function = FREE.load(Ordering::Acquire);
        if function.is_null() || BOOTSTRAP.contains(block) {
            return;
        }
        // SAFETY: `look_up` found the function of this name and signature.
        unsafe { std::mem::transmute::<*mut c_void, Free>(function)(block) }
    }

    next_function!(realloc, REALLOC: Realloc, (old: *mut c_void, size: usize) -> *mut c_void);
    next_function!(memalign, MEMALIGN: Memalign, (align: usize, size: usize) -> *mut c_void);
    next_function!(
        posix_memalign,
        POSIX_MEMALIGN: PosixMemalign,
        (out: *mut *mut c_void, align: usize, size: usize) -> c_int
    );
}

fn look_up() {
    if IS_LOOKING_UP.swap(true, Ordering::AcqRel) {
        return;
    }
    let table = [
        (&MALLOC, c"malloc"),
        (&CALLOC, c"calloc"),
        (&REALLOC, c"realloc"),
        (&MEMALIGN, c"memalign"),
        (&POSIX_MEMALIGN, c"posix_memalign"),
        (&FREE, c"free"),
    ];
    // All are found before any is set: one allocator for every block.
    // SAFETY: plain look-ups by name.
    let found = table.map(|(_, name)| unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) });
    for ((slot, _), function) in table.into_iter().zip(found) {
        slot.store(function, Ordering::Release);
    }
}

/// Takes the library whose name ends like this one out of `LD_PRELOAD`, in the memory of the variable. An
/// allocation would move every block of the program by the length of a path.
pub(crate) fn remove_self_from_preload() {
    const NAME: &CStr = c"LD_PRELOAD";
    // SAFETY: this runs before `main`, on the only thread, and the environment is the program's to change.
    unsafe {
        let value = libc::getenv(NAME.as_ptr());
        if value.is_null() {
            return;
        }
        let list = std::slice::from_raw_parts_mut(value.cast::<u8>(), libc::strlen(value));
        match keep_others(list) {
            0 => {
                libc::unsetenv(NAME.as_ptr());
            }
            len => *value.add(len) = 0,
        }
    }
}

/// Moves the paths of other libraries to the front of a list. Returns their length.
fn keep_others(list: &mut [u8]) -> usize {
    let (mut start, mut kept) = (0, 0);
    while start < list.len() {
        let path = &list[start..];
        let is_separator = |byte: &u8| matches!(byte, b':' | b' ');
        let len = path.iter().position(is_separator).unwrap_or(path.len());
        if len > 0 && !path[..len].ends_with(b"libhitm_heap.so") {
            if kept > 0 {
                list[kept] = b':';
                kept += 1;
            }
            list.copy_within(start..start + len, kept);
            kept += len;
        }
        start += len + 1;
    }
    kept
}
