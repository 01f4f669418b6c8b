//! Files that are mapped into the recorded process.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Read;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;

use hitm_base::{AddrRange, MapsLine};
use hitm_trace::Mapping;

use crate::guest_memory::{guest_addr, host_addr};

/// Bytes of a file in which its build-id note is looked for: notes stand near its head.
const BUILD_ID_SEARCH_LEN: u64 = 1 << 16;

/// The file mappings of this process, guest's and QEMU's own, from `/proc/self/maps`, at the
/// guest's addresses.
pub(crate) fn present() -> Vec<Mapping> {
    let maps = maps();
    let lines = lines(&maps);
    lines.filter_map(|line| mapping(&line)).collect()
}

fn maps() -> String {
    fs::read_to_string("/proc/self/maps").unwrap_or_default()
}

/// Mappings at the guest's addresses.
fn lines(maps: &str) -> impl Iterator<Item = MapsLine<'_>> {
    let lines = maps.lines().filter_map(MapsLine::parse);
    lines.filter_map(|line| {
        let [start, end] = [line.range.start(), line.range.end()].map(guest_addr);
        let range = AddrRange::new(start, end)?;
        Some(MapsLine { range, ..line })
    })
}

/// The result of `then` for the mapping that contains `addr`.
fn of_line_at<T>(addr: u64, then: impl FnOnce(&MapsLine<'_>) -> Option<T>) -> Option<T> {
    let maps = maps();
    let line = lines(&maps).find(|line| line.range.contains(addr))?;
    then(&line)
}

/// The file of the program that QEMU runs: the first argument that is no option of QEMU's.
pub(crate) fn program() -> Option<PathBuf> {
    // Not by /proc, which need not be mounted.
    let args: Vec<OsString> = std::env::args_os().skip(1).collect();
    program_of(args.iter().map(|arg| arg.as_bytes()))
}

/// The program in QEMU's arguments: all options that `hitm record` gives have one value.
fn program_of<'a>(mut args: impl Iterator<Item = &'a [u8]>) -> Option<PathBuf> {
    loop {
        let arg = args.next()?;
        if !arg.starts_with(b"-") {
            return Some(PathBuf::from(OsStr::from_bytes(arg)));
        }
        args.next()?;
    }
}

/// The mapping that contains `addr`. The files of all the others are not opened.
pub(crate) fn at(addr: u64) -> Option<Mapping> {
    of_line_at(addr, mapping)
}

/// The stack whose top is `top`, if it has a mapping of its own.
///
/// A stack of the C library ends a mapping of its own, below the thread's control block. One that a
/// language cuts out of its heap has no known bounds.
pub(crate) fn stack_below(top: u64) -> Option<AddrRange> {
    const STACK_TAIL_MAX: u64 = 64 << 10;
    let range = of_line_at(top.wrapping_sub(1), |line| Some(line.range));
    range.filter(|range| range.end().saturating_sub(top) < STACK_TAIL_MAX)
}

/// The readable memory around `addr`.
pub(crate) fn readable_at(addr: u64) -> Option<AddrRange> {
    of_line_at(addr, |line| line.has('r').then_some(line.range))
}

/// The private memory of this process that it may write to.
pub(crate) fn writable() -> Vec<AddrRange> {
    let maps = maps();
    let writable = lines(&maps).filter(|line| line.permissions == "rw-p");
    writable.map(|line| line.range).collect()
}

/// Pages of a range that have memory behind them, in its first `len_max` bytes.
pub(crate) fn present_pages(range: AddrRange, len_max: u64) -> impl Iterator<Item = AddrRange> {
    const PAGE: u64 = 4096;
    /// Bytes of memory in one question.
    const PART: u64 = 64 << 20;
    let end = range.end().min(range.start().saturating_add(len_max));
    let parts = (range.start()..end).step_by(PART as usize);
    parts.flat_map(move |start| {
        let len = PART.min(end - start);
        let mut present = vec![0u8; len.div_ceil(PAGE) as usize];
        // SAFETY: there is a byte for each page; the kernel looks whether there is memory.
        let found = unsafe {
            libc::mincore(
                host_addr(start) as *mut _,
                len as usize,
                present.as_mut_ptr(),
            )
        };
        if found != 0 {
            present.clear();
        }
        let pages = present.into_iter().enumerate();
        let pages = pages.filter(|(_, present)| present & 1 == 1);
        pages.filter_map(move |(page, _)| AddrRange::with_len(start + page as u64 * PAGE, PAGE))
    })
}

