//! Any bytes as a plan, and as the result of a run.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    hitm_fuzz::plan::check(&text);
    hitm_fuzz::plan::check_result(&text);
});
