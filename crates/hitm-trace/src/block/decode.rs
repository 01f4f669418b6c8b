//! Bytes to records. Any bytes may come in: every index, size and number is checked.

use std::collections::VecDeque;
use std::sync::Arc;

use hitm_base::{Access, CodeAddr, CpuId, Cycles, DataSource, LINE_SIZE, Outcome, ThreadId};
use thiserror::Error;

use super::paths::ReadPaths;
use super::*;
use crate::Record;
use crate::form::Stop;
use crate::limits::{COUNT_MAX, LATENCY_MAX};
use crate::record::{CALLERS, PATH};
use crate::wire::{Cursor, undelta};

/// Fault in the bytes of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DecodeFault {
    /// The block ends inside a record, or a length points past the end.
    #[error("the record is cut off")]
    Truncated,
    /// A varint holds more than 64 bits.
    #[error("a number has more than 64 bits")]
    VarintTooLong,
    /// A number is too large for its field.
    #[error("{field} is {found}, which is out of range")]
    OutOfRange {
        /// The field.
        field: &'static str,
        /// The number.
        found: u64,
    },
    /// A range of addresses that wraps, or ends before it begins.
    #[error("{what} from {start:#x} to {end:#x} ends before it begins")]
    Range {
        /// A mapping, a heap block or a region.
        what: &'static str,
        /// Its first address.
        start: u64,
        /// The first address after it.
        end: u64,
    },
    /// A reference to something that the block has not introduced.
    #[error("{what} {found} is referred to, but the block has introduced {known}")]
    UnknownReference {
        /// Thread, code address, line or call chain.
        what: &'static str,
        /// The index.
        found: u64,
        /// Number of those that the block has introduced.
        known: usize,
    },
    /// The access leaves its line, or is a fence with a size, or another operation without one.
    #[error("an access of {size} bytes at offset {offset} of a line cannot be")]
    InvalidAccess {
        /// Offset in the line.
        offset: u8,
        /// Bytes touched.
        size: u8,
    },
    /// A bit pattern that this version of the format gives no meaning.
    #[error("{field} has the reserved value {found:#x}")]
    Reserved {
        /// The field.
        field: &'static str,
        /// Its value.
        found: u8,
    },
    /// A text that is not UTF-8.
    #[error("{field} is not UTF-8")]
    NotUtf8 {
        /// The field.
        field: &'static str,
    },
    /// The block decodes, but to another number of records than its chunk says.
    #[error("the block has {found} records, its chunk says {expected}")]
    RecordCount {
        /// Records in the block.
        found: u64,
        /// Records by the chunk's header.
        expected: u64,
    },
}

/// Fault in a block, with its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("record {record} at byte {offset} of the block: {fault}")]
pub struct DecodeError {
    /// Records before the bad one.
    pub record: u64,
    /// Byte at which the bad one begins, from the start of the uncompressed block.
    pub offset: usize,
    /// Fault of the bad one.
    pub fault: DecodeFault,
}

/// Takes the records of a block as they are decoded; nothing is allocated for an access.
pub trait Visitor {
    /// An access and its price.
    fn access(&mut self, access: &Access, outcome: &Outcome);

    /// A record of any other kind.
    fn record(&mut self, record: Record);
}

/// Counts of the records in a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BlockSummary {
    /// Records, those of unknown kind included.
    pub record_count: u64,
    /// Records of a kind that this version does not know; they were passed over.
    pub unknown_count: u64,
}

/// Decodes a whole block into `visitor`. On an error the records before the bad one have been
/// visited.
pub fn decode_block<V: Visitor>(
    bytes: &[u8],
    visitor: &mut V,
) -> Result<BlockSummary, DecodeError> {
    let mut decoder = BlockDecoder::new(bytes);
    while !decoder.cursor.is_at_end() {
        decoder.step(visitor)?;
    }
    Ok(decoder.summary)
}

/// The records of a block, one by one. Ends after the first error.
///
/// It keeps what the block has introduced: at most 16 bytes for every byte of the block.
#[derive(Debug)]
pub struct BlockDecoder<'a> {
    cursor: Cursor<'a>,
    summary: BlockSummary,
    state: State,
    /// The call chains that the block has introduced.
    chains: Vec<Arc<[CodeAddr]>>,
    paths: ReadPaths,
    /// Records of the last step that the iterator has still to give.
    ready: Ready,
    has_failed: bool,
}

