//! A recording made from the bytes. One in eight is reported, and one exported, tabulated or compared:
//! both parse the machine model, which costs ten times as much as all else.
#![no_main]

use hitm_fuzz::recording::{others, report};
use hitm_fuzz::trace::check_file;
use hitm_test::{Choices, recording};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut choices = Choices::new(bytes);
    let how = choices.below(8);
    let mut later = Choices::new(choices.bytes(2));
    let file = recording::made(&mut choices);
    match how {
        0 => report(&file),
        1 => others(&mut later, &file),
        _ => check_file(&file),
    }
});
