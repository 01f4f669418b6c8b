//! Command-line arguments. Only names and texts here: `commands` interprets them.

use std::ffi::{OsStr, OsString};

use clap::{Arg, Command as Verbs, CommandFactory as _, FromArgMatches as _, Parser};

use crate::commands::Command;

/// Finds out which cache lines the threads of a program fight over, and what it costs.
#[derive(Debug, Parser)]
#[command(
    name = "hitm",
    version,
    after_help = "\
Exit codes:
  0   done (hitm record: the recorded program's own exit code)
  1   a condition of --fail-on or --check holds, or a rule is broken
  2   wrong usage, or something cannot be read or written
  3   something is missing on this host; the message says what to install
  70  an internal error of hitm

Results go to standard output, everything else to standard error.
Colours are used on a terminal only, and not when NO_COLOR is set or TERM is dumb. On a terminal a
long report goes through PAGER, or through less; PAGER=cat shows it at once."
)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Columns of text, 80 to 1000 [default: COLUMNS, else the terminal's, else 120]
    #[arg(long, global = true, value_name = "N", value_parser = clap::value_parser!(u16).range(80..=1000))]
    pub(crate) width: Option<u16>,
    /// Write neither progress nor notes to standard error, only errors; exit codes say the rest
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
}

impl Args {
    /// Parses a command line, the program's name first, by `command`, which may have other defaults. `-g 0` of `hitm record` is read as `--call-graph=0`: clap would take the
    /// program for the value in `hitm record -g ./program` otherwise.
    pub(crate) fn of(args: &[OsString], command: Verbs) -> Result<Args, clap::Error> {
        let mut args = args.to_vec();
        if args.get(1).is_some_and(|verb| verb == "record") {
            join_call_graph(&mut args);
        }
        let mut command = command;
        let matches = command.try_get_matches_from_mut(args)?;
        Args::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
    }
}

/// Joins the option for callers and its value, if they stand before the program that is recorded.
fn join_call_graph(args: &mut Vec<OsString>) {
    if !args.iter().any(|arg| arg == "-g" || arg == "--call-graph") {
        return;
    }
    let all = Args::command();
    let Some(record) = all.find_subcommand("record") else {
        return;
    };
    let mut at = 2;
    while let Some(option) = args.get(at).and_then(|arg| arg.to_str()) {
        if !option.starts_with('-') || option == "--" {
            return;
        }
        let is_number =
            |value: &OsString| [OsStr::new("0"), OsStr::new("1")].contains(&value.as_os_str());
        if matches!(option, "-g" | "--call-graph") && args.get(at + 1).is_some_and(is_number) {
            let value = args.remove(at + 1);
            args[at] = "--call-graph=".into();
            args[at].push(value);
            return;
        }
        let mut known = record.get_arguments().chain(all.get_arguments());
        at += match known.find(|arg| is_named(arg, option)) {
            Some(arg) if arg.get_action().takes_values() && !arg.is_require_equals_set() => 2,
            _ => 1,
        };
    }
}

/// Returns true if the option without a value is the argument's.
fn is_named(arg: &Arg, option: &str) -> bool {
    let long = option.strip_prefix("--");
    let mut short = option.strip_prefix('-').into_iter().flat_map(str::chars);
    let short = (short.next(), short.next());
    long.is_some_and(|long| arg.get_long() == Some(long))
        || matches!(short, (Some(letter), None) if arg.get_short() == Some(letter))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(line: &str) -> String {
        let mut args: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        join_call_graph(&mut args);
        let args: Vec<&str> = args
            .iter()
            .map(|arg| arg.to_str().expect("it was text"))
            .collect();
        args.join(" ")
    }

    #[test]
    fn the_number_behind_call_graph_is_its_value_and_a_program_is_none() {
        for (line, expected) in [
            ("hitm record -g 0 ./run", "hitm record --call-graph=0 ./run"),
            (
                "hitm record -o x --call-graph 1 -- ./run",
                "hitm record -o x --call-graph=1 -- ./run",
            ),
            ("hitm record -g ./run 0", "hitm record -g ./run 0"),
            ("hitm record -g -o 0 ./run", "hitm record -g -o 0 ./run"),
            ("hitm record ./run -g 0", "hitm record ./run -g 0"),
            ("hitm record -- -g 0", "hitm record -- -g 0"),
            ("hitm record -o -g 0", "hitm record -o -g 0"),
        ] {
            assert_eq!(joined(line), expected);
        }
    }
}
