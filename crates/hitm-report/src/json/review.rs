//! The answer of `hitm review` as JSON; docs/formats/review.md describes the form.

use hitm_advise::review::{Review, TypeReview};
use serde::ser::{Serialize, SerializeMap, Serializer};

use super::{Fields, list};
use crate::fields::{
    review, review_cost, review_coverage, review_line, review_member, review_rename, review_type,
    review_unmatched, review_worse,
};
use crate::review::{REVIEW_SCHEMA, lines};

/// The answer as one JSON object, indented, with a line feed at the end.
pub fn render(review: &Review) -> String {
    let mut text = serde_json::to_string_pretty(&ReviewJson(review))
        .expect("an answer is strings, finite numbers and lists of them");
    text.push('\n');
    text
}

struct ReviewJson<'a>(&'a Review);

impl Serialize for ReviewJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let types: Vec<TypeJson<'_>> = self.0.types.iter().map(TypeJson).collect();
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("schema", &REVIEW_SCHEMA)?;
        Fields::new(review::ALL, self.0).write(&mut map)?;
        map.serialize_entry("types", &types)?;
        map.end()
    }
}

struct TypeJson<'a>(&'a TypeReview);

impl Serialize for TypeJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let review = self.0;
        let coverage = review.coverage.as_ref();
        let coverage = coverage.map(|coverage| Fields::new(review_coverage::ALL, coverage));
        let lines = lines(review);
        let mut map = serializer.serialize_map(None)?;
        Fields::new(review_type::ALL, review).write(&mut map)?;
        map.serialize_entry("costs", &list(review_cost::ALL, &review.costs))?;
        map.serialize_entry("lines", &list(review_line::ALL, &lines))?;
        map.serialize_entry("members", &list(review_member::ALL, &review.members))?;
        let (unmatched, renames) = (&review.unmatched, &review.renames);
        map.serialize_entry("unmatched", &list(review_unmatched::ALL, unmatched))?;
        map.serialize_entry("renamed", &list(review_rename::ALL, renames))?;
        map.serialize_entry("worse", &list(review_worse::ALL, &review.worse))?;
        map.serialize_entry("coverage", &coverage)?;
        map.end()
    }
}
