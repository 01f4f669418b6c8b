//! One function for each job of a user. The only crate that opens files and starts processes.

pub mod advise;
mod distribution;
pub mod doctor;
pub mod generated;
mod host_cpus;
mod input_file;
pub mod kernel;
pub mod layout;
pub mod layout_files;
pub mod limits;
pub mod live;
pub mod machine;
pub mod output_file;
pub mod pager;
pub mod perf_data;
pub mod place;
pub mod record;
pub mod recording;
pub mod runs;
pub mod sim;
pub mod streams;
pub mod sweep;
mod temporary;
mod text_file;
pub mod timeline;
pub mod vm;
pub mod whatif;

pub use text_file::{TextFileError, json_object, source_text};
