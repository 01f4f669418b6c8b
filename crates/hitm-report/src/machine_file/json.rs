//! The JSON form of a machine.

use std::collections::BTreeMap;

use hitm_base::Distance;
use hitm_base::machine::{
    Item, MachineError, MachineFile, Quantity, Transfer, distance_key, present_distances,
};
use hitm_machine::Summary;
use serde_json::{Map, Value, json};

use super::tree::levels_of;
use crate::object::{Object, pretty};

/// Version of the JSON form.
const JSON_SCHEMA: u32 = 1;

/// Shows a machine to programs. `numbers` has every value of the file by key; `transfers` has the
/// engine's table, for the distances that the machine has. `places` are those of each CPU: half, package, die, node,
/// llc, cluster, core, thread.
pub fn show_json(file: &MachineFile) -> Result<String, MachineError> {
    let machine = file.resolve()?;
    let topology = &machine.topology;
    let transfers = |table: &[Transfer; Distance::COUNT]| -> Map<String, Value> {
        let row = |distance: Distance| {
            let transfer = table[distance.index()];
            let row = json!({
                "clean_cycles": transfer.clean.0,
                "dirty_cycles": transfer.dirty.0,
                "occupancy_cycles": transfer.occupancy.0,
            });
            (distance_key(distance).to_owned(), row)
        };
        present_distances(topology).into_iter().map(row).collect()
    };
    let numbers = file
        .items
        .keys()
        .map(|item| (item.path(), number(file, *item)));
    let numbers: BTreeMap<String, Object> = numbers.collect();
    let places = topology
        .cpus()
        .map(|cpu| json!(levels_of(topology.place(cpu))));
    let origin = &file.topology.origin;
    let all = Object::default()
        .with("schema", JSON_SCHEMA)
        .with("name", file.name.as_str())
        .with("description", file.description.as_str())
        .with("protocol", file.protocol.value.id())
        .with("clock_khz", machine.clock.khz())
        .with("cpu_count", topology.cpu_count())
        .with("core_count", topology.core_count())
        .with("llc_count", topology.llc_count())
        .with("node_count", topology.node_count())
        .with("package_count", topology.package_count())
        .with("places", places.collect::<Value>())
        .with("topology_origin", origin.text())
        .with("topology_assumed", origin.is_assumed())
        .with("numbers", numbers.into_iter().collect::<Object>())
        .with("transfers", transfers(&machine.transfers))
        .with(
            "transfers_away_from_home",
            transfers(&machine.transfers_away_from_home),
        );
    Ok(all.text())
}

/// A list of machines for programs.
pub fn list_json(machines: &[Summary]) -> String {
    pretty(&machines)
}

fn number(file: &MachineFile, item: Item) -> Object {
    let sourced = &file.items[&item];
    let clock = file.clock();
    let is_time = matches!(sourced.value, Quantity::Picos(_) | Quantity::Cycles(_));
    let range = sourced.range.as_ref();
    let origin = match sourced.origin.is_assumed() {
        true => "assumed",
        false => "source",
    };
    Object::default()
        .with("value", sourced.value.to_string())
        .with_some(
            "cycles",
            is_time.then(|| sourced.value.cycles(clock).0.max(1)),
        )
        .with_some(
            "ns",
            is_time.then(|| sourced.value.picos(clock) as f64 / 1_000.0),
        )
        .with_some(
            "range",
            range.map(|(low, high)| vec![low.to_string(), high.to_string()]),
        )
        .with(origin, sourced.origin.text())
}
