//! Members under a condition of the preprocessor: each takes the condition along.
//!
//! A condition that has members in the debug information holds there. Where it does not, its members are gone in the
//! new order as in the old one. Not followed: conditions in conditions, and alternatives (`#else`).

use super::EmitError;
use super::body::Body;
use super::diff::Edit;
use super::opened::Frame;
use super::pieces::indent_at;
use super::tokens::Tokens;

/// A condition around declarations. Tokens are given by index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Condition {
    /// The line that begins it: `#if`, `#ifdef` or `#ifndef`.
    pub(super) opening: usize,
    /// Its `#endif`.
    pub(super) closing: usize,
}

/// The condition that a preprocessor line begins; none where it is of another kind.
pub(super) fn condition_at(tokens: &Tokens<'_>, at: usize) -> Result<Option<Condition>, EmitError> {
    if !keyword(tokens, at).starts_with("if") {
        return Ok(None);
    }
    let mut inner = (at + 1..tokens.len()).filter(|at| tokens.is_directive(*at));
    let end = inner.find(|at| !is_definition(tokens, *at));
    match end {
        Some(closing) if keyword(tokens, closing) == "endif" => {
            let is_whole = tokens.around(closing) == tokens.around(at);
            let condition = Condition {
                opening: at,
                closing,
            };
            let refusal =
                || tokens.refuse(at, "a condition around a bracket", "whole declarations");
            is_whole.then_some(Some(condition)).ok_or_else(refusal)
        }
        Some(other) => {
            let found = format!(
                "#{} under a condition among the members",
                keyword(tokens, other)
            );
            Err(tokens.refuse(
                other,
                &found,
                "conditions without others inside and without alternatives",
            ))
        }
        None => Err(tokens.refuse(at, "a condition without an end", "#endif")),
    }
}

/// Returns true for a line that only defines something.
pub(super) fn is_definition(tokens: &Tokens<'_>, at: usize) -> bool {
    matches!(keyword(tokens, at), "define" | "undef" | "pragma")
}

/// The first word of a preprocessor line.
fn keyword<'t>(tokens: &Tokens<'t>, at: usize) -> &'t str {
    let line = tokens.at(at).trim_start_matches('#').trim_start();
    let end = line.find(|character: char| !character.is_ascii_alphabetic());
    &line[..end.unwrap_or(line.len())]
}

impl Body {
    /// The lines of each condition, and the items between them.
    pub(super) fn of_conditions(&self) -> impl Iterator<Item = Frame> {
        self.conditions.iter().map(|condition| {
            let is_inside = |at: &usize| self.items[*at].condition == Some(*condition);
            let inside = || (0..self.items.len()).filter(is_inside);
            let end = inside().next_back().map_or(0, |last| last + 1);
            Frame {
                opening: (condition.opening, condition.opening),
                closing: (condition.closing, condition.closing),
                items: inside().next().unwrap_or(0)..end,
            }
        })
    }

    /// Fails when values without names change while members are under conditions: which value is whose hangs on those.
    pub(super) fn check_values(
        &self,
        tokens: &Tokens<'_>,
        edits: &[Edit],
    ) -> Result<(), EmitError> {
        match self.conditions.first() {
            Some(condition) if !edits.is_empty() => {
                let found = "a condition among members that get values by their order";
                let expected = "values with names (.member = value)";
                Err(tokens.refuse(condition.opening, found, expected))
            }
            _ => Ok(()),
        }
    }
}

/// The line of a condition as it stands.
pub(super) fn line(tokens: &Tokens<'_>, at: usize) -> String {
    let indent = indent_at(tokens.text, tokens.get(at).start);
    format!("{indent}{}\n", tokens.at(at).trim_end())
}
