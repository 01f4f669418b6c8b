//! Names for the addresses of a recording.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use hitm_base::{CodeAddr, LineAddr, ThreadId};
use hitm_coherence::stats::Statistics;
use hitm_kernel::{PAGE_DESCRIPTOR, PAGE_DESCRIPTORS};
use hitm_layout::{Symbolizer, TypeId, TypeKind, TypeStore};
use hitm_layout::{element_at, instance_at};
use hitm_trace::{Mapping, PROCESS_SHIFT, Region, RegionKind};

use super::Recording;
use super::build_ids::{CopyOf, copies, load};
use super::debuginfod;
use super::diagnostics::by_message;
use super::frames::Frames;
use super::labels::{CodeLabel, DataLabel};
use super::objects::{KernelRegions, LatestRegions, Objects};
use super::shared::is_shared;
use super::typed::MemoryTypes;
use crate::kernel_files::{KERNEL_PATH, KernelFiles};
use crate::kernel_names::KernelNames;
use crate::perf_data::ExtraNames;

mod code_owners;
mod heap_blocks;

pub use code_owners::is_of_c_library;

use heap_blocks::{HeapName, memory_of_hotspot};

/// A type's name without the word that says what it is made of; an array's is that of its elements.
pub fn element_name(store: &TypeStore, mut of: TypeId) -> String {
    while let TypeKind::Array { element, .. } = store.get(store.resolve(of)).kind {
        of = element;
    }
    let name = &*store.get(of).name;
    name.strip_prefix("struct ").unwrap_or(name).to_owned()
}

/// Name of the structure that something of a type is, or is an array of, without qualifiers; none for plain values.
fn structure_name(store: &TypeStore, of: TypeId) -> Option<String> {
    let mut element = store.element_of(of);
    store.layout(store.resolve(element))?;
    let is_qualified = |name: &str| {
        ["const ", "volatile "]
            .iter()
            .any(|word| name.starts_with(word))
    };
    while let TypeKind::Alias(target) = store.get(element).kind
        && is_qualified(&store.get(element).name)
    {
        element = target;
    }
    Some(element_name(store, element))
}

/// Beginnings of the names of types of the libraries of C++ and Rust.
const LIBRARIES: [&str; 5] = ["std::", "__gnu_cxx::", "core::", "alloc::", "atomic<"];

/// Objects of a type that are asked for.
#[derive(Debug, Clone, Copy)]
pub struct InstancesOf<'o> {
    /// The type's name.
    pub type_name: &'o str,
    /// Its bytes.
    pub size: u64,
    /// Part of the name of an allocation site or variable (`main (heap_straddle.c:33)`), whose memory is an array of
    /// the type; or the address of one object (`0xffff888004a81000`).
    pub at: Option<&'o str>,
}

impl InstancesOf<'_> {
    /// Parses `at` as an address.
    fn address(&self) -> Option<u64> {
        let digits = self.at?.strip_prefix("0x")?;
        u64::from_str_radix(digits, 16).ok()
    }
}

