//! Numbers of a scenario that are not published, with their ranges.

use std::mem::discriminant;
use std::time::Duration;

use hitm_base::document::describe;
use hitm_base::machine::Quantity;
use toml::de::{DeTable, DeValue};

use super::ScenarioError;
use super::quantity::time;
use super::reader::{self as read, Reader, Table};

/// A number that the scenario states and nobody has published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assumed {
    /// Its key with its tables, as a setting names it: `workload.0.runnable`.
    pub key: String,
    /// Its value in the scenario: a time or a count.
    pub value: Quantity,
    /// The least value that it may have.
    pub low: Quantity,
    /// The largest.
    pub high: Quantity,
    /// Grounds of the range, and the effect of a wrong value.
    pub effect: String,
}

const EXPECTED: &str = "[least, largest] of the key's own kind: two whole numbers or two times";

pub(super) fn assumed(
    reader: &Reader<'_>,
    root: &Table<'_, '_, '_>,
    document: &DeTable<'_>,
) -> Result<Vec<Assumed>, ScenarioError> {
    let one = |(index, table)| {
        let table = Table::of(reader, table, format!("assumed[{index}]"))?;
        let key = table.required_words("key")?;
        let value = stated(document, &key).and_then(quantity).ok_or_else(|| {
            let expected = "a key of this file with a whole number or a time";
            table.error("key", format!("{key:?}"), expected)
        })?;
        let range = table.required("range", EXPECTED)?;
        let ends = range.get_ref().as_array().filter(|ends| ends.len() == 2);
        let ends =
            ends.and_then(|ends| quantity(ends[0].get_ref()).zip(quantity(ends[1].get_ref())));
        let (low, high) = ends
            .filter(|(low, high)| is_range(value, *low, *high))
            .ok_or_else(|| table.error("range", describe(range), EXPECTED))?;
        let effect = table.required_words("effect")?;
        table.finish()?;
        Ok(Assumed {
            key,
            value,
            low,
            high,
            effect,
        })
    };
    let tables = read::tables(root, "assumed")?.iter();
    tables.enumerate().map(one).collect()
}

fn is_range(value: Quantity, low: Quantity, high: Quantity) -> bool {
    let kinds = [value, low, high].map(|end| discriminant(&end));
    kinds == [kinds[0]; 3] && low.raw() <= high.raw()
}

/// The value at a key whose steps are names of tables, and numbers in lists.
fn stated<'a, 'i>(document: &'a DeTable<'i>, key: &str) -> Option<&'a DeValue<'i>> {
    let mut steps = key.split('.');
    let mut at = document.get(steps.next()?)?.get_ref();
    for step in steps {
        at = match at {
            DeValue::Table(table) => table.get(step)?.get_ref(),
            DeValue::Array(list) => list.get(step.parse::<usize>().ok()?)?.get_ref(),
            _ => return None,
        };
    }
    Some(at)
}

fn quantity(value: &DeValue<'_>) -> Option<Quantity> {
    const MOST: Duration = Duration::from_secs(1_000);
    match value {
        DeValue::String(text) => {
            let picos = time(text, MOST)?.as_nanos() * 1_000;
            u64::try_from(picos).ok().map(Quantity::Picos)
        }
        DeValue::Integer(number) if number.radix() == 10 => number
            .as_str()
            .parse()
            .ok()
            .map(|count| Quantity::Count(count, "")),
        _ => None,
    }
}
