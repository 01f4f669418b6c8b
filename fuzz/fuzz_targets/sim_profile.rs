//! Any bytes as the result of a simulation, as a profile.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| hitm_fuzz::layout::check_simulation(&String::from_utf8_lossy(bytes)));
