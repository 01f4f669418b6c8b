//! Failures between a program and the kernel.

use std::io;

use aya::maps::MapError;
use aya::programs::ProgramError;

/// The reason why no BPF program works here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unavailable {
    /// Nothing was compiled.
    #[error("this hitm was built without clang, so without BPF programs")]
    NotBuilt,
    /// The kernel has no BTF of its own types, with the reason.
    #[error("the kernel does not describe its types: no /sys/kernel/btf/vmlinux ({0})")]
    NoTypes(String),
    /// This process lacks capabilities.
    #[error("BPF programs need root, or CAP_BPF and CAP_PERFMON")]
    Denied,
    /// The kernel rejects the program, with its message.
    #[error("the kernel refuses BPF programs: {0}")]
    Refused(String),
}

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say it")]
pub enum Error {
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    #[error("cannot load BPF program {program}: {reason}")]
    Load { program: String, reason: String },
    #[error("cannot attach BPF program {program}: {reason}")]
    Attach { program: String, reason: String },
    #[error("cannot read what the BPF programs counted: {0}")]
    Read(String),
    #[error("{count} processes to observe, at most {limit} fit")]
    ManyProcesses { count: usize, limit: usize },
    #[error("cannot read the addresses of kernel functions in /proc/kallsyms: {0}")]
    Symbols(String),
    #[error("cannot give up capabilities: {0}")]
    Capabilities(io::Error),
}

impl From<MapError> for Error {
    fn from(error: MapError) -> Error {
        Error::Read(chain(&error))
    }
}

impl Error {
    pub(crate) fn load(program: &str, error: &ProgramError) -> Error {
        if is_denied(error) {
            return Error::Unavailable(Unavailable::Denied);
        }
        Error::Load {
            program: program.to_owned(),
            reason: short(error),
        }
    }

    pub(crate) fn attach(program: &str, error: &ProgramError) -> Error {
        Error::Attach {
            program: program.to_owned(),
            reason: short(error),
        }
    }
}

/// True when the kernel requires capabilities that this process lacks.
fn is_denied(error: &ProgramError) -> bool {
    matches!(error, ProgramError::LoadError { io_error, .. }
        if io_error.kind() == io::ErrorKind::PermissionDenied && !capable())
}

/// Joins an error and its causes in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text = format!("{text}: {cause}");
        next = cause.source();
    }
    text
}

/// A verifier's log has thousands of lines: the last two before its statistics have the reason.
fn short(error: &ProgramError) -> String {
    let ProgramError::LoadError {
        io_error,
        verifier_log,
    } = error
    else {
        return chain(error);
    };
    let log = verifier_log.to_string();
    let lines: Vec<&str> = log.lines().filter(|line| is_reason(line)).collect();
    let last = lines[lines.len().saturating_sub(2)..].join("; ");
    match last.is_empty() {
        true => io_error.to_string(),
        false => format!("{io_error} ({last})"),
    }
}

fn is_reason(line: &str) -> bool {
    let statistics = ["processed ", "stack depth ", "verification time "];
    !line.trim().is_empty() && !statistics.iter().any(|start| line.starts_with(start))
}

/// True when this process is root's: then EPERM is not about missing capabilities.
pub(crate) fn capable() -> bool {
    // SAFETY: geteuid takes nothing and always succeeds.
    unsafe { libc::geteuid() == 0 }
}
