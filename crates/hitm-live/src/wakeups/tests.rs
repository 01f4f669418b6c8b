use hitm_bpf::SLOTS;

use super::*;

/// Counts in slots 36 (1024 ns) and 60 (65,536 ns).
fn latencies(short: u32, long: u32) -> Latencies {
    let mut slots = vec![0; SLOTS];
    slots[36] = short;
    slots[60] = long;
    Latencies {
        count: u64::from(short + long),
        sum_ns: u64::from(short) * 1100 + u64::from(long) * 70_000,
        longest_ns: match long {
            0 => 1_200,
            _ => 70_000,
        },
        slots,
    }
}

#[test]
fn percentiles_come_from_slots() {
    let all = latencies(98, 2);
    assert_eq!(quantile_ns(&all, 500), 1152);
    assert_eq!(quantile_ns(&all, 990), 70_000);
    assert_eq!(quantile_ns(&sum(std::iter::empty()), 990), 0);
    assert_eq!(
        sum([&latencies(1, 2), &latencies(3, 4)].into_iter()).count,
        10
    );
}
