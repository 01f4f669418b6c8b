//! Any bytes as an rt-app file.
#![no_main]

use hitm_sim::workload::rt_app::RtApp;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    match RtApp::parse(&text, "fuzz") {
        Ok(app) => assert!(app.tasks.iter().all(|task| task.phases.len() <= text.len())),
        Err(error) => assert!(error.line > 0 && error.column > 0),
    }
});
