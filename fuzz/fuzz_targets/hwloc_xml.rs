//! Any bytes as the XML of lstopo.
#![no_main]

use hitm_base::machine::MachineFile;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let xml = String::from_utf8_lossy(bytes);
    let Ok(imported) = hitm_machine::import_hwloc(&xml, "fuzz", None) else {
        return;
    };
    let file = imported.file;
    hitm_report::machine_file::show_text(&file).expect("an imported machine can be shown");
    let again = MachineFile::parse(&file.to_toml(), "written").expect("what is written parses");
    assert_eq!(file, again);
});
