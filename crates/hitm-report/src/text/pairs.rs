//! Pairs of functions that contend.

use super::Writer;
use super::style::Style;
use super::table::{FieldTable, Shown};
use crate::fields::{Field, Value, pair};
use crate::model::Report;
use crate::pairs::Pair;

const COLUMNS: &[Field<Pair>] = &[
    pair::handover_count,
    pair::hitm_count,
    pair::lost_cycles,
    pair::lost_share,
    pair::giver,
    pair::taker,
];

impl Writer {
    pub(super) fn pairs(&mut self, report: &Report) {
        let mut groups = report
            .pairs
            .chunk_by(|one, next| one.finding == next.finding);
        if let Some(all) = groups.next() {
            self.title("By pair: the function that used a line before, and the one that took it");
            self.pair_table(all);
        }
        for group in groups {
            let number = group.first().and_then(|first| first.finding);
            let mut findings = report.findings.iter();
            if let Some(of) = findings.find(|one| Some(one.number) == number) {
                self.out.blank();
                self.sentence(Style::Bold, &format!("{} {}", of.number, of.name));
                self.pair_table(group);
            }
        }
    }

    fn pair_table(&mut self, pairs: &[Pair]) {
        let mut table = FieldTable::new(COLUMNS);
        for one in pairs {
            let unknown = |field: Field<Pair>, name: &str| match name {
                "" => Some(Shown::new(field, Value::Text("(not known)".to_owned()))),
                _ => None,
            };
            let giver = unknown(pair::giver, &one.giver);
            let taker = unknown(pair::taker, &one.taker);
            let cells: Vec<Shown<Pair>> = giver.into_iter().chain(taker).collect();
            let cells = table.cells_with(one, &cells);
            table.table.push(cells);
        }
        self.table(&table.table);
    }
}
