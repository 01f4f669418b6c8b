//! TOML text -> [`Plan`].

use toml::de::DeTable;

use super::{
    Axis, KEYS_MAX, Plan, RUNS_MAX, SourceKind, Stated, TEXT_BYTES_MAX, VALUES_MAX, WORDS_MAX,
};
use crate::range::{Range, Scale};
use hitm_base::document::{Document as _, TextPlace, Value as Item, describe};

use crate::PlanError;
use crate::reader::{self as read, Reader, Table};
use crate::sample::{DIMENSIONS_MAX, Method, dimensions_max, points};
use crate::value::Value;

const SCALES: [(&str, Scale); 2] = [("linear", Scale::Linear), ("log", Scale::Log)];
const METHODS: [(&str, Method); 2] = [
    ("sobol", Method::Sobol),
    ("latin-hypercube", Method::LatinHypercube),
];
/// Values as a plan states them.
const VALUE: &str = "a number, a text, true, false or a list of them";

pub(super) fn parse(text: &str, origin: &str) -> Result<Plan, PlanError> {
    let reader = Reader::new(text, origin);
    if text.len() > TEXT_BYTES_MAX {
        let expected = format!("at most {TEXT_BYTES_MAX} bytes");
        let found = format!("{} bytes", text.len());
        return Err(reader.error(0..0, "the file", found, expected));
    }
    let document = DeTable::parse(text).map_err(|error| {
        let found = format!("no TOML ({})", error.message());
        let expected = "a plan as docs/formats/sweep.md describes it";
        reader.error(error.span().unwrap_or(0..0), "the file", found, expected)
    })?;
    let root = Table::new(&reader, document.get_ref(), String::new(), 0..0);
    let schema = root.required("schema", "schema = 1")?;
    if Value::of(schema) != Some(Value::Integer(1)) {
        return Err(root.wrong("schema", schema, "1"));
    }
    let name = root.required_words("name")?;
    let description = root.words("description")?;
    let (kind, sources) = sources(&root)?;
    let mut plan = Plan {
        origin: origin.to_owned(),
        name,
        description,
        kind,
        sources,
        quick: root.flag("quick")?,
        first_seed: root.number("first_seed", 0, i64::MAX as u64)?.unwrap_or(1),
        seed_count: root.number("seeds", 1, i64::MAX as u64)?.unwrap_or(1),
        metrics: read::list_of_words(&root, "metrics", WORDS_MAX)?.unwrap_or_default(),
        axes: Vec::new(),
        stated: None,
    };
    (plan.axes, plan.stated) = axes(&reader, &root)?;
    root.finish()?;
    check_keys(&plan)?;
    check_count(&plan, &root)?;
    Ok(plan)
}

fn sources(root: &Table<'_, '_, '_>) -> Result<(SourceKind, Vec<(String, TextPlace)>), PlanError> {
    const EXPECTED: &str = "`scenarios` or `recordings`, a list of files";
    let scenarios = read::list_of_words(root, "scenarios", WORDS_MAX)?;
    let recordings = read::list_of_words(root, "recordings", WORDS_MAX)?;
    match (scenarios, recordings) {
        (Some(scenarios), None) => Ok((SourceKind::Scenarios, scenarios)),
        (None, Some(recordings)) => Ok((SourceKind::Recordings, recordings)),
        (Some(_), Some(_)) => {
            Err(root.error("recordings", "`scenarios` and `recordings`", "one of them"))
        }
        (None, None) => Err(root.error("scenarios", "no such key", EXPECTED)),
    }
}

fn axes(
    reader: &Reader<'_>,
    root: &Table<'_, '_, '_>,
) -> Result<(Vec<Axis>, Option<Stated>), PlanError> {
    let mut axes = Vec::new();
    let mut stated = None;
    for (index, item) in read::items(root, "vary", KEYS_MAX)?.iter().enumerate() {
        axes.push(vary(&Table::of(reader, item, format!("vary[{index}]"))?)?);
    }
    if let Some(item) = root.get("sample") {
        let table = Table::of(reader, item, "sample".into())?;
        let (axis, of_sample) = sample(reader, &table)?;
        axes.push(axis);
        stated = of_sample;
    }
    Ok((axes, stated))
}

