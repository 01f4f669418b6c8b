//! The answer of `hitm review` as JSON; docs/formats/review.md describes the form.

use hitm_advise::review::{Review, TypeReview};

use crate::fields::{
    review, review_cost, review_coverage, review_line, review_member, review_rename, review_type,
    review_unmatched, review_worse,
};
use crate::object::{Node, Object, list};
use crate::review::{REVIEW_SCHEMA, lines};

/// The answer as one JSON object, indented, with a line feed at the end.
pub fn render(review: &Review) -> String {
    let types = review.types.iter().map(of_type);
    let all = Object::default()
        .with("schema", REVIEW_SCHEMA)
        .and(Object::of(review::ALL, review))
        .with("types", types.collect::<Node>());
    all.text()
}

fn of_type(review: &TypeReview) -> Object {
    let coverage = review.coverage.as_ref();
    let coverage = coverage.map(|coverage| Object::of(review_coverage::ALL, coverage));
    Object::of(review_type::ALL, review)
        .with("costs", list(review_cost::ALL, &review.costs))
        .with("lines", list(review_line::ALL, &lines(review)))
        .with("members", list(review_member::ALL, &review.members))
        .with("unmatched", list(review_unmatched::ALL, &review.unmatched))
        .with("renamed", list(review_rename::ALL, &review.renames))
        .with("worse", list(review_worse::ALL, &review.worse))
        .with_or_null("coverage", coverage)
}
