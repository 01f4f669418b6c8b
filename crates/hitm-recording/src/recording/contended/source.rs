//! Files of accesses that are read in several passes.

use std::path::PathBuf;

use hitm_coherence::stats::CallCollector;

use crate::recording::statistics::{SHARDS, Shard, pass, shards};
use crate::recording::{Recording, RecordingError, RecordingFile};

/// A file whose accesses every pass gives in the same order.
pub(crate) trait Source {
    /// A reason why it cannot be read.
    type Error;

    /// Shards that a pass counts into.
    const SHARDS: usize;

    /// Reads the file once, and counts its accesses in shards that `make` makes.
    fn read<S: Shard>(
        &mut self,
        others: Others,
        make: &dyn Fn() -> S,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Passed<S>, Self::Error>;
}

/// A pass's treatment of everything that is no access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Others {
    /// The recording that it makes has it.
    Kept,
    /// An earlier pass has kept it.
    PassedOver,
}

/// Results of a pass.
pub(crate) struct Passed<S> {
    /// Everything but the statistics, where others are kept.
    pub recording: Recording,
    /// Statistics, by part of the addresses.
    pub(crate) shards: Vec<S>,
    /// Calls, by caller.
    pub(crate) calls: CallCollector,
    /// Set if the shards were full before the end.
    pub(crate) is_stopped: bool,
}

/// The recording at this path.
pub(super) struct RecordingAt(pub(super) PathBuf);

impl Source for RecordingAt {
    type Error = RecordingError;

    const SHARDS: usize = SHARDS;

    fn read<S: Shard>(
        &mut self,
        others: Others,
        make: &dyn Fn() -> S,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Passed<S>, RecordingError> {
        let mut file = RecordingFile::open(&self.0)?;
        let mut recording = Recording::of_header(file.header().clone(), file.machine()?);
        let mut shards = shards(make);
        let all = file.len();
        let mut take = |record| {
            if others == Others::Kept {
                recording.take(record);
            }
        };
        let mut progress = |read| progress(read, all);
        let found = pass(&mut file.reader, &mut shards, &mut take, &mut progress);
        let found = found.map_err(|error| file.failed(error))?;
        recording.has_work = found.has_work;
        recording.recovery = file.reader.recovery();
        if others == Others::Kept {
            recording.read_generated(&self.0, all);
        }
        Ok(Passed {
            recording,
            shards,
            calls: found.calls,
            is_stopped: found.is_stopped,
        })
    }
}
