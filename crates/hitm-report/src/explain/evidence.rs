//! One line against the rule of its verdict: what it has of each condition, and what would make another verdict of it.

use hitm_base::{AccessOp, grouped};
use hitm_coherence::sharing::{
    ACCESSES_PER_CONTENDED_MAX, CONTENDED_COUNT_MIN, DISJOINT_LARGE_PERMILLE,
    DISJOINT_SMALL_PERMILLE, Fight, FightKind, Verdict, Weighed,
};
use hitm_fields::fields;

use super::rule::{limit, of_permille, other_shares, percent, rival, words};
use crate::RUN_SHARE_MIN;
use crate::fields::line;
use crate::model::{FightReport, LineReport, Report, RowReport};
use crate::names::without_repeats;
use crate::sentences::explain as say;

/// Fights whose end is looked at: the others are hardly worth a word.
const FIGHTS_MAX: usize = 4;
/// Places of a fight that a sentence names.
const PLACES_MAX: usize = 3;

fields! {
    /// A condition of a rule, and what a line has of it.
    #[derive(Debug, Clone, PartialEq)]
    pub struct Condition in condition {
        /// The quantity.
        pub text: String => words "condition";
        /// True for a share, 0 to 1; else it is a count.
        pub is_share: bool => label "share";
        /// Value that the line has.
        pub found: f64 => decimal "found";
        /// The least that the verdict needs, null where there is none.
        pub at_least: Option<f64> => decimal "at least";
        /// The most that it admits, null where there is none.
        pub at_most: Option<f64> => decimal "at most";
    }
}

/// A line and what its verdict rests on.
#[derive(Debug)]
pub struct Evidence<'a> {
    /// The line.
    pub line: &'a LineReport,
    /// The conditions of the rule, in its order.
    pub conditions: Vec<Condition>,
    /// The signs of a lock, where the line is one's.
    pub lock_signs: Option<String>,
    /// Changes that would make another verdict of it, a sentence each.
    pub changes: Vec<String>,
}

impl<'a> Evidence<'a> {
    pub(super) fn of(line: &'a LineReport, report: &Report) -> Evidence<'a> {
        let fights = weights(&line.fights);
        let is_run_known = !report.is_sampled() && report.totals.thread_cycles > 0;
        let mut conditions = enough(line);
        if is_run_known {
            let of_run = Condition::share(say::of_run(), line.run_share);
            conditions.push(of_run.at_least(RUN_SHARE_MIN));
        }
        conditions.extend(of_fights(line.verdict, Weighed(&fights)));
        let mut changes = Vec::new();
        if is_run_known {
            let found = line::run_share.text(line);
            changes.push(say::run_below(limit(RUN_SHARE_MIN), found));
        }
        changes.extend(other_layouts(line.verdict, Weighed(&fights)));
        changes.extend(without_fights(line, &fights, report.is_sampled()));
        Evidence {
            line,
            conditions,
            lock_signs: lock_signs(line),
            changes,
        }
    }
}

impl Condition {
    fn count(text: String, found: u64) -> Condition {
        Condition {
            text,
            is_share: false,
            found: found as f64,
            at_least: None,
            at_most: None,
        }
    }

    fn share(text: String, found: f64) -> Condition {
        Condition {
            is_share: true,
            found,
            ..Condition::count(text, 0)
        }
    }

    const fn at_least(mut self, limit: f64) -> Condition {
        self.at_least = Some(limit);
        self
    }

    const fn at_most(mut self, limit: f64) -> Condition {
        self.at_most = Some(limit);
        self
    }

    /// Returns true if the line meets it.
    pub fn is_met(&self) -> bool {
        self.at_least.is_none_or(|least| self.found >= least)
            && self.at_most.is_none_or(|most| self.found <= most)
    }

    /// Value that the line has, as text.
    pub(super) fn found_text(&self) -> String {
        match self.is_share {
            true => percent(self.found),
            false => grouped(self.found as u64),
        }
    }

