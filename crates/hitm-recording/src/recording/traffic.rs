//! A recording read once more, in its order: who gave lines to whom, when cycles were lost, how long a lock was held.

use std::path::Path;

use hitm_base::{Access, Outcome};
use hitm_coherence::stats::{
    HoldCollector, HoldPlan, Holds, Traffic, TrafficCollector, TrafficPlan,
};

use super::statistics::{Shard, pass, shards};
use super::{RecordingError, RecordingFile};

impl Shard for TrafficCollector<'_> {
    const COUNTS_CALLS: bool = false;

    fn add(&mut self, access: &Access, outcome: &Outcome) {
        TrafficCollector::add(self, access, outcome);
    }
}

impl Shard for HoldCollector<'_> {
    const COUNTS_CALLS: bool = false;

    fn add(&mut self, access: &Access, outcome: &Outcome) {
        HoldCollector::add(self, access, outcome);
    }
}

/// Reads the recording at `path` for its hand-overs and for lost cycles over time. `progress` gets the
/// bytes read so far, and all there are.
pub fn traffic(
    path: &Path,
    plan: &TrafficPlan,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Traffic, RecordingError> {
    let mut collectors = shards(|| TrafficCollector::new(plan));
    read_into(&mut collectors, path, progress)?;
    Ok(TrafficCollector::finish(collectors))
}

/// Reads the recording at `path` for the time that a lock was held. `progress` is that of [`traffic`].
pub fn holds(
    path: &Path,
    plan: &HoldPlan,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Holds, RecordingError> {
    let mut collectors = shards(|| HoldCollector::new(plan));
    read_into(&mut collectors, path, progress)?;
    Ok(HoldCollector::finish(collectors))
}

fn read_into<S: Shard>(
    collectors: &mut [S],
    path: &Path,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(), RecordingError> {
    let mut file = RecordingFile::open(path)?;
    let len = file.len();
    let read = pass(&mut file.reader, collectors, &mut |_| {}, &mut |read| {
        progress(read, len);
    });
    read.map_err(|source| file.failed(source))?;
    Ok(())
}
