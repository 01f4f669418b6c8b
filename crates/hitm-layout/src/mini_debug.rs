//! `.gnu_debugdata`: the symbols that Fedora and others leave in stripped programs, as a compressed ELF file
//! in the file. It has those of functions that `.dynsym` has not.

use crate::Bytes;
use crate::elf::Elf;
use crate::symbols::SymbolTable;

/// Bytes that the file inside may have. Those of the largest browsers have some 20 MiB.
const INNER_BYTES_MAX: usize = 64 << 20;

/// The symbols of the file inside.
#[derive(Debug)]
pub(crate) struct MiniDebug {
    pub(crate) elf: Elf,
    pub(crate) symbols: SymbolTable,
}

impl MiniDebug {
    /// Reads the symbols; none when there are none to read. An error says why they are left out.
    pub(crate) fn read(elf: &Elf) -> Option<Result<MiniDebug, String>> {
        let section = elf.section(".gnu_debugdata")?;
        let bytes = &elf.bytes[section.range.clone()];
        Some(decompress(bytes).and_then(|inner| {
            let inner = Elf::parse_debug(Bytes::from(inner), &elf.name);
            let inner = inner.map_err(|error| error.to_string())?;
            let symbols = SymbolTable::read(&inner);
            Ok(MiniDebug {
                elf: inner,
                symbols,
            })
        }))
    }
}

fn decompress(mut bytes: &[u8]) -> Result<Vec<u8>, String> {
    let claimed = xz_bytes(bytes).ok_or(".gnu_debugdata left out: it is no xz file")?;
    if claimed > INNER_BYTES_MAX {
        let limit = INNER_BYTES_MAX >> 20;
        return Err(format!(
            ".gnu_debugdata left out: it has more than {limit} MiB"
        ));
    }
    let mut inner = Vec::new();
    match lzma_rs::xz_decompress(&mut bytes, &mut inner) {
        Ok(()) => Ok(inner),
        Err(error) => Err(format!(".gnu_debugdata left out: {error}")),
    }
}

/// The bytes that an xz file has when it is decompressed, by the headers of its parts. The
/// decompressor keeps all of them before it answers. Source: the .xz file format 1.1.0, sections 2
/// and 3; for the chunks of LZMA2 linux/lib/xz/xz_dec_lzma2.c.
fn xz_bytes(bytes: &[u8]) -> Option<usize> {
    const STREAM_HEADER: usize = 12;
    let check_bytes = match bytes.get(7)? & 0xf {
        0 => 0,
        1..4 => 4,
        4..7 => 8,
        7..10 => 16,
        10..13 => 32,
        _ => 64,
    };
    let mut at = STREAM_HEADER;
    let mut sum: usize = 0;
    // A block begins with its header's size; 0 is the index behind the last one.
    while let size @ 1.. = usize::from(*bytes.get(at)?) {
        at += (size + 1) * 4;
        let (end, unpacked) = lzma2_bytes(bytes, at)?;
        sum = sum.checked_add(unpacked)?;
        at = end.next_multiple_of(4) + check_bytes;
    }
    Some(sum)
}

/// The end of the chunks that begin at `at`, and the bytes that they have when they are decompressed.
fn lzma2_bytes(bytes: &[u8], mut at: usize) -> Option<(usize, usize)> {
    let mut sum: usize = 0;
    let word = |at: usize| {
        Some(usize::from(u16::from_be_bytes(
            *bytes.get(at..)?.first_chunk()?,
        )))
    };
    loop {
        let control = *bytes.get(at)?;
        let low = match control {
            0 => return Some((at + 1, sum)),
            _ => word(at + 1)?,
        };
        let (unpacked, length) = match control {
            // Not compressed.
            1 | 2 => (low + 1, 3 + low + 1),
            0x80.. => {
                let high = usize::from(control & 0x1f) << 16;
                let has_properties = usize::from(control >= 0xc0);
                (high + low + 1, 5 + has_properties + word(at + 3)? + 1)
            }
            _ => return None,
        };
        sum = sum.checked_add(unpacked)?;
        at += length;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The file of `printf 'hello\n' | xz` (xz 5.4.1) up to the end of its only block.
    const HELLO: &[u8] = b"\xfd7zXZ\0\0\x04\xe6\xd6\xb4\x46\x02\0\x21\x01\x16\0\0\0\x74\x2f\xe5\xa3\x01\0\x05hello\n\0\0\0\0";

    #[test]
    fn what_xz_would_take_is_counted_before() {
        assert_eq!(lzma2_bytes(HELLO, 24), Some((34, 6)));
        assert_eq!(lzma2_bytes(&HELLO[..30], 24), None);
        // A megabyte and more of zeros in a chunk of some bytes.
        let chunk = [
            0xff, 0xff, 0xff, 0, 9, 0x5d, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0,
        ];
        assert_eq!(lzma2_bytes(&chunk, 0), Some((17, 1 << 21)));
        let claims = "more than 64 MiB";
        let mut bomb = HELLO[..24].to_vec();
        (0..40).for_each(|_| bomb.extend(&chunk[..16]));
        bomb.extend([0; 32]);
        assert!(decompress(&bomb).unwrap_err().contains(claims));
    }
}