impl<'a> BlockDecoder<'a> {
    /// A decoder of one uncompressed block.
    pub fn new(bytes: &'a [u8]) -> BlockDecoder<'a> {
        BlockDecoder {
            cursor: Cursor::new(bytes),
            summary: BlockSummary::default(),
            state: State::default(),
            chains: Vec::new(),
            paths: ReadPaths::default(),
            ready: Ready::default(),
            has_failed: false,
        }
    }

    /// Counts of the records decoded so far.
    pub fn summary(&self) -> BlockSummary {
        self.summary
    }

    /// Decodes the record that begins here into `visitor`; there must be at least one byte.
    #[inline(always)]
    fn step<V: Visitor>(&mut self, visitor: &mut V) -> Result<(), DecodeError> {
        let offset = self.cursor.position();
        match self.try_step(visitor) {
            Ok(()) => {
                self.summary.record_count += 1;
                Ok(())
            }
            Err(fault) => Err(DecodeError {
                record: self.summary.record_count,
                offset,
                fault,
            }),
        }
    }

    #[inline(always)]
    fn try_step<V: Visitor>(&mut self, visitor: &mut V) -> Result<(), DecodeFault> {
        let head = self.cursor.byte()?;
        if head & HEAD_ACCESS != 0 {
            let (access, outcome) = self.state.access(head, &mut self.cursor)?;
            if let Some(callers) = self.paths.of(access.thread) {
                visitor.record(Record::Callers(Arc::clone(callers)));
            }
            visitor.access(&access, &outcome);
            return Ok(());
        }
        let payload = self.cursor.bytes()?;
        if head == CALLERS {
            let callers = chains::decode_callers(payload, &mut self.chains)?;
            visitor.record(Record::Callers(callers));
            return Ok(());
        }
        if head == PATH {
            return self.paths.read(payload);
        }
        match Record::take(head, payload) {
            Ok(record) => visitor.record(record),
            Err(Stop::Later) => self.summary.unknown_count += 1,
            Err(Stop::Fault(fault)) => return Err(fault),
        }
        Ok(())
    }
}

impl Iterator for BlockDecoder<'_> {
    type Item = Result<Record, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.ready.is_empty() && !self.has_failed && !self.cursor.is_at_end() {
            let mut ready = std::mem::take(&mut self.ready);
            let result = self.step(&mut ready);
            self.ready = ready;
            if let Err(error) = result {
                self.has_failed = true;
                return Some(Err(error));
            }
        }
        self.ready.pop_front().map(Ok)
    }
}

/// The records of a step, in order: none of a record of unknown kind, callers and an access of an access
/// on a path.
type Ready = VecDeque<Record>;

impl Visitor for Ready {
    #[inline(always)]
    fn access(&mut self, access: &Access, outcome: &Outcome) {
        self.push_back(Record::Access {
            access: *access,
            outcome: *outcome,
        });
    }

    fn record(&mut self, record: Record) {
        self.push_back(record);
    }
}

/// A code address, and the line that it touched last.
#[derive(Debug, Clone, Copy)]
struct Code {
    addr: u64,
    line: u64,
}

/// Everything that an access may refer back to. Mirrors the encoder's.
#[derive(Debug, Default)]
struct State {
    last_time: u64,
    /// Index of the last actor; before the first, one that no access may refer to.
    last_actor: u64,
    last_code: u64,
    last_new_line: u64,
    last_line: u64,
    last_base: [u64; DataSource::ALL.len()],
    losses: Losses,
    actors: Vec<(ThreadId, CpuId)>,
    codes: Vec<Code>,
    lines: Vec<u64>,
}

impl State {
    #[inline(always)]
    fn access(
        &mut self,
        head: u8,
        cursor: &mut Cursor<'_>,
    ) -> Result<(Access, Outcome), DecodeFault> {
        let flags = cursor.byte()?;
        let op = AccessOp::ALL[usize::from(head & HEAD_OP_MASK)];
        let size = match head >> HEAD_SIZE_SHIFT & SIZE_EXPLICIT {
            SIZE_EXPLICIT => cursor.byte()?,
            log2 => 1 << log2,
        };
        self.last_time = undelta(self.last_time, cursor.varint()?);
        if self.last_time > COUNT_MAX {
            return Err(out_of_range("time", self.last_time));
        }
        let (thread, cpu) = self.actor(head, cursor)?;
        let code = self.code(cursor)?;
        let (line, offset) = self.place(code, cursor)?;
        if !is_valid(op, offset, size) {
            return Err(DecodeFault::InvalidAccess { offset, size });
        }
        let access = Access {
            thread,
            cpu,
            time: Cycles(self.last_time),
            addr: line * LINE_SIZE + u64::from(offset),
            size,
            op,
            code: CodeAddr(self.codes[code].addr),
        };
        let mut outcome = self.outcome(flags, cursor)?;
        self.loss(head, op, &mut outcome, cursor)?;
        Ok((access, outcome))
    }