    /// Value that is needed, as text.
    pub(super) fn needed_text(&self) -> String {
        let text = |value: f64| match self.is_share {
            true => limit(value),
            false => grouped(value as u64),
        };
        let least = self.at_least.map(|least| say::at_least(text(least)));
        let most = self.at_most.map(|most| say::at_most(text(most)));
        let limits: Vec<String> = least.into_iter().chain(most).collect();
        limits.join(", ")
    }
}

/// The fights as the rule weighs them: their bytes do not matter to it.
fn weights(fights: &[FightReport]) -> Vec<Fight> {
    let weight = |fight: &FightReport| Fight {
        kind: fight.kind,
        bytes: 0,
        contended_count: fight.contended_count,
        lost_cycles: fight.lost_cycles,
    };
    fights.iter().map(weight).collect()
}

/// Step 1 of the rule.
fn enough(line: &LineReport) -> Vec<Condition> {
    let contended = line.counts.contended_count();
    let for_each = line.counts.total().checked_div(contended).unwrap_or(0);
    vec![
        Condition::count(say::contended(), contended).at_least(CONTENDED_COUNT_MIN as f64),
        Condition::count(say::for_each(), for_each).at_most(ACCESSES_PER_CONTENDED_MAX as f64),
        Condition::share(say::disjoint(), line.disjoint_share),
    ]
}

/// Its last step.
pub(super) fn of_fights(verdict: Verdict, fights: Weighed<'_>) -> Vec<Condition> {
    const SMALL: u64 = DISJOINT_SMALL_PERMILLE;
    const LARGE: u64 = DISJOINT_LARGE_PERMILLE;
    let by_layout = of_permille(fights.layout_permille());
    let by_layout = Condition::share(say::by_layout(), by_layout);
    let mut conditions = vec![match verdict {
        // Both limits are another verdict's.
        Verdict::Mixed => {
            let above = by_layout.at_least(of_permille(SMALL + 1));
            above.at_most(of_permille(LARGE - 1))
        }
        _ if verdict.is_curable_by_layout() => by_layout.at_least(of_permille(LARGE)),
        _ => by_layout.at_most(of_permille(SMALL)),
    }];
    if let Some((kind, other)) = kind_of(verdict).zip(rival(verdict).and_then(kind_of)) {
        let text = say::by_kind(words(verdict), words(other.verdict()));
        let found = of_permille(fights.permille_of(kind));
        let least = of_permille(fights.permille_of(other));
        conditions.push(Condition::share(text, found).at_least(least));
    }
    conditions
}

fn kind_of(verdict: Verdict) -> Option<FightKind> {
    let mut kinds = FightKind::ALL.iter().copied();
    kinds.find(|kind| kind.verdict() == verdict)
}

/// The verdicts for other parts of the loss that a layout would end.
fn other_layouts(verdict: Verdict, fights: Weighed<'_>) -> Vec<String> {
    let found = percent(of_permille(fights.layout_permille()));
    let others = other_shares(verdict).into_iter();
    others
        .map(|other| say::layout_would(other.share, &found, other.verdicts))
        .collect()
}

/// The verdict without each of the costliest fights, where it would be another one.
fn without_fights(line: &LineReport, fights: &[Fight], is_sampled: bool) -> Vec<String> {
    if fights.len() == 1 {
        return vec![say::without_all()];
    }
    let mut changes = Vec::new();
    for (place, fight) in line.fights.iter().enumerate().take(FIGHTS_MAX) {
        let mut others = fights.to_vec();
        others.remove(place);
        let verdict = Weighed(&others).verdict();
        if verdict != line.verdict {
            let cost = match is_sampled {
                true => percent(fight.lost_share),
                false => format!("{} cycles", grouped(fight.lost_cycles)),
            };
            let (kind, places) = (words(fight.kind.verdict()), over(&fight.places));
            changes.push(say::without(kind, places, cost, words(verdict)));
        }
    }
    if changes.is_empty() && !fights.is_empty() {
        changes.push(say::none_alone());
    }
    changes
}

/// The places of a fight for a sentence.
fn over(places: &[String]) -> String {
    let places = without_repeats(places);
    let named: Vec<String> = places
        .iter()
        .take(PLACES_MAX)
        .map(ToString::to_string)
        .collect();
    match (named.is_empty(), places.len() - named.len()) {
        (true, _) => String::new(),
        (false, 0) => say::over(named.join(", ")),
        (false, more) => say::over(format!("{} and {more} more", named.join(", "))),
    }
}

/// The signs by which the costliest lock was found, as far as rows show them.
fn lock_signs(line: &LineReport) -> Option<String> {
    let mut fights = line.fights.iter();
    let fight = fights.find(|fight| fight.kind == FightKind::Lock && fight.is_main)?;
    let is_of_fight = |row: &&RowReport| {
        let mut places = fight.places.iter();
        row.op == AccessOp::LockedRmw && places.any(|place| row.member.starts_with(&**place))
    };
    let mut members: Vec<String> = Vec::new();
    let mut count = 0;
    for row in line.rows.iter().filter(is_of_fight) {
        count += row.access_count;
        if !members.contains(&row.member) {
            members.push(row.member.clone());
        }
    }
    Some(match members.is_empty() {
        true => say::locked_by_type(),
        false => say::locked_by(grouped(count), over(&members)),
    })
}
