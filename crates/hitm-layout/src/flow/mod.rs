//! Types of the memory that instructions access, from debug information or a kernel's BTF alone.
//!
//! A heap block has no type, but the code that uses it does. A variable of type `struct item *`
//! lives in the register that the instruction counts its address from. Debug information says where
//! variables live. Between those places, and where a pointer comes out of a member of another
//! object, the values of registers are followed through the function.
//!
//! Not followed: pointers in vector registers, in thread-local variables, through tables of addresses
//! that the linker fills, and into functions from their callers.

mod aarch64;
mod btf;
mod dwarf_types;
mod facts;
mod function;
mod insn;
mod numbers;
mod operands;
mod spins;
mod state;
mod target;
mod types;
mod writes;
mod x86;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use hitm_base::Architecture;

pub use self::btf::{BtfFlow, KernelFunction};
use self::dwarf_types::DwarfTypes;
use self::function::{Analysis, Code};
pub(crate) use self::operands::OperandIndex;
pub use self::operands::{CodeBytes, MayAccess, Operand};
pub use self::spins::Spin;
use self::types::Types;
pub use self::writes::WordWrite;
use crate::dwarf::{CodeIndex, DieRef, DwarfFile, FunctionLocals, VariableIndex};
use crate::elf::Elf;
use crate::types::{TypeId, TypeStore};

/// Instructions of one function that are followed: the largest of generated parsers have fewer.
const INSNS_MAX: usize = 1 << 16;

/// Accesses of all functions that are kept, 48 bytes each.
const KEPT_MAX: usize = 1 << 18;

/// The object that an instruction accesses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AccessedType {
    /// The object's type, in the store of the file that has the instruction.
    pub type_id: TypeId,
    /// Bytes from the object's start to the access.
    pub offset: u64,
    /// Bytes that the instruction accesses there together, 0 when not known. Emulators access them in parts.
    pub bytes: u64,
    /// True if the object may be one of several elements of an array.
    pub is_stepped: bool,
}

/// Types that the instructions of one function access.
#[derive(Debug, Default)]
pub(crate) struct FunctionTypes {
    /// By address.
    accesses: BTreeMap<u64, AccessedType>,
    /// Types that the results of calls are used as, by the address after the call; none where uses
    /// disagree.
    results: BTreeMap<u64, Option<TypeId>>,
    /// Calls whose results the function returns as they are.
    returned: BTreeSet<u64>,
    /// Accesses to the function's own stack: bytes from its frame's base, by the instruction.
    frame: BTreeMap<u64, i64>,
    /// Places on its stack that the function takes the address of, from its frame's base.
    taken: BTreeSet<i64>,
    /// Places on its stack that calls are given the address of, from its frame's base, by the address after the call.
    passed: BTreeMap<u64, Vec<i64>>,
    /// Objects that calls are given pointers into.
    arguments: BTreeMap<Argument, AccessedType>,
}

/// An argument of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Argument {
    /// The address after the call.
    call: u64,
    /// Its place, from 0 on.
    number: usize,
}

impl FunctionTypes {
    /// Notes that a call's result is used as a pointer to `to`.
    fn note_result(&mut self, call: u64, to: TypeId, types: &TypeStore) {
        let known = self.results.entry(call).or_insert(Some(to));
        *known = known.and_then(|known| {
            match (types.has_part(known, 0, to), types.has_part(to, 0, known)) {
                (true, _) => Some(known),
                (false, true) => Some(to),
                (false, false) => None,
            }
        });
    }

    fn len(&self) -> usize {
        self.accesses.len()
            + self.results.len()
            + self.frame.len()
            + self.taken.len()
            + self.passed.len()
            + self.arguments.len()
            + 1
    }
}

/// The use of a call's result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResultUse {
    /// It points at an object of this type.
    PointsAt(TypeId),
    /// The function returns it as it is: its caller knows.
    Returned,
    /// Nothing is known about it.
    Unknown,
}

/// Functions that were gone through.
pub(crate) type FlowIndex = FunctionIndex<DieRef>;

/// Functions that were gone through, by what names one.
#[derive(Debug)]
pub(crate) struct FunctionIndex<Key> {
    functions: BTreeMap<Key, Arc<FunctionTypes>>,
    kept: usize,
}

impl<Key: Ord> FunctionIndex<Key> {
    /// Keeps a function's types, if need be in place of all others.
    fn keep(&mut self, key: Key, found: FunctionTypes) -> Arc<FunctionTypes> {
        if self.kept + found.len() > KEPT_MAX {
            self.functions.clear();
            self.kept = 0;
        }
        self.kept += found.len();
        let found = Arc::new(found);
        self.functions.insert(key, found.clone());
        found
    }
}

impl<Key> Default for FunctionIndex<Key> {
    fn default() -> FunctionIndex<Key> {
        FunctionIndex {
            functions: BTreeMap::new(),
            kept: 0,
        }
    }
}

/// Input of the analysis.
pub(crate) struct FlowSource<'d> {
    pub(crate) elf: &'d Elf,
    pub(crate) dwarf: &'d DwarfFile,
    pub(crate) code: &'d mut CodeIndex,
    pub(crate) variables: &'d VariableIndex,
    pub(crate) types: &'d mut TypeStore,
}

impl FlowSource<'_> {
    /// The object that one of type `of` is only a shell of, if that holds the byte at `offset`.
    pub(crate) fn content_at(self, of: TypeId, offset: u64) -> Option<(TypeId, u64)> {
        let mut types = DwarfTypes {
            store: self.types,
            view: &self.dwarf.view(),
            variables: self.variables,
        };
        types.content_at(of, offset)
    }
}

