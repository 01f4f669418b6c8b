//! This host while it runs: contention for its locks, and placement of its threads.
//!
//! Reading is apart from judging: [`procfs`] asks the kernel, and the judged data can be written
//! down by a test. No model of a machine is loaded here.

pub mod cgroups;
pub mod clock;
pub mod containers;
pub mod fault_costs;
pub mod holders;
pub mod kernel;
pub mod lines;
pub mod locks;
pub mod neighbours;
pub mod options;
pub mod place;
pub mod process_load;
pub mod procfs;
pub mod recording;
pub mod rivals;
pub mod rt;
pub mod sampler;
pub mod shim;
pub mod spread;
pub mod target;
pub mod throttle;
pub mod tracepoints;
pub mod wakeups;

/// Returns success when BPF programs work here.
///
/// # Errors
/// The reason why they do not.
pub fn bpf_available() -> Result<(), String> {
    hitm_bpf::available().map_err(|unavailable| unavailable.to_string())
}

/// Samples of tests are those of other crates' tests, too: they name this crate as those do.
#[cfg(test)]
extern crate self as hitm_live;
