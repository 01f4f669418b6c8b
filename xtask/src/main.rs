//! `cargo xtask lint | ci | release | deny | tidy | bench | pgo | dist | docs | determinism | swarm | accuracy | kills | fuzz |
//! slowest | tasks | layout-check`.

use std::process::ExitCode;

use anyhow::{Result, ensure};
// Benchmarks allocate as `hitm` does.
#[cfg(feature = "bench")]
use hitm_alloc as _;
use xtask::{
    bench, book, check, deny, dist, fuzz, output, pgo, run, run_with_env, slow, tasks, tidy,
};

const USAGE: &str = "\
usage: cargo xtask COMMAND

  lint           format, clippy, documentation, licences, duplicates and sources of libraries,
                 tidy
  ci             lint, advisories, the oldest compiler, all tests, lints of the fuzz targets and
                 fuzz --smoke
  release        ci on a clean checkout with a dated change log, then wheels and packages for
                 each architecture
  deny           licences, duplicates and sources of libraries, and advisories about them
  tidy           the rules that no compiler checks
  tidy --sentences
                 lengths of the documents' sentences, by page
  bench [NAME]   benchmarks whose name contains NAME; results go to docs/performance/history.jsonl
  bench --tables the tables of docs/performance.md, from that history
  pgo            target/release/hitm again, built by a profile of its own work; minutes
  dist [ARCH]    target/dist: an archive and a Debian package for x86_64 or aarch64, this host's
                 unless told; minutes
  docs           target/book: the guide as a book, by mdBook, which it installs where it is missing
  determinism    1000 small simulations and 5 of 480 CPUs, each in two processes: equal hashes
  swarm CASES    random workloads under the simulator's truth checks, shrunk on failure
  accuracy CASE...
                 cases of docs/accuracy run again in full, and their pages compared; minutes each
  kills COUNT    kills of recorders and of recorded programs, COUNT of each: what reads back afterwards
  kills COUNT --place
                 COUNT kills of `hitm place`, its guards and both: masks, cpusets and cgroups afterwards
  kills COUNT --writers
                 COUNT kills of commands that write results: the former result or the new one afterwards
  fuzz [--smoke | --executions N] [TARGET...]
                 fuzz targets, for seconds or until each has N executions at this commit; a canary
                 first, which must be found
  slowest [COUNT]
                 all Rust tests, and the seconds of the slowest ten or COUNT
  tasks          the files that a newcomer opens and edits for each of some changes, then and now
  tasks --lines REVISION
                 product lines of each crate at a revision and now
  layout-check   layouts of two kernels against pahole and a C compiler; downloads one of them
";

/// Builds this crate again with what the comparison needs, and runs it.
const LAYOUT_CHECK: [&str; 8] = [
    "run",
    "--quiet",
    "--package",
    "xtask",
    "--features",
    "layout-check",
    "--",
    "layout-check-here",
];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let result = match args.as_slice() {
        ["ci"] => check::ci(),
        ["lint"] => check::lint(),
        ["deny"] => deny::check_libraries().and_then(|()| deny::check_advisories()),
        ["tidy"] => check::check_tidy(),
        ["release"] => check::release(),
        ["tidy", "--sentences"] => tidy::sentences().map(|table| print!("{table}")),
        ["bench"] => bench::start(""),
        ["bench", "--tables"] => bench::write_tables(),
        ["bench", name] => bench::start(name),
        ["bench-here", name] => bench::run_here(name),
        ["pgo"] => pgo::build(),
        ["dist"] => dist::build(None),
        ["dist", architecture] => dist::build(Some(architecture)),
        ["docs"] => book::build(),
        ["determinism"] => determinism(),
        ["swarm", cases] => run_tests(RELEASE, ["hitm-sim", "swarm"], ["PROPTEST_CASES", cases]),
        ["accuracy", cases @ ..] if !cases.is_empty() => {
            let cases = cases.join(" ");
            run_tests(
                RELEASE,
                ["hitm-cli", "accuracy::"],
                ["HITM_ACCURACY", &cases],
            )
        }
        ["kills", count] => run_tests(&[], ["hitm-cli", "kills::"], ["HITM_KILLS", count]),
        ["kills", count, "--place"] => run_tests(
            &[],
            ["hitm-cli", "place::guarded::"],
            ["HITM_PLACE_KILLS", count],
        ),
        ["kills", count, "--writers"] => run_tests(
            &[],
            ["hitm-cli", "writers::killed::"],
            ["HITM_WRITER_KILLS", count],
        ),
        ["fuzz", rest @ ..] => fuzz::start(rest),
        ["slowest"] => slow::print_slowest(10),
        ["slowest", count] => match count.parse() {
            Ok(count) => slow::print_slowest(count),
            Err(_) => return usage(),
        },
        ["tasks"] => tasks::print_tasks(),
        ["tasks", "--lines", revision] => tasks::print_lines(revision),
        ["layout-check"] => run("cargo", &LAYOUT_CHECK),
        #[cfg(feature = "layout-check")]
        ["layout-check-here"] => xtask::layout_check::run_here(),
        _ => return usage(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

const RELEASE: &[&str] = &["--release"];

/// Runs the end-to-end tests of a package whose names contain a text, with an environment variable.
fn run_tests(
    options: &[&str],
    [package, filter]: [&str; 2],
    [name, value]: [&str; 2],
) -> Result<()> {
    let head = ["test", "--package", package, "--test", "it"];
    let args = [&head[..], options, &["--", filter, "--nocapture"]].concat();
    run_with_env("cargo", &args, &[(name, value)])
}

fn usage() -> ExitCode {
    eprint!("{USAGE}");
    ExitCode::from(2)
}

/// Runs the simulations of `examples/hashes.rs` in two processes and compares what they print.
fn determinism() -> Result<()> {
    let args = [
        "run",
        "--release",
        "--quiet",
        "--package",
        "hitm-sim",
        "--example",
        "hashes",
    ];
    let first = output("cargo", &args)?;
    let second = output("cargo", &args)?;
    for (first, second) in first.lines().zip(second.lines()) {
        ensure!(
            first == second,
            "the first process: {first}, the second: {second}"
        );
    }
    ensure!(
        first.lines().count() == second.lines().count(),
        "one process made more runs than the other"
    );
    println!(
        "{} runs, equal hashes in both processes",
        first.lines().count()
    );
    Ok(())
}
