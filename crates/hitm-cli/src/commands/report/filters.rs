//! Filters that match nothing: an error that lists near names, and no all-clear.

use std::fmt::Write as _;

use anyhow::{Error, anyhow};
use hitm_recording::Recording;
use hitm_report::by::TotalKind;
use hitm_report::{By, Filters, Pattern, Report, ReportOptions, Selection};

/// Names that an error lists for each option.
const NEAR_MAX: usize = 4;

/// Letters that a name and a pattern have in common at their beginnings, to be near.
const COMMON_MIN: usize = 3;

/// The error for filters that leave no access because nothing is called so; none if there are such names, and
/// only their accesses are no contended ones.
pub(super) fn no_match(recording: &Recording, filters: &Filters) -> Option<Error> {
    let options = ReportOptions {
        lines_max: 0,
        rows_max: 0,
        call_paths_max: 0,
    };
    let kinds = [By::Object, By::Function, By::Process, By::Source];
    let selection = Selection {
        by: kinds.to_vec(),
        ..Selection::default()
    };
    let report = Report::of_selection(recording, &options, &selection);
    let names_by = |by: By| -> Vec<String> {
        let totals = report.totals_by.iter().filter(|totals| totals.by == by);
        let rows = totals.flat_map(|totals| &totals.rows);
        let named = rows.filter(|row| row.kind == TotalKind::Named);
        named.map(|row| row.name.clone()).collect()
    };
    let mut unknown = String::new();
    for (option, patterns) in filters.lists() {
        let names = match option {
            "object" => names_by(By::Object),
            "function" => names_by(By::Function),
            "process" => names_by(By::Process),
            "file" => names_by(By::Source),
            _ => report
                .threads
                .iter()
                .map(|thread| thread.name.clone())
                .collect(),
        };
        let is_known = |pattern: &Pattern| names.iter().any(|name| pattern.matches(name));
        if patterns.iter().any(is_known) {
            continue;
        }
        for pattern in patterns {
            let pattern = pattern.to_string();
            let near = near(&pattern, &names).join(", ");
            // Writing to a string does not fail.
            let _ = write!(
                unknown,
                "; found --{option} {pattern}, expected one such as: {near}"
            );
        }
    }
    (!unknown.is_empty()).then(|| anyhow!("no access matches the filters{unknown}"))
}

/// The names that are like a pattern; the first ones if none is. Names come with the costliest first.
fn near(pattern: &str, names: &[String]) -> Vec<String> {
    let letters = |text: &str| -> Vec<char> {
        let letters = text.chars().filter(|c| c.is_alphanumeric());
        letters.flat_map(char::to_lowercase).collect()
    };
    let wanted = letters(pattern);
    let is_near = |name: &&String| {
        let own = letters(name);
        let common = own.iter().zip(&wanted).take_while(|(a, b)| a == b).count();
        let holds = !wanted.is_empty() && own.windows(wanted.len()).any(|part| part == wanted);
        holds || common >= COMMON_MIN
    };
    let like: Vec<String> = names
        .iter()
        .filter(is_near)
        .take(NEAR_MAX)
        .cloned()
        .collect();
    match like.is_empty() {
        true => names.iter().take(NEAR_MAX).cloned().collect(),
        false => like,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_like_a_pattern_come_before_costly_ones() {
        let names: Vec<String> = ["slots", "counters", "account"].map(str::to_owned).into();
        assert_eq!(near("Count", &names), ["counters", "account"]);
        assert_eq!(near("coutners", &names), ["counters"]);
        assert_eq!(near("*xyz*", &names), names);
    }
}
