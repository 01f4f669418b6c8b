//! A machine file made from the bytes.
#![no_main]

use hitm_test::{Choices, text};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    hitm_fuzz::layout::check_machine(&text::machine(&mut Choices::new(bytes)));
});
