//! Memory operands of the instructions at which a sample may stand.
//!
//! An interrupt comes when an instruction retires. A load or a locked operation that waits is found at the
//! instruction behind it, a store that waits for room at itself. So each address stands for the accesses of
//! its own instruction and of the one that ran before. A comparison and the branch behind it may
//! retire together: then the comparison is found where the branch leads.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use hitm_base::Architecture;

use super::insn::{Access, Effect, Insn, Next, Place, REGISTERS, Reg, ZERO};
use super::{INSNS_MAX, decode_code, decode_range};
use crate::elf::Elf;

/// Rows of all functions that are kept, 48 bytes each.
const KEPT_MAX: usize = 1 << 18;

/// A memory operand: `base + index * scale + offset`. Registers have DWARF's numbers, aarch64's stack
/// pointer is 31.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operand {
    /// None for an address that the instruction has in full.
    pub base: Option<u8>,
    /// Register and scale.
    pub index: Option<(u8, u8)>,
    /// Bytes from the registers' sum, or the address.
    pub offset: i64,
    /// Bytes that are accessed, 0 when not known.
    pub bytes: u64,
    /// True if the instruction reads them.
    pub reads: bool,
    /// True if the instruction writes them, or may: a compare and swap.
    pub writes: bool,
    /// True for a locked operation, and for each half of an exclusive pair.
    pub is_locked: bool,
}

impl Operand {
    /// Returns true if the address is in the instruction in full.
    pub(crate) const fn is_address(&self) -> bool {
        self.base.is_none() && self.index.is_none()
    }

    pub(super) fn new(access: &Access, place: Place) -> Operand {
        Operand {
            base: place.base,
            index: place.index.filter(|index| index.0 != ZERO),
            offset: place.offset,
            bytes: access.bytes,
            reads: access.reads,
            writes: access.writes,
            is_locked: access.is_locked,
        }
    }
}

/// An access for which a sample at an address may stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MayAccess {
    /// The address of its instruction.
    pub code: u64,
    /// The memory, by registers as they are at the sampled address.
    pub operand: Operand,
    /// True if its instruction ran before the sampled one.
    pub is_before: bool,
    /// True if the operand's registers have what the access had in them. False if the instruction gave
    /// them something else, or if it counts half of a register only.
    pub has_registers: bool,
    /// True if nothing but the instruction before leads to the sampled address: no branch of the function
    /// does. Jumps through tables, and from other parts of a split function, are not known.
    pub is_certain: bool,
}

/// An access, by the address of the sample.
#[derive(Debug, Clone, Copy)]
struct Row {
    sampled: u64,
    access: MayAccess,
}

/// Functions whose operands were looked for, by first address.
#[derive(Debug, Default)]
pub(crate) struct OperandIndex {
    /// None for one that is too long, or not in the file.
    functions: BTreeMap<u64, Option<Arc<[Row]>>>,
    kept: usize,
}

impl OperandIndex {
    /// The accesses for which a sample at a virtual address may stand.
    /// `function` is the code of the function there, if that is known.
    pub(crate) fn at(
        &mut self,
        elf: &Elf,
        function: Option<Range<u64>>,
        vaddr: u64,
    ) -> Vec<MayAccess> {
        let rows = function.and_then(|function| self.function(elf, function));
        let Some(rows) = rows else {
            return without_function(elf, vaddr);
        };
        let first = rows.partition_point(|row| row.sampled < vaddr);
        let own = rows[first..].iter().take_while(|row| row.sampled == vaddr);
        own.map(|row| row.access).collect()
    }

    /// The rows of a function; none when its code is not in the file, or too long.
    fn function(&mut self, elf: &Elf, range: Range<u64>) -> Option<Arc<[Row]>> {
        let begin = range.start;
        if let Some(known) = self.functions.get(&begin) {
            return known.clone();
        }
        let insns = decode_range(elf, range, INSNS_MAX).filter(|insns| insns.len() < INSNS_MAX);
        let rows: Option<Arc<[Row]>> = insns.map(|insns| rows(&insns).into());
        let count = 1 + rows.as_ref().map_or(0, |rows| rows.len());
        if self.kept + count > KEPT_MAX {
            self.functions.clear();
            self.kept = 0;
        }
        self.kept += count;
        self.functions.insert(begin, rows.clone());
        rows
    }
}

