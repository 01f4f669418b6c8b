//! Advice on the layout of a structure, in words.

use hitm_advise::{Answer, Proof, Proposal, Tried, gain};
use hitm_base::{counted, grouped};
use hitm_layout::advise::{Candidate, Habits, Plan, Reason, Search, Weighed};
use hitm_whatif::Took;

/// Reason for which members move.
pub(crate) fn reason(reason: &Reason) -> String {
    let together =
        |members: &[Habits; 2]| format!("{}, and {}", habits(&members[0]), habits(&members[1]));
    match reason {
        Reason::GetsAway { members, cycles } => format!(
            "{} gets away from {}: {}; in one line they cost an estimated {} cycles more than apart",
            members[0].name,
            members[1].name,
            together(members),
            number(*cycles)
        ),
        Reason::Joins { members, cycles } => format!(
            "{} joins {}: {}; {}",
            members[0].name,
            members[1].name,
            together(members),
            match *cycles > 0.0 {
                true => format!(
                    "apart they cost an estimated {} cycles more",
                    number(*cycles)
                ),
                false => "of all company it costs least".to_owned(),
            }
        ),
        Reason::Leaves { members } => format!(
            "{} leaves {}: {}",
            members[0].name,
            members[1].name,
            together(members)
        ),
        Reason::NotSearched => "the limit of the search leaves their reasons out".to_owned(),
        Reason::Untouched => {
            "nothing in the profile touches them: they fill what the others leave".to_owned()
        }
    }
}

/// Who does what to a member.
fn habits(of: &Habits) -> String {
    let by = |count: f64| counted(count as u64, "core");
    let Habits { name, .. } = of;
    match (of.reads > 0.0, of.writes > 0.0) {
        (true, true) => format!(
            "{name} is written {} times by {} and read {} times by {}",
            number(of.writes),
            by(of.writers),
            number(of.reads),
            by(of.readers)
        ),
        (false, true) => format!(
            "{name} is written {} times by {}",
            number(of.writes),
            by(of.writers)
        ),
        _ => format!(
            "{name} is only read, {} times by {}",
            number(of.reads),
            by(of.readers)
        ),
    }
}

/// Says that no layout is better, and by what.
pub(crate) fn none_better(tried: Option<Tried>) -> String {
    match tried {
        Some(tried) => format!(
            "No layout is better by a thousandth: {} replayed.",
            match tried.replayed {
                1 => "one was".to_owned(),
                count => format!("{count} were"),
            }
        ),
        None => "No layout is better by a thousandth, as the model estimates.".to_owned(),
    }
}

/// Idea behind a layout, in a few words.
pub(crate) fn plan(plan: &Plan) -> String {
    match plan {
        Plan::ByWriters => "members by who writes them".to_owned(),
        Plan::Apart => "each written member on a line of its own".to_owned(),
        Plan::Padded => "in the present order, aligned and padded to lines".to_owned(),
        Plan::Alone(member) => format!("{member} on a line of its own"),
        Plan::Searched => "by the model's search".to_owned(),
    }
}

/// Cycles that a run took.
pub(crate) fn took(took: &Took) -> String {
    format!(
        "threads take {} cycles and lose {} of them to each other",
        grouped(took.cycles.0),
        grouped(took.lost.0)
    )
}

/// Result of a replay.
pub(crate) fn proof(proof: &Proof) -> String {
    match proof {
        Ok(proof) => format!(
            "{} by replay: threads take {} cycles instead of {}, and lose {} of them to each other instead of {}",
            saved(gain(proof)),
            grouped(proof.after.cycles.0),
            grouped(proof.before.cycles.0),
            grouped(proof.after.lost.0),
            grouped(proof.before.lost.0),
        ),
        Err(why) => format!("not replayed: {why}"),
    }
}

/// Says by what and how the layouts were found.
pub(crate) fn how_found(answer: &Answer) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(why) = &answer.not_replayed {
        notes.push(format!("not replayed: {why}"));
    }
    let Some(tried) = answer.tried else {
        notes.push(
            "estimated by a model of independent accesses; docs/models/advisor.md says how far off it is"
                .to_owned(),
        );
        notes.extend(search_end(&answer.search));
        return notes;
    };
    let left_out = match tried.left_out {
        0 => String::new(),
        count => format!("; {count} more were left out (--candidates)"),
    };
    notes.push(format!(
        "{} replayed{}{left_out}",
        counted(tried.replayed as u64, "layout"),
        match tried.no_better {
            0 => String::new(),
            count => format!(", {count} no better than now"),
        }
    ));
    notes
}

/// Reports the progress of a search that cannot prove its answer optimal.
fn search_end(search: &Search) -> Option<String> {
    if search.is_exact() {
        return None;
    }
    let ended = match search.is_limited {
        true => ", where the search ends",
        false => "",
    };
    Some(format!(
        "{} members are touched: the layouts are the best found in {} steps{ended}, not proven the best; \
         only the {} most used were tried in every combination",
        search.atoms,
        grouped(search.steps),
        search.exact_atoms,
    ))
}

/// How far a candidate is from the best possible one.
pub(crate) fn bound(candidate: &Candidate, search: &Search) -> String {
    let found = match search.is_exact() {
        true => "",
        false => "the best found, ",
    };
    match candidate.gap() {
        None => String::new(),
        Some(0.0) => "; none with as many hot lines is cheaper".to_owned(),
        Some(gap) => format!(
            "; {found}an estimated {} above the best possible at most",
            percent(gap)
        ),
    }
}

/// Describes what a proposal costs and saves.
pub(crate) fn difference(now: &Weighed, proposal: &Proposal) -> String {
    let then = &proposal.candidate.weighed;
    let lines = format!("{} instead of {}", lines_of(then), now.lines);
    match &proposal.proof {
        Some(proof) => format!("{lines}, {}.", self::proof(proof)),
        None => format!(
            "{lines}, an estimated {} cycles instead of {}: {}.",
            number(then.cost.cycles()),
            number(now.cost.cycles()),
            saved(1.0 - then.cost.cycles() / now.cost.cycles().max(1.0)),
        ),
    }
}

/// Lines of a layout that are touched.
pub(crate) fn lines_of(weighed: &Weighed) -> String {
    counted(weighed.lines, "line")
}

/// A share that is saved, or lost where it is negative.
pub(crate) fn saved(share: f64) -> String {
    match share >= 0.0 {
        true => format!("{} less", percent(share)),
        false => format!("{} more", percent(-share)),
    }
}

/// The nearest whole number.
pub(crate) fn whole(number: f64) -> u64 {
    number.round().clamp(0.0, 1e18) as u64
}

/// The same, with commas.
pub(crate) fn number(value: f64) -> String {
    grouped(whole(value))
}

/// A share in per cent.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}
