//! `hitm whatif`: replays a recording with members moved or on another machine.
//!
//! The recording has the work of threads between their accesses. [`hitm_weave::replay`] repeats it
//! on a second weave and computes the waits anew. docs/models/whatif.md lists what that can predict
//! and what it cannot.

mod compare;
mod instances;
pub mod layout_files;
mod legacy;
mod moves;
mod second_run;
mod trial;

use std::path::{Path, PathBuf};

use compare::Compared;
use hitm_base::{Clock, Cycles, Machine, ThreadId, grouped};
use hitm_layout::layout_file::LayoutFile;
use hitm_layout::member_map::{MapError, MemberMap, Wanted};
use hitm_recording::{Recording, RecordingError};
use hitm_trace::Version;
use hitm_weave::Placement;
use hitm_weave::replay::ReplayError;
use thiserror::Error;

use crate::layout_files::LayoutReadError;
pub use instances::HeapInstances;
pub use moves::{MoveCounts, MovedObject, ObjectKind};
use second_run::{Keep, SecondRun};
pub use trial::Took;
pub use trial::trial;

/// Recording and changes.
#[derive(Debug, Clone)]
pub struct WhatifConfig {
    /// The recording.
    pub input: PathBuf,
    /// Structures in other layouts; of two with one name the first is used.
    pub layouts: Vec<LayoutFile>,
    /// Heap blocks that hold such structures.
    pub instances: Vec<HeapInstances>,
    /// Machine instead of the recording's.
    pub machine: Option<Machine>,
    /// Placement instead of the recording's.
    pub placement: Option<Placement>,
}

impl WhatifConfig {
    /// The structures that are to move, also those whose maps are known.
    fn wanted<'w>(&'w self, known: &'w [MemberMap]) -> Wanted<'w> {
        Wanted {
            layouts: &self.layouts,
            known,
        }
    }
}

/// Errors of a replay with changes.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum WhatifError {
    /// A recording without the work between accesses, with more accesses than are kept for it.
    #[error(
        "{}: found a recording of format {}.{} without the work of threads between their accesses that takes more than {max_mib} MiB, which is too large to run again; record again",
        path.display(), version.major, version.minor
    )]
    LegacyTooLarge {
        /// The file.
        path: PathBuf,
        /// Format of the file.
        version: Version,
        /// Limit on kept accesses, in MiB.
        max_mib: usize,
    },
    /// The recording cannot be read.
    #[error(transparent)]
    Recording(#[from] RecordingError),
    /// There is no such layout, or it is wrong.
    #[error(transparent)]
    Layout(#[from] LayoutReadError),
    /// The layout does not fit the program.
    #[error(transparent)]
    Map(#[from] MapError),
    /// The recording's accesses cannot be replayed.
    #[error("{}: record {record}", path.display())]
    Replay {
        /// The file.
        path: PathBuf,
        /// Records before it.
        record: u64,
        /// Error of the replay.
        source: ReplayError,
    },
    /// The placement names a CPU that the machine does not have.
    #[error(
        "the placement names CPU {cpu}, but the machine {machine} has CPUs 0 to {last}: choose another with --threads-to"
    )]
    NoSuchCpu {
        /// The CPU.
        cpu: u16,
        /// The machine's name.
        machine: String,
        /// Its highest CPU.
        last: usize,
    },
    /// The placement inside the recording is not understood.
    #[error("{}: the recording's placement is not understood: {message}", path.display())]
    Placement {
        /// The file.
        path: PathBuf,
        /// Description of the problem.
        message: String,
    },
    /// No object of the layouts' structures is in the recording.
    #[error(
        "nothing moves: no variable of type {structs}, and no array of plain values with that name, has recorded accesses, with debug information that says so. Heap blocks need --instances 'heap:FUNCTION'; shared ones come from: {known}"
    )]
    NothingMoves {
        /// The structures.
        structs: String,
        /// Allocation sites.
        known: String,
    },
    /// No object of the layouts' structures is in the recording of a kernel.
    #[error(
        "nothing moves: no walk, slab cache or variable of the kernel gives recorded accesses to an object of type {structs}; most accesses are to objects of: {known}"
    )]
    NoKernelObject {
        /// The structures.
        structs: String,
        /// Structures with recorded accesses, and how many.
        known: String,
    },
    /// The recording was made with another layout of the structure.
    #[error(
        "the objects of type {type_name} were recorded with `hitm vm run --layout` and have moved already: record without it"
    )]
    MovedBefore {
        /// The structure.
        type_name: String,
    },
    /// No heap block fits.
    #[error(
        "no shared heap block from {site:?} has a size that is a multiple of the structure's {size} bytes; shared ones come from: {known}"
    )]
    NoHeapBlock {
        /// Requested site.
        site: String,
        /// Bytes of the structure.
        size: u64,
        /// Allocation sites.
        known: String,
    },
    /// A heap block could hold any of several structures.
    #[error(
        "which structure is in the heap blocks from {site:?}? Write STRUCT=heap:{site}, with one of {known}"
    )]
    WhichStruct {
        /// The site.
        site: String,
        /// The structures.
        known: String,
    },
    /// The program has no such structure.
    #[error("no file of the recorded program has debug information of a structure {name}")]
    NoSuchType {
        /// The structure.
        name: String,
    },
    /// A structure without bytes cannot be moved.
    #[error("{type_name} has no bytes")]
    NoBytes {
        /// The structure.
        type_name: String,
    },
    /// More memory would move than a replay keeps track of.
    #[error("the moved objects take more than {max} bytes")]
    TooLarge {
        /// The limit.
        max: u64,
    },
}

