//! Arguments of the command.

use anyhow::{Result, bail, ensure};

/// Seconds of each target in a smoke run.
const SMOKE_SECONDS: u64 = 5;

/// Length of each target's run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Amount {
    /// A number of seconds.
    Seconds(u64),
    /// A number of executions at this commit, those of earlier runs included.
    Executions(u64),
}

/// Parsed arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Options {
    pub(super) amount: Amount,
    pub(super) targets: Vec<String>,
}

impl Options {
    /// Parses `[--smoke | --executions N] [TARGET...]`; without targets all of `known`.
    pub(super) fn parse(args: &[&str], known: &[String]) -> Result<Options> {
        let mut amount = Amount::Seconds(SMOKE_SECONDS);
        let mut targets = Vec::new();
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            match *arg {
                "--smoke" => amount = Amount::Seconds(SMOKE_SECONDS),
                "--executions" => {
                    let number = args.next().and_then(|number| number.parse().ok());
                    let Some(number) = number.filter(|number| *number > 0) else {
                        bail!("--executions needs a number above 0");
                    };
                    amount = Amount::Executions(number);
                }
                option if option.starts_with('-') => bail!("unknown option {option}"),
                target => {
                    let is_known = known.iter().any(|name| name == target);
                    ensure!(
                        is_known,
                        "no target {target}: there are {}",
                        known.join(", ")
                    );
                    targets.push(target.to_owned());
                }
            }
        }
        if targets.is_empty() {
            targets = known.to_vec();
        }
        Ok(Options { amount, targets })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> Result<Options> {
        Options::parse(args, &["a".to_owned(), "b".to_owned()])
    }

    #[test]
    fn all_targets_are_smoked_when_nothing_is_asked() {
        let options = parse(&[]).unwrap();
        assert_eq!(options.amount, Amount::Seconds(SMOKE_SECONDS));
        assert_eq!(options.targets, ["a", "b"]);
    }

    #[test]
    fn executions_and_targets_are_taken() {
        let options = parse(&["--executions", "10000000", "b"]).unwrap();
        assert_eq!(options.amount, Amount::Executions(10_000_000));
        assert_eq!(options.targets, ["b"]);
    }

    #[test]
    fn what_is_not_known_is_refused() {
        for args in [
            &["c"][..],
            &["--long"],
            &["--executions"],
            &["--executions", "0"],
        ] {
            parse(args).unwrap_err();
        }
    }
}
