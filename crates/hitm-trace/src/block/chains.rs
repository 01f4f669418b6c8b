//! Call chains as records tell them: new ones, or a reference to those that the block has introduced.

use std::sync::Arc;

use hitm_base::CodeAddr;

use super::DecodeFault;
use crate::form::caller_count;
use crate::wire::{Cursor, delta, push_varint, undelta};

/// Appends the payload of callers: those that the block has introduced as `known`, or new ones. Calls
/// lie close to one another, so each is told by its distance.
pub(super) fn encode_callers(callers: &[CodeAddr], known: Option<u32>, out: &mut Vec<u8>) {
    if let Some(index) = known {
        push_varint(out, u64::from(index) + 1);
        return;
    }
    push_varint(out, 0);
    push_varint(out, callers.len() as u64);
    let mut last = 0;
    for code in callers {
        push_varint(out, delta(last, code.0));
        last = code.0;
    }
}

/// The callers in `payload`, which are one of `known` or enter it.
pub(super) fn decode_callers(
    payload: &[u8],
    known: &mut Vec<Arc<[CodeAddr]>>,
) -> Result<Arc<[CodeAddr]>, DecodeFault> {
    let cursor = &mut Cursor::new(payload);
    let reference = cursor.varint()?;
    if let Some(index) = reference.checked_sub(1) {
        let found = known.get(usize::try_from(index).unwrap_or(usize::MAX));
        return found.cloned().ok_or(DecodeFault::UnknownReference {
            what: "call chain",
            found: index,
            known: known.len(),
        });
    }
    let count = caller_count(cursor)?;
    let mut last = 0;
    let caller = |_| {
        last = undelta(last, cursor.varint()?);
        Ok(CodeAddr(last))
    };
    let callers: Arc<[CodeAddr]> = (0..count).map(caller).collect::<Result<_, _>>()?;
    known.push(Arc::clone(&callers));
    Ok(callers)
}
