//! The `hitm` program: see `hitm_cli`.

use std::process::ExitCode;

use hitm_alloc as _;
use hitm_cli::{Terminal, complete_for_shell, guarded, run};

fn main() -> ExitCode {
    complete_for_shell();
    hitm_files::limits::survive_file_size_limit();
    let exit = guarded(|| run(std::env::args_os(), &mut Terminal::of_this_process()));
    ExitCode::from(exit.code())
}
