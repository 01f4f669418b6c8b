//! A sample's call chain: addresses, innermost first, with marks of their context between them.
//!
//! The first address is the program counter when the sample was taken. It is left out when it is
//! the sampled instruction. Where the CPU noticed late, it is one that was reached a moment after.

use super::bytes::Bytes;
use crate::format::context;

/// Limit on the calls kept of a chain: as many as the kernel records by default
/// (`kernel.perf_event_max_stack`).
pub const CALLERS_MAX: usize = 127;

/// Properties of a chain besides its addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct ChainFacts {
    /// More calls than [`CALLERS_MAX`].
    pub(super) is_cut: bool,
    /// The program's calls are in another record.
    pub(super) is_deferred: bool,
}

/// Reads a chain into `callers`: return addresses without the marks; `None` when it is cut off.
pub(super) fn read_chain(
    ip: u64,
    bytes: &mut Bytes<'_>,
    callers: &mut Vec<u64>,
) -> Option<ChainFacts> {
    callers.clear();
    let len = bytes.u64()?;
    let mut facts = ChainFacts::default();
    let mut is_first = true;
    let mut is_guest = false;
    let mut is_cookie = false;
    for _ in 0..len {
        let word = bytes.u64()?;
        // The number behind USER_DEFERRED, which is no address.
        if std::mem::take(&mut is_cookie) {
            continue;
        }
        if word >= context::LOWEST {
            is_guest = matches!(
                word,
                context::GUEST | context::GUEST_KERNEL | context::GUEST_USER
            );
            is_cookie = word == context::USER_DEFERRED;
            facts.is_deferred |= is_cookie;
        } else if is_guest || std::mem::take(&mut is_first) && word == ip {
            // A guest's addresses mean nothing here.
        } else if callers.len() < CALLERS_MAX {
            callers.push(word);
        } else {
            facts.is_cut = true;
        }
    }
    Some(facts)
}

#[cfg(test)]
mod tests {
    use super::super::bytes::ByteOrder;
    use super::*;

    fn check(words: &[u64], expected: &[u64], is_cut: bool, is_deferred: bool) {
        let len = words.len() as u64;
        let bytes: Vec<u8> = [len]
            .iter()
            .chain(words)
            .flat_map(|word| word.to_be_bytes())
            .collect();
        let mut callers = vec![7];
        let mut cursor = Bytes::new(&bytes, ByteOrder::Big);
        let facts = read_chain(0x40, &mut cursor, &mut callers).expect("all words are there");
        let expected_facts = ChainFacts {
            is_cut,
            is_deferred,
        };
        assert_eq!((&callers[..], facts), (expected, expected_facts));
        assert!(cursor.rest().is_empty());
        let mut cut = Bytes::new(&bytes[..bytes.len() - 1], ByteOrder::Big);
        assert_eq!(read_chain(0x40, &mut cut, &mut callers), None);
    }

    #[test]
    fn marks_and_the_instruction_itself_are_left_out() {
        use context::{GUEST_USER, KERNEL, USER, USER_DEFERRED};
        check(&[], &[], false, false);
        check(&[USER, 0x40, 0x50, 0x40], &[0x50, 0x40], false, false);
        check(
            &[KERNEL, 0x41, 0x50, USER, 0x60],
            &[0x41, 0x50, 0x60],
            false,
            false,
        );
        check(&[KERNEL, 0x40, USER_DEFERRED, 99], &[], false, true);
        check(
            &[USER, 0x40, GUEST_USER, 0x50, USER, 0x60],
            &[0x60],
            false,
            false,
        );
        let deep: Vec<u64> = (100..300).collect();
        check(&deep, &deep[..CALLERS_MAX], true, false);
    }
}
