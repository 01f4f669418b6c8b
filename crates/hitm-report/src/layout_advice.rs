//! Advice on the layout of a structure and comparisons of layouts, as text and as JSON.

mod json;
mod words;
pub(crate) use words::plan;

use std::collections::{BTreeMap, BTreeSet};

use hitm_advise::{Answer, Compared, Heading, Proposal};
use hitm_base::grouped;
use hitm_layout::advise::{Candidate, LineCost, Reason, Weighed};
use hitm_whatif::Change;
use words::{bound, how_found, lines_of, none_better, number, percent, proof, reason, saved, took};

use crate::Printout;

pub use json::{advice_json, comparison_json, recorded_json};

fn subject(heading: &Heading) -> String {
    format!(
        "{} on {} by profile {}",
        heading.type_name, heading.machine, heading.profile
    )
}

fn notes_text(out: &mut Printout, heading: &Heading) {
    for note in &heading.notes {
        out.line(&format!("note: {note}"));
    }
}

/// Advice for people.
pub fn advice_text(heading: &Heading, answer: &Answer) -> Printout {
    let mut out = Printout::new();
    let now = match &answer.before {
        Some(before) => format!("{} now", took(before)),
        None => format!(
            "an estimated {} cycles now, {} of the {} cycles of work",
            number(answer.now.cost.cycles()),
            percent(answer.now.cost.cycles() / answer.work_cycles.max(1) as f64),
            grouped(answer.work_cycles),
        ),
    };
    out.line(&format!(
        "{}: {}, {now}",
        subject(heading),
        lines_of(&answer.now)
    ));
    notes_text(&mut out, heading);
    for note in how_found(answer) {
        out.line(&format!("note: {note}"));
    }
    let is_replayed = answer.tried.is_some();
    lines_text(&mut out, &answer.now, is_replayed);
    if answer.proposals.is_empty() {
        out.blank();
        out.line(&none_better(answer.tried));
    }
    for (index, proposal) in answer.proposals.iter().enumerate() {
        out.blank();
        out.line(&format!(
            "{}. {}",
            index + 1,
            proposal_text(proposal, answer)
        ));
        lines_text(&mut out, &proposal.candidate.weighed, is_replayed);
        moves_text(&mut out, &proposal.candidate);
    }
    out
}

fn moves_text(out: &mut Printout, candidate: &Candidate) {
    for moved in &candidate.moves {
        let names = match moved.reason {
            Reason::NotSearched | Reason::Untouched => format!("{}: ", moved.members.join(", ")),
            _ => String::new(),
        };
        out.line(&format!("  - {names}{}.", reason(moved)));
    }
}

fn proposal_text(proposal: &Proposal, answer: &Answer) -> String {
    let candidate = &proposal.candidate;
    let lines = lines_of(&candidate.weighed);
    let plan = plan(&candidate.plan);
    match &proposal.proof {
        Some(proven) => format!("{lines}, {plan}: {}", proof(proven)),
        None => format!(
            "{lines}, {plan}: an estimated {} cycles, {}{}",
            number(candidate.weighed.cost.cycles()),
            saved(1.0 - candidate.weighed.cost.cycles() / answer.now.cost.cycles()),
            bound(candidate, &answer.search),
        ),
    }
}

/// Compares layouts side by side, line by line, for people.
pub fn comparison_text(heading: &Heading, layouts: &[Compared]) -> Printout {
    let mut out = Printout::new();
    out.line(&subject(heading));
    notes_text(&mut out, heading);
    let Some((now, others)) = layouts.split_first() else {
        return out;
    };
    let before = others
        .iter()
        .find_map(|one| one.proof.as_ref()?.as_ref().ok());
    let is_replayed = before.is_some();
    if !is_replayed {
        out.line("note: cycles are estimated by a model of independent accesses");
    }
    let cycles = |one: &Compared| one.weighed.cost.cycles();
    out.blank();
    out.line(&match before {
        Some(Change { before, .. }) => {
            format!("now: {}, {}", lines_of(&now.weighed), took(before))
        }
        None => format!(
            "now: {}, {} cycles",
            lines_of(&now.weighed),
            number(cycles(now))
        ),
    });
    lines_text(&mut out, &now.weighed, is_replayed);
    for one in others {
        let lines = lines_of(&one.weighed);
        out.blank();
        out.line(&match &one.proof {
            Some(proven @ Ok(_)) => format!("{}: {lines}, {}", one.name, proof(proven)),
            proven => {
                let saved = saved(1.0 - cycles(one) / cycles(now));
                let why = match proven {
                    Some(proven) => format!("; {}", proof(proven)),
                    None => String::new(),
                };
                format!(
                    "{}: {lines}, an estimated {} cycles, {saved}{why}",
                    one.name,
                    number(cycles(one))
                )
            }
        });
        lines_text(&mut out, &one.weighed, is_replayed);
    }
    out
}

/// Most lines of a layout that are shown; the rest is summed up.
const LINES_SHOWN: usize = 16;

/// The touched lines and who is in them: with the model's costs unless a replay decided.
fn lines_text(out: &mut Printout, weighed: &Weighed, is_replayed: bool) {
    if is_replayed {
        return members_text(out, weighed);
    }
    out.line("  line      cycles       stall   transfers  cycles each  members");
    let mut order: Vec<_> = weighed.per_line.iter().collect();
    if order.len() > LINES_SHOWN {
        order.sort_by(|a, b| b.cost.cycles().total_cmp(&a.cost.cycles()));
        order.truncate(LINES_SHOWN);
        order.sort_by_key(|line| (line.instance, line.line));
    }
    for line in &order {
        let instance = match line.instance {
            0 => String::new(),
            number => format!("{number}:"),
        };
        let cost = &line.cost;
        out.line(&format!(
            "  {:>4} {:>11} {:>11} {:>11} {:>12}  {}",
            format!("{instance}{}", line.line),
            number(cost.cycles()),
            number(cost.stall),
            number(cost.transfers),
            number(each(cost)),
            line.members.join(" "),
        ));
    }
    let left_out = weighed.per_line.len() - order.len();
    if left_out > 0 {
        out.line(&format!("  {left_out} cheaper lines left out"));
    }
}

/// The touched lines of all instances together, and who is in them.
fn members_text(out: &mut Printout, weighed: &Weighed) {
    let mut lines: BTreeMap<u64, BTreeSet<&str>> = BTreeMap::new();
    for line in &weighed.per_line {
        let members = line.members.iter().map(String::as_str);
        lines.entry(line.line).or_default().extend(members);
    }
    out.line("  line  members");
    for (line, members) in lines.iter().take(LINES_SHOWN) {
        let members: Vec<&str> = members.iter().copied().collect();
        out.line(&format!("  {line:>4}  {}", members.join(" ")));
    }
    if lines.len() > LINES_SHOWN {
        out.line(&format!(
            "  {} more lines left out",
            lines.len() - LINES_SHOWN
        ));
    }
}

fn each(cost: &LineCost) -> f64 {
    if cost.transfers > 0.0 {
        cost.latency / cost.transfers
    } else {
        0.0
    }
}
