//! One file for each subcommand: arguments to configuration, one call of the facade, answer to text.

mod doctor;
mod record;
mod report;

use anyhow::Result;

use crate::args::Command;
pub(crate) use record::RecordArgs;
pub(crate) use report::ReportArgs;
use crate::{Exit, Terminal};

pub(crate) fn run(command: Command, terminal: &mut Terminal) -> Result<Exit> {
    match command {
        Command::Record(args) => record::run(args, terminal),
        Command::Report(args) => report::run(args, terminal),
        Command::Doctor => doctor::run(terminal),
    }
}
