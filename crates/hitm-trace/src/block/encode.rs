//! Records to bytes.

use std::collections::BTreeMap;
use std::sync::Arc;

use hitm_base::{Access, AccessOp, CodeAddr, Cycles, DataSource, Outcome};
use thiserror::Error;

use super::dictionary::Dictionary;
use super::paths::Paths;
use super::*;
use crate::Record;
use crate::limits::{LATENCY_MAX, PATH_CALLERS_MAX, check_callers, check_count, check_line};
use crate::record::{CALLERS, PATH};
use crate::wire::{VARINT_LEN_MAX, delta, push_varint, put_varint};

/// Room that must be left before an access is begun. It covers the three fixed bytes, the size, and
/// a varint for time, actor index, thread, CPU, code index, code, line, base, queued, stall and lost.
const ACCESS_LEN_MAX: usize = 4 + 11 * VARINT_LEN_MAX;

/// Room for a path: kind, length, thread, reference, count, and the calls.
const PATH_LEN_MAX: usize = 1 + (4 + PATH_CALLERS_MAX) * VARINT_LEN_MAX;

/// Reason for which a record was not encoded. Nothing was written, and the encoder is as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// The block has no room left: it is time for the next one.
    #[error("the block is full")]
    Full,
    /// The record does not fit even into an empty block.
    #[error("a record of {needed} bytes does not fit into a block of {capacity}")]
    TooLarge {
        /// Bytes that the record takes.
        needed: usize,
        /// Bytes that an empty block has.
        capacity: usize,
    },
    /// The access leaves its line, or is a fence with a size, or another operation without one.
    #[error("an access of {size} bytes at offset {offset} of a line cannot be recorded")]
    InvalidAccess {
        /// Offset in the line.
        offset: u8,
        /// Bytes touched.
        size: u8,
    },
    /// A number that no recording may hold.
    #[error("{field} is {found}, which is more than a recording may hold")]
    OutOfRange {
        /// The field.
        field: &'static str,
        /// The number.
        found: u64,
    },
}

/// Encodes the records of one block after the other into buffers that the caller gives.
///
/// A record is written whole or not at all: [`EncodeError::Full`] comes before anything is.
#[derive(Debug)]
pub struct BlockEncoder<B> {
    buffer: B,
    len: usize,
    meta: BlockMeta,
    has_time: bool,
    state: State,
    /// The call chains that the block has introduced, by number.
    chains: BTreeMap<Arc<[CodeAddr]>, u32>,
    paths: Paths,
    scratch: Vec<u8>,
}

impl<B: AsRef<[u8]> + AsMut<[u8]>> BlockEncoder<B> {
    /// An encoder whose first block goes into `buffer`. Of a buffer larger than [`BLOCK_LEN_MAX`]
    /// only that much is used.
    pub fn new(buffer: B) -> BlockEncoder<B> {
        BlockEncoder {
            buffer,
            len: 0,
            meta: BlockMeta::default(),
            has_time: false,
            state: State::default(),
            chains: BTreeMap::new(),
            paths: Paths::default(),
            scratch: Vec::new(),
        }
    }

    /// Bytes of the block so far.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if the block has no record yet.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The block so far.
    pub fn bytes(&self) -> &[u8] {
        &self.buffer.as_ref()[..self.len]
    }

    /// Count and times of the block so far.
    pub fn meta(&self) -> BlockMeta {
        self.meta
    }

    /// Ends the block and begins the next one in the same buffer.
    pub fn clear(&mut self) {
        self.len = 0;
        self.meta = BlockMeta::default();
        self.has_time = false;
        self.state.clear();
        self.chains.clear();
        self.paths.clear();
    }

    /// Ends the block and begins the next one in `buffer`; returns the buffer that was in use.
    pub fn replace_buffer(&mut self, buffer: B) -> B {
        self.clear();
        std::mem::replace(&mut self.buffer, buffer)
    }

    /// Adds a record of any kind.
    pub fn push(&mut self, record: &Record) -> Result<(), EncodeError> {
        match record {
            Record::Access { access, outcome } => return self.push_access(access, outcome),
            Record::Callers(callers) => return self.push_callers(callers, 0),
            _ => {}
        }
        self.scratch.clear();
        let kind = record.put(&mut self.scratch)?;
        self.make_room(self.scratch_record_len())?;
        self.put_scratch(kind, record.time());
        Ok(())
    }

    /// Adds an access and who called its function, innermost call first. Both are in one block, or
    /// neither is.
    pub fn push_access_of(
        &mut self,
        callers: &[CodeAddr],
        access: &Access,
        outcome: &Outcome,
    ) -> Result<(), EncodeError> {
        check_access(access, outcome)?;
        self.push_callers(callers, ACCESS_LEN_MAX)?;
        self.push_access(access, outcome)
    }

