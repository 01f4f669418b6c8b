//! Several runs of a variant as one set of figures, and published figures beside them.

use std::fmt::Write as _;

use hitm_sim::scenario::{Outcome, Published, Scenario, Variant};

/// One figure over all seeds.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    /// Its id.
    pub id: String,
    /// Its unit.
    pub unit: &'static str,
    /// Description of the quantity.
    pub description: &'static str,
    /// The mean over the runs that have it.
    pub mean: f64,
    /// Smallest value of a run.
    pub min: f64,
    /// Largest value of a run.
    pub max: f64,
    /// Half of the 95 % confidence interval of the mean (Student's t), from two runs on.
    pub confidence: Option<f64>,
    /// Runs that have it.
    pub run_count: usize,
}

impl Summary {
    /// Smallest and largest value, when there are several runs.
    pub fn spread(&self) -> Option<(f64, f64)> {
        (self.run_count > 1).then_some((self.min, self.max))
    }
}

/// All runs of a variant.
#[derive(Debug, Clone)]
pub struct VariantReport {
    /// Variant that was run.
    pub variant: Variant,
    /// Name of the variant.
    pub label: String,
    /// Figures, in the order of the first run that has each.
    pub summaries: Vec<Summary>,
    /// The runs, by seed.
    pub outcomes: Vec<Outcome>,
}

/// Result of a workload that checks itself, over all runs of a variant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check<'a> {
    /// Label of the variant.
    pub variant: &'a str,
    /// Name of the workload.
    pub workload: &'a str,
    /// Runs that it checked.
    pub run_count: usize,
    /// Seeds of the failed runs.
    pub failed_seeds: Vec<u64>,
    /// Failure of the first of them, in the workload's own form.
    pub failure: Option<&'a str>,
}

/// A published figure beside a simulated one.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// The metric.
    pub id: String,
    /// The variant that was simulated, and what it is compared with.
    pub label: String,
    /// Smallest and largest published value.
    pub published: (f64, f64),
    /// Its unit.
    pub unit: String,
    /// The simulated value; none when no run has it.
    pub simulated: Option<f64>,
    /// Smallest and largest simulated value; none with one run, and none for a change.
    pub spread: Option<(f64, f64)>,
    /// Simulated over published: for a range over its nearer end, and 1 within it. None when the
    /// ratio has no meaning: a published 0, or a change in the other direction.
    pub ratio: Option<f64>,
    /// Source of the published figure.
    pub source: String,
}

impl VariantReport {
    pub(super) fn new(
        scenario: &Scenario,
        variant: Variant,
        outcomes: Vec<Outcome>,
    ) -> VariantReport {
        let mut summaries: Vec<Summary> = Vec::new();
        for metric in outcomes.iter().flat_map(|outcome| &outcome.metrics) {
            if summaries.iter().any(|summary| summary.id == metric.id) {
                continue;
            }
            let all = outcomes.iter().flat_map(|outcome| &outcome.metrics);
            let values = all.filter(|other| other.id == metric.id);
            let values: Vec<f64> = values.map(|other| other.value).collect();
            let (mean, confidence) = mean(&values);
            summaries.push(Summary {
                id: metric.id.clone(),
                unit: metric.unit,
                description: metric.description,
                mean,
                min: values.iter().copied().fold(f64::INFINITY, f64::min),
                max: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
                confidence,
                run_count: values.len(),
            });
        }
        VariantReport {
            label: variant_label(scenario, &variant),
            variant,
            summaries,
            outcomes,
        }
    }

    /// Name of its balancing policy in a scenario.
    pub fn balancing_name(&self) -> &'static str {
        self.variant.balancing.id()
    }

    /// Results of its workloads that check themselves.
    pub fn checks(&self) -> Vec<Check<'_>> {
        let mut checks: Vec<Check<'_>> = Vec::new();
        for outcome in &self.outcomes {
            for workload in &outcome.workloads {
                let Some(passed) = workload.passed else {
                    continue;
                };
                let known = checks
                    .iter()
                    .position(|check| check.workload == workload.name);
                let index = known.unwrap_or_else(|| {
                    checks.push(Check {
                        variant: &self.label,
                        workload: &workload.name,
                        run_count: 0,
                        failed_seeds: Vec::new(),
                        failure: None,
                    });
                    checks.len() - 1
                });
                let check = &mut checks[index];
                check.run_count += 1;
                if !passed {
                    check.failed_seeds.push(outcome.header.seed);
                    check.failure = check.failure.or(workload.failure.as_deref());
                }
            }
        }
        checks
    }

    /// Figure with this id.
    pub fn get(&self, id: &str) -> Option<&Summary> {
        self.summaries.iter().find(|summary| summary.id == id)
    }
}

