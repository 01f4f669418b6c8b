//! Facts from debug information about registers and stack slots, ready for one function's
//! instructions.

use super::insn::{Reg, ZERO};
use super::state::{Pointer, State, Value};
use super::types::{Types, bytes_of};
use crate::dwarf::{Base, FunctionLocals, LocalPlace};
use crate::types::{TypeId, TypeStore};

/// Facts that one function may have about its stack: compilers without optimisation have one for each
/// variable.
const FRAME_MAX: usize = 4096;

/// Facts about registers that are noted with instructions.
const EVENTS_MAX: usize = 1 << 18;

/// A register points into an object, from one instruction to another.
#[derive(Debug, Clone, Copy)]
struct RegisterFact {
    reg: Reg,
    pointer: Pointer,
    /// True if this only holds where the register is no place of the stack.
    is_by_reference: bool,
}

/// A variable lies on the stack, from one address to another.
#[derive(Debug, Clone, Copy)]
struct FrameFact {
    begin: u64,
    end: u64,
    base: Base,
    offset: i64,
    holds: Holds,
}

/// Contents of a place on the stack.
#[derive(Debug, Clone, Copy)]
enum Holds {
    Object(TypeId),
    PointerTo(TypeId),
}

/// All facts of a function.
#[derive(Debug, Default)]
pub(super) struct Facts {
    /// By the number of the instruction from which on they are known; those of one in order.
    events: Vec<(usize, RegisterFact)>,
    frame: Vec<FrameFact>,
}

impl Facts {
    /// The facts of a function with instructions at `addresses`, of which those at `leaders` are reached
    /// in several ways: there all that holds is noted again.
    pub(super) fn new<T: Types>(
        locals: &FunctionLocals<T::At>,
        addresses: &[u64],
        leaders: &[usize],
        types: &mut T,
    ) -> Facts {
        let mut facts = Facts::default();
        for local in &locals.locals {
            let of_type = types.read(local.of_type);
            let on_stack = |base, offset, holds| FrameFact {
                begin: local.begin,
                end: local.end,
                base,
                offset,
                holds,
            };
            let first = addresses.partition_point(|at| *at < local.begin);
            let after = addresses.partition_point(|at| *at < local.end);
            let fact = match local.place {
                LocalPlace::Value {
                    register,
                    addend,
                    part,
                } => {
                    let to = types.pointer_at(of_type, part);
                    to.and_then(|to| fact_of(register, to, addend, false))
                }
                LocalPlace::Memory { base, offset } => {
                    facts.add_frame(on_stack(base, offset, Holds::Object(of_type)));
                    match base {
                        Base::Register(register) => fact_of(register, of_type, offset, true),
                        Base::CallFrame => None,
                    }
                }
                LocalPlace::Behind { base, offset } => {
                    facts.add_frame(on_stack(base, offset, Holds::PointerTo(of_type)));
                    None
                }
            };
            if let Some(fact) = fact.filter(|_| first < after) {
                facts.add_events(fact, first, after, leaders);
            }
        }
        facts.events.sort_by_key(|event| event.0);
        facts
    }

    fn add_frame(&mut self, fact: FrameFact) {
        if self.frame.len() < FRAME_MAX {
            self.frame.push(fact);
        }
    }

    fn add_events(&mut self, fact: RegisterFact, first: usize, after: usize, leaders: &[usize]) {
        let inner = leaders.partition_point(|leader| *leader <= first);
        let again = leaders[inner..]
            .iter()
            .take_while(|leader| **leader < after);
        for at in std::iter::once(&first).chain(again) {
            if self.events.len() < EVENTS_MAX {
                self.events.push((*at, fact));
            }
        }
    }

    /// Puts what becomes known at an instruction into the state. `assigned` is called with each call whose
    /// result a variable gets, and the type that it is then of.
    pub(super) fn apply(
        &self,
        at: usize,
        state: &mut State,
        types: &TypeStore,
        mut assigned: impl FnMut(u64, TypeId),
    ) {
        let first = self.events.partition_point(|event| event.0 < at);
        let here = self.events[first..]
            .iter()
            .take_while(|event| event.0 == at);
        for (_, fact) in here {
            let known = state.get(fact.reg);
            let is_stack = matches!(known, Value::Stack(_));
            let is_number = matches!(known, Value::Unknown | Value::Linear { .. });
            if is_stack || (fact.is_by_reference && !is_number) {
                continue;
            }
            if let (Value::Result(call), 0) = (known, fact.pointer.offset) {
                assigned(call, fact.pointer.to);
            }
            if let Value::Pointer(own) = known
                && says_more(own, fact.pointer, types)
            {
                continue;
            }
            state.set(fact.reg, Value::Pointer(fact.pointer));
        }
    }

    /// Type that the variable at a place of the stack points at, where the instruction at `address` is.
    pub(super) fn pointer_on_stack<T: Types>(
        &self,
        address: u64,
        at: i64,
        state: &State,
        types: &mut T,
    ) -> Option<TypeId> {
        let mut here = self
            .frame
            .iter()
            .filter(|fact| (fact.begin..fact.end).contains(&address));
        here.find_map(|fact| {
            let base = place_of(fact.base, state)?;
            let into = at.checked_sub(base.checked_add(fact.offset)?)?;
            let into = u64::try_from(into).ok()?;
            match fact.holds {
                Holds::Object(of) if into < bytes_of(types.store(), of)? => {
                    types.pointer_at(of, into)
                }
                Holds::PointerTo(to) if into == 0 => Some(to),
                _ => None,
            }
        })
    }
}

/// Returns true if the pointer that was followed here says more than the variable that holds it.
/// Such a pointer is one into an object around what the variable is declared to point at, or to one
/// where that is a plain value.
fn says_more(own: Pointer, declared: Pointer, types: &TypeStore) -> bool {
    if own.stride > 0 {
        return false;
    }
    let Some(into) = own.offset.checked_sub(declared.offset) else {
        return false;
    };
    let Ok(into) = u64::try_from(into) else {
        return false;
    };
    let is_inside = bytes_of(types, own.to).is_some_and(|size| into < size);
    let is_larger = bytes_of(types, own.to) > bytes_of(types, declared.to);
    is_inside && is_larger && types.has_part(own.to, into, declared.to)
}

fn fact_of(register: u16, to: TypeId, addend: i64, is_by_reference: bool) -> Option<RegisterFact> {
    Some(RegisterFact {
        reg: followed(register)?,
        pointer: Pointer::new(to, addend.checked_neg()?),
        is_by_reference,
    })
}

/// Place of a base on the stack, from the call frame's; none where the register has no place there.
pub(super) fn place_of(base: Base, state: &State) -> Option<i64> {
    match base {
        Base::CallFrame => Some(0),
        Base::Register(register) => match state.get(followed(register)?) {
            Value::Stack(base) => Some(base),
            _ => None,
        },
    }
}

fn followed(register: u16) -> Option<Reg> {
    let reg = Reg::try_from(register).ok()?;
    (reg < ZERO).then_some(reg)
}
