//! Many runs from one file: the plan, the name of each run, its result, and the table of all.
//!
//! - [`plan`]: TOML text to points, each a set of keys and values. `docs/formats/sweep.md` describes
//!   the file. Start there.
//! - [`name`]: the hash of everything that decides a run.
//! - [`result`]: the text that one run leaves behind.
//! - [`table`]: all results as Parquet, one row a run and metric.
//!
//! Nothing here opens a file or runs anything, and nothing here knows what a key means: the facade
//! drives ([`hitm::sweep`](../hitm/sweep/index.html)).
#![warn(clippy::disallowed_types, clippy::disallowed_methods)]

mod error;
pub mod name;
pub mod plan;
mod range;
mod reader;
pub mod result;
mod sample;
pub mod table;
pub mod value;

pub use error::{PlanError, TextPlace};
