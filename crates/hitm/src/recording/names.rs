//! Names for the addresses of a recording.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use hitm_base::{CodeAddr, ThreadId};
use hitm_coherence::stats::Statistics;
use hitm_layout::{Symbolizer, TypeId, TypeKind, TypeStore};
use hitm_trace::{Mapping, Region, RegionKind};

use super::Recording;
use super::build_ids::{CopyOf, copies, load};
use super::elements::element_size;
use super::objects::{HeapBlock, KernelRegions, LatestRegions, Objects};
use crate::advise::{InstancePlace, ProfileOptions, instance_at};
use crate::kernel::{KERNEL_PATH, KernelFiles, KernelNames, PAGE_DESCRIPTOR, PAGE_DESCRIPTORS};
use crate::perf_data::ExtraNames;

/// Where an instruction is in the source.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CodeLabel {
    /// The function, or `file+offset` when no name is known.
    pub function: String,
    /// The source file, empty when unknown.
    pub file: String,
    /// The line in it, 0 when unknown.
    pub line: u32,
}

/// What is at an address.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DataLabel {
    /// A variable, a heap block, a stack.
    pub object: String,
    /// Address of its first byte.
    pub object_addr: u64,
    /// Its size in bytes, 0 when unknown.
    pub object_size: u64,
    /// The part of it: `.x`, `[3].count`, `+0x30`; empty when unknown.
    pub member: String,
    /// When it is an array: address and size of the element.
    pub element: Option<(u64, u64)>,
}

/// A type's name without the word that says what it is made of; an array's is that of its elements.
pub(crate) fn element_name(store: &TypeStore, mut of: TypeId) -> String {
    while let TypeKind::Array { element, .. } = store.get(store.resolve(of)).kind {
        of = element;
    }
    let name = &*store.get(of).name;
    name.strip_prefix("struct ").unwrap_or(name).to_owned()
}

/// Names for the addresses of one recording. Files are read when a name in them is first asked for.
pub struct AddressNames<'a> {
    pub(super) objects: &'a Objects,
    recording: &'a Recording,
    statistics: &'a Statistics,
    pub(super) symbolizer: RefCell<Symbolizer<'static>>,
    /// What was found about heap blocks, by address: it takes a look at every line of the block.
    heap: RefCell<BTreeMap<u64, HeapName>>,
    /// The places that allocated heap blocks, by their stacks.
    sites: RefCell<BTreeMap<Arc<[CodeAddr]>, String>>,
    extra: &'a ExtraNames,
    is_sampled: bool,
    pub(super) kernel: Option<KernelNames>,
    /// Where its types are kept.
    pub(super) kernel_types: Option<PathBuf>,
    pub(super) kernel_regions: KernelRegions<'a>,
    regions: LatestRegions<'a>,
}

/// What all bytes of a heap block have in common.
#[derive(Clone)]
struct HeapName {
    object: String,
    element_size: Option<u64>,
}

impl fmt::Debug for AddressNames<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AddressNames")
            .field("threads", &self.recording.threads.len())
            .finish_non_exhaustive()
    }
}

