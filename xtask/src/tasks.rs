//! What a newcomer's tasks take: the files that each opens and edits, and the lines of each crate, then and now.
//!
//! `xtask/tasks.toml` declares the tasks. For each file of today it names a piece of text at which the task begins
//! there, so that a list that has grown old is found.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::{output, root};

/// The declared tasks.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Tasks {
    /// The revision before.
    before: String,
    task: Vec<Task>,
}

/// A newcomer's task.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Task {
    name: String,
    /// The task in a few words.
    what: String,
    /// Files at the revision before.
    before: Files,
    /// Files of today, each followed by `: ` and text that it has where the task begins.
    after: Files,
}

/// Files by what is done to them. Those that a command writes again are neither.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Files {
    /// Edited by hand, new ones included.
    edit: Vec<String>,
    /// Only read.
    #[serde(default)]
    read: Vec<String>,
}

impl Files {
    fn opened(&self) -> usize {
        self.edit.len() + self.read.len()
    }
}

fn tasks() -> Result<Tasks> {
    let path = root().join("xtask/tasks.toml");
    let text =
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    toml::from_str(&text).context("xtask/tasks.toml")
}

/// Prints the files that each task opens and edits, before and after.
pub fn print_tasks() -> Result<()> {
    let tasks = tasks()?;
    check(&tasks)?;
    println!("opened / edited    {} -> now", tasks.before);
    for task in &tasks.task {
        let (before, after) = (&task.before, &task.after);
        println!(
            "{:>4} / {:<2} -> {:>2} / {:<2}   {}: {}",
            before.opened(),
            before.edit.len(),
            after.opened(),
            after.edit.len(),
            task.name,
            task.what
        );
        for file in &after.edit {
            println!("                       edit {file}");
        }
        for file in &after.read {
            println!("                       read {file}");
        }
    }
    let mean = |count: fn(&Task) -> usize| {
        let sum: usize = tasks.task.iter().map(count).sum();
        sum as f64 / tasks.task.len() as f64
    };
    println!(
        "{:>4.1} / {:.1} -> {:.1} / {:.1}   mean of {} tasks",
        mean(|task| task.before.opened()),
        mean(|task| task.before.edit.len()),
        mean(|task| task.after.opened()),
        mean(|task| task.after.edit.len()),
        tasks.task.len()
    );
    Ok(())
}

/// Finds files of today that are gone, or have lost the text at which a task begins.
fn check(tasks: &Tasks) -> Result<()> {
    for task in &tasks.task {
        for file in task.after.edit.iter().chain(&task.after.read) {
            let (path, begins) = file.split_once(": ").unwrap_or((file, ""));
            if path.starts_with("new ") {
                continue;
            }
            let text = fs::read_to_string(root().join(path));
            let text = text.with_context(|| format!("task {}: {path}", task.name))?;
            ensure!(
                text.contains(begins),
                "task {}: {path} has no {begins:?}",
                task.name
            );
        }
    }
    Ok(())
}

/// Prints the product lines of each crate at a revision and now: those of Rust in `src`, without the unit tests.
pub fn print_lines(revision: &str) -> Result<()> {
    let (before, after) = (lines(revision)?, lines("HEAD")?);
    let crates: Vec<&String> = before.keys().chain(after.keys()).collect();
    let mut crates: Vec<&String> = crates;
    crates.sort();
    crates.dedup();
    let of = |lines: &BTreeMap<String, u64>, name: &str| lines.get(name).copied().unwrap_or(0);
    println!("{:>8} {:>8} {:>8}  crate", revision, "HEAD", "change");
    let row = |name: &str, then: u64, now: u64| {
        println!(
            "{then:>8} {now:>8} {:>+8}  {name}",
            now as i64 - then as i64
        );
    };
    for name in crates {
        row(name, of(&before, name), of(&after, name));
    }
    row("all", before.values().sum(), after.values().sum());
    Ok(())
}

/// Product lines by crate at a revision.
fn lines(revision: &str) -> Result<BTreeMap<String, u64>> {
    let listed = output("git", &["ls-tree", "-r", "--name-only", revision, "crates"])?;
    let mut lines = BTreeMap::new();
    for path in listed.lines() {
        let parts: Vec<&str> = path.split('/').collect();
        let is_product = path.ends_with(".rs")
            && parts.get(2) == Some(&"src")
            && !parts
                .iter()
                .any(|part| matches!(*part, "tests" | "tests.rs"));
        if is_product {
            let text = output("git", &["show", &format!("{revision}:{path}")])?;
            *lines.entry(parts[1].to_owned()).or_default() += product_lines(&text);
        }
    }
    Ok(lines)
}

/// Lines before the unit tests of a file, which end it.
fn product_lines(text: &str) -> u64 {
    let tests = text.lines().position(|line| line == "#[cfg(test)]");
    tests.unwrap_or_else(|| text.lines().count()) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_task_begins_where_its_list_says() {
        check(&tasks().unwrap()).unwrap();
    }

    #[test]
    fn unit_tests_are_no_product() {
        let text = "fn one() {}\n\n#[cfg(test)]\nmod tests {\n}\n";
        assert_eq!(product_lines(text), 2);
        assert_eq!(product_lines("fn one() {}\n"), 1);
    }
}
