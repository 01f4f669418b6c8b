//! Programs that hitm brings into the machines it boots. Their sources are in guest/.

/// The first program of the guest: runs the workload and talks to the host.
pub const AGENT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/agent"));

/// Workloads by the name under which `hitm vm` knows them.
pub const WORKLOADS: [(&str, &[u8]); 1] = [(
    "fifo_pool",
    include_bytes!(concat!(env!("OUT_DIR"), "/fifo_pool")),
)];
