//! Advice and comparisons as text and JSON.

use hitm_base::{Cycles, Printout, grouped};
use hitm_layout::advise::{Advice, Candidate, Demand, LineCost, Search, Weighed};
use hitm_layout::layout_file::FileStruct;
use serde_json::{Value, json};

use super::Proof;

/// Version of the JSON.
const SCHEMA: u32 = 1;

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
    fn notes_text(&self, out: &mut Printout) {
        for note in &self.notes {
            out.line(&format!("note: {note}"));
        }
    }
}

/// Result of a candidate's replay: none without a recording or when none was asked for; the error
/// when it failed.
pub type Proven = Option<Result<Proof, String>>;

/// Advice for people; `proofs` has the replay of each candidate.
pub fn advice_text(
    heading: &Heading,
    advice: &Advice,
    demand: &Demand,
    proofs: &[Proven],
) -> Printout {
    let mut out = Printout::new();
    out.line(&format!(
        "{} on {} by profile {}: now {} cycles in {} lines ({} of the {} cycles of work)",
        heading.type_name,
        heading.machine,
        heading.profile,
        number(advice.original.cost.cycles()),
        advice.original.lines,
        percent(advice.original.cost.cycles() / demand.work_cycles()),
        number(demand.work_cycles()),
    ));
    heading.notes_text(&mut out);
    search_text(&mut out, &advice.search);
    lines_text(&mut out, &advice.original);
    if advice.candidates.is_empty() {
        out.blank();
        out.line("No layout is better by a thousandth.");
    }
    for (index, candidate) in advice.candidates.iter().enumerate() {
        let cycles = candidate.weighed.cost.cycles();
        out.blank();
        out.line(&format!(
            "{}. {} lines, {} cycles: {} less than now; {}",
            index + 1,
            candidate.weighed.lines,
            number(cycles),
            percent(1.0 - cycles / advice.original.cost.cycles()),
            bound_text(candidate, &advice.search),
        ));
        if let Some(Some(proof)) = proofs.get(index) {
            out.line(&format!("   {}", proof_text(proof)));
        }
        lines_text(&mut out, &candidate.weighed);
        for moved in &candidate.moves {
            let names = if moved.lines == (0, 0) && moved.saved_cycles == 0.0 {
                format!("{}: ", moved.members.join(", "))
            } else {
                String::new()
            };
            out.line(&format!("  - {names}{}.", moved.reason));
        }
    }
    out
}

fn proof_text(proof: &Result<Proof, String>) -> String {
    let Proof { cycles, lost } = match proof {
        Ok(proof) => *proof,
        Err(why) => return format!("not replayed: {why}"),
    };
    let count = |cycles: Cycles| number(cycles.0 as f64);
    let saved = 1.0 - cycles.after.0 as f64 / cycles.before.0.max(1) as f64;
    format!(
        "replayed: threads take {} cycles instead of {} ({} less) and lose {} of them to each other instead of {}",
        count(cycles.after),
        count(cycles.before),
        percent(saved),
        count(lost.after),
        count(lost.before),
    )
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
    let gap = candidate.gap();
    let found = match search.is_exact() {
        true => "",
        false => "the best found, ",
    };
    if gap == 0.0 {
        "none with as many hot lines is cheaper".into()
    } else {
        format!(
            "{found}an estimated {} above the best possible at most",
            percent(gap)
        )
    }
}

/// Compares layouts side by side, line by line, for people.
pub fn comparison_text(heading: &Heading, layouts: &[(String, Weighed)]) -> Printout {
    let mut out = Printout::new();
    out.line(&format!(
        "{} on {} by profile {}",
        heading.type_name, heading.machine, heading.profile
    ));
    heading.notes_text(&mut out);
    let first = layouts
        .first()
        .map_or(0.0, |(_, weighed)| weighed.cost.cycles());
    for (name, weighed) in layouts {
        let cycles = weighed.cost.cycles();
        let saved = match cycles <= first {
            true => format!("{} less", percent(1.0 - cycles / first)),
            false => format!("{} more", percent(cycles / first - 1.0)),
        };
        out.blank();
        out.line(&format!(
            "{name}: {} lines, {} cycles, {saved} than {}",
            weighed.lines,
            number(cycles),
            layouts[0].0
        ));
        lines_text(&mut out, weighed);
    }
    out
}

/// Most lines of a layout that are shown; the rest is summed up.
const LINES_SHOWN: usize = 16;

