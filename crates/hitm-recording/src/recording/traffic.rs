//! A recording read once more, in its order: who gave lines to whom, and when cycles were lost.

use std::path::Path;

use hitm_base::{Access, LineAddr, Outcome};
use hitm_coherence::stats::{Traffic, TrafficCollector, TrafficPlan};

use super::statistics::{Shard, pass, shards};
use super::{RecordingError, RecordingFile};

impl Shard for TrafficCollector<'_> {
    fn add(&mut self, access: &Access, outcome: &Outcome) {
        TrafficCollector::add(self, access, outcome);
    }

    fn has_calls(&self, _line: LineAddr) -> bool {
        false
    }

    fn have_calls(_shards: &[Self]) -> bool {
        false
    }
}

/// Reads the recording at `path` for its hand-overs and for lost cycles over time. `progress` gets the
/// bytes read so far, and all there are.
pub fn traffic(
    path: &Path,
    plan: &TrafficPlan,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Traffic, RecordingError> {
    let mut file = RecordingFile::open(path)?;
    let len = file.len();
    let mut collectors = shards(|| TrafficCollector::new(plan));
    let read = pass(
        &mut file.reader,
        &mut collectors,
        &mut |_| {},
        &mut |read| {
            progress(read, len);
        },
    );
    read.map_err(|source| file.failed(source))?;
    Ok(TrafficCollector::finish(collectors))
}
