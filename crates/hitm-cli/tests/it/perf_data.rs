//! perf.data out and in: stock perf opens what hitm exports, hitm opens what perf writes, and both
//! count alike.

use hitm_test::process::Command;
use std::path::Path;
use std::process::{Output, Stdio};

use hitm_test::perf_data::{self as generator, Layout, Mapped, vendors};
use serde_json::Value;

use crate::programs;

/// Runs the perf that is installed; the test fails when there is none.
fn perf(directory: &Path, args: &[&str]) -> Output {
    let mut command = Command::new("perf");
    command
        .args(args)
        .current_dir(directory)
        .stdin(Stdio::null());
    let output = command.output().expect("perf is installed: scripts/setup");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "perf {args:?} fails: {error}");
    output
}

fn perf_c2c(directory: &Path, file: &str) -> String {
    let output = perf(directory, &["c2c", "report", "--stdio", "-i", file]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.is_empty(), "perf warns: {error}");
    String::from_utf8(output.stdout).expect("perf writes UTF-8")
}

fn hitm(directory: &Path, args: &[&str]) -> String {
    let output = programs::run(directory, args);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "hitm {args:?} fails: {error}");
    String::from_utf8(output.stdout).expect("hitm writes UTF-8")
}

/// The cells of a report, line by line. Of names only the example's own function is compared:
/// perf and hitm may choose different ones of several symbols at one address.
fn cells(report: &str) -> Vec<Vec<&str>> {
    let lines = report.lines().map(|line| {
        let cells: Vec<&str> = line.split_whitespace().collect();
        match cells.iter().position(|cell| *cell == "[.]") {
            Some(symbol) if !line.contains(" touch_own_member ") => cells[..symbol].to_vec(),
            _ => cells,
        }
    });
    // perf draws dots as wide as its names are.
    let lines = lines.filter(|cells| !cells.is_empty());
    lines.filter(|cells| !cells.contains(&".....")).collect()
}

fn record_packed(directory: &Path) {
    let source = programs::root().join("examples/false_sharing.c");
    let program = programs::build(directory, "packed", &source, &[]);
    // With callers perf's tables and texts have a line for each.
    let args = ["20000".to_owned()];
    programs::record_as(directory, &["-g", "0"], &program, &args);
}

#[test]
fn perf_c2c_shows_an_export_as_hitm_shows_the_recording() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let directory = directory.path();
    record_packed(directory);
    hitm(
        directory,
        &["export", "packed.hitm", "--perf-data", "perf.data"],
    );
    let theirs = perf_c2c(directory, "perf.data");
    let ours = hitm(directory, &["report", "-i", "packed.hitm", "--perf-c2c"]);
    let (theirs_cells, ours_cells) = (cells(&theirs), cells(&ours));
    for (theirs, ours) in theirs_cells.iter().zip(&ours_cells) {
        assert_eq!(theirs, ours, "perf on the left, hitm on the right");
    }
    assert_eq!(theirs_cells.len(), ours_cells.len());
    // What is compared is what the example is about, not two empty tables.
    let report = programs::report(&directory.join("packed.hitm"));
    let line = &report["lines"][0];
    let address = line["address"].as_str().expect("an address is text");
    let top = ours_cells.iter().find(|cells| cells.contains(&address));
    let top = top.unwrap_or_else(|| panic!("{address} is not in {ours}"));
    assert_eq!(top[0], "0", "the costliest line is perf's first");
    assert_eq!(top[6], line["local_hitm_count"].to_string());
    assert_eq!(top[7], line["remote_hitm_count"].to_string());
    assert!(line["remote_hitm_count"].as_u64() > Some(1000), "{line:#}");
}