/// The rows of a function's instructions, which follow each other without gaps.
fn rows(insns: &[Insn]) -> Vec<Row> {
    let branches = insns.iter().enumerate();
    let mut branches: Vec<(u64, usize)> = branches
        .filter_map(|(index, insn)| Some((insn.next.target()?, index)))
        .collect();
    branches.sort_unstable();
    let mut rows = Vec::new();
    for (index, insn) in insns.iter().enumerate() {
        let address = insn.address;
        let first = branches.partition_point(|branch| branch.0 < address);
        let to_it = branches[first..]
            .iter()
            .take_while(|branch| branch.0 == address);
        let mut before = Vec::new();
        if let Some(last) = index
            .checked_sub(1)
            .filter(|last| insns[*last].next.follows())
        {
            before.extend(fused_with(insns, last));
            before.push(&insns[last]);
        }
        before.extend(
            to_it
                .clone()
                .filter_map(|branch| fused_with(insns, branch.1)),
        );
        before.sort_unstable_by_key(|insn| insn.address);
        before.dedup_by_key(|insn| insn.address);
        let is_certain = to_it.count() == 0;
        let accesses = around(&before, insn, is_certain);
        rows.extend(accesses.map(|access| Row {
            sampled: address,
            access,
        }));
    }
    rows
}

/// The comparison that may retire together with the conditional branch at an index.
fn fused_with(insns: &[Insn], branch: usize) -> Option<&Insn> {
    let is_conditional = matches!(insns[branch].next, Next::Branch(_));
    let before = branch.checked_sub(1).filter(|_| is_conditional)?;
    Some(&insns[before]).filter(|insn| insn.is_fusible)
}

/// The accesses of an instruction, and of those that may have run before it.
fn around<'i>(
    before: &[&'i Insn],
    insn: &'i Insn,
    is_certain: bool,
) -> impl Iterator<Item = MayAccess> {
    let before = before.iter().flat_map(move |before| {
        accesses(before).map(move |access| {
            let place = place_behind(access.place, &before.effects);
            MayAccess {
                code: before.address,
                operand: Operand::new(access, place.unwrap_or(access.place)),
                is_before: true,
                has_registers: place.is_some() && !access.is_narrow,
                is_certain,
            }
        })
    });
    let own = accesses(insn).map(move |access| MayAccess {
        code: insn.address,
        operand: Operand::new(access, access.place),
        is_before: false,
        has_registers: !access.is_narrow,
        is_certain,
    });
    before.chain(own)
}

fn accesses(insn: &Insn) -> impl Iterator<Item = &Access> {
    let all = insn.access.iter().chain(&insn.implied);
    all.filter(|access| access.reads || access.writes)
}

/// A place by the registers behind an instruction; none when they no longer say where it is.
fn place_behind(place: Place, effects: &[Effect]) -> Option<Place> {
    let behind = Registers::behind(effects);
    let mut found = place;
    if let Some(base) = place.base {
        let (base, moved) = behind.holder(base)?;
        found.base = Some(base);
        found.offset = found.offset.wrapping_sub(moved);
    }
    if let Some((index, scale)) = place.index {
        let (index, moved) = behind.holder(index)?;
        found.index = Some((index, scale));
        let moved = moved.wrapping_mul(scale.into());
        found.offset = found.offset.wrapping_sub(moved);
    }
    Some(found)
}

/// The contents of registers behind an instruction: which register was there before, and what was added.
struct Registers([Option<(Reg, i64)>; REGISTERS]);

impl Registers {
    fn behind(effects: &[Effect]) -> Registers {
        let mut now: [Option<(Reg, i64)>; REGISTERS] =
            std::array::from_fn(|reg| Some((reg as Reg, 0)));
        for effect in effects {
            match *effect {
                Effect::Copy { to, from, add } => {
                    let value = now[usize::from(from)];
                    now[usize::from(to)] = value.map(|(reg, sum)| (reg, sum.wrapping_add(add)));
                }
                other => {
                    if let Some(to) = other.written() {
                        now[usize::from(to)] = None;
                    }
                }
            }
        }
        // It reads as zero, whatever is put there.
        now[usize::from(ZERO)] = Some((ZERO, 0));
        Registers(now)
    }

