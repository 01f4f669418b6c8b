//! Sources of units: the file itself, the part of its debug information that other files share, and
//! the files that hold what its skeleton units leave out.
//!
//! A source is a set of sections that belong together: offsets from one section into another stay in
//! the source. A file is one source, but for a package of split debug information, where each unit
//! is one. Addresses of a split unit stand in the main file.

use std::cell::RefCell;
use std::fmt;
use std::ops::{Deref, Range};
use std::rc::Rc;

use gimli::SectionId;

use super::sections::{Naming, Parts};
use super::units::{DwarfFile, Slice};

/// The source that is the file itself.
pub(super) const MAIN: u32 = 0;

/// A set of sections that belong together.
#[derive(Debug)]
pub(crate) struct Source {
    /// The file, by number.
    pub(super) file: u32,
    /// In a package: what is this unit's own.
    own: Option<Parts>,
}

impl Source {
    pub(super) fn whole(file: u32) -> Source {
        Source { file, own: None }
    }

    pub(super) fn part_of(file: u32, own: Parts) -> Source {
        let own = Some(own);
        Source { file, own }
    }

    /// The part of a section that is the source's, if that is not the whole.
    pub(super) fn part(&self, id: SectionId) -> Option<Range<usize>> {
        self.own.as_ref()?.get(id)
    }
}

/// A [`DwarfFile`] while one question is answered.
#[derive(Debug)]
pub(crate) struct View<'a> {
    pub(crate) file: &'a DwarfFile,
    main: gimli::Dwarf<Slice<'a>>,
    /// The source of the last question: most questions stay in one.
    last: RefCell<Option<(u32, Rc<gimli::Dwarf<Slice<'a>>>)>>,
}

/// gimli's reader of one source.
pub(crate) enum DwarfRef<'v, 'a> {
    Main(&'v gimli::Dwarf<Slice<'a>>),
    Split(Rc<gimli::Dwarf<Slice<'a>>>),
}

impl fmt::Debug for DwarfRef<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DwarfRef::Main(_) => "Main",
            DwarfRef::Split(_) => "Split",
        })
    }
}

impl<'a> Deref for DwarfRef<'_, 'a> {
    type Target = gimli::Dwarf<Slice<'a>>;

    fn deref(&self) -> &gimli::Dwarf<Slice<'a>> {
        match self {
            DwarfRef::Main(dwarf) => dwarf,
            DwarfRef::Split(dwarf) => dwarf,
        }
    }
}

impl DwarfFile {
    pub(crate) fn view(&self) -> View<'_> {
        let mut main = self.files[0].dwarf(None);
        if let Some(supplement) = self.supplement() {
            main.set_sup(self.files[supplement as usize].dwarf(None));
        }
        View {
            file: self,
            main,
            last: RefCell::default(),
        }
    }

    /// The source, and the file, that is the supplementary one.
    fn supplement(&self) -> Option<u32> {
        let second = self.files.get(1)?;
        (second.naming == Naming::Main).then_some(1)
    }

    pub(super) fn is_split(&self, source: u32) -> bool {
        source != MAIN && Some(source) != self.supplement()
    }

    /// Prefix of messages about the source.
    pub(super) fn label(&self, source: u32) -> &'static str {
        match source {
            MAIN => "",
            _ if Some(source) == self.supplement() => "supplementary file: ",
            _ => "split debug information: ",
        }
    }

    /// Returns true if the unit lies in the supplementary file, which other programs share.
    pub(crate) fn in_supplement(&self, unit: u32) -> bool {
        Some(self.units[unit as usize].source) == self.supplement()
    }
}

impl<'a> View<'a> {
    /// gimli's reader of the source that the unit is in.
    pub(crate) fn dwarf_of(&self, unit: u32) -> DwarfRef<'_, 'a> {
        self.dwarf_of_source(self.file.units[unit as usize].source)
    }

    pub(super) fn dwarf_of_source(&self, source: u32) -> DwarfRef<'_, 'a> {
        if source == MAIN {
            return DwarfRef::Main(&self.main);
        }
        if let Some(supplement) = self.main.sup()
            && Some(source) == self.file.supplement()
        {
            return DwarfRef::Main(supplement);
        }
        let mut last = self.last.borrow_mut();
        if let Some((known, dwarf)) = &*last
            && *known == source
        {
            return DwarfRef::Split(dwarf.clone());
        }
        let row = &self.file.sources[source as usize];
        let mut dwarf = self.file.files[row.file as usize].dwarf(row.own.as_ref());
        dwarf.make_dwo(&self.main);
        let dwarf = Rc::new(dwarf);
        *last = Some((source, dwarf.clone()));
        DwarfRef::Split(dwarf)
    }

    /// The source that references of the unit into another file lead to.
    pub(super) fn supplement_of(&self) -> Option<u32> {
        self.file.supplement()
    }
}