/// One key with values or a range, or several keys with rows of values.
fn vary(table: &Table<'_, '_, '_>) -> Result<Axis, PlanError> {
    let key = table.words("key")?;
    let keys = read::list_of_words(table, "keys", KEYS_MAX)?;
    let axis = match (key, keys) {
        (Some(key), None) => {
            let keys = vec![(key, read::place(table, "key"))];
            let rows = match table.get("values") {
                Some(_) => values(table)?,
                None => range_rows(table)?,
            };
            Axis { keys, rows }
        }
        (None, Some(keys)) => {
            let rows = tied_values(table, keys.len())?;
            Axis { keys, rows }
        }
        (Some(_), Some(_)) => return Err(table.error("keys", "`key` and `keys`", "one of them")),
        (None, None) => {
            let expected = "`key`, or `keys` that change together";
            return Err(table.error("key", "no such key", expected));
        }
    };
    table.finish()?;
    Ok(axis)
}

fn value_of(table: &Table<'_, '_, '_>, key: &str, item: &Item<'_>) -> Result<Value, PlanError> {
    Value::of(item).ok_or_else(|| table.wrong(key, item, VALUE))
}

type Rows = Vec<(Vec<Value>, TextPlace)>;

fn values(table: &Table<'_, '_, '_>) -> Result<Rows, PlanError> {
    let mut rows: Rows = Vec::new();
    let items = read::items(table, "values", VALUES_MAX)?;
    read::check_count(table, "values", items.len(), VALUES_MAX)?;
    for item in items {
        let value = value_of(table, "values", item)?;
        push(table, &mut rows, item, vec![value])?;
    }
    Ok(rows)
}

