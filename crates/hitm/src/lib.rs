//! One function for each job of a user that starts processes or looks at this host: records, boots, simulates,
//! sweeps. Crates below read what they wrote.

mod distribution;
pub mod doctor;
pub mod fix;
mod kernel_records;
pub mod live;
pub mod pager;
pub mod place;
pub mod record;
pub mod revisions;
pub mod runs;
pub mod sim;
pub mod sweep;
pub mod timeline;
pub mod vm;