/// One of the two runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// The machine's name.
    pub machine: String,
    /// One line about it.
    pub machine_description: String,
    /// Clock of its machine.
    pub clock: Clock,
    /// Placement of the threads.
    pub placement: String,
    /// The latest virtual clock.
    pub end: Cycles,
    /// Sums over all lines.
    pub totals: Sums,
}

/// Counts and cycles of a thread, a line, a member or a whole run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sums {
    /// Accesses to lines that several threads used.
    pub accesses: u64,
    /// Accesses that found the line modified in the same package.
    pub local_hitm: u64,
    /// Accesses that found the line modified in another package.
    pub remote_hitm: u64,
    /// Cycles that threads stalled.
    pub stall: Cycles,
    /// Part of `stall` that other CPUs' use of the line caused.
    pub lost: Cycles,
}

/// A quantity in both runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Change<T> {
    /// As recorded.
    pub before: T,
    /// As replayed.
    pub after: T,
}

/// A thread in both runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadChange {
    /// Its number.
    pub thread: ThreadId,
    /// Its name and tid.
    pub name: String,
    /// Instructions that it ran, in both.
    pub insns: u64,
    /// Cycles that it ran or waited for memory.
    pub cycles: Change<Cycles>,
    /// Part of `cycles` that it stalled.
    pub stall: Change<Cycles>,
    /// Part of `stall` that other CPUs' use of lines caused.
    pub lost: Change<Cycles>,
}

/// A line of one run or both: moved objects have other lines in the replay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineChange {
    /// Name of the costliest place on it.
    pub name: String,
    /// Its first byte in the recording; none for a line of a moved object.
    pub address: Option<u64>,
    /// Number of the line in its object, for a moved object's line in the replay.
    pub line_of_object: Option<u64>,
    /// Its sums.
    pub sums: Change<Sums>,
}

/// A member of a moved structure, over all its objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberChange {
    /// The structure.
    pub type_name: String,
    /// The member.
    pub member: String,
    /// Bytes from the structure's start.
    pub offset: Change<u64>,
    /// Its sums.
    pub sums: Change<Sums>,
}

