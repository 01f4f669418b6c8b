//! Any bytes as a layout file, alone and laid over a sound one.
#![no_main]

use hitm_layout::layout_file::{LayoutFile, LayoutTable, shipped};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let Ok(file) = LayoutFile::parse(&text, "fuzz") else {
        return;
    };
    let again = LayoutFile::parse(&file.to_toml(), "written").expect("what is written parses");
    assert_eq!(file, again);
    let base = shipped("linux-6.12").expect("the base is shipped");
    let base = LayoutFile::parse(base, "linux-6.12").expect("the base is sound");
    let table = LayoutTable::new(&base).expect("the base is whole");
    let Ok(table) = table.overlay(&file) else {
        return;
    };
    for read in table.structs() {
        for member in &read.members {
            let place = table.place(&read.name, &member.name);
            // A name may hold the characters of a path; otherwise a member is found by its name.
            let is_step = !member.name.contains(['.', '[', ']']);
            let end = place.map(|place| place.offset_bytes + place.size_bytes);
            assert!(!is_step || end.is_some_and(|end| end <= read.size_bytes));
        }
    }
});
