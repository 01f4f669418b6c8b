//! Messages of processes, as bytes. The recorder trusts none of it: a program may write astray.

use hitm_base::{AccessOp, CodeAddr, LINE_SIZE, LineAddr, ThreadId};
use hitm_trace::{Adoption, BlockEncoder, COUNT_MAX, EncodeError, Record, Visitor, decode_block};
use thiserror::Error;
use zerocopy::{TryFromBytes, try_transmute};

use super::layout::BUFFER_LEN;
use crate::{Doings, Position, Spin, ThreadEvent};

/// Kind of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, TryFromBytes)]
#[repr(u32)]
pub enum Request {
    /// This process begins. Arguments: its pid as it knows it, 1 if it is a fork, of which process, 1 if
    /// it sees the host's CPUs, 1 if its clock though it should not. Text: its program. Answer: number of the process, its mailbox, 1 if it is
    /// recorded; time at which the timer rings that it has from the program before it, 0 if it has none, and
    /// that from one to the next.
    Attach = 1,
    /// A thread begins. Arguments: tid, seat. Text: its name. Answer: slot, time, CPU.
    Enter,
    /// The thread waits for the others, after what it did. Answer, once it may continue: budget,
    /// time, clock, CPU.
    Wait,
    /// It has waited for too long. Answer as for `Wait`.
    TimedOut,
    /// It goes into a system call that may block, after what it did. Arguments: 1 if it waits at a futex,
    /// the futex; 1 if the wait ends after a time, that time in cycles.
    Leave,
    /// It is back. Arguments: 1 if a wake ended its wait at a futex, 2 if the futex had another value by then, 3 if
    /// its time was over; the futex. Answer as for `Wait`.
    Rejoin,
    /// The thread's work so far.
    Take,
    /// It wakes those at a futex. Arguments: futex, instruction.
    Wake,
    /// It is about to end, after what it did. Arguments: instruction, status that it ends with. Until its
    /// `Close` it may still come back by `Rejoin`: a signal came first.
    ThreadExit,
    /// That many threads were woken at a futex. Arguments: their number, the futex.
    Woken,
    /// A thread was created, and comes. Arguments: tid, 1 if it wakes others at a futex when it ends, the
    /// futex.
    Created,
    /// A thread's stack. Arguments: tid, first address, first address after it.
    Stack,
    /// A thread is pinned, at the place that the last `Take` tells. Arguments: tid, 0 for this one. Bytes: the
    /// CPUs, one 16-bit number each. Answer: 0 if it is, 1 if the program has none of the CPUs, 2 if nobody
    /// knows the thread; this thread's CPU.
    Pin,
    /// It has another name. Text: the name.
    Rename,
    /// Records, encoded as a block.
    Records,
    /// The process ends, after what the thread did. Arguments: status.
    ProcessExit,
    /// The process is about to fork.
    Forking,
    /// It has forked. Arguments: pid of the child as the parent knows it, 0 if there is none.
    Forked,
    /// Another program takes the process over, if that succeeds, after what the thread did.
    Exec,
    /// A program runs unrecorded. Arguments: 1 if it takes this process over. Text: why, and which.
    Unfollowed,
    /// A child runs unrecorded.
    UnfollowedFork,
    /// An object that processes share. Arguments: device, inode, kind, bytes. Text: its name. Answer:
    /// its number.
    Object,
    /// Nobody needs the channel any more: its thread has ended, if it was one's.
    Close,
    /// The process ends, by nobody knows which thread.
    ProcessGone,
    /// No other program took the process over.
    Stays,
    /// Calls in the chains of the accesses that the thread tells next ([`super::pack_calls`]).
    Calls,
    /// Asks on which CPUs a thread may run. Arguments: tid, 0 for this one; number of a word of the mask.
    /// Answer: 0 if the thread is known, that word and the two after it.
    Affinity,
    /// The process needs the recording's memory in a file. Arguments: descriptor of its socket, on which that
    /// comes. Answer: 1 if it does.
    Memory,
    /// QEMU has refused to make a namespace.
    NoNamespace,
    /// A timer of the process is set, or turned off. Arguments: its number, 1 if it is set, the time at which it
    /// rings next, time from one to the next.
    SetTimer,
    /// The thread that lets the process's timers ring has done so, and waits for the next. It is no thread of the
    /// program. Answer: the timer's number.
    NextTimer,
}

