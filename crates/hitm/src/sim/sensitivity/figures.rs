//! Headline figures over the points at which a scenario was run.

use hitm_sim::scenario::Scenario;

use super::Number;
use crate::sim::{Comparison, SimReport, Summary, VariantReport};

/// A headline figure, and its value in one run.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Headline {
    id: String,
    label: String,
    unit: String,
    published: Option<(f64, f64)>,
    value: Option<f64>,
}

impl Headline {
    /// True if both are the same figure, of whatever runs.
    fn is_same(&self, other: &Headline) -> bool {
        (&self.id, &self.label, self.published) == (&other.id, &other.label, other.published)
    }
}

/// A headline figure, and the interval of its simulated value.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// The metric.
    pub id: String,
    /// Variant that it is of.
    pub label: String,
    /// Its unit.
    pub unit: String,
    /// The least and the largest published value; none of the load, and of what nobody has published.
    pub published: Option<(f64, f64)>,
    /// Value of the unchanged scenario, with its first seed.
    pub value: Option<f64>,
    /// Range of the value over the seeds without a change: the effect of chance alone.
    pub chance: f64,
    /// The least and the largest value over all runs.
    pub interval: Option<(f64, f64)>,
    /// Runs that have the figure, and all runs.
    pub run_count: (usize, usize),
    /// Effect of each number alone, largest first. Effects within chance are left out.
    pub effects: Vec<Effect>,
}

/// The effect of one number on a figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Effect {
    /// The number's key.
    pub key: String,
    /// The figure with the number at the low end of its range.
    pub at_low: Option<f64>,
    /// The figure with the number at the high end of its range.
    pub at_high: Option<f64>,
    /// Largest distance of `at_low` and `at_high` from the unchanged figure.
    pub size: f64,
    /// Part of this number in the sum of squared sizes over all numbers.
    pub share: f64,
}

/// Published figures of a report. Where several loads were run, they are taken at the load at which
/// one of them is met. A scenario without published figures has those of its workloads and groups.
pub(super) fn headlines(scenario: &Scenario, report: &SimReport) -> Vec<Headline> {
    if scenario.published.is_empty() {
        let of_variant = |variant| own_figures(scenario, variant);
        return report.variants.iter().flat_map(of_variant).collect();
    }
    let headline = |one: &Comparison| Headline {
        id: one.id.clone(),
        label: one.label.clone(),
        unit: one.unit.clone(),
        published: Some(one.published),
        value: one.simulated.filter(|value| value.is_finite()),
    };
    match &report.crossing {
        Some(crossing) => {
            let load = Headline {
                id: "load".to_owned(),
                label: format!(
                    "{} at {} {}",
                    crossing.id, crossing.published, crossing.unit
                ),
                unit: "wake-ups a second and CPU".to_owned(),
                published: None,
                value: crossing.load,
            };
            let figures = crossing.comparisons.iter().map(headline);
            std::iter::once(load).chain(figures).collect()
        }
        None => report.comparisons.iter().map(headline).collect(),
    }
}

/// Figures of the scenario's own workloads and groups under a variant.
fn own_figures(scenario: &Scenario, variant: &VariantReport) -> Vec<Headline> {
    let workloads = scenario.workloads.iter().map(|one| one.name.as_str());
    let groups = scenario.groups.iter().map(|one| one.name.as_str());
    let owners: Vec<&str> = workloads.chain(groups).collect();
    let is_own = |id: &str| {
        id.split('.')
            .next()
            .is_some_and(|owner| owners.contains(&owner))
    };
    let of_variant = variant
        .summaries
        .iter()
        .filter(|summary| is_own(&summary.id));
    let headline = |summary: &Summary| Headline {
        id: summary.id.clone(),
        label: variant.label.clone(),
        unit: summary.unit.to_owned(),
        published: None,
        value: Some(summary.mean).filter(|value| value.is_finite()),
    };
    of_variant.map(headline).collect()
}

/// Runs by figure.
pub(super) struct Runs<'a> {
    /// Unchanged, with all seeds.
    pub(super) chance: &'a [Vec<Headline>],
    /// With one number changed.
    pub(super) singles: &'a [Vec<Headline>],
    /// With all changed.
    pub(super) samples: &'a [Vec<Headline>],
}

