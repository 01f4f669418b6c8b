//! How a run ends.

use std::io;

use anyhow::Error;
use hitm::layout::LayoutError;
use hitm::record::RecordError;
use hitm::vm::VmError;

/// The meaning of the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Everything was done.
    Done,
    /// A condition of `--fail-on` holds.
    GateFailed,
    /// What the recorded program ended with.
    OfProgram(u8),
    /// Wrong usage, or something cannot be read or written.
    Usage,
    /// Something is missing on this host.
    Missing,
    /// A bug in hitm.
    Internal,
}

impl Exit {
    /// The number that the process ends with.
    pub const fn code(self) -> u8 {
        match self {
            Exit::Done => 0,
            Exit::GateFailed => 1,
            Exit::OfProgram(code) => code,
            Exit::Usage => 2,
            Exit::Missing => 3,
            // `EX_SOFTWARE` of sysexits.h; not 101, which any Rust program may end with.
            Exit::Internal => 70,
        }
    }

    /// What an error of the facade means.
    pub(crate) fn of(error: &Error) -> Exit {
        if let Some(RecordError::Tools(_)) = error.downcast_ref::<RecordError>() {
            return Exit::Missing;
        }
        if let Some(LayoutError::NoKernelTypes { .. }) = error.downcast_ref::<LayoutError>() {
            return Exit::Missing;
        }
        match error.downcast_ref::<VmError>() {
            Some(
                VmError::NoEmulator
                | VmError::NoSuchEmulator { .. }
                | VmError::OldEmulator { .. }
                | VmError::NoLibrary { .. }
                | VmError::NoKernelPackage { .. }
                | VmError::Download { .. },
            ) => Exit::Missing,
            _ => Exit::Usage,
        }
    }
}

/// Whether the reader of our output went away, as `head` does: no error of ours. A machine that goes
/// away is one.
pub(crate) fn is_broken_pipe(error: &Error) -> bool {
    let is_of_output = !error.is::<VmError>() && !error.is::<RecordError>();
    is_of_output
        && error.chain().any(|cause| {
            let cause = cause.downcast_ref::<io::Error>();
            cause.is_some_and(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
        })
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;

    use super::*;

    #[test]
    fn a_broken_pipe_is_found_below_its_context() {
        let broken = Err::<(), _>(io::Error::from(io::ErrorKind::BrokenPipe));
        assert!(is_broken_pipe(&broken.context("cannot write").unwrap_err()));
        let other = Err::<(), _>(io::Error::from(io::ErrorKind::NotFound));
        assert!(!is_broken_pipe(&other.context("cannot write").unwrap_err()));
        let of_machine = VmError::System {
            what: "connect to QEMU".into(),
            source: io::Error::from(io::ErrorKind::BrokenPipe),
        };
        assert!(!is_broken_pipe(&of_machine.into()));
    }
}
