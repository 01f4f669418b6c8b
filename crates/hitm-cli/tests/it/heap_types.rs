//! Heap memory has the names of its types' members, and no others.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use crate::programs;

/// Records a program. Returns the cycles that were lost at each name of a member, and at addresses with no
/// type, by the function.
fn lost_by_name(source: &str) -> (BTreeMap<String, u64>, BTreeMap<String, u64>) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/heap_types");
    let stem = source.split('.').next().expect("a name");
    let program = programs::build(directory.path(), stem, &fixtures.join(source), &[]);
    let report = programs::report(&programs::record(directory.path(), &program, &[]));
    let (mut typed, mut others) = (BTreeMap::new(), BTreeMap::new());
    for line in report["lines"].as_array().expect("lines are a list") {
        let objects = line["objects"].as_array().expect("objects are a list");
        let has_type = |member: &str| {
            let mut typed = objects
                .iter()
                .filter(|object| object["origin"] != Value::Null);
            typed.any(|object| member.starts_with(object["name"].as_str().expect("a name")))
        };
        for row in line["rows"].as_array().expect("rows are a list") {
            let member = row["member"].as_str().unwrap_or_default();
            let lost = row["lost_cycles"].as_u64().expect("a count");
            match has_type(member) {
                true => *typed.entry(member.to_owned()).or_default() += lost,
                false => {
                    let function = row["function"].as_str().unwrap_or_default();
                    *others.entry(format!("{member} in {function}")).or_default() += lost;
                }
            }
        }
    }
    (typed, others)
}

/// Every name by type is one of `wanted`, or begins as one that ends in `*` does, and they have at least `percent` of the lost cycles.
fn check(source: &str, wanted: &[&str], percent: u64) {
    let (typed, others) = lost_by_name(source);
    for name in typed.keys() {
        let is_wanted = |wanted: &&str| match wanted.strip_suffix('*') {
            Some(start) => name.starts_with(start),
            None => name == wanted,
        };
        assert!(wanted.iter().any(is_wanted), "{source}: {name} is wrong");
    }
    let named: u64 = typed.values().sum();
    let all = named + others.values().sum::<u64>();
    assert!(all > 0, "{source}: nothing is lost");
    assert!(
        named * 100 >= all * percent,
        "{source}: {named} of {all} cycles are in {typed:#?}; the others are {others:#?}"
    );
}

#[test]
fn rust_arcs_and_vectors() {
    let workers = (0..4)
        .flat_map(|index| ["done", "bytes"].map(|member| format!("Worker[{index}].{member}")));
    let workers: Vec<String> = workers.collect();
    let mut wanted: Vec<&str> = workers.iter().map(String::as_str).collect();
    wanted.extend(["Metrics.hits", "Metrics.misses", "Metrics.queue.data"]);
    wanted.extend(["Metrics.queue.inner.futex", "Metrics.queue.poison.failed"]);
    wanted.extend([
        "ArcInner<heap_metrics::Metrics>.strong",
        "ArcInner<heap_metrics::Metrics>.weak",
    ]);
    // The first thread reads it at the end; counts of references of the standard library's own objects.
    wanted.extend([
        "Worker[0].spare[0]",
        "Worker[1].spare[0]",
        "Worker[2].spare[0]",
        "Worker[3].spare[0]",
    ]);
    wanted.extend(["ArcInner<*", "Packet<*", "Thread*", "Inner*"]);
    check("heap_metrics.rs", &wanted, 85);
}

#[test]
fn cpp_nodes_and_shared_pointers() {
    let nodes = ["_M_left", "_M_right", "_M_parent", "_M_color"];
    let nodes =
        nodes.map(|member| format!("_Rb_tree_node<std::pair<int const, Account> >.{member}"));
    let slots = (0..4).flat_map(|index| {
        let names = ["done", "bytes", "{done,bytes}"];
        names.map(|member| format!("Slot[{index}].{member}"))
    });
    let made: Vec<String> = nodes.into_iter().chain(slots).collect();
    let mut wanted: Vec<&str> = made.iter().map(String::as_str).collect();
    wanted.extend([
        "pair<int const, Account>.first",
        "pair<int const, Account>.second.balance",
        "pair<int const, Account>.second.transfers",
        // Where the nodes of the map are not agreed on: what the program calls an account.
        "Account.balance",
        "Account.transfers",
        "Counters.hits",
        "Counters.misses",
        "Shared.slots.*",
        "Shared.counters.*",
        "Shared.accounts.*",
        // Of std::thread.
        "thread*",
        "_State_impl<*",
        "_Sp_counted_ptr_inplace<*",
    ]);
    check("heap_nodes.cpp", &wanted, 85);
}

/// A block that threads use as two types has no name; one inside larger memory has its own. Few accesses with
/// a type do not name a chunk of bytes.
#[test]
fn what_is_not_agreed_on_has_no_name() {
    let (typed, others) = lost_by_name("heap_uses.c");
    let names: Vec<&str> = typed.keys().map(String::as_str).collect();
    assert_eq!(names, ["counted.hits", "counted.misses"], "{others:#?}");
    for block in [
        "heap block of 64 B from main",
        "heap block of 65536 B from main",
    ] {
        let mut names = others.keys();
        assert!(names.any(|name| name.starts_with(block)), "{others:#?}");
    }
}
