//! The command line of QEMU.

use std::ffi::OsString;
use std::process::Command;

use super::region::Region;
use super::target::Target;
use super::tools::Tools;

/// The command that runs `target` under QEMU with the recorder loaded.
pub(crate) fn command(target: &Target, tools: &Tools, region: &Region) -> Command {
    let mut command = Command::new(&tools.qemu.path);
    let plugin = format!(
        "{},{}",
        tools.qemu.plugin.display(),
        region.plugin_arguments()
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
    command
}
