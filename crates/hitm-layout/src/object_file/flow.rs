//! Types of the memory that instructions access.

use std::ops::Range;

use super::ObjectFile;
use crate::flow::{AccessedType, FlowIndex, FlowSource, MayAccess, ResultUse, ends_with_call};
use crate::path::{AccessPath, LeafList};
use crate::types::TypeId;

impl ObjectFile {
    /// The object that the instruction at a virtual address accesses, by the variables of its function and
    /// what is done with them before. None without debug information, and where nothing is known.
    pub fn accessed_type(&mut self, vaddr: u64) -> Option<AccessedType> {
        self.with_flow(|flow, source| flow.access(source, vaddr))?
    }

    /// The accesses for which a sample at a virtual address may stand: those of instructions that
    /// may have run just before, then those of the instruction there. An operand without registers is a virtual address.
    pub fn operands(&mut self, vaddr: u64) -> Vec<MayAccess> {
        let function = self.code_range(vaddr);
        self.operands.at(&self.elf, function, vaddr)
    }

    /// Returns true if the instruction before a virtual address is a call.
    pub fn is_behind_call(&self, vaddr: u64) -> bool {
        const LONGEST: u64 = 8;
        let from = vaddr.saturating_sub(LONGEST);
        let code = self.elf.loaded(from..vaddr);
        code.is_some_and(|code| ends_with_call(self.elf.architecture, code))
    }

    /// The use of the result of the call that returns to a virtual address.
    pub fn result_use(&mut self, vaddr: u64) -> ResultUse {
        let found = self.with_flow(|flow, source| flow.result(source, vaddr));
        found.unwrap_or(ResultUse::Unknown)
    }

    /// The object that one of type `of` is only a shell of, if that holds the byte at `offset`;
    /// with the byte's offset in it. Such objects are what Rust's `Arc` and `Rc` count references
    /// to, and what a node of a C++ container keeps.
    pub fn content_at(&mut self, of: TypeId, offset: u64) -> Option<(TypeId, u64)> {
        self.with_flow(|_, source| source.content_at(of, offset))?
    }

    /// The members of an object of this type and of `size` bytes that an access of the bytes `range`
    /// touches, with `name` for the object.
    pub fn members_of(
        &mut self,
        name: &str,
        type_id: TypeId,
        size: u64,
        range: Range<u64>,
    ) -> AccessPath {
        let types = &self.debug().types;
        let is_long = range.end.saturating_sub(range.start) > 1;
        let leaves = LeafList::find(types, type_id, size, range.clone(), is_long);
        AccessPath::new(name, leaves, range)
    }

    pub(super) fn with_flow<T>(
        &mut self,
        ask: impl FnOnce(&mut FlowIndex, FlowSource<'_>) -> T,
    ) -> Option<T> {
        if !self.has_debug_info() {
            return None;
        }
        self.prepare_variables();
        let debug = self.debug.as_mut()?;
        let source = FlowSource {
            elf: &self.elf,
            dwarf: &debug.dwarf,
            code: &mut debug.code,
            variables: debug.variables.as_ref()?,
            types: &mut debug.types,
        };
        Some(ask(&mut debug.flow, source))
    }
}
