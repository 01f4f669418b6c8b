//! A plan made from the bytes.
#![no_main]

use hitm_test::{Choices, text};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    hitm_fuzz::plan::check(&text::plan(&mut Choices::new(bytes)));
});
