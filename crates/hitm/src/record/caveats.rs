//! Answers that programs got from the host, or refusals, although the modelled machine would have it otherwise.

use std::sync::atomic::{AtomicU64, Ordering};

use hitm_recording::Caveat;

/// Counts of caveats.
#[derive(Debug, Default)]
pub(super) struct Caveats {
    counts: [AtomicU64; Caveat::ALL.len()],
}

impl Caveats {
    pub(super) fn note(&self, caveat: Caveat) {
        self.counts[caveat as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count(&self, caveat: Caveat) -> u64 {
        self.counts[caveat as usize].load(Ordering::Relaxed)
    }

    /// Those that there are.
    pub(super) fn found(&self) -> Vec<Caveat> {
        let all = Caveat::ALL.into_iter();
        all.filter(|caveat| self.count(*caveat) > 0).collect()
    }
}
