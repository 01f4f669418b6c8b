//! Lost cycles by stack.

use std::collections::BTreeMap;

use expect_test::expect;
use hitm_base::ThreadId;
use hitm_report::stacks::Stacks;
use serde_json::Value;

use crate::example::{Symbols, everything, example, machine};

fn stacks() -> Stacks {
    let threads: Vec<ThreadId> = (0..4).map(ThreadId).collect();
    let program = "./packed; 100000".to_owned();
    Stacks::build(&everything(), &threads, &Symbols, program, machine().clock)
}

#[test]
fn a_folded_stack_is_thread_function_member_and_cycles() {
    let folded = stacks().folded();
    let first: Vec<&str> = folded.lines().take(4).collect();
    expect![[r#"
        worker-0 (1000);account_add;account.lock 27500
        worker-0 (1000);count_in_slot;slots (heap)[].count 5400
        worker-0 (1000);count_in_slot;slots (heap)[].sum 5400
        worker-0 (1000);read_x;f.x 170000"#]]
    .assert_eq(&first.join("\n"));
}

#[test]
fn the_stacks_of_a_thread_add_up_to_its_lost_cycles() {
    let report = example();
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    for line in stacks().folded().lines() {
        let (frames, cycles) = line.rsplit_once(' ').expect("frames and a weight");
        let thread = frames.split(';').next().expect("a thread");
        *sums.entry(thread.to_owned()).or_default() += cycles.parse::<u64>().expect("a count");
    }
    for thread in &report.threads {
        let sum = sums.get(&thread.name).copied().unwrap_or(0);
        assert_eq!(sum, thread.lost_cycles, "{}", thread.name);
    }
    assert_eq!(stacks().lost_cycles(), report.totals.lost_cycles);
    assert!(report.totals.lost_cycles > 800_000);
}

fn list<'v>(value: &'v Value, key: &str) -> &'v [Value] {
    let items = value[key].as_array();
    items.unwrap_or_else(|| panic!("{key} is a list: {value}"))
}

fn index(value: &Value) -> usize {
    value.as_u64().expect("an index") as usize
}

/// The frames of a stack of a thread, the outermost first, as the format's tables link them.
fn frames(profile: &Value, thread: &Value, stack: usize) -> Vec<String> {
    let strings = match profile["shared"]["stringArray"].as_array() {
        Some(strings) => strings.as_slice(),
        None => list(thread, "stringArray"),
    };
    let (mut frames, mut next) = (Vec::new(), Some(stack));
    while let Some(stack) = next {
        let table = &thread["stackTable"];
        let frame = index(&list(table, "frame")[stack]);
        let function = index(&list(&thread["frameTable"], "func")[frame]);
        let name = index(&list(&thread["funcTable"], "name")[function]);
        frames.push(strings[name].as_str().expect("a name").to_owned());
        next = list(table, "prefix")[stack]
            .as_u64()
            .map(|prefix| prefix as usize);
    }
    frames.reverse();
    frames
}

/// Reads the profile back by the links of its tables: the same stacks with the same weights.
#[test]
fn a_firefox_profile_has_the_same_stacks() {
    let stacks = stacks();
    let profile: Value = serde_json::from_str(&stacks.firefox()).expect("JSON");
    assert!(profile["meta"]["preprocessedProfileVersion"].as_u64() > Some(40));
    let mut found = Vec::new();
    for thread in list(&profile, "threads") {
        let samples = &thread["samples"];
        assert_eq!(samples["weightType"], "samples");
        for (stack, weight) in list(samples, "stack").iter().zip(list(samples, "weight")) {
            let mut names = vec![thread["name"].as_str().expect("a name").to_owned()];
            names.extend(frames(&profile, thread, index(stack)));
            found.push(format!("{} {weight}", names.join(";")));
        }
    }
    let expected: Vec<String> = stacks.folded().lines().map(str::to_owned).collect();
    assert_eq!(found, expected);
}

#[test]
fn the_same_run_gives_the_same_bytes() {
    assert_eq!(stacks().firefox(), stacks().firefox());
}
