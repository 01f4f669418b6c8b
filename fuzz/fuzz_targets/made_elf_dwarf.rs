//! A program with debug information made from the bytes, and the file that it refers to.
#![no_main]

use hitm_fuzz::elf::{ask, symbolize};
use hitm_test::{Choices, elf};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut choices = Choices::new(bytes);
    let is_process = choices.one_in(4);
    let files = elf::made(&mut choices);
    match is_process {
        true => symbolize(&files.program),
        false => ask(files.program, files.other.as_deref()),
    }
});