    /// The part of the stall that others caused.
    #[inline(always)]
    fn loss(
        &mut self,
        head: u8,
        op: AccessOp,
        outcome: &mut Outcome,
        cursor: &mut Cursor<'_>,
    ) -> Result<(), DecodeFault> {
        if head & HEAD_LOST == 0 {
            outcome.lost = self.losses.expected(op, outcome);
            return Ok(());
        }
        outcome.lost = Cycles(cursor.varint()?);
        if outcome.lost > outcome.stall {
            return Err(out_of_range("lost", outcome.lost.0));
        }
        self.losses.learn(op, outcome);
        Ok(())
    }

    #[inline(always)]
    fn actor(
        &mut self,
        head: u8,
        cursor: &mut Cursor<'_>,
    ) -> Result<(ThreadId, CpuId), DecodeFault> {
        let is_same = head & HEAD_SAME_ACTOR != 0;
        let reference = cursor.varint_if(!is_same)?;
        if !is_same && reference == 0 {
            let actor = (
                ThreadId(cursor.narrow("thread")?),
                CpuId(cursor.narrow("cpu")?),
            );
            self.last_actor = self.actors.len() as u64;
            self.actors.push(actor);
            return Ok(actor);
        }
        let index = if is_same {
            self.last_actor
        } else {
            reference - 1
        };
        self.last_actor = index;
        match self.actors.get(index as usize) {
            Some(&actor) => Ok(actor),
            None => Err(unknown("thread", index, self.actors.len())),
        }
    }

    /// The index of the instruction among those that the block has introduced.
    #[inline(always)]
    fn code(&mut self, cursor: &mut Cursor<'_>) -> Result<usize, DecodeFault> {
        match cursor.varint()? {
            0 => {
                self.last_code = undelta(self.last_code, cursor.varint()?);
                self.codes.push(Code {
                    addr: self.last_code,
                    line: self.last_line,
                });
                Ok(self.codes.len() - 1)
            }
            found if found <= self.codes.len() as u64 => Ok((found - 1) as usize),
            found => Err(unknown("code address", found - 1, self.codes.len())),
        }
    }

    /// Line and offset in it.
    #[inline(always)]
    fn place(&mut self, code: usize, cursor: &mut Cursor<'_>) -> Result<(u64, u8), DecodeFault> {
        let place = cursor.byte()?;
        let expected = self.codes[code].line;
        let how = place >> PLACE_LINE_SHIFT;
        let line = if how == LINE_NEW {
            let line = undelta(self.last_new_line, cursor.varint()?);
            self.last_new_line = line;
            self.lines.push(line);
            line
        } else {
            let is_known = how == LINE_KNOWN;
            let index = cursor.varint_if(is_known)?;
            let known = match self.lines.get(index as usize) {
                Some(&line) => line,
                None if is_known => return Err(unknown("line", index, self.lines.len())),
                None => 0,
            };
            // The line after the last is refused below.
            let expected = expected + u64::from(how == LINE_NEXT);
            if is_known { known } else { expected }
        };
        if line > LINE_MAX {
            return Err(out_of_range("line", line));
        }
        self.codes[code].line = line;
        self.last_line = line;
        Ok((line, place & PLACE_OFFSET_MASK))
    }

    #[inline(always)]
    fn outcome(&mut self, flags: u8, cursor: &mut Cursor<'_>) -> Result<Outcome, DecodeFault> {
        let Some(source) = DataSource::from_index(flags & OUTCOME_SOURCE_MASK) else {
            return Err(DecodeFault::Reserved {
                field: "source",
                found: flags & OUTCOME_SOURCE_MASK,
            });
        };
        let has_base = flags & OUTCOME_BASE != 0;
        let given_base = cursor.varint_if(has_base)?;
        let last_base = &mut self.last_base[source as usize];
        *last_base = if has_base { given_base } else { *last_base };
        let queued = cursor.varint_if(flags & OUTCOME_QUEUED != 0)?;
        let latency = last_base.wrapping_add(queued);
        let how = flags >> OUTCOME_STALL_SHIFT & 3;
        if how > STALL_EXPLICIT {
            return Err(DecodeFault::Reserved {
                field: "stall",
                found: how,
            });
        }
        let given_stall = cursor.varint_if(how == STALL_EXPLICIT)?;
        let stall = if how == STALL_LATENCY {
            latency
        } else {
            given_stall
        };
        // One comparison for three numbers: the limit is a power of two less one.
        let all_bits = latency | queued | stall;
        if all_bits > LATENCY_MAX {
            return Err(out_of_range("latency, wait or stall", all_bits));
        }
        Ok(Outcome {
            source,
            latency: Cycles(latency),
            queued: Cycles(queued),
            stall: Cycles(stall),
            lost: Cycles::ZERO,
        })
    }
}

#[cold]
fn out_of_range(field: &'static str, found: u64) -> DecodeFault {
    DecodeFault::OutOfRange { field, found }
}

#[cold]
fn unknown(what: &'static str, found: u64, known: usize) -> DecodeFault {
    DecodeFault::UnknownReference { what, found, known }
}
