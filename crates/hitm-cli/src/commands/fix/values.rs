//! Remedies for what is no structure: arrays of plain values, and variables beside each other.

use std::path::PathBuf;

use hitm::fix::{Environment, Remedy};
use hitm_advise::{Language, gain, pad_values};
use hitm_layout::emit::{EmitError, Source, Style, align_variables, patch_array};
use hitm_report::fix::{array_words, variables_words};

use super::advisor::Case;
use super::structures::language;

/// Variables that are aligned together at most.
const VARIABLES_MAX: usize = 8;

/// The remedy for a finding's array of values, or for its variables.
pub(super) fn remedies(case: &Case<'_>) -> Vec<Remedy> {
    array(case)
        .or_else(|| variables(case))
        .into_iter()
        .collect()
}

/// Each element of an array gets a line.
fn array(case: &Case<'_>) -> Option<Remedy> {
    let variable = case.finding.identity.as_deref()?;
    let element = format!("{variable}[");
    let rows = case.lines().flat_map(|line| &line.rows);
    let values = rows.filter(|row| row.member.starts_with(&element) && row.member.ends_with(']'));
    let size_bytes = values.map(|row| row.size_bytes).max()?;
    let change = pad_values(
        case.file,
        case.recording,
        variable,
        size_bytes,
        &mut |_, _| {},
    )
    .ok();
    let edit = edited(case, |source, style| match source.text.contains(variable) {
        true => patch_array(variable, source, style).map(Some),
        false => Ok(None),
    });
    let what = array_words(variable);
    Some(remedy(case, what, edit, change.map(|change| gain(&change))))
}

/// Each variable on the costliest line begins a line.
fn variables(case: &Case<'_>) -> Option<Remedy> {
    let line = case.lines().next()?;
    let objects = line
        .objects
        .iter()
        .filter(|object| object.contended_count > 0);
    let names = objects.map(|object| object.name.rsplit("::").next().unwrap_or(&object.name));
    let is_word = |name: &&str| {
        name.chars()
            .all(|part| part.is_alphanumeric() || part == '_')
    };
    let names: Vec<&str> = names.filter(is_word).take(VARIABLES_MAX).collect();
    if names.len() < 2 {
        return None;
    }
    let edit = edited(case, |source, style| align_variables(&names, source, style));
    Some(remedy(case, variables_words(&names), edit, None))
}

fn remedy(case: &Case<'_>, what: String, edit: Edited, replayed_gain: Option<f64>) -> Remedy {
    Remedy {
        key: what.clone(),
        what,
        finding: case.finding.name.clone(),
        file: edit.file,
        diff: edit.diff,
        replayed_gain,
        size_before: None,
        size_after: None,
        instance_count: None,
        assertions: String::new(),
        environment: Environment::default(),
        needs: String::new(),
    }
}

/// A file and its diff, or the reason for which there is none.
struct Edited {
    file: Option<PathBuf>,
    diff: Result<String, String>,
}

/// The first edit that a file of C or C++ allows.
fn edited(
    case: &Case<'_>,
    edit: impl Fn(Source<'_>, Style) -> Result<Option<String>, EmitError>,
) -> Edited {
    let mut refused = Edited {
        file: None,
        diff: Err("no file of C or C++ in the tree defines it".to_owned()),
    };
    for file in case.tree.files() {
        let Language::C(style) = language(file, case.tree) else {
            continue;
        };
        let (Some(shown), Ok(text)) = (file.to_str(), case.tree.read(file)) else {
            continue;
        };
        match edit(
            Source {
                file: shown,
                text: &text,
            },
            style,
        ) {
            Ok(Some(diff)) => {
                return Edited {
                    file: Some(file.clone()),
                    diff: Ok(diff),
                };
            }
            Ok(None) => {}
            Err(error) => {
                refused = Edited {
                    file: Some(file.clone()),
                    diff: Err(error.to_string()),
                };
            }
        }
    }
    refused
}
