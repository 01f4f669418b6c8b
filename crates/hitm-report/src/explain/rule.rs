//! The rule of each verdict in words, with the limits of the code.

use hitm_base::grouped;
use hitm_coherence::sharing::{
    ACCESSES_PER_CONTENDED_MAX, CONTENDED_COUNT_MIN, DISJOINT_LARGE_PERMILLE,
    DISJOINT_SMALL_PERMILLE, PLACE_SHARE_DIVISOR, READS_PER_WRITE_MIN, SPIN_LOADS_PER_LOCKED,
    THREAD_SHARE_DIVISOR, Verdict,
};
use hitm_fields::{Unit, Value};

use crate::RUN_SHARE_MIN;
use crate::sentences::explain as say;

/// A share as text.
pub(super) fn percent(share: f64) -> String {
    Value::Number(share).text(Unit::Share)
}

/// A limit as text.
pub(super) fn limit(share: f64) -> String {
    percent(share).replace(".0%", "%")
}

/// Thousandths as a share.
pub(super) const fn of_permille(permille: u64) -> f64 {
    permille as f64 / 1000.0
}

/// The words for a verdict.
pub(super) const fn words(verdict: Verdict) -> &'static str {
    verdict.facts().words
}

/// The verdict whose fights the rule compares with those of this one.
pub(super) const fn rival(verdict: Verdict) -> Option<Verdict> {
    match verdict {
        Verdict::FalseSharing => Some(Verdict::ReadMostlyWithHotWriter),
        Verdict::ReadMostlyWithHotWriter => Some(Verdict::FalseSharing),
        Verdict::TrueSharing => Some(Verdict::Lock),
        Verdict::Lock => Some(Verdict::TrueSharing),
        Verdict::NoContention | Verdict::PairSharing | Verdict::Mixed => None,
    }
}

/// The conditions that a line with a verdict meets, a sentence each.
pub(super) fn rule_of(verdict: Verdict) -> Vec<String> {
    let enough = say::enough(CONTENDED_COUNT_MIN, grouped(ACCESSES_PER_CONTENDED_MAX));
    let counts = say::who_counts(THREAD_SHARE_DIVISOR, PLACE_SHARE_DIVISOR);
    let worth = say::worth(limit(RUN_SHARE_MIN));
    if verdict == Verdict::NoContention {
        return vec![say::no_verdict(), enough, counts, worth];
    }
    if verdict == Verdict::PairSharing {
        return vec![enough, worth, say::shares_pair(CONTENDED_COUNT_MIN)];
    }
    let [small, large] = limits();
    let mut rule = vec![enough, counts, worth];
    rule.push(match verdict {
        Verdict::Mixed => say::partly_layout(small, large),
        _ if verdict.is_curable_by_layout() => say::mostly_layout(large),
        _ => say::hardly_layout(small),
    });
    if let Some(rival) = rival(verdict) {
        rule.push(say::costlier(words(verdict), words(rival)));
    }
    rule.extend(match verdict {
        Verdict::ReadMostlyWithHotWriter => Some(say::read_mostly(READS_PER_WRITE_MIN)),
        Verdict::TrueSharing => Some(say::same_bytes()),
        Verdict::Lock => Some(say::is_lock(SPIN_LOADS_PER_LOCKED)),
        Verdict::NoContention | Verdict::FalseSharing | Verdict::PairSharing | Verdict::Mixed => {
            None
        }
    });
    rule
}

/// Changes that would make another verdict of it, a sentence each.
pub(super) fn changes_of(verdict: Verdict) -> Vec<String> {
    if verdict == Verdict::NoContention {
        return vec![say::more_hand_overs()];
    }
    if verdict == Verdict::PairSharing {
        return vec![say::below(limit(RUN_SHARE_MIN))];
    }
    let mut changes: Vec<String> = other_shares(verdict)
        .into_iter()
        .map(|other| say::otherwise(other.share, other.verdicts))
        .collect();
    if let Some(rival) = rival(verdict) {
        changes.push(say::other_kind(words(rival), words(rival)));
    }
    changes.push(say::below(limit(RUN_SHARE_MIN)));
    changes
}

/// Another part of the loss that a layout would end, and what it would make of a line.
pub(super) struct OtherShare {
    /// The part in words.
    pub(super) share: String,
    /// The verdict in words, or two.
    pub(super) verdicts: String,
}

/// The other parts that matter to a line with a verdict.
pub(super) fn other_shares(verdict: Verdict) -> Vec<OtherShare> {
    let [small, large] = limits();
    let either = |one, other| say::either(words(one), words(other));
    let other = |share: String, verdicts: String| OtherShare { share, verdicts };
    let by_layout = either(Verdict::FalseSharing, Verdict::ReadMostlyWithHotWriter);
    let by_bytes = either(Verdict::TrueSharing, Verdict::Lock);
    let mixed = words(Verdict::Mixed).to_owned();
    match verdict {
        Verdict::NoContention => Vec::new(),
        Verdict::Mixed => vec![
            other(say::at_least(large), by_layout),
            other(say::at_most(small), by_bytes),
        ],
        _ if verdict.is_curable_by_layout() => vec![
            other(say::less_than(large), mixed),
            other(say::at_most(small), by_bytes),
        ],
        _ => vec![
            other(say::more_than(small), mixed),
            other(say::at_least(large), by_layout),
        ],
    }
}

/// The part that does not matter, and the part that is all, in words.
fn limits() -> [String; 2] {
    [DISJOINT_SMALL_PERMILLE, DISJOINT_LARGE_PERMILLE].map(|permille| limit(of_permille(permille)))
}
