//! One function for each job of a user. The only crate that opens files and starts processes.

mod distribution;
pub mod doctor;
pub mod live;
pub mod pager;
pub mod place;
pub mod record;
pub mod runs;
pub mod sim;
pub mod sweep;
pub mod timeline;
pub mod vm;

pub use hitm_advise::{self as advise, types_files};
pub use hitm_files::text_file::{TextFileError, json_object, source_text};
pub use hitm_files::{limits, output_file, streams};
pub use hitm_machine as machine;
pub use hitm_recording::{generated, perf_data, recording};
pub use hitm_whatif::{self as whatif, layout_files};
