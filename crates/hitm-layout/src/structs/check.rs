//! Checks the structures of a file against the rules set for them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use serde::Serialize;

use super::parts::{Names, Part};
use super::rules::{Rule, Rules};
use super::{StructsError, TypesFile};
use crate::StructLayout;

/// A broken rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// Declaration of the structure: file and line where debug information has it, else the file
    /// with the types.
    pub place: String,
    /// The structure.
    #[serde(rename = "struct")]
    pub struct_name: String,
    /// Description of the breach, with the members and lines.
    pub message: String,
    /// Place of the rule.
    pub rule: String,
}

/// Result of a check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CheckReport {
    /// Version of this form.
    pub schema: u32,
    /// The file that was checked.
    pub file: String,
    /// Rules that were checked.
    pub rule_count: usize,
    /// Broken rules.
    pub violations: Vec<Violation>,
}

/// Checks the structures of a file. A rule about a structure or member that does not exist is an
/// error: it could never be broken.
pub fn check(file: &mut TypesFile, rules: &Rules) -> Result<CheckReport, StructsError> {
    let mut layouts: BTreeMap<&str, Arc<StructLayout>> = BTreeMap::new();
    for rule in &rules.rules {
        if !layouts.contains_key(rule.struct_name.as_str()) {
            layouts.insert(&rule.struct_name, file.struct_layout(&rule.struct_name)?);
        }
    }
    let checked = file.name().to_owned();
    let mut names = Names::new(file.types());
    let mut violations = Vec::new();
    for rule in &rules.rules {
        let layout = &layouts[rule.struct_name.as_str()];
        let place = layout.decl.as_ref().map(ToString::to_string);
        let place = place.unwrap_or_else(|| checked.clone());
        let mut checker = Checker {
            names: &mut names,
            name: &rule.struct_name,
            layout,
            line_size: rules.line_size,
        };
        let messages = checker
            .messages(rule)
            .map_err(|member| StructsError::Rules {
                file: format!("{}:{}", rules.file, rule.line),
                cause: format!("struct {} has no member {member}", rule.struct_name),
            })?;
        violations.extend(messages.into_iter().map(|message| Violation {
            place: place.clone(),
            struct_name: rule.struct_name.clone(),
            message,
            rule: format!("{}:{}", rules.file, rule.line),
        }));
    }
    Ok(CheckReport {
        schema: 1,
        file: checked,
        rule_count: rules.rules.len(),
        violations,
    })
}

struct Checker<'n, 'a> {
    names: &'n mut Names<'a>,
    /// The name of the structure.
    name: &'a str,
    layout: &'a StructLayout,
    line_size: u64,
}

impl Checker<'_, '_> {
    /// Messages of a broken rule; the error is the name of a member that does not exist.
    fn messages(&mut self, rule: &Rule) -> Result<Vec<String>, String> {
        let mut messages = self.separate(&rule.separate)?;
        if let Some(within) = &rule.within_lines {
            let lines = within.members.iter().map(|name| self.lines_of(name));
            let lines: Vec<Range<u64>> = lines.collect::<Result<_, _>>()?;
            let lines: BTreeSet<u64> = lines.into_iter().flatten().collect();
            if lines.len() as u64 > within.lines {
                messages.push(format!(
                    "members {} lie on {} lines ({}), expected at most {}",
                    within.members.join(", "),
                    lines.len(),
                    lines
                        .iter()
                        .map(u64::to_string)
                        .collect::<Vec<_>>()
                        .join(", "),
                    within.lines
                ));
            }
        }
        if let Some(most) = rule.size_max_bytes.filter(|most| self.layout.size > *most) {
            let size = self.layout.size;
            messages.push(format!("size is {size} bytes, expected at most {most}"));
        }
        for name in &rule.no_straddle {
            let part = self.part(name)?;
            let lines = part.lines(self.line_size);
            let needed = part.size().div_ceil(self.line_size).max(1);
            if lines.end - lines.start > needed {
                messages.push(format!(
                    "member {name} at {} with {} bytes lies on lines {} to {}",
                    part.offset(),
                    part.size(),
                    lines.start,
                    lines.end - 1
                ));
            }
        }
        Ok(messages)
    }

    fn part(&mut self, name: &str) -> Result<Part, String> {
        let part = self.names.part_at(self.name, self.layout, name);
        part.ok_or_else(|| name.to_owned())
    }

    /// The lines that a member touches.
    fn lines_of(&mut self, name: &str) -> Result<Range<u64>, String> {
        Ok(self.part(name)?.lines(self.line_size))
    }

    /// A message for each line that members of different groups touch.
    fn separate(&mut self, groups: &[Vec<String>]) -> Result<Vec<String>, String> {
        let mut users: BTreeMap<u64, Vec<(usize, &str)>> = BTreeMap::new();
        for (group, members) in groups.iter().enumerate() {
            for name in members {
                for line in self.lines_of(name)? {
                    users.entry(line).or_default().push((group, name));
                }
            }
        }
        let shared = users.iter().filter(|(_, users)| {
            let first = users[0].0;
            users.iter().any(|(group, _)| *group != first)
        });
        let message = |(line, users): (&u64, &Vec<(usize, &str)>)| {
            let names: Vec<&str> = users.iter().map(|(_, name)| *name).collect();
            format!(
                "line {line} has {}, expected on separate lines",
                names.join(" and ")
            )
        };
        Ok(shared.map(message).collect())
    }
}
