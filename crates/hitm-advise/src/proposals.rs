//! Candidates as proposals: tried by a replay where there is a recording, estimated by the model elsewhere.
//!
//! Invariant: no proposal is worse than the present layout by what decided it, and the first is the best.

use hitm_layout::advise::{Advice, Candidate, Plan};

use super::proof::{Proof, gain};

/// The most proposals that are shown.
const SHOWN_MAX: usize = 5;

/// Accesses that are replayed for one answer, in all: about half a minute of one core.
const REPLAYED_MAX: u64 = 60_000_000;

/// Candidates that are replayed, however long the recording is, and however short.
const TRIED: std::ops::RangeInclusive<u64> = 3..=18;

/// A layout that is better by less than this share is not worth a proposal.
const WORTH: f64 = 0.001;

/// A layout that is better than the present one.
#[derive(Debug, Clone, PartialEq)]
pub struct Proposal {
    /// The layout.
    pub candidate: Candidate,
    /// Its replay; none where the model's estimate decided.
    pub proof: Option<Proof>,
}

/// Number of candidates that were replayed, and of those that were no better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tried {
    /// Replayed ones.
    pub replayed: usize,
    /// Those of them that take as long as the present layout, or longer, or that cannot be replayed.
    pub no_better: usize,
    /// Candidates that were left out.
    pub left_out: usize,
}

/// Number of candidates that are replayed unless the caller says so.
pub(super) fn count_for(access_count: u64) -> usize {
    let count = REPLAYED_MAX / access_count.max(1);
    count.clamp(*TRIED.start(), *TRIED.end()) as usize
}

/// All candidates of an advice in the order in which they are worth a replay.
pub(super) fn in_order(advice: &Advice) -> Vec<Candidate> {
    let mut searched = advice.candidates.clone();
    searched.reverse();
    let mut rest: Vec<Candidate> = searched.split_off(searched.len().min(1));
    rest.extend(advice.plain.iter().cloned());
    let is_first =
        |candidate: &Candidate| !matches!(candidate.plan, Plan::Alone(_) | Plan::Searched);
    let (mut order, mut others): (Vec<_>, Vec<_>) = rest.into_iter().partition(is_first);
    order.sort_by(|a, b| a.plan.cmp(&b.plan));
    order.splice(order.len().min(1)..order.len().min(1), searched);
    others.sort_by(|a, b| cycles(a).total_cmp(&cycles(b)));
    order.extend(others);
    order
}

/// The replayed candidates that are better than the present layout, the best first. Of equal ones the one with
/// fewest lines is first, then the one that leaves the members in their order.
pub(super) fn proved(candidates: Vec<(Candidate, Proof)>) -> (Vec<Proposal>, usize) {
    let saved = |proof: &Proof| proof.as_ref().map_or(0.0, gain);
    let count = candidates.len();
    let mut better: Vec<(Candidate, Proof)> = candidates
        .into_iter()
        .filter(|(_, proof)| saved(proof) >= WORTH)
        .collect();
    let no_better = count - better.len();
    // Thousandths, so that noise decides nothing.
    let rank = |(candidate, proof): &(Candidate, Proof)| {
        let thousandths = (saved(proof) / WORTH).round() as i64;
        let is_reordered = candidate.plan != Plan::Padded;
        (
            std::cmp::Reverse(thousandths),
            candidate.weighed.lines,
            is_reordered,
        )
    };
    better.sort_by_key(rank);
    let better = better.into_iter();
    let proposals = better.map(|(candidate, proof)| Proposal {
        candidate,
        proof: Some(proof),
    });
    (choices(proposals), no_better)
}

/// The proposals that are shown, of all of them with the best first: more lines for less gain is no choice.
fn choices(all: impl Iterator<Item = Proposal>) -> Vec<Proposal> {
    let mut least = u64::MAX;
    let fewer_lines = all.filter(|one| {
        let lines = one.candidate.weighed.lines;
        let is_choice = lines < least;
        least = least.min(lines);
        is_choice
    });
    fewer_lines.take(SHOWN_MAX).collect()
}

/// The candidates that are better by the model, the cheapest first.
pub(super) fn estimated(advice: &Advice) -> Vec<Proposal> {
    let now = advice.original.cost.cycles();
    let all = advice.candidates.iter().chain(&advice.plain);
    let better = all.filter(|candidate| cycles(candidate) < now * (1.0 - WORTH));
    let mut better: Vec<Candidate> = better.cloned().collect();
    better.sort_by(|a, b| {
        let lines = a.weighed.lines.cmp(&b.weighed.lines);
        cycles(a).total_cmp(&cycles(b)).then(lines)
    });
    choices(better.into_iter().map(|candidate| Proposal {
        candidate,
        proof: None,
    }))
}

/// Cost by the model.
fn cycles(candidate: &Candidate) -> f64 {
    candidate.weighed.cost.cycles()
}

#[cfg(test)]
mod tests {
    use hitm_base::Cycles;
    use hitm_layout::advise::Weighed;
    use hitm_layout::layout_file::FileStruct;

    use super::*;
    use hitm_whatif::{Change, Took};

    fn candidate(plan: Plan, lines: u64) -> Candidate {
        let mut weighed = Weighed::default();
        weighed.lines = lines;
        Candidate {
            plan,
            layout: FileStruct {
                name: "s".to_owned(),
                size_bytes: lines * 64,
                align_bytes: Some(64),
                members: Vec::new(),
            },
            weighed,
            moves: Vec::new(),
            bound_cycles: None,
        }
    }

    fn takes(after: u64) -> Proof {
        let took = |cycles| Took {
            cycles: Cycles(cycles),
            lost: Cycles(0),
        };
        Ok(Change {
            before: took(100_000),
            after: took(after),
        })
    }

    /// The replay decides: what gains nothing is gone, the best is first, and more lines must gain more.
    #[test]
    fn proposals_are_better_and_the_best_is_first() {
        let alone = |member: &str| Plan::Alone(member.to_owned());
        let tried = vec![
            (candidate(Plan::Searched, 2), takes(120_000)),
            (candidate(Plan::Apart, 4), takes(60_010)),
            (candidate(Plan::ByWriters, 3), takes(60_000)),
            (candidate(Plan::Padded, 1), takes(90_000)),
            (candidate(alone("a"), 2), takes(99_990)),
            (candidate(alone("b"), 3), takes(95_000)),
            (candidate(alone("c"), 2), Err("it fails".to_owned())),
        ];
        let (proposals, no_better) = proved(tried);
        let plans: Vec<Plan> = proposals
            .into_iter()
            .map(|one| one.candidate.plan)
            .collect();
        assert_eq!(plans, [Plan::ByWriters, Plan::Padded]);
        assert_eq!(no_better, 3);
    }

    #[test]
    fn of_equal_ones_the_present_order_stays() {
        let equal = [Plan::Searched, Plan::ByWriters, Plan::Padded];
        let tried = equal.map(|plan| (candidate(plan, 1), takes(60_000)));
        let (proposals, _) = proved(tried.to_vec());
        assert_eq!(proposals.len(), 1);
        assert_eq!(proposals[0].candidate.plan, Plan::Padded);
    }

    #[test]
    fn long_recordings_are_replayed_less_often() {
        assert_eq!(
            [1_000, 6_000_000, 1_000_000_000].map(count_for),
            [18, 10, 3]
        );
    }
}
