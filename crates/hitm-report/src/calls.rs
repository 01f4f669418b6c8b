//! Accesses of each function of a scheduler to shared memory per call, as a table in CSV: of a
//! recorded kernel, or of the simulated one.
//!
//! Accesses are those of the function's own instructions, with what the compiler has put into it, and
//! not those of what it calls. Places are told apart by object and member without numbers. Lines that
//! one CPU alone uses are counted by the recorder as private and are not in the table.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use hitm::sim::Outcome;
use hitm_base::{AccessOp, CodeAddr};
use hitm_recording::{DataLabel, Recording};
use hitm_trace::CALLS_OF;

use crate::Names;
use crate::tables::name_field;

/// The titles of the columns.
const TITLES: &str =
    "function,calls,member,loads,stores,rmws,loads_per_call,stores_per_call,rmws_per_call";

/// Loads, stores and locked read-modify-writes.
pub type Accesses = [u64; 3];

/// The table; docs/formats/calls.md describes it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CallTable {
    /// Calls of each function that was called and counted.
    pub calls: BTreeMap<String, u64>,
    /// Accesses of those functions, by function and place.
    pub accesses: BTreeMap<(String, String), Accesses>,
}

impl CallTable {
    /// Adds the rows of a recorded kernel, or of a part of its lines. The table stays empty when the
    /// recording counts no calls.
    pub fn add_recording(&mut self, recording: &Recording) {
        let names: &dyn Names = &recording.names();
        self.calls = calls(recording, names);
        for (line, stats) in &recording.statistics.lines {
            for (key, row) in &stats.rows {
                let function = names.code(key.code).function;
                if !self.calls.contains_key(&function) {
                    continue;
                }
                let addr = line.first_byte() + u64::from(key.offset);
                let member = match names.data(addr, key.size) {
                    Some(name) => place(name),
                    None => "without a name".to_owned(),
                };
                let count = row.sources.total();
                let accesses = match key.op {
                    AccessOp::Load => [count, 0, 0],
                    AccessOp::Store => [0, count, 0],
                    AccessOp::LockedRmw | AccessOp::Fence => [0, 0, count],
                };
                self.add(function, member, accesses);
            }
        }
    }

    /// Of a simulated kernel. Counts are of the time after the warm-up, calls of the whole run: there
    /// should be none.
    pub fn of_simulation(outcome: &Outcome) -> CallTable {
        let calls = outcome.calls.iter();
        let mut table = CallTable {
            calls: calls
                .map(|(name, count)| ((*name).to_owned(), *count))
                .collect(),
            accesses: BTreeMap::new(),
        };
        for line in &outcome.lines {
            for row in &line.rows {
                let is_pointed_to = line.object.ends_with("->");
                let name = DataLabel {
                    object: line.object.clone(),
                    member: match is_pointed_to {
                        true => String::new(),
                        false => format!(".{}", row.member),
                    },
                    ..DataLabel::default()
                };
                if table.calls.contains_key(row.function) {
                    let locked = row.locked;
                    let accesses = [
                        row.counts.loads - locked,
                        row.counts.stores - locked,
                        locked,
                    ];
                    table.add(row.function.to_owned(), place(name), accesses);
                }
            }
        }
        table
    }

    fn add(&mut self, function: String, member: String, accesses: Accesses) {
        let sum = self.accesses.entry((function, member)).or_default();
        for (sum, count) in sum.iter_mut().zip(accesses) {
            *sum += count;
        }
    }

    /// The table as CSV.
    pub fn csv(&self) -> String {
        let mut text = format!("{TITLES}\n");
        for ((function, member), accesses) in &self.accesses {
            let call_count = self.calls[function];
            let (function, member) = (name_field(function), name_field(member));
            let _ = write!(text, "{function},{call_count},{member}");
            for count in accesses {
                let _ = write!(text, ",{count}");
            }
            for count in accesses {
                let _ = write!(text, ",{:.4}", *count as f64 / call_count as f64);
            }
            text.push('\n');
        }
        text
    }
}

/// Calls of each function that was called.
fn calls(recording: &Recording, names: &dyn Names) -> BTreeMap<String, u64> {
    let mut calls = BTreeMap::new();
    for (name, count) in recording.counters().filter(|(_, count)| *count > 0) {
        let digits = name.strip_prefix(CALLS_OF);
        if let Some(at) = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok()) {
            let function = names.code(CodeAddr(at)).function;
            *calls.entry(function).or_default() += count;
        }
    }
    calls
}

/// A member, or all bytes of an object that has none.
fn place(mut name: DataLabel) -> String {
    if name.member.starts_with('+') {
        name.member = " (bytes)".to_owned();
    }
    name.without_numbers()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stays_in_its_field() {
        let mut table = CallTable::default();
        table.calls.insert("run<int, \"a\">".to_owned(), 4);
        table.calls.insert("plain".to_owned(), 1);
        let function = "run<int, \"a\">".to_owned();
        table.add(function, "rq.a\nplain,9".to_owned(), [2, 0, 4]);
        table.add("plain".to_owned(), "rq.b\x1b".to_owned(), [1, 0, 0]);
        table.calls.insert("=cmd".to_owned(), 2);
        table.add("=cmd".to_owned(), "-x".to_owned(), [0, 2, 0]);
        let rows = [
            TITLES,
            "'=cmd,2,'-x,0,2,0,0.0000,1.0000,0.0000",
            "plain,1,rq.b\x1b,1,0,0,1.0000,0.0000,0.0000",
            "\"run<int, \"\"a\"\">\",4,\"rq.a\nplain,9\",2,0,4,0.5000,0.0000,1.0000",
            "",
        ];
        assert_eq!(table.csv(), rows.join("\n"));
    }
}
