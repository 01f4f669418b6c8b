//! perf.data: everything that counts samples, and the facade's path from a file to a report.

use std::io::Cursor;

use hitm_coherence::stats::CallCollector;
use hitm_perf::Sample;
use hitm_perf::c2c::published::Published;
use hitm_perf::c2c::{C2c, Display};
use hitm_perf::import::Importer;
use hitm_perf::read::{CALLERS_MAX, PerfData, read};
use hitm_recording::perf_data;

use crate::MemoryFile;

/// Reads samples, and once more with the facts from the end of the file.
pub fn check(bytes: &[u8]) {
    let mut c2c = C2c::default();
    let mut importer = Importer::default();
    let mut count = 0u64;
    let mut accesses = 0u64;
    let mut chains = 0u64;
    let mut calls = CallCollector::default();
    let result = read(
        Cursor::new(bytes),
        &mut |_, sample, callers| {
            count += 1;
            c2c.add(sample);
            assert!(callers.len() <= CALLERS_MAX);
            if let Some((access, outcome)) = importer.access(sample) {
                accesses += 1;
                assert_eq!(access.offset(), (sample.addr % 64) as u8);
                let callers = importer.callers(sample, callers);
                chains += 1;
                calls.add(&access, &outcome, callers);
            }
        },
        &mut |_, _| {},
    );
    assert!(accesses <= count);
    assert!(importer.tlb_miss_count <= importer.tlb_known_count);
    assert!(importer.tlb_known_count <= accesses);
    let calls = calls.finish();
    let counted = calls
        .rows
        .values()
        .flatten()
        .map(|(_, counts)| counts.access_count);
    assert_eq!(counted.sum::<u64>() + calls.left_out, chains);
    let Ok(data) = result else { return };
    let samples = data.events.iter().map(|event| event.sample_count);
    assert!(samples.sum::<u64>() >= count);
    let tables = c2c.finish(&data.world.maps, Display::TotalHitm);
    assert!(tables.all.samples <= count && tables.shared.samples <= tables.all.samples);
    read_again(bytes, &data, count);
}

/// Parses the text of `perf c2c report`. A mistake has a line of the text, and rows have no more than
/// their line.
pub fn published(text: &str) {
    let read = match Published::parse(text, "text") {
        Ok(read) => read,
        Err(error) => {
            assert!(error.line <= text.lines().count().max(1), "{error}");
            return;
        }
    };
    for row in read.lines.iter().flat_map(|line| line.rows.iter().map(move |row| (line, row))) {
        let (line, row) = row;
        assert!(row.place > line.place, "{row:?}");
        assert!(row.remote <= line.remote && row.local <= line.local && row.stores <= line.stores + 3);
        assert!(row.loads() >= row.remote + row.local);
        assert!(row.load_cycles() <= u128::from(row.loads()) << 51);
    }
}

/// Reads with the facts from the end of the file: the owners of numbers, and the memory of each
/// node.
fn read_again(bytes: &[u8], data: &PerfData, count: u64) {
    let mut c2c = C2c::of_memory(data.facts.memory.clone());
    let mut importer = Importer::default();
    let mut seen = 0u64;
    let mut visit = |_: usize, sample: &Sample, _: &[u64]| {
        let sample = sample.with_lives(&data.world.lives);
        c2c.add(&sample);
        importer.access(&sample);
        seen += 1;
    };
    let again = read(Cursor::new(bytes), &mut visit, &mut |_, _| {}).expect("it was read before");
    assert_eq!((seen, &again.world.lives), (count, &data.world.lives));
    let tables = c2c.finish(&data.world.maps, Display::Peer);
    assert!(tables.all.samples <= count);
    let changes = tables.lines.iter().map(|line| line.physical.change_count);
    assert!(changes.sum::<u64>() <= count);
}

/// Loads a file as `hitm report` does, and shows it.
pub fn report(bytes: &[u8]) {
    let file = MemoryFile::new(bytes);
    if perf_data::sample_format(file.path()).is_none() {
        return;
    }
    if let Ok(recording) = perf_data::load(file.path(), None, &mut |_, _| {}) {
        crate::recording::show(&recording);
    }
}

/// Shows the tables of perf c2c.
pub fn tables(bytes: &[u8]) {
    let file = MemoryFile::new(bytes);
    if let Ok(report) = perf_data::tables_of_samples(file.path(), None, None, &mut |_, _| {}) {
        hitm_report::perf_c2c::text(&report);
        hitm_report::perf_c2c::json(&report);
    }
}

/// Reads the text of perf script.
pub fn script(bytes: &[u8]) {
    let _ = hitm_perf::script::is_script(bytes);
    let mut count = 0u64;
    let result = hitm_perf::script::read(bytes, &mut |_, _, _| count += 1, &mut |_| {});
    if let Ok(data) = result {
        let samples = data.events.iter().map(|event| event.sample_count);
        assert_eq!(samples.sum::<u64>(), count);
    }
}
