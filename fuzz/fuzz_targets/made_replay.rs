//! A recording made from the bytes, run again on another machine or with threads elsewhere.
#![no_main]

use std::sync::LazyLock;

use hitm_base::Machine;
use hitm_base::machine::preset;
use hitm_fuzz::recording::run_again;
use hitm_test::{Choices, recording};
use libfuzzer_sys::fuzz_target;

static MACHINE: LazyLock<Machine> = LazyLock::new(|| {
    let text = preset("icelake-2s").expect("it is a preset");
    let mut machine = Machine::from_toml(text, "icelake-2s").expect("presets are right");
    machine.core.store_buffer_entries = 3;
    machine.core.fill_buffers = 2;
    machine
});

fuzz_target!(|bytes: &[u8]| {
    let mut choices = Choices::new(bytes);
    let mut config = Choices::new(choices.bytes(3));
    let file = recording::made(&mut choices);
    run_again(&mut config, &MACHINE, &file);
});
