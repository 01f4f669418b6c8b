//! This host while it runs: who fights for its locks, and where its threads may run.
//!
//! Reading is apart from judging: [`procfs`] asks the kernel, and what is judged is
//! data that a test can write down. No model of a machine is loaded here.

pub mod cgroups;
pub mod lock_waits;
pub mod locks;
pub mod place;
pub mod procfs;
pub mod recording;
pub mod rt;
pub mod sampler;
pub mod shim;
pub mod spread;
pub mod throttle;
pub mod wakeups;

/// Answers whether BPF programs work here; otherwise says what is missing.
///
/// # Errors
/// They do not: the reason.
pub fn bpf_available() -> Result<(), String> {
    hitm_bpf::available().map_err(|unavailable| unavailable.to_string())
}
