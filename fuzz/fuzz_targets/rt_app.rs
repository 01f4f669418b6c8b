//! Any bytes as an rt-app file.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| hitm_fuzz::scenario::check_rt_app(&String::from_utf8_lossy(bytes)));
