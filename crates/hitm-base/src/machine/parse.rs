//! TOML text -> [`MachineFile`], with the place of every mistake.
//!
//! The document is walked by hand, not through serde: an error must name the full key and its line,
//! also for numbers that only contradict each other.

use std::collections::{BTreeMap, BTreeSet};

use toml::de::{DeTable, DeValue};

use super::file::{MachineError, MachineFile, Origin, Places, Sourced, TopologySpec};
use super::item::Item;
use super::quantity::Quantity;
use super::{Machine, Protocol};
use crate::document::{TextLines, Value, line_of_words, words_expected};
use crate::{CpuPlace, Numbering, Topology, TopologyShape, of_word};

/// Longest file that is read: the largest machine listed CPU by CPU takes a quarter of it.
const TEXT_BYTES_MAX: usize = 1 << 20;
/// The only version of the format.
const SCHEMA: &str = "1";

/// Keys of the top level and of `[topology]` that are no [`Item`].
const ROOT_KEYS: [&str; 5] = ["schema", "name", "description", "protocol", "topology"];
const SHAPE_KEYS: [&str; 8] = [
    "halves", "packages", "dies", "nodes", "llcs", "clusters", "cores", "threads",
];

impl MachineFile {
    /// Reads a machine file; `origin` is its name in errors. Text of any kind gives a file that
    /// resolves, or an error with its place.
    pub fn parse(text: &str, origin: &str) -> Result<MachineFile, MachineError> {
        if text.len() > TEXT_BYTES_MAX {
            return Err(MachineError {
                origin: origin.into(),
                line: None,
                key: None,
                found: format!("{} bytes", text.len()),
                expected: format!("a machine file of at most {TEXT_BYTES_MAX} bytes"),
            });
        }
        let lines = TextLines::of(text);
        let document = DeTable::parse(text).map_err(|error| MachineError {
            origin: origin.into(),
            line: error.span().map(|span| lines.place(span.start).line),
            key: None,
            found: format!("no TOML ({})", error.message()),
            expected: "a machine file as docs/formats/machine.md describes it".into(),
        })?;
        let mut reader = Reader {
            lines,
            places: Places {
                origin: origin.into(),
                lines: BTreeMap::new(),
            },
            items: BTreeMap::new(),
        };
        let file = reader.file(document.get_ref())?;
        file.resolve_at(&reader.places)?;
        Ok(file)
    }
}

impl Machine {
    /// Reads a machine file and resolves it; `origin` is the file's name in errors.
    pub fn from_toml(text: &str, origin: &str) -> Result<Machine, MachineError> {
        MachineFile::parse(text, origin)?.resolve()
    }
}

struct Reader<'t> {
    lines: TextLines<'t>,
    places: Places,
    items: BTreeMap<Item, Sourced<Quantity>>,
}

