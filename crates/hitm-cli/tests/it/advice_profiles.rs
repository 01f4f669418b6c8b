//! `hitm layout advise` with profiles that are no recordings: samples of programs and of kernels, and
//! simulations.

use std::path::Path;

use expect_test::expect;
use hitm_perf::CpuMode;
use hitm_test::perf_data::{Layout, bits, generate, vendors};
use serde_json::Value;

use crate::{check, programs};

fn run(directory: &Path, args: &[&str]) -> String {
    let output = programs::run(directory, args);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {error}");
    String::from_utf8(output.stdout).expect("the answer is UTF-8")
}

fn advice(directory: &Path, args: &[&str]) -> Value {
    let all = [&["layout", "advise"], args, &["--format", "json"]].concat();
    serde_json::from_str(&run(directory, &all)).expect("the answer is JSON")
}

#[test]
fn samples_of_a_program_give_the_advice_of_its_recording() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let directory = directory.path();
    let source = programs::root().join("examples/flag_beside_counter.c");
    let program = programs::build(directory, "program", &source, &[]);
    programs::record(directory, &program, &["20000".to_owned()]);
    let question = ["control", "-i", "program", "-m", "broadwell-4s", "-p"];
    let recorded = advice(directory, &[&question[..], &["program.hitm"]].concat());
    let places = |answer: &Value| answer["candidates"][0]["members"].clone();
    let accesses = |answer: &Value| answer["accesses"].as_u64().expect("a count");
    assert_ne!(recorded["candidates"][0]["replay"], Value::Null);
    assert_eq!(recorded["notes"], serde_json::json!([]));

    let export = ["export", "program.hitm", "--period", "7", "--perf-data"];
    run(directory, &[&export[..], &["program.data"]].concat());
    let sampled = advice(directory, &[&question[..], &["program.data"]].concat());
    assert_eq!(places(&sampled), places(&recorded));
    assert_eq!(sampled["candidates"][0]["replay"], Value::Null);
    // Each sample stands for seven accesses of its kind, whichever of the program's they were.
    let ratio = accesses(&sampled) as f64 / accesses(&recorded) as f64;
    assert!((0.9..1.1).contains(&ratio), "{ratio}");
    let notes = sampled["notes"].to_string();
    assert!(
        notes.contains("each counted as the accesses of its period"),
        "{notes}"
    );
    assert!(notes.contains("not replayed: samples are some"), "{notes}");

    // What an import keeps has no periods.
    run(directory, &["import", "program.data", "-o", "import.hitm"]);
    let imported = advice(directory, &[&question[..], &["import.hitm"]].concat());
    assert_eq!(places(&imported), places(&recorded));
    let ratio = accesses(&sampled) as f64 / accesses(&imported) as f64;
    assert!((6.9..7.1).contains(&ratio), "{ratio}");
    let notes = imported["notes"].to_string();
    assert!(notes.contains("each counted as one access"), "{notes}");
}

/// Samples of the start of a kernel's object; the list that names it.
fn kernel_samples(directory: &Path) {
    const OBJECT: u64 = 0xffff_ffff_8200_1000;
    let mut content = vendors::content(
        "x86_64",
        "GenuineIntel,6,85,7",
        &vendors::intel(),
        bits::WEIGHT,
    );
    for (index, (_, sample)) in content.samples.iter_mut().enumerate() {
        let offset = if index % 2 == 0 { 4 } else { 40 };
        (sample.ip, sample.addr) = (0xffff_ffff_8100_0810, OBJECT + offset);
        sample.mode = CpuMode::Kernel;
        sample.time_ns = 1_000_000 * (index as u64 + 1);
    }
    content.mappings.clear();
    std::fs::write(directory.join("x.data"), generate(&content, Layout::PLAIN)).expect("a file");
    let list = "0000000000036040 A runqueues\nffffffff81000000 T _text\n\
                ffffffff81000800 t pull_rt_task\nffffffff82001000 D def_root_domain\n\
                ffffffff82003000 B _end\n";
    std::fs::write(directory.join("kallsyms"), list).expect("a file");
}

#[test]
fn samples_of_a_kernel_are_found_by_symbol_or_address() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let directory = directory.path();
    kernel_samples(directory);
    let names = directory.join("kallsyms").display().to_string();
    let by_symbol = ["--kallsyms", &names, "--at", "def_root_domain"];
    let question = [
        "root_domain",
        "-i",
        "linux-6.12",
        "-m",
        "xeon-480",
        "-p",
        "x.data",
    ];
    let named = advice(directory, &[&question[..], &by_symbol].concat());
    let by_address = ["--at", "0xffffffff82001000"];
    let placed = advice(directory, &[&question[..], &by_address].concat());
    assert_eq!(named["accesses"], placed["accesses"]);
    let members = named["original"]["per_line"][0]["members"].to_string();
    assert_eq!(members, r#"["overloaded","rto_count"]"#);
    assert_eq!(
        placed["original"]["per_line"],
        named["original"]["per_line"]
    );
    // Without names there is nothing to find, and the answer says what is missing.
    let all = [&["layout", "advise"], &question[..]].concat();
    let refused = programs::run(directory, &all);
    assert_eq!(refused.status.code(), Some(2));
    let error = String::from_utf8(refused.stderr).expect("UTF-8");
    assert!(
        error.contains("samples are of kernel memory that has no name"),
        "{error}"
    );
    assert!(error.contains("--vmlinux or --kallsyms"), "{error}");
}

/// 480 threads that sleep 10 us each time, as in the published case, for a tenth of its time.
fn scenario() -> String {
    let file = "scenarios/000-root-domain/cyclic.toml";
    programs::root().join(file).display().to_string()
}

