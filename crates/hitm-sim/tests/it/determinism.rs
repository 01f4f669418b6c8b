//! Equal seeds give equal event streams, in other processes too. `cargo xtask determinism` does the
//! same for many more.

use hitm_test::process::Command;
use std::collections::BTreeSet;

use crate::small::small_run;

/// Enough for every kind of run under every policy on every number of CPUs.
const SEEDS: u64 = 36;

#[test]
fn hashes_of_small_runs() {
    let hashes: Vec<u64> = (0..SEEDS).map(|seed| small_run(seed).event_hash).collect();
    for (seed, hash) in hashes.iter().enumerate() {
        println!("seed {seed}: {hash:016x}");
    }
    let distinct: BTreeSet<&u64> = hashes.iter().collect();
    assert_eq!(distinct.len(), hashes.len(), "no two runs are the same");
}

#[test]
fn another_process_has_the_same_hashes() {
    let of_process = || {
        let program = std::env::current_exe().unwrap();
        let only = [
            "--exact",
            "determinism::hashes_of_small_runs",
            "--nocapture",
        ];
        let output = Command::new(program).args(only).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let hashes = text.lines().filter_map(|line| {
            let at = line.find("seed ")?;
            Some(line[at..].to_owned())
        });
        hashes.collect::<Vec<String>>()
    };
    let first = of_process();
    assert_eq!(first.len() as u64, SEEDS);
    assert_eq!(first, of_process());
}
