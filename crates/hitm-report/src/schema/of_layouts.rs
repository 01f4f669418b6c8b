//! Outputs about layouts of structures.

use super::Output;
use super::form::{Form, Members, list, or_null, rows};
use crate::{fields, fix};

pub(super) fn outputs() -> Vec<Output> {
    let of = Output::new;
    let advice = "docs/formats/advice.md";
    let layout = "docs/formats/layout.md";
    vec![
        of(
            "advice",
            "hitm layout advise TYPE --format json",
            advice,
            advise(),
        ),
        Output::new(
            "advice-all",
            "hitm layout advise --all --format json",
            advice,
            list(advise()),
        ),
        of(
            "advice-compare",
            "hitm layout compare --format json",
            advice,
            compared(),
        ),
        of(
            "layout-show",
            "hitm layout show TYPE --format json",
            layout,
            layout_show(),
        ),
        of(
            "layout-check",
            "hitm layout check --format json",
            layout,
            layout_check(),
        ),
        of(
            "layout-list",
            "hitm layout list --format json",
            layout,
            layout_list(),
        ),
        of(
            "layout-diff",
            "hitm layout diff --format json",
            layout,
            layout_diff(),
        ),
        of(
            "fix",
            "hitm fix --format json",
            "docs/formats/fix.md",
            fixed(),
        ),
        of(
            "review",
            "hitm review --format json",
            "docs/formats/review.md",
            review(),
        ),
    ]
}

fn fixed() -> Members {
    Members::default()
        .with("schema", Form::Whole)
        .and(fix::fix::ALL)
        .with("remedies", rows(fix::fix_remedy::ALL))
        .with("left", rows(fix::fix_left::ALL))
        .with("machines", rows(fix::fix_machine::ALL))
}

fn heading() -> Members {
    Members::default()
        .with("schema", Form::Whole)
        .with("type", Form::Text)
        .with("machine", Form::Text)
        .with("profile", or_null(Form::Text))
        .with("notes", list(Form::Text))
}

fn cost() -> Members {
    let keys = [
        "cycles",
        "stall_cycles",
        "latency_cycles",
        "footprint_cycles",
        "transfers",
    ];
    Members::default().with_all(&keys, &Form::Number)
}

fn weighed() -> Members {
    let line = cost()
        .with("instance", Form::Whole)
        .with("line", Form::Whole)
        .with("members", list(Form::Any));
    cost()
        .with("lines", Form::Whole)
        .with("per_line", list(line))
}

fn replay() -> Form {
    let keys = [
        "cycles_before",
        "cycles_after",
        "lost_cycles_before",
        "lost_cycles_after",
    ];
    or_null(Members::default().with_all(&keys, &Form::Whole))
}

fn advise() -> Members {
    let search = Members::default()
        .with_all(
            &["members", "exact_members", "steps", "steps_max"],
            &Form::Whole,
        )
        .with("is_exact", Form::Flag)
        .with("is_limited", Form::Flag);
    let replayed = Members::default().with_all(&["layouts", "no_better", "left_out"], &Form::Whole);
    let member = Members::default()
        .with("name", Form::Text)
        .with("offset_bytes", Form::Whole)
        .with("size_bytes", Form::Whole);
    let moved = Members::default()
        .with("members", list(Form::Any))
        .with("from_line", Form::Whole)
        .with("to_line", Form::Whole)
        .with("saved_cycles", Form::Number)
        .with("reason", Form::Text);
    let candidate = Members::default()
        .with("plan", Form::Text)
        .with("plan_words", Form::Text)
        .with("weighed", weighed())
        .with("bound_cycles", or_null(Form::Number))
        .with("gap", or_null(Form::Number))
        .with("estimated_saved_cycles", Form::Number)
        .with("replay", replay())
        .with("members", list(member))
        .with("moves", list(moved));
    heading()
        .with("work_cycles", or_null(Form::Number))
        .with("accesses", or_null(Form::Whole))
        .with("search", search)
        .with("replayed", or_null(replayed))
        .with("not_replayed", or_null(Form::Text))
        .with("original", weighed())
        .with("candidates", list(candidate))
}

