//! Errors of answering a question.

use std::path::PathBuf;

use hitm_files::text_file::TextFileError;
use hitm_layout::advise::AdviseError;
use hitm_layout::emit::EmitError;
use hitm_layout::layout_file::LayoutFileError;
use hitm_layout::profile::ProfileError;
use hitm_perf::c2c::published::PublishedError;
use hitm_recording::RecordingError;
use hitm_recording::perf_data::PerfDataError;
use hitm_whatif::layout_files::LayoutReadError;
use thiserror::Error;

use super::{RecordedProfileError, SimulatedProfileError};
use crate::types_files::TypesError;

/// Errors of answering a question.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SessionError {
    /// A text cannot be read.
    #[error(transparent)]
    File(#[from] TextFileError),
    /// There is no such layout, or it is wrong.
    #[error(transparent)]
    LayoutRead(#[from] LayoutReadError),
    /// The samples, or the names of their kernel, cannot be read.
    #[error(transparent)]
    PerfData(#[from] PerfDataError),
    /// The result of a simulation gives no profile.
    #[error(transparent)]
    Simulated(#[from] SimulatedProfileError),
    /// Samples without times give no rate of events.
    #[error("{}: samples have no times, and a profile needs to know in how much time they were taken: record with perf record --timestamp, print with perf script -F +time", path.display())]
    NoTimes {
        /// The samples.
        path: PathBuf,
    },
    /// Lines of a text belong to an object that it does not name.
    #[error(
        "{}: found {found}, expected --at with {expected}: the text does not name the object of type \
         {type_name}; its lines: {lines}", path.display()
    )]
    NoObject {
        /// The text.
        path: PathBuf,
        /// The structure.
        type_name: String,
        /// Option that was given.
        found: String,
        /// Option that would be right.
        expected: String,
        /// Most contended lines of the text.
        lines: String,
    },
    /// A text is of one object.
    #[error(
        "{}: the text of perf c2c report does not say of which structure it is: expected one --type, and \
         --at with the address of its object", path.display()
    )]
    SeveralTypes {
        /// The text.
        path: PathBuf,
    },
    /// The text of perf c2c report is wrong.
    #[error(transparent)]
    Published(#[from] PublishedError),
    /// Only samples need the names of a kernel.
    #[error("--kallsyms and --vmlinux name the kernel of samples, and {} has none", path.display())]
    NoSamples {
        /// The profile.
        path: PathBuf,
    },
    /// A table of accesses names no machine.
    #[error("{}: tables of accesses, and the text of perf c2c report, name no machine: expected --machine", path.display())]
    NoMachine {
        /// The table.
        path: PathBuf,
    },
    /// Declarations need types, which a layout file lacks.
    #[error(
        "{type_name} comes from a layout file, which has no types: expected a file with debug information"
    )]
    NoTypes {
        /// The structure.
        type_name: String,
    },
    /// The debug information cannot be used.
    #[error(transparent)]
    Types(#[from] TypesError),
    /// The structure cannot be read.
    #[error(transparent)]
    Type(#[from] hitm_layout::Error),
    /// The layout file is wrong.
    #[error(transparent)]
    LayoutFile(#[from] LayoutFileError),
    /// The table of accesses is wrong.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// The recording cannot be read.
    #[error(transparent)]
    Recording(#[from] RecordingError),
    /// The recording has no access to the structure.
    #[error(transparent)]
    NotRecorded(#[from] RecordedProfileError),
    /// The machine is not understood.
    #[error(transparent)]
    Machine(#[from] hitm_machine::Error),
    /// The advisor has no answer.
    #[error(transparent)]
    Advise(#[from] AdviseError),
    /// A compared layout has no such structure.
    #[error("the layout {layout} has no structure {type_name}")]
    NotInLayout {
        /// The layout.
        layout: String,
        /// The structure.
        type_name: String,
    },
    /// The structure differs from that of the recorded kernel.
    #[error(
        "{}: found {type_name} with {found} bytes, expected the {recorded} bytes that it has in the \
         recorded kernel, whose types are in {}", input.display(), types.display()
    )]
    OtherSize {
        /// The structure.
        type_name: String,
        /// Source of its layout.
        input: PathBuf,
        /// Its bytes there.
        found: u64,
        /// Its bytes in the recorded kernel.
        recorded: u64,
        /// The BTF of the recorded kernel.
        types: PathBuf,
    },
    /// The language has no names for the structure's types.
    #[error(
        "{type_name} is declared in {declared}: found --emit {found}, expected --emit {expected}"
    )]
    Language {
        /// The structure.
        type_name: String,
        /// The language of its declaration.
        declared: &'static str,
        /// Requested language.
        found: &'static str,
        /// Languages that can be requested.
        expected: &'static str,
    },
    /// The members of an opened structure are declared elsewhere.
    #[error(
        "{}: members of structures inside {type_name} are declared outside of it, so there is no diff of it alone: --emit without --source prints the whole structure", path.display()
    )]
    Opened {
        /// The structure.
        type_name: String,
        /// The source file.
        path: PathBuf,
    },
    /// There is no source text for it.
    #[error(transparent)]
    Emit(#[from] EmitError),
}
