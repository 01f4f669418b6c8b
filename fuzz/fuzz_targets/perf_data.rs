//! Any bytes as perf.data, and what is read through everything that counts samples.
#![no_main]

use std::io::Cursor;

use hitm_perf::c2c::{C2c, Display};
use hitm_perf::import::Importer;
use hitm_perf::read::read;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut c2c = C2c::default();
    let mut importer = Importer::default();
    let mut count = 0u64;
    let mut accesses = 0u64;
    let result = read(
        Cursor::new(bytes),
        &mut |_, sample| {
            count += 1;
            c2c.add(sample);
            if let Some((access, _)) = importer.access(sample) {
                accesses += 1;
                assert_eq!(access.offset(), (sample.addr % 64) as u8);
            }
        },
        &mut |_, _| {},
    );
    assert!(accesses <= count);
    let Ok(data) = result else { return };
    assert!(data.events.iter().map(|event| event.sample_count).sum::<u64>() >= count);
    for display in [Display::TotalHitm, Display::Peer] {
        let mut again = C2c::default();
        std::mem::swap(&mut again, &mut c2c);
        let tables = again.finish(&data.world.maps, display);
        assert!(tables.all.samples <= count && tables.shared.samples <= tables.all.samples);
    }
});
