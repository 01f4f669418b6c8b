//! Variables and parameters of a function, and where they are while it runs.
//!
//! Inlined functions count as part of the function that they are inlined into. Sources: DWARF 5,
//! sections 2.6 (locations), 3.3.8 (inlined functions) and 3.4 (call sites).

use std::collections::BTreeMap;
use std::rc::Rc;

use gimli::{AttributeValue, Expression, Operation, Range};

use super::die::{Die, PcRanges, Walker};
use super::sources::View;
use super::units::{DieRef, Slice, Unit};

/// Base that the place of a variable in memory is counted from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Base {
    /// The stack pointer before the call, as the platform's convention counts it.
    CallFrame,
    /// A register, in DWARF's numbering.
    Register(u16),
}

/// Place of a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LocalPlace {
    /// The register plus `addend` is the variable's value from byte `part` on.
    Value {
        register: u16,
        addend: i64,
        part: u64,
    },
    /// The variable lies in memory.
    Memory { base: Base, offset: i64 },
    /// The variable's address lies in memory.
    Behind { base: Base, offset: i64 },
}

/// A variable at a place, in a range of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Local<At> {
    pub(crate) begin: u64,
    pub(crate) end: u64,
    pub(crate) place: LocalPlace,
    pub(crate) of_type: At,
    /// The variable's entry, if it has one.
    pub(crate) variable: Option<At>,
}

/// Variables of one function, and the types of its result and of those of its calls. `At` is where a type is
/// declared.
#[derive(Debug)]
pub(crate) struct FunctionLocals<At = DieRef> {
    /// Its machine code, first part first.
    pub(crate) ranges: Vec<Range>,
    pub(crate) locals: Vec<Local<At>>,
    /// The type that a call returns, by the address after the call.
    pub(crate) call_results: BTreeMap<u64, At>,
    /// The type that the function returns.
    pub(crate) result: Option<At>,
    /// Base of the frame: the places of variables on the stack are counted from it.
    pub(crate) frame: Option<Base>,
}

/// Places that the variables of one function may have together.
const MAX_LOCALS: usize = 1 << 16;

/// Entries of a variable and of its type.
#[derive(Debug, Clone, Copy)]
struct Variable {
    at: DieRef,
    of_type: DieRef,
}

/// A scope on the way down to the current entry, and the addresses that it covers.
struct Scope {
    depth: isize,
    ranges: Rc<[Range]>,
}

/// Collects what [`FunctionLocals`] has.
struct Reader<'v, 'a> {
    view: &'v View<'a>,
    unit: &'v Unit<'a>,
    number: u32,
    found: FunctionLocals,
    /// Ranges that may still be looked at.
    budget: usize,
}

impl<At> Default for FunctionLocals<At> {
    fn default() -> FunctionLocals<At> {
        FunctionLocals {
            ranges: Vec::new(),
            locals: Vec::new(),
            call_results: BTreeMap::new(),
            result: None,
            frame: None,
        }
    }
}

impl FunctionLocals {
    /// Reads the function at an entry.
    pub(crate) fn read(view: &View<'_>, at: DieRef) -> gimli::Result<FunctionLocals> {
        let unit = view.unit(at.unit)?;
        let mut reader = Reader {
            view,
            unit: &unit,
            number: at.unit,
            found: FunctionLocals::default(),
            budget: MAX_LOCALS,
        };
        reader.walk(at)?;
        Ok(reader.found)
    }
}