#[test]
fn other_verbs_of_perf_open_an_export() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let directory = directory.path();
    record_packed(directory);
    let period = [
        "export",
        "packed.hitm",
        "--perf-data",
        "p.data",
        "--period",
        "100",
    ];
    hitm(directory, &period);
    let script = perf(
        directory,
        &["script", "-i", "p.data", "-F", "tid,event,addr,ip,sym"],
    );
    let script = String::from_utf8_lossy(&script.stdout).into_owned();
    let report = programs::report(&directory.join("packed.hitm"));
    let count = |key: &str| report["totals"][key].as_u64().expect("a count");
    let samples = |event: &str| script.lines().filter(|line| line.contains(event)).count() as u64;
    // One of each hundred; the last hundred is cut off, before its sample or behind it.
    let is_of = |samples: u64, count: u64| [count / 100, count.div_ceil(100)].contains(&samples);
    assert!(is_of(samples("mem-stores"), count("store_count")));
    let loads = count("load_count") + count("locked_count");
    assert!(is_of(samples("mem-loads"), loads));
    assert!(script.contains("touch_own_member"), "{script}");
    let by_memory = perf(directory, &["mem", "report", "-i", "p.data", "--stdio"]);
    assert!(String::from_utf8_lossy(&by_memory.stdout).contains("touch_own_member"));
    let by_function = perf(directory, &["report", "-i", "p.data", "--stdio"]);
    assert!(String::from_utf8_lossy(&by_function.stdout).contains("touch_own_member"));
}

/// Files of three vendors' samples, as their machines would write them.
fn vendor_files() -> [(&'static str, generator::Content); 3] {
    let weight = generator::bits::WEIGHT;
    let content = vendors::content;
    [
        (
            "intel.data",
            content("x86_64", "GenuineIntel,6,85,7", &vendors::intel(), weight),
        ),
        (
            "amd.data",
            content("x86_64", "AuthenticAMD,25,1,1", &vendors::amd(), weight),
        ),
        (
            "arm.data",
            content("aarch64", "0x00000000410fd0c0", &vendors::arm(), weight),
        ),
    ]
}

fn write(directory: &Path, name: &str, content: &generator::Content, layout: Layout) {
    let file = generator::generate(content, layout);
    std::fs::write(directory.join(name), file).expect("a temporary file");
}

/// perf knows nothing of the memory of a generated machine, and says so; and it fails when it looks
/// for source lines of a program that is not there.
fn perf_c2c_of_generated(directory: &Path, file: &str) -> String {
    let args = ["c2c", "report", "--stdio", "--no-source", "-i", file];
    String::from_utf8(perf(directory, &args).stdout).expect("perf writes UTF-8")
}

/// The cells that are not names: nothing is installed that these samples could be named by.
fn numbers(report: &str) -> Vec<Vec<String>> {
    let lines = report.lines().filter(|line| !line.starts_with('#'));
    let lines = lines.map(|line| {
        let cells = line.split_whitespace();
        let numbers = cells.take_while(|cell| *cell != "[.]");
        // perf divides by zero where there are no misses.
        numbers.map(|cell| cell.replace("-nan%", "n/a")).collect()
    });
    let lines = lines.filter(|cells: &Vec<String>| !cells.is_empty());
    lines
        .filter(|cells| !cells.contains(&".....".to_owned()))
        .collect()
}

#[test]
fn hitm_counts_other_machines_files_as_perf_does() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let directory = directory.path();
    for (name, content) in vendor_files() {
        for layout in [
            Layout::PLAIN,
            Layout {
                compressed_piece: 4000,
                ..Layout::PLAIN
            },
        ] {
            write(directory, name, &content, layout);
            let theirs = numbers(&perf_c2c_of_generated(directory, name));
            let ours = hitm(directory, &["report", "--perf-c2c", "-i", name]);
            let ours = numbers(&ours);
            for (theirs, ours) in theirs.iter().zip(&ours) {
                assert_eq!(theirs, ours, "{name}: perf on the left, hitm on the right");
            }
            assert_eq!(theirs.len(), ours.len(), "{name}");
        }
    }
}

