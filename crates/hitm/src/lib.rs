//! One function for each job of a user. The only crate that opens files and starts processes.

pub mod advise;
mod distribution;
pub mod doctor;
pub mod layout_files;
pub mod live;
pub mod pager;
pub mod place;
pub mod record;
pub mod runs;
pub mod sim;
pub mod sweep;
pub mod timeline;
pub mod types_files;
pub mod vm;
pub mod whatif;

pub use hitm_files::text_file::{TextFileError, json_object, source_text};
pub use hitm_files::{limits, output_file, streams};
pub use hitm_machine as machine;
pub use hitm_recording::{generated, perf_data, recording};
