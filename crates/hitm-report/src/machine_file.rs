//! Presentation of a machine: its tree, its latencies in cycles and ns, and their sources.

mod json;
mod tree;

use hitm_base::Distance;
use hitm_base::machine::{
    CacheLevel, Home, Item, Machine, MachineError, MachineFile, Origin, Quantity, TransferPart,
    present_distances,
};
use hitm_machine::Summary;

use crate::Printout;

pub use json::{list_json, show_json};
use tree::tree_text;

/// One line for each machine.
pub fn list_text(machines: &[Summary]) -> Printout {
    let mut out = Printout::new();
    for one in machines {
        out.line(&format!(
            "{:16} {:5} CPUs  {}",
            one.name, one.cpu_count, one.description
        ));
    }
    out
}

/// Shows a machine to people: tree, latency table, other numbers, sources.
pub fn show_text(file: &MachineFile) -> Result<Printout, MachineError> {
    let machine = file.resolve()?;
    let mut sources = Sources::default();
    let mut out = Printout::new();
    out.line(&format!("{}: {}", file.name, file.description));
    let tree = sources.mark(&file.topology.origin);
    out.blank();
    out.line(&format!("Tree {tree}"));
    tree_text(&mut out, &machine.topology);
    latencies_text(&mut out, file, &machine, &mut sources);
    others_text(&mut out, file, &machine, &mut sources);
    out.blank();
    out.line("Sources");
    for (index, origin) in sources.seen.iter().enumerate() {
        let assumed = if origin.is_assumed() { "assumed: " } else { "" };
        out.line(&format!("  [{}] {assumed}{}", index + 1, origin.text()));
    }
    Ok(out)
}

/// Origins, in the order of their first reference.
#[derive(Default)]
struct Sources {
    seen: Vec<Origin>,
}

impl Sources {
    /// Returns `[3]`, with a question mark when the value is assumed.
    fn mark(&mut self, origin: &Origin) -> String {
        let index = match self.seen.iter().position(|seen| seen == origin) {
            Some(index) => index,
            None => {
                self.seen.push(origin.clone());
                self.seen.len() - 1
            }
        };
        let doubt = if origin.is_assumed() { "?" } else { "" };
        format!("[{}]{doubt}", index + 1)
    }
}

/// Description of a distance.
fn distance_words(distance: Distance) -> &'static str {
    match distance {
        Distance::Same => "same CPU",
        Distance::Smt => "same core",
        Distance::Cluster => "same cluster",
        Distance::Llc => "same LLC",
        Distance::Die => "same die",
        Distance::Package => "same package",
        Distance::Remote => "other package",
        Distance::FarRemote => "other half",
    }
}

/// One cell: cycles, ns and the source.
fn time_cell(file: &MachineFile, item: Item, sources: &mut Sources) -> String {
    let Some(sourced) = file.items.get(&item) else {
        return "-".into();
    };
    let clock = file.clock();
    let cycles = sourced.value.cycles(clock).0.max(1);
    let ns = sourced.value.picos(clock) as f64 / 1_000.0;
    format!("{cycles} ({ns:.1} ns) {}", sources.mark(&sourced.origin))
}

fn latencies_text(
    out: &mut Printout,
    file: &MachineFile,
    machine: &Machine,
    sources: &mut Sources,
) {
    let clock = machine.clock;
    out.blank();
    out.line("Latencies in cycles (ns) [source], ? assumed");
    let header = ["from", "clean copy", "modified", "line taken for"];
    let mut rows = vec![header.map(str::to_owned)];
    for home in [Home::Near, Home::Away] {
        for distance in present_distances(&machine.topology) {
            let item = |part| Item::Transfer(home, distance, part);
            if !file.items.contains_key(&item(TransferPart::Dirty)) {
                continue;
            }
            let (words, table) = match home {
                Home::Near => ("", &machine.transfers),
                Home::Away => (", home elsewhere", &machine.transfers_away_from_home),
            };
            let occupancy = match file.items.get(&item(TransferPart::Occupancy)) {
                Some(_) => time_cell(file, item(TransferPart::Occupancy), sources),
                None => {
                    let cycles = table[distance.index()].occupancy;
                    format!("{} ({:.1} ns)", cycles.0, clock.nanos(cycles).0)
                }
            };
            rows.push([
                format!("{}{words}", distance_words(distance)),
                time_cell(file, item(TransferPart::Clean), sources),
                time_cell(file, item(TransferPart::Dirty), sources),
                occupancy,
            ]);
        }
    }
    for row in &rows {
        let widths: Vec<usize> = (0..3)
            .map(|column| rows.iter().map(|row| row[column].len()).max().unwrap_or(0))
            .collect();
        let text = format!(
            "  {:w0$}  {:w1$}  {:w2$}  {}",
            row[0],
            row[1],
            row[2],
            row[3],
            w0 = widths[0],
            w1 = widths[1],
            w2 = widths[2],
        );
        out.line(text.trim_end());
    }
}

fn others_text(out: &mut Printout, file: &MachineFile, machine: &Machine, sources: &mut Sources) {
    out.blank();
    out.line("Caches, memory and core");
    let protocol = &file.protocol;
    let mark = sources.mark(&protocol.origin);
    out.line(&format!(
        "  {:24}{} {mark}",
        "protocol",
        protocol.value.id()
    ));
    for (item, sourced) in &file.items {
        if matches!(item, Item::Transfer(..)) {
            continue;
        }
        let value = match sourced.value {
            Quantity::Picos(_) | Quantity::Cycles(_) => time_cell(file, *item, sources),
            other => format!("{other} {}", sources.mark(&sourced.origin)),
        };
        out.line(&format!("  {:24}{value}", item.path()));
    }
    let last = CacheLevel::Llc.id();
    let llcs = machine.topology.llc_count();
    out.line(&format!(
        "  ({llcs} x {last}, one L1 and one L2 for each core)"
    ));
}

#[cfg(test)]
mod tests;
