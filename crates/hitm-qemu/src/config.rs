//! Configuration from `hitm record`: a shared memory region, passed as an open file.
//!
//! The region begins with the header of the recording (machine model, window, placement), and the
//! ring follows at `ring_offset`. The file is closed once it is mapped, so that the program finds
//! the descriptors that it would find anyway.

use std::ffi::{CStr, c_char};
use std::ops::Range;
use std::ptr::NonNull;

use hitm_base::{CpuId, Machine};
use hitm_trace::Header;
use hitm_trace::ring::Producer;
use hitm_weave::Placement;
use hitm_weave::board::BOARD_LEN;

use crate::launch::Launch;
use crate::memory::Identity;
use crate::system::SleepFunctions;

/// Everything that the recorder is started with.
#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) header: Header,
    pub(crate) machine: Machine,
    pub(crate) cpu_order: Vec<CpuId>,
    pub(crate) producer: Producer,
    /// Of a whole machine; programs are recorded from their first instruction.
    pub(crate) start: Start,
    /// Region to which the facade writes, before the recording starts, the places of moved members.
    pub(crate) moves: Option<&'static [u8]>,
    /// First instructions of the functions whose calls are counted.
    pub(crate) calls: Vec<u64>,
    pub(crate) sleeps: SleepFunctions,
}

/// Event that starts the recording of a whole machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Start {
    /// The first instruction.
    Now,
    /// The marker instruction.
    Marker,
    /// The first time that this address is executed.
    Function(u64),
}

impl Start {
    fn parse(text: &str) -> Option<Start> {
        match text {
            "now" => Some(Start::Now),
            "marker" => Some(Start::Marker),
            _ => address(text).map(Start::Function),
        }
    }
}

