//! Layout files, rules, profiles and machine files.

use std::path::Path;
use std::sync::LazyLock;

use hitm_advise::{Simulated, profile_of_simulation};
use hitm_base::machine::{Machine, MachineFile};
use hitm_layout::layout_file::{LayoutFile, LayoutTable, shipped};
use hitm_layout::profile::Profile;
use hitm_layout::structs::{Rules, is_line_size};

/// The shipped table, which other files are laid over.
static BASE: LazyLock<LayoutTable> = LazyLock::new(|| {
    let base = shipped("linux-6.12").expect("the base is shipped");
    let base = LayoutFile::parse(base, "linux-6.12").expect("the base is sound");
    LayoutTable::new(&base).expect("the base is whole")
});

/// A layout file that parses reads back unchanged, and its members lie inside their structures.
pub fn check(text: &str) {
    let Ok(file) = LayoutFile::parse(text, "fuzz") else {
        return;
    };
    let again = LayoutFile::parse(&file.to_toml(), "written").expect("what is written parses");
    assert_eq!(file, again);
    let Ok(table) = BASE.clone().overlay(&file) else {
        return;
    };
    for own in &file.structs {
        let Some(read) = table.structs().find(|read| read.name == own.name) else {
            panic!("{} is in the table", own.name);
        };
        for member in &read.members {
            let place = table.place(&read.name, &member.name);
            // A name may hold the characters of a path; otherwise a member is found by its name.
            let is_step = !member.name.contains(['.', '[', ']']);
            let end = place.map(|place| place.offset_bytes + place.size_bytes);
            assert!(!is_step || end.is_some_and(|end| end <= read.size_bytes));
        }
    }
}

/// Every rule has a demand and a line.
pub fn check_rules(text: &str) {
    let Ok(rules) = Rules::parse(text, "fuzz") else {
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
}

/// A profile that parses reads back as written.
pub fn check_profile(text: &str) {
    let Ok(profile) = Profile::parse(text, "fuzz") else {
        return;
    };
    let again = Profile::parse(&profile.to_csv(), "written").expect("what is written parses");
    assert_eq!(profile, again);
    for (key, counts) in profile.rows() {
        assert!(!key.cpus.is_empty() && key.cpus.iter().count() == key.cpus.len());
        assert!(counts.total() >= counts.loads);
    }
}

/// A profile taken from a simulation has a period and rows.
pub fn check_simulation(text: &str) {
    let wanted = Simulated {
        path: Path::new("fuzz"),
        type_name: "root_domain",
        variant: None,
        layout: "l",
    };
    let Ok((profile, _)) = profile_of_simulation(text, &wanted) else {
        return;
    };
    assert!(profile.period.0 > 0 && profile.rows().next().is_some());
    // Names in JSON may hold characters that a table cannot: then parsing fails, or takes two names
    // for one.
    if let Ok(again) = Profile::parse(&profile.to_csv(), "written") {
        assert!(again.rows().count() <= profile.rows().count());
    }
}

/// A machine file that parses also resolves, and survives being written.
pub fn check_machine(text: &str) {
    let Ok(file) = MachineFile::parse(text, "fuzz") else {
        return;
    };
    let machine = file.resolve().expect("a file that parses resolves");
    // Two more parses cost more than all the rest: one of them for each input.
    if text.len().is_multiple_of(2) {
        let again = MachineFile::parse(&file.to_toml(), "written").expect("what is written parses");
        assert_eq!(file, again);
    } else {
        let resolved = Machine::from_toml(text, "fuzz").expect("a file that parses resolves");
        assert_eq!(machine, resolved);
    }
    for transfer in &machine.transfers[1..] {
        assert!(transfer.occupancy <= transfer.dirty);
    }
}
