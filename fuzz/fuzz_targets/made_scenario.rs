//! A scenario made from the bytes, alone and against a machine, with settings.
#![no_main]

use hitm_sim::scenario::workload_kinds;
use hitm_test::text::WorkloadKeys;
use hitm_test::{Choices, text};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let kinds = workload_kinds().map(|kind| WorkloadKeys {
        kind: kind.name,
        needed: kind.needed,
        optional: kind.optional,
    });
    let kinds: Vec<WorkloadKeys> = kinds.collect();
    let (text, settings) = text::scenario(&mut Choices::new(bytes), &kinds);
    hitm_fuzz::scenario::check(&text, &settings);
});
