//! From the statistics of a run to what a person or a program reads.
//!
//! [`Report::build`] joins [`Statistics`](hitm_coherence::stats::Statistics), a [`Names`] and
//! [`RunFacts`] into a [`Report`]: plain structs, ordered by cycles lost, bounded in size. [`text::render`]
//! and [`json::render`] show it; both take every quantity from the tables in [`fields`], so that a
//! figure has one name, one unit and one meaning wherever it appears. [`gate`] turns a report into
//! the answer to `--fail-on`.
//!
//! ```no_run
//! use hitm_recording::Recording;
//! use hitm_report::{Report, ReportOptions, json};
//!
//! let recording = Recording::load_contended("hitm.data".as_ref(), &mut |_, _| ())?;
//! let options = ReportOptions {
//!     lines_max: 8,
//!     rows_max: 24,
//!     call_paths_max: ReportOptions::CALL_PATHS_MAX_DEFAULT,
//! };
//! let report = Report::of_recording(&recording, &options);
//! println!("{} of {} cycles are lost", report.totals.lost_cycles, report.totals.thread_cycles);
//! std::fs::write("report.json", json::render(&report))?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Nothing here opens a file, looks up a symbol or asks a terminal for its width. Names, widths and
//! colours come from the caller, and the same input gives the same bytes.
#![warn(clippy::disallowed_types, clippy::disallowed_methods)]

mod advice;
mod allocators;
pub mod baseline;
mod build;
pub mod by;
mod caches;
pub mod calls;
pub mod ci;
pub mod compare;
pub mod doctor;
pub mod explain;
pub mod fields;
pub mod fix;
pub mod gate;
pub mod glossary;
mod handed;
pub mod json;
pub mod layout_advice;
pub mod layouts;
pub mod live;
mod machine;
pub mod machine_file;
pub mod markdown;
pub mod messages;
mod model;
mod names;
mod object;
mod of_type;
pub mod page;
pub mod pairs;
pub mod perf_c2c;
pub mod pictures;
pub mod place;
mod printout;
mod recording;
pub mod review;
pub mod runs;
pub mod schema;
pub mod screen;
mod sentences;
mod side_by_side;
pub mod sim;
mod skip;
pub mod stacks;
pub mod summary;
pub mod sweep;
pub mod tables;
pub mod text;
mod waiting;
pub mod whatif;

pub use build::{
    RUN_SHARE_MIN, ReportOptions, RunFacts, SampledFacts, SourceLine, ThreadFacts, WORTH_SHARE_MIN,
};
pub use by::{By, Filters, Pattern, Selection, SortKey};
pub use caches::caches_text;
pub use handed::{HANDED_ROWS_MAX, HandedOver, HandedRow};
pub use machine::{MachineSummary, UNNAMED_MAX, Unnamed};
pub use model::{
    AccessCounts, CallFrame, CallPath, CostBounds, FightReport, Finding, FindingKind, FindingPlace,
    LineReport, ObjectUse, ProcessSummary, Quiet, Report, RowReport, RunHeader, SCHEMA,
    SampledEvent, ThreadSummary, Totals, Watched, Who,
};
pub use names::Names;
pub use of_type::{TYPE_SCHEMA, TypeLine, TypeReport, TypeRow};
pub use printout::{Color, Printout};
pub use side_by_side::{SIDE_BY_SIDE_SCHEMA, SideBySide, SideOptions, SideRow, SideSums};
pub use skip::{Glob, SkippedFunctions};
pub use waiting::{WAITING_ROWS_MAX, WaitRow, Waiting};
