//! The command line of QEMU.

use std::ffi::OsString;
use std::process::{Command, Stdio};

use hitm_files::streams;

use super::region::Region;
use super::{Prepared, ProgramOutput, child};

/// The command that runs the target under QEMU with the recorder loaded. Unless the settings keep it running, it
/// ends with the thread that spawns it.
pub(super) fn command(prepared: &Prepared<'_>, region: &Region) -> Command {
    let Prepared {
        config,
        target,
        tools,
        ..
    } = prepared;
    let mut command = Command::new(&tools.qemu.path);
    let plugin = format!(
        "{},{},{}",
        tools.qemu.plugin.display(),
        region.board_arguments(),
        region.descriptor(),
    );
    command.args(["-plugin", &plugin]);
    if let Some(observer) = &tools.heap_observer {
        let mut preload = OsString::from("LD_PRELOAD=");
        preload.push(observer);
        if let Some(theirs) = std::env::var_os("LD_PRELOAD") {
            preload.push(":");
            preload.push(theirs);
        }
        command.arg("-E").arg(preload);
    }
    command
        .arg("-0")
        .arg(&target.arg0)
        .arg(&target.program)
        .args(&target.args);
    region.inherit(&mut command);
    streams::pass_closed(&mut command);
    if let Some(directory) = &config.directory {
        command.current_dir(directory);
    }
    match config.program_output {
        ProgramOutput::Inherited => {}
        ProgramOutput::Error => _ = command.stdout(std::io::stderr()),
        ProgramOutput::Discarded => _ = command.stdout(Stdio::null()),
    }
    if !config.keeps_running {
        child::end_with_this_thread(&mut command);
    }
    command
}
