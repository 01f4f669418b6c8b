//! Many runs from one file: the plan, the name of each run, its result, and the table of all.
//!
//! - [`plan`]: TOML text to points, each a set of keys and values. `docs/formats/sweep.md` describes
//!   the file. Start there.
//! - [`name`]: the hash of everything that decides a run.
//! - [`result`]: the text of one run's result.
//! - [`table`]: all results as Parquet, one row a run and metric; [`read`] reads it back.
//!
//! Nothing here opens a file, runs anything or interprets a key: the facade does
//! ([`hitm::sweep`](../hitm/sweep/index.html)).
#![warn(clippy::disallowed_types, clippy::disallowed_methods)]

mod error;
pub mod name;
pub mod plan;
mod range;
pub mod read;
mod reader;
pub mod result;
mod sample;
pub mod table;
pub mod value;

pub use error::PlanError;
