//! Walking over the children of an entry.
//!
//! An entry's children are found by reading all that lies below it: references to the next sibling are
//! optional, and may lie. A type in a type in a type would be read once for each type around it. So a
//! walk notes where what it passed over ends, and the next walk goes on from there.

use std::cell::RefCell;
use std::collections::BTreeMap;

use super::die::{Die, Step, Walker};
use super::sources::View;
use super::units::{DieRef, Unit};

/// Ends of what lies below entries, as walks have found them.
#[derive(Debug, Default)]
pub(crate) struct Extents(RefCell<BTreeMap<DieRef, u32>>);

impl Extents {
    /// Entries whose ends are kept, some 10 MiB. When there are more, all are forgotten.
    const KEPT_MAX: usize = 1 << 18;

    /// Fewer bytes than this are read again.
    const BYTES_MIN: u32 = 64;

    fn end(&self, at: DieRef) -> Option<u32> {
        self.0.borrow().get(&at).copied()
    }

    fn note(&self, at: DieRef, end: u32) {
        if end - at.offset < Extents::BYTES_MIN {
            return;
        }
        let mut known = self.0.borrow_mut();
        if known.len() >= Extents::KEPT_MAX {
            known.clear();
        }
        known.insert(at, end);
    }
}

/// A walk over the children of an entry.
#[derive(Debug)]
pub(crate) struct Children<'u, 'a> {
    walker: Walker<'u, 'a>,
    extents: &'u Extents,
    unit: u32,
    /// The entry that was stepped to last, below those that it lies in.
    open: Vec<Step>,
    /// Depth of the entries that count as children.
    depth: isize,
}

impl<'u, 'a> Children<'u, 'a> {
    pub(crate) fn of(
        view: &View<'a>,
        unit: &'u Unit<'a>,
        parent: DieRef,
    ) -> gimli::Result<Children<'u, 'a>>
    where
        'a: 'u,
    {
        Ok(Children {
            walker: Walker::new(unit, Some(parent.offset))?,
            extents: &view.file.extents,
            unit: parent.unit,
            open: Vec::new(),
            depth: 1,
        })
    }

    /// The next child.
    pub(crate) fn next(&mut self) -> gimli::Result<Option<Step>> {
        loop {
            self.pass_over_known()?;
            let (offset, depth) = self.walker.place()?;
            while let Some(inner) = self.open.pop_if(|open| open.depth >= depth) {
                self.extents.note(inner.at(self.unit), offset);
            }
            if self.walker.is_at_end() {
                return Ok(None);
            }
            let Some(step) = self.walker.step()? else {
                continue;
            };
            self.open.push(step);
            // Children that were entered end before an entry that is not as deep.
            self.depth = self.depth.min(step.depth.max(1));
            if step.depth == self.depth {
                return Ok(Some(step));
            }
        }
    }

    /// The child that was stepped to.
    pub(crate) fn die(&mut self, step: Step) -> gimli::Result<Die<'a>> {
        self.walker.die(self.unit, step)
    }

    /// The children of the child that was stepped to come next, as if they were children here.
    pub(crate) fn enter(&mut self) {
        self.depth += 1;
    }

    /// Goes on behind what is below the last entry, where that is known and not entered.
    fn pass_over_known(&mut self) -> gimli::Result<()> {
        let Some(last) = self.open.last().filter(|last| last.depth >= self.depth) else {
            return Ok(());
        };
        match self.extents.end(last.at(self.unit)) {
            Some(end) => self.walker.jump(end, last.depth),
            None => Ok(()),
        }
    }
}
