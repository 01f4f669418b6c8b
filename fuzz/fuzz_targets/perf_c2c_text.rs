//! Any bytes as the text of perf c2c report.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| hitm_fuzz::perf_data::published(&String::from_utf8_lossy(bytes)));
