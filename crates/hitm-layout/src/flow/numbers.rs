//! Arithmetic on values: pointers that are moved, and the numbers that they are moved by.

use super::insn::Place;
use super::state::{Pointer, State, Value, gcd};

/// The number that an address is computed as, where its parts are no pointers.
pub(super) fn numbers(state: &State, place: Place) -> Value {
    let base = place
        .base
        .map_or(Value::Constant(0), |base| state.get(base));
    let sum = match place.index {
        None => base,
        Some((index, scale)) => {
            let scale = i64::from(scale);
            let is_twice = place.base == Some(index);
            match (base, is_twice) {
                (Value::Unknown, true) => scaled(Value::Unknown, scale + 1),
                _ => sum(base, scaled(state.get(index), scale)),
            }
        }
    };
    moved(sum, place.offset)
}

/// A number of which nothing else is known, times a factor.
pub(super) const fn unknown_times(factor: i64) -> Value {
    Value::Linear {
        symbol: NO_SYMBOL,
        factor,
        add: 0,
    }
}

/// The symbol of a number that is like no other.
const NO_SYMBOL: u64 = u64::MAX;

pub(super) fn scaled(value: Value, by: i64) -> Value {
    match value {
        Value::Constant(number) => Value::Constant(number.wrapping_mul(by.cast_unsigned())),
        Value::Linear {
            symbol,
            factor,
            add,
        } => match (factor.checked_mul(by), add.checked_mul(by)) {
            (Some(factor), Some(add)) => Value::Linear {
                symbol,
                factor,
                add,
            },
            _ => Value::Unknown,
        },
        Value::Unknown => unknown_times(by),
        _ if by == 1 => value,
        _ => Value::Unknown,
    }
}

/// The sum of two numbers.
pub(super) fn sum(one: Value, other: Value) -> Value {
    match (one, other) {
        (Value::Constant(number), value) | (value, Value::Constant(number)) => {
            moved(value, number.cast_signed())
        }
        (Value::Pointer(_) | Value::Stack(_) | Value::Result(_), _)
        | (_, Value::Pointer(_) | Value::Stack(_) | Value::Result(_)) => Value::Unknown,
        (
            Value::Linear {
                symbol,
                factor,
                add,
            },
            Value::Linear {
                symbol: other_symbol,
                factor: other_factor,
                add: other_add,
            },
        ) => {
            let is_one = symbol == other_symbol && symbol != NO_SYMBOL;
            let factor = match is_one {
                true => factor.checked_add(other_factor),
                false => common(factor, other_factor),
            };
            match factor.zip(add.checked_add(other_add)) {
                Some((factor, add)) => Value::Linear {
                    symbol: if is_one { symbol } else { NO_SYMBOL },
                    factor,
                    add,
                },
                None => Value::Unknown,
            }
        }
        _ => Value::Unknown,
    }
}

/// The greatest factor that two have in common.
pub(super) fn common(one: i64, other: i64) -> Option<i64> {
    i64::try_from(gcd(one.unsigned_abs(), other.unsigned_abs())).ok()
}

/// Some multiple of a stride, and a constant.
#[derive(Debug, Clone, Copy)]
pub(super) struct Strides {
    /// 0 for the constant alone.
    stride: u64,
    add: i64,
}

impl Strides {
    /// Any number.
    const ANY: Strides = Strides { stride: 1, add: 0 };

    /// Knowledge about a number.
    fn of(value: Value) -> Strides {
        match value {
            Value::Linear { factor, add, .. } => Strides {
                stride: factor.unsigned_abs(),
                add,
            },
            Value::Constant(number) => Strides {
                stride: 0,
                add: number.cast_signed(),
            },
            _ => Strides::ANY,
        }
    }

    /// The same of a number and an offset.
    pub(super) fn with_offset(value: Value, offset: i64) -> Strides {
        let own = Strides::of(value);
        let add = own.add.checked_add(offset);
        add.map_or(Strides::ANY, |add| Strides { add, ..own })
    }
}

/// The sum of two values: a pointer moved by a number, or a number.
pub(super) fn stepped(from: Value, by: Value, is_twice: bool) -> Value {
    match (from, by) {
        (Value::Pointer(_), Value::Pointer(_)) => Value::Unknown,
        (Value::Pointer(pointer), by) | (by, Value::Pointer(pointer)) => {
            stepped_by(pointer, Strides::of(by))
        }
        (Value::Unknown, Value::Unknown) if !is_twice => Value::Unknown,
        _ => sum(from, by),
    }
}

/// A pointer after a step.
pub(super) fn stepped_by(pointer: Pointer, by: Strides) -> Value {
    match pointer.offset.checked_add(by.add) {
        Some(offset) => Value::Pointer(Pointer {
            offset,
            stride: gcd(pointer.stride, by.stride),
            ..pointer
        }),
        None => Value::Unknown,
    }
}

/// A value with a constant added.
pub(super) fn moved(value: Value, add: i64) -> Value {
    match value {
        Value::Pointer(pointer) => match pointer.offset.checked_add(add) {
            Some(offset) => Value::Pointer(Pointer { offset, ..pointer }),
            None => Value::Unknown,
        },
        Value::Stack(at) => at.checked_add(add).map_or(Value::Unknown, Value::Stack),
        Value::Constant(number) => Value::Constant(number.wrapping_add_signed(add)),
        Value::Linear {
            symbol,
            factor,
            add: before,
        } => match before.checked_add(add) {
            Some(add) => Value::Linear {
                symbol,
                factor,
                add,
            },
            None => Value::Unknown,
        },
        Value::PerCpu(at) => Value::PerCpu(at.wrapping_add_signed(add)),
        Value::Result(_) if add == 0 => value,
        _ => Value::Unknown,
    }
}