/// Number of the timer that a process keeps when another program takes it over: setitimer's, of real time.
pub const INTERVAL_TIMER: u64 = 0;

impl Request {
    pub(super) fn from_number(number: u32) -> Option<Request> {
        try_transmute!(number).ok()
    }
}

/// A request with its arguments and the bytes in the buffer.
#[derive(Debug, Clone, Copy)]
pub struct Message<'a> {
    /// Its kind.
    pub request: Request,
    /// Its arguments.
    pub args: [u64; 8],
    /// Its bytes.
    pub bytes: &'a [u8],
}

impl<'a> Message<'a> {
    /// A message without bytes.
    pub fn new(request: Request, args: &[u64]) -> Message<'a> {
        let mut all = [0; 8];
        all[..args.len()].copy_from_slice(args);
        Message {
            request,
            args: all,
            bytes: &[],
        }
    }

    /// The same with these bytes, as far as they fit.
    pub fn with_bytes(self, bytes: &'a [u8]) -> Message<'a> {
        let bytes = &bytes[..bytes.len().min(BUFFER_LEN)];
        Message { bytes, ..self }
    }

    /// Its bytes as a text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(self.bytes).into_owned()
    }
}

/// Bytes that say something impossible.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("a recorded process said what cannot be")]
pub struct BadMessage;

pub(super) const HEAD_WORDS: usize = 7;
pub(super) const TAKEN_BYTES: usize = 16;
pub(super) const EVENT_BYTES: usize = 40;
const SPIN_WORDS: usize = 6;

/// The same as [`Doings`], as a message has told it.
#[derive(Debug, Default, Clone)]
pub struct PackedDoings {
    taken: Vec<Adoption>,
    pub(crate) events: Vec<ThreadEvent>,
    pub(crate) spins: Vec<Spin>,
    position: Position,
    accesses: u64,
    out_of_range: u64,
}

impl PackedDoings {
    /// Doings as the message has told them.
    pub(crate) fn doings(&self) -> Doings<'_> {
        Doings {
            taken: &self.taken,
            events: &self.events,
            position: self.position,
            accesses: self.accesses,
            out_of_range: self.out_of_range,
            spins: &self.spins,
        }
    }
}

/// Puts as many lines and events as fit into `out`; how many of each did. Spins that do not fit are left out.
pub fn pack_doings(doings: &Doings<'_>, out: &mut Vec<u8>) -> (usize, usize) {
    let Doings { taken, events, .. } = doings;
    let spins = &doings.spins[..doings.spins.len().min(Spin::KINDS_MAX)];
    let room = BUFFER_LEN - (HEAD_WORDS + spins.len() * SPIN_WORDS) * 8;
    let taken_count = taken.len().min(room / 2 / TAKEN_BYTES);
    let event_room = (room - taken_count * TAKEN_BYTES) / EVENT_BYTES;
    // Lines are taken over before the accesses that took them.
    let event_count = match taken_count == taken.len() {
        true => events.len().min(event_room),
        false => 0,
    };
    out.clear();
    let head = [
        doings.position.insn,
        doings.position.stores,
        doings.accesses,
        doings.out_of_range,
        taken_count as u64,
        event_count as u64,
        spins.len() as u64,
    ];
    push_words(out, head);
    for line in &taken[..taken_count] {
        let owner = u64::from(line.owner.0) << 1 | u64::from(line.is_written);
        push_words(out, [line.line.0, owner]);
    }
    for event in &events[..event_count] {
        let kind = u64::from(event.op as u8) << 8 | u64::from(event.size);
        let words = [event.insn, event.stores, event.addr, event.code.0, kind];
        push_words(out, words);
    }
    for spin in spins {
        let counts = [spin.count, spin.insns, spin.locked];
        push_words(out, [spin.word, spin.queue.unwrap_or(0), spin.code.0]);
        push_words(out, counts);
    }
    (taken_count, event_count)
}

