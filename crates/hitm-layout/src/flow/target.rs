//! The memory that an instruction's place lies in.

use super::insn::Place;
use super::numbers::{Strides, moved, scaled, stepped_by, sum};
use super::state::{Pointer, State, Value};

/// The memory that a place lies in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    Object(Pointer),
    Stack(i64),
    Static(u64),
    /// A CPU's copy of the variable at an address.
    PerCpu(u64),
    Unknown,
}

impl Target {
    /// Target of a place with registers as `state` has them.
    pub(super) fn of(state: &State, place: Place) -> Target {
        let index = place.index.map(|(index, scale)| (state.get(index), scale));
        match (place.base.map(|base| state.get(base)), index) {
            (None, Some((index, 1))) => Target::at(moved(index, place.offset)),
            (None, _) => Target::Static(place.offset.cast_unsigned()),
            (Some(base), None) => Target::at(moved(base, place.offset)),
            (Some(base), Some((index, scale))) => {
                Target::at(indexed(base, index, scale, place.offset))
            }
        }
    }

    /// The memory at an address.
    pub(super) fn at(address: Value) -> Target {
        match address {
            Value::Pointer(pointer) => Target::Object(pointer),
            Value::Stack(at) => Target::Stack(at),
            Value::Constant(address) if address != 0 => Target::Static(address),
            Value::PerCpu(address) if address != 0 => Target::PerCpu(address),
            _ => Target::Unknown,
        }
    }
}

/// The sum of a base, a scaled index and an offset.
fn indexed(base: Value, index: Value, scale: u8, offset: i64) -> Value {
    let by = scaled(index, i64::from(scale));
    match (base, index) {
        (Value::Pointer(_), Value::Pointer(_)) => Value::Unknown,
        (Value::Pointer(pointer), _) => stepped_by(pointer, Strides::with_offset(by, offset)),
        (_, Value::Pointer(pointer)) if scale == 1 => {
            stepped_by(pointer, Strides::with_offset(base, offset))
        }
        (Value::Constant(_), Value::PerCpu(_)) if scale == 1 => moved(sum(base, index), offset),
        (Value::Constant(_), _) => moved(base, offset),
        _ => Value::Unknown,
    }
}
