//! Runs `hitm` with as much memory as no file that lies may cost.

use hitm_test::process::Command;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Stdio;

/// Memory that no file that lies may cost, touched or not.
const DATA_BYTES_MAX: u64 = 300 << 20;

pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) error: String,
    pub(crate) output: String,
}

/// Runs `hitm` under a limit of the kernel, at which an allocation fails and the process aborts.
///
/// The largest resident set that `wait4` answers would not do: it begins with that of the process
/// that called `exec`, which is a copy of this one.
pub(crate) fn run(directory: &Path, args: &[&str]) -> Ended {
    let file = |name| File::create(directory.join(name)).expect("a temporary file");
    let mut command = Command::new(env!("CARGO_BIN_EXE_hitm"));
    command
        .args(args)
        .current_dir(directory)
        .stdin(Stdio::null())
        .stdout(file("stdout"))
        .stderr(file("stderr"));
    // SAFETY: setrlimit is safe to call between fork and exec, and the limit is plain memory.
    unsafe {
        command.pre_exec(|| {
            let limit = libc::rlimit {
                rlim_cur: DATA_BYTES_MAX,
                rlim_max: DATA_BYTES_MAX,
            };
            match libc::setrlimit(libc::RLIMIT_DATA, &limit) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            }
        });
    }
    let status = command.status().expect("hitm starts");
    let read = |name| std::fs::read_to_string(directory.join(name)).expect("hitm writes UTF-8");
    let error = read("stderr");
    let code = status.code();
    Ended {
        code: code.unwrap_or_else(|| panic!("hitm {args:?} ends with {status}: {error}")),
        output: read("stdout"),
        error,
    }
}