pub(super) fn figures(numbers: &[Number], runs: &Runs<'_>) -> Vec<Figure> {
    let base = &runs.chance[0];
    let figure = |headline: &Headline| {
        // A run may lack what nothing of it had, such as a mean over no waits.
        let of_run = |run: &Vec<Headline>| {
            let same = run.iter().find(|other| other.is_same(headline));
            same.and_then(|other| other.value)
        };
        let values =
            |runs: &[Vec<Headline>]| -> Vec<Option<f64>> { runs.iter().map(of_run).collect() };
        let (by_chance, by_one) = (values(runs.chance), values(runs.singles));
        let all = [&by_chance[..], &by_one, &values(runs.samples)].concat();
        let spread = range(&by_chance).map_or(0.0, |(least, most)| most - least);
        let known: Vec<Option<f64>> = all.iter().copied().filter(Option::is_some).collect();
        Figure {
            id: headline.id.clone(),
            label: headline.label.clone(),
            unit: headline.unit.clone(),
            published: headline.published,
            value: headline.value,
            chance: spread,
            interval: range(&all),
            run_count: (known.len(), all.len()),
            effects: effects(numbers, headline.value, spread, &by_one),
        }
    };
    base.iter().map(figure).collect()
}

fn range(values: &[Option<f64>]) -> Option<(f64, f64)> {
    let mut known = values.iter().flatten().copied();
    let first = known.next()?;
    Some(known.fold((first, first), |(least, most), value| {
        (least.min(value), most.max(value))
    }))
}

fn effects(
    numbers: &[Number],
    base: Option<f64>,
    chance: f64,
    singles: &[Option<f64>],
) -> Vec<Effect> {
    let mut effects = Vec::new();
    for (number, ends) in numbers.iter().zip(singles.chunks_exact(2)) {
        let away = |end: &Option<f64>| end.zip(base).map_or(0.0, |(end, base)| (end - base).abs());
        let size = ends.iter().map(away).fold(0.0, f64::max);
        effects.push(Effect {
            key: number.key.clone(),
            at_low: ends[0],
            at_high: ends[1],
            size,
            share: 0.0,
        });
    }
    let squares: f64 = effects.iter().map(|effect| effect.size.powi(2)).sum();
    for effect in &mut effects {
        effect.share = effect.size.powi(2) / squares.max(f64::MIN_POSITIVE);
    }
    effects.retain(|effect| effect.size > chance);
    // Stable: numbers with equal effects keep their order.
    effects.sort_by(|a, b| b.size.total_cmp(&a.size));
    effects
}

#[cfg(test)]
mod tests {
    use hitm_base::machine::Quantity;

    use super::super::numbers::Place;
    use super::*;

    fn number(key: &str) -> Number {
        let value = Quantity::Picos(1_000);
        Number {
            key: key.to_owned(),
            value,
            low: value,
            high: value,
            place: Place::Scenario,
        }
    }

    fn run(value: Option<f64>) -> Vec<Headline> {
        vec![Headline {
            id: "x".into(),
            label: "y".into(),
            unit: "z".into(),
            published: Some((1.0, 1.0)),
            value,
        }]
    }

    #[test]
    fn numbers_that_move_a_figure_more_than_chance_decide_it() {
        let numbers = ["a", "b", "c"].map(number);
        let chance = [10.0, 11.0, 9.0, 10.0].map(|value| run(Some(value)));
        let singles = [10.0, 14.0, 9.0, 11.0, 7.0, 10.0].map(|value| run(Some(value)));
        let samples = [run(Some(20.0)), run(None)];
        let runs = Runs {
            chance: &chance,
            singles: &singles,
            samples: &samples,
        };
        let figure = figures(&numbers, &runs).remove(0);
        assert_eq!(figure.chance, 2.0);
        assert_eq!(figure.interval, Some((7.0, 20.0)));
        assert_eq!(figure.run_count, (11, 12));
        let keys: Vec<&str> = figure.effects.iter().map(|one| one.key.as_str()).collect();
        assert_eq!(keys, ["a", "c"]);
        assert_eq!(
            (figure.effects[0].at_high, figure.effects[0].size),
            (Some(14.0), 4.0)
        );
        // 4² of 4² + 1² + 3².
        assert!((figure.effects[0].share - 16.0 / 26.0).abs() < 1e-9);
    }

    #[test]
    fn a_run_without_a_figure_shifts_no_other() {
        let of = |id: &str, value| Headline {
            id: id.into(),
            published: None,
            ..run(Some(value)).remove(0)
        };
        let both = vec![of("waits", 1.0), of("rounds", 50.0)];
        let chance = [both.clone(), vec![of("rounds", 60.0)]];
        let samples = [vec![of("rounds", 40.0)]];
        let runs = Runs {
            chance: &chance,
            singles: &[],
            samples: &samples,
        };
        let figures = figures(&[], &runs);
        let intervals = figures.iter().map(|one| (one.interval, one.run_count));
        let intervals: Vec<_> = intervals.collect();
        assert_eq!(
            intervals,
            [(Some((1.0, 1.0)), (1, 3)), (Some((40.0, 60.0)), (3, 3))]
        );
    }
}