impl Reader<'_> {
    fn file(&mut self, root: &DeTable<'_>) -> Result<MachineFile, MachineError> {
        self.note_lines("", root);
        let schema = self.member(root, "", "schema", "schema = 1")?;
        if scalar(schema).as_deref() != Some(SCHEMA) {
            return Err(self.places.error("schema", describe(schema), "1"));
        }
        let name = self.words(root, "", "name")?;
        let description = self.words(root, "", "description")?;
        let protocol = self.protocol(root)?;
        let topology = self.topology(root)?;
        let by_path: BTreeMap<String, Item> = Item::all()
            .into_iter()
            .map(|item| (item.path(), item))
            .collect();
        self.walk("", root, &by_path)?;
        let items = std::mem::take(&mut self.items);
        Ok(MachineFile {
            name,
            description,
            topology,
            protocol,
            items,
        })
    }

    /// Collects the items below `table`, whose path is `prefix`.
    fn walk(
        &mut self,
        prefix: &str,
        table: &DeTable<'_>,
        by_path: &BTreeMap<String, Item>,
    ) -> Result<(), MachineError> {
        for (key, value) in table.iter() {
            let key = key.get_ref().as_ref();
            if prefix.is_empty() && ROOT_KEYS.contains(&key) {
                continue;
            }
            let path = join(prefix, key);
            if let Some(item) = by_path.get(&path) {
                let sourced = self.item(*item, &path, value)?;
                self.items.insert(*item, sourced);
                continue;
            }
            let below = format!("{path}.");
            if !by_path.keys().any(|known| known.starts_with(&below)) {
                let known = children(prefix, by_path);
                return Err(self.places.error(&path, "an unknown key", one_of(&known)));
            }
            let inner = self.table(&path, value)?;
            self.note_lines(&path, inner);
            self.walk(&path, inner, by_path)?;
        }
        Ok(())
    }

    fn item(
        &mut self,
        item: Item,
        path: &str,
        value: &Value<'_>,
    ) -> Result<Sourced<Quantity>, MachineError> {
        let inner = self.table(path, value)?;
        let expected = item.dimension().expected();
        let stated = self.member(inner, path, "value", &expected)?;
        let quantity = scalar(stated)
            .and_then(|text| item.dimension().parse(&text))
            .ok_or_else(|| self.places.error(path, describe(stated), expected))?;
        Ok(Sourced {
            value: quantity,
            origin: self.origin(inner, path, &["value", "range"])?,
            range: self.range(item, path, inner, quantity)?,
        })
    }

    /// The range beside a value, in the value's unit.
    fn range(
        &self,
        item: Item,
        path: &str,
        table: &DeTable<'_>,
        value: Quantity,
    ) -> Result<Option<(Quantity, Quantity)>, MachineError> {
        let Some(stated) = table.get("range") else {
            return Ok(None);
        };
        let end = |value: &Value<'_>| item.dimension().parse(&scalar(value)?);
        let ends = match stated.get_ref().as_array() {
            Some(ends) if ends.len() == 2 => end(&ends[0]).zip(end(&ends[1])),
            _ => None,
        };
        let is_range = |(low, high): &(Quantity, Quantity)| {
            let kinds = [low, high].map(std::mem::discriminant);
            kinds == [std::mem::discriminant(&value); 2]
                && (low.raw()..=high.raw()).contains(&value.raw())
        };
        let path = join(path, "range");
        ends.filter(is_range).map(Some).ok_or_else(|| {
            let expected = format!("[least, largest] around {value}, in the same unit");
            let mut error = self.places.error(&path, describe(stated), expected);
            error.line = Some(self.lines.place(stated.span().start).line);
            error
        })
    }

    fn protocol(&mut self, root: &DeTable<'_>) -> Result<Sourced<Protocol>, MachineError> {
        let expected = "{ value = \"mesi\", \"mesif\" or \"moesi\", source = ... }";
        let value = self.member(root, "", "protocol", expected)?;
        let inner = self.table("protocol", value)?;
        let stated = self.member(inner, "protocol", "value", expected)?;
        let protocol = stated
            .get_ref()
            .as_str()
            .and_then(|name| of_word(&Protocol::WORDS, name))
            .ok_or_else(|| self.places.error("protocol", describe(stated), expected))?;
        Ok(Sourced {
            value: protocol,
            origin: self.origin(inner, "protocol", &["value"])?,
            range: None,
        })
    }

    fn topology(&mut self, root: &DeTable<'_>) -> Result<Sourced<TopologySpec>, MachineError> {
        let value = self.member(root, "", "topology", "a table [topology]")?;
        let table = self.table("topology", value)?;
        self.note_lines("topology", table);
        let mut known = vec!["numbering", "cpus"];
        known.extend(SHAPE_KEYS);
        let origin = self.origin(table, "topology", &known)?;
        let value = match table.get("cpus") {
            Some(cpus) => {
                if let Some(key) = known
                    .iter()
                    .find(|key| **key != "cpus" && table.contains_key(**key))
                {
                    let path = join("topology", key);
                    return Err(self
                        .places
                        .error(&path, "counts beside `cpus`", "one of the two"));
                }
                TopologySpec::Places(self.cpus(cpus)?)
            }
            None => TopologySpec::Uniform(self.shape(table)?),
        };
        Ok(Sourced {
            value,
            origin,
            range: None,
        })
    }

    fn shape(&self, table: &DeTable<'_>) -> Result<TopologyShape, MachineError> {
        let mut counts = [1u8; 8];
        for (key, count) in SHAPE_KEYS.iter().zip(&mut counts) {
            let Some(value) = table.get(*key) else {
                continue;
            };
            *count = scalar(value)
                .and_then(|text| text.parse().ok())
                .filter(|count| *count > 0)
                .ok_or_else(|| {
                    let path = join("topology", key);
                    self.places
                        .error(&path, describe(value), "a count between 1 and 255")
                })?;
        }
        let [
            halves,
            packages,
            dies,
            nodes,
            llcs,
            mut clusters,
            mut cores,
            threads,
        ] = counts;
        if !table.contains_key("clusters") {
            // Without a level between LLC and core, every core is a cluster of its own.
            (clusters, cores) = (cores, 1);
        }
        let numbering = match table.get("numbering") {
            None => Numbering::CoresFirst,
            Some(value) => match value.get_ref().as_str() {
                Some("cores-first") => Numbering::CoresFirst,
                Some("threads-adjacent") => Numbering::ThreadsAdjacent,
                _ => {
                    let expected = "\"cores-first\" or \"threads-adjacent\"";
                    return Err(self
                        .places
                        .error("topology.numbering", describe(value), expected));
                }
            },
        };
        Ok(TopologyShape {
            halves,
            packages,
            dies,
            nodes,
            llcs,
            clusters,
            cores,
            threads,
            numbering,
        })
    }

    fn cpus(&self, value: &Value<'_>) -> Result<Vec<CpuPlace>, MachineError> {
        let expected = "an array of places, each [half, package, die, node, llc, cluster, core, \
                        thread] with numbers from 0 to 255";
        let error = |found: String| self.places.error("topology.cpus", found, expected);
        let list = value
            .get_ref()
            .as_array()
            .ok_or_else(|| error(describe(value)))?;
        if list.len() > Topology::CPUS_MAX {
            return Err(error(format!(
                "{} CPUs, {} at most",
                list.len(),
                Topology::CPUS_MAX
            )));
        }
        let place = |(cpu, value): (usize, &Value<'_>)| {
            let numbers = value
                .get_ref()
                .as_array()
                .filter(|numbers| numbers.len() == 8);
            let mut place = [0u8; 8];
            for (index, slot) in place.iter_mut().enumerate() {
                *slot = numbers
                    .and_then(|numbers| scalar(&numbers[index])?.parse().ok())
                    .ok_or_else(|| error(format!("{} for CPU {cpu}", describe(value))))?;
            }
            let [half, package, die, node, llc, cluster, core, thread] = place;
            Ok(CpuPlace {
                half,
                package,
                die,
                node,
                llc,
                cluster,
                core,
                thread,
            })
        };
        list.iter().enumerate().map(place).collect()
    }

    /// The `source` or `assumed` of a table that may also hold the keys `known`.
    fn origin(
        &self,
        table: &DeTable<'_>,
        path: &str,
        known: &[&str],
    ) -> Result<Origin, MachineError> {
        for key in table.keys() {
            let key = key.get_ref().as_ref();
            if !known.contains(&key) && !["source", "assumed"].contains(&key) {
                let mut known: BTreeSet<String> = known.iter().map(|key| (*key).into()).collect();
                known.extend(["source".into(), "assumed".into()]);
                let mut error = self.places.error(path, "an unknown key", one_of(&known));
                error.found = format!("the unknown key {key:?}");
                return Err(error);
            }
        }
        match (table.contains_key("source"), table.contains_key("assumed")) {
            (true, false) => Ok(Origin::Source(self.words(table, path, "source")?)),
            (false, true) => Ok(Origin::Assumed(self.words(table, path, "assumed")?)),
            (both, _) => {
                let found = if both {
                    "both `source` and `assumed`"
                } else {
                    "no origin"
                };
                let expected = "`source = \"where it was measured\"` or `assumed = \"its range and \
                                effect\"`";
                Err(self.places.error(path, found, expected))
            }
        }
    }

    /// A line of words: no control characters, which could drive a terminal.
    fn words(&self, table: &DeTable<'_>, path: &str, key: &str) -> Result<String, MachineError> {
        let expected = words_expected();
        let value = self.member(table, path, key, &expected)?;
        line_of_words(value).ok_or_else(|| {
            let path = join(path, key);
            self.places.error(&path, describe(value), expected)
        })
    }

    fn member<'a, 'i>(
        &self,
        table: &'a DeTable<'i>,
        path: &str,
        key: &str,
        expected: &str,
    ) -> Result<&'a Value<'i>, MachineError> {
        table.get(key).ok_or_else(|| {
            let mut error = self.places.error(&join(path, key), "no such key", expected);
            error.line = error.line.or_else(|| self.places.lines.get(path).copied());
            error
        })
    }

    fn table<'a, 'i>(
        &self,
        path: &str,
        value: &'a Value<'i>,
    ) -> Result<&'a DeTable<'i>, MachineError> {
        value.get_ref().as_table().ok_or_else(|| {
            let expected = "a table, such as { value = \"34cycles\", source = \"...\" }";
            self.places.error(path, describe(value), expected)
        })
    }

    fn note_lines(&mut self, prefix: &str, table: &DeTable<'_>) {
        for (key, _) in table.iter() {
            let line = self.lines.place(key.span().start).line;
            self.places.lines.insert(join(prefix, key.get_ref()), line);
        }
    }
}