/// The node of a line's memory and perf's count of its physical addresses, in the table of lines and in
/// that of rows.
#[test]
fn hitm_counts_physical_addresses_as_perf_does() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let directory = directory.path();
    let sample_type = generator::bits::WEIGHT | generator::bits::PHYS_ADDR;
    let mut content = vendors::content(
        "x86_64",
        "GenuineIntel,6,85,7",
        &vendors::intel(),
        sample_type,
    );
    content.memory = vec![0, 1, 1];
    // Of three lines one is in both nodes, one in one, and one is not always known.
    for (place, (_, sample)) in content.samples.iter_mut().enumerate() {
        let line = sample.ip / 16 % 3;
        sample.addr += line * 64;
        let gib = match line {
            0 => place as u64 % 3,
            1 => 1,
            _ => place as u64 % 2 * 5,
        };
        let is_known = line != 2 || place % 5 != 0;
        sample.phys_addr = if is_known { gib << 30 | 0x1040 } else { 0 };
    }
    write(directory, "physical.data", &content, Layout::PLAIN);
    let theirs = numbers(&perf_c2c_of_generated(directory, "physical.data"));
    let args = ["report", "--perf-c2c", "-i", "physical.data"];
    let ours = numbers(&hitm(directory, &args));
    assert_eq!(theirs, ours, "perf on the left, hitm on the right");
    let nodes: Vec<&str> = ours
        .iter()
        .filter(|cells| cells[0].len() == 1)
        .filter_map(|cells| cells.get(2).map(String::as_str))
        .collect();
    assert_eq!(nodes[..2], ["0", "0-1"], "{nodes:?}");
    // A stream has the description of its memory among its records.
    let pipe = Layout {
        is_pipe: true,
        ..Layout::PLAIN
    };
    write(directory, "physical.data", &content, pipe);
    assert_eq!(numbers(&hitm(directory, &args)), ours);
}

#[test]
fn samples_are_presented_as_samples() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let directory = directory.path();
    let (name, content) = &vendor_files()[0];
    write(
        directory,
        name,
        content,
        Layout {
            is_pipe: true,
            ..Layout::PLAIN
        },
    );
    let report: Value = serde_json::from_str(&hitm(
        directory,
        &["report", "-i", name, "--format", "json"],
    ))
    .expect("the report is JSON");
    assert_eq!(report["run"]["sampled"], true);
    assert_eq!(
        report["sampled_events"][0]["name"],
        "cpu/mem-loads,ldlat=30/P"
    );
    for (table, id) in [
        ("totals", "lost_cycles"),
        ("totals", "thread_cycles"),
        ("run", "seed"),
    ] {
        assert!(
            report[table].get(id).is_none(),
            "{id} is no business of samples"
        );
    }
    let line = &report["lines"][0];
    assert_eq!(line["address"], "0x7f0000001040");
    assert!(line.get("lost_cycles").is_none() && line.get("stall_cycles").is_none());
    assert_eq!(
        (&line["local_hitm_count"], &line["remote_hitm_count"]),
        (&Value::from(17), &Value::from(25))
    );
    // Three of the accesses say that they missed the TLB, none that it was hit.
    let tlb = ["tlb_known_count", "tlb_miss_count", "tlb_miss_share"];
    let tlb = tlb.map(|id| report["totals"][id].as_f64());
    assert_eq!(tlb, [Some(3.0), Some(3.0), Some(1.0)]);
    let said = report["diagnostics"].to_string();
    assert!(
        said.contains("2 samples are neither loads nor stores"),
        "{said}"
    );
    let text = hitm(directory, &["report", "-i", name, "--events"]);
    assert!(text.contains("counts below are samples"), "{text}");
    assert!(text.contains("TLB misses: 3 of 3 samples"), "{text}");
    assert!(
        !text.contains("thread cycles") && !text.contains("cycles lost"),
        "{text}"
    );
    let gate = ["report", "-i", name, "--fail-on", "cycles=1"];
    assert_eq!(programs::run(directory, &gate).status.code(), Some(2));
}

/// Returns the counts by line, by offset and by instruction. Lines that count alike may change
/// places.
fn per_line_and_offset(directory: &Path, file: &str) -> (Value, Value) {
    let args = ["report", "-i", file, "--perf-c2c", "--format", "json"];
    let mut tables: Value =
        serde_json::from_str(&hitm(directory, &args)).expect("the report is JSON");
    let report = ["report", "-i", file, "--format", "json"];
    let report: Value =
        serde_json::from_str(&hitm(directory, &report)).expect("the report is JSON");
    tables["notes"].take();
    let lines = tables["lines"].as_array_mut().expect("lines are a list");
    assert!(!lines.is_empty(), "{file} has no contended line");
    lines.sort_by_key(|line| line["address"].to_string());
    lines.iter_mut().for_each(|line| drop(line["index"].take()));
    (tables, report["totals"]["counts"].clone())
}