    /// The register that has what another one had before, and what was added to it.
    fn holder(&self, before: Reg) -> Option<(Reg, i64)> {
        let has_it = |reg: Reg| match self.0[usize::from(reg)] {
            Some((was, moved)) if was == before => Some((reg, moved)),
            _ => None,
        };
        has_it(before).or_else(|| (0..ZERO).find_map(has_it))
    }
}

/// Accesses at an address of no known function: those of its own instruction, and of the one that most ways to
/// decode the bytes before it end with.
fn without_function(elf: &Elf, vaddr: u64) -> Vec<MayAccess> {
    let behind = elf.loaded_from(vaddr, INSN_BYTES_MAX).unwrap_or(0);
    around_address(elf.architecture, vaddr, |range| {
        let end = range.end.min(vaddr.saturating_add(behind));
        decode_range(elf, range.start..end, INSNS_MAX)
    })
}

/// Most bytes of an instruction.
const INSN_BYTES_MAX: u64 = 16;

/// Machine code that is in no file: what a compiler at run time has made.
#[derive(Debug, Clone, Copy)]
pub struct CodeBytes<'b> {
    /// Address of the first byte.
    pub begin: u64,
    /// The code.
    pub bytes: &'b [u8],
}

impl CodeBytes<'_> {
    /// Bytes before and behind an address that [`CodeBytes::operands`] looks at.
    pub const AROUND: u64 = 64;

    /// The accesses for which a sample at an address of this host's code may stand, as [`ObjectFile::operands`] tells
    /// them of a function that is not known.
    ///
    /// [`ObjectFile::operands`]: crate::ObjectFile::operands
    pub fn operands(&self, address: u64) -> Vec<MayAccess> {
        around_address(Architecture::HOST, address, |range| {
            let place = |at: u64| usize::try_from(at.checked_sub(self.begin)?).ok();
            let (from, to) = (place(range.start)?, place(range.end)?);
            let code = self.bytes.get(from..to.min(self.bytes.len()))?;
            Some(decode_code(Architecture::HOST, code, range.start))
        })
    }

    /// The same where the bytes are those of a whole function, so that the instruction before is certain.
    pub fn operands_in_function(&self, address: u64) -> Vec<MayAccess> {
        let rows = rows(&decode_code(Architecture::HOST, self.bytes, self.begin));
        let own = rows.into_iter().filter(|row| row.sampled == address);
        own.map(|row| row.access).collect()
    }
}

fn around_address(
    architecture: Architecture,
    address: u64,
    decode: impl Fn(Range<u64>) -> Option<Vec<Insn>>,
) -> Vec<MayAccess> {
    let own = decode(address..address.saturating_add(INSN_BYTES_MAX));
    let Some(own) = own.and_then(|insns| insns.into_iter().next()) else {
        return Vec::new();
    };
    let before = likely_before(architecture, address, decode);
    let before = before.filter(|before| before.next.follows());
    let before: Vec<&Insn> = before.iter().collect();
    around(&before, &own, false).collect()
}

/// The instruction that most ways to decode the bytes before an address end with.
pub(super) fn likely_before(
    architecture: Architecture,
    address: u64,
    decode: impl Fn(Range<u64>) -> Option<Vec<Insn>>,
) -> Option<Insn> {
    let starts = match architecture {
        // Decoding from a wrong byte meets the true instructions after a few.
        Architecture::X86_64 => 32..CodeBytes::AROUND,
        Architecture::Aarch64 => 4..5,
    };
    let ways = starts.end - starts.start;
    let mut found: Vec<Insn> = Vec::new();
    for back in starts {
        let start = address.checked_sub(back);
        let insns = start.and_then(|start| decode(start..address));
        found.extend(insns.and_then(|mut insns| insns.pop()));
    }
    let agreeing = |insn: &Insn| found.iter().filter(|other| *other == insn).count() as u64;
    let is_likely = |insn: &&Insn| agreeing(insn) * 4 >= ways * 3;
    found.iter().find(is_likely).cloned()
}

#[cfg(test)]
mod tests;
