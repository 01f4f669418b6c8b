//! perf.data made from the bytes, through everything that counts samples; one in 32 through the
//! facade to a report as well, which takes longer than twenty of the others.
#![no_main]

use hitm_fuzz::perf_data::{check, report, tables};
use hitm_test::{Choices, perf_data};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut choices = Choices::new(bytes);
    let how = choices.below(32);
    let file = perf_data::made(&mut choices);
    match how {
        0 => report(&file),
        1..=4 => tables(&file),
        _ => check(&file),
    }
});
