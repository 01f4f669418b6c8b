//! Scenarios, traces of requests and rt-app files.

use std::sync::LazyLock;

use hitm_base::Machine;
use hitm_base::machine::preset;
use hitm_sim::scenario::{Scenario, VARIANTS_MAX, parse_trace};
use hitm_sim::workload::rt_app::RtApp;

/// The machine that scenarios are checked against.
static MACHINE: LazyLock<Machine> = LazyLock::new(|| {
    let machine = preset("kunpeng920-96").expect("the preset is shipped");
    Machine::from_toml(machine, "preset").expect("the preset is sound")
});

/// A mistake has a place; there are no more variants and CPUs than allowed.
pub fn check(text: &str, settings: &[String]) {
    match Scenario::parse_with(text, "fuzz", settings) {
        Ok(scenario) => {
            assert!((1..=VARIANTS_MAX).contains(&scenario.variants().len()));
            if let Ok(part) = scenario.check(&MACHINE) {
                let cpus = part.topology.cpu_count();
                assert!(cpus <= scenario.machine.cpus.unwrap_or(96));
            }
        }
        Err(error) => assert!(error.place.is_some() || error.origin.starts_with("--set ")),
    }
}

/// A mistake in a trace of requests has a line, and requests are in order.
pub fn check_trace(text: &str) {
    match parse_trace(text, "fuzz") {
        Ok(requests) => assert!(requests.is_sorted_by(|a, b| a.at.0 <= b.at.0)),
        Err(error) => assert!(error.line > 0),
    }
}

/// A mistake in an rt-app file has a place.
pub fn check_rt_app(text: &str) {
    match RtApp::parse(text, "fuzz") {
        Ok(app) => assert!(app.tasks.iter().all(|task| task.phases.len() <= text.len())),
        Err(error) => assert!(error.line > 0 && error.column > 0),
    }
}
