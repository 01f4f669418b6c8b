//! Any bytes as a scenario, alone and against a machine.
#![no_main]

use hitm_base::Machine;
use hitm_base::machine::preset;
use hitm_sim::scenario::{Scenario, VARIANTS_MAX};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    match Scenario::parse(&text, "fuzz") {
        Ok(scenario) => {
            assert!((1..=VARIANTS_MAX).contains(&scenario.variants().len()));
            let machine = preset("kunpeng920-96").expect("the preset is shipped");
            let machine = Machine::from_toml(machine, "preset").expect("the preset is sound");
            if let Ok(part) = scenario.check(&machine) {
                let cpus = part.topology.cpu_count();
                assert!(cpus <= scenario.machine.cpus.unwrap_or(96));
            }
        }
        Err(error) => assert!(error.place.is_some()),
    }
});
