//! Memory of a Java machine, some of whose bytes are the input's.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| hitm_fuzz::hotspot::damaged(bytes));
