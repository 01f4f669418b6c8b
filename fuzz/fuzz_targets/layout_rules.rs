//! Any bytes as a file of rules for layouts.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| hitm_fuzz::layout::check_rules(&String::from_utf8_lossy(bytes)));
