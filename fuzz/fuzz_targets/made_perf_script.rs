//! The text of perf script made from the bytes; one in eight through the facade to a report as well.
#![no_main]

use hitm_fuzz::perf_data::{report, script};
use hitm_test::{Choices, perf_script};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut choices = Choices::new(bytes);
    let is_reported = choices.one_in(8);
    let text = perf_script::made(&mut choices);
    script(&text);
    if is_reported {
        report(&text);
    }
});
