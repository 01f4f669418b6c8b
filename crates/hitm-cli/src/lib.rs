//! The `hitm` command as a library, so that tests can run it without a process.
//!
//! [`run`] goes from arguments to an [`Exit`]: `args` says what may be typed, `commands` has one file
//! for each subcommand, which turns its arguments into a configuration, calls one function of the
//! facade and writes the answer. Results go to standard output, everything else to standard error.

mod args;
mod commands;
mod exit;
mod habits;
mod progress;
mod settings;
mod terminal;
mod tui;

use std::ffi::OsString;
use std::panic::{self, PanicHookInfo, UnwindSafe};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, CommandFactory as _};
use hitm_base::printable;

use args::Args;
pub use commands::complete_for_shell;
pub use exit::Exit;
pub use terminal::Terminal;

const PLEASE_REPORT: &str =
    "this is a bug in hitm: please report it with the command that you ran and the lines above";

/// Runs `action`; a panic in it becomes a message on standard error and [`Exit::Internal`].
pub fn guarded(action: impl FnOnce() -> Exit + UnwindSafe) -> Exit {
    panic::set_hook(Box::new(|info| {
        if !hitm::sweep::is_reading() {
            Terminal::complain(&internal_error(info));
        }
    }));
    panic::catch_unwind(action).unwrap_or_else(|_| {
        Terminal::complain(PLEASE_REPORT);
        Exit::Internal
    })
}

/// Returns the message that replaces Rust's own, with the place: a report of the bug needs it.
fn internal_error(info: &PanicHookInfo<'_>) -> String {
    let place = info.location().map(ToString::to_string).unwrap_or_default();
    let payload = info.payload();
    let message = payload.downcast_ref::<String>().map(String::as_str);
    let message = message.or(payload.downcast_ref::<&str>().copied());
    format!(
        "internal error at {place}: {}",
        message.unwrap_or("no message")
    )
}

/// Runs one command line, the program's name first.
pub fn run(args: impl IntoIterator<Item = OsString>, terminal: &mut Terminal) -> Exit {
    let args: Vec<OsString> = args.into_iter().collect();
    let command = match settings::apply(Args::command()) {
        Ok(command) => command,
        Err(error) => return fail(&error, terminal),
    };
    let args = match Args::of(&args, command.clone()) {
        Ok(args) => args,
        Err(error) => return explain(&of_printable(&args, command, error), terminal),
    };
    terminal.set_width(args.width);
    terminal.set_quiet(args.quiet);
    progress::set_quiet(args.quiet);
    match commands::run(args.command, terminal) {
        Ok(exit) => exit,
        Err(error) => fail(&error, terminal),
    }
}

/// The error about the same arguments made printable: clap puts them into its lines as they are.
fn of_printable(args: &[OsString], command: Command, error: clap::Error) -> clap::Error {
    let shown = args.iter().map(|arg| arg.to_string_lossy());
    let shown: Vec<OsString> = shown
        .map(|arg| printable(&arg).into_owned().into())
        .collect();
    let same = Args::of(&shown, command).err();
    let same = same.filter(|same| same.kind() == error.kind());
    same.unwrap_or(error)
}

/// Says what went wrong. That nobody reads our output any more is nothing to say.
fn fail(error: &anyhow::Error, terminal: &mut Terminal) -> Exit {
    if exit::is_broken_pipe(error) {
        return Exit::Done;
    }
    terminal.error(error);
    Exit::of(error)
}

/// The command of hitm for one of another tool that was typed.
fn counterpart(error: &clap::Error) -> Option<String> {
    let Some(ContextValue::String(typed)) = error.get(ContextKind::InvalidSubcommand) else {
        return None;
    };
    let instead = habits::counterpart(typed)?;
    Some(format!("hitm has no command {typed}: use {instead}"))
}

/// Help and version are results, everything else is an error of usage.
fn explain(error: &clap::Error, terminal: &mut Terminal) -> Exit {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            match terminal.out(&terminal.rendered("", error)) {
                Ok(()) => Exit::Done,
                Err(error) => fail(&error, terminal),
            }
        }
        kind => {
            if let Some(instead) = counterpart(error) {
                return fail(&anyhow::Error::msg(instead), terminal);
            }
            // An error gets our name before it, as everywhere; the help that clap shows when nothing
            // was typed does not.
            let before = match kind {
                ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => "",
                _ => "hitm: ",
            };
            let text = terminal.rendered(before, error);
            terminal.err(&text);
            Exit::Usage
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use clap::CommandFactory as _;

    use super::*;

    /// Refuses every byte in one way.
    struct Refusing(io::ErrorKind);

    impl io::Write for Refusing {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn exit_when_output_is_refused(argument: &str, kind: io::ErrorKind) -> Exit {
        let mut terminal = Terminal::new(Box::new(Refusing(kind)), Box::new(io::sink()), false);
        run(["hitm", argument].map(OsString::from), &mut terminal)
    }

    #[test]
    fn a_reader_that_goes_away_is_no_error() {
        for argument in ["doctor", "--help", "--version"] {
            let exit = |kind| exit_when_output_is_refused(argument, kind);
            assert_eq!(exit(io::ErrorKind::BrokenPipe), Exit::Done, "{argument}");
            assert_eq!(exit(io::ErrorKind::StorageFull), Exit::Usage, "{argument}");
        }
    }

    #[test]
    fn a_panic_has_an_exit_code_of_its_own() {
        let before = panic::take_hook();
        let exit = guarded(|| panic!("as the test wants"));
        panic::set_hook(before);
        assert_eq!((exit, exit.code()), (Exit::Internal, 70));
    }

    #[test]
    fn the_command_line_is_well_formed() {
        Args::command().debug_assert();
    }
}
