//! Any bytes as a layout file, alone and laid over a sound one.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| hitm_fuzz::layout::check(&String::from_utf8_lossy(bytes)));
