//! Advice and comparisons as JSON, in the format of `docs/formats/advice.md`.

use hitm_layout::advise::{LineCost, Plan, Weighed};
use hitm_layout::layout_file::FileStruct;
use serde_json::{Value, json};

use hitm_advise::{Answer, Compared, Heading, Proof, Proposal, RecordedAdvice, nearest};

use super::words::{difference, none_better, plan, reason};

/// Version of the JSON.
const SCHEMA: u32 = 2;

/// Advice for programs.
pub fn advice_json(heading: &Heading, answer: &Answer) -> Value {
    let search = &answer.search;
    let mut json = head_json(heading);
    json["work_cycles"] = json!(answer.work_cycles);
    json["accesses"] = json!(answer.access_count);
    json["search"] = json!({
        "members": search.atoms,
        "exact_members": search.exact_atoms,
        "steps": search.steps,
        "steps_max": search.steps_max,
        "is_exact": search.is_exact(),
        "is_limited": search.is_limited,
    });
    json["replayed"] = answer.tried.map_or(Value::Null, |tried| {
        json!({
            "layouts": tried.replayed,
            "no_better": tried.no_better,
            "left_out": tried.left_out,
        })
    });
    json["not_replayed"] = json!(answer.not_replayed);
    json["original"] = weighed_json(&answer.now);
    let proposals = answer.proposals.iter();
    let proposals = proposals.map(|proposal| proposal_json(proposal, &answer.now));
    json["candidates"] = proposals.collect();
    json
}

fn proposal_json(proposal: &Proposal, now: &Weighed) -> Value {
    let candidate = &proposal.candidate;
    let saved = now.cost.cycles() - candidate.weighed.cost.cycles();
    let members = members_json(&candidate.layout);
    let moves = candidate.moves.iter().map(|moved| {
        json!({
            "members": moved.members,
            "from_line": moved.lines.0,
            "to_line": moved.lines.1,
            "saved_cycles": moved.saved_cycles.round(),
            "reason": reason(moved),
        })
    });
    json!({
        "plan": plan_name(&candidate.plan),
        "plan_words": plan(&candidate.plan),
        "weighed": weighed_json(&candidate.weighed),
        "bound_cycles": candidate.bound_cycles.map(nearest),
        "gap": candidate.gap(),
        "estimated_saved_cycles": saved.round(),
        "replay": replay_json(proposal.proof.as_ref()),
        "members": members,
        "moves": moves.collect::<Vec<_>>(),
    })
}

fn plan_name(plan: &Plan) -> &'static str {
    match plan {
        Plan::ByWriters => "by_writers",
        Plan::Apart => "apart",
        Plan::Padded => "padded",
        Plan::Alone(_) => "alone",
        Plan::Searched => "searched",
    }
}

/// Advice on a structure of a recording: that of [`advice_json`], with the present members under `now`.
pub fn recorded_json(advice: &RecordedAdvice) -> Value {
    let RecordedAdvice {
        heading,
        now,
        answer,
    } = advice;
    let mut json = advice_json(heading, answer);
    json["now"] = json!({ "size_bytes": now.size_bytes, "members": members_json(now) });
    json["none"] = json!(none_better(answer.tried));
    for (index, proposal) in answer.proposals.iter().enumerate() {
        let json = &mut json["candidates"][index];
        json["size_bytes"] = json!(proposal.candidate.layout.size_bytes);
        json["words"] = json!(difference(&answer.now, proposal));
    }
    json
}

/// The cycles of both runs; null without a replay.
fn replay_json(proof: Option<&Proof>) -> Value {
    let proof = proof.and_then(|proof| proof.as_ref().ok());
    proof.map_or(Value::Null, |proof| {
        json!({
            "cycles_before": proof.before.cycles.0,
            "cycles_after": proof.after.cycles.0,
            "lost_cycles_before": proof.before.lost.0,
            "lost_cycles_after": proof.after.lost.0,
        })
    })
}

/// Names, offsets and sizes of members.
fn members_json(layout: &FileStruct) -> Vec<Value> {
    let members = layout.members.iter();
    let json = members.map(|member| {
        json!({ "name": member.name, "offset_bytes": member.offset_bytes, "size_bytes": member.size_bytes })
    });
    json.collect()
}

/// Compares layouts side by side, for programs.
pub fn comparison_json(heading: &Heading, layouts: &[Compared]) -> Value {
    let each = layouts.iter().map(|one| {
        let why = one.proof.as_ref().and_then(|proof| proof.as_ref().err());
        json!({
            "name": one.name,
            "weighed": weighed_json(&one.weighed),
            "replay": replay_json(one.proof.as_ref()),
            "not_replayed": why,
        })
    });
    let mut json = head_json(heading);
    json["layouts"] = each.collect();
    json
}

fn head_json(heading: &Heading) -> Value {
    json!({
        "schema": SCHEMA,
        "type": heading.type_name,
        "machine": heading.machine,
        "profile": heading.profile,
        "notes": heading.notes,
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
        "cycles": nearest(cost.cycles()),
        "stall_cycles": nearest(cost.stall),
        "latency_cycles": nearest(cost.latency),
        "footprint_cycles": nearest(cost.footprint),
        "transfers": nearest(cost.transfers),
    })
}
