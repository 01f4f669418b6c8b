//! Calls that QEMU itself makes into the C library, answered here instead.
//!
//! QEMU makes the guest's rarer system calls with `syscall` of the C library, which it finds through its
//! table of imported functions (ELF: global offset table). Another function goes into that table. What the
//! C library and other libraries call in QEMU's process stays what it was.

use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::locks::{Rank, RankedMutex};

/// Entries of a symbol, relocations of QEMU's own file.
const R_X86_64: [u32; 2] = [6, 7];
const R_AARCH64: [u32; 2] = [1025, 1026];

/// The types of relocations that put a function's address into the table: GLOB_DAT and JUMP_SLOT.
const FUNCTION_TYPES: [u32; 2] = if cfg!(target_arch = "aarch64") {
    R_AARCH64
} else {
    R_X86_64
};

/// An entry of a dynamic section (elf(5)).
#[repr(C)]
struct Dynamic {
    tag: i64,
    value: u64,
}

/// Imports of a file, by its dynamic section.
#[derive(Debug, Default, Clone, Copy)]
struct Imports {
    base: u64,
    symbols: u64,
    strings: u64,
    /// Address and bytes of the relocations, of functions and of all else.
    relocations: [(u64, u64); 2],
    /// Addresses that are read-only once the file is loaded.
    read_only: (u64, u64),
}

/// Lets QEMU call `function` where it calls the C library's `name`; returns the number of places. There is
/// none in a QEMU that has the library built in.
///
/// # Safety
/// `function` can be called like the one that it stands for, from any thread at any time.
pub(crate) unsafe fn replace(name: &CStr, function: *mut c_void) -> usize {
    let mut imports = Imports::default();
    // SAFETY: the callback takes what is passed, during the call.
    unsafe { libc::dl_iterate_phdr(Some(first_file), (&raw mut imports).cast()) };
    if imports.symbols == 0 || imports.strings == 0 {
        return 0;
    }
    let relocations = imports.relocations.into_iter();
    let places = relocations.flat_map(|(at, bytes)| {
        let entry = size_of::<libc::Elf64_Rela>();
        (0..bytes as usize / entry).map(move |index| at + (index * entry) as u64)
    });
    let is_it = |at: &u64| {
        // SAFETY: the dynamic section of a loaded file describes its own tables.
        unsafe { imports.is_import_of(name, *at) }
    };
    let places: Vec<u64> = places.filter(is_it).collect();
    // SAFETY: such a relocation names a place in the table, and the function is as the caller says.
    let put = places
        .iter()
        .filter(|at| unsafe { imports.put(**at, function) });
    put.count()
}

impl Imports {
    /// # Safety
    /// `at` is the address of a relocation.
    unsafe fn is_import_of(&self, name: &CStr, at: u64) -> bool {
        // SAFETY: as the caller says; the symbol and its name lie in the file's tables.
        unsafe {
            let relocation = &*(at as *const libc::Elf64_Rela);
            let (symbol, kind) = (relocation.r_info >> 32, relocation.r_info as u32);
            if symbol == 0 || !FUNCTION_TYPES.contains(&kind) {
                return false;
            }
            let symbol = &*(self.symbols as *const libc::Elf64_Sym).add(symbol as usize);
            CStr::from_ptr((self.strings + u64::from(symbol.st_name)) as *const _) == name
        }
    }

    /// Puts a function into the place of a relocation; false if the kernel does not let us.
    ///
    /// # Safety
    /// `at` is the address of a relocation of a function.
    unsafe fn put(&self, at: u64, function: *mut c_void) -> bool {
        const PAGE: u64 = 4096;
        /// One at a time: another thread would make the page read-only before this one writes.
        static PROTECTION: RankedMutex<()> = RankedMutex::new(Rank::Imports, ());
        let _held = PROTECTION.lock();
        // SAFETY: as the caller says.
        let place = unsafe { self.base + (*(at as *const libc::Elf64_Rela)).r_offset };
        let page = (place & !(PAGE - 1)) as *mut c_void;
        let protect = |protection: c_int| {
            // SAFETY: the page is QEMU's table; other threads only read it.
            unsafe { libc::mprotect(page, PAGE as usize, protection) == 0 }
        };
        let is_read_only = (self.read_only.0..self.read_only.1).contains(&place);
        if is_read_only && !protect(libc::PROT_READ | libc::PROT_WRITE) {
            return false;
        }
        // SAFETY: an aligned word of the table, which other threads may read now.
        unsafe { AtomicPtr::from_ptr(place as *mut *mut c_void) }
            .store(function, Ordering::Release);
        if is_read_only {
            protect(libc::PROT_READ);
        }
        true
    }
}

/// Reads the dynamic section of the program itself, which comes first.
unsafe extern "C" fn first_file(
    info: *mut libc::dl_phdr_info,
    _: usize,
    imports: *mut c_void,
) -> c_int {
    // SAFETY: the C library passes a description that lasts for the call, and our own pointer.
    let (info, imports) = unsafe { (&*info, &mut *imports.cast::<Imports>()) };
    imports.base = info.dlpi_addr;
    for index in 0..info.dlpi_phnum {
        // SAFETY: there are that many headers.
        let header = unsafe { &*info.dlpi_phdr.add(usize::from(index)) };
        let at = imports.base + header.p_vaddr;
        match header.p_type {
            libc::PT_GNU_RELRO => imports.read_only = (at, at + header.p_memsz),
            // SAFETY: a dynamic section ends with an entry of tag 0.
            libc::PT_DYNAMIC => unsafe { read_dynamic(at as *const Dynamic, imports) },
            _ => {}
        }
    }
    1
}

/// # Safety
/// `entry` is the first of a loaded file's dynamic section.
unsafe fn read_dynamic(mut entry: *const Dynamic, imports: &mut Imports) {
    const STRTAB: i64 = 5;
    const SYMTAB: i64 = 6;
    const RELA: i64 = 7;
    const RELASZ: i64 = 8;
    const PLTRELSZ: i64 = 2;
    const JMPREL: i64 = 23;
    let base = imports.base;
    // Some C libraries add the base themselves.
    let address = |value: u64| if value < base { base + value } else { value };
    loop {
        // SAFETY: as the caller says.
        let Dynamic { tag, value } = unsafe { &*entry };
        match *tag {
            0 => return,
            STRTAB => imports.strings = address(*value),
            SYMTAB => imports.symbols = address(*value),
            RELA => imports.relocations[0].0 = address(*value),
            RELASZ => imports.relocations[0].1 = *value,
            JMPREL => imports.relocations[1].0 = address(*value),
            PLTRELSZ => imports.relocations[1].1 = *value,
            _ => {}
        }
        // SAFETY: as the caller says.
        entry = unsafe { entry.add(1) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    extern "C" fn always_seven() -> libc::pid_t {
        7
    }

    #[test]
    fn the_program_calls_another_function_and_the_library_does_not() {
        // SAFETY: getppid takes no arguments and returns a number.
        let count = unsafe { replace(c"getppid", always_seven as *mut c_void) };
        assert!(count > 0, "this test imports it");
        // SAFETY: plain calls.
        let (imported, raw) = unsafe { (libc::getppid(), libc::syscall(libc::SYS_getppid)) };
        assert_eq!(imported, 7);
        assert_ne!(raw, 7);
        // SAFETY: as above.
        let none = unsafe { replace(c"no such function", always_seven as *mut c_void) };
        assert_eq!(none, 0);
    }
}
