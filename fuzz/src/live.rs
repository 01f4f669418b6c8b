//! Live recordings.

use hitm_live::recording::{LiveFormatError, LiveRecording, SAMPLES_MAX};
use hitm_report::live::{self, LiveLocks};
use hitm_report::text::{PercentLimit, TextOptions};

/// A recording that parses reads back unchanged, and its locks can be shown. A mistake has a place.
pub fn check(bytes: &[u8]) {
    match LiveRecording::parse(bytes) {
        Ok(recording) => shown(&recording),
        Err(error) => {
            assert!(!matches!(&error, LiveFormatError::Number { place, .. } if place.is_empty()))
        }
    }
}

fn shown(recording: &LiveRecording) {
    let text = serde_json::to_vec(recording).expect("numbers and names");
    assert_eq!(
        LiveRecording::parse(&text).expect("it was read before"),
        *recording
    );
    assert!(recording.sample_count() <= SAMPLES_MAX);
    let locks = LiveLocks::of(recording);
    for view in &locks.locks {
        assert!((0.0..=1.0).contains(&view.lock.hold_share()));
        assert!(view.lock.needed_cpus() != Some(0));
    }
    let json: serde_json::Value = serde_json::from_str(&live::json(&locks)).expect("JSON");
    assert_eq!(
        json["locks"].as_array().map(Vec::len),
        Some(locks.locks.len())
    );
    let options = TextOptions {
        has_events: false,
        width: TextOptions::WIDTH_MIN,
        color: false,
        percent_limit: PercentLimit::NONE,
    };
    live::text(&locks, &options);
}
