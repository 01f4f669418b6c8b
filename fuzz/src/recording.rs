//! Recordings through the facade: loaded, named, reported, exported and replayed.

use std::path::Path;
use std::sync::LazyLock;

use hitm_base::{CpuId, Machine};
use hitm_recording::{Recording, perf_data};
use hitm_report::text::{PercentLimit, TextOptions};
use hitm_report::{
    Report, ReportOptions, SideBySide, SideOptions, SideSums, TypeReport, json, summary, text,
};
use hitm_test::{Choices, recording};
use hitm_trace::TraceReader;
use hitm_weave::Placement;
use hitm_whatif::WhatifConfig;

use crate::MemoryFile;

const OPTIONS: TextOptions = TextOptions {
    has_events: true,
    percent_limit: PercentLimit::DEFAULT,
    width: TextOptions::WIDTH_DEFAULT,
    color: false,
};

/// Builds the report and renders it: JSON parses, and both forms name the same lines.
pub fn show(recording: &Recording) {
    let options = ReportOptions {
        lines_max: ReportOptions::LINES_MAX_DEFAULT,
        rows_max: ReportOptions::ROWS_MAX_DEFAULT,
        call_paths_max: ReportOptions::CALL_PATHS_MAX_DEFAULT,
    };
    let report = Report::of_recording(recording, &options);
    assert!(report.lines.len() <= options.lines_max);
    let summary = summary::of(&report, &[], Path::new("fuzz"));
    assert!(!text::render(&report, &summary, &OPTIONS).is_empty());
    let document = json::render(&report);
    serde_json::from_str::<serde_json::Value>(&document).expect("a report is JSON");
}

/// The machine of the recordings that are made: parsing it takes as long as ten recordings.
static MACHINE: LazyLock<Machine> =
    LazyLock::new(|| Machine::from_toml(recording::MACHINE, "small").expect("it is sound"));

/// Reads a recording on that machine.
fn read(bytes: &[u8]) -> Option<Recording> {
    let mut reader = TraceReader::new(bytes).ok()?;
    Recording::read(&mut reader, MACHINE.clone(), &mut |_| {}).ok()
}

/// Reads a recording and shows it.
pub fn report(bytes: &[u8]) {
    if let Some(recording) = read(bytes) {
        show(&recording);
    }
}

/// Loads a recording from a file, as `hitm report` does, with the machine that it names.
pub fn load(bytes: &[u8]) {
    let file = MemoryFile::new(bytes);
    if let Ok(loaded) = Recording::load_contended(file.path(), &mut |_, _| {}) {
        assert_eq!(
            loaded.machine.topology.cpu_count(),
            MACHINE.topology.cpu_count()
        );
    }
}

/// Runs one of the other readers of recordings for each input.
pub fn others(choices: &mut Choices<'_>, bytes: &[u8]) {
    let file = MemoryFile::new(bytes);
    match choices.below(4) {
        0 => {
            let to = MemoryFile::new(&[]);
            let period = 1 + choices.below(3) as u64;
            let exported = perf_data::export(file.path(), to.path(), period, &mut |_, _| {});
            if let Ok(summary) = exported {
                let samples = summary.load_samples + summary.store_samples;
                assert!(samples + summary.fences <= summary.accesses);
            }
        }
        1 => {
            let tables = perf_data::tables_of_recording(file.path(), None, None, &mut |_, _| {});
            if let Ok(report) = tables {
                hitm_report::perf_c2c::text(&report);
                hitm_report::perf_c2c::json(&report);
            }
        }
        2 => {
            if let Some(recording) = read(bytes) {
                let options = SideOptions {
                    rows_max: 20,
                    functions: Vec::new(),
                };
                let mut sums = SideSums::default();
                sums.add(&recording, &options);
                SideBySide::of_sums(vec![(String::from("a"), sums)], &options);
            }
        }
        _ => {
            if let Some(recording) = read(bytes)
                && let Some(report) = TypeReport::of_recording(&recording, "root_domain")
            {
                text::of_type::render(&report, &OPTIONS);
                json::of_type::render(&report);
            }
        }
    }
}

/// Replays a recording, on another machine or with another placement: both runs have the same
/// threads.
pub fn run_again(choices: &mut Choices<'_>, machine: &Machine, bytes: &[u8]) {
    let Some(recording) = read(bytes) else {
        return;
    };
    let file = MemoryFile::new(bytes);
    let config = WhatifConfig {
        input: file.path().to_owned(),
        layouts: Vec::new(),
        instances: Vec::new(),
        machine: choices.one_in(2).then(|| machine.clone()),
        placement: choices
            .one_in(4)
            .then(|| Placement::List(vec![CpuId(choices.below(5) as u16)])),
    };
    if let Ok(report) = hitm_whatif::run_loaded(&recording, &config, &mut |_, _| {}) {
        assert!(
            report
                .threads
                .windows(2)
                .all(|two| two[0].thread < two[1].thread)
        );
    }
}
