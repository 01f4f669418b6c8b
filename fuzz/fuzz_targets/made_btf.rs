//! BTF made from the bytes: alone, or as a module and its base.
#![no_main]

use hitm_fuzz::btf::check;
use hitm_test::{Choices, btf};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut choices = Choices::new(bytes);
    if !choices.one_in(4) {
        check(btf::made(&mut choices), None);
        return;
    }
    let (base, module) = btf::made_split(&mut choices);
    if let Some(base) = check(base, None) {
        check(module, Some(&base));
    }
});
