//! The page of simulations: published figures beside simulated ones, and each figure over its variants.

use hitm::sim::{SimReport, Summary, VariantReport};
use serde_json::{Value, json};

use super::data::{item, rounded, table};
use super::{PAGE_SCHEMA, html};
use crate::fields::Field;
use crate::sim::fields::{comparison, metric, scenario};
use crate::sim::figures;

/// The page of `hitm sim`.
pub fn simulation(report: &SimReport) -> String {
    let title = format!("hitm sim: {}", report.scenario);
    page(title, std::slice::from_ref(report))
}

/// The page of `hitm reproduce`.
pub fn reproduction(reports: &[SimReport]) -> String {
    page("hitm reproduce".to_owned(), reports)
}

fn page(title: String, reports: &[SimReport]) -> String {
    let scenarios: Value = reports.iter().map(scenario).collect();
    html(json!({
        "schema": PAGE_SCHEMA,
        "kind": "simulation",
        "title": title,
        "scenarios": scenarios,
    }))
}

/// Columns of a variant's figures, whose meanings stand beside them once.
const FIGURES: &[Field<Summary>] = &[
    metric::id,
    metric::unit,
    metric::mean,
    metric::confidence,
    metric::min,
    metric::max,
    metric::run_count,
];

/// A scenario as the points of a sweep whose keys are what its variants differ in.
fn scenario(report: &SimReport) -> Value {
    let keys = keys(&report.variants);
    let points = (0..report.variants.len()).map(|variant| {
        let places = keys.iter().map(|key| key.place_of[variant]);
        places.collect::<Vec<usize>>()
    });
    let metrics = figures(&report.variants);
    let values = metrics.iter().map(|metric| {
        let of_variant = |variant: &VariantReport| values_of(variant, &metric.id);
        rounded(&report.variants.iter().map(of_variant).collect::<Vec<_>>())
    });
    let figures = report.variants.iter().map(|variant| {
        let table = table(FIGURES, &variant.summaries);
        json!({ "variant": variant.label, "table": table })
    });
    let described = metrics.iter().map(
        |metric| json!({ "id": metric.id, "unit": metric.unit, "description": metric.description }),
    );
    json!({
        "about": item(scenario::ALL, report),
        "published": table(comparison::ALL, &report.comparisons),
        "keys": keys.iter().map(Key::json).collect::<Value>(),
        "points": points.collect::<Value>(),
        "metrics": described.collect::<Value>(),
        "values": values.collect::<Value>(),
        "figures": figures.collect::<Value>(),
    })
}

/// Something that variants differ in.
struct Key {
    name: &'static str,
    unit: Option<&'static str>,
    values: Vec<Value>,
    /// By variant.
    place_of: Vec<usize>,
}

impl Key {
    /// Numbers ascend, texts stand in the order of the variants.
    fn new(name: &'static str, unit: Option<&'static str>, of: Vec<Value>) -> Key {
        let mut values: Vec<Value> = Vec::new();
        for value in &of {
            if !values.contains(value) {
                values.push(value.clone());
            }
        }
        values.sort_by_key(|value| value.as_u64().unwrap_or(0));
        let place = |value: &Value| values.iter().position(|other| other == value);
        let place_of = of.iter().map(|value| place(value).unwrap_or(0)).collect();
        Key {
            name,
            unit,
            values,
            place_of,
        }
    }

    fn json(&self) -> Value {
        let is_number = self.values.iter().all(Value::is_u64);
        json!({ "name": self.name, "unit": self.unit, "is_number": is_number, "values": self.values })
    }
}

/// The variant itself, then what tells several variants apart.
fn keys(variants: &[VariantReport]) -> Vec<Key> {
    let all = |of: fn(&VariantReport) -> Value| variants.iter().map(of).collect::<Vec<Value>>();
    let mut keys = vec![Key::new("variant", None, all(|v| json!(v.label)))];
    let has_load = variants
        .iter()
        .all(|variant| variant.variant.wakeups_per_second.is_some());
    let further = [
        ("layout", None, all(|v| json!(v.variant.layout))),
        ("balancing", None, all(|v| json!(v.balancing_name()))),
        (
            "load",
            Some("wake-ups a second and CPU"),
            all(|v| json!(v.variant.wakeups_per_second)),
        ),
    ];
    for (name, unit, of) in further {
        let key = Key::new(name, unit, of);
        if key.values.len() > 1 && (name != "load" || has_load) {
            keys.push(key);
        }
    }
    keys
}

/// A figure by seed.
fn values_of(variant: &VariantReport, id: &str) -> Vec<f64> {
    let metrics = variant.outcomes.iter().flat_map(|outcome| &outcome.metrics);
    let of_id = metrics.filter(|metric| metric.id == id);
    of_id.map(|metric| metric.value).collect()
}
