//! Running processes: their cgroups, their mapped files.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt as _;

use hitm_files::input_file;
use hitm_layout::{CodeBytes, CodeName, Mapping, MayAccess, Operand, Symbolizer};
use hitm_live::lines::{Registers, Seen};
use hitm_live::locks::is_library_wait;
use hitm_live::procfs;
use indexmap::IndexSet;

use super::maps::{self, Area};

/// Bytes of code ahead of a sample that are looked at: some eight instructions.
const AHEAD_BYTES: u64 = 32;
/// Addresses of which that is kept.
const AHEAD_MAX: usize = 1 << 16;
/// Mappings of one process that are kept.
const MAPPINGS_MAX: usize = 4096;

/// Returns true if process `pid` is in the cgroup or a descendant, in any hierarchy.
pub(super) fn is_in_cgroup(pid: u32, path: &str) -> bool {
    let groups = procfs::cgroups(pid).unwrap_or_default();
    groups.iter().any(|(_, group)| group.starts_with(path))
}

/// Processes in the cgroup and its descendants.
pub(super) fn in_cgroup(path: &str) -> Vec<u32> {
    let processes = procfs::processes().unwrap_or_default();
    let members = processes.into_iter();
    members.filter(|pid| is_in_cgroup(*pid, path)).collect()
}

/// Processes, and those that they and their children have started.
pub(super) fn with_descendants(mut processes: Vec<u32>) -> Vec<u32> {
    let mut next = 0;
    while let Some(&pid) = processes.get(next) {
        for tid in procfs::threads(pid).unwrap_or_default() {
            let path = format!("/proc/{pid}/task/{tid}/children");
            let children = std::fs::read_to_string(path).unwrap_or_default();
            for child in children
                .split_ascii_whitespace()
                .filter_map(|word| word.parse().ok())
            {
                if !processes.contains(&child) {
                    processes.push(child);
                }
            }
        }
        next += 1;
    }
    processes
}

/// Mappings of a process that may hold code or variables; none when it has ended.
pub(super) fn mappings(pid: u32) -> Vec<Mapping> {
    let areas = maps::areas(pid);
    let mappings = areas.iter().filter_map(Area::named);
    mappings.take(MAPPINGS_MAX).collect()
}

/// Names of code in many processes, each file of which is read once. A process has its number above
/// its addresses, which have 47 bits.
pub(super) struct Programs {
    spaces: IndexSet<u32>,
    symbolizer: Symbolizer<'static>,
    /// False for processes of another time or host.
    are_running: bool,
    /// Accesses of the instructions from an address on.
    ahead: BTreeMap<u64, Vec<MayAccess>>,
}

impl Programs {
    pub(super) const SPACE_SHIFT: u32 = 48;
    const SPACES_MAX: usize = 1 << 15;

    pub(super) fn new(mappings: BTreeMap<u32, Vec<Mapping>>) -> Programs {
        let mut spaces = IndexSet::new();
        let mut all = Vec::new();
        for (pid, mappings) in mappings.into_iter().take(Programs::SPACES_MAX) {
            let space = (spaces.insert_full(pid).0 as u64) << Programs::SPACE_SHIFT;
            let user = mappings
                .into_iter()
                .filter(|own| own.end >> Programs::SPACE_SHIFT == 0);
            all.extend(user.map(|own| Mapping {
                start: own.start | space,
                end: own.end | space,
                ..own
            }));
        }
        Programs {
            spaces,
            symbolizer: Symbolizer::new(all, input_file::load),
            are_running: true,
            ahead: BTreeMap::new(),
        }
    }

    /// Programs of processes that have ended, or are on another host: their memory is not there.
    pub(super) fn ended(mappings: BTreeMap<u32, Vec<Mapping>>) -> Programs {
        Programs {
            are_running: false,
            ..Programs::new(mappings)
        }
    }

