//! The `hitm` program: see `hitm_cli`.

use std::panic;
use std::process::ExitCode;

use hitm_cli::{Exit, Terminal, run};

fn main() -> ExitCode {
    // The message below replaces Rust's own; the place is what a report of the bug needs.
    panic::set_hook(Box::new(|info| {
        let place = info.location().map(ToString::to_string).unwrap_or_default();
        let payload = info.payload();
        let message = payload.downcast_ref::<String>().map(String::as_str);
        let message = message
            .or(payload.downcast_ref::<&str>().copied())
            .unwrap_or("no message");
        Terminal::complain(&format!("internal error at {place}: {message}"));
    }));
    let outcome = panic::catch_unwind(|| {
        let mut terminal = Terminal::of_this_process();
        run(std::env::args_os(), &mut terminal)
    });
    let exit = outcome.unwrap_or_else(|_| {
        Terminal::complain(hitm_cli::PLEASE_REPORT);
        Exit::Internal
    });
    ExitCode::from(exit.code())
}
