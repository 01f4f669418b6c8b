//! A window of time of one layer, as a view in the terminal shows it.

use std::fmt::Debug;

use super::screen::{lock_detail, lock_rows};
use super::{LiveLocks, LockView, live_run};
use crate::Printout;

/// A table of which each row has one line, and may be looked at closely. A layer of the view implements this for what
/// it measures.
pub trait Window: Debug + Send {
    /// Number of rows.
    fn row_count(&self) -> usize;

    /// The name of a row, which it has in other windows too; none without such a row.
    fn key(&self, row: usize) -> Option<String>;

    /// A head and the rows, in at most `width` columns.
    fn rows(&self, width: usize) -> Printout;

    /// A row with all of its figures; nothing without such a row.
    fn detail(&self, row: usize, width: usize) -> Printout;

    /// The sentence that stands for a table without rows.
    fn nothing(&self) -> String;

    /// Sentences on means that are missing, and on what was lost.
    fn notes(&self) -> Vec<String>;

    /// The lock of a row, whose threads can be placed.
    fn lock(&self, _row: usize) -> Option<&LockView> {
        None
    }

    /// The host in a few words.
    fn host(&self) -> Option<String> {
        None
    }
}

impl Window for LiveLocks {
    fn row_count(&self) -> usize {
        self.locks.len()
    }

    fn key(&self, row: usize) -> Option<String> {
        Some(self.locks.get(row)?.lock.title())
    }

    fn rows(&self, width: usize) -> Printout {
        lock_rows(self, width)
    }

    fn detail(&self, row: usize, width: usize) -> Printout {
        let lock = self.locks.get(row);
        lock.map_or_else(Printout::new, |view| lock_detail(view, width))
    }

    fn nothing(&self) -> String {
        self.none_contended().to_owned()
    }

    fn notes(&self) -> Vec<String> {
        let missing = self.run.missing.iter();
        let mut notes: Vec<String> = missing.map(|text| format!("not used: {text}")).collect();
        for field in [live_run::lost_count, live_run::left_out_count] {
            let count = field.text(&self.run);
            if count != "0" {
                notes.push(format!("{} {count}: {}", field.title, field.description()));
            }
        }
        notes
    }

    fn lock(&self, row: usize) -> Option<&LockView> {
        self.locks.get(row)
    }

    fn host(&self) -> Option<String> {
        Some(format!(
            "{} CPUs, Linux {}",
            live_run::cpu_count.text(&self.run),
            live_run::kernel.text(&self.run)
        ))
    }
}
