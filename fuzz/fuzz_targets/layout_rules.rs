//! Any bytes as a file of rules for layouts.
#![no_main]

use hitm::layout::{Rules, is_line_size};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let Ok(rules) = Rules::parse(&text, "fuzz") else {
        return;
    };
    assert!(is_line_size(rules.line_size) && !rules.rules.is_empty());
    let lines = text.bytes().filter(|byte| *byte == b'\n').count() + 1;
    for rule in &rules.rules {
        assert!((1..=lines).contains(&rule.line));
        let asks = !rule.separate.is_empty()
            || rule.within_lines.is_some()
            || rule.size_max_bytes.is_some()
            || !rule.no_straddle.is_empty();
        assert!(asks);
    }
});
