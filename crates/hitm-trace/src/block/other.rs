//! The payloads of the records that are not accesses. They are rare, so they are plain: varints and
//! length-prefixed strings in the order of their fields.
//!
//! Callers are the exception: they refer to those that the block has introduced.
//!
//! A later minor version may add kinds, which a reader passes over, and fields at the end of a kind,
//! which a reader ignores.

use std::sync::Arc;

use hitm_base::{AddrRange, CodeAddr, CpuId, Cycles, LineAddr, ThreadId};

use super::{DecodeFault, LINE_MAX};
use crate::limits::{CALLERS_MAX, COUNT_MAX};
use crate::wire::{Cursor, delta, push_bytes, push_varint, undelta, unzigzag, zigzag};
use crate::{
    Adoption, Counter, End, EndReason, HeapObject, Loss, Mapping, ProcessExit, ProcessStart,
    Record, Region, RegionKind, Steps, Stretch, ThreadExit, ThreadPlaced, ThreadStart, Totals,
    Turn, WaitKind, Waits, Waker, Work,
};

/// Never written, so that a hole of zeros in a file is not taken for records.
const KIND_NEVER: u8 = 0;
const KIND_THREAD_START: u8 = 1;
const KIND_THREAD_PLACED: u8 = 2;
const KIND_THREAD_EXIT: u8 = 3;
const KIND_MAPPING: u8 = 4;
const KIND_HEAP_OBJECT: u8 = 5;
const KIND_REGION: u8 = 6;
const KIND_COUNTERS: u8 = 7;
const KIND_END: u8 = 8;
const KIND_WORK: u8 = 9;
const KIND_TURN: u8 = 10;
const KIND_LAYOUT: u8 = 11;
/// The callers of the next access. The only kind that refers to earlier records of its block.
pub(super) const KIND_CALLERS: u8 = 12;

const KIND_PROCESS_START: u8 = 13;
const KIND_PROCESS_EXIT: u8 = 14;
/// Callers of a thread's accesses from here on.
pub(super) const KIND_PATH: u8 = 15;

const KIND_WAITS: u8 = 16;

const WAIT_SPINNING: u64 = 0;
const WAIT_ASLEEP: u64 = 1;

const REGION_STACK: u8 = 0;
const REGION_ANONYMOUS_MAP: u8 = 1;
const REGION_BRK: u8 = 2;
const REGION_OBJECT: u8 = 3;
const REGION_SLAB: u8 = 4;
const REGION_PER_CPU: u8 = 5;
const REGION_USER_MEMORY: u8 = 6;

const TURN_LEFT: u8 = 0;
const TURN_RETURNED: u8 = 1;
const TURN_WOKEN: u8 = 2;
const TURN_PRICED: u8 = 3;
const TURN_PASSED: u8 = 4;

const END_EXITED: u8 = 0;
const END_SIGNALLED: u8 = 1;
const END_STOPPED: u8 = 2;
const END_EXEC: u8 = 3;
const END_KILLED: u8 = 4;
const END_LOST: u8 = 5;

