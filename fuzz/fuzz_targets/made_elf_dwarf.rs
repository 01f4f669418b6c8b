//! A program with debug information made from the bytes, and the file that it refers to.
#![no_main]

use hitm_fuzz::elf::{ask, symbolize};
use hitm_test::{Choices, elf};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let files = elf::made(&mut Choices::new(bytes));
    symbolize(&files.program);
    ask(files.program, files.other.as_deref());
});
