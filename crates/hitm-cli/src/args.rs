//! Command-line arguments. Only names and texts here: `commands` interprets them.

use clap::Parser;

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
}