#[test]
fn an_export_that_is_imported_again_says_the_same() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let directory = directory.path();
    record_packed(directory);
    hitm(
        directory,
        &["export", "packed.hitm", "--perf-data", "perf.data"],
    );
    hitm(directory, &["import", "perf.data", "-o", "again.hitm"]);
    let before = per_line_and_offset(directory, "packed.hitm");
    assert_eq!(
        before,
        per_line_and_offset(directory, "perf.data"),
        "perf.data"
    );
    assert_eq!(
        before,
        per_line_and_offset(directory, "again.hitm"),
        "again.hitm"
    );
    // And what was imported is exported as it came.
    hitm(
        directory,
        &["export", "again.hitm", "--perf-data", "again.data"],
    );
    assert_eq!(
        before,
        per_line_and_offset(directory, "again.data"),
        "again.data"
    );
    perf_c2c(directory, "again.data");
}

#[test]
fn the_text_of_perf_script_is_read_as_well() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let directory = directory.path();
    record_packed(directory);
    hitm(
        directory,
        &["export", "packed.hitm", "--perf-data", "perf.data"],
    );
    let fields = "pid,tid,cpu,time,event,addr,weight,data_src,ip,sym";
    let text = perf(directory, &["script", "-i", "perf.data", "-F", fields]).stdout;
    std::fs::write(directory.join("script.txt"), text).expect("a temporary file");
    let (mut binary, binary_counts) = per_line_and_offset(directory, "perf.data");
    let (mut text, text_counts) = per_line_and_offset(directory, "script.txt");
    assert_eq!(binary_counts, text_counts);
    // The text has neither mappings nor nodes, and names of perf's choice.
    for tables in [&mut binary, &mut text] {
        tables["totals"]["no_mapping_count"].take();
        for line in tables["lines"].as_array_mut().expect("lines are a list") {
            for row in line["rows"].as_array_mut().expect("rows are a list") {
                for name in ["symbol", "object", "source", "nodes"] {
                    row[name].take();
                }
            }
        }
    }
    assert_eq!(binary, text);
    let report = hitm(directory, &["report", "-i", "script.txt"]);
    assert!(report.contains("touch_own_member"), "{report}");
}

#[test]
fn kernel_addresses_are_named_by_a_list_of_symbols() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let directory = directory.path();
    let (name, mut content) = vendor_files()[0].clone();
    for (_, sample) in &mut content.samples {
        sample.mode = hitm_perf::CpuMode::Kernel;
        sample.ip += 0xffff_ffff_8100_0000;
        sample.addr += 0xffff_8000_0000_0000;
    }
    write(directory, name, &content, Layout::PLAIN);
    let line = vendors::LINE + 0xffff_8000_0000_0000;
    let symbols = format!(
        "{line:016x} D hot_line\nffffffff81000000 T _text\nffffffff81401000 T first_function\n"
    );
    std::fs::write(directory.join("kallsyms"), symbols).expect("a temporary file");
    let args = ["report", "-i", name, "--kallsyms", "kallsyms"];
    let report = hitm(directory, &args);
    assert!(
        report.contains("hot_line") && report.contains("first_function"),
        "{report}"
    );
    let tables = hitm(directory, &[&args[..], &["--perf-c2c"]].concat());
    assert!(tables.contains("[k] first_function"), "{tables}");
    std::fs::write(directory.join("kallsyms"), "0000000000000000 T _text\n").expect("a file");
    let output = programs::run(directory, &args);
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("every address is 0"), "{error}");
}

