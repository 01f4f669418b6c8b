//! Advice and comparisons as text.

use std::collections::{BTreeMap, BTreeSet};

use hitm_base::{Printout, counted, grouped};
use hitm_layout::advise::{Candidate, LineCost, Plan, Search, Weighed};
use hitm_whatif::{Change, Took};

use super::proof::{Proof, gain};
use super::proposals::{Proposal, Tried};
use super::session::{Answer, Compared};

/// Head of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heading {
    /// The structure.
    pub type_name: String,
    /// Name of the machine.
    pub machine: String,
    /// Name of the profile.
    pub profile: String,
    /// Notes for the reader, one sentence each.
    pub notes: Vec<String>,
}

impl Heading {
    fn subject(&self) -> String {
        format!(
            "{} on {} by profile {}",
            self.type_name, self.machine, self.profile
        )
    }

    fn notes_text(&self, out: &mut Printout) {
        for note in &self.notes {
            out.line(&format!("note: {note}"));
        }
    }
}

/// Advice for people.
pub fn advice_text(heading: &Heading, answer: &Answer) -> Printout {
    let mut out = Printout::new();
    let now = match &answer.before {
        Some(before) => format!("{} now", took_text(before)),
        None => format!(
            "an estimated {} cycles now, {} of the {} cycles of work",
            number(answer.now.cost.cycles()),
            percent(answer.now.cost.cycles() / answer.work_cycles.max(1) as f64),
            grouped(answer.work_cycles),
        ),
    };
    out.line(&format!(
        "{}: {}, {now}",
        heading.subject(),
        lines_of(&answer.now)
    ));
    heading.notes_text(&mut out);
    how_found_text(&mut out, answer);
    let is_replayed = answer.tried.is_some();
    lines_text(&mut out, &answer.now, is_replayed);
    if answer.proposals.is_empty() {
        out.blank();
        out.line(&none_text(answer.tried));
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

/// Says that no layout is better, and by what.
pub(super) fn none_text(tried: Option<Tried>) -> String {
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

fn moves_text(out: &mut Printout, candidate: &Candidate) {
    for moved in &candidate.moves {
        let names = if moved.lines == (0, 0) && moved.saved_cycles == 0.0 {
            format!("{}: ", moved.members.join(", "))
        } else {
            String::new()
        };
        out.line(&format!("  - {names}{}.", moved.reason));
    }
}

fn proposal_text(proposal: &Proposal, answer: &Answer) -> String {
    let candidate = &proposal.candidate;
    let lines = lines_of(&candidate.weighed);
    let plan = plan_text(&candidate.plan);
    match &proposal.proof {
        Some(proof) => format!("{lines}, {plan}: {}", proof_text(proof)),
        None => format!(
            "{lines}, {plan}: an estimated {} cycles, {}{}",
            number(candidate.weighed.cost.cycles()),
            saved_text(1.0 - candidate.weighed.cost.cycles() / answer.now.cost.cycles()),
            bound_text(candidate, &answer.search),
        ),
    }
}

/// Idea behind a layout, in a few words.
pub(super) fn plan_text(plan: &Plan) -> String {
    match plan {
        Plan::ByWriters => "members by who writes them".to_owned(),
        Plan::Apart => "each written member on a line of its own".to_owned(),
        Plan::Padded => "in the present order, aligned and padded to lines".to_owned(),
        Plan::Alone(member) => format!("{member} on a line of its own"),
        Plan::Searched => "by the model's search".to_owned(),
    }
}

fn took_text(took: &Took) -> String {
    format!(
        "threads take {} cycles and lose {} of them to each other",
        grouped(took.cycles.0),
        grouped(took.lost.0)
    )
}

fn proof_text(proof: &Proof) -> String {
    match proof {
        Ok(proof) => format!(
            "{} by replay: threads take {} cycles instead of {}, and lose {} of them to each other instead of {}",
            saved_text(gain(proof)),
            grouped(proof.after.cycles.0),
            grouped(proof.before.cycles.0),
            grouped(proof.after.lost.0),
            grouped(proof.before.lost.0),
        ),
        Err(why) => format!("not replayed: {why}"),
    }
}

/// Says by what and how the layouts were found.
fn how_found_text(out: &mut Printout, answer: &Answer) {
    if let Some(why) = &answer.not_replayed {
        out.line(&format!("note: not replayed: {why}"));
    }
    let Some(tried) = answer.tried else {
        out.line(
            "note: estimated by a model of independent accesses; docs/models/advisor.md says how far off it is",
        );
        return search_text(out, &answer.search);
    };
    let left_out = match tried.left_out {
        0 => String::new(),
        count => format!("; {count} more were left out (--candidates)"),
    };
    out.line(&format!(
        "note: {} replayed{}{left_out}",
        counted(tried.replayed as u64, "layout"),
        match tried.no_better {
            0 => String::new(),
            count => format!(", {count} no better than now"),
        }
    ));
}

/// Reports the progress of a search that cannot prove its answer optimal.
fn search_text(out: &mut Printout, search: &Search) {
    if search.is_exact() {
        return;
    }
    let ended = match search.is_limited {
        true => ", where the search ends",
        false => "",
    };
    out.line(&format!(
        "note: {} members are touched: the layouts are the best found in {} steps{ended}, not proven the best; \
         only the {} most used were tried in every combination",
        search.atoms,
        grouped(search.steps),
        search.exact_atoms,
    ));
}

fn bound_text(candidate: &Candidate, search: &Search) -> String {
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

/// Compares layouts side by side, line by line, for people.
pub fn comparison_text(heading: &Heading, layouts: &[Compared]) -> Printout {
    let mut out = Printout::new();
    out.line(&heading.subject());
    heading.notes_text(&mut out);
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
            format!("now: {}, {}", lines_of(&now.weighed), took_text(before))
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
            Some(proof @ Ok(_)) => format!("{}: {lines}, {}", one.name, proof_text(proof)),
            proof => {
                let saved = saved_text(1.0 - cycles(one) / cycles(now));
                let why = match proof {
                    Some(proof) => format!("; {}", proof_text(proof)),
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

/// Describes what a proposal costs and saves.
pub(super) fn difference_text(now: &Weighed, proposal: &Proposal) -> String {
    let then = &proposal.candidate.weighed;
    let lines = format!("{} instead of {}", lines_of(then), now.lines);
    match &proposal.proof {
        Some(proof) => format!("{lines}, {}.", proof_text(proof)),
        None => format!(
            "{lines}, an estimated {} cycles instead of {}: {}.",
            number(then.cost.cycles()),
            number(now.cost.cycles()),
            saved_text(1.0 - then.cost.cycles() / now.cost.cycles().max(1.0)),
        ),
    }
}

fn lines_of(weighed: &Weighed) -> String {
    counted(weighed.lines, "line")
}

/// A share that is saved, or lost where it is negative.
fn saved_text(share: f64) -> String {
    match share >= 0.0 {
        true => format!("{} less", percent(share)),
        false => format!("{} more", percent(-share)),
    }
}

pub(super) fn whole(number: f64) -> u64 {
    number.round().clamp(0.0, 1e18) as u64
}

fn number(value: f64) -> String {
    grouped(whole(value))
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}
