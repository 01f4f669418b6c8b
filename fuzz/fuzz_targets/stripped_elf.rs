//! Any bytes as the function tables of a stripped program.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| hitm_fuzz::elf::stripped(bytes));