/// Name that tells a variant from the others of its scenario; the layout when there is only one.
pub fn variant_label(scenario: &Scenario, variant: &Variant) -> String {
    let mut label = String::new();
    let kernel = &scenario.kernel;
    let is_alone = [
        kernel.layouts.len(),
        kernel.throttling.len(),
        kernel.preempt.len(),
        kernel.placement.len(),
        kernel.mechanisms.len(),
    ] == [1; 5];
    if kernel.balancing.len() > 1 || is_alone {
        label.push_str(variant.balancing.id());
        label.push(' ');
    }
    if scenario.kernel.throttling.len() > 1 {
        label.push_str(variant.throttling.id());
        label.push(' ');
    }
    if scenario.kernel.preempt.len() > 1 {
        label.push_str(variant.preempt.id());
        label.push(' ');
    }
    if scenario.kernel.placement.len() > 1 {
        label.push_str(variant.placement.id());
        label.push(' ');
    }
    if scenario.kernel.mechanisms.len() > 1 {
        let names: Vec<&str> = variant.mechanisms.iter().map(|one| one.id()).collect();
        match names.is_empty() {
            true => label.push_str("usual"),
            false => label.push_str(&names.join("+")),
        }
        label.push(' ');
    }
    if scenario.kernel.layouts.len() > 1 {
        label.push_str(&variant.layout);
        label.push(' ');
    }
    if let Some(rate) = variant.wakeups_per_second {
        let _ = write!(label, "{rate}/s ");
    }
    label.trim_end().to_owned()
}

/// Two-sided 95 % quantiles of Student's t for 1 to 30 degrees of freedom.
const STUDENT: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];
/// Quantile of the normal distribution, for more.
const NORMAL: f64 = 1.960;

fn mean(values: &[f64]) -> (f64, Option<f64>) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let freedom = values.len() - 1;
    if freedom == 0 {
        return (mean, None);
    }
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let quantile = STUDENT.get(freedom - 1).copied().unwrap_or(NORMAL);
    (
        mean,
        Some(quantile * (squares / freedom as f64 / count).sqrt()),
    )
}

pub(super) fn comparisons(scenario: &Scenario, reports: &[VariantReport]) -> Vec<Comparison> {
    let mut comparisons = Vec::new();
    for published in &scenario.published {
        for report in reports
            .iter()
            .filter(|report| concerns(published, &report.variant))
        {
            comparisons.push(comparison(published, report, reports));
        }
    }
    comparisons
}

fn concerns(published: &Published, variant: &Variant) -> bool {
    let layout = published.layout.as_ref();
    let (balancing, throttling) = (published.balancing, published.throttling);
    let (preempt, placement) = (published.preempt, published.placement);
    layout.is_none_or(|layout| *layout == variant.layout)
        && balancing.is_none_or(|balancing| balancing == variant.balancing)
        && throttling.is_none_or(|throttling| throttling == variant.throttling)
        && preempt.is_none_or(|preempt| preempt == variant.preempt)
        && placement.is_none_or(|placement| placement == variant.placement)
}

fn comparison(
    published: &Published,
    report: &VariantReport,
    reports: &[VariantReport],
) -> Comparison {
    let value = |report: &VariantReport| report.get(&published.id).map(|summary| summary.mean);
    let (label, simulated) = match &published.change_from {
        None => (report.label.clone(), value(report)),
        Some(base) => {
            let wanted = Variant {
                layout: base.clone(),
                ..report.variant.clone()
            };
            let base = reports.iter().find(|other| other.variant == wanted);
            let change = base.and_then(|base| change(value(base)?, value(report)?));
            let label = format!("{}, change from {}", report.label, wanted.layout);
            (label, change)
        }
    };
    let spread = match &published.change_from {
        None => report.get(&published.id).and_then(Summary::spread),
        Some(_) => None,
    };
    Comparison {
        spread,
        ..beside(published, label, simulated)
    }
}

fn beside(published: &Published, label: String, simulated: Option<f64>) -> Comparison {
    let (least, most) = published.value;
    Comparison {
        id: published.id.clone(),
        label,
        published: published.value,
        unit: published.unit.clone(),
        simulated,
        spread: None,
        ratio: simulated.and_then(|simulated| ratio(simulated, least, most)),
        source: published.source.clone(),
    }
}

/// Change in per cent, unless `before` is 0.
fn change(before: f64, after: f64) -> Option<f64> {
    (before != 0.0).then(|| (after / before - 1.0) * 100.0)
}

/// Published figures at the load at which one of them is met, interpolated between the loads that
/// were run.
#[derive(Debug, Clone, PartialEq)]
pub struct Crossing {
    /// The figure that is met.
    pub id: String,
    /// Layout of that figure.
    pub layout: String,
    /// Its published value.
    pub published: f64,
    /// Its unit.
    pub unit: String,
    /// Load, in requested wake-ups a second and CPU; none when the figure is met at no load.
    pub load: Option<f64>,
    /// Published figures beside those simulated at that load.
    pub comparisons: Vec<Comparison>,
    /// Values of that figure for every layout at that load, smallest first.
    pub ranking: Vec<(String, f64)>,
}

