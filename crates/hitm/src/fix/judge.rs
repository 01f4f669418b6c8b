//! Two versions' cycles -> which is faster, and whether that is beyond the spread.

/// Cycles of several recordings of one version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spread {
    /// The one in the middle; of an even number the higher of two.
    pub median: u64,
    /// The lowest.
    pub min: u64,
    /// The highest.
    pub max: u64,
}

impl Spread {
    /// The spread of some numbers; none of none.
    pub fn of(cycles: &[u64]) -> Option<Spread> {
        let mut sorted = cycles.to_vec();
        sorted.sort_unstable();
        Some(Spread {
            median: *sorted.get(sorted.len() / 2)?,
            min: *sorted.first()?,
            max: *sorted.last()?,
        })
    }
}

/// A version beside the one before.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Judgement {
    /// Cycles of the version before.
    pub before: Spread,
    /// Cycles of the version with the remedy.
    pub after: Spread,
}

impl Judgement {
    /// Share of the median that the remedy saves; negative where it costs more.
    pub fn gain(&self) -> f64 {
        share_saved(self.before.median, self.after.median)
    }

    /// Share that is saved by the slowest run with the remedy, beside the fastest run without.
    pub fn sure_gain(&self) -> f64 {
        share_saved(self.before.min, self.after.max)
    }

    /// Returns true if each run with the remedy saves `min_gain` of each run without.
    pub fn is_kept(&self, min_gain: f64) -> bool {
        self.sure_gain() >= min_gain
    }
}

fn share_saved(before: u64, after: u64) -> f64 {
    1.0 - after as f64 / before.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(before: &[u64], after: &[u64]) -> Judgement {
        Judgement {
            before: Spread::of(before).unwrap(),
            after: Spread::of(after).unwrap(),
        }
    }

    #[test]
    fn a_gain_within_the_spread_is_none() {
        let clear = judged(&[1000, 1010, 990], &[900, 905, 910]);
        assert!(clear.is_kept(0.03) && clear.is_kept(0.08) && !clear.is_kept(0.09));
        assert!((clear.gain() - 0.095).abs() < 1e-9);
        let noisy = judged(&[1000, 1300, 900], &[880, 890, 700]);
        assert!(noisy.gain() > 0.1 && !noisy.is_kept(0.03));
        let worse = judged(&[1000], &[1200]);
        assert!(worse.gain() < 0.0 && !worse.is_kept(0.0));
        assert_eq!(Spread::of(&[]), None);
    }
}