/// The mapping of a file that has a name.
fn mapping(line: &MapsLine<'_>) -> Option<Mapping> {
    let path = line.opened_path();
    if !path.starts_with('/') || path.starts_with("/dev/") || path.starts_with("/memfd:") {
        return None;
    }
    Some(Mapping {
        range: line.range,
        file_offset: line.offset,
        build_id: build_id(path).unwrap_or_default(),
        path: path.to_owned(),
        executable: line.has('x'),
    })
}

/// A mapping that other processes may have as well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SharedMapping {
    pub(crate) range: AddrRange,
    pub(crate) offset: u64,
    /// Device and inode of what lies behind it.
    pub(crate) device: u64,
    pub(crate) inode: u64,
    pub(crate) path: String,
    pub(crate) is_writable: bool,
}

/// The shared mapping around `addr`, if it is one.
pub(crate) fn shared_at(addr: u64) -> Option<SharedMapping> {
    of_line_at(addr, shared)
}

fn shared(line: &MapsLine<'_>) -> Option<SharedMapping> {
    line.has('s').then(|| SharedMapping {
        range: line.range,
        offset: line.offset,
        device: line.device,
        inode: line.inode,
        path: line.opened_path().to_owned(),
        is_writable: line.has('w'),
    })
}

/// The GNU build id of an ELF file: the descriptor of the note `GNU`, type 3.
fn build_id(path: &str) -> Option<Vec<u8>> {
    let mut head = Vec::new();
    // Another file may have taken the name, and a FIFO would wait for ever.
    let mut options = fs::OpenOptions::new();
    let file = options.read(true).custom_flags(libc::O_NONBLOCK).open(path);
    file.ok()
        .filter(|file| file.metadata().is_ok_and(|data| data.is_file()))?
        .take(BUILD_ID_SEARCH_LEN)
        .read_to_end(&mut head)
        .ok()?;
    if !head.starts_with(b"\x7fELF") {
        return None;
    }
    // name size 4, descriptor size, type 3, "GNU\0": no other note begins like this.
    let is_note = |window: &[u8]| {
        window[..4] == [4, 0, 0, 0] && window[8..12] == [3, 0, 0, 0] && window[12..16] == *b"GNU\0"
    };
    let at = head.windows(16).position(is_note)?;
    let len = u32::from_le_bytes(head[at + 4..at + 8].try_into().ok()?) as usize;
    head.get(at + 16..at + 16 + len.min(64)).map(<[u8]>::to_vec)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_maps() {
        let mapping = |line| mapping(&MapsLine::parse(line)?);
        let found = mapping("7f00-7f80 r-xp 00002000 fe:00 99    /nowhere/a b.so (deleted)");
        let expected = Mapping {
            range: AddrRange::new(0x7f00, 0x7f80).unwrap(),
            file_offset: 0x2000,
            path: "/nowhere/a b.so".into(),
            build_id: vec![],
            executable: true,
        };
        assert_eq!(found, Some(expected));
        assert_eq!(mapping("7f00-7f80 rw-p 00000000 00:00 0 [heap]"), None);
        assert_eq!(mapping("garbage"), None);
    }

    #[test]
    fn a_shared_line_of_maps() {
        let shared = |line| shared(&MapsLine::parse(line)?);
        let found = shared("7f00-7f80 rw-s 00001000 00:01 77    /dev/zero (deleted)");
        let expected = SharedMapping {
            range: AddrRange::new(0x7f00, 0x7f80).unwrap(),
            offset: 0x1000,
            device: 1,
            inode: 77,
            path: "/dev/zero".into(),
            is_writable: true,
        };
        assert_eq!(found, Some(expected));
        assert_eq!(shared("7f00-7f80 rw-p 00001000 00:01 77    /x"), None);
    }

    #[test]
    fn the_program_comes_after_the_options() {
        let args: [&[u8]; 6] = [b"-plugin", b"x", b"-0", b"name", b"/bin/prog", b"-v"];
        let program = program_of(args.into_iter());
        assert_eq!(program, Some(PathBuf::from("/bin/prog")));
        assert_eq!(program_of([b"-plugin".as_slice()].into_iter()), None);
    }

    #[test]
    fn this_test_is_mapped() {
        let own = at(this_test_is_mapped as *const () as u64).unwrap();
        assert!(own.executable);
        assert_eq!(own.path, std::env::current_exe().unwrap().to_str().unwrap());
    }
}
