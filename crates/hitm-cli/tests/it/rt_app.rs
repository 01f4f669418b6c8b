//! `hitm sim app.json`: a file of rt-app as it is.

use std::fs;

use crate::programs;

const APP: &str = r#"{
  /* Comments and numbered keys are rt-app's own. */
  "tasks": {
    "early": { "priority": 10, "policy": "SCHED_FIFO", "loop": 50, "run": 1000,
               "timer": { "ref": "unique", "period": 10000 } },
    "late": { "loop": 20, "run": 3000, "timer": { "ref": "unique", "period": 2000 } },
    "pool": { "instance": 8, "loop": 100, "run0": 200, "sleep0": 300 }
  },
  "global": { "duration": 1 }
}"#;

#[test]
fn a_file_of_rt_app_runs_as_it_is() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    fs::write(folder.join("app.json"), APP).expect("a file");
    let sim = |args: &[&str]| programs::run(folder, &[&["sim", "app.json"], args].concat());
    let run = sim(&["--set", "machine.cpus=8"]);
    assert!(run.status.success(), "{run:?}");
    let text = String::from_utf8(run.stdout).expect("UTF-8");
    let row = |name: &str| -> Vec<String> {
        let mut rows = text.lines().map(str::split_whitespace);
        let found =
            rows.find_map(|mut row| (row.next() == Some(name)).then(|| row.collect::<Vec<_>>()));
        let found = found.unwrap_or_else(|| panic!("no {name} in {text}"));
        found.into_iter().map(str::to_owned).collect()
    };
    // Threads, run ms, timers, mean and least slack, wake-ups, mean and longest wake-up latency, migrations.
    let early = row("early");
    assert_eq!((early[0].as_str(), early[2].as_str()), ("1", "50"));
    let slack: f64 = early[3].parse().expect("a number");
    assert!((8_900.0..9_000.0).contains(&slack), "{early:?}");
    let late: f64 = row("late")[3].parse().expect("a number");
    assert!((-1_100.0..-1_000.0).contains(&late), "{text}");
    assert_eq!(row("pool")[3], "-");
    // The table comes before everything else that was measured.
    let at = |what: &str| {
        text.find(what)
            .unwrap_or_else(|| panic!("no {what} in {text}"))
    };
    assert!(
        at("slack us") < at("Metric") && at("Metric") < at("root_domain"),
        "{text}"
    );
    let again = sim(&["--set", "machine.cpus=8"]);
    assert_eq!(String::from_utf8(again.stdout).expect("UTF-8"), text);
}

#[test]
fn a_bad_file_of_rt_app_says_where() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(
        folder.path().join("app.json"),
        "{\"tasks\": {\"a\": {\"runs\": 1}}}",
    )
    .expect("a file");
    let run = programs::run(folder.path(), &["sim", "app.json"]);
    assert_eq!(run.status.code(), Some(2), "{run:?}");
    let said = String::from_utf8_lossy(&run.stderr).into_owned();
    assert!(said.contains("app.json:1:"), "{said}");
    let missing = programs::run(folder.path(), &["sim", "none.json"]);
    assert_eq!(missing.status.code(), Some(2), "{missing:?}");
}
