//! Fails on purpose, on a condition on the records of a recording: only sound recordings reach it.
//! `cargo xtask fuzz` runs it first, and fails itself when it is not found.
#![no_main]

use hitm_base::AccessOp;
use hitm_test::Choices;
use hitm_test::recording::{Collect, made};
use hitm_trace::{Record, TraceReader};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let file = made(&mut Choices::new(bytes));
    let mut records = Collect::default();
    let is_whole =
        TraceReader::new(&file[..]).is_ok_and(|mut reader| reader.visit(&mut records).is_ok());
    if is_whole && records.0.windows(2).any(is_canary) {
        panic!("the canary: a long chain of calls before a locked access");
    }
});

/// A chain of a hundred calls, and right behind it a locked access.
fn is_canary(two: &[Record]) -> bool {
    let [Record::Callers(calls), Record::Access { access, .. }] = two else {
        return false;
    };
    calls.len() > 100 && access.op == AccessOp::LockedRmw
}
