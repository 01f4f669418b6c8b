//! A folder with inputs, the commands that write results of them, and what is in the results' folder.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::programs;

/// Content of a former result.
pub(super) const FORMER: &[u8] = b"the former result";

/// Commands that write into the folder `out`.
pub(super) const WRITERS: [&str; 18] = [
    "report -i x.hitm --format html -o out/page.html",
    "diff x.hitm y.hitm --format html -o out/page.html",
    "whatif -i x.hitm --threads-to compact --format html -o out/page.html",
    "export x.hitm --perf-data out/perf.data",
    "export x.hitm --perfetto out/trace",
    "export x.hitm --folded out/stacks",
    "export x.hitm --firefox out/profile.json",
    "export x.hitm --csv out/csv",
    "export x.hitm --parquet out/parquet",
    "import perf.data -o out/imported.hitm",
    "machine import lstopo.xml --like broadwell-4s -o out/machine.toml",
    "sim small.toml --format html -o out/page.html",
    "sim small.toml --perfetto out/trace",
    "sim small.toml --calls out/calls.csv",
    "layout advise foo -i x -p x.hitm --emit c -o out/own.toml",
    "layout advise root_domain -i linux-6.12 -p x.csv -m xeon-480 -o out/own.toml",
    "sweep plan.toml --jobs 2 -o out",
    "man out",
];

const SCENARIO: &str = r#"
schema = 1
name = "small"
description = "Timers and hogs on four CPUs"
source = "made up for this test"

[machine]
preset = "broadwell-4s"
cpus = 4

[[workload]]
kind = "cyclic"

[[workload]]
kind = "hogs"

[run]
duration = "20ms"
"#;

const PLAN: &str = "schema = 1\nname = \"p\"\nscenarios = \"small.toml\"\nseeds = 12\n";

/// Contents of files by their paths in `out`.
pub(super) type Results = BTreeMap<PathBuf, Vec<u8>>;

/// Files of `out` after a writer's end.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) former: usize,
    pub(super) new: usize,
    /// Files that are neither.
    pub(super) torn: usize,
    /// Files beside their names.
    pub(super) left: usize,
}

pub(super) struct Bench(TempDir);

impl Bench {
    /// Records a program and makes the inputs of all writers.
    pub(super) fn new() -> Bench {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let folder = directory.path();
        let source = programs::root().join("examples/false_sharing.c");
        for (name, count) in [("x", "3000"), ("y", "2000")] {
            let program = programs::build(folder, name, &source, &[]);
            programs::record(folder, &program, &[count.to_owned()]);
        }
        let export = ["export", "x.hitm", "--perf-data", "perf.data"];
        assert!(programs::run(folder, &export).status.success());
        for (name, text) in [("small.toml", SCENARIO), ("plan.toml", PLAN)] {
            fs::write(folder.join(name), text).expect("a file");
        }
        for (name, of) in [
            ("x.csv", "profiles/root-domain-c2c.csv"),
            (
                "lstopo.xml",
                "crates/hitm-machine/tests/fixtures/hwloc/two-packages.xml",
            ),
        ] {
            fs::copy(programs::root().join(of), folder.join(name)).expect("a file");
        }
        Bench(directory)
    }

    pub(super) fn folder(&self) -> &Path {
        self.0.path()
    }

    pub(super) fn out(&self) -> PathBuf {
        self.folder().join("out")
    }

    /// Results of a whole run. They are removed.
    pub(super) fn results_of(&self, args: &str) -> Results {
        self.remove_results();
        let output = programs::run(self.folder(), &args.split(' ').collect::<Vec<_>>());
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{args}: {said}");
        let results = files(&self.out());
        assert!(!results.is_empty(), "{args}");
        self.remove_results();
        results
    }

    fn remove_results(&self) {
        let _ = fs::remove_dir_all(self.out());
        fs::create_dir(self.out()).expect("a folder");
    }

    /// Puts a former result at each name. What a killed writer left beside stays.
    pub(super) fn place_former(&self, new: &Results) {
        for name in new.keys() {
            let path = self.out().join(name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, FORMER).expect("a file");
        }
    }

    pub(super) fn find(&self, new: &Results) -> Found {
        let mut found = Found::default();
        for (path, bytes) in files(&self.out()) {
            match new.get(&path) {
                _ if bytes == FORMER => found.former += 1,
                Some(whole) if *whole == bytes => found.new += 1,
                None if is_beside(&path) => found.left += 1,
                _ => found.torn += 1,
            }
        }
        // A file that is gone is no better than a part of one.
        found.torn += new.len() - (found.former + found.new).min(new.len());
        found
    }
}

fn is_beside(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.starts_with('.') && name.ends_with(".part")
}

/// Files below a folder. The journal of a sweep is no result: each run appends a line.
fn files(folder: &Path) -> Results {
    let mut found = Results::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).expect("a folder") {
            let path = entry.expect("it is readable").path();
            if path.is_dir() {
                folders.push(path);
            } else if !path.ends_with("runs/started")
                && let Ok(bytes) = fs::read(&path)
            {
                let name = path.strip_prefix(folder).expect("it lies below").to_owned();
                found.insert(name, bytes);
            }
        }
    }
    found
}
