//! The names by which a kernel's objects are found: the table that comes with hitm, and those of users.

use std::collections::BTreeMap;
use std::fmt;

use hitm_base::document::TextLines;
use serde::Deserialize;
use serde::de::Error as _;

use super::expression::Expression;

/// The version of the format.
const SCHEMA: u32 = 1;
/// Walks that come with hitm.
const WALKS: &str = include_str!("../../../walks/linux.toml");

/// Walks to a kernel's objects.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Walks {
    #[serde(rename = "schema")]
    _schema: Schema,
    /// Functions whose calls are counted.
    #[serde(default)]
    pub calls: Vec<String>,
    /// Functions by which tasks sleep for locks.
    #[serde(default)]
    pub sleep: SleepNames,
    #[serde(default, rename = "walk")]
    pub(super) walks: Vec<Walk>,
    /// Types of slab caches that are not named after one.
    #[serde(default)]
    pub slab: BTreeMap<String, String>,
    /// Types of variables of the kernel's image; `[]` behind one is an array.
    #[serde(default)]
    pub variable: BTreeMap<String, String>,
}

/// Names of the functions by which tasks sleep for locks.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SleepNames {
    /// Those that wait for the lock that is their first argument.
    #[serde(default)]
    pub waits: Vec<String>,
    /// Those that let a CPU go on with another task.
    #[serde(default)]
    pub schedulers: Vec<String>,
    /// The first one that runs on that task's stack; empty where a file does not say.
    #[serde(default)]
    pub switch: String,
}

/// Objects that an expression leads to.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Walk {
    pub(super) name: String,
    pub(super) objects: Expression,
}

impl<'de> Deserialize<'de> for Expression {
    fn deserialize<D: serde::Deserializer<'de>>(text: D) -> Result<Expression, D::Error> {
        String::deserialize(text)?.parse().map_err(D::Error::custom)
    }
}

/// The version that a file is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Schema;

impl<'de> Deserialize<'de> for Schema {
    fn deserialize<D: serde::Deserializer<'de>>(number: D) -> Result<Schema, D::Error> {
        match i64::deserialize(number)? {
            found if found == i64::from(SCHEMA) => Ok(Schema),
            found => Err(D::Error::custom(format!(
                "found schema {found}, expected {SCHEMA}"
            ))),
        }
    }
}

/// A mistake in a table of walks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WalksError {
    /// The line, from 1.
    pub line: usize,
    /// Found and expected words.
    pub problem: String,
}

impl fmt::Display for WalksError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.line, self.problem)
    }
}

impl std::error::Error for WalksError {}

impl Walks {
    /// The walks that come with hitm.
    pub fn known() -> Walks {
        Walks::parse(WALKS).expect("the walks are checked by a test")
    }

    /// Reads a table of walks: all keys but `schema` may be missing.
    ///
    /// # Errors
    /// The text is no TOML, a key is unknown, or an expression is wrong.
    pub fn parse(text: &str) -> Result<Walks, WalksError> {
        toml::from_str(text).map_err(|error: toml::de::Error| WalksError {
            line: TextLines::of(text)
                .place(error.span().map_or(0, |span| span.start))
                .line,
            problem: error.message().to_owned(),
        })
    }

    /// These walks and others. Where both name an object, a cache or a variable, these do.
    #[must_use]
    pub fn and(mut self, others: Walks) -> Walks {
        self.calls.extend(others.calls);
        self.sleep.waits.extend(others.sleep.waits);
        self.sleep.schedulers.extend(others.sleep.schedulers);
        if self.sleep.switch.is_empty() {
            self.sleep.switch = others.sleep.switch;
        }
        self.walks.extend(others.walks);
        for (cache, type_name) in others.slab {
            self.slab.entry(cache).or_insert(type_name);
        }
        for (name, type_name) in others.variable {
            self.variable.entry(name).or_insert(type_name);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_known_walks_can_be_read() {
        let known = Walks::known();
        assert!(!known.walks.is_empty() && !known.sleep.switch.is_empty());
    }

    #[test]
    fn walks_of_ones_own_come_first() {
        let text = "schema = 1\n\
                    [[walk]]\nname = 'mine'\nobjects = 'runqueues[*]'\n\
                    [slab]\nfilp = 'my_file'\nmine = 'my_type'\n";
        let own = Walks::parse(text).unwrap();
        let both = own.and(Walks::known());
        assert_eq!(both.walks[0].name, "mine");
        assert_eq!(both.walks[1].name, "runqueues");
        assert_eq!(both.slab["filp"], "my_file");
        assert_eq!(both.slab["mine"], "my_type");
        assert_eq!(both.slab["cred_jar"], "cred");
        assert_eq!(both.sleep.switch, "__switch_to");
    }

    #[test]
    fn mistakes_have_a_line() {
        let said = |text: &str| Walks::parse(text).unwrap_err().to_string();
        assert_eq!(said("calls = []\n"), "1: missing field `schema`",);
        assert_eq!(said("\nschema = 2\n"), "2: found schema 2, expected 1");
        assert_eq!(
            said("schema = 1\n\n[[walk]]\nname = 'a'\nobjects = 'a[3]'\n"),
            "5: found '[3]', expected '[*]', '[nodes]', '.member', '{member}' or '->'"
        );
        assert_eq!(
            said("schema = 1\n[slab]\nfilp = 3\n"),
            "3: invalid type: integer `3`, expected a string"
        );
        assert_eq!(
            said("schema = 1\nwalks = 3\n"),
            "2: unknown field `walks`, expected one of `schema`, `calls`, `sleep`, `walk`, `slab`, `variable`"
        );
    }
}