impl<'a> Reader<'_, 'a> {
    fn walk(&mut self, at: DieRef) -> gimli::Result<()> {
        let mut walker = Walker::new(self.unit, Some(at.offset))?;
        let mut scopes: Vec<Scope> = Vec::new();
        // Entries below this depth belong to a function nested in this one.
        let mut nested: Option<isize> = None;
        while let Some(step) = walker.next()? {
            if nested.is_some_and(|depth| step.depth > depth) {
                continue;
            }
            nested = None;
            while scopes.pop_if(|scope| scope.depth >= step.depth).is_some() {}
            let is_nested = step.depth > 0 && step.tag == gimli::DW_TAG_subprogram;
            if is_nested {
                nested = Some(step.depth);
            } else if is_read(step.tag) {
                let die = walker.die(self.number, step)?;
                self.take(&die, step.depth, &mut scopes)?;
            }
        }
        Ok(())
    }

    fn take(&mut self, die: &Die<'a>, depth: isize, scopes: &mut Vec<Scope>) -> gimli::Result<()> {
        match die.tag {
            gimli::DW_TAG_subprogram => {
                let ranges = self.ranges(die)?;
                self.found.ranges.clone_from(&ranges);
                self.found.result = self.view.type_through_origin(die);
                self.found.frame = self.frame_base(die);
                scopes.push(Scope {
                    depth,
                    ranges: ranges.into(),
                });
            }
            gimli::DW_TAG_lexical_block | gimli::DW_TAG_inlined_subroutine => {
                let own: Rc<[Range]> = self.ranges(die)?.into();
                let ranges = match scopes.last() {
                    Some(outer) if own.is_empty() => Rc::clone(&outer.ranges),
                    _ => own,
                };
                scopes.push(Scope { depth, ranges });
            }
            gimli::DW_TAG_call_site | gimli::DW_TAG_GNU_call_site => self.take_call(die),
            _ => {
                let scope = scopes.last().map_or(&[][..], |scope| &*scope.ranges);
                self.take_variable(die, scope)?;
            }
        }
        Ok(())
    }

    fn ranges(&mut self, die: &Die<'a>) -> gimli::Result<Vec<Range>> {
        let mut found = Vec::new();
        let ranges = PcRanges::of(&die.attributes);
        let dwarf = self.view.dwarf_of(self.number);
        ranges.each(&dwarf, self.unit, &mut self.budget, |range| {
            found.push(range);
        })?;
        Ok(found)
    }

    /// Base of `DW_OP_fbreg`: the call frame, or a register.
    fn frame_base(&self, die: &Die<'a>) -> Option<Base> {
        let AttributeValue::Exprloc(Expression(bytes)) = die.get(gimli::DW_AT_frame_base)? else {
            return None;
        };
        let mut operations = Expression(bytes).operations(self.unit.encoding());
        match operations.next().ok()?? {
            Operation::CallFrameCFA => Some(Base::CallFrame),
            Operation::Register { register } => Some(Base::Register(register.0)),
            _ => None,
        }
    }

    fn take_call(&mut self, die: &Die<'a>) {
        let after = die
            .get(gimli::DW_AT_call_return_pc)
            .or_else(|| die.get(gimli::DW_AT_low_pc));
        let origin = die
            .get(gimli::DW_AT_call_origin)
            .or_else(|| die.get(gimli::DW_AT_abstract_origin));
        let (Some(after), Some(origin)) = (after, origin) else {
            return;
        };
        let dwarf = self.view.dwarf_of(self.number);
        let Ok(Some(address)) = dwarf.attr_address(self.unit, after) else {
            return;
        };
        let callee = self.view.target(self.number, origin);
        let callee = callee.and_then(|callee| self.view.fetch(callee));
        let returned = callee.and_then(|(_, die)| self.view.type_through_origin(&die));
        if let Some(returned) = returned
            && self.found.call_results.len() < MAX_LOCALS
        {
            self.found.call_results.insert(address, returned);
        }
    }

    fn take_variable(&mut self, die: &Die<'a>, scope: &[Range]) -> gimli::Result<()> {
        let Some(location) = die.get(gimli::DW_AT_location) else {
            return Ok(());
        };
        let Some(of_type) = self.view.type_through_origin(die) else {
            return Ok(());
        };
        let variable = Variable {
            at: die.at,
            of_type,
        };
        if let AttributeValue::Exprloc(expression) = location {
            for range in scope {
                self.push(*range, &expression, variable);
            }
            return Ok(());
        }
        let dwarf = self.view.dwarf_of(self.number);
        let Some(mut entries) = dwarf.attr_locations(self.unit, location)? else {
            return Ok(());
        };
        while let Some(entry) = entries.next()? {
            let left = self.budget.checked_sub(1);
            self.budget = left.ok_or(gimli::Error::TooManyIterations)?;
            self.push(entry.range, &entry.data, variable);
        }
        Ok(())
    }

    /// Notes the places that a location has, if they are of a kind that is followed.
    fn push(&mut self, range: Range, location: &Expression<Slice<'a>>, variable: Variable) {
        // An expression that does not read is a place that is not known.
        for place in places(self.unit, location, self.found.frame).unwrap_or_default() {
            if range.begin < range.end && self.found.locals.len() < MAX_LOCALS {
                self.found.locals.push(Local {
                    begin: range.begin,
                    end: range.end,
                    place,
                    of_type: variable.of_type,
                    variable: Some(variable.at),
                });
            }
        }
    }
}