/// Crossing of the first published figure that is one value of one layout, when several loads were
/// run.
pub(super) fn crossing(scenario: &Scenario, reports: &[VariantReport]) -> Option<Crossing> {
    let is_anchor = |published: &&Published| {
        let (least, most) = published.value;
        least == most && published.change_from.is_none() && published.layout.is_some()
    };
    let anchor = scenario.published.iter().find(is_anchor)?;
    let layout = anchor.layout.clone()?;
    let points = curve(reports, &layout, &anchor.id);
    if points.len() < 2 {
        return None;
    }
    let load = load_at(&points, anchor.value.0);
    let at = |layout: &str, id: &str| value_at(&curve(reports, layout, id), load?);
    let compare = |published: &Published| {
        let layout = published.layout.as_deref()?;
        let value = at(layout, &published.id);
        let (label, simulated) = match &published.change_from {
            None => (layout.to_owned(), value),
            Some(base) => {
                let before = at(base, &published.id);
                let change = before
                    .zip(value)
                    .and_then(|(before, after)| change(before, after));
                (format!("{layout}, change from {base}"), change)
            }
        };
        Some(beside(published, label, simulated))
    };
    let layouts = scenario.kernel.layouts.iter();
    let ranked = layouts.filter_map(|layout| Some((layout.clone(), at(layout, &anchor.id)?)));
    let mut ranking: Vec<(String, f64)> = ranked.collect();
    ranking.sort_by(|a, b| a.1.total_cmp(&b.1));
    Some(Crossing {
        id: anchor.id.clone(),
        layout,
        published: anchor.value.0,
        unit: anchor.unit.clone(),
        load,
        comparisons: scenario.published.iter().filter_map(compare).collect(),
        ranking,
    })
}

/// Figure by load, for a layout and otherwise the first variant.
fn curve(reports: &[VariantReport], layout: &str, id: &str) -> Vec<(f64, f64)> {
    let is_of_curve = |report: &&VariantReport| {
        let first = reports.first().map(|first| Variant {
            layout: report.variant.layout.clone(),
            wakeups_per_second: report.variant.wakeups_per_second,
            ..first.variant.clone()
        });
        report.variant.layout == layout && first.as_ref() == Some(&report.variant)
    };
    let of_layout = reports.iter().filter(is_of_curve);
    let point = |report: &VariantReport| {
        let load = report.variant.wakeups_per_second? as f64;
        Some((load, report.get(id)?.mean))
    };
    let mut points: Vec<(f64, f64)> = of_layout.filter_map(point).collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    points
}

/// Smallest load at which a curve, linear between its points, has the value.
fn load_at(points: &[(f64, f64)], value: f64) -> Option<f64> {
    points.windows(2).find_map(|pair| {
        let ((from, low), (to, high)) = (pair[0], pair[1]);
        let is_between = (low..=high).contains(&value) || (high..=low).contains(&value);
        (is_between && low != high).then(|| from + (to - from) * (value - low) / (high - low))
    })
}

fn value_at(points: &[(f64, f64)], load: f64) -> Option<f64> {
    points.windows(2).find_map(|pair| {
        let ((from, low), (to, high)) = (pair[0], pair[1]);
        (from..=to)
            .contains(&load)
            .then(|| low + (high - low) * (load - from) / (to - from))
    })
}

fn ratio(simulated: f64, least: f64, most: f64) -> Option<f64> {
    if least < most && (least..=most).contains(&simulated) {
        return Some(1.0);
    }
    let nearer = if simulated < least { least } else { most };
    (nearer != 0.0 && simulated / nearer > 0.0).then(|| simulated / nearer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_students() {
        // 1, 2, 3: standard deviation 1, 2 degrees of freedom, 4.303 / sqrt(3) = 2.484.
        let (mean, confidence) = mean(&[1.0, 2.0, 3.0]);
        assert_eq!((mean, (confidence.unwrap() * 1e3).round()), (2.0, 2484.0));
        assert_eq!(super::mean(&[5.0]), (5.0, None));
    }

    #[test]
    fn a_curve_is_straight_between_its_points() {
        let points = [(10.0, 1.0), (20.0, 3.0), (40.0, 23.0)];
        assert_eq!(load_at(&points, 13.0), Some(30.0));
        assert_eq!(load_at(&points, 24.0), None);
        assert_eq!(value_at(&points, 15.0), Some(2.0));
        assert_eq!(value_at(&points, 5.0), None);
    }

    #[test]
    fn a_ratio_is_to_the_nearer_end_of_a_range() {
        assert_eq!(ratio(5.0, 10.0, 20.0), Some(0.5));
        assert_eq!(ratio(40.0, 10.0, 20.0), Some(2.0));
        assert_eq!(ratio(15.0, 10.0, 20.0), Some(1.0));
        assert_eq!(ratio(3.0, 0.0, 0.0), None);
        assert_eq!(ratio(-3.0, 5.0, 5.0), None);
    }
}
