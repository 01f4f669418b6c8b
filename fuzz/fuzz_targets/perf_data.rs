//! Any bytes as perf.data, and what is read through everything that counts samples.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| hitm_fuzz::perf_data::check(bytes));
