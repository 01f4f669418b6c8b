//! From chunks to statistics, on all cores.
//!
//! A batch of chunks is decoded in parallel, each chunk's accesses sorted into shards by line. Then
//! each shard takes its accesses from all chunks in the order of the file. A line is in one shard,
//! so the result does not depend on the number of shards.

use std::io::Read;
use std::sync::Arc;

use hitm_base::{Access, CodeAddr, Cycles, DataSource, LineAddr, Outcome};
use hitm_coherence::stats::{CallCollector, CallStats, Collector, Statistics};
use hitm_trace::{RawChunk, ReadError, Record, TraceReader, Visitor, decode_chunk};
use rayon::prelude::*;

/// Blocks are decoded together until they have this many bytes: 8 blocks as the recorder writes them. An
/// access of five bytes takes 56 when it is decoded, so no batch takes more than some 130 MiB.
const BATCH_BYTES: usize = 2 << 20;

/// Shards of a recording: a power of two well above the cores of most machines.
pub(super) const SHARDS: usize = 16;

/// An access with its outcome, whose cycles no recording lets be more than 32 bits hold
/// ([`hitm_trace::LATENCY_MAX`]).
struct Kept {
    access: Access,
    latency: u32,
    queued: u32,
    stall: u32,
    lost: u32,
    source: DataSource,
}

impl Kept {
    fn of(access: &Access, outcome: &Outcome) -> Kept {
        Kept {
            access: *access,
            latency: outcome.latency.0 as u32,
            queued: outcome.queued.0 as u32,
            stall: outcome.stall.0 as u32,
            lost: outcome.lost.0 as u32,
            source: outcome.source,
        }
    }

    fn outcome(&self) -> Outcome {
        let cycles = |count: u32| Cycles(count.into());
        Outcome {
            source: self.source,
            latency: cycles(self.latency),
            queued: cycles(self.queued),
            stall: cycles(self.stall),
            lost: cycles(self.lost),
        }
    }
}

#[derive(Default)]
struct Decoded {
    shards: [Vec<Kept>; SHARDS],
    /// The accesses whose callers are known.
    calls: Vec<(Access, Outcome, Arc<[CodeAddr]>)>,
    /// Callers of the function of the next access.
    callers: Option<Arc<[CodeAddr]>>,
    others: Vec<Record>,
    has_work: bool,
}

impl Visitor for Decoded {
    fn access(&mut self, access: &Access, outcome: &Outcome) {
        if let Some(callers) = self.callers.take() {
            self.calls.push((*access, *outcome, callers));
        }
        self.shards[shard_of(access.line())].push(Kept::of(access, outcome));
    }

    fn record(&mut self, record: Record) {
        match record {
            // Those are for a replay; there are too many of them to keep.
            Record::Work(_) => self.has_work = true,
            Record::Turn(_) => {}
            Record::Callers(callers) => self.callers = Some(callers),
            other => self.others.push(other),
        }
    }
}

/// Spreads neighbouring lines over the shards.
fn shard_of(line: LineAddr) -> usize {
    (line_hash(line) >> 32) as usize % SHARDS
}

/// A hash whose upper half spreads lines.
pub(super) fn line_hash(line: LineAddr) -> u64 {
    line.0.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Counts accesses to the lines of one shard.
pub(crate) trait Shard: Send + Sized {
    /// True if callers of accesses are counted as well.
    const COUNTS_CALLS: bool = true;

    /// Counts one access.
    fn add(&mut self, access: &Access, outcome: &Outcome);

    /// Returns true if the callers of accesses to a line are counted.
    fn has_calls(&self, _line: LineAddr) -> bool {
        Self::COUNTS_CALLS
    }

    /// Returns true if a pass with these shards counts callers, or may still do so.
    fn have_calls(_shards: &[Self]) -> bool {
        Self::COUNTS_CALLS
    }

    /// Returns true if a pass into these shards need not continue.
    fn are_full(_shards: &[Self]) -> bool {
        false
    }
}

/// Counts an access's callers where its shard wants them.
pub(crate) fn add_call<S: Shard>(
    calls: &mut CallCollector,
    shards: &[S],
    access: &Access,
    outcome: &Outcome,
    callers: &[CodeAddr],
) {
    let line = access.line();
    let shard = match shards {
        [only] => only,
        _ => &shards[shard_of(line)],
    };
    if shard.has_calls(line) {
        calls.add(access, outcome, callers);
    }
}

impl Shard for Collector {
    fn add(&mut self, access: &Access, outcome: &Outcome) {
        Collector::add(self, access, outcome);
    }
}

/// A counter for each shard.
pub(super) fn shards<S>(make: impl FnMut() -> S) -> Vec<S> {
    std::iter::repeat_with(make).take(SHARDS).collect()
}

/// Results of a pass beside the counts of its shards.
#[derive(Default)]
pub(super) struct Found {
    pub(super) calls: CallCollector,
    /// True if the recording has the threads' work between their accesses.
    pub(super) has_work: bool,
    /// Set if the pass was stopped before the end.
    pub(super) is_stopped: bool,
}

/// Reads everything into `shards`, until they are full after a batch. `take` gets all records but accesses
/// and what is for a replay, in order.
pub(super) fn pass<R: Read, S: Shard>(
    reader: &mut TraceReader<R>,
    shards: &mut [S],
    take: &mut dyn FnMut(Record),
    progress: &mut dyn FnMut(u64),
) -> Result<Found, ReadError> {
    let mut found = Found::default();
    loop {
        let batch = next_batch(reader)?;
        let Some(last) = batch.last() else { break };
        let read_bytes = last.offset() + last.stored_len() as u64;
        let decoded: Result<Vec<Decoded>, ReadError> = batch.par_iter().map(decode).collect();
        let decoded = decoded?;
        shards
            .par_iter_mut()
            .enumerate()
            .for_each(|(shard, counter)| {
                for chunk in &decoded {
                    for kept in &chunk.shards[shard] {
                        counter.add(&kept.access, &kept.outcome());
                    }
                }
            });
        if S::have_calls(shards) {
            for (access, outcome, callers) in decoded.iter().flat_map(|chunk| &chunk.calls) {
                add_call(&mut found.calls, shards, access, outcome, callers);
            }
        } else {
            found.calls = CallCollector::default();
        }
        found.has_work |= decoded.iter().any(|chunk| chunk.has_work);
        decoded
            .into_iter()
            .flat_map(|chunk| chunk.others)
            .for_each(&mut *take);
        progress(read_bytes);
        if S::are_full(shards) {
            found.is_stopped = true;
            break;
        }
    }
    Ok(found)
}

/// The statistics of all shards.
pub(crate) fn joined(parts: Vec<Collector>, calls: CallStats) -> Statistics {
    let parts: Vec<Statistics> = parts.into_par_iter().map(Collector::finish).collect();
    let mut all = Statistics {
        calls,
        ..Statistics::default()
    };
    parts.into_iter().for_each(|part| all.merge_disjoint(part));
    all
}

/// The next chunks; none at the end.
fn next_batch<R: Read>(reader: &mut TraceReader<R>) -> Result<Vec<RawChunk>, ReadError> {
    let mut batch = Vec::new();
    let mut bytes = 0;
    while bytes < BATCH_BYTES {
        let Some(chunk) = reader.next_chunk()? else {
            break;
        };
        bytes += chunk.uncompressed_len();
        batch.push(chunk);
    }
    Ok(batch)
}

fn decode(chunk: &RawChunk) -> Result<Decoded, ReadError> {
    let mut decoded = Decoded::default();
    decode_chunk(chunk)?.visit(&mut decoded)?;
    Ok(decoded)
}