/// Appends the payload of `record` and returns its kind. Panics on an access and on callers, whose
/// encodings refer to earlier records.
pub(super) fn encode(record: &Record, out: &mut Vec<u8>) -> u8 {
    match record {
        Record::Access { .. } => panic!("accesses are encoded by push_access"),
        Record::Callers(_) => panic!("callers are encoded by push_callers"),
        Record::ThreadStart(start) => {
            encode_thread_start(start, out);
            KIND_THREAD_START
        }
        Record::ProcessStart(start) => {
            encode_process_start(start, out);
            KIND_PROCESS_START
        }
        Record::ProcessExit(exit) => {
            push_all(out, [exit.process.into(), exit.time.0]);
            encode_reason(exit.reason, out);
            KIND_PROCESS_EXIT
        }
        Record::ThreadPlaced(placed) => {
            push_all(
                out,
                [
                    u64::from(placed.thread.0),
                    u64::from(placed.cpu.0),
                    placed.time.0,
                ],
            );
            KIND_THREAD_PLACED
        }
        Record::ThreadExit(exit) => {
            encode_exit(exit, out);
            KIND_THREAD_EXIT
        }
        Record::Waits(waits) => {
            encode_waits(waits, out);
            KIND_WAITS
        }
        Record::Mapping(mapping) => {
            encode_mapping(mapping, out);
            KIND_MAPPING
        }
        Record::HeapObject(object) => {
            encode_heap_object(object, out);
            KIND_HEAP_OBJECT
        }
        Record::Region(region) => {
            push_all(out, [region.range.start(), region.range.end()]);
            encode_region_kind(&region.kind, out);
            KIND_REGION
        }
        Record::Counters(counters) => {
            encode_counters(counters, out);
            KIND_COUNTERS
        }
        Record::End(end) => {
            encode_end(end, out);
            KIND_END
        }
        Record::Work(work) => {
            encode_work(work, out);
            KIND_WORK
        }
        Record::Turn(turn) => {
            encode_turn(turn, out);
            KIND_TURN
        }
        Record::Layout(text) => {
            push_bytes(out, text.as_bytes());
            KIND_LAYOUT
        }
    }
}

fn encode_thread_start(start: &ThreadStart, out: &mut Vec<u8>) {
    push_all(
        out,
        [
            u64::from(start.thread.0),
            u64::from(start.tid),
            u64::from(start.cpu.0),
            start.time.0,
        ],
    );
    push_bytes(out, start.name.as_bytes());
    push_varint(out, start.seat.into());
    if start.process != 0 {
        push_varint(out, start.process.into());
    }
}

fn encode_process_start(start: &ProcessStart, out: &mut Vec<u8>) {
    push_all(out, [start.process, start.pid, start.parent].map(u64::from));
    push_varint(out, start.time.0);
    push_bytes(out, start.program.as_bytes());
}

fn encode_exit(exit: &ThreadExit, out: &mut Vec<u8>) {
    push_all(out, [exit.thread.0.into(), exit.time.0]);
    push_all(out, [exit.insns, exit.accesses]);
    push_all(out, [exit.stall.0, exit.contention_stall.0]);
}

fn encode_waits(waits: &Waits, out: &mut Vec<u8>) {
    let kind = match waits.kind {
        WaitKind::Spinning => WAIT_SPINNING,
        WaitKind::Asleep => WAIT_ASLEEP,
    };
    push_all(out, [waits.thread.0.into(), kind]);
    push_all(out, [waits.word, waits.code.0]);
    push_all(out, [waits.count, waits.cycles.0]);
}

fn encode_heap_object(object: &HeapObject, out: &mut Vec<u8>) {
    let range = object.range;
    push_all(out, [range.start(), range.len(), object.time.0]);
    push_varint(out, u64::from(object.thread.0));
    push_stack(out, &object.stack);
    if let Some(told_type) = object.told_type {
        push_varint(out, told_type);
    }
}

fn encode_mapping(mapping: &Mapping, out: &mut Vec<u8>) {
    let range = mapping.range;
    push_all(out, [range.start(), range.end(), mapping.file_offset]);
    push_bytes(out, mapping.path.as_bytes());
    push_bytes(out, &mapping.build_id);
    out.push(u8::from(mapping.executable));
}

fn encode_counters(counters: &[Counter], out: &mut Vec<u8>) {
    push_varint(out, counters.len() as u64);
    for counter in counters {
        push_bytes(out, counter.name.as_bytes());
        push_varint(out, counter.value);
    }
}

