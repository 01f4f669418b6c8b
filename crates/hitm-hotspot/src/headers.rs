//! Headers of objects: a mark word, and the object's class behind it or, in compact ones (JDK 24 and later), in it.

use crate::{HotspotError, JavaMachine};

/// Length of user addresses, in bits.
const ADDRESS_BITS: u32 = 47;

/// Place of the class in a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A whole address behind the mark.
    Whole { at: u64 },
    /// 32 bits behind the mark.
    Narrow { at: u64, scale: Scale },
    /// The upper bits of the mark.
    InMark { from_bit: u32, scale: Scale },
}

/// A class's address is the base and the shifted number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Scale {
    base: u64,
    shift: u32,
}

impl Scale {
    fn address(self, narrow: u64) -> u64 {
        let distance = narrow.checked_shl(self.shift).unwrap_or(0);
        self.base.wrapping_add(distance)
    }
}

/// The headers of a Java machine's objects (markWord.hpp).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Headers {
    kind: Kind,
    /// Bits that are zero in a mark that is no pointer.
    unused: u64,
}

impl Headers {
    /// Returns true if a word may be the first one of an object: unlocked, with or without a hash; or locked, with
    /// or without a pointer.
    pub(crate) fn is_mark(self, word: u64) -> bool {
        let is_pointer = word > 3 && word >> ADDRESS_BITS == 0;
        let has_class = matches!(self.kind, Kind::InMark { .. });
        match word & 3 {
            3 => false,
            1 => word & self.unused == 0,
            _ if has_class => word & self.unused == 0,
            2 => is_pointer,
            _ => is_pointer || word == 0,
        }
    }

    /// Place of an array's length.
    pub(crate) fn length_at(self) -> u64 {
        match self.kind {
            Kind::Whole { at } => at.wrapping_add(8),
            // It fills the space behind the class.
            Kind::Narrow { at, .. } => at.wrapping_add(4),
            Kind::InMark { .. } => 8,
        }
    }
}

impl JavaMachine<'_> {
    /// The headers of this machine's objects.
    pub(crate) fn headers(&self) -> Result<Headers, HotspotError> {
        let (tables, view) = (&self.tables, &self.view);
        let bit = |name| {
            let bit = tables.long_constant(name)?;
            Ok::<u32, HotspotError>(bit.min(u64::BITS.into()) as u32)
        };
        let (hash_from, hash_bits) = (bit("markWord::hash_shift")?, bit("markWord::hash_bits")?);
        let age_end = bit("markWord::age_shift")? + bit("markWord::age_bits")?;
        let above_hash = !below(hash_from + hash_bits);
        if tables.flag(view, "UseCompactObjectHeaders")? == Some(true) {
            return Ok(Headers {
                kind: Kind::InMark {
                    from_bit: bit("markWord::klass_shift")?,
                    scale: self.class_scale()?,
                },
                unused: below(hash_from) & !below(age_end),
            });
        }
        let kind = match tables.flag(view, "UseCompressedClassPointers")? {
            Some(false) => Kind::Whole {
                at: tables.offset("oopDesc", "_metadata._klass")?,
            },
            _ => Kind::Narrow {
                at: tables.offset("oopDesc", "_metadata._compressed_klass")?,
                scale: self.class_scale()?,
            },
        };
        Ok(Headers {
            kind,
            unused: above_hash,
        })
    }

    /// Base and shift of classes: members of one variable until JDK 20, then two variables.
    fn class_scale(&self) -> Result<Scale, HotspotError> {
        let (tables, view) = (&self.tables, &self.view);
        let of = "CompressedKlassPointers";
        let variable = |old, new| {
            tables
                .variable(of, old)
                .or_else(|_| tables.variable(of, new))
        };
        let base = variable("_narrow_klass._base", "_base")?;
        let shift = variable("_narrow_klass._shift", "_shift")?;
        Ok(Scale {
            base: view.word(base)?,
            shift: view.int(shift)? as u32,
        })
    }

    /// The class in an object's header.
    pub(crate) fn class_of(&self, headers: Headers, object: u64) -> Result<u64, HotspotError> {
        Ok(match headers.kind {
            Kind::Whole { at } => self.view.word(object.wrapping_add(at))?,
            Kind::Narrow { at, scale } => {
                let narrow = self.view.int(object.wrapping_add(at))? as u32;
                scale.address(narrow.into())
            }
            Kind::InMark { from_bit, scale } => {
                let mark = self.view.word(object)?;
                scale.address(mark.checked_shr(from_bit).unwrap_or(0))
            }
        })
    }
}

/// The bits below one.
fn below(bit: u32) -> u64 {
    1_u64.checked_shl(bit).map_or(u64::MAX, |first| first - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_unlocked_or_locked() {
        let headers = Headers {
            kind: Kind::Whole { at: 8 },
            unused: !0 << 39,
        };
        let is_mark = |word| headers.is_mark(word);
        // Unlocked, with a hash, inflated, locked on a stack, locked without a pointer.
        let marks = [1, 0x25_1a_b3_c4_01, 0x7f12_3456_7802, 0x7f12_3456_7890, 0];
        assert_eq!(marks.map(is_mark), [true; 5]);
        // Forwarded, a monitor of no address, text.
        let others = [0x7f12_3456_7803, 2, 0x6c6c_6f77_206f_6c6d];
        assert_eq!(others.map(is_mark), [false; 3]);
    }

    #[test]
    fn compact_marks_have_a_class_in_any_state() {
        let scale = Scale {
            base: 0x1000,
            shift: 10,
        };
        let headers = Headers {
            kind: Kind::InMark {
                from_bit: 42,
                scale,
            },
            unused: 0b1111 << 7,
        };
        // Class 5: unlocked with an age and a hash, locked, inflated; then forwarded, and with a bit in the gap.
        let class = 5 << 42;
        let is_mark = |low: u64| headers.is_mark(class | low);
        assert_eq!([0x1a_b0_09, 0, 2].map(is_mark), [true; 3]);
        assert_eq!([3, 0x81].map(is_mark), [false; 2]);
        assert_eq!(scale.address(class >> 42), 0x1000 + 5 * 1024);
    }
}
