//! Expressions that locate objects of a kernel.
//!
//! ```text
//! expression  symbol [ "(" TYPE ")" ] step*
//! step        "[*]"            each CPU's copy of a per-CPU variable, each element of an array
//!             "[nodes]"        the element for each NUMA node of an array, of whatever length it is declared
//!             "." MEMBER       a member
//!             "{" MEMBER "}"   every object of the circular list that MEMBER (a list_head) links
//!             "{" TYPE "." MEMBER "}"   every structure of the list, from a head that is in none of them
//!             "->"             what a pointer leads to, of the pointer's own type
//!             "->(struct NAME)"   a structure, where no type says what the pointer leads to
//!             "->(NAME of VARIABLE)"   so many structures, one behind the other, as the variable (an int) says
//!             "->(cpumask)"    a bitmap with one bit for each CPU
//!             "->(N bytes)"    so many bytes
//!             "->(int of cpus)", "->(pointer of cpus)"   one element for each CPU
//!             "->(each cpu)"   what the pointers lead to, one for each CPU, behind a pointer to pointers
//! ```

use std::str::FromStr;

/// One expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Expression {
    pub(super) symbol: String,
    /// Type of the symbol, where BTF lacks it.
    pub(super) type_name: Option<String>,
    pub(super) steps: Vec<Step>,
}

/// Step from objects to other objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    Each,
    /// An element for each NUMA node.
    EachNode,
    Member(String),
    List(String),
    /// Structures that a list links, by name and member.
    ListOf(String, String),
    Follow(Target),
    /// To a structure of this name.
    FollowTo(String),
    /// To as many structures of this name as a variable says.
    FollowToEach(String, String),
    /// Through a table of pointers, one for each CPU.
    FollowEachCpu,
}

/// Target of a pointer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    /// The pointer's own type.
    OwnType,
    /// One bit for each CPU.
    CpuMask,
    /// So many bytes.
    Bytes(u64),
    /// So many bytes for each CPU.
    PerCpu(u64),
}

impl FromStr for Expression {
    type Err = String;

    fn from_str(text: &str) -> Result<Expression, String> {
        let (symbol, mut rest) = word(text);
        if symbol.is_empty() {
            return Err(format!("found '{text}', expected the name of a symbol"));
        }
        let mut type_name = None;
        if let Some(inner) = rest.strip_prefix('(') {
            let (name, behind) = inner
                .split_once(')')
                .ok_or_else(|| format!("found '{rest}', expected a type and ')'"))?;
            type_name = Some(name.to_owned());
            rest = behind;
        }
        let mut steps = Vec::new();
        while !rest.is_empty() {
            let (step, behind) = step(rest)?;
            steps.push(step);
            rest = behind;
        }
        Ok(Expression {
            symbol: symbol.to_owned(),
            type_name,
            steps,
        })
    }
}

fn step(text: &str) -> Result<(Step, &str), String> {
    let expected =
        || format!("found '{text}', expected '[*]', '[nodes]', '.member', '{{member}}' or '->'");
    if let Some(rest) = text.strip_prefix("[*]") {
        return Ok((Step::Each, rest));
    }
    if let Some(rest) = text.strip_prefix("[nodes]") {
        return Ok((Step::EachNode, rest));
    }
    if let Some(rest) = text.strip_prefix("->") {
        let Some(inner) = rest.strip_prefix('(') else {
            return Ok((Step::Follow(Target::OwnType), rest));
        };
        let (target, behind) = inner.split_once(')').ok_or_else(expected)?;
        let step = match target {
            "each cpu" => Step::FollowEachCpu,
            _ => match target.strip_prefix("struct ") {
                Some(name) => Step::FollowTo(name.to_owned()),
                None => match counted(target) {
                    Some((name, count)) => Step::FollowToEach(name.to_owned(), count.to_owned()),
                    None => Step::Follow(follow(target)?),
                },
            },
        };
        return Ok((step, behind));
    }
    if let Some(rest) = text.strip_prefix('.') {
        let (member, behind) = word(rest);
        let step = Step::Member(member.to_owned());
        return (!member.is_empty())
            .then_some((step, behind))
            .ok_or_else(expected);
    }
    let inner = text.strip_prefix('{').ok_or_else(expected)?;
    let (member, behind) = inner.split_once('}').ok_or_else(expected)?;
    let step = match member.split_once('.') {
        Some((name, member)) => Step::ListOf(name.to_owned(), member.to_owned()),
        None => Step::List(member.to_owned()),
    };
    Ok((step, behind))
}

/// A structure's name, and that of the variable that says how many there are.
fn counted(target: &str) -> Option<(&str, &str)> {
    let is_word = |text: &str| !text.is_empty() && word(text).1.is_empty();
    let (name, count) = target.split_once(" of ")?;
    (count != "cpus" && is_word(name) && is_word(count)).then_some((name, count))
}

fn follow(target: &str) -> Result<Target, String> {
    match target {
        "cpumask" => return Ok(Target::CpuMask),
        "int of cpus" => return Ok(Target::PerCpu(4)),
        "pointer of cpus" => return Ok(Target::PerCpu(8)),
        _ => {}
    }
    let bytes = target
        .strip_suffix(" bytes")
        .and_then(|count| count.parse().ok());
    bytes.map(Target::Bytes).ok_or_else(|| {
        format!("found '({target})', expected struct NAME, NAME of VARIABLE, cpumask, N bytes, int of cpus, pointer of cpus or each cpu")
    })
}

/// Splits an identifier from the text behind it.
fn word(text: &str) -> (&str, &str) {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let end = text.find(|c| !is_part(c)).unwrap_or(text.len());
    text.split_at(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_is_understood() {
        let text = "init_task(task_struct){tasks}.a[*]->->(cpumask)->(16 bytes)->(int of cpus)";
        let expression: Expression = text.parse().unwrap();
        assert_eq!(expression.symbol, "init_task");
        assert_eq!(expression.type_name.as_deref(), Some("task_struct"));
        let steps = [
            Step::List("tasks".into()),
            Step::Member("a".into()),
            Step::Each,
            Step::Follow(Target::OwnType),
            Step::Follow(Target::CpuMask),
            Step::Follow(Target::Bytes(16)),
            Step::Follow(Target::PerCpu(4)),
        ];
        assert_eq!(expression.steps, steps);
    }

    #[test]
    fn pointers_without_a_type_lead_to_a_named_structure() {
        let expression: Expression = "nodes[nodes]->(struct node).a".parse().unwrap();
        assert_eq!(expression.type_name, None);
        let steps = [
            Step::EachNode,
            Step::FollowTo("node".into()),
            Step::Member("a".into()),
        ];
        assert_eq!(expression.steps, steps);
    }

    #[test]
    fn lists_may_have_heads_in_a_table() {
        let expression: Expression = "lists->(list_head of count){chunk.list}".parse().unwrap();
        let steps = [
            Step::FollowToEach("list_head".into(), "count".into()),
            Step::ListOf("chunk".into(), "list".into()),
        ];
        assert_eq!(expression.steps, steps);
    }

    #[test]
    fn mistakes_are_named() {
        let error = |text: &str| text.parse::<Expression>().unwrap_err();
        assert_eq!(error(".x"), "found '.x', expected the name of a symbol");
        assert!(error("a.").contains("expected '[*]'"));
        assert!(error("a->(fish)").contains("expected struct NAME, NAME of VARIABLE"));
        assert!(error("a->(b c of d)").contains("found '(b c of d)'"));
        assert!(error("a[3]").contains("found '[3]'"));
    }
}
