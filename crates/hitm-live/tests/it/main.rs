//! Programs on this host, observed.

mod same_policy;
mod shim;
