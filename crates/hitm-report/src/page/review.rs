//! The page of a review: two layouts of each changed type beside each other, and their costs.

use hitm::advise::review::{Review, TypeReview};
use serde_json::{Value, json};

use super::data::{item, printable_value, table};
use super::{PAGE_SCHEMA, html};
use crate::fields::{
    REVIEW_COST_FIELDS, REVIEW_COVERAGE_FIELDS, REVIEW_FIELDS, REVIEW_LINE_FIELDS,
    REVIEW_MEMBER_FIELDS, REVIEW_RENAME_FIELDS, REVIEW_TYPE_FIELDS, REVIEW_UNMATCHED_FIELDS,
    REVIEW_WORSE_FIELDS,
};
use crate::review::lines;

/// The page of `hitm review`.
pub fn review(review: &Review) -> String {
    let [before, after] = &review.builds;
    html(&printable_value(json!({
        "schema": PAGE_SCHEMA,
        "kind": "review",
        "title": format!("hitm review: {before} -> {after}"),
        "review": item(REVIEW_FIELDS, review, &[]),
        "types": review.types.iter().map(of_type).collect::<Vec<_>>(),
    })))
}

fn of_type(review: &TypeReview) -> Value {
    let coverage = review.coverage.as_ref();
    json!({
        "name": review.name,
        "type": item(REVIEW_TYPE_FIELDS, review, &[]),
        "costs": table(REVIEW_COST_FIELDS, &review.costs, &[]),
        "lines": table(REVIEW_LINE_FIELDS, &lines(review), &[]),
        "members": table(REVIEW_MEMBER_FIELDS, &review.members, &[]),
        "unmatched": table(REVIEW_UNMATCHED_FIELDS, &review.unmatched, &[]),
        "renamed": table(REVIEW_RENAME_FIELDS, &review.renames, &[]),
        "worse": table(REVIEW_WORSE_FIELDS, &review.worse, &[]),
        "coverage": coverage.map(|coverage| item(REVIEW_COVERAGE_FIELDS, coverage, &[])),
    })
}