fn push_words<const N: usize>(out: &mut Vec<u8>, words: [u64; N]) {
    for word in words {
        out.extend_from_slice(&word.to_le_bytes());
    }
}

/// Reads the work of a thread that was at `since` before, after an access at `last`: the block
/// of instructions that it is in counts as done.
pub fn unpack_doings(
    bytes: &[u8],
    since: Position,
    mut last: Position,
) -> Result<PackedDoings, BadMessage> {
    let mut words = bytes
        .chunks_exact(8)
        .map(|word| u64::from_le_bytes(word.try_into().expect("chunks of 8")));
    let mut next = || words.next().ok_or(BadMessage);
    let position = Position {
        insn: next()?,
        stores: next()?,
    };
    let (accesses, out_of_range) = (next()?, next()?);
    let [taken_count, event_count, spin_count] = [next()?, next()?, next()?];
    let is_behind = position.insn < since.insn || position.stores < since.stores;
    if is_behind || position.insn.max(position.stores).max(accesses) > COUNT_MAX {
        return Err(BadMessage);
    }
    let mut doings = PackedDoings {
        position,
        accesses,
        out_of_range: out_of_range & u64::from(u32::MAX),
        ..PackedDoings::default()
    };
    for _ in 0..taken_count {
        let (line, owner) = (next()?, next()?);
        doings.taken.push(Adoption {
            line: LineAddr(line),
            owner: ThreadId(u32::try_from(owner >> 1).map_err(|_| BadMessage)?),
            is_written: owner & 1 == 1,
        });
    }
    for _ in 0..event_count {
        let [insn, stores, addr, code] = [next()?, next()?, next()?, next()?];
        let kind = next()?;
        // The upper half is the access's call chain ([`super::unpack_paths`]).
        let op = AccessOp::of_number((kind >> 8) as u8).ok_or(BadMessage)?;
        let size = kind as u8;
        let is_in_line = addr % LINE_SIZE + u64::from(size) <= LINE_SIZE;
        let is_sized = (size == 0) == (op == AccessOp::Fence);
        let is_later = insn >= last.insn && stores >= last.stores;
        let is_done = insn <= position.insn && stores <= position.stores;
        if !(is_in_line && is_sized && is_later && is_done) || addr >= u64::MAX - LINE_SIZE {
            return Err(BadMessage);
        }
        last = Position { insn, stores };
        doings.events.push(ThreadEvent {
            insn,
            stores,
            addr,
            code: CodeAddr(code),
            size,
            op,
        });
    }
    for _ in 0..spin_count {
        let spin = Spin {
            word: next()?,
            queue: Some(next()?).filter(|queue| *queue != 0),
            code: CodeAddr(next()?),
            count: next()?,
            insns: next()?,
            locked: next()?,
        };
        if [spin.count, spin.insns, spin.locked]
            .into_iter()
            .any(|count| count > position.insn)
        {
            return Err(BadMessage);
        }
        doings.spins.push(spin);
    }
    Ok(doings)
}

/// Records as blocks that fit a buffer each. Records that fit none are left out; how many.
pub fn pack_records(records: &[Record], mut send: impl FnMut(&[u8])) -> u64 {
    let mut encoder = BlockEncoder::new(vec![0; BUFFER_LEN]);
    let mut left_out = 0;
    for record in records {
        let mut pushed = encoder.push(record);
        if pushed == Err(EncodeError::Full) {
            send(encoder.bytes());
            encoder.clear();
            pushed = encoder.push(record);
        }
        left_out += u64::from(pushed.is_err());
    }
    if !encoder.is_empty() {
        send(encoder.bytes());
    }
    left_out
}

/// The records of a block.
pub fn unpack_records(bytes: &[u8]) -> Result<Vec<Record>, BadMessage> {
    struct Found(Vec<Record>);
    impl Visitor for Found {
        fn access(&mut self, _: &hitm_base::Access, _: &hitm_base::Outcome) {}

        fn record(&mut self, record: Record) {
            self.0.push(record);
        }
    }
    let mut found = Found(Vec::new());
    decode_block(bytes, &mut found).map_err(|_| BadMessage)?;
    Ok(found.0)
}
