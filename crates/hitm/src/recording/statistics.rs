//! From chunks to statistics, on all cores.
//!
//! A batch of chunks is decoded in parallel, each chunk's accesses sorted into shards by line; then
//! each shard takes its accesses from all chunks in the order of the file. A line is in one shard,
//! so the result does not depend on how many there are.

use std::io::Read;

use hitm_base::{Access, LineAddr, Outcome};
use hitm_coherence::stats::{Collector, Statistics};
use hitm_trace::{RawChunk, ReadError, Record, TraceReader, Visitor, decode_chunk};
use rayon::prelude::*;

/// Chunks decoded at a time: some 30,000 accesses each, 48 bytes an access when decoded.
const BATCH_CHUNKS: usize = 32;

/// A power of two well above the cores of most machines.
const SHARDS: usize = 16;

#[derive(Default)]
struct Decoded {
    shards: [Vec<(Access, Outcome)>; SHARDS],
    others: Vec<Record>,
}

impl Visitor for Decoded {
    fn access(&mut self, access: &Access, outcome: &Outcome) {
        self.shards[shard_of(access.line())].push((*access, *outcome));
    }

    fn record(&mut self, record: Record) {
        // Those are for a replay; there are too many of them to keep.
        if !matches!(record, Record::Work(_) | Record::Turn(_)) {
            self.others.push(record);
        }
    }
}

/// Spreads neighbouring lines over the shards.
fn shard_of(line: LineAddr) -> usize {
    (line.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize % SHARDS
}

/// Reads everything: the statistics of the accesses, and all other records in order.
pub(super) fn collect<R: Read>(
    reader: &mut TraceReader<R>,
    progress: &mut dyn FnMut(u64),
) -> Result<(Statistics, Vec<Record>), ReadError> {
    let mut shards: Vec<Collector> = (0..SHARDS).map(|_| Collector::default()).collect();
    let mut others = Vec::new();
    loop {
        let mut batch: Vec<RawChunk> = Vec::with_capacity(BATCH_CHUNKS);
        while batch.len() < BATCH_CHUNKS {
            let Some(chunk) = reader.next_chunk()? else {
                break;
            };
            batch.push(chunk);
        }
        let Some(last) = batch.last() else { break };
        let read_bytes = last.offset() + last.stored_len() as u64;
        let decoded: Result<Vec<Decoded>, ReadError> = batch.par_iter().map(decode).collect();
        let decoded = decoded?;
        shards
            .par_iter_mut()
            .enumerate()
            .for_each(|(shard, collector)| {
                for chunk in &decoded {
                    for (access, outcome) in &chunk.shards[shard] {
                        collector.add(access, outcome);
                    }
                }
            });
        others.extend(decoded.into_iter().flat_map(|chunk| chunk.others));
        progress(read_bytes);
    }
    let parts: Vec<Statistics> = shards.into_par_iter().map(Collector::finish).collect();
    let mut all = Statistics::default();
    parts.into_iter().for_each(|part| all.merge_disjoint(part));
    Ok((all, others))
}

fn decode(chunk: &RawChunk) -> Result<Decoded, ReadError> {
    let mut decoded = Decoded::default();
    decode_chunk(chunk)?.visit(&mut decoded)?;
    Ok(decoded)
}
