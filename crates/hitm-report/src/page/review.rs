//! The page of a review: two layouts of each changed type beside each other, and their costs.

use hitm_advise::review::{Review, TypeReview};
use serde_json::{Value, json};

use super::data::{item, table};
use super::{PAGE_SCHEMA, html};
use crate::fields::{
    review, review_cost, review_coverage, review_line, review_member, review_rename, review_type,
    review_unmatched, review_worse,
};
use crate::review::lines;

/// The page of `hitm review`.
pub fn review(review: &Review) -> String {
    let [before, after] = &review.builds;
    html(json!({
        "schema": PAGE_SCHEMA,
        "kind": "review",
        "title": format!("hitm review: {before} -> {after}"),
        "review": item(review::ALL, review),
        "types": review.types.iter().map(of_type).collect::<Vec<_>>(),
    }))
}

fn of_type(review: &TypeReview) -> Value {
    let coverage = review.coverage.as_ref();
    json!({
        "name": review.name,
        "type": item(review_type::ALL, review),
        "costs": table(review_cost::ALL, &review.costs),
        "lines": table(review_line::ALL, &lines(review)),
        "members": table(review_member::ALL, &review.members),
        "unmatched": table(review_unmatched::ALL, &review.unmatched),
        "renamed": table(review_rename::ALL, &review.renames),
        "worse": table(review_worse::ALL, &review.worse),
        "coverage": coverage.map(|coverage| item(review_coverage::ALL, coverage)),
    })
}
