//! Any bytes as a scenario, alone and against a machine; what follows a zero byte is a setting.
#![no_main]

use hitm_base::Machine;
use hitm_base::machine::preset;
use hitm_sim::scenario::{Scenario, VARIANTS_MAX};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let mut parts = text.split('\0');
    let text = parts.next().unwrap_or_default();
    let settings: Vec<String> = parts.map(str::to_owned).collect();
    match Scenario::parse_with(text, "fuzz", &settings) {
        Ok(scenario) => {
            assert!((1..=VARIANTS_MAX).contains(&scenario.variants().len()));
            let machine = preset("kunpeng920-96").expect("the preset is shipped");
            let machine = Machine::from_toml(machine, "preset").expect("the preset is sound");
            if let Ok(part) = scenario.check(&machine) {
                let cpus = part.topology.cpu_count();
                assert!(cpus <= scenario.machine.cpus.unwrap_or(96));
            }
        }
        Err(error) => assert!(error.place.is_some() || error.origin.starts_with("--set ")),
    }
});