/// Names for the addresses of one recording. Files are read when a name in them is first asked for.
pub struct AddressNames<'a> {
    pub(super) objects: &'a Objects,
    /// The recording.
    pub recording: &'a Recording,
    pub(super) statistics: &'a Statistics,
    pub(super) symbolizer: RefCell<Symbolizer<'static>>,
    /// Names of heap blocks, by address: finding one takes a look at every line of the block.
    heap: RefCell<BTreeMap<u64, HeapName>>,
    /// The places that allocated heap blocks, by their stacks.
    sites: RefCell<BTreeMap<Arc<[CodeAddr]>, Rc<str>>>,
    extra: &'a ExtraNames,
    pub(super) is_sampled: bool,
    /// Set if samples may be of the instruction behind.
    pub(super) is_inexact: bool,
    has_processes: bool,
    pub(super) kernel: Option<KernelNames>,
    /// File with the kernel's types.
    pub(super) kernel_types: Option<PathBuf>,
    pub(super) kernel_regions: KernelRegions<'a>,
    regions: LatestRegions<'a>,
    /// Types of memory that has none of its own.
    pub(super) types: MemoryTypes,
    /// Frames of functions whose variables threads share.
    pub(super) frames: Frames,
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
        let sampled = recording.header.sampled.as_ref();
        let is_inexact = sampled.is_some_and(|sampled| sampled.watched.is_none());
        // Data that processes share is no program.
        let is_program = |mapping: &&Mapping| {
            is_inexact || mapping.executable || !is_shared(mapping.range.start())
        };
        let symbolizer = RefCell::new(symbolizer(objects.mappings.iter().filter(is_program)));
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
            types: MemoryTypes::default(),
            frames: Frames::default(),
            extra: &recording.extra_names,
            is_sampled: sampled.is_some(),
            is_inexact,
            has_processes: sampled.is_some() || !recording.processes.is_empty(),
        }
    }

    /// The address as its process sees it: processes that were recorded together have numbers in
    /// theirs. Memory that they share lies elsewhere in each, and keeps the number of its object.
    pub fn shown(&self, addr: u64) -> u64 {
        let is_of_process = addr >> 63 == 0 && !self.is_shared(addr);
        match self.has_processes && is_of_process {
            true => addr & ((1 << PROCESS_SHIFT) - 1),
            false => addr,
        }
    }

    /// Returns the place in the source of the instruction at `code`: where a library's one-liner was inlined, the
    /// place that its user can change.
    pub fn code(&self, code: CodeAddr) -> CodeLabel {
        let mut frames = self.frames(code);
        let own = frames
            .iter()
            .position(|frame| frame.line > 0 && !frame.is_of_language());
        let is_library = frames[0].is_of_language();
        frames.swap_remove(own.filter(|_| is_library).unwrap_or(0))
    }

    /// The functions that the instruction at `code` is in, by inlining: the outermost first. Without
    /// debug information one.
    pub fn code_frames(&self, code: CodeAddr) -> Vec<CodeLabel> {
        let mut frames = self.frames(code);
        frames.retain(|frame| !frame.function.is_empty());
        frames.reverse();
        frames
    }

    /// The functions that the instruction at `code` is in, the innermost first: one at least.
    fn frames(&self, code: CodeAddr) -> Vec<CodeLabel> {
        let of_kernel = self.kernel.as_ref().and_then(|kernel| kernel.code(code.0));
        let without_source = || {
            self.extra.code(code.0).map(|function| CodeLabel {
                function,
                ..CodeLabel::default()
            })
        };
        if let Some(label) = of_kernel.or_else(without_source) {
            return vec![label];
        }
        let generated = self.recording.generated.frames(code.0);
        if !generated.is_empty() {
            return generated;
        }
        let name = self.symbolizer.borrow_mut().code(code.0);
        let location = name.location;
        let function = location
            .function
            .map(|function| match function.starts_with(UNNAMED) {
                true => format!("{}!{function}", module_of(&name.place)),
                false => function,
            });
        let innermost = CodeLabel {
            function: function.unwrap_or(name.place),
            file: location.file.unwrap_or_default(),
            line: location.line.unwrap_or(0),
        };
        let callers = location.inlined_from.into_iter().map(|frame| CodeLabel {
            function: frame.function.unwrap_or_default(),
            file: frame.file.unwrap_or_default(),
            line: frame.line.unwrap_or(0),
        });
        std::iter::once(innermost).chain(callers).collect()
    }

    /// Returns the object and member that an access of `size` bytes at `addr` touches.
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
                ..DataLabel::default()
            });
        }
        if let Some(label) = self.recording.generated.data(addr) {
            return Some(label);
        }
        if let Some(object) = self.objects.heap_at(addr) {
            return Some(self.heap_label(object, addr, size));
        }
        if let Some(region) = self.kernel_region(addr) {
            return Some(self.kernel_label(&region, addr, size));
        }
        if let Some(region) = self.regions.at(addr) {
            let variable = self.variable(addr, size).location.map(DataLabel::of);
            if variable.is_some() {
                return variable;
            }
            let typed = self.typed_label(addr, size, || self.region_label(region, addr).object);
            return Some(typed.unwrap_or_else(|| self.region_label(region, addr)));
        }
        if let Some(kernel) = &self.kernel
            && let Some(label) = kernel.variable(addr, size, self.page_content(addr))
        {
            return Some(label);
        }
        if let Some(label) = self.shared_label(addr) {
            let typed = self.typed_label(addr, size, || label.object.clone());
            return Some(typed.unwrap_or(label));
        }
        let label = self.file_label(addr, size);
        let is_variable = label.as_ref().is_some_and(|label| label.object_size > 0);
        let place = label
            .as_ref()
            .and_then(|label| label.object.rsplit_once("+0x"));
        let memory = || place.map_or("memory", |(path, _)| path).to_owned();
        let typed = (!is_variable).then(|| self.typed_label(addr, size, memory));
        typed.flatten().or(label)
    }

    pub(super) fn file_label(&self, addr: u64, size: u8) -> Option<DataLabel> {
        let name = self.variable(addr, size);
        match name.location {
            Some(location) => Some(DataLabel::of(location)),
            None => (name.place != format!("{addr:#x}")).then(|| DataLabel {
                object: name.place,
                object_addr: addr,
                ..DataLabel::default()
            }),
        }
    }

    /// The address of the instance that holds the byte at `addr`.
    pub fn instance_base(&self, addr: u64, size: u8, of: &InstancesOf<'_>) -> Option<u64> {
        let shown = self.shown(addr);
        if let Some(start) = of.address()
            && (start..start.saturating_add(of.size)).contains(&shown)
        {
            return Some(addr - (shown - start));
        }
        let Some(at) = of.at else {
            return Some(self.place_in_type(addr, size, of.type_name)?.base);
        };
        let (object, start) = self.object_asked_for(addr, size)?;
        let is_wanted = object.contains(at);
        let index = (addr - start).checked_div(of.size).filter(|_| is_wanted)?;
        Some(start + index * of.size)
    }

    /// The object at an address as `--at` asks for it, and where it begins: a heap block by the place that
    /// allocated it.
    pub fn object_asked_for(&self, addr: u64, size: u8) -> Option<(String, u64)> {
        if let Some(block) = self.objects.heap_at(addr) {
            return Some((self.heap_name(block).object, block.range.start()));
        }
        let label = self.data(addr, size)?;
        Some((label.object, label.object_addr))
    }

    /// Bytes of an element, when the variable of that name is an array of scalars.
    pub fn scalar_array(&self, name: &str) -> Option<u64> {
        for (addr, _) in self.recording.places() {
            let found = self.variable(addr, 1);
            let mut symbolizer = self.symbolizer.borrow_mut();
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
        if let Some(place) = self.typed_place(addr, size) {
            let mut symbolizer = self.symbolizer.borrow_mut();
            let store = symbolizer.file(&place.of.path)?.types();
            let inner = instance_at(store, place.of.id, wanted, addr - place.base)?;
            return Some(place.base + inner);
        }
        let name = self.variable(addr, size);
        let mut symbolizer = self.symbolizer.borrow_mut();
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
            let number = (code.0 >> PROCESS_SHIFT) as usize;
            return Some(sampled.processes.get(number)?.name.clone());
        }
        if self.is_machine() {
            return None;
        }
        let number = (code.0 >> PROCESS_SHIFT) as u32;
        let program = match self.recording.process(number) {
            Some(process) if number > 0 => &process.start.program,
            _ => header.args.first()?,
        };
        Some(program.rsplit('/').next()?.to_owned())
    }

    /// The type of the variable at an address.
    pub(super) fn file_type(&self, addr: u64, size: u8) -> Option<String> {
        if let Some(place) = self.typed_place(addr, size) {
            return Some(place.of.name.to_string());
        }
        let name = self.variable(addr, size);
        let mut symbolizer = self.symbolizer.borrow_mut();
        let of = name.location?.object.type_id?;
        let store = symbolizer.file(&name.path?)?.types();
        Some(element_name(store, of))
    }

    /// The structure that the object at an address is, or is an array of, and the file that declares it.
    pub fn declared(&self, addr: u64, size: u8) -> Option<(String, PathBuf)> {
        let type_name = self.type_of(addr, size)?;
        if self.kernel.is_some() && addr >> 63 == 1 {
            // What a page's descriptor holds is laid over the same bytes, one structure for each use.
            if PAGE_DESCRIPTORS.contains(&addr) {
                return None;
            }
            return Some((type_name, self.kernel_types.clone()?));
        }
        if let Some(place) = self.typed_place(addr, size) {
            return Some((type_name, PathBuf::from(&*place.of.path)));
        }
        let name = self.variable(addr, size);
        let mut symbolizer = self.symbolizer.borrow_mut();
        let (of, path) = (name.location?.object.type_id?, name.path?);
        Some((
            structure_name(symbolizer.file(&path)?.types(), of)?,
            path.into(),
        ))
    }

    /// The structure that is an element of an array in the object at an address, and the file that declares it. None
    /// for plain values, those of a language's library among them: their type is that of other things, too.
    pub fn declared_element(&self, addr: u64, size: u8) -> Option<(String, PathBuf)> {
        let (of, path, offset) = match self.typed_place(addr, size) {
            Some(place) => (place.of.id, place.of.path.to_string(), addr - place.base),
            None => {
                let name = self.variable(addr, size);
                let location = name.location?;
                (location.object.type_id?, name.path?, location.offset)
            }
        };
        let mut symbolizer = self.symbolizer.borrow_mut();
        let store = symbolizer.file(&path)?.types();
        let name = structure_name(store, element_at(store, of, offset)?)?;
        let is_of_library = LIBRARIES.iter().any(|library| name.starts_with(library));
        (!is_of_library).then(|| (name, path.into()))
    }

    /// A thread's name: what the program calls it and its tid.
    pub fn thread(&self, thread: ThreadId) -> String {
        match self.recording.thread(thread) {
            Some(known) => {
                let start = &known.start;
                // Threads of several processes are told apart by the process, too.
                let has_several = self.recording.processes.len() > 1;
                let process = self.recording.process(start.process).map(|one| &one.start);
                match process.filter(|process| has_several && process.pid != start.tid) {
                    Some(process) => format!("{}:{}/{}", start.name, process.pid, start.tid),
                    None => format!("{}:{}", start.name, start.tid),
                }
            }
            None => format!("thread {}", thread.0),
        }
    }

    /// Returns messages about missing or damaged sources of names.
    pub fn diagnostics(&self) -> Vec<String> {
        // First, since it asks for names of its own.
        let heap = self.unobserved_heap();
        let files = self.symbolizer.borrow().diagnostics();
        let files = by_message(&files).into_iter();
        files.chain(heap).chain(debuginfod::diagnostic()).collect()
    }

    /// Returns how many lines lack names of heap blocks since nobody observed the heap, if any do.
    fn unobserved_heap(&self) -> Option<String> {
        if self.is_sampled || self.kernel.is_some() {
            return None;
        }
        let processes = self.recording.processes.iter();
        let mut unobserved: BTreeSet<u64> = processes
            .map(|process| process.start.process.into())
            .collect();
        for mapping in &self.objects.mappings {
            if mapping.path.ends_with(crate::HEAP_OBSERVER) {
                unobserved.remove(&(mapping.range.start() >> PROCESS_SHIFT));
            }
        }
        for block in self.objects.heap_blocks() {
            unobserved.remove(&(block.range.start() >> PROCESS_SHIFT));
        }
        let lines = self.statistics.lines.keys().map(|line| line.first_byte());
        let lines = lines.filter(|line| unobserved.contains(&(line >> PROCESS_SHIFT)));
        match lines.filter(|line| self.is_of_nothing(*line)).count() {
            0 => None,
            count => Some(format!(
                "lines without names of heap blocks: {count}; no function that allocates was found in a program: it is \
                 stripped, or its allocator has names of its own, for `hitm record --allocator`"
            )),
        }
    }

    /// Returns true for a line that neither a file, a stack nor a heap block is known to hold.
    fn is_of_nothing(&self, line: u64) -> bool {
        self.objects.heap_on(LineAddr::of(line)).next().is_none()
            && self.regions.at(line).is_none()
            && self.file_label(line, 1).is_none()
    }

    /// Kind of the object that holds the byte at `addr`, where its own name says more: heap blocks of one
    /// allocation site, and descriptors of pages, are of one kind.
    pub fn kind(&self, addr: u64) -> Option<String> {
        if let Some(label) = self.recording.generated.data(addr) {
            return Some(label.object);
        }
        if let Some(label) = self.typed_label(addr, 1, String::new) {
            return Some(label.object);
        }
        if let Some(block) = self.objects.heap_at(addr) {
            let site = self.site_of(block);
            return Some(match memory_of_hotspot(&site) {
                Some(memory) => memory.to_owned(),
                None => format!("heap blocks from {site}"),
            });
        }
        let is_page = self.kernel.is_some() && PAGE_DESCRIPTORS.contains(&addr);
        is_page.then(|| PAGE_DESCRIPTOR.to_owned())
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
            ..DataLabel::default()
        }
    }
}

