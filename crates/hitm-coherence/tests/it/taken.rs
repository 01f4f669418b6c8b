//! Requests that count as caused by others, where nothing is evicted.

use hitm_base::machine::{Machine, preset};
use hitm_base::{CpuId, Cycles, LineAddr};
use hitm_coherence::directory::{Ask, Capacity, Directory, Grant};

/// A reads, B writes, C reads; then A reads again. C has brought the line to a clean state, so that no
/// owner answers. Returns the answer to A's second read.
fn read_again(is_told: bool) -> Grant {
    let text = preset("broadwell-4s").unwrap();
    let machine = Machine::from_toml(text, "broadwell-4s").unwrap();
    let mut directory = Directory::new(machine, Capacity::Infinite);
    directory.tell_taken(is_told);
    let line = directory.line(LineAddr(1), CpuId(0));
    let uses = [(0, false), (1, true), (2, false), (0, false)];
    let mut last = None;
    for (now, (cpu, exclusive)) in uses.into_iter().enumerate() {
        last = directory.request(Ask {
            now: Cycles(now as u64 * 1_000_000),
            cpu: CpuId(cpu),
            line,
            exclusive,
            ticket: 0,
        });
    }
    last.expect("nobody waits")
}

#[test]
fn a_line_that_others_took_meanwhile_counts_as_taken_where_that_is_told() {
    let [told, untold] = [true, false].map(read_again);
    assert!(!told.source.is_contention(), "{told:?}");
    assert!(told.taken);
    let expected = Grant {
        taken: false,
        ..told
    };
    assert_eq!(untold, expected, "nothing else depends on it");
}
