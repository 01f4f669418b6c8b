//! Programs that hitm brings into the machines it boots. Their sources are in guest/.

/// The first program of the guest: runs the workload and talks to the host.
pub const AGENT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/agent"));

/// A compiled program of guest/.
macro_rules! program {
    ($name:literal) => {
        ($name, include_bytes!(concat!(env!("OUT_DIR"), "/", $name)))
    };
}

/// Workloads by the name under which `hitm vm` knows them.
pub const WORKLOADS: [(&str, &[u8]); 6] = [
    program!("bandwidth_tree"),
    program!("fifo_pool"),
    program!("file_copy"),
    program!("fork_storm"),
    program!("futex_ping_pong"),
    program!("loads"),
];
