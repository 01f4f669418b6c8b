//! One file for each subcommand: arguments to configuration, one call of the facade, answer to text.

mod doctor;

use anyhow::Result;

use crate::args::Command;
use crate::{Exit, Terminal};

pub(crate) fn run(command: Command, terminal: &mut Terminal) -> Result<Exit> {
    match command {
        Command::Doctor => doctor::run(terminal),
    }
}