/// Both runs, side by side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WhatifReport {
    /// The recorded program and its arguments.
    pub command: Vec<String>,
    /// The two runs.
    pub run: Change<Run>,
    /// Names of the layouts that were applied.
    pub layouts: Vec<String>,
    /// The threads, by number.
    pub threads: Vec<ThreadChange>,
    /// The lines at which threads lost time to each other in either run, costliest first.
    pub lines: Vec<LineChange>,
    /// The members of moved structures, in the order of the layouts.
    pub members: Vec<MemberChange>,
    /// The moved objects, most accessed first.
    pub objects: Vec<MovedObject>,
    /// Counts of moved accesses.
    pub moves: MoveCounts,
    /// Notes for the reader.
    pub notes: Vec<String>,
}

/// Reads a layout file, or a shipped one by its name.
pub fn read_layout(path: &Path) -> Result<LayoutFile, WhatifError> {
    Ok(layout_files::read(path)?.0)
}

/// Reads a layout file, and returns its text too.
pub fn read_layout_text(path: &Path) -> Result<(LayoutFile, String), WhatifError> {
    Ok(layout_files::read(path)?)
}

/// Replays a recording with the changes. `progress` gets the bytes read so far and in all; the file
/// is read twice.
///
/// ```no_run
/// use hitm_whatif::{WhatifConfig, read_layout, run};
///
/// let config = WhatifConfig {
///     input: "hitm.data".into(),
///     layouts: vec![read_layout("packed.toml".as_ref())?],
///     instances: Vec::new(),
///     machine: None,
///     placement: None,
/// };
/// let report = run(&config, &mut |_, _| ())?;
/// let [before, after] = [&report.run.before, &report.run.after].map(|run| run.totals.lost.0);
/// println!("{before} -> {after} cycles lost");
/// # Ok::<(), hitm_whatif::WhatifError>(())
/// ```
pub fn run(
    config: &WhatifConfig,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<WhatifReport, WhatifError> {
    let mut first = |read: u64, all: u64| progress(read, 2 * all);
    let mut recording = Recording::load_for_replay(&config.input, &mut first)?;
    if recording.is_cut() {
        let moves = instances::find(&recording, config.wanted(&[]), &config.instances)?;
        recording.add_rows(&config.input, moves.lines_before(), &mut first)?;
    }
    let mut half = |read: u64, all: u64| progress(all + read, 2 * all);
    run_loaded(&recording, config, &mut half)
}

/// Like [`run`], for a recording that was loaded from `config.input`; the file is read once more.
pub fn run_loaded(
    recording: &Recording,
    config: &WhatifConfig,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<WhatifReport, WhatifError> {
    let mut notes = recording.diagnostics();
    if recording.is_cut() {
        notes.push(format!(
            "{} lines lost so little that they are in the totals only",
            grouped(recording.statistics.rest.line_count)
        ));
    }
    if legacy::is_legacy(recording) {
        notes.push(legacy::NOTE.to_owned());
    }
    let Change { before, after } = both_runs(recording, config, &[], Keep::Rows, progress)?;
    notes.extend(after.notes(config));
    Ok(Compared {
        config,
        recording,
        before: &before,
        after: &after,
    }
    .report(notes))
}

/// The run as recorded, and the replay with the changes, and with structures whose maps are known.
fn both_runs<'r>(
    recording: &'r Recording,
    config: &WhatifConfig,
    known: &[MemberMap],
    keep: Keep,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Change<SecondRun<'r>>, WhatifError> {
    let moves = instances::find(recording, config.wanted(known), &config.instances)?;
    if !legacy::is_legacy(recording) {
        return Ok(Change {
            before: SecondRun::recorded(recording),
            after: SecondRun::of_file(recording, config, moves, keep, progress)?,
        });
    }
    let unchanged = WhatifConfig {
        machine: None,
        placement: None,
        ..config.clone()
    };
    let log = legacy::read(recording, &config.input)?;
    Ok(Change {
        before: SecondRun::of_log(recording, &unchanged, &log, moves::Moves::default())?,
        after: SecondRun::of_log(recording, config, &log, moves)?,
    })
}