    /// The processes, by their numbers.
    pub(super) fn processes(&self) -> impl Iterator<Item = u32> + '_ {
        self.spaces.iter().copied()
    }

    /// Address in the common space of all processes; none if the process is unknown or the address
    /// is not a program's.
    pub(super) fn address(&self, pid: u32, address: u64) -> Option<u64> {
        let is_user = address >> Programs::SPACE_SHIFT == 0;
        let space = self.spaces.get_index_of(&pid).filter(|_| is_user)?;
        Some(address | (space as u64) << Programs::SPACE_SHIFT)
    }

    /// Function of an instruction, and those that it is inlined into.
    pub(super) fn functions(&mut self, pid: u32, address: u64) -> Vec<String> {
        let Some(address) = self.address(pid, address) else {
            return vec!["[unknown]".to_owned()];
        };
        let CodeName {
            location, place, ..
        } = self.symbolizer.code(address);
        let outer = location.inlined_from.into_iter();
        let outer = outer.filter_map(|frame| frame.function);
        let innermost = location.function.unwrap_or(place);
        std::iter::once(innermost).chain(outer).collect()
    }

    /// Returns true if a call may return to an address.
    pub(super) fn is_call_site(&mut self, pid: u32, address: u64) -> bool {
        let address = self.address(pid, address);
        address.is_some_and(|address| self.symbolizer.is_call_site(address))
    }

    /// The function of the C library that a thread waits in, with these words on top of its stack.
    pub(super) fn library_wait(&mut self, pid: u32, stack: &[u64]) -> Option<String> {
        stack.iter().find_map(|word| {
            let is_return = self.is_call_site(pid, *word);
            let names = is_return.then(|| self.functions(pid, word.wrapping_sub(1)))?;
            names.into_iter().find(|name| is_library_wait(name))
        })
    }

    /// Accesses for which it may stand that a thread was seen at an instruction.
    pub(super) fn accesses(&mut self, seen: &Seen) -> Vec<SeenAccess> {
        let Some(address) = self.address(seen.pid, seen.code) else {
            return Vec::new();
        };
        let all = match self.symbolizer.is_in_file(address) {
            true => self.symbolizer.operands(address),
            false if self.are_running => generated(seen),
            false => Vec::new(),
        };
        all.iter().map(|may| own_access(may, seen)).collect()
    }

    /// Accesses of the next instructions, by the registers that a thread has before them.
    pub(super) fn ahead(&mut self, seen: &Seen) -> Vec<SeenAccess> {
        let Some(address) = self.address(seen.pid, seen.code) else {
            return Vec::new();
        };
        if self.ahead.len() >= AHEAD_MAX {
            self.ahead.clear();
        }
        let symbolizer = &mut self.symbolizer;
        let ahead = self.ahead.entry(address).or_insert_with(|| {
            let code = (0..AHEAD_BYTES).filter_map(|bytes| address.checked_add(bytes));
            let all = code.flat_map(|at| {
                let own = symbolizer.operands(at).into_iter();
                own.filter(move |may| may.code == at && !may.is_before)
            });
            all.collect()
        });
        ahead.iter().map(|may| own_access(may, seen)).collect()
    }

    /// Static variable or its member; empty where none is known.
    pub(super) fn variable(&mut self, pid: u32, address: u64) -> String {
        const WORD_BYTES: u64 = 4;
        let address = self.address(pid, address);
        let name = address.and_then(|address| self.symbolizer.data(address, WORD_BYTES).location);
        name.map_or_else(String::new, |name| name.to_string())
    }
}

/// An access as the thread's process sees it.
fn own_access(may: &MayAccess, seen: &Seen) -> SeenAccess {
    let own = |address: u64| address & ((1 << Programs::SPACE_SHIFT) - 1);
    let access = SeenAccess::of(may, seen);
    SeenAccess {
        code: own(access.code),
        address: access.address.map(own),
        ..access
    }
}

/// An access that a thread may have been seen at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SeenAccess {
    /// Its instruction, as its process sees it.
    pub(super) code: u64,
    /// Its first byte; none where the registers that it was counted from have gone.
    pub(super) address: Option<u64>,
    /// Its operand.
    pub(super) operand: Operand,
    /// True if its instruction ran before the thread was seen.
    pub(super) is_before: bool,
}

impl SeenAccess {
    /// The access of a thread with the registers that it was seen with.
    pub(super) fn of(may: &MayAccess, seen: &Seen) -> SeenAccess {
        SeenAccess {
            code: may.code,
            address: place(may, seen),
            operand: may.operand,
            is_before: may.is_before,
        }
    }
}

/// Accesses at code that is in no file, by the memory of its process.
fn generated(seen: &Seen) -> Vec<MayAccess> {
    const BEHIND: usize = 16;
    let begin = seen.code.saturating_sub(CodeBytes::AROUND);
    let mut bytes = [0; CodeBytes::AROUND as usize + BEHIND];
    // A process that has ended, or whose memory is not ours to read, has none.
    let memory = File::open(format!("/proc/{}/mem", seen.pid));
    let read = memory.and_then(|memory| memory.read_at(&mut bytes, begin));
    let code = CodeBytes {
        begin,
        bytes: &bytes[..read.unwrap_or(0)],
    };
    code.operands(seen.code)
}

/// The address that an access had.
fn place(may: &MayAccess, seen: &Seen) -> Option<u64> {
    let registers = seen.registers.as_ref();
    address(&may.operand, registers.filter(|_| may.has_registers))
}

/// The address of an operand with these registers.
pub(super) fn address(operand: &Operand, registers: Option<&Registers>) -> Option<u64> {
    let Operand {
        base,
        index,
        offset,
        ..
    } = *operand;
    if base.is_none() && index.is_none() {
        return Some(offset.cast_unsigned());
    }
    let registers = registers?;
    let mut address = offset.cast_unsigned();
    if let Some(base) = base {
        address = address.wrapping_add(registers.get(base)?);
    }
    if let Some((index, scale)) = index {
        address = address.wrapping_add(registers.get(index)?.wrapping_mul(scale.into()));
    }
    Some(address)
}
