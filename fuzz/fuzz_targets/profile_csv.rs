//! Any bytes as a profile.
#![no_main]

use hitm_layout::profile::Profile;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let Ok(profile) = Profile::parse(&text, "fuzz") else {
        return;
    };
    let again = Profile::parse(&profile.to_csv(), "written").expect("what is written parses");
    assert_eq!(profile, again);
    for (key, counts) in profile.rows() {
        assert!(!key.cpus.is_empty() && key.cpus.iter().count() == key.cpus.len());
        assert!(counts.total() >= counts.loads);
    }
});
