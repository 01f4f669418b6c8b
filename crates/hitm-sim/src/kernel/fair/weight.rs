//! Weights: `sched_prio_to_weight` in kernel/sched/core.c and `calc_delta_fair` in fair.c, v6.12.

use crate::kernel::task::Policy;

/// Weight of nice 0.
pub(crate) const NICE_0_WEIGHT: u64 = 1024;
/// Weight of `SCHED_IDLE` (`WEIGHT_IDLEPRIO`).
const IDLE_WEIGHT: u64 = 3;
/// The least weight of a group's entity (`MIN_SHARES`).
pub(crate) const MIN_SHARES: u64 = 2;

/// By nice value from -20: about 1.25 from one to the next, rounded as Linux has it.
const WEIGHTS: [u64; 40] = [
    88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916, 9548, 7620, 6100, 4904,
    3906, 3121, 2501, 1991, 1586, 1277, 1024, 820, 655, 526, 423, 335, 272, 215, 172, 137, 110, 87,
    70, 56, 45, 36, 29, 23, 18, 15,
];

/// Returns the weight of a nice value; those out of range count as the nearest.
pub fn weight_of_nice(nice: i8) -> u64 {
    WEIGHTS[(i32::from(nice).clamp(-20, 19) + 20) as usize]
}

/// Returns the weight of a task of a policy; none for tasks of other classes, which keep theirs.
pub(crate) fn weight_of_policy(policy: Policy) -> Option<u64> {
    match policy {
        Policy::Normal(nice) | Policy::Batch(nice) => Some(weight_of_nice(nice)),
        Policy::Idle => Some(IDLE_WEIGHT),
        Policy::Fifo(_) | Policy::Rr(_) | Policy::Deadline(_) | Policy::Own(_) => None,
    }
}

/// `span` of CPU time as virtual time of an entity of this weight, rounded down.
pub(crate) fn calc_delta_fair(span: u64, weight: u64) -> i64 {
    if weight == NICE_0_WEIGHT {
        return span as i64;
    }
    (u128::from(span) * u128::from(NICE_0_WEIGHT) / u128::from(weight.max(1))) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_nice_steps_are_about_a_factor_of_three() {
        assert_eq!(weight_of_nice(0), 1024);
        assert_eq!(weight_of_nice(5), 335);
        assert_eq!(weight_of_nice(-20), 88761);
        assert_eq!(weight_of_nice(100), 15);
    }

    #[test]
    fn a_policy_has_the_weight_of_its_nice_value_or_the_least() {
        assert_eq!(weight_of_policy(Policy::Batch(5)), Some(335));
        assert_eq!(weight_of_policy(Policy::Idle), Some(3));
        assert_eq!(weight_of_policy(Policy::Fifo(1)), None);
    }

    #[test]
    fn a_light_entity_ages_faster() {
        assert_eq!(calc_delta_fair(1000, 1024), 1000);
        assert_eq!(calc_delta_fair(1000, 512), 2000);
        assert_eq!(calc_delta_fair(1000, 88761), 11);
    }
}
