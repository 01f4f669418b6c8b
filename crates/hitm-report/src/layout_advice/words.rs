//! The words for a layout, its reasons and its proof, from [`sentences`](crate::sentences).

use hitm_advise::{Answer, Proof, Proposal, Tried, gain, nearest};
use hitm_base::{counted, grouped};
use hitm_layout::advise::{Candidate, Habits, Move, Plan, Reason, Search, Weighed};
use hitm_whatif::Took;

use crate::sentences::layout as say;

/// Reason for which members move.
pub(super) fn reason(moved: &Move) -> String {
    let both = |[one, other]: &[Habits; 2]| say::both(habits(one), habits(other));
    let cycles = moved.saved_cycles;
    match &moved.reason {
        Reason::GetsAway(members @ [one, other]) => {
            say::gets_away(&one.name, &other.name, both(members), number(cycles))
        }
        Reason::Joins(members @ [one, other]) if cycles > 0.0 => {
            say::joins(&one.name, &other.name, both(members), number(cycles))
        }
        Reason::Joins(members @ [one, other]) => {
            say::joins_for_least(&one.name, &other.name, both(members))
        }
        Reason::Leaves(members @ [one, other]) => {
            say::leaves(&one.name, &other.name, both(members))
        }
        Reason::NotSearched => say::not_searched(),
        Reason::Untouched => say::untouched(),
    }
}

/// Accesses to a member, and who makes them.
fn habits(of: &Habits) -> String {
    let by = |count: f64| counted(count as u64, "core");
    let (reads, writes) = (number(of.reads), number(of.writes));
    match (of.reads > 0.0, of.writes > 0.0) {
        (true, true) => say::is_used(&of.name, writes, by(of.writers), reads, by(of.readers)),
        (false, true) => say::is_written(&of.name, writes, by(of.writers)),
        _ => say::is_read(&of.name, reads, by(of.readers)),
    }
}

/// Idea behind a layout, in a few words.
pub(crate) fn plan(plan: &Plan) -> String {
    match plan {
        Plan::ByWriters => say::by_writers(),
        Plan::Apart => say::apart(),
        Plan::Padded => say::padded(),
        Plan::Alone(member) => say::alone(member),
        Plan::Searched => say::searched(),
    }
}

/// Cycles that a run took.
pub(super) fn took(took: &Took) -> String {
    say::took(grouped(took.cycles.0), grouped(took.lost.0))
}

/// Result of a replay.
pub(super) fn proof(proof: &Proof) -> String {
    match proof {
        Ok(proof) => say::took_instead(
            saved(gain(proof)),
            grouped(proof.after.cycles.0),
            grouped(proof.before.cycles.0),
            grouped(proof.after.lost.0),
            grouped(proof.before.lost.0),
        ),
        Err(why) => say::not_replayed(why),
    }
}

/// Says by what and how the layouts were found.
pub(super) fn how_found(answer: &Answer) -> Vec<String> {
    let mut notes = Vec::new();
    notes.extend(answer.not_replayed.as_ref().map(say::not_replayed));
    let Some(tried) = answer.tried else {
        notes.push(say::estimated());
        notes.extend(search_end(&answer.search));
        return notes;
    };
    let unless_none = |count: usize, sentence: fn(usize) -> String| match count {
        0 => String::new(),
        count => sentence(count),
    };
    notes.push(say::replayed(
        counted(tried.replayed as u64, "layout"),
        unless_none(tried.no_better, say::no_better),
        unless_none(tried.left_out, say::left_out),
    ));
    notes
}

/// Reports the progress of a search that cannot prove its answer optimal.
fn search_end(search: &Search) -> Option<String> {
    if search.is_exact() {
        return None;
    }
    let ended = match search.is_limited {
        true => say::search_ends(),
        false => String::new(),
    };
    Some(say::not_exact(
        search.atoms,
        grouped(search.steps),
        ended,
        search.exact_atoms,
    ))
}

/// Distance of a candidate from the best possible one.
pub(super) fn bound(candidate: &Candidate, search: &Search) -> String {
    let found = match search.is_exact() {
        true => String::new(),
        false => say::best_found(),
    };
    match candidate.gap() {
        None => String::new(),
        Some(0.0) => say::is_best(),
        Some(gap) => say::gap(found, percent(gap)),
    }
}

/// Says that no layout is better, and by what.
pub(super) fn none_better(tried: Option<Tried>) -> String {
    match tried {
        Some(tried) => say::none_replayed(match tried.replayed {
            1 => "one was".to_owned(),
            count => format!("{count} were"),
        }),
        None => say::none_estimated(),
    }
}

/// Describes what a proposal costs and saves.
pub(super) fn difference(now: &Weighed, proposal: &Proposal) -> String {
    let then = &proposal.candidate.weighed;
    let lines = lines_of(then);
    match &proposal.proof {
        Some(proven) => say::difference(lines, now.lines, proof(proven)),
        None => {
            let [cycles, before] = [then, now].map(|one| one.cost.cycles());
            let saved = saved(1.0 - cycles / before.max(1.0));
            say::difference_estimated(lines, now.lines, number(cycles), number(before), saved)
        }
    }
}

/// Lines of a layout that are touched.
pub(super) fn lines_of(weighed: &Weighed) -> String {
    counted(weighed.lines, "line")
}

/// A share that is saved, or lost where it is negative.
pub(super) fn saved(share: f64) -> String {
    match share >= 0.0 {
        true => say::less(percent(share)),
        false => say::more(percent(-share)),
    }
}

/// The nearest whole number, with commas.
pub(super) fn number(value: f64) -> String {
    grouped(nearest(value))
}

/// A share in per cent.
pub(super) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}
