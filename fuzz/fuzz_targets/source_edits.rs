//! Any bytes as a source file that is edited.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| hitm_fuzz::source::check(&String::from_utf8_lossy(bytes)));