fn tied_values(table: &Table<'_, '_, '_>, key_count: usize) -> Result<Rows, PlanError> {
    let expected = format!("a list of lists with {key_count} values, one for each of `keys`");
    table.required("values", &expected)?;
    let items = read::items(table, "values", VALUES_MAX)?;
    read::check_count(table, "values", items.len(), VALUES_MAX)?;
    let mut rows: Rows = Vec::new();
    for item in items {
        let inner = item.get_ref().as_array().map(|array| array.as_ref());
        let Some(inner) = inner.filter(|inner: &&[Item<'_>]| inner.len() == key_count) else {
            return Err(table.wrong("values", item, &expected));
        };
        let row: Result<Vec<Value>, PlanError> = inner
            .iter()
            .map(|item| value_of(table, "values", item))
            .collect();
        push(table, &mut rows, item, row?)?;
    }
    Ok(rows)
}

/// Adds a row unless an equal one is there.
fn push(
    table: &Table<'_, '_, '_>,
    rows: &mut Rows,
    item: &Item<'_>,
    row: Vec<Value>,
) -> Result<(), PlanError> {
    // Of a long list only the end is compared: the table has a row for each run anyway.
    const COMPARED_MAX: usize = 1_000;
    if rows
        .iter()
        .take(COMPARED_MAX)
        .any(|(other, _)| *other == row)
    {
        return Err(table.wrong("values", item, "each value once"));
    }
    rows.push((row, table.document().place(item.span().start)));
    Ok(())
}

/// `from`, `to` and `scale`.
fn range(table: &Table<'_, '_, '_>) -> Result<Range, PlanError> {
    const END: &str = "a number, a time such as \"20ms\" or a rate such as \"250/s\"";
    let from = table.required("from", "`values`, or `from` and `to`")?;
    let to = table.required("to", END)?;
    let scale = table.one_of("scale", &SCALES)?.unwrap_or(SCALES[0].1);
    let from = value_of(table, "from", from)?;
    let end = value_of(table, "to", to)?;
    Range::new(&from, &end, scale).map_err(|expected| {
        let found = format!("{} to {}", from.toml(), describe(to));
        table.error("to", found, expected)
    })
}

fn range_rows(table: &Table<'_, '_, '_>) -> Result<Rows, PlanError> {
    let range = range(table)?;
    let expected = format!("a whole number from 2 to {VALUES_MAX}");
    table.required("steps", &expected)?;
    let steps = table.number("steps", 2, VALUES_MAX as u64)?.unwrap_or(2);
    let place = read::place(table, "from");
    let mut values = range.steps(steps as usize);
    values.dedup();
    if values.len() as u64 != steps {
        let expected = format!("at most {}: values would repeat", values.len());
        return Err(table.error("steps", steps.to_string(), expected));
    }
    Ok(values
        .into_iter()
        .map(|value| (vec![value], place))
        .collect())
}

/// The axis of a sample, and the numbers that it takes from stated ranges.
fn sample(
    reader: &Reader<'_>,
    table: &Table<'_, '_, '_>,
) -> Result<(Axis, Option<Stated>), PlanError> {
    let stated = read::list_of_words(table, "stated", KEYS_MAX)?;
    // A machine states more ranges than a Sobol sequence has dimensions here.
    let default = usize::from(stated.is_some());
    let method = table.one_of("method", &METHODS)?;
    let method = method.unwrap_or(METHODS[default].1);
    table.required("points", "the number of points")?;
    let count_max = match stated {
        Some(_) => VALUES_MAX as u64,
        None => RUNS_MAX,
    };
    let count = table.number("points", 1, count_max)?.unwrap_or(1) as usize;
    let seed = table.number("seed", 0, i64::MAX as u64)?.unwrap_or(0);
    let mut keys = Vec::new();
    let mut ranges = Vec::new();
    let items = read::items(table, "range", DIMENSIONS_MAX)?;
    if stated.is_none() {
        read::check_count(table, "range", items.len(), DIMENSIONS_MAX)?;
    }
    for (index, item) in items.iter().enumerate() {
        let of_range = Table::of(reader, item, format!("sample.range[{index}]"))?;
        keys.push((
            of_range.required_words("key")?,
            read::place(&of_range, "key"),
        ));
        ranges.push((range(&of_range)?, read::place(&of_range, "from")));
        of_range.finish()?;
    }
    table.finish()?;
    let points = points(method, count, ranges.len(), seed)
        .map_err(|error| table.error("range", format!("{}", ranges.len()), error.to_string()))?;
    let place = ranges
        .first()
        .map_or_else(|| read::place(table, "stated"), |(_, place)| *place);
    let row = |point: Vec<f64>| {
        let values = point.iter().zip(&ranges);
        (
            values.map(|(part, (range, _))| range.at(*part)).collect(),
            place,
        )
    };
    let axis = Axis {
        keys,
        rows: points.into_iter().map(row).collect(),
    };
    let stated = stated.map(|keys| Stated {
        keys,
        point_count: count,
        number_count_max: dimensions_max(method) - ranges.len(),
        method,
        seed,
        dimension_count: ranges.len(),
    });
    Ok((axis, stated))
}

/// Fails when a key stands in two axes.
fn check_keys(plan: &Plan) -> Result<(), PlanError> {
    let mut known: Vec<&str> = Vec::new();
    for (key, place) in plan.axes.iter().flat_map(|axis| &axis.keys) {
        if known.contains(&key.as_str()) {
            let found = "a key that is varied already";
            return Err(plan.error(*place, key, found, "each key once"));
        }
        known.push(key);
    }
    Ok(())
}

/// Fails unless points times seeds are at most [`RUNS_MAX`].
fn check_count(plan: &Plan, root: &Table<'_, '_, '_>) -> Result<(), PlanError> {
    let mut count = plan.sources.len() as u128;
    for axis in &plan.axes {
        count *= axis.rows.len() as u128;
        if count > u128::from(RUNS_MAX) {
            let (key, place) = match axis.keys.first() {
                Some((key, place)) => (key.as_str(), *place),
                None => ("sample", read::place(root, "sample")),
            };
            let found = format!("{count} points");
            return Err(plan.error(place, key, found, format!("at most {RUNS_MAX} runs")));
        }
    }
    let count = count * u128::from(plan.seed_count);
    if count > u128::from(RUNS_MAX) {
        let expected = format!("at most {RUNS_MAX} runs");
        return Err(root.error("seeds", format!("{count} runs"), expected));
    }
    Ok(())
}
