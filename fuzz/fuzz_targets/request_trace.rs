//! Any bytes as a trace of requests.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| hitm_fuzz::scenario::check_trace(&String::from_utf8_lossy(bytes)));
