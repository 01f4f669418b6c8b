//! Any bytes as a machine file.
#![no_main]

use hitm_base::machine::{Machine, MachineFile};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let Ok(file) = MachineFile::parse(&text, "fuzz") else {
        return;
    };
    // What parses also resolves, and survives being written.
    let machine = file.resolve().expect("a file that parses resolves");
    let again = MachineFile::parse(&file.to_toml(), "written").expect("what is written parses");
    assert_eq!(file, again);
    let resolved = Machine::from_toml(&text, "fuzz").expect("a file that parses resolves");
    assert_eq!(machine, resolved);
    for transfer in &machine.transfers[1..] {
        assert!(transfer.occupancy <= transfer.dirty);
    }
});
