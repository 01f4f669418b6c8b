//! Programs on this host, observed.

mod shim;
