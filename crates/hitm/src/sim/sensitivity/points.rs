//! Points in the ranges of a scenario's numbers.

use std::mem::discriminant;

use hitm_base::machine::{Item, Quantity};
use hitm_sim::engine::Random;

use super::numbers::{Number, Place};

/// Numbers that differ from the scenario's, by index.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Point(Vec<(usize, Quantity)>);

impl Point {
    /// The point with these values, each with the index of its number.
    pub(crate) fn of(values: Vec<(usize, Quantity)>) -> Point {
        Point(values)
    }

    /// Settings of the scenario for this point.
    pub(crate) fn settings(&self, numbers: &[Number]) -> Vec<String> {
        let of_scenario = self.0.iter().filter_map(|(index, value)| {
            let number = &numbers[*index];
            let value = whole_nanos(*value);
            (number.place == Place::Scenario).then(|| format!("{}={value}", number.key))
        });
        of_scenario.collect()
    }

    /// Numbers of the machine file for this point.
    pub(crate) fn machine_numbers(&self, numbers: &[Number]) -> Vec<(Item, Quantity)> {
        let of_machine = self.0.iter().filter_map(|(index, value)| {
            let Place::Machine(item) = numbers[*index].place else {
                return None;
            };
            Some((item, *value))
        });
        of_machine.collect()
    }
}

/// A time as a scenario may state it.
fn whole_nanos(value: Quantity) -> Quantity {
    match value {
        Quantity::Picos(picos) => Quantity::Picos((picos + 500) / 1_000 * 1_000),
        other => other,
    }
}

/// Puts each number at the low end of its range, then at the high one.
pub(super) fn one_at_a_time(numbers: &[Number]) -> Vec<Point> {
    let ends = |(index, number): (usize, &Number)| {
        [number.low, number.high].map(|end| Point(vec![(index, end)]))
    };
    numbers.iter().enumerate().flat_map(ends).collect()
}

/// Returns `count` points at which each number falls once into each of `count` equal parts of its
/// range. Times, counts and frequencies are divided by their logarithms, shares and factors
/// linearly.
pub(super) fn latin_hypercube(numbers: &[Number], count: usize, seed: u64) -> Vec<Point> {
    let mut random = Random::stream(seed, "latin hypercube");
    let mut points = vec![Point::default(); count];
    for (index, number) in numbers.iter().enumerate() {
        let mut parts: Vec<usize> = (0..count).collect();
        for last in (1..count).rev() {
            parts.swap(last, random.below(last as u64 + 1) as usize);
        }
        for (point, part) in points.iter_mut().zip(parts) {
            let share = (part as f64 + share(&mut random)) / count as f64;
            point.0.push((index, value_at(number, share)));
        }
    }
    points
}

/// Uniform in 0 up to, not including, 1.
fn share(random: &mut Random) -> f64 {
    (random.next() >> 11) as f64 / (1u64 << 53) as f64
}

/// Value at a share of a number's range.
pub(crate) fn value_at(number: &Number, share: f64) -> Quantity {
    let (low, high) = (number.low.raw() as f64, number.high.raw() as f64);
    let is_scale = !matches!(number.value, Quantity::Milli(_)) && low > 0.0;
    let raw = if is_scale {
        low * (high / low).powf(share)
    } else {
        low + (high - low) * share
    };
    let raw = (raw.round() as u64).clamp(number.low.raw(), number.high.raw());
    debug_assert_eq!(discriminant(&number.low), discriminant(&number.value));
    match number.value {
        Quantity::Picos(_) => Quantity::Picos(raw),
        Quantity::Cycles(_) => Quantity::Cycles(raw),
        Quantity::Kilohertz(_) => Quantity::Kilohertz(raw),
        Quantity::Bytes(_) => Quantity::Bytes(raw),
        Quantity::Count(_, word) => Quantity::Count(raw, word),
        Quantity::Milli(_) => Quantity::Milli(raw),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(low: Quantity, high: Quantity) -> Number {
        Number {
            key: "kernel.costs.x".into(),
            value: low,
            low,
            high,
            place: Place::Scenario,
        }
    }

    fn numbers() -> Vec<Number> {
        vec![
            number(Quantity::Picos(1_000), Quantity::Picos(256_000)),
            number(Quantity::Milli(0), Quantity::Milli(8_000)),
            number(Quantity::Count(1, "uses"), Quantity::Count(8, "uses")),
        ]
    }

    #[test]
    fn each_part_of_each_range_has_one_point() {
        let numbers = numbers();
        let points = latin_hypercube(&numbers, 8, 7);
        for (index, number) in numbers.iter().enumerate().take(2) {
            let mut parts: Vec<usize> = Vec::new();
            for point in &points {
                let (of, value) = point.0[index];
                assert_eq!(of, index);
                let raw = value.raw() as f64;
                let share = match index {
                    0 => (raw / number.low.raw() as f64).log2() / 8.0,
                    _ => raw / 8_000.0,
                };
                parts.push(((share * 8.0) as usize).min(7));
            }
            parts.sort_unstable();
            assert_eq!(parts, [0, 1, 2, 3, 4, 5, 6, 7], "number {index}");
        }
        assert_eq!(points, latin_hypercube(&numbers, 8, 7));
        assert_ne!(points, latin_hypercube(&numbers, 8, 8));
    }

    #[test]
    fn one_number_at_a_time_goes_to_its_ends() {
        let points = one_at_a_time(&numbers());
        assert_eq!(points.len(), 6);
        assert_eq!(points[1].settings(&numbers()), ["kernel.costs.x=256ns"]);
        assert_eq!(points[4].settings(&numbers()), ["kernel.costs.x=1 uses"]);
        assert!(points[1].machine_numbers(&numbers()).is_empty());
    }
}
