//! A scenario made from the bytes, alone and against a machine, with settings.
#![no_main]

use hitm_test::{Choices, text};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let (text, settings) = text::scenario(&mut Choices::new(bytes));
    hitm_fuzz::scenario::check(&text, &settings);
});
