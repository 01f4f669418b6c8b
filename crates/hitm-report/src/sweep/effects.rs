//! The part of a metric's spread that each key explains.
//!
//! The share is the variance between the groups of a key's values over all variance, adjusted for the
//! number of groups (epsilon squared; Kelley, PNAS 21 (1935)): near 0 where the key does nothing.
//! Numbers with more than [`VALUES_MAX`] values, such as those of a sample, are cut into
//! [`PARTS`] groups of one size.

use hitm::sweep::Cell;

use super::{SweepEffect, SweepKey, SweepReport, cell_text};

/// Values of a key that are groups of their own.
const VALUES_MAX: usize = 16;
/// Groups of a number with more values: with eight a sample of 64 points has eight in each.
const PARTS: usize = 8;
/// Shares below it are left out.
const SHARE_MIN: f64 = 0.01;

/// A group and its mean.
type End = (usize, f64);

/// Sums of one group.
#[derive(Debug, Clone, Copy, Default)]
struct Group {
    count: f64,
    sum: f64,
}

impl Group {
    fn mean(self) -> f64 {
        self.sum / self.count
    }
}

/// Effects of all keys on all metrics, by metric, largest share first.
pub(super) fn effects(report: &SweepReport) -> Vec<SweepEffect> {
    let groupings: Vec<Option<Grouping>> = (0..report.keys.len())
        .map(|key| Grouping::of(report, key))
        .collect();
    let mut all = Vec::new();
    for (metric, values) in report.metrics.iter().zip(&report.values) {
        let mut of_metric: Vec<SweepEffect> = Vec::new();
        for (key, grouping) in groupings.iter().enumerate() {
            let Some(grouping) = grouping else {
                continue;
            };
            let Some((share, least, most)) = grouping.explained(report, key, values) else {
                continue;
            };
            if share < SHARE_MIN {
                continue;
            }
            of_metric.push(SweepEffect {
                metric: metric.metric.clone(),
                key: report.keys[key].key.clone(),
                share,
                least_at: grouping.names[least.0].clone(),
                least_mean: least.1,
                most_at: grouping.names[most.0].clone(),
                most_mean: most.1,
            });
        }
        // Stable: equal shares keep the order of the keys.
        of_metric.sort_by(|a, b| b.share.total_cmp(&a.share));
        all.extend(of_metric);
    }
    all
}

/// The groups of a key's values.
struct Grouping {
    /// Group of each value; none for a missing one.
    group_of: Vec<Option<usize>>,
    names: Vec<String>,
}

impl Grouping {
    /// Returns none for a key with one value, and for one with too many texts.
    fn of(report: &SweepReport, key: usize) -> Option<Grouping> {
        let key: &SweepKey = &report.keys[key];
        let count = key.stated().count();
        if count < 2 || count > VALUES_MAX && !key.is_number() {
            return None;
        }
        let names: Vec<String> = key.stated().map(cell_text).collect();
        let part_of = |place: usize| match count <= VALUES_MAX {
            true => place,
            false => place * PARTS / count,
        };
        let mut place = 0;
        let group_of = key.values.iter().map(|value| {
            let is_stated = *value != Cell::Missing;
            place += usize::from(is_stated);
            is_stated.then(|| part_of(place - 1))
        });
        let group_of: Vec<Option<usize>> = group_of.collect();
        if count <= VALUES_MAX {
            return Some(Grouping { group_of, names });
        }
        let name = |part: usize| {
            let first = (part * count).div_ceil(PARTS);
            let last = ((part + 1) * count).div_ceil(PARTS) - 1;
            format!("{} to {}", names[first], names[last])
        };
        Some(Grouping {
            group_of,
            names: (0..PARTS).map(name).collect(),
        })
    }

    /// The adjusted share, and the groups with the smallest and the largest mean. None where the metric
    /// does not vary, or too few runs have it.
    fn explained(
        &self,
        report: &SweepReport,
        key: usize,
        values: &[Vec<f64>],
    ) -> Option<(f64, End, End)> {
        let mut groups = vec![Group::default(); self.names.len()];
        let mut whole = Group::default();
        for (point, values) in report.points.iter().zip(values) {
            let Some(group) = self.group_of[point[key] as usize] else {
                continue;
            };
            let group = &mut groups[group];
            for value in values {
                for sums in [&mut *group, &mut whole] {
                    sums.count += 1.0;
                    sums.sum += value;
                }
            }
        }
        let mean = whole.mean();
        let with_value = report.points.iter().zip(values);
        let with_value =
            with_value.filter(|(point, _)| self.group_of[point[key] as usize].is_some());
        let with_value = with_value.flat_map(|(_, values)| values);
        let all: f64 = with_value.map(|value| (value - mean).powi(2)).sum();
        let used = groups.iter().enumerate();
        let used: Vec<(usize, Group)> = used
            .filter(|(_, group)| group.count > 0.0)
            .map(|(index, group)| (index, *group))
            .collect();
        let between = used.iter();
        let between: f64 = between
            .map(|(_, group)| group.count * (group.mean() - mean).powi(2))
            .sum();
        let group_count = used.len() as f64;
        if all <= 0.0 || group_count < 2.0 || whole.count <= group_count {
            return None;
        }
        let within = (all - between) / (whole.count - group_count);
        let share = 1.0 - within / (all / (whole.count - 1.0));
        let by_mean = |a: &&(usize, Group), b: &&(usize, Group)| a.1.mean().total_cmp(&b.1.mean());
        let least = used.iter().min_by(by_mean)?;
        let most = used.iter().max_by(by_mean)?;
        let end = |(index, group): &(usize, Group)| (*index, group.mean());
        Some((share, end(least), end(most)))
    }
}
