//! Values of registers and stack slots at one place of a function.

use std::collections::BTreeMap;

use super::insn::{Convention, REGISTERS, Reg, ZERO};
use crate::types::{TypeId, TypeStore};

/// Knowledge about a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Value {
    Unknown,
    /// A number: an address, or nothing (0).
    Constant(u64),
    /// `symbol * factor + add`, where the symbol is a number of which nothing else is known, by the address
    /// of the instruction that made it.
    Linear {
        symbol: u64,
        factor: i64,
        add: i64,
    },
    /// An address on the stack, from the call frame's.
    Stack(i64),
    /// A pointer into an object.
    Pointer(Pointer),
    /// The result of the call before this address.
    Result(u64),
    /// A CPU's copy of the variable at an address. With 0 the distance to it from any variable.
    PerCpu(u64),
}

impl Value {
    /// A pointer to the first byte of an object.
    pub(super) const fn pointer_to(to: TypeId) -> Value {
        Value::Pointer(Pointer::new(to, 0))
    }
}

/// A pointer to byte `offset` of an object, or some multiple of `stride` bytes from there: into another
/// element of an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pointer {
    pub(super) to: TypeId,
    pub(super) offset: i64,
    /// 0 where it is known which one.
    pub(super) stride: u64,
}

impl Pointer {
    pub(super) const fn new(to: TypeId, offset: i64) -> Pointer {
        Pointer {
            to,
            offset,
            stride: 0,
        }
    }
}

/// Stack slots that are followed.
const SLOTS_MAX: usize = 256;

/// Registers and stack slots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct State {
    registers: [Value; REGISTERS],
    /// By offset from the call frame.
    slots: BTreeMap<i64, Value>,
}

impl State {
    /// Nothing is known.
    pub(super) const fn unknown() -> State {
        State {
            registers: [Value::Unknown; REGISTERS],
            slots: BTreeMap::new(),
        }
    }

    /// At the entry of a function.
    pub(super) fn at_entry(convention: &Convention) -> State {
        let mut state = State::unknown();
        state.set(convention.stack, Value::Stack(convention.stack_at_entry));
        state
    }

    pub(super) fn get(&self, reg: Reg) -> Value {
        self.registers[usize::from(reg)]
    }

    pub(super) fn set(&mut self, reg: Reg, value: Value) {
        if reg != ZERO {
            self.registers[usize::from(reg)] = value;
        }
    }

    /// Gives a register a number that is not known, as what the instruction at `symbol` makes.
    pub(super) fn set_new(&mut self, reg: Reg, symbol: u64) {
        for value in &mut self.registers {
            // An earlier run of the instruction made another number.
            if matches!(value, Value::Linear { symbol: known, .. } if *known == symbol) {
                *value = Value::Unknown;
            }
        }
        let number = Value::Linear {
            symbol,
            factor: 1,
            add: 0,
        };
        self.set(reg, number);
    }

    pub(super) fn slot(&self, at: i64) -> Value {
        self.slots.get(&at).copied().unwrap_or(Value::Unknown)
    }

    /// Sets a slot of eight bytes. Those that it overlaps are lost.
    pub(super) fn set_slot(&mut self, at: i64, value: Value) {
        let overlapped = at.saturating_sub(7)..=at.saturating_add(7);
        while let Some((&slot, _)) = self.slots.range(overlapped.clone()).next() {
            self.slots.remove(&slot);
        }
        let is_number = matches!(value, Value::Unknown | Value::Linear { .. });
        if !is_number && self.slots.len() < SLOTS_MAX {
            self.slots.insert(at, value);
        }
    }

    /// Knows where the stack is, and nothing else.
    pub(super) fn stack(&self) -> State {
        let is_stack = |value: Value| matches!(value, Value::Stack(_));
        let registers = self.registers;
        State {
            registers: registers.map(|one| if is_stack(one) { one } else { Value::Unknown }),
            slots: BTreeMap::new(),
        }
    }

    /// Takes in what is known where another way leads to the same place, by how two values are joined. Returns
    /// true if that changed anything.
    pub(super) fn join(&mut self, other: &State, join: impl Fn(Value, Value) -> Value) -> bool {
        let mut is_changed = false;
        for (own, other) in self.registers.iter_mut().zip(&other.registers) {
            let joined = join(*own, *other);
            is_changed |= joined != *own;
            *own = joined;
        }
        self.slots.retain(|at, own| {
            let joined = join(*own, other.slot(*at));
            is_changed |= joined != *own;
            *own = joined;
            joined != Value::Unknown
        });
        is_changed
    }
}

/// Joins what is known about a value that is one of two. The order matters once only: a chain of
/// joins ends, because each one that changes its first value loses something: zero, an element,
/// everything.
pub(super) fn join(one: Value, other: Value, types: &TypeStore) -> Value {
    match (one, other) {
        _ if one == other => one,
        (Value::Constant(0), Value::Pointer(_)) => other,
        (Value::Pointer(_), Value::Constant(0)) => one,
        (Value::Pointer(one), Value::Pointer(other)) => join_pointers(one, other, types),
        _ => Value::Unknown,
    }
}

fn join_pointers(one: Pointer, other: Pointer, types: &TypeStore) -> Value {
    if !types.is_same(one.to, other.to) {
        return Value::Unknown;
    }
    let distance = one.offset.abs_diff(other.offset);
    let stride = gcd(gcd(one.stride, other.stride), distance);
    Value::Pointer(Pointer { stride, ..one })
}

/// Joins pointers of which one points at an object inside that of the other: to the inner one. Each such join
/// loses the object around.
pub(super) fn join_parts(one: Value, other: Value, types: &TypeStore) -> Value {
    match (one, other) {
        (Value::Pointer(one), Value::Pointer(other)) => {
            let inner = part_of(one, other, types).or_else(|| part_of(other, one, types));
            inner.map_or(Value::Unknown, Value::Pointer)
        }
        _ => Value::Unknown,
    }
}

/// The inner pointer, if the object that it points at lies in that of the outer one.
fn part_of(inner: Pointer, outer: Pointer, types: &TypeStore) -> Option<Pointer> {
    let begin = u64::try_from(outer.offset.checked_sub(inner.offset)?).ok()?;
    let is_plain = inner.stride == 0 && outer.stride == 0;
    let is_part = is_plain && types.has_part(outer.to, begin, inner.to);
    is_part.then_some(inner)
}

/// The greatest common divisor; of 0 and a number the number.
pub(super) const fn gcd(mut one: u64, mut other: u64) -> u64 {
    while other != 0 {
        (one, other) = (other, one % other);
    }
    one
}