fn encode_region_kind(kind: &RegionKind, out: &mut Vec<u8>) {
    match kind {
        RegionKind::Stack { thread } => {
            out.push(REGION_STACK);
            push_varint(out, u64::from(thread.0));
        }
        RegionKind::AnonymousMap { stack } => {
            out.push(REGION_ANONYMOUS_MAP);
            push_stack(out, stack);
        }
        RegionKind::Brk => out.push(REGION_BRK),
        RegionKind::Object { name, type_name } => {
            out.push(REGION_OBJECT);
            push_bytes(out, name.as_bytes());
            push_bytes(out, type_name.as_bytes());
        }
        RegionKind::Slab {
            cache,
            type_name,
            stride_bytes,
        } => {
            out.push(REGION_SLAB);
            push_bytes(out, cache.as_bytes());
            push_bytes(out, type_name.as_bytes());
            push_varint(out, *stride_bytes);
        }
        RegionKind::PerCpu { cpu } => {
            out.push(REGION_PER_CPU);
            push_varint(out, u64::from(*cpu));
        }
        RegionKind::UserMemory { address } => {
            out.push(REGION_USER_MEMORY);
            push_varint(out, *address);
        }
    }
}

fn encode_end(end: &End, out: &mut Vec<u8>) {
    push_varint(out, end.time.0);
    encode_reason(end.reason, out);
    let totals = &end.totals;
    push_all(out, [totals.threads, totals.insns, totals.accesses]);
    push_all(out, [totals.stored_accesses, totals.stall.0]);
    push_varint(out, totals.contention_stall.0);
}

fn encode_reason(reason: EndReason, out: &mut Vec<u8>) {
    let (code, value) = match reason {
        EndReason::Exited { status } => (END_EXITED, i64::from(status)),
        EndReason::Signalled { signal } => (END_SIGNALLED, i64::from(signal)),
        EndReason::Stopped => (END_STOPPED, 0),
        EndReason::Exec => (END_EXEC, 0),
        EndReason::Killed => (END_KILLED, 0),
        EndReason::Lost { loss } => (END_LOST, loss.code()),
        EndReason::Other { code, value } => (code, value),
    };
    out.push(code);
    push_varint(out, zigzag(value));
}

fn encode_work(work: &Work, out: &mut Vec<u8>) {
    push_all(out, [work.thread.0.into(), work.adoptions.len() as u64]);
    let mut last = 0;
    for adoption in &work.adoptions {
        let owner = u64::from(adoption.owner.0) << 1 | u64::from(adoption.is_written);
        push_all(out, [delta(last, adoption.line.0), owner]);
        last = adoption.line.0;
    }
    work.steps.encode(out);
    push_all(out, [work.ahead.insns, work.ahead.stores]);
}

fn encode_turn(turn: &Turn, out: &mut Vec<u8>) {
    match *turn {
        Turn::Left { thread } => {
            out.push(TURN_LEFT);
            push_varint(out, thread.0.into());
        }
        Turn::Returned {
            thread,
            waker: None,
        } => {
            out.push(TURN_RETURNED);
            push_varint(out, thread.0.into());
        }
        Turn::Returned {
            thread,
            waker: Some(waker),
        } => {
            out.push(TURN_WOKEN);
            push_all(out, [thread.0.into(), waker.thread.0.into()]);
            push_all(out, [waker.insn, zigzag(waker.delay)]);
        }
        Turn::Priced => out.push(TURN_PRICED),
        Turn::Passed { span } => {
            out.push(TURN_PASSED);
            push_varint(out, span.0);
        }
    }
}

fn push_all<const N: usize>(out: &mut Vec<u8>, values: [u64; N]) {
    for value in values {
        push_varint(out, value);
    }
}

