//! Exit codes.

use std::io;

use anyhow::Error;
use hitm::live::{LinesError, LiveError};
use hitm::record::{RecordError, ToolsError};
use hitm::vm::VmError;
use hitm_advise::types_files::TypesError;
use hitm_live::neighbours::Error as NeighboursError;
use hitm_live::place::PlaceError;
use hitm_live::rt::RtError;
use hitm_live::throttle::Error as ThrottleError;

use crate::commands::EngineMissing;
use crate::terminal::ResultNotWritten;

/// The meaning of the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Everything was done.
    Done,
    /// A condition of `--fail-on` holds.
    GateFailed,
    /// Exit code of the recorded program.
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

    /// Returns the meaning of an error of the facade.
    pub(crate) fn of(error: &Error) -> Exit {
        match error.downcast_ref::<RecordError>() {
            Some(RecordError::Tools(ToolsError::CannotRun { .. })) => return Exit::Usage,
            Some(RecordError::Tools(_)) => return Exit::Missing,
            _ => {}
        }
        if let Some(TypesError::NoKernelTypes { .. }) = error.downcast_ref::<TypesError>() {
            return Exit::Missing;
        }
        if let Some(RtError::NoPriority { .. }) = error.downcast_ref::<RtError>() {
            return Exit::Missing;
        }
        if error
            .downcast_ref::<NeighboursError>()
            .is_some_and(NeighboursError::is_missing)
        {
            return Exit::Missing;
        }
        if let Some(ThrottleError::NoHierarchy(_)) = error.downcast_ref::<ThrottleError>() {
            return Exit::Missing;
        }
        if error
            .downcast_ref::<LiveError>()
            .is_some_and(LiveError::is_missing)
        {
            return Exit::Missing;
        }
        if error
            .downcast_ref::<LinesError>()
            .is_some_and(LinesError::is_missing)
        {
            return Exit::Missing;
        }
        if error
            .downcast_ref::<PlaceError>()
            .is_some_and(PlaceError::is_missing)
        {
            return Exit::Missing;
        }
        if error.is::<EngineMissing>() {
            return Exit::Missing;
        }
        match error.downcast_ref::<VmError>() {
            Some(
                VmError::NoEmulator
                | VmError::NoSuchEmulator { .. }
                | VmError::OldEmulator { .. }
                | VmError::Tools(_)
                | VmError::NoKernelPackage { .. }
                | VmError::Download { .. },
            ) => Exit::Missing,
            _ => Exit::Usage,
        }
    }
}

/// Returns true if the reader of standard output went away, as `head` does: no error of ours. A machine that
/// goes away is one, and so is the reader of a file that was asked for.
pub(crate) fn is_broken_pipe(error: &Error) -> bool {
    error.is::<ResultNotWritten>()
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
        let broken = broken.context(ResultNotWritten).unwrap_err();
        assert!(is_broken_pipe(&broken));
        let other = Err::<(), _>(io::Error::from(io::ErrorKind::NotFound));
        let other = other.context(ResultNotWritten).unwrap_err();
        assert!(!is_broken_pipe(&other));
        let of_file = Err::<(), _>(io::Error::from(io::ErrorKind::BrokenPipe));
        let of_file = of_file.context("cannot write x").unwrap_err();
        assert!(!is_broken_pipe(&of_file));
        let of_machine = VmError::System {
            what: "connect to QEMU".into(),
            source: io::Error::from(io::ErrorKind::BrokenPipe),
        };
        assert!(!is_broken_pipe(&of_machine.into()));
    }
}
