//! A layout file, rules, a profile or the result of a simulation made from the bytes.
#![no_main]

use hitm_fuzz::layout::{check, check_profile, check_rules, check_simulation};
use hitm_test::{Choices, text};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut choices = Choices::new(bytes);
    match choices.below(8) {
        0 => check_rules(&text::rules(&mut choices)),
        1 => check_profile(&text::profile(&mut choices)),
        2 => check_simulation(&text::simulation(&mut choices, "root_domain")),
        _ => check(&text::layout(&mut choices)),
    }
});
