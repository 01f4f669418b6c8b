//! The machine's memory, a page at a time.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;

use crate::HotspotError;

/// Memory of a process.
pub trait Memory {
    /// Copies the bytes at an address; false, with any content, if they are not all there.
    fn read(&self, at: u64, into: &mut [u8]) -> bool;
}

impl fmt::Debug for dyn Memory + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Memory")
    }
}

const PAGE: u64 = 4096;
/// Pages that are kept: 64 MiB.
const PAGES_MAX: usize = 1 << 14;
/// Longest name that is read: a class file's have two bytes for their length.
const TEXT_BYTES_MAX: usize = 1 << 16;

type Page = [u8; PAGE as usize];

/// Memory that does not change while it is looked at.
#[derive(Debug)]
pub(crate) struct View<'m> {
    memory: &'m dyn Memory,
    /// By number; none for pages that are not there.
    pages: RefCell<BTreeMap<u64, Option<Box<Page>>>>,
}

impl<'m> View<'m> {
    pub(crate) fn new(memory: &'m dyn Memory) -> View<'m> {
        View {
            memory,
            pages: RefCell::default(),
        }
    }

    fn page<T>(&self, number: u64, look: impl FnOnce(&Page) -> T) -> Option<T> {
        let mut pages = self.pages.borrow_mut();
        if pages.len() >= PAGES_MAX {
            pages.clear();
        }
        let page = pages.entry(number).or_insert_with(|| {
            let mut page = Box::new([0; PAGE as usize]);
            let is_there = self.memory.read(number * PAGE, &mut *page);
            is_there.then_some(page)
        });
        page.as_deref().map(look)
    }

    pub(crate) fn read(&self, at: u64, into: &mut [u8]) -> Result<(), HotspotError> {
        let mut done = 0;
        while done < into.len() {
            let missing = HotspotError::Unreadable(at);
            let here = at.checked_add(done as u64).ok_or(missing.clone())?;
            let within = (here % PAGE) as usize;
            let count = (PAGE as usize - within).min(into.len() - done);
            let part = &mut into[done..done + count];
            let copied = self.page(here / PAGE, |page| {
                part.copy_from_slice(&page[within..within + count]);
            });
            copied.ok_or(missing)?;
            done += count;
        }
        Ok(())
    }

    fn array<const N: usize>(&self, at: u64) -> Result<[u8; N], HotspotError> {
        let mut bytes = [0; N];
        self.read(at, &mut bytes)?;
        Ok(bytes)
    }

    pub(crate) fn byte(&self, at: u64) -> Result<u8, HotspotError> {
        Ok(self.array::<1>(at)?[0])
    }

    pub(crate) fn half(&self, at: u64) -> Result<u16, HotspotError> {
        Ok(u16::from_le_bytes(self.array(at)?))
    }

    pub(crate) fn int(&self, at: u64) -> Result<i32, HotspotError> {
        Ok(i32::from_le_bytes(self.array(at)?))
    }

    pub(crate) fn word(&self, at: u64) -> Result<u64, HotspotError> {
        Ok(u64::from_le_bytes(self.array(at)?))
    }

    /// The bytes up to a zero, as text.
    pub(crate) fn c_text(&self, at: u64) -> Result<String, HotspotError> {
        let mut bytes = Vec::new();
        while bytes.len() < TEXT_BYTES_MAX {
            match self.byte(at.wrapping_add(bytes.len() as u64))? {
                0 => break,
                byte => bytes.push(byte),
            }
        }
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// So many bytes, as text.
    pub(crate) fn text(&self, at: u64, len: u16) -> Result<String, HotspotError> {
        let mut bytes = vec![0; len.into()];
        self.read(at, &mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}
