//! A recording made from the bytes, replayed on another machine or with another placement.
#![no_main]

use std::sync::LazyLock;

use hitm_base::Machine;
use hitm_fuzz::recording::run_again;
use hitm_test::{Choices, recording};
use libfuzzer_sys::fuzz_target;

static MACHINE: LazyLock<Machine> = LazyLock::new(|| {
    let mut machine = Machine::from_toml(recording::MACHINE, "small").expect("it is sound");
    machine.core.store_buffer_entries = 3;
    machine.core.fill_buffers = 1;
    machine
});

fuzz_target!(|bytes: &[u8]| {
    let mut choices = Choices::new(bytes);
    let mut config = Choices::new(choices.bytes(3));
    let file = recording::made(&mut choices);
    run_again(&mut config, &MACHINE, &file);
});