/// The text of a string or number.
fn scalar(value: &Value<'_>) -> Option<String> {
    match value.get_ref() {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(integer) if integer.radix() == 10 => Some(integer.as_str().to_owned()),
        DeValue::Float(float) => Some(float.as_str().to_owned()),
        _ => None,
    }
}

/// A value as an error message shows it.
fn describe(value: &Value<'_>) -> String {
    const CHARS_MAX: usize = 60;
    match (value.get_ref(), scalar(value)) {
        (DeValue::String(_), Some(text)) if text.chars().count() <= CHARS_MAX => {
            format!("{text:?}")
        }
        (DeValue::String(_), Some(text)) => {
            format!("{:?}...", text.chars().take(CHARS_MAX).collect::<String>())
        }
        (_, Some(text)) if text.len() <= CHARS_MAX => text,
        (other, _) => format!("a value of type {}", other.type_str()),
    }
}

fn join(prefix: &str, key: &str) -> String {
    if prefix.is_empty() {
        key.to_owned()
    } else {
        format!("{prefix}.{key}")
    }
}

/// The keys that a table may hold.
fn children(prefix: &str, by_path: &BTreeMap<String, Item>) -> BTreeSet<String> {
    let below = if prefix.is_empty() {
        String::new()
    } else {
        format!("{prefix}.")
    };
    let mut keys: BTreeSet<String> = by_path
        .keys()
        .filter_map(|path| path.strip_prefix(&below))
        .filter_map(|rest| rest.split('.').next())
        .map(str::to_owned)
        .collect();
    if prefix.is_empty() {
        keys.extend(ROOT_KEYS.map(str::to_owned));
    }
    keys
}

fn one_of(keys: &BTreeSet<String>) -> String {
    format!(
        "one of {}",
        keys.iter().cloned().collect::<Vec<_>>().join(", ")
    )
}
