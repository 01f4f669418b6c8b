//! Numbers and tables that HotSpot packs into bytes (UNSIGNED5: compressedStream.hpp of OpenJDK 17, unsigned5.hpp of
//! later ones).

use crate::HotspotError;
use crate::memory::View;

/// First byte of those that continue in the next one: smaller ones end a number.
const LAST_BYTE_LIMIT: u8 = 192;
/// Bits that each further byte adds.
const BITS: u32 = 6;
/// Bytes of a number.
const BYTES_MAX: u32 = 5;
/// Entries of a table of lines: a method has 65,535 bytecodes at most.
const ENTRIES_MAX: u64 = 1 << 16;
/// Byte before a pair of whole numbers in a table of lines.
const ESCAPE: u8 = 0xff;

/// The two ways in which bytes stand for digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Packing {
    /// A byte is its digit.
    Plain,
    /// A byte is one more than its digit: no number has a byte of zero.
    NoZero,
}

/// A place in packed bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Packed<'v, 'm> {
    view: &'v View<'m>,
    at: u64,
    packing: Packing,
}

impl<'v, 'm> Packed<'v, 'm> {
    pub(crate) fn new(view: &'v View<'m>, at: u64, packing: Packing) -> Packed<'v, 'm> {
        Packed { view, at, packing }
    }

    fn byte(&mut self) -> Result<u8, HotspotError> {
        let byte = self.view.byte(self.at)?;
        self.at = self.at.wrapping_add(1);
        Ok(byte)
    }

    /// Reads a number.
    pub(crate) fn unsigned(&mut self) -> Result<u32, HotspotError> {
        let mut sum = 0_u32;
        for number in 0..BYTES_MAX {
            let byte = self.byte()?;
            let digit = match self.packing {
                Packing::Plain => byte,
                Packing::NoZero => byte.saturating_sub(1),
            };
            sum = sum.wrapping_add(u32::from(digit).wrapping_shl(number * BITS));
            if byte < LAST_BYTE_LIMIT {
                break;
            }
        }
        Ok(sum)
    }

    /// Reads a number with a sign in its lowest bit.
    fn signed(&mut self) -> Result<i32, HotspotError> {
        let number = self.unsigned()?;
        Ok((number >> 1) as i32 ^ -((number & 1) as i32))
    }

    /// The source line of a bytecode, by the table of lines here: that of the last entry at or before it. Takes the
    /// entries that it reads from `entries_left`, and ends when none is left.
    pub(crate) fn line_of(
        mut self,
        wanted: i32,
        entries_left: &mut u64,
    ) -> Result<Option<u32>, HotspotError> {
        let (mut bytecode, mut line) = (0_i32, 0_i32);
        let mut best: Option<(i32, i32)> = None;
        for _ in 0..ENTRIES_MAX.min(*entries_left) {
            *entries_left -= 1;
            match self.byte()? {
                0 => break,
                ESCAPE => {
                    bytecode = bytecode.wrapping_add(self.signed()?);
                    line = line.wrapping_add(self.signed()?);
                }
                both => {
                    bytecode = bytecode.wrapping_add((both >> 3).into());
                    line = line.wrapping_add((both & 7).into());
                }
            }
            if bytecode <= wanted && best.is_none_or(|(found, _)| bytecode >= found) {
                best = Some((bytecode, line));
            }
        }
        Ok(best.and_then(|(_, line)| u32::try_from(line).ok()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Memory;

    struct Bytes(Vec<u8>);

    impl Memory for Bytes {
        fn read(&self, at: u64, into: &mut [u8]) -> bool {
            for (number, byte) in into.iter_mut().enumerate() {
                *byte = self.0.get(at as usize + number).copied().unwrap_or(0);
            }
            true
        }
    }

    #[test]
    fn numbers_of_one_to_five_bytes() {
        // Encoded by hand after the rule in compressedStream.hpp: 191, 192, 255 and 2^32 - 1.
        let bytes = [&[191][..], &[192, 0], &[255, 0], &[255, 252, 252, 252, 252]].concat();
        let bytes = Bytes(bytes);
        let view = View::new(&bytes);
        let mut packed = Packed::new(&view, 0, Packing::Plain);
        let numbers: Vec<u32> = (0..3).map(|_| packed.unsigned().unwrap()).collect();
        assert_eq!(numbers, [191, 192, 255]);
        let largest = packed.unsigned().unwrap();
        let sum = 255_u32
            .wrapping_add(252 << 6)
            .wrapping_add(252 << 12)
            .wrapping_add(252 << 18)
            .wrapping_add(252_u32.wrapping_shl(24));
        assert_eq!((largest, packed.at), (sum, 10));
    }

    #[test]
    fn numbers_without_a_byte_of_zero() {
        // After the rule in unsigned5.hpp: 0, 190, 191, 254 and 255; then the end.
        let bytes = Bytes([&[1][..], &[191], &[192, 1], &[255, 1], &[192, 2], &[0]].concat());
        let view = View::new(&bytes);
        let mut packed = Packed::new(&view, 0, Packing::NoZero);
        let numbers: Vec<u32> = (0..6).map(|_| packed.unsigned().unwrap()).collect();
        assert_eq!(numbers, [0, 190, 191, 254, 255, 0]);
        assert_eq!(packed.at, 9);
    }

    #[test]
    fn a_bytecode_has_the_line_of_the_entry_before_it() {
        // Bytecode 0 in line 7; 5 bytes on, one line on; by an escape 40 bytecodes on, 3 lines back.
        let bytes = Bytes(vec![7, 5 << 3 | 1, ESCAPE, 80, 5, 0]);
        let view = View::new(&bytes);
        let line = |bytecode| {
            Packed::new(&view, 0, Packing::Plain)
                .line_of(bytecode, &mut 100)
                .unwrap()
        };
        assert_eq!(
            [0, 4, 5, 44, 45].map(line),
            [Some(7), Some(7), Some(8), Some(8), Some(5)]
        );
        assert_eq!(line(-1), None);
    }
}
