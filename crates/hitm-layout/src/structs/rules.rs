//! Rules that layouts must keep, from the file of `hitm layout check`
//! (docs/formats/layout-rules.md).

use serde::Deserialize;
use toml::Spanned;

use super::StructsError;

/// A file of rules.
#[derive(Debug, Clone)]
pub struct Rules {
    /// The file's name.
    pub file: String,
    /// Bytes of a cache line.
    pub line_size: u64,
    /// The rules, in the order of the file.
    pub rules: Vec<Rule>,
}

/// Rules of one structure.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// The line of the file that the rule begins in.
    #[serde(skip)]
    pub line: usize,
    /// The structure.
    #[serde(rename = "struct")]
    pub struct_name: String,
    /// Groups of members: no two groups may have a cache line in common.
    #[serde(default)]
    pub separate: Vec<Vec<String>>,
    /// Members that must lie within few lines.
    pub within_lines: Option<WithinLines>,
    /// Limit on the structure's bytes.
    pub size_max_bytes: Option<u64>,
    /// Members that may not touch more lines than they need.
    #[serde(default)]
    pub no_straddle: Vec<String>,
}

/// Members that must lie within a number of lines.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WithinLines {
    /// Paths of the members.
    pub members: Vec<String>,
    /// Limit on the different cache lines that they touch together.
    pub lines: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRules {
    schema: Spanned<u32>,
    line_size_bytes: Option<Spanned<u64>>,
    #[serde(default)]
    rule: Vec<Spanned<Rule>>,
}

impl Rules {
    /// Parses rules. `file` names the text in messages.
    pub fn parse(text: &str, file: &str) -> Result<Rules, StructsError> {
        let refuse = |at: Option<usize>, cause: String| StructsError::Rules {
            file: match at {
                Some(at) => format!("{file}:{}", line_of(text, at)),
                None => file.to_owned(),
            },
            cause,
        };
        let raw: RawRules = toml::from_str(text).map_err(|error| {
            let at = error.span().map(|span| span.start);
            refuse(at, error.message().to_owned())
        })?;
        if *raw.schema.get_ref() != 1 {
            let cause = format!("expected schema 1, found {}", raw.schema.get_ref());
            return Err(refuse(Some(raw.schema.span().start), cause));
        }
        let line_size = match &raw.line_size_bytes {
            None => super::ShowOptions::LINE_SIZE_DEFAULT,
            Some(size) if super::is_line_size(*size.get_ref()) => *size.get_ref(),
            Some(size) => {
                let found = size.get_ref();
                let cause = format!("expected a power of two from 8 to 65536, found {found}");
                return Err(refuse(Some(size.span().start), cause));
            }
        };
        if raw.rule.is_empty() {
            return Err(refuse(None, "expected at least one [[rule]]".to_owned()));
        }
        let mut rules = Vec::new();
        let newlines: Vec<usize> = text.match_indices('\n').map(|(at, _)| at).collect();
        for rule in raw.rule {
            let at = rule.span().start;
            let line = newlines.partition_point(|newline| *newline < at) + 1;
            let rule = Rule {
                line,
                ..rule.into_inner()
            };
            rule.check().map_err(|cause| refuse(Some(at), cause))?;
            rules.push(rule);
        }
        Ok(Rules {
            file: file.to_owned(),
            line_size,
            rules,
        })
    }
}

impl Rule {
    /// Fails when the rule asks for nothing, or for what nothing can break.
    fn check(&self) -> Result<(), String> {
        let asks = !self.separate.is_empty()
            || self.within_lines.is_some()
            || self.size_max_bytes.is_some()
            || !self.no_straddle.is_empty();
        if !asks {
            return Err(
                "the rule asks for nothing: expected separate, within_lines, \
                        size_max_bytes or no_straddle"
                    .to_owned(),
            );
        }
        if self.separate.len() == 1 || self.separate.iter().any(Vec::is_empty) {
            return Err("separate: expected at least two groups, none of them empty".to_owned());
        }
        if let Some(within) = &self.within_lines
            && (within.lines == 0 || within.members.is_empty())
        {
            return Err("within_lines: expected members and at least 1 line".to_owned());
        }
        Ok(())
    }
}

/// The number of the line that holds a byte, from 1.
fn line_of(text: &str, at: usize) -> usize {
    let before = text.as_bytes().get(..at).unwrap_or_default();
    before.iter().filter(|byte| **byte == b'\n').count() + 1
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(text: &str, expected: Expect) {
        let found = match Rules::parse(text, "rules.toml") {
            Ok(rules) => format!("{:?}", rules.rules),
            Err(error) => error.to_string(),
        };
        expected.assert_eq(&found);
    }

    #[test]
    fn every_kind_of_rule() {
        check(
            "schema = 1\n\n[[rule]]\nstruct = \"rq\"\nseparate = [[\"a\"], [\"b\", \"c\"]]\n\
             within_lines = { members = [\"a\"], lines = 1 }\nsize_max_bytes = 64\n\
             no_straddle = [\"b\"]\n",
            expect![[
                r#"[Rule { line: 3, struct_name: "rq", separate: [["a"], ["b", "c"]], within_lines: Some(WithinLines { members: ["a"], lines: 1 }), size_max_bytes: Some(64), no_straddle: ["b"] }]"#
            ]],
        );
    }

    #[test]
    fn what_is_no_rule_is_named_with_its_line() {
        check(
            "schema = 2\n[[rule]]\nstruct = \"rq\"\nsize_max_bytes = 1\n",
            expect!["rules.toml:1: expected schema 1, found 2"],
        );
        check(
            "schema = 1\n[[rule]]\nstruct = \"rq\"\nseperate = []\n",
            expect![[
                r#"rules.toml:4: unknown field `seperate`, expected one of `struct`, `separate`, `within_lines`, `size_max_bytes`, `no_straddle`"#
            ]],
        );
        check(
            "schema = 1\n[[rule]]\nstruct = \"rq\"\n",
            expect![
                "rules.toml:2: the rule asks for nothing: expected separate, within_lines, size_max_bytes or no_straddle"
            ],
        );
        check(
            "schema = 1\n[[rule]]\nstruct = \"rq\"\nseparate = [[\"a\"]]\n",
            expect!["rules.toml:2: separate: expected at least two groups, none of them empty"],
        );
        check(
            "schema = 1\nline_size_bytes = 63\n[[rule]]\nstruct = \"rq\"\nsize_max_bytes = 1\n",
            expect!["rules.toml:2: expected a power of two from 8 to 65536, found 63"],
        );
        check(
            "schema = 1\n",
            expect!["rules.toml: expected at least one [[rule]]"],
        );
    }
}