#[test]
fn a_simulation_is_advised_and_simulated_again_with_the_advice() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let directory = directory.path();
    let scenario = scenario();
    let sim = ["sim", &scenario, "--format", "json"];
    let before = run(directory, &[&sim[..], &["--layout", "linux-6.12"]].concat());
    std::fs::write(directory.join("sim.json"), &before).expect("a temporary file");
    let question = ["layout", "advise", "root_domain", "-i", "linux-6.12"];
    let rest = ["-p", "sim.json", "-o", "advised.toml"];
    let shown = run(directory, &[&question[..], &rest].concat());
    assert!(
        shown.contains("root_domain on xeon-480 by profile 000-root-domain/cyclic"),
        "{shown}"
    );
    let after = run(
        directory,
        &[&sim[..], &["--layout", "advised.toml"]].concat(),
    );
    let operations = |text: &str| {
        let result: Value = serde_json::from_str(text).expect("the result is JSON");
        let metrics = result["variants"][0]["metrics"].as_array().cloned();
        let mut metrics = metrics.expect("metrics").into_iter();
        let found = metrics.find(|metric| metric["id"] == "cyclic.operations_per_second");
        found
            .and_then(|metric| metric["mean"].as_f64())
            .expect("a mean")
    };
    let gain = operations(&after) / operations(&before);
    assert!(gain > 1.2, "{gain}");
}

#[test]
fn a_simulation_without_the_object_is_named() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("sim.json").display().to_string();
    let scenario = scenario();
    let sim = [
        "sim",
        &scenario,
        "--quick",
        "--format",
        "json",
        "--layout",
        "linux-6.12",
    ];
    std::fs::write(&path, run(directory.path(), &sim)).expect("a temporary file");
    let asked = hitm_test::process::Command::new(env!("CARGO_BIN_EXE_hitm"))
        .args([
            "layout",
            "advise",
            "cpupri",
            "-i",
            "linux-6.12",
            "-p",
            &path,
        ])
        .output()
        .expect("hitm starts");
    let error = String::from_utf8(asked.stderr)
        .expect("UTF-8")
        .replace(&path, "sim.json");
    expect![[r#"
        hitm: error: sim.json: found no access to cpupri, expected one of root_domain
    "#]]
    .assert_eq(&error);
    check(
        &[
            "layout",
            "advise",
            "root_domain",
            "-i",
            "linux-6.12",
            "-p",
            "/dev/null",
        ],
        expect![[r#"
            exit code 2
            -- stdout
            -- stderr
            hitm: error: cannot read /dev/null: not a hitm trace: the file begins with [], expected [89 48 49 54 4d 0d 0a 1a]
        "#]],
    );
}

/// Writes a layout file with a structure of `count` members of 8 bytes, and a table of their
/// accesses. Two cores read each member, and another writes every third.
fn large_structure(directory: &Path, count: usize) {
    let mut layout = format!(
        "schema = 1\nname = 'large'\ndescription = 'made'\nsource = 'made'\n\
         [[struct]]\nname = 'large'\nsize_bytes = {}\nalign_bytes = 64\nmembers = [\n",
        count * 8
    );
    let mut profile = String::from(
        "# schema: 1\n# name: large\n# source: made\n# period_cycles: 10000000\n\
         member,function,loads,stores,cpus\n",
    );
    for member in 0..count {
        let offset = member * 8;
        layout += &format!("{{ name = 'm{member}', offset_bytes = {offset}, size_bytes = 8 }},\n");
        let (reader, other) = (member % 61, member * 7 % 61);
        let loads = 1000 + member * 37 % 5000;
        profile += &format!("m{member},f{},{loads},0,{reader}\n", member % 23);
        profile += &format!("m{member},g{},{loads},0,{other}\n", member % 19);
        if member % 3 == 0 {
            profile += &format!("m{member},h,0,{},{}\n", loads / 10, member * 11 % 61);
        }
    }
    std::fs::write(directory.join("large.toml"), layout + "]\n").expect("a file");
    std::fs::write(directory.join("large.csv"), profile).expect("a file");
}

#[test]
fn hundreds_of_members_get_the_best_that_a_limited_search_finds() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let directory = directory.path();
    large_structure(directory, 431);
    let question = [
        "large",
        "-i",
        "large.toml",
        "-p",
        "large.csv",
        "-m",
        "broadwell-4s",
    ];
    let answer = advice(directory, &question);
    let search = &answer["search"];
    let count = |value: &Value| value.as_u64().expect("a count");
    assert_eq!(count(&search["members"]), 431);
    assert!(count(&search["exact_members"]) < 431);
    assert_eq!(search["is_exact"], false);
    assert_eq!(search["is_limited"], true);
    let (steps, limit) = (count(&search["steps"]), count(&search["steps_max"]));
    assert!(steps < limit + limit / 100, "{steps} of {limit}");
    let cycles = |weighed: &Value| count(&weighed["cycles"]);
    let candidates = answer["candidates"].as_array().expect("candidates");
    let best = cycles(&candidates.first().expect("a candidate")["weighed"]);
    let now = cycles(&answer["original"]);
    assert!(best < now / 2, "{best} of {now}");

    let text = run(directory, &[&["layout", "advise"], &question[..]].concat());
    assert!(text.contains("431 members are touched: the layouts are the best found in"));
    assert!(text.contains("the best found, an estimated"), "{text}");
    assert!(
        !text.contains("none with as many hot lines is cheaper"),
        "{text}"
    );
}
