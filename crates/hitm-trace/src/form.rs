//! The forms in which members of records are written. Each knows how to write a value, how to read it
//! back, the limit that both hold, and how it is described.

use std::marker::PhantomData;

use hitm_base::{AddrRange, CodeAddr, CpuId, Cycles, ThreadId};

use crate::limits::{CALLERS_MAX, COUNT_MAX, check_callers};
use crate::shape::{Choice, Quantity, Shape};
use crate::wire::{Cursor, push_bytes, push_varint, unzigzag, zigzag};
use crate::{DecodeFault, EncodeError};

/// The reason for which a payload is no record.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The bytes are wrong.
    Fault(DecodeFault),
    /// A later version gave the record another meaning: it is passed over.
    Later,
}

impl From<DecodeFault> for Stop {
    fn from(fault: DecodeFault) -> Stop {
        Stop::Fault(fault)
    }
}

/// A form in which a `T` is written.
pub(crate) trait Form<T> {
    /// Appends the value; refuses what no recording may hold.
    fn put(&self, value: &T, out: &mut Vec<u8>) -> Result<(), EncodeError>;
    /// Reads the value.
    fn take(&self, cursor: &mut Cursor<'_>) -> Result<T, Stop>;
    /// Describes the bytes.
    fn shape(&self) -> Shape;
    /// The time that the value is or has.
    fn time(&self, _value: &T) -> Option<Cycles> {
        None
    }
}

/// A type that has one form; `written!` implements it.
pub(crate) trait Written: Sized {
    /// Appends the value; refuses what no recording may hold.
    fn put(&self, out: &mut Vec<u8>) -> Result<(), EncodeError>;
    /// Reads the value.
    fn take(cursor: &mut Cursor<'_>) -> Result<Self, Stop>;
    /// Describes the bytes.
    fn shape() -> Shape;
    /// The time that the value has.
    fn time(&self) -> Option<Cycles> {
        None
    }
}

/// The one form of a type.
#[derive(Debug)]
pub(crate) struct Whole;

impl<T: Written> Form<T> for Whole {
    fn put(&self, value: &T, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        value.put(out)
    }

    fn take(&self, cursor: &mut Cursor<'_>) -> Result<T, Stop> {
        T::take(cursor)
    }

    fn shape(&self) -> Shape {
        T::shape()
    }

    fn time(&self, value: &T) -> Option<Cycles> {
        value.time()
    }
}

/// The form of another type, `W`, which says the same.
#[derive(Debug)]
pub(crate) struct As<W>(PhantomData<W>);

impl<W> As<W> {
    pub(crate) const FORM: As<W> = As(PhantomData);
}

impl<T: Copy + From<W>, W: Written + From<T>> Form<T> for As<W> {
    fn put(&self, value: &T, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        W::from(*value).put(out)
    }

    fn take(&self, cursor: &mut Cursor<'_>) -> Result<T, Stop> {
        W::take(cursor).map(T::from)
    }

    fn shape(&self) -> Shape {
        W::shape()
    }
}

/// A count and that many values.
#[derive(Debug)]
pub(crate) struct Many;

impl<T: Written> Form<Vec<T>> for Many {
    fn put(&self, values: &Vec<T>, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        push_varint(out, values.len() as u64);
        values.iter().try_for_each(|value| value.put(out))
    }

    fn take(&self, cursor: &mut Cursor<'_>) -> Result<Vec<T>, Stop> {
        let count = cursor.count()?;
        (0..count).map(|_| T::take(cursor)).collect()
    }

    fn shape(&self) -> Shape {
        match T::shape() {
            Shape::Parts(members) => Shape::Many(members),
            other => other,
        }
    }
}

/// A value at the end of a record that is left out when there is none.
#[derive(Debug)]
pub(crate) struct Optional<F>(pub(crate) F);

impl<T, F: Form<T>> Form<Option<T>> for Optional<F> {
    fn put(&self, value: &Option<T>, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        value.iter().try_for_each(|value| self.0.put(value, out))
    }

    fn take(&self, cursor: &mut Cursor<'_>) -> Result<Option<T>, Stop> {
        self.0.take(cursor).map(Some)
    }

    fn shape(&self) -> Shape {
        self.0.shape()
    }
}

/// A number at the end of a record that is left out when it is 0.
#[derive(Debug)]
pub(crate) struct UnlessZero<F>(pub(crate) F);

impl<T: Word, F: Form<T>> Form<T> for UnlessZero<F> {
    fn put(&self, value: &T, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        match value.word() {
            0 => Ok(()),
            _ => self.0.put(value, out),
        }
    }

    fn take(&self, cursor: &mut Cursor<'_>) -> Result<T, Stop> {
        self.0.take(cursor)
    }

