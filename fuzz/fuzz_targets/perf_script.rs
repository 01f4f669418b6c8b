//! Any bytes as the text of perf script.
#![no_main]

use hitm_perf::script::{is_script, read};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = is_script(bytes);
    let mut count = 0u64;
    let result = read(bytes, &mut |_, _, _| count += 1, &mut |_| {});
    if let Ok(data) = result {
        assert_eq!(data.events.iter().map(|event| event.sample_count).sum::<u64>(), count);
    }
});
