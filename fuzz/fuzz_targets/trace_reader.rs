//! Any bytes through everything that reads a trace.
#![no_main]

use hitm_fuzz::trace::{check_block, check_file};
use hitm_test::recording::repair_checksums;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    check_block(bytes);
    check_file(bytes);
    let mut repaired = bytes.to_vec();
    repair_checksums(&mut repaired);
    check_file(&repaired);
});
