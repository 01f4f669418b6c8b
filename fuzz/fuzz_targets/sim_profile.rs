//! Any bytes as the result of a simulation, taken as a profile.
#![no_main]

use std::path::Path;

use hitm::advise::{Simulated, profile_of_simulation};
use hitm_layout::profile::Profile;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let wanted = Simulated {
        path: Path::new("fuzz"),
        type_name: "root_domain",
        variant: None,
        layout: "l",
    };
    let text = String::from_utf8_lossy(bytes);
    let Ok((profile, _)) = profile_of_simulation(&text, &wanted) else {
        return;
    };
    assert!(profile.period.0 > 0 && profile.rows().next().is_some());
    // Names in JSON may hold what a table cannot: then it says so, or takes two for one.
    if let Ok(again) = Profile::parse(&profile.to_csv(), "written") {
        assert!(again.rows().count() <= profile.rows().count());
    }
});