impl<'a> AddressNames<'a> {
    pub(super) fn new(recording: &'a Recording) -> AddressNames<'a> {
        let objects = &recording.objects;
        let symbolizer = RefCell::new(symbolizer(&objects.mappings));
        AddressNames {
            objects,
            recording,
            statistics: &recording.statistics,
            symbolizer,
            heap: RefCell::default(),
            sites: RefCell::default(),
            kernel: kernel_names(recording),
            kernel_types: kernel_types(recording),
            kernel_regions: KernelRegions::new(&objects.regions),
            regions: LatestRegions::new(&objects.regions),
            extra: &recording.extra_names,
            is_sampled: recording.header.sampled.is_some(),
        }
    }

    /// The address as its process sees it: processes that were sampled together have numbers in
    /// theirs.
    pub fn shown(&self, addr: u64) -> u64 {
        match self.is_sampled && addr >> 63 == 0 {
            true => addr & ((1 << 48) - 1),
            false => addr,
        }
    }

    /// Where the instruction at `code` is.
    pub fn code(&self, code: CodeAddr) -> CodeLabel {
        if let Some(label) = self.kernel.as_ref().and_then(|kernel| kernel.code(code.0)) {
            return label;
        }
        if let Some(function) = self.extra.code(code.0) {
            return CodeLabel {
                function,
                ..CodeLabel::default()
            };
        }
        let name = self.symbolizer.borrow_mut().code(code.0);
        let location = name.location;
        let innermost = CodeLabel {
            function: location.function.unwrap_or(name.place),
            file: location.file.unwrap_or_default(),
            line: location.line.unwrap_or(0),
        };
        if !is_language_library(&innermost.file) {
            return innermost;
        }
        // Where a library's one-liner was inlined is what its user can change.
        let callers = location.inlined_from.into_iter().map(|frame| CodeLabel {
            function: frame.function.unwrap_or_default(),
            file: frame.file.unwrap_or_default(),
            line: frame.line.unwrap_or(0),
        });
        let mut own = callers.filter(|frame| frame.line > 0 && !is_language_library(&frame.file));
        own.next().unwrap_or(innermost)
    }

    /// What an access of `size` bytes at `addr` touches.
    pub fn data(&self, addr: u64, size: u8) -> Option<DataLabel> {
        if let Some((name, offset)) = self.extra.data(addr) {
            return Some(DataLabel {
                object: name.to_owned(),
                object_addr: addr - offset,
                object_size: 0,
                member: if offset == 0 {
                    String::new()
                } else {
                    format!("+{offset:#x}")
                },
                element: None,
            });
        }
        if let Some(object) = self.objects.heap_at(addr) {
            return Some(self.heap_label(object, addr));
        }
        if let Some(region) = self.kernel_regions.at(addr) {
            return Some(self.kernel_label(region, addr, size));
        }
        if let Some(region) = self.regions.at(addr) {
            return Some(self.region_label(region, addr));
        }
        if let Some(kernel) = &self.kernel
            && let Some(label) = kernel.variable(addr, size)
        {
            return Some(label);
        }
        self.file_label(addr, size)
    }

    pub(super) fn file_label(&self, addr: u64, size: u8) -> Option<DataLabel> {
        let name = self.symbolizer.borrow_mut().data(addr, size.into());
        match name.location {
            Some(location) => Some(DataLabel {
                object: location.object.name.clone(),
                object_addr: location.object.start,
                object_size: location.object.size,
                member: part_of(&location.path.text, &location.object.name),
                element: None,
            }),
            None => (name.place != format!("{addr:#x}")).then(|| DataLabel {
                object: name.place,
                ..DataLabel::default()
            }),
        }
    }

    /// The object at an address, and the instance of the wanted type of `type_size` bytes in it.
    pub(crate) fn instance_of(
        &self,
        addr: u64,
        size: u8,
        (options, type_size): (&ProfileOptions<'_>, u64),
    ) -> Option<InstancePlace> {
        let shown = self.shown(addr);
        if let Some(start) = options.address()
            && (start..start.saturating_add(type_size)).contains(&shown)
        {
            return Some(InstancePlace {
                object: format!("{start:#x}"),
                base: Some(addr - (shown - start)),
            });
        }
        let label = self.data(addr, size)?;
        let wanted_here = options
            .at
            .as_ref()
            .is_some_and(|at| label.object.contains(at));
        let base = if options.at.is_some() {
            let offset = addr - label.object_addr;
            let index = offset.checked_div(type_size).filter(|_| wanted_here);
            index.map(|index| label.object_addr + index * type_size)
        } else if self.objects.heap_at(addr).is_some() {
            None
        } else {
            let place = self.place_in_type(addr, size, &options.type_name);
            place.map(|place| place.base)
        };
        Some(InstancePlace {
            object: label.object,
            base,
        })
    }

    /// Bytes of an element, when the variable of that name is an array of scalars.
    pub(crate) fn scalar_array(&self, name: &str) -> Option<u64> {
        for (addr, _) in self.recording.places() {
            let mut symbolizer = self.symbolizer.borrow_mut();
            let found = symbolizer.data(addr, 1);
            let Some(location) = found.location.filter(|at| at.object.name == name) else {
                continue;
            };
            let store = symbolizer.file(&found.path?)?.types();
            let TypeKind::Array { element, .. } =
                store.get(store.resolve(location.object.type_id?)).kind
            else {
                return None;
            };
            let is_scalar = store.layout(element).is_none();
            return store.get(element).size.filter(|_| is_scalar);
        }
        None
    }

    pub(super) fn typed_instance(&self, addr: u64, size: u8, wanted: &str) -> Option<u64> {
        let mut symbolizer = self.symbolizer.borrow_mut();
        let name = symbolizer.data(addr, size.into());
        let location = name.location?;
        let of = location.object.type_id?;
        let store = symbolizer.file(&name.path?)?.types();
        let inner = instance_at(store, of, wanted, location.offset)?;
        Some(location.object.start + inner)
    }

    /// The program that runs the instruction at `code`; none for a kernel's code and for a whole
    /// machine.
    pub fn process(&self, code: CodeAddr) -> Option<String> {
        let header = &self.recording.header;
        if let Some(sampled) = &header.sampled {
            let number = (code.0 >> 48) as usize;
            return Some(sampled.processes.get(number)?.name.clone());
        }
        if self.is_machine() {
            return None;
        }
        let program = header.args.first()?;
        Some(program.rsplit('/').next()?.to_owned())
    }

    /// The type of the variable at an address.
    pub(super) fn file_type(&self, addr: u64, size: u8) -> Option<String> {
        let mut symbolizer = self.symbolizer.borrow_mut();
        let name = symbolizer.data(addr, size.into());
        let of = name.location?.object.type_id?;
        let store = symbolizer.file(&name.path?)?.types();
        Some(element_name(store, of))
    }

    /// A thread's name: what the program calls it and its tid.
    pub fn thread(&self, thread: ThreadId) -> String {
        match self.recording.thread(thread) {
            Some(known) => format!("{}:{}", known.start.name, known.start.tid),
            None => format!("thread {}", thread.0),
        }
    }

    /// What could not be named, and why.
    pub fn diagnostics(&self) -> Vec<String> {
        let symbolizer = self.symbolizer.borrow();
        symbolizer
            .diagnostics()
            .iter()
            .map(|diagnostic| diagnostic.to_string())
            .collect()
    }

    fn heap_label(&self, block: &HeapBlock, addr: u64) -> DataLabel {
        let start = block.range.start();
        let offset = addr - start;
        let name = self.heap_name(block);
        let (member, element) = match name.element_size {
            Some(size) => {
                let index = offset / size;
                let member = format!("[{index}]+{:#x}", offset % size);
                (member, Some((start + index * size, size)))
            }
            None => (format!("+{offset:#x}"), None),
        };
        DataLabel {
            object: name.object,
            object_addr: start,
            object_size: block.range.len(),
            member,
            element,
        }
    }

    fn heap_name(&self, block: &HeapBlock) -> HeapName {
        let start = block.range.start();
        if let Some(known) = self.heap.borrow().get(&start) {
            return known.clone();
        }
        let name = HeapName {
            object: self.heap_block(block),
            element_size: element_size(block.range, self.statistics),
        };
        self.heap.borrow_mut().insert(start, name.clone());
        name
    }

    /// Kind of the object that holds the byte at `addr`, where its own name says more: heap blocks of one
    /// allocation site, and descriptors of pages, are of one kind.
    pub fn kind(&self, addr: u64) -> Option<String> {
        if let Some(block) = self.objects.heap_at(addr) {
            let mut sites = self.sites.borrow_mut();
            let site = sites.entry(Arc::clone(&block.stack));
            let site = site.or_insert_with(|| self.allocation_site(&block.stack));
            return Some(format!("heap blocks from {site}"));
        }
        let is_page = self.kernel.is_some() && PAGE_DESCRIPTORS.contains(&addr);
        is_page.then(|| PAGE_DESCRIPTOR.to_owned())
    }

    /// What a heap block is called: its size and the place that allocated it.
    pub fn heap_block(&self, block: &HeapBlock) -> String {
        let site = self.allocation_site(&block.stack);
        format!("heap block of {} B from {site}", block.range.len())
    }

    /// The place that allocated a heap block: the innermost caller with a source line. Allocators and
    /// their wrappers rarely have one.
    pub fn allocation_site(&self, stack: &[CodeAddr]) -> String {
        // Return addresses: the call is the instruction before.
        let mut labels = stack
            .iter()
            .map(|frame| self.code(CodeAddr(frame.0.saturating_sub(1))));
        let mut first = None;
        let in_source = labels.find(|label| {
            first.get_or_insert(label.function.clone());
            label.line > 0 && !is_allocator(label)
        });
        match (in_source, first) {
            (Some(label), _) => {
                let file = label.file.rsplit('/').next().unwrap_or_default();
                format!("{} ({file}:{})", label.function, label.line)
            }
            (None, Some(function)) => function,
            (None, None) => "an unknown place".into(),
        }
    }

    pub(super) fn region_label(&self, region: &Region, addr: u64) -> DataLabel {
        let object = match &region.kind {
            RegionKind::Stack { thread } => format!("stack of {}", self.thread(*thread)),
            RegionKind::AnonymousMap { stack } => {
                format!("mapping from {}", self.allocation_site(stack))
            }
            RegionKind::Brk => "program break".into(),
            RegionKind::Object { name, .. } => name.clone(),
            RegionKind::Slab { cache, .. } => cache.clone(),
            RegionKind::PerCpu { cpu } => format!("CPU {cpu}"),
            RegionKind::UserMemory { .. } => "user memory".into(),
        };
        DataLabel {
            object,
            object_addr: region.range.start(),
            object_size: region.range.len(),
            member: format!("+{:#x}", addr - region.range.start()),
            element: None,
        }
    }
}

/// Where the types of the kernel that was recorded are kept, if one was.
fn kernel_types(recording: &Recording) -> Option<PathBuf> {
    let mut mappings = recording.objects.mappings.iter();
    let kernel = mappings.find(|mapping| mapping.path == KERNEL_PATH)?;
    Some(KernelFiles::of(&kernel.build_id).btf_path())
}

/// Names of the kernel that was recorded, if one was and its symbols are kept on this host.
fn kernel_names(recording: &Recording) -> Option<KernelNames> {
    let mappings = recording.objects.mappings.iter();
    let kernel = mappings
        .into_iter()
        .find(|mapping| mapping.path == KERNEL_PATH)?;
    KernelNames::load(&kernel.build_id, &recording.layouts)
}

/// The path behind the object's name.
fn part_of(text: &str, object: &str) -> String {
    text.strip_prefix(object).unwrap_or_default().to_string()
}

/// Source that comes with a language, as Rust's and C++'s libraries.
fn is_language_library(file: &str) -> bool {
    let parts = ["/rustc/", "/rustlib/src/", "/include/c++/"];
    parts.iter().any(|part| file.contains(part))
}

/// Source that belongs to an allocator's plumbing: the caller of it is who allocates.
fn is_allocator(label: &CodeLabel) -> bool {
    is_language_library(&label.file)
        || label.function.starts_with("operator new")
        || label.function.starts_with("__rust_alloc")
}

/// Names for addresses in these mappings. Files are read when a name in them is first asked for.
pub(crate) fn symbolizer(mappings: &[Mapping]) -> Symbolizer<'static> {
    let mappings = mappings.iter().map(|mapping| hitm_layout::Mapping {
        start: mapping.range.start(),
        end: mapping.range.end(),
        file_offset: mapping.file_offset,
        path: mapping.path.clone(),
        build_id: (!mapping.build_id.is_empty()).then(|| mapping.build_id.clone()),
    });
    Symbolizer::new(mappings.collect(), load).with_copies(|build_id| {
        let copies = copies(build_id, CopyOf::Executable).into_iter();
        copies
            .map(|copy| copy.to_string_lossy().into_owned())
            .collect()
    })
}
