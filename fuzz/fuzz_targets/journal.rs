//! Any bytes as the journal of a placement.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| hitm_fuzz::journal::check(bytes));
