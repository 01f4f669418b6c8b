//! Any bytes as the text of perf script.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| hitm_fuzz::perf_data::script(bytes));
