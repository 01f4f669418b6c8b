//! Answers that programs got from the host, or refusals, although the modelled machine would have it otherwise.

use hitm_trace::Caveat;

/// Counts of caveats.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Caveats {
    counts: [u64; Caveat::ALL.len()],
}

impl Caveats {
    /// Counts one more if it is there.
    pub(super) fn note_if(&mut self, caveat: Caveat, is_there: bool) {
        self.counts[caveat as usize] += u64::from(is_there);
    }

    /// Number of programs with this one.
    pub fn count(&self, caveat: Caveat) -> u64 {
        self.counts[caveat as usize]
    }

    /// Those that there are.
    pub fn found(&self) -> Vec<Caveat> {
        let all = Caveat::ALL.into_iter();
        all.filter(|caveat| self.count(*caveat) > 0).collect()
    }
}
