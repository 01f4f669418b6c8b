//! Latencies for tests of what is measured and of how it is shown.

use hitm_live::wakeups::Latencies;

/// Counts in slots 36 (1024 ns) and 60 (65,536 ns).
pub(crate) fn latencies(short: u32, long: u32) -> Latencies {
    let mut slots = vec![0; 160];
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
