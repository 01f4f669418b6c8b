//! Variables on a function's stack, by the debug information.

use std::sync::Arc;

use super::ObjectFile;
use crate::data::{DataLocation, DataObject, NameSource};
use crate::dwarf::{DieRef, FunctionLocals, LocalPlace};
use crate::types::{TypeId, TypeReader};

/// A function of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct FunctionRef(DieRef);

/// A place on the stack of a running function, as an instruction of it accesses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameAccess {
    /// The function.
    pub function: FunctionRef,
    /// Virtual address of the instruction.
    pub vaddr: u64,
    /// Bytes from the base of the function's frame.
    pub offset: i64,
}

/// A variable that lies on the stack of a function, from one of its instructions to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrameVariable {
    /// The function's name and the variable's, as gdb writes them: `main::count`.
    pub name: String,
    /// Virtual address of the first instruction.
    pub begin: u64,
    /// Virtual address behind the last one.
    pub end: u64,
    /// Bytes from the base of the function's frame to the variable.
    pub offset: i64,
    /// Bytes.
    pub size: u64,
    /// Its type, in the file's store.
    pub type_id: TypeId,
    /// True if the function takes the address of one of its bytes, as it must to share it.
    pub is_address_taken: bool,
}

impl FrameVariable {
    /// Bytes from the variable's start to a place in its function's frame; none outside of it.
    pub fn byte_at(&self, offset: i64) -> Option<u64> {
        let into = u64::try_from(offset.checked_sub(self.offset)?).ok()?;
        (into < self.size).then_some(into)
    }
}

impl ObjectFile {
    /// The place on its function's own stack that the instruction at a virtual address accesses. None without debug
    /// information, and for other memory.
    pub fn frame_access(&mut self, vaddr: u64) -> Option<FrameAccess> {
        let (function, offset) = self.with_flow(|flow, source| flow.on_frame(source, vaddr))??;
        Some(FrameAccess {
            function: FunctionRef(function),
            vaddr,
            offset,
        })
    }

    /// The places on its function's own stack that the call which returns to a virtual address is given the address of.
    pub fn frame_arguments(&mut self, vaddr: u64) -> Vec<FrameAccess> {
        let found = self.with_flow(|flow, source| flow.passed_from_frame(source, vaddr));
        let Some((function, places)) = found.flatten() else {
            return Vec::new();
        };
        let places = places.into_iter().map(|offset| FrameAccess {
            function: FunctionRef(function),
            vaddr: vaddr - 1,
            offset,
        });
        places.collect()
    }

    /// The variables of a function that lie on its stack, those of inlined functions among them. Those that are counted
    /// from other registers than the frame's are not known.
    pub fn frame_variables(&mut self, function: FunctionRef) -> Arc<[FrameVariable]> {
        if let Some(known) = self.debug().frames.get(&function) {
            return Arc::clone(known);
        }
        let found: Arc<[FrameVariable]> = self.read_frame(function).unwrap_or_default().into();
        let frames = &mut self.debug().frames;
        frames.insert(function, Arc::clone(&found));
        found
    }

    fn read_frame(&mut self, function: FunctionRef) -> Option<Vec<FrameVariable>> {
        let debug = self.debug();
        let view = debug.dwarf.view();
        // A damaged function has no variables.
        let locals = FunctionLocals::read(&view, function.0).ok()?;
        let frame = locals.frame?;
        let mut found = Vec::new();
        for local in &locals.locals {
            let LocalPlace::Memory { base, offset } = local.place else {
                continue;
            };
            let Some((unit, die)) = local.variable.and_then(|at| view.fetch(at)) else {
                continue;
            };
            let (_, name) = view.names(&unit, &die);
            let type_id = TypeReader::new(&mut debug.types, &view).read(local.of_type);
            let size = debug.types.get(type_id).size.unwrap_or(0);
            if let Some(name) = name.filter(|_| base == frame && size > 0) {
                found.push(FrameVariable {
                    name,
                    begin: local.begin,
                    end: local.end,
                    offset,
                    size,
                    type_id,
                    is_address_taken: false,
                });
            }
        }
        let first = locals.ranges.first()?.begin;
        let taken = self.with_flow(|flow, source| flow.taken_on_frame(source, first))?;
        let location = self.code_location(first);
        let outermost = location.inlined_from.into_iter().last();
        let of = outermost.map_or(location.function, |frame| frame.function);
        let of = of.filter(|name| !name.is_empty())?;
        for variable in &mut found {
            variable.name = format!("{of}::{}", variable.name);
            variable.is_address_taken = taken.iter().any(|at| variable.byte_at(*at).is_some());
        }
        Some(found)
    }

    /// The variable as an object at `start`, and the members that an access of `size` bytes to its byte `offset` touches.
    pub fn frame_location(
        &mut self,
        variable: &FrameVariable,
        start: u64,
        offset: u64,
        size: u64,
    ) -> DataLocation {
        let end = offset.saturating_add(size.max(1)).min(variable.size);
        let (name, type_id) = (&variable.name, variable.type_id);
        let path = self.members_of(name, type_id, variable.size, offset..end);
        DataLocation {
            object: DataObject {
                name: name.clone(),
                start,
                size: variable.size,
                type_id: Some(type_id),
                type_name: Some(self.types().get(type_id).name.to_string()),
                source: NameSource::Dwarf,
            },
            offset,
            path,
        }
    }
}
