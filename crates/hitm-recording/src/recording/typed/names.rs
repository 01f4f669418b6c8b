//! Names of memory by the types of what lies in it.

use hitm_layout::TypeStore;

use super::{Code, FileType, Source, TypedPlace, file_type};
use crate::recording::labels::DataLabel;
use crate::recording::names::AddressNames;
use crate::recording::objects::HeapBlock;

/// Shells in shells that names look through.
const SHELLS_MAX: usize = 4;

/// A heap block that is an object or an array of a type.
#[derive(Debug, Clone)]
pub struct TypedBlock {
    /// The path of the file that has the type.
    pub path: String,
    /// The type, in the file's store.
    pub type_id: hitm_layout::TypeId,
    /// Address and bytes of the object, or of all elements.
    pub extent: (u64, u64),
    /// Elements; 1 for an object.
    pub element_count: u64,
}

impl AddressNames<'_> {
    /// The object that holds the byte at `addr`, where only the code that uses it says its type. None for
    /// variables, kernels, and perf's samples, whose instructions may be the ones behind.
    pub(in crate::recording) fn typed_place(&self, addr: u64, size: u8) -> Option<TypedPlace> {
        if self.kernel_regions.at(addr).is_some() || addr >> 63 == 1 {
            return None;
        }
        let source = Source {
            statistics: self.statistics,
            code: Code::Programs(&self.symbolizer),
            are_samples: self.is_sampled,
        };
        if let Some(block) = self.objects.heap_at(addr) {
            return self.types.in_block(source, block, addr);
        }
        // Blocks of the heap are known of samples that hitm exported, whose instructions are exact.
        if self.is_inexact {
            return None;
        }
        let variable = self.variable(addr, size);
        match variable.location {
            Some(_) => None,
            None => self.types.on_line(source, addr, None),
        }
    }

    /// The name of the object that holds the byte at `addr`, by its type. `memory` says whose memory it is.
    pub(in crate::recording) fn typed_label(
        &self,
        addr: u64,
        size: u8,
        memory: impl FnOnce() -> String,
    ) -> Option<DataLabel> {
        let place = self.typed_place(addr, size)?;
        let content = self.content(&place, addr);
        let (of, base) = content.unwrap_or((place.of.clone(), place.base));
        let block = self.objects.heap_at(addr);
        // An array without a size extends to the end of its block.
        let room = block.map_or(of.size, |block| block.range.end().saturating_sub(base));
        let extent = match place.element {
            None if addr - base >= of.size => room,
            _ => of.size,
        };
        let mut symbolizer = self.symbolizer.borrow_mut();
        let file = symbolizer.file(&of.path)?;
        let first = addr - base;
        let end = first.saturating_add(u64::from(size.max(1))).min(extent);
        let path = file.members_of("", of.id, extent, first..end.max(first + 1));
        drop(symbolizer);
        let start = place.element.map_or(base, |(_, start, _)| start);
        let object = self.object_name(&of, start);
        let tally = place.tally;
        let origin = format!("{}, {tally}", memory());
        Some(match place.element {
            Some((index, start, bytes)) => DataLabel {
                object,
                object_addr: start,
                object_size: bytes,
                member: format!("[{index}]{}", path.text),
                element: Some((place.base, place.of.size)),
                origin,
            },
            None => DataLabel {
                object,
                object_addr: base,
                object_size: extent,
                member: path.text,
                element: None,
                origin,
            },
        })
    }

    /// The name of the object of a type at `start`. Of a program without symbols each variable has its place.
    pub(in crate::recording) fn object_name(&self, of: &FileType, start: u64) -> String {
        let is_block = self.objects.heap_at(start).is_some();
        let place = (!is_block).then(|| self.symbolizer.borrow_mut().data(start, 1).place);
        match place.filter(|place| place.contains("+0x")) {
            Some(place) => format!("{place} ({})", of.name),
            None => of.name.to_string(),
        }
    }

    /// The object in the shells around it, with its address.
    pub(in crate::recording) fn content(
        &self,
        place: &TypedPlace,
        addr: u64,
    ) -> Option<(FileType, u64)> {
        let mut symbolizer = self.symbolizer.borrow_mut();
        let (mut of, mut offset) = (place.of.id, addr - place.base);
        let mut found = None;
        for _ in 0..SHELLS_MAX {
            let inner = symbolizer.file(&place.of.path)?.content_at(of, offset);
            let Some(inner) = inner else { break };
            (of, offset) = inner;
            // `long int` is no name for what is in a shell.
            let content = file_type(&mut symbolizer, &place.of.path, of);
            let content = content.filter(|of| of.has_members);
            found = content.map(|of| (of, addr - offset)).or(found);
        }
        found
    }

    /// Asks the types that were read from a file.
    pub fn with_file_types<T>(&self, path: &str, ask: impl FnOnce(&TypeStore) -> T) -> Option<T> {
        let mut symbolizer = self.symbolizer.borrow_mut();
        Some(ask(symbolizer.file(path)?.types()))
    }

    /// The type of a whole heap block, if its accesses agree on one.
    pub fn block_type(&self, block: &HeapBlock) -> Option<TypedBlock> {
        let place = self.typed_place(block.range.start(), 1)?;
        let (element_count, extent) = match place.element {
            Some((_, start, bytes)) => (bytes / place.of.size, (start, bytes)),
            None => (1, (place.base, place.of.size)),
        };
        Some(TypedBlock {
            path: place.of.path.to_string(),
            type_id: place.of.id,
            extent,
            element_count,
        })
    }
}