    /// Adds an access of a function that was called on the path `path`, the caller's number for one call
    /// chain; none when it is not known. `callers` appends the chain to an empty vector, innermost call
    /// first. It is called when the block does not have the chain yet. Callers beyond
    /// [`PATH_CALLERS_MAX`] are cut off. Both are in one block, or neither is.
    pub fn push_access_on(
        &mut self,
        path: Option<u32>,
        callers: impl FnOnce(&mut Vec<CodeAddr>),
        access: &Access,
        outcome: &Outcome,
    ) -> Result<(), EncodeError> {
        if !self.paths.is_last(access.thread, path) {
            check_access(access, outcome)?;
            self.make_room(PATH_LEN_MAX + ACCESS_LEN_MAX)?;
            self.scratch.clear();
            push_varint(&mut self.scratch, access.thread.0.into());
            if let Some(path) = path {
                match self.paths.find_or_insert(path) {
                    Some(index) => chains::encode_callers(&[], Some(index), &mut self.scratch),
                    None => {
                        let mut chain = Vec::new();
                        callers(&mut chain);
                        chain.truncate(PATH_CALLERS_MAX);
                        chains::encode_callers(&chain, None, &mut self.scratch);
                    }
                }
            }
            self.put_scratch(PATH, None);
            self.paths.set_last(access.thread, path);
        }
        self.push_access(access, outcome)
    }

    /// Adds callers when there is room for them and `more` bytes.
    fn push_callers(&mut self, callers: &[CodeAddr], more: usize) -> Result<(), EncodeError> {
        check_callers(callers.len())?;
        let known = self.chains.get(callers).copied();
        self.scratch.clear();
        chains::encode_callers(callers, known, &mut self.scratch);
        self.make_room(self.scratch_record_len() + more)?;
        self.put_scratch(CALLERS, None);
        if known.is_none() {
            // Blocks have fewer than 2^32 bytes.
            self.chains.insert(callers.into(), self.chains.len() as u32);
        }
        Ok(())
    }

    /// Bytes of a record whose payload is in `scratch`.
    fn scratch_record_len(&self) -> usize {
        1 + varint_len(self.scratch.len() as u64) + self.scratch.len()
    }

    /// Writes such a record, for which there is room.
    fn put_scratch(&mut self, kind: u8, time: Option<Cycles>) {
        let buffer = self.buffer.as_mut();
        buffer[self.len] = kind;
        let at = put_varint(buffer, self.len + 1, self.scratch.len() as u64);
        let end = at + self.scratch.len();
        buffer[at..end].copy_from_slice(&self.scratch);
        self.len = end;
        self.note(time);
    }

    /// Adds an access: [`push`](Self::push) without building a [`Record`].
    #[inline]
    pub fn push_access(&mut self, access: &Access, outcome: &Outcome) -> Result<(), EncodeError> {
        check_access(access, outcome)?;
        self.make_room(ACCESS_LEN_MAX)?;
        let room = self.buffer.as_mut()[self.len..].first_chunk_mut();
        let room = room.expect("make_room found that many bytes");
        self.len += self.state.encode(access, outcome, room);
        self.note(Some(access.time));
        Ok(())
    }

    #[inline(always)]
    fn make_room(&self, needed: usize) -> Result<(), EncodeError> {
        let capacity = self.buffer.as_ref().len().min(BLOCK_LEN_MAX);
        if needed <= capacity - self.len {
            Ok(())
        } else if needed <= capacity || capacity == 0 {
            // An empty buffer is a block that has not begun, not one that is too small.
            Err(EncodeError::Full)
        } else {
            Err(EncodeError::TooLarge { needed, capacity })
        }
    }

    #[inline(always)]
    fn note(&mut self, time: Option<Cycles>) {
        self.meta.record_count += 1;
        let Some(time) = time else { return };
        if self.has_time {
            self.meta.first_time = self.meta.first_time.min(time);
            self.meta.last_time = self.meta.last_time.max(time);
        } else {
            self.has_time = true;
            self.meta.first_time = time;
            self.meta.last_time = time;
        }
    }
}

/// Refuses what no access can be.
#[inline]
fn check_access(access: &Access, outcome: &Outcome) -> Result<(), EncodeError> {
    if !is_valid(access.op, access.offset(), access.size) {
        return Err(EncodeError::InvalidAccess {
            offset: access.offset(),
            size: access.size,
        });
    }
    check_count("time", access.time.0)?;
    let all_bits = outcome.latency.0 | outcome.queued.0 | outcome.stall.0 | outcome.lost.0;
    if all_bits > LATENCY_MAX {
        return Err(EncodeError::OutOfRange {
            field: "latency, wait or stall",
            found: all_bits,
        });
    }
    if outcome.lost > outcome.stall {
        return Err(EncodeError::OutOfRange {
            field: "lost",
            found: outcome.lost.0,
        });
    }
    check_line(access.line())
}

/// Everything that an access may refer back to. Empty at the start of a block.
#[derive(Debug, Default)]
struct State {
    last_time: u64,
    last_actor: Option<u64>,
    last_code: u64,
    last_new_line: u64,
    last_line: u64,
    last_base: [u64; DataSource::ALL.len()],
    losses: Losses,
    actors: Dictionary,
    codes: Dictionary,
    lines: Dictionary,
    line_of_code: Vec<u64>,
}

