//! The few primitives that all encodings share: LEB128 varints, zigzag, little-endian integers.
//!
//! Reading never panics and never reads past its slice; a fault names what was wrong, and the
//! caller adds the place.

use crate::DecodeFault;

/// The longest varint: ten groups of seven bits hold 64.
pub(crate) const VARINT_LEN_MAX: usize = 10;

/// Maps small magnitudes of either sign to small unsigned numbers: 0, -1, 1, -2 become 0, 1, 2, 3.
pub(crate) const fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// The inverse of [`zigzag`].
pub(crate) const fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// The difference from `base` to `value`, modulo 2^64, as a small number when they are close.
pub const fn delta(base: u64, value: u64) -> u64 {
    zigzag(value.wrapping_sub(base) as i64)
}

/// The inverse of [`delta`].
pub const fn undelta(base: u64, delta: u64) -> u64 {
    base.wrapping_add(unzigzag(delta) as u64)
}

/// Writes `value` as a varint at `at` and returns the position after it. The caller has checked
/// that [`VARINT_LEN_MAX`] bytes are there.
#[inline(always)]
pub(crate) fn put_varint(buffer: &mut [u8], mut at: usize, mut value: u64) -> usize {
    while value >= 0x80 {
        buffer[at] = value as u8 | 0x80;
        at += 1;
        value >>= 7;
    }
    buffer[at] = value as u8;
    at + 1
}

/// Appends `value` as a varint.
pub fn push_varint(out: &mut Vec<u8>, value: u64) {
    let mut bytes = [0; VARINT_LEN_MAX];
    let len = put_varint(&mut bytes, 0, value);
    out.extend_from_slice(&bytes[..len]);
}

/// Appends a length and the bytes.
pub(crate) fn push_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    push_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// The four bytes at `at`. Panics when they are not there: for fixed layouts that were checked.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

/// The eight bytes at `at`. Panics when they are not there: for fixed layouts that were checked.
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

/// A position in a slice that is being read.
#[derive(Debug, Clone)]
pub struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    /// The beginning of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Cursor<'a> {
        Cursor { bytes, at: 0 }
    }

    /// Bytes that have been read.
    pub fn position(&self) -> usize {
        self.at
    }

    /// Returns true if nothing is left.
    pub fn is_at_end(&self) -> bool {
        self.at >= self.bytes.len()
    }

    /// The next byte.
    #[inline(always)]
    pub fn byte(&mut self) -> Result<u8, DecodeFault> {
        match self.bytes.get(self.at) {
            Some(&byte) => {
                self.at += 1;
                Ok(byte)
            }
            None => Err(DecodeFault::Truncated),
        }
    }

    /// The next varint. One or two bytes are read in line, which is nearly all of them; the rest out of line.
    #[inline(always)]
    pub fn varint(&mut self) -> Result<u64, DecodeFault> {
        let first = self.byte()?;
        if first < 0x80 {
            return Ok(u64::from(first));
        }
        let second = self.byte()?;
        let low = u64::from(first & 0x7f) | u64::from(second & 0x7f) << 7;
        if second < 0x80 {
            return Ok(low);
        }
        self.varint_rest(low)
    }

    /// The next varint when `is_there`, else 0.
    #[inline(always)]
    pub(crate) fn varint_if(&mut self, is_there: bool) -> Result<u64, DecodeFault> {
        if is_there { self.varint() } else { Ok(0) }
    }

    #[inline(never)]
    fn varint_rest(&mut self, mut value: u64) -> Result<u64, DecodeFault> {
        for shift in (14..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                return Err(DecodeFault::VarintTooLong);
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(DecodeFault::VarintTooLong)
    }

    /// A varint that must fit a narrower type.
    pub(crate) fn narrow<T: TryFrom<u64>>(
        &mut self,
        field: &'static str,
    ) -> Result<T, DecodeFault> {
        let found = self.varint()?;
        T::try_from(found).map_err(|_| DecodeFault::OutOfRange { field, found })
    }

    /// A length and that many bytes.
    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], DecodeFault> {
        let len = self.varint()?;
        let rest = &self.bytes[self.at..];
        if len > rest.len() as u64 {
            return Err(DecodeFault::Truncated);
        }
        self.at += len as usize;
        Ok(&rest[..len as usize])
    }

    /// A length and that many bytes of UTF-8.
    pub(crate) fn string(&mut self, field: &'static str) -> Result<String, DecodeFault> {
        match std::str::from_utf8(self.bytes()?) {
            Ok(text) => Ok(text.to_owned()),
            Err(_) => Err(DecodeFault::NotUtf8 { field }),
        }
    }

    /// A count of items that take at least one byte each, so that a wrong count is found before
    /// anything is allocated for it.
    pub(crate) fn count(&mut self) -> Result<usize, DecodeFault> {
        let count = self.varint()?;
        if count > (self.bytes.len() - self.at) as u64 {
            return Err(DecodeFault::Truncated);
        }
        Ok(count as usize)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_varint_of_more_than_64_bits_is_refused() {
        let ten = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        assert_eq!(Cursor::new(&ten).varint(), Ok(u64::MAX));
        let mut over = ten;
        over[9] = 0x02;
        assert_eq!(Cursor::new(&over).varint(), Err(DecodeFault::VarintTooLong));
        assert_eq!(
            Cursor::new(&[0x80; 11]).varint(),
            Err(DecodeFault::VarintTooLong)
        );
        assert_eq!(
            Cursor::new(&[0x80; 3]).varint(),
            Err(DecodeFault::Truncated)
        );
    }

    proptest! {
        #[test]
        fn varints_and_deltas_round_trip(value: u64, base: u64, shift in 0u32..64) {
            let value = value >> shift;
            let mut bytes = Vec::new();
            push_varint(&mut bytes, value);
            prop_assert!(bytes.len() <= VARINT_LEN_MAX);
            let mut cursor = Cursor::new(&bytes);
            prop_assert_eq!(cursor.varint(), Ok(value));
            prop_assert!(cursor.is_at_end());
            prop_assert_eq!(undelta(base, delta(base, value)), value);
        }
    }
}
