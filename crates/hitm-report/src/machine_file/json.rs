//! The JSON form of a machine.

use std::collections::BTreeMap;

use hitm_base::Distance;
use hitm_base::machine::{
    Item, MachineError, MachineFile, Quantity, Transfer, distance_key, present_distances,
};
use hitm_machine::Summary;
use serde::Serialize;

use super::tree::levels_of;
use crate::object::pretty;

/// Version of the JSON form.
const JSON_SCHEMA: u32 = 1;

/// A number of the JSON form.
#[derive(Serialize)]
struct JsonNumber {
    value: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    cycles: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ns: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    range: Option<[String; 2]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    assumed: Option<String>,
}

/// The JSON form of a transfer as the engine uses it.
#[derive(Serialize)]
struct JsonTransfer {
    clean_cycles: u64,
    dirty_cycles: u64,
    occupancy_cycles: u64,
}

/// The JSON form of a machine.
#[derive(Serialize)]
struct JsonMachine<'a> {
    schema: u32,
    name: &'a str,
    description: &'a str,
    protocol: &'a str,
    clock_khz: u64,
    cpu_count: usize,
    core_count: usize,
    llc_count: usize,
    node_count: usize,
    package_count: usize,
    /// The place of each CPU: half, package, die, node, llc, cluster, core, thread.
    places: Vec<[u8; 8]>,
    topology_origin: &'a str,
    topology_assumed: bool,
    numbers: BTreeMap<String, JsonNumber>,
    transfers: BTreeMap<&'static str, JsonTransfer>,
    transfers_away_from_home: BTreeMap<&'static str, JsonTransfer>,
}

/// Shows a machine to programs. `numbers` has every value of the file by key; `transfers` has the
/// engine's table, for the distances that the machine has.
pub fn show_json(file: &MachineFile) -> Result<String, MachineError> {
    let machine = file.resolve()?;
    let topology = &machine.topology;
    let transfers = |table: &[Transfer; Distance::COUNT]| {
        let row = |distance: Distance| {
            let transfer = table[distance.index()];
            let row = JsonTransfer {
                clean_cycles: transfer.clean.0,
                dirty_cycles: transfer.dirty.0,
                occupancy_cycles: transfer.occupancy.0,
            };
            (distance_key(distance), row)
        };
        present_distances(topology).into_iter().map(row).collect()
    };
    let json = JsonMachine {
        schema: JSON_SCHEMA,
        name: &file.name,
        description: &file.description,
        protocol: file.protocol.value.name(),
        clock_khz: machine.clock.khz(),
        cpu_count: topology.cpu_count(),
        core_count: topology.core_count(),
        llc_count: topology.llc_count(),
        node_count: topology.node_count(),
        package_count: topology.package_count(),
        places: topology
            .cpus()
            .map(|cpu| levels_of(topology.place(cpu)))
            .collect(),
        topology_origin: file.topology.origin.text(),
        topology_assumed: file.topology.origin.is_assumed(),
        numbers: file
            .items
            .keys()
            .map(|item| json_number(file, *item))
            .collect(),
        transfers: transfers(&machine.transfers),
        transfers_away_from_home: transfers(&machine.transfers_away_from_home),
    };
    Ok(pretty(&json))
}

/// A list of machines for programs.
pub fn list_json(machines: &[Summary]) -> String {
    pretty(&machines)
}

fn json_number(file: &MachineFile, item: Item) -> (String, JsonNumber) {
    let sourced = &file.items[&item];
    let clock = file.clock();
    let is_time = matches!(sourced.value, Quantity::Picos(_) | Quantity::Cycles(_));
    let text = sourced.origin.text().to_owned();
    let (source, assumed) = if sourced.origin.is_assumed() {
        (None, Some(text))
    } else {
        (Some(text), None)
    };
    let number = JsonNumber {
        value: sourced.value.to_string(),
        cycles: is_time.then(|| sourced.value.cycles(clock).0.max(1)),
        ns: is_time.then(|| sourced.value.picos(clock) as f64 / 1_000.0),
        range: sourced
            .range
            .map(|(low, high)| [low.to_string(), high.to_string()]),
        source,
        assumed,
    };
    (item.path(), number)
}
