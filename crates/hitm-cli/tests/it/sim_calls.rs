//! Memory that a call of the simulated scheduler touches, beside that of the real one: the table in
//! docs/accuracy/calls.md.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use crate::programs::{root, run};

/// From a recording; the README beside it has the command.
const KERNEL: &str = include_str!("../fixtures/calls/linux-6.12.95.csv");

/// By function and member: calls of the function, and its loads, stores and locked operations there.
type Table = BTreeMap<(String, String), (u64, [u64; 3])>;

/// The rows about root_domain. `rename` gives functions and members the names to compare them by.
fn table(csv: &str, rename: &dyn Fn(&str, &str) -> (String, String)) -> Table {
    let mut rows = Table::new();
    let mut calls: BTreeMap<String, BTreeSet<(String, u64)>> = BTreeMap::new();
    for line in csv.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let Some(member) = fields[2].strip_prefix("root_domain.") else {
            continue;
        };
        let number = |at: usize| fields[at].parse::<u64>().expect("counts are whole numbers");
        let key = rename(fields[0], member);
        // Two functions may go by one name: calls of both count.
        let callers = calls.entry(key.0.clone()).or_default();
        callers.insert((fields[0].to_owned(), number(1)));
        let row = rows.entry(key).or_default();
        for (sum, at) in row.1.iter_mut().zip(3..) {
            *sum += number(at);
        }
    }
    for ((function, _), row) in &mut rows {
        row.0 = calls[function].iter().map(|(_, count)| count).sum();
    }
    rows
}

/// The compiler puts dequeue_pushable_task into its callers, and counters are structures.
fn as_simulated(function: &str, member: &str) -> (String, String) {
    let is_of_pushable = member.starts_with("rto_count") || member.starts_with("rto_mask");
    let function = match function {
        "set_next_task_rt" | "dequeue_task_rt" if is_of_pushable => "dequeue_pushable_task",
        _ => function,
    };
    let member = match member {
        "cpupri.pri_to_cpu.mask[] (bytes)" => "cpupri.pri_to_cpu[].mask->".to_owned(),
        _ => member.replace(".counter", "").replace(" (bytes)", "->"),
    };
    (function.to_owned(), member)
}

fn cell(row: Option<&(u64, [u64; 3])>) -> String {
    row.map_or_else(
        || "-".to_owned(),
        |(calls, counts)| {
            let each = counts.map(|count| format!("{:.2}", count as f64 / *calls as f64));
            each.join(" / ")
        },
    )
}

#[test]
fn calls_touch_what_calls_of_the_kernel_touch() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let scenario = root().join("scenarios/kernel-check/fifo-pool.toml");
    let scenario = scenario.to_str().expect("the path is UTF-8");
    let output = run(directory.path(), &["sim", scenario, "--calls", "calls.csv"]);
    assert!(output.status.success());
    let csv = std::fs::read_to_string(directory.path().join("calls.csv")).expect("it is written");
    let same = |function: &str, member: &str| (function.to_owned(), member.to_owned());
    let (kernel, simulated) = (table(KERNEL, &as_simulated), table(&csv, &same));

    let keys: BTreeSet<_> = kernel.keys().chain(simulated.keys()).collect();
    let mut text =
        String::from("| function | member | Linux 6.12.95 | simulated |\n|---|---|---|---|\n");
    for key in keys {
        let (function, member) = key;
        let cells = [&kernel, &simulated].map(|table| cell(table.get(key)));
        let _ = writeln!(
            text,
            "| `{function}` | `{member}` | {} | {} |",
            cells[0], cells[1]
        );
    }
    let page =
        std::fs::read_to_string(root().join("docs/accuracy/calls.md")).expect("the page is there");
    assert!(
        page.contains(&text),
        "docs/accuracy/calls.md has not this table:\n{text}"
    );

    // What does not depend on the load is the same at each call.
    for (function, member) in [
        ("cpupri_set", "cpupri.pri_to_cpu[].count"),
        ("cpupri_set", "cpupri.pri_to_cpu[].mask"),
        ("cpupri_set", "cpupri.pri_to_cpu[].mask->"),
        ("pull_rt_task", "rto_count"),
    ] {
        let key = (function.to_owned(), member.to_owned());
        let each = [&kernel, &simulated].map(|table| {
            let (calls, counts) = table[&key];
            counts.map(|count| count as f64 / calls as f64)
        });
        let is_same = each[0]
            .iter()
            .zip(&each[1])
            .all(|(a, b)| (a - b).abs() < 0.01);
        assert!(is_same, "{key:?}: {each:?}");
    }
}