/// Appends the payload of callers: those that the block has introduced as `known`, or new ones. Calls
/// lie close to one another, so each is told by its distance.
pub(super) fn encode_callers(callers: &[CodeAddr], known: Option<u32>, out: &mut Vec<u8>) {
    if let Some(index) = known {
        push_varint(out, u64::from(index) + 1);
        return;
    }
    push_all(out, [0, callers.len() as u64]);
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

fn push_stack(out: &mut Vec<u8>, stack: &[CodeAddr]) {
    push_varint(out, stack.len() as u64);
    for code in stack {
        push_varint(out, code.0);
    }
}

/// The record in `payload`, or `None` when this version does not know its kind.
#[inline(never)]
pub(super) fn decode(kind: u8, payload: &[u8]) -> Result<Option<Record>, DecodeFault> {
    let cursor = &mut Cursor::new(payload);
    let record = match kind {
        KIND_NEVER => {
            return Err(DecodeFault::Reserved {
                field: "record kind",
                found: kind,
            });
        }
        KIND_THREAD_START => Record::ThreadStart(thread_start(cursor)?),
        KIND_PROCESS_START => Record::ProcessStart(ProcessStart {
            process: cursor.narrow("process")?,
            pid: cursor.narrow("pid")?,
            parent: cursor.narrow("process")?,
            time: cycles(cursor)?,
            program: cursor.string("program")?,
        }),
        KIND_PROCESS_EXIT => Record::ProcessExit(ProcessExit {
            process: cursor.narrow("process")?,
            time: cycles(cursor)?,
            reason: end_reason(cursor)?,
        }),
        KIND_THREAD_PLACED => Record::ThreadPlaced(ThreadPlaced {
            thread: thread(cursor)?,
            cpu: cpu(cursor)?,
            time: cycles(cursor)?,
        }),
        KIND_THREAD_EXIT => Record::ThreadExit(ThreadExit {
            thread: thread(cursor)?,
            time: cycles(cursor)?,
            insns: count(cursor, "instructions of a thread")?,
            accesses: count(cursor, "accesses of a thread")?,
            stall: Cycles(count(cursor, "stall of a thread")?),
            contention_stall: Cycles(count(cursor, "contention stall of a thread")?),
        }),
        KIND_WAITS => match waits(cursor)? {
            Some(waits) => Record::Waits(waits),
            None => return Ok(None),
        },
        KIND_MAPPING => Record::Mapping(Mapping {
            range: range(cursor, "a mapping")?,
            file_offset: cursor.varint()?,
            path: cursor.string("path")?,
            build_id: cursor.bytes()?.to_vec(),
            executable: cursor.byte()? & 1 != 0,
        }),
        KIND_HEAP_OBJECT => Record::HeapObject(HeapObject {
            range: sized_range(cursor, "a heap block")?,
            time: cycles(cursor)?,
            thread: thread(cursor)?,
            stack: stack(cursor)?,
            told_type: match cursor.is_at_end() {
                true => None,
                false => Some(cursor.varint()?),
            },
        }),
        KIND_REGION => Record::Region(region(cursor)?),
        KIND_COUNTERS => Record::Counters(counters(cursor)?),
        KIND_END => Record::End(end(cursor)?),
        KIND_WORK => Record::Work(work(cursor)?),
        KIND_TURN => match turn(cursor)? {
            Some(turn) => Record::Turn(turn),
            None => return Ok(None),
        },
        KIND_LAYOUT => Record::Layout(cursor.string("layout file")?),
        _ => return Ok(None),
    };
    Ok(Some(record))
}

fn thread_start(cursor: &mut Cursor<'_>) -> Result<ThreadStart, DecodeFault> {
    let thread = thread(cursor)?;
    Ok(ThreadStart {
        thread,
        tid: cursor.narrow("tid")?,
        cpu: cpu(cursor)?,
        time: cycles(cursor)?,
        name: cursor.string("thread name")?,
        seat: match cursor.is_at_end() {
            true => thread.0,
            false => cursor.narrow("seat")?,
        },
        process: match cursor.is_at_end() {
            true => 0,
            false => cursor.narrow("process")?,
        },
    })
}

/// The waits, or `None` when this version does not know their kind.
fn waits(cursor: &mut Cursor<'_>) -> Result<Option<Waits>, DecodeFault> {
    let (thread, kind) = (thread(cursor)?, cursor.varint()?);
    let kind = match kind {
        WAIT_SPINNING => WaitKind::Spinning,
        WAIT_ASLEEP => WaitKind::Asleep,
        _ => return Ok(None),
    };
    Ok(Some(Waits {
        thread,
        kind,
        word: cursor.varint()?,
        code: CodeAddr(cursor.varint()?),
        count: count(cursor, "waits of a thread")?,
        cycles: Cycles(count(cursor, "cycles that a thread waited")?),
    }))
}

fn thread(cursor: &mut Cursor<'_>) -> Result<ThreadId, DecodeFault> {
    cursor.narrow("thread").map(ThreadId)
}

fn cpu(cursor: &mut Cursor<'_>) -> Result<CpuId, DecodeFault> {
    cursor.narrow("cpu").map(CpuId)
}

fn cycles(cursor: &mut Cursor<'_>) -> Result<Cycles, DecodeFault> {
    count(cursor, "time").map(Cycles)
}

/// A number of at most [`COUNT_MAX`].
fn count(cursor: &mut Cursor<'_>, field: &'static str) -> Result<u64, DecodeFault> {
    let found = cursor.varint()?;
    match found <= COUNT_MAX {
        true => Ok(found),
        false => Err(DecodeFault::OutOfRange { field, found }),
    }
}

/// The first address and the one after the last.
fn range(cursor: &mut Cursor<'_>, what: &'static str) -> Result<AddrRange, DecodeFault> {
    let (start, end) = (cursor.varint()?, cursor.varint()?);
    AddrRange::new(start, end).ok_or(DecodeFault::Range { what, start, end })
}

/// The first address and the bytes.
fn sized_range(cursor: &mut Cursor<'_>, what: &'static str) -> Result<AddrRange, DecodeFault> {
    let (start, len) = (cursor.varint()?, cursor.varint()?);
    let end = start.wrapping_add(len);
    AddrRange::with_len(start, len).ok_or(DecodeFault::Range { what, start, end })
}

/// The number of callers that follow.
fn caller_count(cursor: &mut Cursor<'_>) -> Result<usize, DecodeFault> {
    let count = cursor.count()?;
    match count <= CALLERS_MAX {
        true => Ok(count),
        false => Err(DecodeFault::OutOfRange {
            field: "number of callers",
            found: count as u64,
        }),
    }
}

fn stack(cursor: &mut Cursor<'_>) -> Result<Vec<CodeAddr>, DecodeFault> {
    let count = caller_count(cursor)?;
    (0..count).map(|_| cursor.varint().map(CodeAddr)).collect()
}

fn region(cursor: &mut Cursor<'_>) -> Result<Region, DecodeFault> {
    let range = range(cursor, "a region")?;
    let kind = region_kind(cursor)?;
    if let RegionKind::UserMemory { address } = kind
        && AddrRange::with_len(address, range.len()).is_none()
    {
        return Err(DecodeFault::Range {
            what: "memory of a program",
            start: address,
            end: address.wrapping_add(range.len()),
        });
    }
    Ok(Region { range, kind })
}

fn region_kind(cursor: &mut Cursor<'_>) -> Result<RegionKind, DecodeFault> {
    match cursor.byte()? {
        REGION_STACK => Ok(RegionKind::Stack {
            thread: thread(cursor)?,
        }),
        REGION_ANONYMOUS_MAP => Ok(RegionKind::AnonymousMap {
            stack: stack(cursor)?,
        }),
        REGION_BRK => Ok(RegionKind::Brk),
        REGION_OBJECT => Ok(RegionKind::Object {
            name: cursor.string("object name")?,
            type_name: cursor.string("object type")?,
        }),
        REGION_SLAB => Ok(RegionKind::Slab {
            cache: cursor.string("slab cache")?,
            type_name: cursor.string("slab type")?,
            stride_bytes: cursor.varint()?,
        }),
        REGION_PER_CPU => Ok(RegionKind::PerCpu {
            cpu: {
                let found = cursor.varint()?;
                let field = "region CPU";
                u32::try_from(found).map_err(|_| DecodeFault::OutOfRange { field, found })?
            },
        }),
        REGION_USER_MEMORY => Ok(RegionKind::UserMemory {
            address: cursor.varint()?,
        }),
        found => Err(DecodeFault::Reserved {
            field: "region kind",
            found,
        }),
    }
}

fn work(cursor: &mut Cursor<'_>) -> Result<Work, DecodeFault> {
    let thread = thread(cursor)?;
    let adoption_count = cursor.count()?;
    let mut last = 0;
    let adoption = |_| {
        last = undelta(last, cursor.varint()?);
        if last > LINE_MAX {
            let (field, found) = ("line", last);
            return Err(DecodeFault::OutOfRange { field, found });
        }
        let owner = cursor.varint()?;
        let number = u32::try_from(owner >> 1).map_err(|_| DecodeFault::OutOfRange {
            field: "thread",
            found: owner >> 1,
        })?;
        Ok(Adoption {
            line: LineAddr(last),
            owner: ThreadId(number),
            is_written: owner & 1 == 1,
        })
    };
    let adoptions = (0..adoption_count)
        .map(adoption)
        .collect::<Result<_, _>>()?;
    Ok(Work {
        thread,
        adoptions,
        steps: Steps::decode(cursor)?,
        ahead: Stretch {
            insns: cursor.varint()?,
            stores: cursor.varint()?,
        },
    })
}

/// `None` when a later version gave the record another meaning.
fn turn(cursor: &mut Cursor<'_>) -> Result<Option<Turn>, DecodeFault> {
    let turn = match cursor.byte()? {
        TURN_LEFT => Turn::Left {
            thread: thread(cursor)?,
        },
        TURN_RETURNED => Turn::Returned {
            thread: thread(cursor)?,
            waker: None,
        },
        TURN_WOKEN => Turn::Returned {
            thread: thread(cursor)?,
            waker: Some(Waker {
                thread: thread(cursor)?,
                insn: cursor.varint()?,
                delay: unzigzag(cursor.varint()?),
            }),
        },
        TURN_PRICED => Turn::Priced,
        TURN_PASSED => Turn::Passed {
            span: cycles(cursor)?,
        },
        _ => return Ok(None),
    };
    Ok(Some(turn))
}

fn counters(cursor: &mut Cursor<'_>) -> Result<Vec<Counter>, DecodeFault> {
    let count = cursor.count()?;
    let counter = |_| {
        Ok(Counter {
            name: cursor.string("counter name")?,
            value: cursor.varint()?,
        })
    };
    (0..count).map(counter).collect()
}

fn end(cursor: &mut Cursor<'_>) -> Result<End, DecodeFault> {
    Ok(End {
        time: cycles(cursor)?,
        reason: end_reason(cursor)?,
        totals: Totals {
            threads: cursor.varint()?,
            insns: cursor.varint()?,
            accesses: cursor.varint()?,
            stored_accesses: cursor.varint()?,
            stall: Cycles(cursor.varint()?),
            contention_stall: Cycles(cursor.varint()?),
        },
    })
}

fn end_reason(cursor: &mut Cursor<'_>) -> Result<EndReason, DecodeFault> {
    let code = cursor.byte()?;
    let value = unzigzag(cursor.varint()?);
    Ok(match (code, i32::try_from(value)) {
        (END_EXITED, Ok(status)) => EndReason::Exited { status },
        (END_SIGNALLED, Ok(signal)) => EndReason::Signalled { signal },
        (END_STOPPED, _) => EndReason::Stopped,
        (END_EXEC, _) => EndReason::Exec,
        (END_KILLED, _) => EndReason::Killed,
        (END_LOST, _) => EndReason::Lost {
            loss: Loss::of_code(value),
        },
        _ => EndReason::Other { code, value },
    })
}
