//! The answer of `hitm review` as JSON; docs/formats/review.md describes the form.

use hitm::advise::review::{Review, TypeReview};
use serde::ser::{Serialize, SerializeMap, Serializer};

use super::{Fields, list};
use crate::fields::{
    REVIEW_COST_FIELDS, REVIEW_COVERAGE_FIELDS, REVIEW_FIELDS, REVIEW_LINE_FIELDS,
    REVIEW_MEMBER_FIELDS, REVIEW_RENAME_FIELDS, REVIEW_TYPE_FIELDS, REVIEW_UNMATCHED_FIELDS,
    REVIEW_WORSE_FIELDS,
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
        Fields(REVIEW_FIELDS, self.0, &[]).write(&mut map)?;
        map.serialize_entry("types", &types)?;
        map.end()
    }
}

struct TypeJson<'a>(&'a TypeReview);

impl Serialize for TypeJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let review = self.0;
        let coverage = review.coverage.as_ref();
        let coverage = coverage.map(|coverage| Fields(REVIEW_COVERAGE_FIELDS, coverage, &[]));
        let lines = lines(review);
        let mut map = serializer.serialize_map(None)?;
        Fields(REVIEW_TYPE_FIELDS, review, &[]).write(&mut map)?;
        map.serialize_entry("costs", &list(REVIEW_COST_FIELDS, &review.costs, &[]))?;
        map.serialize_entry("lines", &list(REVIEW_LINE_FIELDS, &lines, &[]))?;
        map.serialize_entry("members", &list(REVIEW_MEMBER_FIELDS, &review.members, &[]))?;
        let (unmatched, renames) = (&review.unmatched, &review.renames);
        map.serialize_entry("unmatched", &list(REVIEW_UNMATCHED_FIELDS, unmatched, &[]))?;
        map.serialize_entry("renamed", &list(REVIEW_RENAME_FIELDS, renames, &[]))?;
        map.serialize_entry("worse", &list(REVIEW_WORSE_FIELDS, &review.worse, &[]))?;
        map.serialize_entry("coverage", &coverage)?;
        map.end()
    }
}