fn compared() -> Members {
    let layout = Members::default()
        .with("name", Form::Text)
        .with("weighed", weighed())
        .with("replay", replay())
        .with("not_replayed", or_null(Form::Text));
    heading().with("layouts", list(layout))
}

fn layout_show() -> Members {
    let sums = [
        "line_count",
        "hole_count",
        "hole_bytes",
        "bit_hole_count",
        "bit_hole_bits",
        "padding_bytes",
    ];
    let own = [
        "size_bytes",
        "alignment_bytes",
        "line_size_bytes",
        "bit_padding_bits",
        "sum_members_bytes",
        "sum_bit_fields_bits",
        "last_line_bytes",
    ];
    let places = [
        "offset_bytes",
        "size_bytes",
        "bit_offset",
        "bit_size",
        "line",
        "hole_after_bytes",
        "bit_hole_after_bits",
    ];
    // Members of members have the same form.
    let member = Members::default()
        .with_all(&["name", "declared_at"], &or_null(Form::Text))
        .with_all(&["type", "declaration", "kind"], &Form::Text)
        .with_all(&places, &Form::Whole)
        .with("forced_alignment_bytes", or_null(Form::Whole))
        .with_some("members", list(Form::Any));
    Members::default()
        .with("schema", Form::Whole)
        .with_all(&["file", "type", "kind"], &Form::Text)
        .with("declared_at", or_null(Form::Text))
        .with("is_packed", Form::Flag)
        .with_all(&own, &Form::Whole)
        .with_all(&sums, &Form::Whole)
        .with("members", list(member))
}

fn layout_check() -> Members {
    let violation =
        Members::default().with_all(&["place", "struct", "message", "rule"], &Form::Text);
    Members::default()
        .with("schema", Form::Whole)
        .with("file", Form::Text)
        .with("rule_count", Form::Whole)
        .with("violations", list(violation))
}

fn layout_list() -> Members {
    let row = Members::default()
        .with("name", Form::Text)
        .with("kind", Form::Text)
        .with_all(
            &[
                "size_bytes",
                "line_count",
                "hole_count",
                "hole_bytes",
                "bit_hole_bits",
                "padding_bytes",
            ],
            &Form::Whole,
        )
        .with("straddling", list(Form::Text));
    Members::default()
        .with("schema", Form::Whole)
        .with("file", Form::Text)
        .with("line_size_bytes", Form::Whole)
        .with("structs", list(row))
        .with("faults", list(Form::Text))
}

fn layout_diff() -> Members {
    let whole = || {
        Members::default().with("file", Form::Text).with_all(
            &["size_bytes", "line_count", "hole_bytes", "padding_bytes"],
            &Form::Whole,
        )
    };
    let place = || {
        let place = Members::default()
            .with_all(
                &[
                    "offset_bytes",
                    "size_bytes",
                    "bit_offset",
                    "bit_size",
                    "first_line",
                    "last_line",
                ],
                &Form::Whole,
            )
            .with("type", Form::Text);
        or_null(place)
    };
    let member = Members::default()
        .with("name", Form::Text)
        .with("change", Form::Text)
        .with("is_resized", Form::Flag)
        .with("before", place())
        .with("after", place());
    Members::default()
        .with("schema", Form::Whole)
        .with("type", Form::Text)
        .with("line_size_bytes", Form::Whole)
        .with("before", whole())
        .with("after", whole())
        .with("members", list(member))
}

fn review() -> Members {
    let of_type = Members::of(fields::review_type::ALL)
        .with("costs", rows(fields::review_cost::ALL))
        .with("lines", rows(fields::review_line::ALL))
        .with("members", rows(fields::review_member::ALL))
        .with("unmatched", rows(fields::review_unmatched::ALL))
        .with("renamed", rows(fields::review_rename::ALL))
        .with("worse", rows(fields::review_worse::ALL))
        .with(
            "coverage",
            or_null(Members::of(fields::review_coverage::ALL)),
        );
    Members::default()
        .with("schema", Form::Whole)
        .and(fields::review::ALL)
        .with("types", list(of_type))
}
