//! Any bytes as a scenario, alone and against a machine; what follows a zero byte is a setting.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let mut parts = text.split('\0');
    let text = parts.next().unwrap_or_default();
    let settings: Vec<String> = parts.map(str::to_owned).collect();
    hitm_fuzz::scenario::check(text, &settings);
});