fn is_read(tag: gimli::DwTag) -> bool {
    matches!(
        tag,
        gimli::DW_TAG_subprogram
            | gimli::DW_TAG_lexical_block
            | gimli::DW_TAG_inlined_subroutine
            | gimli::DW_TAG_variable
            | gimli::DW_TAG_formal_parameter
            | gimli::DW_TAG_call_site
            | gimli::DW_TAG_GNU_call_site
    )
}

/// The places in a location expression: one, or one for each piece of the variable.
fn places(
    unit: &Unit<'_>,
    location: &Expression<Slice<'_>>,
    frame: Option<Base>,
) -> Option<Vec<LocalPlace>> {
    let mut found = Vec::new();
    let mut part = 0;
    let mut current: Option<LocalPlace> = None;
    let mut is_known = true;
    let mut operations = location.operations(unit.encoding());
    while let Some(operation) = operations.next().ok()? {
        match (operation, current) {
            (Operation::Piece { size_in_bits, .. }, _) => {
                found.extend(current.take().filter(|_| is_known));
                part += size_in_bits / 8;
                is_known = true;
            }
            (Operation::Register { register }, None) => {
                current = Some(LocalPlace::Value {
                    register: register.0,
                    addend: 0,
                    part,
                });
            }
            (
                Operation::RegisterOffset {
                    register, offset, ..
                },
                None,
            ) => {
                let base = Base::Register(register.0);
                current = Some(LocalPlace::Memory { base, offset });
            }
            (Operation::FrameOffset { offset }, None) => {
                let base = frame?;
                current = Some(LocalPlace::Memory { base, offset });
            }
            (Operation::Deref { .. }, Some(LocalPlace::Memory { base, offset })) => {
                current = Some(LocalPlace::Behind { base, offset });
            }
            (Operation::PlusConstant { value }, Some(LocalPlace::Memory { base, offset })) => {
                let offset = offset.checked_add_unsigned(value)?;
                current = Some(LocalPlace::Memory { base, offset });
            }
            (Operation::StackValue, Some(LocalPlace::Memory { base, offset })) => {
                current = value_of(base, offset, part);
                is_known &= current.is_some();
            }
            _ => is_known = false,
        }
    }
    // A variable in pieces says for each of them where it is; memory is counted from the variable's start.
    let whole = current.filter(|_| is_known && part == 0);
    found.extend(whole);
    let is_piece = |place: &LocalPlace| part == 0 || matches!(place, LocalPlace::Value { .. });
    found.retain(is_piece);
    Some(found)
}

fn value_of(base: Base, offset: i64, part: u64) -> Option<LocalPlace> {
    match base {
        Base::Register(register) => Some(LocalPlace::Value {
            register,
            addend: offset,
            part,
        }),
        Base::CallFrame => None,
    }
}
