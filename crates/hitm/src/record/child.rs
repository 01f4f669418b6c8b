//! Inheritance and death of processes that we start.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// Kills the process that `command` starts as soon as the calling thread ends, however it ends.
///
/// Linux ties the signal (prctl(2), `PR_SET_PDEATHSIG`) to the thread that forks, not to its
/// process: the thread that spawns the command must be the one that waits for it. Children of the
/// started process are not killed.
pub(crate) fn end_with_this_thread(command: &mut Command) {
    end_with(command, std::process::id());
}

fn end_with(command: &mut Command, parent: u32) {
    // SAFETY: between fork and exec only these system calls are made.
    unsafe {
        command.pre_exec(move || {
            if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0 {
                return Err(io::Error::last_os_error());
            }
            // The parent may have died before the kernel was asked: then nothing would ever come.
            match libc::getppid() as u32 == parent {
                true => Ok(()),
                false => Err(io::Error::from_raw_os_error(libc::ESRCH)),
            }
        });
    }
}

/// Lets the process that `command` starts have `file` under the same descriptor.
pub(crate) fn inherit(command: &mut Command, file: &File) {
    let fd = file.as_raw_fd();
    // SAFETY: between fork and exec only this system call is made.
    unsafe {
        command.pre_exec(move || match libc::fcntl(fd, libc::F_SETFD, 0) {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_orphan_does_not_start() {
        let mut command = Command::new("true");
        end_with_this_thread(&mut command);
        assert!(command.status().unwrap().success());
        // As if the process that forks were gone and another had adopted the child.
        end_with(&mut command, u32::MAX);
        let error = command.status().unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ESRCH));
    }
}
