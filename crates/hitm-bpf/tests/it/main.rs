//! The programs on the running kernel. Where none can be loaded, tests say NOT RUN.

mod arrivals;
mod futex;
mod holders;
mod locks;
mod neighbours;
mod peek;
mod wakeups;

/// Runs `test` where BPF programs work; names the reason elsewhere.
fn with_bpf(name: &str, test: impl FnOnce()) {
    match hitm_bpf::available() {
        Ok(()) => test(),
        Err(reason) => eprintln!("{name}: NOT RUN: {reason}"),
    }
}