/// `0xffffffff81000000`
fn address(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

/// `0x10/0xff20`
fn addresses(argument: &str, value: &str) -> Result<Vec<u64>, String> {
    let addresses: Option<_> = value.split('/').map(address).collect();
    addresses.ok_or(format!("'{argument}' is not 0x addresses with / between"))
}

/// `0x10-0x20/0xff20-0xff30`
fn ranges(argument: &str, value: &str) -> Result<Vec<Range<u64>>, String> {
    let range = |text: &str| {
        let (start, end) = text.split_once('-')?;
        Some(address(start)?..address(end)?)
    };
    let ranges: Option<_> = value.split('/').map(range).collect();
    ranges.ok_or(format!("'{argument}' is not 0x ranges with / between"))
}

/// The plugin's arguments, `key=value` each.
#[derive(Debug, PartialEq, Eq)]
struct Args {
    fd: i32,
    ring_offset: usize,
    start: Start,
    moves_offset: Option<usize>,
    /// Of programs.
    board_offset: Option<usize>,
    calls: Vec<u64>,
    sleeps: SleepFunctions,
}

/// Parameters of a program's recorder.
#[derive(Debug)]
pub(crate) struct ProgramConfig {
    pub(crate) header: Header,
    pub(crate) launch: Launch,
    /// The mutex that the recorder holds while it lives.
    pub(crate) guard: NonNull<u8>,
    pub(crate) board: NonNull<u8>,
}

/// Maps what `hitm record` shares with programs.
///
/// # Safety
/// `argv` holds `argc` terminated strings.
pub(crate) unsafe fn read_program(
    argc: i32,
    argv: *mut *mut c_char,
) -> Result<ProgramConfig, String> {
    // SAFETY: as the caller says.
    let args = Args::parse(unsafe { strings(argc, argv) })?;
    let launch_at = args.moves_offset.ok_or("moves_offset= is missing")?;
    let board_at = args.board_offset.ok_or("board_offset= is missing")?;
    let (base, len, memory_identity) = map(args.fd, board_at + BOARD_LEN)?;
    if launch_at + GUARD_BYTES > board_at || board_at >= len {
        return Err(format!(
            "a region of {len} bytes has no board at {board_at}"
        ));
    }
    // SAFETY: the mapping is longer than that and is never unmapped.
    let head = unsafe { std::slice::from_raw_parts(base.as_ptr(), board_at) };
    // SAFETY: within the mapping.
    let (guard, board) = unsafe { (base.add(board_at - GUARD_BYTES), base.add(board_at)) };
    Ok(ProgramConfig {
        header: Header::decode(head).map_err(|error| error.to_string())?,
        launch: Launch {
            memory_identity,
            ..Launch::read(&head[launch_at..])
        },
        guard,
        board,
    })
}

/// Bytes before the board in which the guard's mutex lies.
const GUARD_BYTES: usize = 4096;

impl Args {
    fn parse<'a>(args: impl Iterator<Item = &'a str>) -> Result<Args, String> {
        let (mut fd, mut ring_offset, mut start) = (None, None, Start::Now);
        let (mut moves_offset, mut board_offset, mut calls) = (None, None, Vec::new());
        let mut sleeps = SleepFunctions::default();
        for arg in args {
            let (key, value) = arg
                .split_once('=')
                .ok_or(format!("'{arg}' is not key=value"))?;
            let number = || {
                value
                    .parse()
                    .map_err(|_| format!("'{arg}' is not a number"))
            };
            match key {
                "fd" => fd = Some(number()?),
                "ring_offset" => ring_offset = Some(number()?),
                "moves_offset" => moves_offset = Some(number()?),
                "board_offset" => board_offset = Some(number()?),
                "start" => {
                    start = Start::parse(value)
                        .ok_or(format!("'{arg}' is not start=now, marker or an 0x address"))?;
                }
                "calls" => calls = addresses(arg, value)?,
                "lock_waits" => sleeps.waits = ranges(arg, value)?,
                "schedulers" => sleeps.schedulers = addresses(arg, value)?,
                "task_switch" => {
                    let at = address(value).ok_or(format!("'{arg}' is not an 0x address"))?;
                    sleeps.switch = Some(at);
                }
                _ => return Err(format!("'{key}' is not an argument of the recorder")),
            }
        }
        let fd = fd.ok_or("fd= is missing: start programs with `hitm record`")?;
        let ring_offset = ring_offset.ok_or("ring_offset= is missing")?;
        Ok(Args {
            fd: fd as i32,
            ring_offset,
            start,
            moves_offset,
            board_offset,
            calls,
            sleeps,
        })
    }
}

/// Returns true if the plugin is loaded only to see that it can be (`probe=on`).
///
/// # Safety
/// `argv` holds `argc` terminated strings.
pub(crate) unsafe fn is_probe(argc: i32, argv: *mut *mut c_char) -> bool {
    // SAFETY: as the caller says.
    unsafe { strings(argc, argv) }.eq(["probe=on"])
}

/// # Safety
/// `argv` holds `argc` terminated strings, which live on.
unsafe fn strings<'a>(argc: i32, argv: *mut *mut c_char) -> impl Iterator<Item = &'a str> {
    // SAFETY: as the caller says.
    let args = (0..argc as usize).map(move |index| unsafe { CStr::from_ptr(*argv.add(index)) });
    args.map(|arg| arg.to_str().unwrap_or("?"))
}

