//! Numbers of a sample whose ranges machine files and the kernel's costs state.
//!
//! A plan names numbers; their ranges stand beside them, in the machine file or in the declaration of a
//! cost. They are those that [`crate::sim::sensitivity`] varies. Two machines differ in them, so each
//! source and each row of the other axes has a list of its own. A point's share is the same in all
//! lists: the machines of one point lie at the same part of their ranges.

use std::path::Path;

use hitm_base::machine::Quantity;
use hitm_sweep::plan::{KeyType, Plan, SourceKind, Stated, is_within};
use hitm_sweep::table::{Cell, Column};
use hitm_sweep::value::Unit;
use rayon::prelude::*;

use super::points::{Source, load_options};
use super::{Error, index_of};
use crate::sim::{LoadOptions, Number, NumberPoint, Simulation, numbers_of, value_at};

/// The key of a plan that names the numbers.
const KEY: &str = "sample.stated";

/// Numbers with a stated range, and their shares at each point of the sample.
#[derive(Debug)]
pub(super) struct StatedNumbers {
    lists: Vec<List>,
    /// The list of each source with each row of the axes before the sample.
    list_of_base: Vec<u32>,
    /// Every varied number, in the order of appearance.
    columns: Vec<Column>,
    /// By row of the sample, then by column.
    shares: Vec<Vec<f64>>,
}

/// Numbers that take part together.
#[derive(Debug)]
struct List {
    numbers: Vec<Number>,
    /// The column of each number.
    columns: Vec<usize>,
}

impl StatedNumbers {
    /// Looks up the numbers that the plan names; none when it names none.
    ///
    /// # Errors
    /// Keys that no number has, more numbers than the method can vary, a plan of recordings.
    pub(super) fn of_plan(
        plan: &Plan,
        sources: &[Source],
        folder: &Path,
    ) -> Result<Option<StatedNumbers>, Error> {
        let Some(stated) = &plan.stated else {
            return Ok(None);
        };
        let place = stated.keys[0].1;
        if plan.kind == SourceKind::Recordings {
            let expected = "`scenarios`: a replay takes the machine as it is";
            return Err(plan.error(place, KEY, "recordings", expected).into());
        }
        let (all, list_of_base) = lists(plan, stated, sources, folder);
        check_keys(plan, stated, &all)?;
        let mut columns: Vec<Column> = Vec::new();
        let lists = all.into_iter().map(|numbers| {
            let named = numbers
                .into_iter()
                .filter(|number| stated.names(&number.key));
            List::of(named.collect(), &mut columns)
        });
        let lists: Vec<List> = lists.collect();
        if columns.len() > stated.number_count_max {
            let found = format!("{} numbers with a range", columns.len());
            let most = stated.number_count_max;
            let expected = format!("at most {most}, or method = \"latin-hypercube\"");
            return Err(plan.error(place, KEY, found, expected).into());
        }
        Ok(Some(StatedNumbers {
            shares: stated.shares(columns.len()),
            lists,
            list_of_base,
            columns,
        }))
    }

    /// The numbers of a point with their values, each with the index of its column.
    fn values(&self, point: u64) -> (&List, Vec<(usize, Quantity)>) {
        let row_count = self.shares.len() as u64;
        let list = &self.lists[self.list_of_base[(point / row_count) as usize] as usize];
        let shares = &self.shares[(point % row_count) as usize];
        let numbers = list.numbers.iter().zip(&list.columns).enumerate();
        let values =
            numbers.map(|(index, (number, column))| (index, value_at(number, shares[*column])));
        (list, values.collect())
    }

    /// Sets the numbers of a point.
    pub(super) fn apply(&self, point: u64, options: &mut LoadOptions) {
        let (list, values) = self.values(point);
        let values = NumberPoint::of(values);
        options.settings.extend(values.settings(&list.numbers));
        options.numbers = values.machine_numbers(&list.numbers);
    }

    /// A column for each number.
    pub(super) fn columns(&self) -> Vec<Column> {
        self.columns.clone()
    }

    /// Values of a point by column; a number that takes no part there has none.
    pub(super) fn cells(&self, point: u64) -> Vec<Cell> {
        let (list, values) = self.values(point);
        let mut cells = vec![Cell::Missing; self.columns.len()];
        for (index, value) in values {
            let column = list.columns[index];
            cells[column] = match self.columns[column].kind {
                KeyType::Text => Cell::Text(value.to_string()),
                _ => cell(value),
            };
        }
        cells
    }
}

