//! Call chains in messages: calls that a thread tells once ([`Request::Calls`](super::Request::Calls)), and the
//! chain of each access, in bytes that an access leaves free.

use hitm_base::CodeAddr;

use super::layout::BUFFER_LEN;
use super::message::{BadMessage, EVENT_BYTES, HEAD_WORDS, TAKEN_BYTES};
use crate::calls::{Call, PathId};

const CALL_BYTES: usize = 12;
/// The upper half of an access's last word.
const PATH_AT: usize = EVENT_BYTES - 4;

/// Hands calls to `send` in parts that fit a buffer each.
pub fn pack_calls(calls: impl Iterator<Item = Call>, mut send: impl FnMut(&[u8])) {
    let mut bytes = Vec::new();
    for call in calls {
        if bytes.len() + CALL_BYTES > BUFFER_LEN {
            send(&bytes);
            bytes.clear();
        }
        bytes.extend(call.before.0.to_le_bytes());
        bytes.extend(call.code.0.to_le_bytes());
    }
    if !bytes.is_empty() {
        send(&bytes);
    }
}

/// Reads one part.
pub fn unpack_calls(bytes: &[u8]) -> Result<Vec<Call>, BadMessage> {
    let (calls, rest) = bytes.as_chunks::<CALL_BYTES>();
    let call = |bytes: &[u8; CALL_BYTES]| {
        let [b0, b1, b2, b3, code @ ..] = *bytes;
        Call {
            before: PathId(u32::from_le_bytes([b0, b1, b2, b3])),
            code: CodeAddr(u64::from_le_bytes(code)),
        }
    };
    match rest.is_empty() {
        true => Ok(calls.iter().map(call).collect()),
        false => Err(BadMessage),
    }
}

/// Adds chains to the accesses of packed work, which took over `taken` lines.
pub fn pack_paths(bytes: &mut [u8], taken: usize, paths: &[PathId]) {
    let accesses = bytes[HEAD_WORDS * 8 + taken * TAKEN_BYTES..].chunks_exact_mut(EVENT_BYTES);
    for (access, path) in accesses.zip(paths) {
        access[PATH_AT..].copy_from_slice(&path.0.to_le_bytes());
    }
}

/// The chains of all accesses of packed work that can be unpacked, fences included.
pub fn unpack_paths(bytes: &[u8], taken: usize) -> impl Iterator<Item = PathId> + '_ {
    let at = HEAD_WORDS * 8 + taken * TAKEN_BYTES;
    let accesses = bytes.get(at..).unwrap_or_default();
    let (accesses, _) = accesses.as_chunks::<EVENT_BYTES>();
    accesses.iter().map(|access| {
        let path = access.last_chunk().expect("an access is longer");
        PathId(u32::from_le_bytes(*path))
    })
}

#[cfg(test)]
mod tests {
    use hitm_base::{AccessOp, LineAddr, ThreadId};
    use hitm_trace::Adoption;

    use super::*;
    use crate::board::{pack_doings, unpack_doings};
    use crate::{Doings, Position, ThreadEvent};

    #[test]
    fn calls_come_over_in_parts() {
        let call = |n: u32| Call {
            before: PathId(n),
            code: CodeAddr(1 << 48 | u64::from(n)),
        };
        let (mut found, mut parts) = (Vec::new(), 0);
        pack_calls((0..5000).map(call), |bytes| {
            assert!(bytes.len() <= BUFFER_LEN);
            found.extend(unpack_calls(bytes).unwrap());
            parts += 1;
            assert_eq!(unpack_calls(&bytes[1..]), Err(BadMessage));
        });
        assert_eq!(found, (0..5000).map(call).collect::<Vec<_>>());
        assert!(parts > 1);
        pack_calls(std::iter::empty(), |_| panic!("there is nothing to tell"));
    }

    #[test]
    fn chains_travel_with_accesses_and_change_nothing_else() {
        let event = |insn: u64| ThreadEvent {
            insn,
            stores: 0,
            addr: 64 * insn,
            code: CodeAddr(insn),
            size: 8,
            op: AccessOp::LockedRmw,
        };
        let events: Vec<ThreadEvent> = (0..20).map(event).collect();
        let paths: Vec<PathId> = (0..20).map(|n| PathId(u32::MAX - n)).collect();
        let taken = [Adoption {
            line: LineAddr(4),
            owner: ThreadId(0),
            is_written: true,
        }];
        let start = Position::default();
        let doings = Doings {
            taken: &taken,
            events: &events,
            position: Position { insn: 30, ..start },
            ..Doings::default()
        };
        let mut bytes = Vec::new();
        pack_doings(&doings, &mut bytes);
        pack_paths(&mut bytes, 1, &paths);
        let unpacked = unpack_doings(&bytes, start, start).unwrap();
        assert_eq!(unpacked.events, events);
        assert!(unpack_paths(&bytes, 1).eq(paths));
        assert_eq!(unpack_paths(&bytes[..9], 1).count(), 0);
    }
}
