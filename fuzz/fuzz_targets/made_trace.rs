//! A recording made from the bytes: read, reported, exported, tabulated or compared. One in 64 is loaded with
//! its machine's text, which takes longer to parse than ten recordings to read.
#![no_main]

use hitm_fuzz::recording::{load, others, report};
use hitm_fuzz::trace::check_file;
use hitm_test::{Choices, recording};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut choices = Choices::new(bytes);
    let how = choices.below(64);
    let mut later = Choices::new(choices.bytes(2));
    let file = recording::made(&mut choices);
    match how {
        0 => load(&file),
        1..=2 => others(&mut later, &file),
        3..=31 => report(&file),
        _ => check_file(&file),
    }
});
