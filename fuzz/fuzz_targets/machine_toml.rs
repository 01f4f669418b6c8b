//! Any bytes as a machine file.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| hitm_fuzz::layout::check_machine(&String::from_utf8_lossy(bytes)));