impl List {
    /// Gives each number its column; a new one for a key that has none.
    fn of(numbers: Vec<Number>, columns: &mut Vec<Column>) -> List {
        let column_of = |number: &Number| {
            let (kind, unit) = column_type(number.value);
            let known = columns.iter_mut().enumerate();
            let mut known = known.filter(|(_, column)| column.name == number.key);
            if let Some((index, column)) = known.next() {
                // Machines that state a number in different units share no type but text.
                if (column.kind, column.unit.as_deref()) != (kind, unit) {
                    (column.kind, column.unit) = (KeyType::Text, None);
                }
                return index;
            }
            columns.push(Column {
                name: number.key.clone(),
                kind,
                unit: unit.map(str::to_owned),
                description: "A number that the plan varies over its stated range".to_owned(),
            });
            columns.len() - 1
        };
        List {
            columns: numbers.iter().map(column_of).collect(),
            numbers,
        }
    }
}

/// Distinct lists of all numbers with a range, and the list of each base: each source with each row
/// of the axes before the sample. A base that cannot be loaded has an empty list; its points say why.
fn lists(
    plan: &Plan,
    stated: &Stated,
    sources: &[Source],
    folder: &Path,
) -> (Vec<Vec<Number>>, Vec<u32>) {
    /// Bases that are loaded at a time: bounds the memory for their numbers.
    const BASES_AT_ONCE: u64 = 1_024;
    let row_count = stated.point_count as u64;
    let base_count = plan.point_count() / row_count;
    let (mut lists, mut list_of_base) = (Vec::new(), Vec::new());
    for first in (0..base_count).step_by(BASES_AT_ONCE as usize) {
        let bases: Vec<u64> = (first..base_count.min(first + BASES_AT_ONCE)).collect();
        let numbers = bases
            .par_iter()
            .map(|base| numbers_at(plan, sources, folder, base * row_count));
        let numbers: Vec<Vec<Number>> = numbers.collect();
        let indices = numbers.into_iter().map(|list| index_of(&mut lists, list));
        list_of_base.extend(indices);
    }
    (lists, list_of_base)
}

/// Numbers with a range of the scenario at a point.
fn numbers_at(plan: &Plan, sources: &[Source], folder: &Path, number: u64) -> Vec<Number> {
    let point = plan.point(number);
    let Source::Scenario {
        text,
        origin,
        folder: own,
    } = &sources[point.source]
    else {
        return Vec::new();
    };
    let options = load_options(plan, &point, folder);
    let simulation = Simulation::of_text(text, origin, own, &options);
    simulation.map_or_else(
        |_| Vec::new(),
        |simulation| numbers_of(simulation.machine_file(), simulation.scenario()),
    )
}

/// Refuses a key that no number has.
fn check_keys(plan: &Plan, stated: &Stated, lists: &[Vec<Number>]) -> Result<(), Error> {
    let keys = || lists.iter().flatten().map(|number| number.key.as_str());
    for (wanted, place) in &stated.keys {
        if keys().any(|key| is_within(key, wanted)) {
            continue;
        }
        let mut tables: Vec<&str> = Vec::new();
        for key in keys() {
            let table = key.rsplit_once('.').map_or(key, |(table, _)| table);
            if !tables.contains(&table) {
                tables.push(table);
            }
        }
        let expected = format!("a number with a range, or a table: {}", tables.join(", "));
        let found = format!("{wanted:?}, which no number of the scenarios lies in");
        return Err(plan.error(*place, KEY, found, expected).into());
    }
    Ok(())
}

/// Type and unit of a number's column.
fn column_type(value: Quantity) -> (KeyType, Option<&'static str>) {
    let whole = KeyType::Integer(Unit::None);
    match value {
        Quantity::Picos(_) => (KeyType::Float, Some("ns")),
        Quantity::Cycles(_) => (whole, Some("cycles")),
        Quantity::Kilohertz(_) => (KeyType::Float, Some("GHz")),
        Quantity::Bytes(_) => (whole, Some("bytes")),
        Quantity::Count(_, "") => (whole, None),
        Quantity::Count(_, word) => (whole, Some(word)),
        Quantity::Milli(_) => (KeyType::Float, None),
    }
}

/// A value in the unit of its column.
fn cell(value: Quantity) -> Cell {
    match value {
        Quantity::Picos(picos) => Cell::Float(picos as f64 / 1e3),
        Quantity::Kilohertz(khz) => Cell::Float(khz as f64 / 1e6),
        Quantity::Milli(milli) => Cell::Float(milli as f64 / 1e3),
        Quantity::Cycles(whole) | Quantity::Bytes(whole) | Quantity::Count(whole, _) => {
            Cell::Integer(whole as i64)
        }
    }
}

#[cfg(test)]
mod tests {
    use hitm_sweep::value::Value;

    use super::*;
    use crate::sweep::Sweep;

    const SCENARIO: &str = "schema = 1\nname = \"n\"\ndescription = \"d\"\nsource = \"s\"\n\
        [machine]\npreset = \"xeon-480\"\ncpus = 4\n\
        [[workload]]\nkind = \"hogs\"\n[run]\nduration = \"1ms\"\n";

