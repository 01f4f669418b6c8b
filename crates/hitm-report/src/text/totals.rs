//! The totals of all events, and of a whole machine where one was recorded.

use hitm_base::grouped;

use super::Writer;
use super::style::Style;
use super::table::{Align, Column, Table, pairs};
use crate::fields::{Field, machine, run, source, totals};
use crate::model::Report;

impl Writer {
    pub(super) fn totals(&mut self, report: &Report) {
        self.title("Event totals");
        let totals = &report.totals;
        let counts = &totals.counts;
        let mut table = Table::new(vec![
            Column::new(
                match report.run.sampled {
                    Some(_) => "samples",
                    None => "accesses to shared lines",
                },
                Align::Left,
            ),
            Column::new("loads", Align::Right),
            Column::new("stores", Align::Right),
            Column::new("locked", Align::Right),
        ]);
        for source in source::ALL {
            let columns = [&counts.loads, &counts.stores, &counts.locked];
            let mut cells = vec![source.title.to_owned()];
            cells.extend(columns.map(|counts| source.text(counts)));
            if cells[1..].iter().any(|cell| cell != "0") {
                table.push(cells);
            }
        }
        let sums = [
            totals::load_count,
            totals::store_count,
            totals::locked_count,
        ];
        let mut cells = vec!["all".to_owned()];
        cells.extend(sums.map(|field| field.text(totals)));
        table.push(cells);
        self.table(&table);
        let figure = |field: Field<_>| field.text(totals);
        if report.run.sampled.is_some() {
            let mut text = format!("  sampled lines: {}", figure(totals::line_count));
            if totals.tlb_known_count > 0 {
                text += &format!(
                    "; TLB misses: {} of {} samples that say so, {}",
                    figure(totals::tlb_miss_count),
                    figure(totals::tlb_known_count),
                    figure(totals::tlb_miss_share)
                );
            }
            self.sentence(Style::Plain, &text);
            return;
        }
        let private = run::private_access_count.text(&report.run);
        self.sentence(
            Style::Plain,
            &format!(
                "private accesses, counted only: {private}; shared lines: {}",
                figure(totals::line_count)
            ),
        );
        self.sentence(
            Style::Bold,
            &format!(
                "lost to contention: {} of {} thread cycles, {}",
                figure(totals::lost_cycles),
                figure(totals::thread_cycles),
                figure(totals::run_share)
            ),
        );
        self.machine(report);
    }

    fn machine(&mut self, report: &Report) {
        let Some(machine) = &report.of_machine else {
            return;
        };
        let figure = |field: Field<_>| field.text(machine);
        let named = pairs(
            machine,
            &[
                machine::object_hitm_count,
                machine::variable_hitm_count,
                machine::typed_hitm_count,
                machine::slab_hitm_count,
                machine::program_hitm_count,
            ],
        );
        let text = format!(
            "  HITM with a name: {} of {} ({named})",
            figure(machine::named_share),
            figure(machine::hitm_count)
        );
        self.sentence(Style::Bold, &text);
        let text = format!(
            "  from user space: {} accesses; left out: {} accesses to devices",
            figure(machine::user_access_count),
            figure(machine::device_access_count)
        );
        self.sentence(Style::Plain, &text);
        let unnamed = machine.unnamed.iter().map(|one| {
            let count = grouped(one.hitm_count);
            format!("{} {count} ({:#x})", one.function, one.address)
        });
        let unnamed = unnamed.collect::<Vec<String>>().join(", ");
        if !unnamed.is_empty() {
            self.paragraph(Style::Plain, "HITM without a name", &unnamed);
        }
    }
}
