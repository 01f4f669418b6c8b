//! Programs that hitm brings into the machines it boots. Their sources are in guest/.
//!
//! They are static and share most of their C library, so together they compress to a tenth.

use std::sync::OnceLock;

// NAMES and LENGTHS, the agent first.
include!(concat!(env!("OUT_DIR"), "/programs.rs"));

/// The programs one behind the other, compressed.
const COMPRESSED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/programs.zst"));

/// A compiled program of guest/: its name, and the file's bytes.
pub type Program = (&'static str, &'static [u8]);

/// The first program of the guest: runs the workload and talks to the host.
pub fn agent() -> &'static [u8] {
    programs()[0].1
}

/// Workloads by the name under which `hitm vm` knows them.
pub fn workloads() -> &'static [Program] {
    &programs()[1..]
}

fn programs() -> &'static [Program] {
    static PROGRAMS: OnceLock<Vec<Program>> = OnceLock::new();
    static BYTES: OnceLock<Vec<u8>> = OnceLock::new();
    PROGRAMS.get_or_init(|| {
        let bytes = BYTES
            .get_or_init(|| zstd::decode_all(COMPRESSED).expect("the build script compressed it"));
        let mut rest = bytes.as_slice();
        let mut programs = Vec::new();
        for (name, length) in NAMES.into_iter().zip(LENGTHS) {
            let (program, behind) = rest.split_at(length);
            programs.push((name, program));
            rest = behind;
        }
        programs
    })
}
