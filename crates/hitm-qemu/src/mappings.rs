//! Files that are mapped into the recorded process.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Read;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;

use hitm_base::AddrRange;
use hitm_trace::Mapping;

use crate::guest_memory::{guest_addr, host_addr};

/// Bytes of a file in which its build-id note is looked for: notes stand near its head.
const BUILD_ID_SEARCH_LEN: u64 = 1 << 16;

/// The file mappings of this process, guest's and QEMU's own, from `/proc/self/maps`, at the
/// guest's addresses.
pub(crate) fn present() -> Vec<Mapping> {
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    maps.lines().filter_map(parse_line).collect()
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

/// The mapping that contains `addr`.
pub(crate) fn at(addr: u64) -> Option<Mapping> {
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    // The files of all the others are not opened.
    let line = maps
        .lines()
        .find(|line| parse_range(line).is_some_and(|range| range.contains(addr)));
    parse_line(line?)
}

/// The stack whose top is `top`, if it has a mapping of its own.
///
/// A stack of the C library ends a mapping of its own, below the thread's control block. One that a
/// language cuts out of its heap has no known bounds.
pub(crate) fn stack_below(top: u64) -> Option<AddrRange> {
    const STACK_TAIL_MAX: u64 = 64 << 10;
    range_at(top.wrapping_sub(1)).filter(|range| range.end().saturating_sub(top) < STACK_TAIL_MAX)
}

/// The readable memory around `addr`.
pub(crate) fn readable_at(addr: u64) -> Option<AddrRange> {
    range_where(addr, |line| {
        let permissions = line.split_ascii_whitespace().nth(1);
        permissions.is_some_and(|permissions| permissions.starts_with('r'))
    })
}

/// The private memory of this process that it may write to.
pub(crate) fn writable() -> Vec<AddrRange> {
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let is_writable = |line: &&str| line.split_ascii_whitespace().nth(1) == Some("rw-p");
    maps.lines()
        .filter(is_writable)
        .filter_map(parse_range)
        .collect()
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

/// The memory around `addr`, of a file or not.
fn range_at(addr: u64) -> Option<AddrRange> {
    range_where(addr, |_| true)
}

/// The memory around `addr`, if its line of maps is a wanted one.
fn range_where(addr: u64, is_wanted: impl Fn(&str) -> bool) -> Option<AddrRange> {
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let mut ranges = maps
        .lines()
        .filter(|line| is_wanted(line))
        .filter_map(parse_range);
    ranges.find(|range| range.contains(addr))
}

/// The guest's addresses of a line's `start-end`.
fn parse_range(line: &str) -> Option<AddrRange> {
    let (start, end) = line.split_ascii_whitespace().next()?.split_once('-')?;
    let address = |text| u64::from_str_radix(text, 16).ok().map(guest_addr);
    AddrRange::new(address(start)?, address(end)?)
}

/// `55d0-55d1 r-xp 00001000 08:01 1234   /usr/bin/cat`.
fn parse_line(line: &str) -> Option<Mapping> {
    let range = parse_range(line)?;
    let mut fields = line.split_ascii_whitespace().skip(1);
    let permissions = fields.next()?;
    let offset = fields.next()?;
    let path_at = line.find('/')?;
    let path = line[path_at..].trim_end_matches(" (deleted)").to_string();
    if path.starts_with("/dev/") || path.starts_with("/memfd:") {
        return None;
    }
    Some(Mapping {
        range,
        file_offset: u64::from_str_radix(offset, 16).ok()?,
        build_id: build_id(&path).unwrap_or_default(),
        path,
        executable: permissions.contains('x'),
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
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let mut shared = maps.lines().filter_map(parse_shared);
    shared.find(|mapping| mapping.range.contains(addr))
}

/// `7f00-7f80 rw-s 00000000 00:01 1234   /dev/zero (deleted)`.
fn parse_shared(line: &str) -> Option<SharedMapping> {
    let range = parse_range(line)?;
    let mut fields = line.split_ascii_whitespace().skip(1);
    let permissions = fields.next().filter(|text| text.ends_with('s'))?;
    let hexadecimal = |text: &str| u64::from_str_radix(text, 16).ok();
    let offset = hexadecimal(fields.next()?)?;
    let (major, minor) = fields.next()?.split_once(':')?;
    let device = hexadecimal(major)? << 32 | hexadecimal(minor)?;
    let inode = fields.next()?.parse().ok()?;
    let path = line.find('/').map_or("", |at| &line[at..]);
    Some(SharedMapping {
        range,
        offset,
        device,
        inode,
        path: path.trim_end_matches(" (deleted)").to_string(),
        is_writable: permissions.contains('w'),
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
        let mapping = parse_line("7f00-7f80 r-xp 00002000 fe:00 99    /nowhere/a b.so (deleted)");
        let expected = Mapping {
            range: AddrRange::new(0x7f00, 0x7f80).unwrap(),
            file_offset: 0x2000,
            path: "/nowhere/a b.so".into(),
            build_id: vec![],
            executable: true,
        };
        assert_eq!(mapping, Some(expected));
        assert_eq!(parse_line("7f00-7f80 rw-p 00000000 00:00 0 [heap]"), None);
        assert_eq!(parse_line("garbage"), None);
    }

    #[test]
    fn a_shared_line_of_maps() {
        let found = parse_shared("7f00-7f80 rw-s 00001000 00:01 77    /dev/zero (deleted)");
        let expected = SharedMapping {
            range: AddrRange::new(0x7f00, 0x7f80).unwrap(),
            offset: 0x1000,
            device: 1,
            inode: 77,
            path: "/dev/zero".into(),
            is_writable: true,
        };
        assert_eq!(found, Some(expected));
        assert_eq!(parse_shared("7f00-7f80 rw-p 00001000 00:01 77    /x"), None);
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