/// Two processes map one file at different addresses: one line, where samples have physical addresses.
#[test]
fn memory_that_processes_share_is_one_line_by_its_physical_address() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let directory = directory.path();
    for (sample_type, lines) in [(generator::bits::PHYS_ADDR, 1), (0, 2)] {
        let weight = generator::bits::WEIGHT | sample_type;
        let mut content =
            vendors::content("x86_64", "GenuineIntel,6,85,7", &vendors::intel(), weight);
        const APART: u64 = 0x1000_0000;
        for (_, sample) in content
            .samples
            .iter_mut()
            .filter(|(_, sample)| sample.tid > 101)
        {
            sample.pid = 200;
            sample.addr += APART;
        }
        let (start, name) = (0x7f00_0000_0000 + APART, "/nonexistent/data");
        content
            .mappings
            .push(Mapped::new(200, start, 0x10_0000, name));
        write(directory, "shared.data", &content, Layout::PLAIN);
        hitm(directory, &["import", "shared.data", "-o", "shared.hitm"]);
        for file in ["shared.data", "shared.hitm"] {
            let report: Value = serde_json::from_str(&hitm(
                directory,
                &["report", "-i", file, "--format", "json"],
            ))
            .expect("the report is JSON");
            assert_eq!(report["totals"]["line_count"], lines, "{file}");
            let said = report["diagnostics"].to_string();
            let is_told = said.contains("1 lines are other lines' memory under another address");
            assert_eq!(is_told, lines == 1, "{said}");
        }
    }
}

#[test]
fn files_that_lie_end_with_code_2_and_the_place() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let directory = directory.path();
    let (name, content) = &vendor_files()[0];
    let mut file = generator::generate(content, Layout::PLAIN);
    file.truncate(file.len() / 2);
    std::fs::write(directory.join(name), &file).expect("a temporary file");
    for args in [
        &["report", "-i", name][..],
        &["import", name],
        &["report", "--perf-c2c", "-i", name],
    ] {
        let output = programs::run(directory, args);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(
            error.contains(name) && error.contains("the file ends at byte"),
            "{error}"
        );
    }
}

/// Samples with call chains, from the first threads and the others on two ways.
fn write_chains(directory: &Path) {
    let sample_type = generator::bits::WEIGHT | generator::bits::CALLCHAIN;
    let mut content = vendors::content(
        "x86_64",
        "GenuineIntel,6,85,7",
        &vendors::intel(),
        sample_type,
    );
    content.mappings[0].len = 0x10_0000;
    write(directory, "chains.data", &content, Layout::PLAIN);
}

/// The call paths of the first line's rows in a report.
fn call_paths(directory: &Path, file: &str) -> Vec<Value> {
    let args = ["report", "-i", file, "--format", "json"];
    let report: Value = serde_json::from_str(&hitm(directory, &args)).expect("the report is JSON");
    let rows = report["lines"][0]["rows"]
        .as_array()
        .expect("rows are a list");
    rows.iter().map(|row| row["call_paths"].clone()).collect()
}

#[test]
fn call_chains_go_from_perf_to_a_recording_and_back() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let directory = directory.path();
    write_chains(directory);
    let text = hitm(directory, &["report", "-i", "chains.data"]);
    assert!(text.contains("called by"), "{text}");
    assert!(
        text.contains("program+0x2007 < ") || text.contains(" < program+0x3007"),
        "{text}"
    );
    let paths = call_paths(directory, "chains.data");
    let path = &paths
        .iter()
        .find(|paths| paths.as_array().is_some_and(|paths| !paths.is_empty()));
    let path = &path.expect("a row has call paths")[0];
    assert_eq!(path["frames"].as_array().map(Vec::len), Some(2), "{path:#}");
    assert_eq!(path["frames"][0]["code_address"], "0x402008");
    assert!(path["access_share"].as_f64() > Some(0.0) && path["lost_share"].is_number());
    // perf's samples as a recording, and that as perf's samples again.
    hitm(directory, &["import", "chains.data", "-o", "chains.hitm"]);
    assert_eq!(call_paths(directory, "chains.hitm"), paths);
    let export = ["export", "chains.hitm", "--perf-data", "again.data"];
    hitm(directory, &export);
    assert_eq!(call_paths(directory, "again.data"), paths);
    // perf sees each sample's chain as it was in the first file; it shows places in the program's file.
    let script = |file| {
        let args = ["script", "-i", file, "-F", "tid,time,ip,sym"];
        String::from_utf8(perf(directory, &args).stdout).expect("perf writes UTF-8")
    };
    let (before, after) = (script("chains.data"), script("again.data"));
    let of_known: Vec<&str> = before
        .split("\n\n")
        .filter(|sample| after.contains(*sample))
        .collect();
    assert_eq!(
        of_known.len(),
        after.split("\n\n").count(),
        "{before}\n{after}"
    );
    assert!(
        after.contains(" 2008 ") && after.contains(" 4008 "),
        "{after}"
    );
    let graph = perf(directory, &["report", "-g", "--stdio", "-i", "again.data"]).stdout;
    assert!(
        String::from_utf8_lossy(&graph).contains("--0x40"),
        "perf shows who called"
    );
    // No chains, or none wanted.
    let none = hitm(directory, &["report", "-i", "chains.data", "-g", "0"]);
    assert!(!none.contains("program+0x2007"), "{none}");
    let (name, content) = &vendor_files()[0];
    write(directory, name, content, Layout::PLAIN);
    let output = programs::run(directory, &["report", "-i", name, "-g", "2"]);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("needs accesses with call chains"), "{error}");
}

