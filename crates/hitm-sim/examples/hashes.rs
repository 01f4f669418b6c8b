//! Hashes of the event streams of many runs, one a line: what two processes must agree on.
//!
//! `cargo run --release -p hitm-sim --example hashes -- SMALL LARGE`; `cargo xtask determinism` runs
//! it twice and compares.

use hitm_base::Machine;
use hitm_base::machine::preset;

#[path = "../tests/it/small.rs"]
mod small;

/// Pools on all of a 480-CPU machine.
fn large_hash(seed: u64) -> u64 {
    let machine = Machine::from_toml(preset("xeon-480").unwrap(), "xeon-480").unwrap();
    // Seeds of one policy follow each other by threes.
    let (kernel, mut executor) = small::boot(machine, 480, seed * 3, 2.0);
    small::pools(&kernel, 4, 12);
    executor.run().unwrap();
    executor.totals().event_hash
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default: u64| {
        let argument = arguments.next();
        argument.map_or(default, |text| text.parse().expect("a number"))
    };
    let (small_count, large_count) = (number(1000), number(5));
    for seed in 0..small_count {
        println!("small {seed}: {:016x}", small::small_run(seed).event_hash);
    }
    for seed in 0..large_count {
        println!("480 CPUs {seed}: {:016x}", large_hash(seed));
    }
}
