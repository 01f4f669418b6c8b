//! The observer replaces the allocator of whatever links it, so its parts are tested without it.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

#[path = "../../src/steps.rs"]
mod steps;