#[test]
fn what_is_read_is_not_written_over() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let directory = directory.path();
    let (name, content) = &vendor_files()[0];
    write(directory, name, content, Layout::PLAIN);
    let before = std::fs::read(directory.join(name)).expect("the file is there");
    hitm(directory, &["import", name, "-o", "x.hitm"]);
    for (file, args) in [
        (*name, ["import", name, "-o", name]),
        ("x.hitm", ["export", "x.hitm", "--perf-data", "./x.hitm"]),
    ] {
        let output = programs::run(directory, &args);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(
            error.contains(file) && error.contains("name another file"),
            "{error}"
        );
    }
    assert_eq!(
        std::fs::read(directory.join(name)).expect("the file is there"),
        before
    );
}

/// Two processes had one number, one after the other. Each has its name, its program and its own
/// memory: in the report, in a recording and in an export of that.
#[test]
fn a_process_number_that_is_used_again_is_told_apart() {
    use generator::Happened;
    let directory = tempfile::tempdir().expect("a temporary directory");
    let directory = directory.path();
    let (_, mut content) = vendor_files()[0].clone();
    let (until, again) = (content.samples.len() as u64 * 1000, 10_000_000);
    let later = content.samples.iter().map(|(event, sample)| {
        let mut sample = *sample;
        sample.time_ns += again;
        (*event, sample)
    });
    let later = later.collect::<Vec<_>>();
    content.samples.extend(later);
    let ended = 1_000_000 + until;
    content.happened = vec![
        (ended, Happened::Ended(100, 100)),
        (again, Happened::Began(100)),
        (again, Happened::Named(100, "other")),
        (
            again,
            Happened::Mapped(Mapped::new(
                100,
                0x40_0000,
                0x1_0000,
                "/nonexistent/another",
            )),
        ),
    ];
    write(directory, "again.data", &content, Layout::PLAIN);
    hitm(directory, &["import", "again.data", "-o", "again.hitm"]);
    hitm(
        directory,
        &["export", "again.hitm", "--perf-data", "third.data"],
    );
    for file in ["again.data", "again.hitm", "third.data"] {
        let args = ["report", "-i", file, "--format", "json"];
        let report: Value =
            serde_json::from_str(&hitm(directory, &args)).expect("the report is JSON");
        // A line and threads for each of the two.
        assert_eq!(report["totals"]["line_count"], 2, "{file}");
        let threads = report["threads"].as_array().expect("threads are a list");
        let names: Vec<&str> = threads
            .iter()
            .filter_map(|thread| thread["name"].as_str())
            .collect();
        assert!(
            names.contains(&"generated:100") && names.contains(&"other:100"),
            "{file}: {names:?}"
        );
        let text = hitm(directory, &["report", "-i", file]);
        assert!(
            text.contains(" program+0x") && text.contains(" another+0x"),
            "{file}: {text}"
        );
    }
    let said = hitm(directory, &["report", "-i", "again.data"]);
    assert!(
        said.contains("1 numbers of processes and threads were given again"),
        "{said}"
    );
}