    fn shape(&self) -> Shape {
        self.0.shape()
    }
}

/// A type that a varint holds.
pub(crate) trait Word: Copy {
    /// The value as a number.
    fn word(self) -> u64;
    /// The value of a number; none when the number is too large.
    fn of_word(word: u64) -> Option<Self>;
}

macro_rules! words {
    ($($type:ty: |$value:ident| $word:expr, $of_word:expr;)+) => {
        $(impl Word for $type {
            fn word(self) -> u64 {
                let $value = self;
                $word
            }

            fn of_word(word: u64) -> Option<$type> {
                word.try_into().ok().map($of_word)
            }
        })+
    };
}

words! {
    u32: |value| value.into(), |word| word;
    u64: |value| value, |word: u64| word;
    ThreadId: |value| value.0.into(), ThreadId;
    CpuId: |value| value.0.into(), CpuId;
    Cycles: |value| value.0, Cycles;
    CodeAddr: |value| value.0, CodeAddr;
}

/// A varint with a limit.
#[derive(Debug)]
pub(crate) struct Number {
    quantity: Quantity,
    most: u64,
    /// Its name in errors.
    name: &'static str,
}

/// Any number.
pub(crate) const NUMBER: Number = Number::any(Quantity::Any, u64::MAX, "number");
/// A thread.
pub(crate) const THREAD: Number = Number::any(Quantity::Thread, u32::MAX as u64, "thread");
/// A modelled CPU.
pub(crate) const CPU: Number = Number::any(Quantity::Cpu, u16::MAX as u64, "cpu");
/// The time of a record.
pub(crate) const TIME: Number = Number::any(Quantity::Time, COUNT_MAX, "time");
/// An address of data.
pub(crate) const ADDRESS: Number = Number::any(Quantity::Address, u64::MAX, "address");
/// An address from which the record's range can be laid out as well.
pub(crate) const RANGE_ADDRESS: Number = Number::any(Quantity::RangeAddress, u64::MAX, "address");
/// An address of code.
pub(crate) const CODE: Number = Number::any(Quantity::Code, u64::MAX, "code address");

impl Number {
    const fn any(quantity: Quantity, most: u64, name: &'static str) -> Number {
        Number {
            quantity,
            most,
            name,
        }
    }

    /// A number of 32 bits.
    pub(crate) const fn id(name: &'static str) -> Number {
        Number::any(Quantity::Id, u32::MAX as u64, name)
    }

    /// A count that may be added to others.
    pub(crate) const fn count(name: &'static str) -> Number {
        Number::any(Quantity::Count, COUNT_MAX, name)
    }
}

impl<T: Word> Form<T> for Number {
    fn put(&self, value: &T, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let (field, found) = (self.name, value.word());
        if found > self.most {
            return Err(EncodeError::OutOfRange { field, found });
        }
        push_varint(out, found);
        Ok(())
    }

    fn take(&self, cursor: &mut Cursor<'_>) -> Result<T, Stop> {
        let (field, found) = (self.name, cursor.varint()?);
        let value = T::of_word(found).filter(|_| found <= self.most);
        value.ok_or(DecodeFault::OutOfRange { field, found }.into())
    }

    fn shape(&self) -> Shape {
        Shape::Number {
            quantity: self.quantity,
            most: self.most,
        }
    }

    fn time(&self, value: &T) -> Option<Cycles> {
        (self.quantity == Quantity::Time).then(|| Cycles(value.word()))
    }
}

/// A signed number.
#[derive(Debug)]
pub(crate) struct Signed;

impl Form<i64> for Signed {
    fn put(&self, value: &i64, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        push_varint(out, zigzag(*value));
        Ok(())
    }

    fn take(&self, cursor: &mut Cursor<'_>) -> Result<i64, Stop> {
        Ok(unzigzag(cursor.varint()?))
    }

