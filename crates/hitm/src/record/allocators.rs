//! Functions of a program that allocate, as a user tells them.

use std::fmt;
use std::fs;
use std::str::FromStr;

use thiserror::Error;

/// Most rules that a recording takes, and bytes of one.
const RULES_MAX: usize = 256;
const RULE_BYTES_MAX: usize = 512;

/// Arguments are passed in registers up to this one.
const ARGUMENTS_MAX: u8 = 6;

/// Bytes of a file of rules that are read.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// A function that hands out or takes back memory, and the arguments that say how much and which, counted
/// from 1: `pool_get,size=2`, `arena_calloc,size=3,count=2`, `pool_put,free=1`, `pool_grow,free=1,size=2`,
/// `get_into,out=1,size=2` for one that leaves the address at its first argument and returns 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllocatorRule {
    function: String,
    /// Key and number of each argument, in the order in which they were given.
    arguments: Vec<(&'static str, u8)>,
}

/// The rules of one option: one, or those of the file behind `@`, one a line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AllocatorRules(pub Vec<AllocatorRule>);

/// A rule that cannot be read.
#[derive(Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum AllocatorError {
    /// No function.
    #[error("found '{found}', expected a function and its arguments, as in pool_get,size=2")]
    NoFunction {
        /// The rule.
        found: String,
    },
    /// A part that is no argument.
    #[error("found '{found}', expected size=N, count=N, free=N or out=N with N from 1 to 6")]
    BadArgument {
        /// The part of the rule.
        found: String,
    },
    /// The rule says nothing, or not enough.
    #[error("'{found}' neither hands out a block (size=N) nor takes one back (free=N)")]
    NoEffect {
        /// The rule.
        found: String,
    },
    /// The file of rules.
    #[error("{path}: {problem}")]
    File {
        /// Its path.
        path: String,
        /// Line and reason.
        problem: String,
    },
    /// Too many.
    #[error("more than 256 rules")]
    TooMany,
}

impl fmt::Display for AllocatorRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.function)?;
        let mut arguments = self.arguments.iter();
        arguments.try_for_each(|(key, number)| write!(f, ",{key}={number}"))
    }
}

impl FromStr for AllocatorRule {
    type Err = AllocatorError;

    fn from_str(text: &str) -> Result<AllocatorRule, AllocatorError> {
        let mut parts = text.split(',').map(str::trim);
        let function = parts.next().unwrap_or_default();
        let is_name = !function.is_empty()
            && text.len() <= RULE_BYTES_MAX
            && function
                .chars()
                .all(|char| !char.is_whitespace() && !char.is_control() && char != '=');
        if !is_name {
            return Err(AllocatorError::NoFunction { found: text.into() });
        }
        let arguments: Result<Vec<_>, _> = parts.map(argument).collect();
        let arguments = arguments?;
        if !arguments
            .iter()
            .any(|(key, _)| ["size", "free"].contains(key))
        {
            return Err(AllocatorError::NoEffect { found: text.into() });
        }
        Ok(AllocatorRule {
            function: function.to_owned(),
            arguments,
        })
    }
}

/// `size=2`.
fn argument(text: &str) -> Result<(&'static str, u8), AllocatorError> {
    let found = text.split_once('=').and_then(|(key, number)| {
        let mut keys = ["size", "count", "free", "out"].into_iter();
        let key = keys.find(|known| *known == key)?;
        let number = number.parse().ok()?;
        (1..=ARGUMENTS_MAX)
            .contains(&number)
            .then_some((key, number))
    });
    found.ok_or_else(|| AllocatorError::BadArgument { found: text.into() })
}

impl FromStr for AllocatorRules {
    type Err = AllocatorError;

    fn from_str(text: &str) -> Result<AllocatorRules, AllocatorError> {
        let Some(path) = text.strip_prefix('@') else {
            return Ok(AllocatorRules(vec![text.parse()?]));
        };
        let fail = |problem: String| AllocatorError::File {
            path: path.to_owned(),
            problem,
        };
        let is_fit = fs::metadata(path).map_err(|error| fail(error.to_string()))?;
        if !is_fit.is_file() || is_fit.len() > FILE_BYTES_MAX {
            return Err(fail("no file of at most 1 MiB".into()));
        }
        let text = fs::read_to_string(path).map_err(|error| fail(error.to_string()))?;
        let lines = text.lines().enumerate();
        let lines = lines.map(|(index, line)| (index + 1, line.trim()));
        let rules = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        let rules: Result<Vec<_>, _> = rules
            .map(|(number, line)| {
                line.parse()
                    .map_err(|error| fail(format!("line {number}: {error}")))
            })
            .collect();
        Ok(AllocatorRules(rules?))
    }
}

impl AllocatorRules {
    /// The rules of several options.
    pub fn join(options: Vec<AllocatorRules>) -> Result<AllocatorRules, AllocatorError> {
        let rules: Vec<AllocatorRule> = options.into_iter().flat_map(|rules| rules.0).collect();
        match rules.len() {
            0..=RULES_MAX => Ok(AllocatorRules(rules)),
            _ => Err(AllocatorError::TooMany),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_a_function_and_its_arguments() {
        let read = |text: &str| text.parse::<AllocatorRule>();
        for text in [
            "pool_get,size=2",
            "grow,free=1,size=2",
            "_ZN1a3getEm,out=1,size=6",
        ] {
            assert_eq!(read(text).unwrap().to_string(), text);
        }
        assert_eq!(read("get, size=2").unwrap().to_string(), "get,size=2");
        let message = |text: &str| read(text).unwrap_err().to_string();
        assert!(message("").contains("pool_get,size=2"));
        assert!(message("a b,size=1").contains("'a b,size=1'"));
        assert!(message("get,size=7").contains("'size=7'"));
        assert!(message("get,bytes=1").contains("'bytes=1'"));
        assert!(message("get,count=1").contains("neither"));
    }

    #[test]
    fn a_file_has_a_rule_a_line() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("rules");
        let read = |text: &str| {
            fs::write(&path, text).unwrap();
            format!("@{}", path.display()).parse::<AllocatorRules>()
        };
        let rules = read("# the pool\npool_get,size=2\n\n  pool_put,free=1\n").unwrap();
        let texts: Vec<String> = rules.0.iter().map(ToString::to_string).collect();
        assert_eq!(texts, ["pool_get,size=2", "pool_put,free=1"]);
        let message = read("get,size=1\nget,size=x\n").unwrap_err().to_string();
        assert!(
            message.contains("rules: line 2: found 'size=x'"),
            "{message}"
        );
        assert!("@/nowhere".parse::<AllocatorRules>().is_err());
        assert!("@/dev/zero".parse::<AllocatorRules>().is_err());
        let one = AllocatorRules(vec!["get,size=1".parse().unwrap()]);
        assert!(AllocatorRules::join(vec![one.clone(); 256]).is_ok());
        assert_eq!(
            AllocatorRules::join(vec![one; 257]),
            Err(AllocatorError::TooMany)
        );
    }
}
