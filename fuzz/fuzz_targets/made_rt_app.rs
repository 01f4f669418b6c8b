//! An rt-app file made from the bytes.
#![no_main]

use hitm_test::{Choices, text};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    hitm_fuzz::scenario::check_rt_app(&text::rt_app(&mut Choices::new(bytes)));
});
