//! The two programs of a command line, and what to call them.

use std::path::PathBuf;

use anyhow::{Result, bail};
use hitm::revisions::Checkout;

/// A program that is compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Program {
    pub(super) command: Vec<String>,
    /// Folder that it runs in; none for this one.
    pub(super) directory: Option<PathBuf>,
    /// The revision that it is built of.
    revision: Option<String>,
}

impl Program {
    fn here(command: Vec<String>) -> Program {
        Program {
            command,
            directory: None,
            revision: None,
        }
    }
}

/// The words before and behind the `--`.
pub(super) fn split(words: &[String]) -> Result<(&[String], &[String])> {
    let mut marks = words.iter().enumerate().filter(|(_, word)| *word == "--");
    match (marks.next(), marks.next()) {
        (Some((at, _)), None) => Ok((&words[..at], &words[at + 1..])),
        (None, _) => bail!(
            "found no -- behind the first program, expected [OPTIONS] A [ARGS] -- B [ARGS]: options stand before the programs"
        ),
        (Some(_), Some(_)) => bail!(
            "found several --, expected one between the programs; quoted, a program may have its own: 'A -- x' 'B -- x'"
        ),
    }
}

/// The programs of a command line: with a `--` between them, or each as one word for a shell.
pub(super) fn of(words: &[String]) -> Result<[Program; 2]> {
    if let [before, after] = words
        && before != "--"
        && after != "--"
    {
        return Ok([quoted(before)?, quoted(after)?]);
    }
    let (before, after) = split(words)?;
    if before.is_empty() || after.is_empty() {
        bail!("found one program, expected two: A [ARGS] -- B [ARGS]");
    }
    Ok([before, after].map(|command| Program::here(command.to_vec())))
}

/// A program as one word: its own are apart as a shell takes them apart. A file of that name is one word.
fn quoted(text: &str) -> Result<Program> {
    if PathBuf::from(text).is_file() {
        return Ok(Program::here(vec![text.to_owned()]));
    }
    match shlex::split(text) {
        Some(command) if !command.is_empty() => Ok(Program::here(command)),
        Some(_) => bail!("found an empty command, expected a program and its arguments"),
        None => bail!("{text}: found a quote without its end"),
    }
}

/// The program behind the `--`, in each revision.
pub(super) fn of_checkouts(checkouts: &[Checkout], words: &[String]) -> Result<[Program; 2]> {
    let (_, command) = split(words)?;
    let [before, after] = checkouts else {
        bail!("found {} revisions, expected two", checkouts.len());
    };
    if command.is_empty() {
        bail!("found no program behind --, expected what to record in each revision");
    }
    Ok([before, after].map(|checkout| Program {
        command: command.to_vec(),
        directory: Some(checkout.directory.clone()),
        revision: Some(checkout.revision.clone()),
    }))
}

/// Names for the programs: by revision, by name, or by the whole command where names are alike.
pub(super) fn labels(programs: &[Program; 2]) -> [String; 2] {
    let revisions = programs.each_ref().map(|one| one.revision.clone());
    if let [Some(before), Some(after)] = revisions {
        return [before, after];
    }
    let names = programs.each_ref().map(|one| {
        let program = one.command.first().map_or("", String::as_str);
        program.rsplit('/').next().unwrap_or(program).to_owned()
    });
    let commands = programs.each_ref().map(|one| one.command.join(" "));
    [names, commands]
        .into_iter()
        .find(|[before, after]| before != after)
        .unwrap_or(["A", "B"].map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split('|').map(str::to_owned).collect()
    }

    fn commands(line: &str) -> Result<[String; 2], String> {
        let programs = of(&words(line)).map_err(|error| error.to_string())?;
        Ok(programs.map(|one| one.command.join("|")))
    }

    #[test]
    fn programs_stand_around_a_mark_or_are_quoted() {
        let both = |before: &str, after: &str| Ok([before.to_owned(), after.to_owned()]);
        assert_eq!(commands("./a|4|--|./b|-x"), both("./a|4", "./b|-x"));
        assert_eq!(commands("./a 4|./b 'x y'"), both("./a|4", "./b|x y"));
        assert_eq!(commands("./a -- 4|./b"), both("./a|--|4", "./b"));
    }

    #[test]
    fn mistakes_are_named() {
        let said = |line: &str| commands(line).expect_err("it is wrong");
        assert!(said("./a|4|5").starts_with("found no -- behind the first program"));
        assert!(said("./a|--|b|--|c").starts_with("found several --"));
        assert!(said("./a|x|--").starts_with("found one program, expected two"));
        assert!(said("./a|'").ends_with("found a quote without its end"));
        assert!(said("./a| ").starts_with("found an empty command"));
    }

    #[test]
    fn labels_tell_the_programs_apart() {
        let labels = |line: &str| labels(&of(&words(line)).expect("two programs"));
        assert_eq!(labels("old/app|4|--|new/app2|4"), ["app", "app2"]);
        assert_eq!(labels("old/app|4|--|new/app|4"), ["old/app 4", "new/app 4"]);
        assert_eq!(labels("./a|--|./a"), ["A", "B"]);
    }
}
