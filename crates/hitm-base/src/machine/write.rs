//! [`MachineFile`] -> TOML text that parses to the same file.

use std::fmt::Write;

use super::file::{MachineFile, Origin, TopologySpec, shape_counts};
use super::item::Item;
use super::quantity::Quantity;
use crate::{Numbering, TopologyShape};

impl MachineFile {
    /// The file as TOML.
    pub fn to_toml(&self) -> String {
        let mut out = String::new();
        line(&mut out, format_args!("schema = 1"));
        line(&mut out, format_args!("name = {}", quote(&self.name)));
        line(
            &mut out,
            format_args!("description = {}", quote(&self.description)),
        );
        let protocol = quote(self.protocol.value.id());
        line(
            &mut out,
            format_args!("protocol = {}", inline(&protocol, &self.protocol.origin)),
        );
        let mut table = String::new();
        for item in Item::all() {
            let Some(sourced) = self.items.get(&item) else {
                continue;
            };
            if item.table() != table {
                if table.is_empty() {
                    self.write_topology(&mut out);
                }
                table = item.table();
                line(&mut out, format_args!("\n[{table}]"));
            }
            let mut value = quantity(sourced.value);
            if let Some((low, high)) = sourced.range {
                let _ = write!(value, ", range = [{}, {}]", quantity(low), quantity(high));
            }
            line(
                &mut out,
                format_args!("{} = {}", item.key(), inline(&value, &sourced.origin)),
            );
        }
        if table.is_empty() {
            self.write_topology(&mut out);
        }
        out
    }

    fn write_topology(&self, out: &mut String) {
        line(out, format_args!("\n[topology]"));
        let (word, text) = origin_of(&self.topology.origin);
        line(out, format_args!("{word} = {}", quote(text)));
        match &self.topology.value {
            TopologySpec::Uniform(shape) => write_shape(out, shape),
            TopologySpec::Places(places) => {
                line(
                    out,
                    format_args!("# half, package, die, node, llc, cluster, core, thread"),
                );
                line(out, format_args!("cpus = ["));
                for p in places {
                    let place = [
                        p.half, p.package, p.die, p.node, p.llc, p.cluster, p.core, p.thread,
                    ];
                    line(out, format_args!("    {place:?},"));
                }
                line(out, format_args!("]"));
            }
        }
    }
}

fn write_shape(out: &mut String, shape: &TopologyShape) {
    // Cores that are clusters of their own: the file leaves the level out.
    let flat = shape.cores == 1;
    for (key, count) in shape_counts(shape) {
        match key {
            "clusters" if flat => {}
            "clusters" => line(out, format_args!("clusters = {count}")),
            "cores" if flat => line(out, format_args!("cores = {}", shape.clusters)),
            "cores" | "threads" => line(out, format_args!("{key} = {count}")),
            _ if count == 1 => {}
            _ => line(out, format_args!("{key} = {count}")),
        }
    }
    let numbering = match shape.numbering {
        Numbering::CoresFirst => "cores-first",
        Numbering::ThreadsAdjacent => "threads-adjacent",
    };
    line(out, format_args!("numbering = {}", quote(numbering)));
}

fn quantity(quantity: Quantity) -> String {
    let text = quantity.to_string();
    if quantity.is_bare() {
        text
    } else {
        quote(&text)
    }
}

fn inline(value: &str, origin: &Origin) -> String {
    let (word, text) = origin_of(origin);
    format!("{{ value = {value}, {word} = {} }}", quote(text))
}

fn origin_of(origin: &Origin) -> (&'static str, &str) {
    match origin {
        Origin::Source(text) => ("source", text),
        Origin::Assumed(text) => ("assumed", text),
    }
}

fn quote(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    writeln!(out, "{text}").expect("writing to a String cannot fail");
}