    /// The sweep of a plan with a sample of `rest`.
    fn sweep(axes: &str, rest: &str) -> Result<Sweep, Error> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("n.toml"), SCENARIO).unwrap();
        let text = format!(
            "schema = 1\nname = \"p\"\nscenarios = \"n.toml\"\n{axes}[sample]\npoints = 16\n{rest}"
        );
        Sweep::of_text(&text, "plan.toml", folder.path())
    }

    fn mistake(rest: &str) -> String {
        sweep("", rest).unwrap_err().to_string()
    }

    #[test]
    fn each_sixteenth_of_each_range_has_a_point() {
        let sweep = sweep("", "stated = [\"machine\", \"kernel.costs\"]\n").unwrap();
        let stated = sweep.stated.as_ref().unwrap();
        let [list] = &stated.lists[..] else {
            panic!("one machine, one list");
        };
        assert!(list.numbers.len() > 20, "{}", list.numbers.len());
        for (index, number) in list.numbers.iter().enumerate() {
            let mut sixteenths: Vec<usize> = (0..16)
                .map(|row| (stated.shares[row][list.columns[index]] * 16.0) as usize)
                .collect();
            sixteenths.sort_unstable();
            assert_eq!(sixteenths, (0..16).collect::<Vec<_>>(), "{}", number.key);
            for row in 0..16 {
                let (_, values) = stated.values(row);
                let value = values[index].1.raw();
                assert!((number.low.raw()..=number.high.raw()).contains(&value));
            }
        }
        // Values reach the runs: no two points have a name in common.
        let names: std::collections::BTreeSet<String> = sweep
            .entries
            .iter()
            .map(|entry| format!("{:?}", entry.kind))
            .collect();
        assert_eq!(names.len(), 16);
    }

    #[test]
    fn machines_of_a_point_share_its_part_of_their_ranges() {
        let axes = "[[vary]]\nkey = \"machine\"\nvalues = [\"xeon-480\", \"icelake-2s\"]\n";
        let sweep = sweep(axes, "stated = \"machine.transfers\"\n").unwrap();
        let stated = sweep.stated.as_ref().unwrap();
        assert_eq!(stated.lists.len(), 2);
        let columns = stated.columns();
        assert!(
            columns
                .iter()
                .all(|c| c.name.starts_with("machine.transfers."))
        );
        // The first machine alone has the same points: a longer plan runs nothing again.
        let alone = self::sweep("", "stated = \"machine.transfers\"\n").unwrap();
        let name = |sweep: &Sweep, entry: usize| format!("{:?}", sweep.entries[entry].kind);
        assert!((0..16).all(|entry| name(&sweep, entry) == name(&alone, entry)));
        let dirty = |point: u64| {
            let at = columns
                .iter()
                .position(|c| c.name == "machine.transfers.remote.dirty");
            stated.cells(point)[at.unwrap()].clone()
        };
        // Between 110 and 250 ns on the first machine; published on the second.
        assert!(matches!(dirty(0), Cell::Float(nanos) if (110.0..=250.0).contains(&nanos)));
        assert_eq!(dirty(16), Cell::Missing);
    }

    #[test]
    fn ranges_of_the_plan_stand_beside_stated_ones() {
        let rest = "method = \"sobol\"\nstated = \"kernel.costs.function\"\n\
            [[sample.range]]\nkey = \"kernel.tick\"\nfrom = \"100/s\"\nto = \"1000/s\"\n";
        let sweep = sweep("", rest).unwrap();
        let columns = sweep.stated.as_ref().unwrap().columns();
        let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
        assert_eq!(
            (names, columns[0].unit.as_deref()),
            (vec!["kernel.costs.function"], Some("cycles"))
        );
        let point = sweep.plan.point(1);
        assert_eq!(point.settings[0].value, &Value::Text("550/s".to_owned()));
    }

    #[test]
    fn mistakes_have_a_place() {
        assert!(
            mistake("stated = [\"kernel.costs\", \"machine.transfer\"]\n").starts_with(
                "plan.toml:6:27: sample.stated: found \"machine.transfer\", which no number of the \
                 scenarios lies in, expected a number with a range, or a table: machine"
            )
        );
        let sobol = mistake("method = \"sobol\"\nstated = \"machine\"\n");
        assert!(
            sobol.starts_with("plan.toml:7:10: sample.stated: found "),
            "{sobol}"
        );
        assert!(sobol.ends_with("expected at most 10, or method = \"latin-hypercube\""));
        assert_eq!(
            mistake("seed = 1\n"),
            "plan.toml:4:1: sample.range: found 0 values, expected 1 to 10 values"
        );
    }
}