impl State {
    fn clear(&mut self) {
        self.last_time = 0;
        self.last_actor = None;
        self.last_code = 0;
        self.last_new_line = 0;
        self.last_line = 0;
        self.last_base = [0; DataSource::ALL.len()];
        self.losses = Losses::default();
        self.actors.clear();
        self.codes.clear();
        self.lines.clear();
        self.line_of_code.clear();
    }

    /// Writes a valid access and returns its length.
    #[inline(always)]
    fn encode(
        &mut self,
        access: &Access,
        outcome: &Outcome,
        out: &mut [u8; ACCESS_LEN_MAX],
    ) -> usize {
        let at = self.encode_who_and_when(access, out);
        let at = self.encode_where(access, out, at);
        let at = self.encode_outcome(outcome, out, at);
        self.encode_loss(access.op, outcome, out, at)
    }

    /// Head byte, size, time and actor. The outcome byte at 1 is filled in later.
    #[inline(always)]
    fn encode_who_and_when(&mut self, access: &Access, out: &mut [u8; ACCESS_LEN_MAX]) -> usize {
        let size_code = match access.size {
            size if size.is_power_of_two() => size.trailing_zeros() as u8,
            _ => SIZE_EXPLICIT,
        };
        let mut head = HEAD_ACCESS | access.op as u8 | size_code << HEAD_SIZE_SHIFT;
        let mut at = 2;
        if size_code == SIZE_EXPLICIT {
            out[at] = access.size;
            at += 1;
        }
        at = put_varint(out, at, delta(self.last_time, access.time.0));
        self.last_time = access.time.0;
        let actor = u64::from(access.thread.0) << 16 | u64::from(access.cpu.0);
        if self.last_actor == Some(actor) {
            head |= HEAD_SAME_ACTOR;
        } else if let Some(index) = self.actors.find_or_insert(actor) {
            at = put_varint(out, at, u64::from(index) + 1);
        } else {
            out[at] = 0;
            at = put_varint(out, at + 1, u64::from(access.thread.0));
            at = put_varint(out, at, u64::from(access.cpu.0));
        }
        self.last_actor = Some(actor);
        out[0] = head;
        at
    }

    /// Code address and data address.
    #[inline(always)]
    fn encode_where(
        &mut self,
        access: &Access,
        out: &mut [u8; ACCESS_LEN_MAX],
        mut at: usize,
    ) -> usize {
        let code = match self.codes.find_or_insert(access.code.0) {
            Some(index) => {
                at = put_varint(out, at, u64::from(index) + 1);
                index as usize
            }
            None => {
                out[at] = 0;
                at = put_varint(out, at + 1, delta(self.last_code, access.code.0));
                self.last_code = access.code.0;
                self.line_of_code.push(self.last_line);
                self.line_of_code.len() - 1
            }
        };
        let line = access.line().0;
        let expected = std::mem::replace(&mut self.line_of_code[code], line);
        self.last_line = line;
        let place = at;
        at += 1;
        let how = if line == expected {
            LINE_SAME
        } else if line == expected + 1 {
            LINE_NEXT
        } else if let Some(index) = self.lines.find_or_insert(line) {
            at = put_varint(out, at, u64::from(index));
            LINE_KNOWN
        } else {
            at = put_varint(out, at, delta(self.last_new_line, line));
            self.last_new_line = line;
            LINE_NEW
        };
        out[place] = access.offset() | how << PLACE_LINE_SHIFT;
        at
    }

    /// The outcome: its byte at 1, and what does not go without saying.
    #[inline(always)]
    fn encode_outcome(
        &mut self,
        outcome: &Outcome,
        out: &mut [u8; ACCESS_LEN_MAX],
        mut at: usize,
    ) -> usize {
        let mut flags = outcome.source as u8;
        let base = outcome.latency.0.wrapping_sub(outcome.queued.0);
        let last_base = &mut self.last_base[outcome.source as usize];
        if base != *last_base {
            *last_base = base;
            flags |= OUTCOME_BASE;
            at = put_varint(out, at, base);
        }
        if outcome.queued != Cycles::ZERO {
            flags |= OUTCOME_QUEUED;
            at = put_varint(out, at, outcome.queued.0);
        }
        let stall = if outcome.stall == Cycles::ZERO {
            STALL_ZERO
        } else if outcome.stall == outcome.latency {
            STALL_LATENCY
        } else {
            at = put_varint(out, at, outcome.stall.0);
            STALL_EXPLICIT
        };
        out[1] = flags | stall << OUTCOME_STALL_SHIFT;
        at
    }

    /// The part of the stall that others caused, where it does not go without saying.
    #[inline(always)]
    fn encode_loss(
        &mut self,
        op: AccessOp,
        outcome: &Outcome,
        out: &mut [u8; ACCESS_LEN_MAX],
        at: usize,
    ) -> usize {
        if outcome.lost == self.losses.expected(op, outcome) {
            return at;
        }
        self.losses.learn(op, outcome);
        out[0] |= HEAD_LOST;
        put_varint(out, at, outcome.lost.0)
    }
}

const fn varint_len(value: u64) -> usize {
    (u64::BITS - (value | 1).leading_zeros()).div_ceil(7) as usize
}