    fn shape(&self) -> Shape {
        Shape::Signed
    }
}

/// A text, with its name in errors.
#[derive(Debug)]
pub(crate) struct Text(pub(crate) &'static str);

impl Form<String> for Text {
    fn put(&self, value: &String, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        push_bytes(out, value.as_bytes());
        Ok(())
    }

    fn take(&self, cursor: &mut Cursor<'_>) -> Result<String, Stop> {
        Ok(cursor.string(self.0)?)
    }

    fn shape(&self) -> Shape {
        Shape::Text
    }
}

/// Any bytes.
#[derive(Debug)]
pub(crate) struct Bytes;

impl Form<Vec<u8>> for Bytes {
    fn put(&self, value: &Vec<u8>, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        push_bytes(out, value);
        Ok(())
    }

    fn take(&self, cursor: &mut Cursor<'_>) -> Result<Vec<u8>, Stop> {
        Ok(cursor.bytes()?.to_vec())
    }

    fn shape(&self) -> Shape {
        Shape::Bytes
    }
}

/// True or false.
#[derive(Debug)]
pub(crate) struct Flag;

impl Form<bool> for Flag {
    fn put(&self, value: &bool, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        out.push(u8::from(*value));
        Ok(())
    }

    fn take(&self, cursor: &mut Cursor<'_>) -> Result<bool, Stop> {
        Ok(cursor.byte()? & 1 != 0)
    }

    fn shape(&self) -> Shape {
        Shape::Flag
    }
}

/// Return addresses, innermost call first.
#[derive(Debug)]
pub(crate) struct Stack;

impl Form<Vec<CodeAddr>> for Stack {
    fn put(&self, value: &Vec<CodeAddr>, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        check_callers(value.len())?;
        push_varint(out, value.len() as u64);
        value.iter().for_each(|code| push_varint(out, code.0));
        Ok(())
    }

    fn take(&self, cursor: &mut Cursor<'_>) -> Result<Vec<CodeAddr>, Stop> {
        let count = caller_count(cursor)?;
        let caller = |_| Ok(CodeAddr(cursor.varint()?));
        (0..count).map(caller).collect()
    }

    fn shape(&self) -> Shape {
        Shape::Stack
    }
}

/// The number of callers that follow.
pub(crate) fn caller_count(cursor: &mut Cursor<'_>) -> Result<usize, DecodeFault> {
    let count = cursor.count()?;
    match count <= CALLERS_MAX {
        true => Ok(count),
        false => Err(DecodeFault::OutOfRange {
            field: "number of callers",
            found: count as u64,
        }),
    }
}

/// Addresses, with their name in errors: the first one and the one after the last.
#[derive(Debug)]
pub(crate) struct Range(pub(crate) &'static str);

impl Form<AddrRange> for Range {
    fn put(&self, value: &AddrRange, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        push_varint(out, value.start());
        push_varint(out, value.end());
        Ok(())
    }

    fn take(&self, cursor: &mut Cursor<'_>) -> Result<AddrRange, Stop> {
        let (what, start, end) = (self.0, cursor.varint()?, cursor.varint()?);
        AddrRange::new(start, end).ok_or(DecodeFault::Range { what, start, end }.into())
    }

    fn shape(&self) -> Shape {
        Shape::Range
    }
}

/// Addresses, with their name in errors: the first one and the number of bytes.
#[derive(Debug)]
pub(crate) struct SizedRange(pub(crate) &'static str);

impl SizedRange {
    /// The range; an error when it wraps.
    pub(crate) fn of(&self, start: u64, len: u64) -> Result<AddrRange, DecodeFault> {
        let (what, end) = (self.0, start.wrapping_add(len));
        AddrRange::with_len(start, len).ok_or(DecodeFault::Range { what, start, end })
    }
}

impl Form<AddrRange> for SizedRange {
    fn put(&self, value: &AddrRange, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        push_varint(out, value.start());
        push_varint(out, value.len());
        Ok(())
    }

    fn take(&self, cursor: &mut Cursor<'_>) -> Result<AddrRange, Stop> {
        let (start, len) = (cursor.varint()?, cursor.varint()?);
        Ok(self.of(start, len)?)
    }

    fn shape(&self) -> Shape {
        Shape::SizedRange
    }
}

/// A byte that stands for something; numbers without a meaning are kept. Meanings are in order, from 0.
#[derive(Debug)]
pub(crate) struct Code(pub(crate) &'static [&'static str]);

impl Form<u8> for Code {
    fn put(&self, value: &u8, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        out.push(*value);
        Ok(())
    }

    fn take(&self, cursor: &mut Cursor<'_>) -> Result<u8, Stop> {
        Ok(cursor.byte()?)
    }

    fn shape(&self) -> Shape {
        let choice = |(number, doc): (u64, &&'static str)| Choice {
            number,
            doc,
            since: 0,
            members: Vec::new(),
        };
        Shape::Choice {
            is_byte: true,
            choices: (0..).zip(self.0).map(choice).collect(),
        }
    }
}

/// The number that says which of several alternatives follows.
#[derive(Debug)]
pub(crate) enum Tag {
    /// A byte. Records with others are passed over.
    Byte,
    /// A varint. Records with others are passed over.
    Number,
    /// A byte, with its name in errors. Others are refused.
    Known(&'static str),
}

impl Tag {
    pub(crate) fn put(&self, number: u8, out: &mut Vec<u8>) {
        match self {
            Tag::Byte | Tag::Known(_) => out.push(number),
            Tag::Number => push_varint(out, number.into()),
        }
    }

    pub(crate) fn take(&self, cursor: &mut Cursor<'_>) -> Result<u64, DecodeFault> {
        match self {
            Tag::Byte | Tag::Known(_) => cursor.byte().map(u64::from),
            Tag::Number => cursor.varint(),
        }
    }

    /// The end of a record with a number that this version does not know.
    pub(crate) fn unknown(&self, found: u64) -> Stop {
        match *self {
            Tag::Byte | Tag::Number => Stop::Later,
            Tag::Known(field) => Stop::Fault(DecodeFault::Reserved {
                field,
                found: found as u8,
            }),
        }
    }

    pub(crate) fn shape(&self, choices: Vec<Choice>) -> Shape {
        Shape::Choice {
            is_byte: !matches!(self, Tag::Number),
            choices,
        }
    }
}