/// Maps the region and joins the ring.
///
/// # Safety
/// `argv` holds `argc` terminated strings.
pub(crate) unsafe fn read(argc: i32, argv: *mut *mut c_char) -> Result<Config, String> {
    // SAFETY: as the caller says.
    let args = Args::parse(unsafe { strings(argc, argv) })?;
    let (base, len, _) = map(args.fd, 0)?;
    if args.ring_offset >= len {
        return Err(format!(
            "ring_offset {} lies beyond the region of {len} bytes",
            args.ring_offset
        ));
    }
    // SAFETY: the mapping has `len` bytes and is never unmapped.
    let head = unsafe { std::slice::from_raw_parts(base.as_ptr(), args.ring_offset) };
    let header = Header::decode(head).map_err(|error| error.to_string())?;
    let machine = Machine::from_toml(&header.machine_toml, "the recording's machine model")
        .map_err(|error| error.to_string())?;
    let placement: Placement = header
        .placement
        .parse()
        .map_err(|error| format!("{error}"))?;
    let cpu_order = placement
        .order(&machine.topology)
        .map_err(|cpu| format!("the machine {} has no CPU {}", machine.name, cpu.0))?;
    // SAFETY: the ring lies within the mapping, which lasts as long as the process.
    let producer = unsafe {
        Producer::attach(
            base.add(args.ring_offset),
            len - args.ring_offset,
            std::process::id(),
        )
    };
    let producer = producer.map_err(|error| error.to_string())?;
    Ok(Config {
        header,
        machine,
        cpu_order,
        producer,
        start: args.start,
        moves: args.moves_offset.and_then(|offset| head.get(offset..)),
        calls: args.calls,
        sleeps: args.sleeps,
    })
}

/// Maps a file, or more addresses than it has bytes; returns its length and what it is.
fn map(fd: i32, address_bytes: usize) -> Result<(NonNull<u8>, usize, Identity), String> {
    // SAFETY: plain system calls on a descriptor that the arguments name; the kernel checks it.
    unsafe {
        let mut stat: libc::stat = std::mem::zeroed();
        if libc::fstat(fd, &mut stat) != 0 {
            return Err(format!("descriptor {fd} is not open"));
        }
        let len = stat.st_size as usize;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let base = libc::mmap(
            std::ptr::null_mut(),
            len.max(address_bytes),
            protection,
            libc::MAP_SHARED,
            fd,
            0,
        );
        if base == libc::MAP_FAILED {
            return Err(format!("descriptor {fd} cannot be mapped"));
        }
        libc::close(fd);
        let identity = Identity {
            device: stat.st_dev,
            inode: stat.st_ino,
        };
        Ok((
            NonNull::new(base.cast()).ok_or("mapped at 0")?,
            len,
            identity,
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments() {
        let parse = |args: &[&'static str]| Args::parse(args.iter().copied());
        assert_eq!(
            parse(&["fd=7", "ring_offset=4096"]),
            Ok(Args {
                fd: 7,
                ring_offset: 4096,
                start: Start::Now,
                moves_offset: None,
                board_offset: None,
                calls: Vec::new(),
                sleeps: SleepFunctions::default(),
            })
        );
        let calls = |text| parse(&["fd=7", "ring_offset=1", text]).map(|args| args.calls);
        assert_eq!(calls("calls=0x10/0xff20"), Ok(vec![0x10, 0xff20]));
        assert!(calls("calls=0x10/f").unwrap_err().contains("0x10/f"));
        let sleeps = |text| parse(&["fd=7", "ring_offset=1", text]).map(|args| args.sleeps);
        let waits = sleeps("lock_waits=0x10-0x20/0x30-0x34").map(|sleeps| sleeps.waits);
        assert_eq!(waits, Ok(vec![0x10..0x20, 0x30..0x34]));
        assert!(sleeps("lock_waits=0x10").unwrap_err().contains("ranges"));
        assert!(sleeps("task_switch=5").unwrap_err().contains("address"));
        let start = |text| parse(&["fd=7", "ring_offset=1", text]).map(|args| args.start);
        assert_eq!(start("start=marker"), Ok(Start::Marker));
        assert_eq!(start("start=0xff10"), Ok(Start::Function(0xff10)));
        assert!(start("start=never").unwrap_err().contains("never"));
        assert!(parse(&["fd=7"]).unwrap_err().contains("ring_offset"));
        assert!(
            parse(&["fd=x", "ring_offset=1"])
                .unwrap_err()
                .contains("fd=x")
        );
        assert!(parse(&["speed=1"]).unwrap_err().contains("speed"));
    }
}