impl FlowIndex {
    /// The object that the instruction at a virtual address accesses.
    pub(crate) fn access(&mut self, source: FlowSource<'_>, vaddr: u64) -> Option<AccessedType> {
        let function = self.function(source, vaddr)?;
        function.accesses.get(&vaddr).copied()
    }

    /// The use of the result of the call before a virtual address.
    pub(crate) fn result(&mut self, source: FlowSource<'_>, vaddr: u64) -> ResultUse {
        let Some(function) = self.function(source, vaddr.wrapping_sub(1)) else {
            return ResultUse::Unknown;
        };
        match function.results.get(&vaddr) {
            Some(Some(to)) => ResultUse::PointsAt(*to),
            None if function.returned.contains(&vaddr) => ResultUse::Returned,
            _ => ResultUse::Unknown,
        }
    }

    /// The function that the instruction at a virtual address is in, and the place on its stack that the instruction
    /// accesses: bytes from the base of its frame.
    pub(crate) fn on_frame(&mut self, source: FlowSource<'_>, vaddr: u64) -> Option<(DieRef, i64)> {
        let (at, function) = self.function_with_entry(source, vaddr)?;
        Some((at, *function.frame.get(&vaddr)?))
    }

    /// The function that the call before a virtual address is in, and the places on its stack that the call is given
    /// the address of: bytes from the base of its frame.
    pub(crate) fn passed_from_frame(
        &mut self,
        source: FlowSource<'_>,
        vaddr: u64,
    ) -> Option<(DieRef, Vec<i64>)> {
        let (at, function) = self.function_with_entry(source, vaddr.checked_sub(1)?)?;
        Some((at, function.passed.get(&vaddr)?.clone()))
    }

    /// Places on the stack of the function at a virtual address that it takes the address of: bytes from the base of
    /// its frame.
    pub(crate) fn taken_on_frame(&mut self, source: FlowSource<'_>, vaddr: u64) -> BTreeSet<i64> {
        let function = self.function(source, vaddr);
        function.map_or_else(BTreeSet::new, |function| function.taken.clone())
    }

    fn function(&mut self, source: FlowSource<'_>, vaddr: u64) -> Option<Arc<FunctionTypes>> {
        Some(self.function_with_entry(source, vaddr)?.1)
    }

    /// The types of the function at a virtual address, and the entry of its debug information.
    fn function_with_entry(
        &mut self,
        source: FlowSource<'_>,
        vaddr: u64,
    ) -> Option<(DieRef, Arc<FunctionTypes>)> {
        let view = source.dwarf.view();
        let at = source.code.function(&view, vaddr)?;
        if let Some(known) = self.functions.get(&at) {
            return Some((at, known.clone()));
        }
        // A damaged function has no types.
        let locals = FunctionLocals::read(&view, at).unwrap_or_default();
        let insns = decode(source.elf, &locals);
        let code = Code {
            insns,
            convention: convention(source.elf.architecture),
            is_kernel: false,
        };
        let types = DwarfTypes {
            store: source.types,
            view: &view,
            variables: source.variables,
        };
        let found = Analysis::new(types, &locals, code).run();
        Some((at, self.keep(at, found)))
    }
}

const fn convention(architecture: Architecture) -> &'static insn::Convention {
    match architecture {
        Architecture::X86_64 => &x86::CONVENTION,
        Architecture::Aarch64 => &aarch64::CONVENTION,
    }
}

/// The instructions of a function, by address.
fn decode(elf: &Elf, locals: &FunctionLocals) -> Vec<insn::Insn> {
    let mut insns: Vec<insn::Insn> = Vec::new();
    for gimli::Range { begin, end } in &locals.ranges {
        let room = INSNS_MAX - insns.len();
        insns.extend(decode_range(elf, *begin..*end, room).unwrap_or_default());
    }
    // Code that is cut off could be jumped over.
    if insns.len() >= INSNS_MAX {
        return Vec::new();
    }
    insns.sort_by_key(|insn| insn.address);
    insns.dedup_by_key(|insn| insn.address);
    insns
}

/// The instructions of a part of a file's code, up to `max`; none when the file does not have it.
fn decode_range(elf: &Elf, range: Range<u64>, max: usize) -> Option<Vec<insn::Insn>> {
    let begin = range.start;
    let code = elf.loaded(range)?;
    Some(decode_upto(elf.architecture, code, begin, max))
}

/// The instructions of machine code.
fn decode_code(architecture: Architecture, code: &[u8], begin: u64) -> Vec<insn::Insn> {
    decode_upto(architecture, code, begin, INSNS_MAX)
}

/// The first instructions of machine code.
fn decode_upto(architecture: Architecture, code: &[u8], begin: u64, max: usize) -> Vec<insn::Insn> {
    match architecture {
        Architecture::X86_64 => x86::decode(code, begin, max),
        Architecture::Aarch64 => aarch64::decode(code, begin, max),
    }
}

/// Returns true if the code that ends with these bytes ends with a call.
pub(crate) fn ends_with_call(architecture: Architecture, code: &[u8]) -> bool {
    // Of x86-64 a call by a register, and one with an index, an offset and a prefix.
    let lengths = match architecture {
        Architecture::X86_64 => 2..=8,
        Architecture::Aarch64 => 4..=4,
    };
    lengths.into_iter().any(|length| {
        let start = code.len().checked_sub(length);
        let last = start.map_or(Vec::new(), |start| {
            decode_upto(architecture, &code[start..], 0, 2)
        });
        matches!(&last[..], [only] if matches!(only.next, insn::Next::Call(_)))
    })
}

#[cfg(test)]
mod tests;
