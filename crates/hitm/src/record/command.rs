//! The command line of QEMU.

use std::ffi::OsString;
use std::process::Command;

use hitm_files::streams;

use super::child;
use super::region::Region;
use super::target::Target;
use super::tools::Tools;

/// The command that runs `target` under QEMU with the recorder loaded. Unless it `keeps_running`, it
/// ends with the thread that spawns it.
pub(crate) fn command(
    target: &Target,
    tools: &Tools,
    region: &Region,
    keeps_running: bool,
) -> Command {
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
    if !keeps_running {
        child::end_with_this_thread(&mut command);
    }
    command
}