/// Returns the file with the types of the recorded kernel, if one was recorded.
fn kernel_types(recording: &Recording) -> Option<PathBuf> {
    let mut mappings = recording.objects.mappings.iter();
    let kernel = mappings.find(|mapping| mapping.path == KERNEL_PATH)?;
    KernelFiles::of(&kernel.build_id).btf_path()
}

/// Names of the kernel that was recorded, if one was and its symbols are kept on this host.
fn kernel_names(recording: &Recording) -> Option<KernelNames> {
    let mappings = recording.objects.mappings.iter();
    let kernel = mappings
        .into_iter()
        .find(|mapping| mapping.path == KERNEL_PATH)?;
    KernelNames::load(&kernel.build_id, kernel.range.start(), &recording.layouts)
}

/// Names for addresses in these mappings. Files are read when a name in them is first asked for.
pub fn symbolizer<'m>(mappings: impl Iterator<Item = &'m Mapping>) -> Symbolizer<'static> {
    let mappings = mappings.map(|mapping| hitm_layout::Mapping {
        start: mapping.range.start(),
        end: mapping.range.end(),
        file_offset: mapping.file_offset,
        path: mapping.path.clone(),
        build_id: (!mapping.build_id.is_empty()).then(|| mapping.build_id.clone()),
    });
    Symbolizer::new(mappings.collect(), load).with_copies(|build_id| {
        let copies = copies(build_id, CopyOf::Executable);
        let fetched = match copies.iter().any(|copy| copy.exists()) {
            true => None,
            false => debuginfod::fetch(build_id, "executable"),
        };
        let copies = copies.into_iter().chain(fetched);
        copies
            .map(|copy| copy.to_string_lossy().into_owned())
            .collect()
    })
}

/// Prefix of the name of a function that has none.
const UNNAMED: &str = "func@";

/// The file in a place such as `libz.so.1+0x120`.
fn module_of(place: &str) -> &str {
    place.rsplit_once('+').map_or(place, |(module, _)| module)
}