fn lines_text(out: &mut Printout, weighed: &Weighed) {
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

fn each(cost: &LineCost) -> f64 {
    if cost.transfers > 0.0 {
        cost.latency / cost.transfers
    } else {
        0.0
    }
}

/// Advice for programs; `proofs` has the replay of each candidate.
pub fn advice_json(
    heading: &Heading,
    advice: &Advice,
    demand: &Demand,
    proofs: &[Proven],
) -> Value {
    let candidates = advice.candidates.iter().enumerate();
    let candidates = candidates.map(|(index, candidate)| {
        let proof = proofs.get(index).and_then(Option::as_ref);
        candidate_json(candidate, proof)
    });
    json!({
        "schema": SCHEMA,
        "type": heading.type_name,
        "machine": heading.machine,
        "profile": heading.profile,
        "notes": heading.notes,
        "work_cycles": whole(demand.work_cycles()),
        "accesses": whole(demand.access_count()),
        "search": {
            "members": advice.search.atoms,
            "exact_members": advice.search.exact_atoms,
            "steps": advice.search.steps,
            "steps_max": advice.search.steps_max,
            "is_exact": advice.search.is_exact(),
            "is_limited": advice.search.is_limited,
        },
        "original": weighed_json(&advice.original),
        "candidates": candidates.collect::<Vec<_>>(),
    })
}

fn candidate_json(candidate: &Candidate, proof: Option<&Result<Proof, String>>) -> Value {
    let replay = proof.and_then(|proof| proof.as_ref().ok()).map(|proof| {
        json!({
            "cycles_before": proof.cycles.before.0,
            "cycles_after": proof.cycles.after.0,
            "lost_cycles_before": proof.lost.before.0,
            "lost_cycles_after": proof.lost.after.0,
        })
    });
    let members = members_json(&candidate.layout);
    let moves = candidate.moves.iter().map(|moved| {
        json!({
            "members": moved.members,
            "from_line": moved.lines.0,
            "to_line": moved.lines.1,
            "saved_cycles": moved.saved_cycles.round(),
            "reason": moved.reason,
        })
    });
    json!({
        "weighed": weighed_json(&candidate.weighed),
        "bound_cycles": whole(candidate.bound_cycles),
        "gap": candidate.gap(),
        "replay": replay,
        "not_replayed": proof.and_then(|proof| proof.as_ref().err()),
        "members": members,
        "moves": moves.collect::<Vec<_>>(),
    })
}

/// Describes what a layout costs and saves.
pub(super) fn difference_text(now: &Weighed, then: &Weighed) -> String {
    let (before, after) = (now.cost.cycles(), then.cost.cycles());
    let (less, word) = match after <= before {
        true => (1.0 - after / before.max(1.0), "less"),
        false => (after / before.max(1.0) - 1.0, "more"),
    };
    let lines = |weighed: &Weighed| match weighed.lines {
        1 => "1 line".to_owned(),
        count => format!("{count} lines"),
    };
    format!(
        "{} instead of {}, {} cycles instead of {}: {} {word}, as predicted by the advisor's model.",
        lines(then),
        lines(now),
        number(after),
        number(before),
        percent(less),
    )
}

/// Names, offsets and sizes of members.
pub(super) fn members_json(layout: &FileStruct) -> Vec<Value> {
    let members = layout.members.iter();
    let json = members.map(|member| {
        json!({ "name": member.name, "offset_bytes": member.offset_bytes, "size_bytes": member.size_bytes })
    });
    json.collect()
}

/// Compares layouts side by side, for programs.
pub fn comparison_json(heading: &Heading, layouts: &[(String, Weighed)]) -> Value {
    let each = layouts
        .iter()
        .map(|(name, weighed)| json!({ "name": name, "weighed": weighed_json(weighed) }));
    json!({
        "schema": SCHEMA,
        "type": heading.type_name,
        "machine": heading.machine,
        "profile": heading.profile,
        "notes": heading.notes,
        "layouts": each.collect::<Vec<_>>(),
    })
}

fn weighed_json(weighed: &Weighed) -> Value {
    let lines = weighed.per_line.iter().map(|line| {
        let mut value = cost_json(&line.cost);
        value["instance"] = json!(line.instance);
        value["line"] = json!(line.line);
        value["members"] = json!(line.members);
        value
    });
    let mut value = cost_json(&weighed.cost);
    value["lines"] = json!(weighed.lines);
    value["per_line"] = lines.collect();
    value
}

fn cost_json(cost: &LineCost) -> Value {
    json!({
        "cycles": whole(cost.cycles()),
        "stall_cycles": whole(cost.stall),
        "latency_cycles": whole(cost.latency),
        "footprint_cycles": whole(cost.footprint),
        "transfers": whole(cost.transfers),
    })
}

fn whole(number: f64) -> u64 {
    number.round().clamp(0.0, 1e18) as u64
}

fn number(value: f64) -> String {
    grouped(whole(value))
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}
