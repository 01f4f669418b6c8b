mod samples;

use super::*;
use samples::latencies;

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
