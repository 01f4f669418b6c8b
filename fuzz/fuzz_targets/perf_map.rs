//! Any bytes as a map of generated code.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| hitm_fuzz::generated::check(&String::from_utf8_lossy(bytes)));
