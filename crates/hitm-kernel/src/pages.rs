//! The page cache of a stopped kernel: the file and offset of each of its pages.
//!
//! The descriptor of such a page points to the `address_space` in the file's inode, and has the
//! page's number in the file (include/linux/mm_types.h, `struct folio`; Linux 6.1 to 7.2). A
//! pointer counts only when it leads into a slab and to an inode that points back: pages in another
//! use have other words there.

use std::collections::BTreeMap;

use super::slabs::{DIRECT_MAP, PAGE_BYTES, Slab, slab_at};
use super::walk::{KernelObject, Walker};

/// Name of a page of a file, without the file's.
pub const PAGE_CACHE_OF: &str = "page cache of ";

/// Limit on named pages: 1 GiB of files.
const PAGES_MAX: usize = 1 << 18;

/// Offsets of the members that lead from a page to its file.
struct Places {
    mapping: u64,
    index: u64,
    host: u64,
    data: u64,
}

/// One page of a file.
struct CachedPage {
    number: u64,
    mapping: u64,
    index: u64,
}

impl Walker<'_> {
    /// Pages of the page cache, named after their files; none when this kernel's structures are not
    /// understood. `slabs` is sorted by address.
    pub fn page_cache(&mut self, slabs: &[Slab]) -> Vec<KernelObject> {
        let Some(places) = self.page_cache_places() else {
            return Vec::new();
        };
        let pages = self.pages_with_mapping(&places, slabs);
        let mut files: BTreeMap<u64, Option<String>> = BTreeMap::new();
        let mut objects = Vec::new();
        for page in pages {
            let file = files
                .entry(page.mapping)
                .or_insert_with(|| self.file_of(page.mapping, &places));
            if let Some(file) = file {
                objects.push(KernelObject {
                    start: DIRECT_MAP + page.number * PAGE_BYTES,
                    size: PAGE_BYTES,
                    name: format!("page cache{file}[{}]", page.index),
                    type_name: String::new(),
                });
            }
        }
        objects
    }

    fn page_cache_places(&mut self) -> Option<Places> {
        Some(Places {
            mapping: self.member_offset("folio", "mapping")?,
            index: self.member_offset("folio", "index")?,
            host: self.member_offset("address_space", "host")?,
            data: self.member_offset("inode", "i_data")?,
        })
    }

    /// Pages whose descriptors may lead to a file. Further pages of a large folio take its mapping:
    /// they have none of their own.
    fn pages_with_mapping(&mut self, places: &Places, slabs: &[Slab]) -> Vec<CachedPage> {
        let mut pages: Vec<CachedPage> = Vec::new();
        // Descriptor of the folio that the last page belongs to.
        let mut open = 0;
        self.page_descriptors(|page| {
            if pages.len() == PAGES_MAX {
                return;
            }
            if let Some(head) = page.head() {
                let last = pages.last().filter(|_| head == open);
                if let Some((mapping, index)) = last.map(|last| (last.mapping, last.index + 1)) {
                    pages.push(CachedPage {
                        number: page.number,
                        mapping,
                        index,
                    });
                }
                return;
            }
            // The first page of another block ends the open folio.
            open = 0;
            let mapping = page.word(places.mapping);
            if mapping % 8 == 0 && slab_at(slabs, mapping).is_some() {
                open = page.address;
                pages.push(CachedPage {
                    number: page.number,
                    mapping,
                    index: page.word(places.index),
                });
            }
        });
        pages
    }

    /// Returns " of NAME" for the file with this mapping, or an empty text for one without a name;
    /// none when the mapping is no file's.
    fn file_of(&mut self, mapping: u64, places: &Places) -> Option<String> {
        let inode = self.pointer(mapping + places.host)?;
        if inode + places.data != mapping {
            return None;
        }
        let name = self.file_name(inode);
        Some(name.map_or_else(String::new, |name| format!(" of {name}")))
    }

    /// Last part of the first path of an inode.
    fn file_name(&mut self, inode: u64) -> Option<String> {
        let aliases = self.member_offset("inode", "i_dentry")?;
        let link = self.member_offset("dentry", "d_u")?;
        let name = self.member_offset("dentry", "d_name");
        let name = name.or_else(|| self.member_offset("dentry", "__d_name"))?;
        let text = self.member_offset("qstr", "name")?;
        let first = self.pointer(inode + aliases).filter(|first| *first != 0)?;
        let text = self.pointer(first.wrapping_sub(link) + name + text)?;
        self.text(text).filter(|name| !name.is_empty())
    }
}
