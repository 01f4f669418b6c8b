//! The running kernel: accesses of its code, and names of its memory.
//!
//! A program in the kernel reads both for us ([`hitm_live::kernel`]), so that neither /proc/kcore nor debug
//! information is needed: code is decoded as it is, with what the kernel patched into it. An object's type is that of
//! its slab cache, which its page's descriptor leads to. Where the cache says nothing, the code does that accesses the
//! object ([`BtfFlow`]): a function's prototype says what its registers point at.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::path::Path;
use std::rc::Rc;

use hitm_base::{AddrRange, Architecture, LINE_SIZE};
use hitm_kernel::{GuestMemory, KernelSymbols, PAGE_DESCRIPTORS, Walker, Walks};
use hitm_layout::{AccessedType, BtfFile, BtfFlow, Bytes, CodeBytes, KernelFunction, MayAccess};
use hitm_live::kernel::KernelPeek;
use hitm_live::lines::{Seen, is_kernels};
use hitm_recording::{KernelFiles, PART_BYTES_MAX, build_id};
use hitm_trace::{Record, Region, RegionKind};

use super::super::programs::SeenAccess;
use super::super::{LiveError, online_cpus, read, symbols_of};
use super::LinesError;
use super::touches::TouchRate;
use crate::kernel_records;

/// Bytes of a function that are read: longer ones are decoded around the sample.
const FUNCTION_BYTES_MAX: u64 = 64 << 10;
/// Instructions whose accesses are kept.
const KEPT_MAX: usize = 1 << 16;
/// Functions whose code is kept.
const FUNCTIONS_MAX: usize = 1 << 12;
/// Addresses that an image may have on x86-64 (Documentation/arch/x86/x86_64/mm.rst).
const IMAGE: Range<u64> = 0xffff_ffff_8000_0000..0xffff_ffff_c000_0000;

/// The running kernel.
#[derive(Debug)]
pub(super) struct LiveKernel {
    memory: LiveMemory,
    symbols: Rc<KernelSymbols>,
    flow: BtfFlow<NameOf>,
    build_id: Vec<u8>,
    cpu_count: usize,
    walks: Walks,
    /// Those of the user alone.
    own: Walks,
    /// Accesses by the address of the sample.
    accesses: BTreeMap<u64, Vec<MayAccess>>,
    functions: Functions,
    /// Lines that were looked at.
    looked_at: BTreeSet<u64>,
    /// Slabs that lines are in, by their first byte, and objects.
    slabs: BTreeMap<u64, Region>,
    objects: BTreeMap<u64, Region>,
}

/// Code of functions by its first byte.
#[derive(Debug, Default)]
struct Functions(BTreeMap<u64, Vec<u8>>);

/// A function whose code is read.
struct Function {
    name: String,
    begin: u64,
}

impl Functions {
    /// A function with its code.
    fn of<'f>(&'f self, function: &'f Function) -> KernelFunction<'f> {
        KernelFunction {
            name: &function.name,
            code: CodeBytes {
                begin: function.begin,
                bytes: &self.0[&function.begin],
            },
        }
    }
}

/// Name of the function that begins at an address.
type NameOf = Box<dyn Fn(u64) -> Option<String>>;

/// Callers that are asked for the owner of such a part.
const OWNERS_MAX: usize = 3;

impl LiveKernel {
    /// Gets ready to read the kernel's memory, and keeps its names for reports.
    ///
    /// # Errors
    /// This process may not, or the kernel does not describe itself.
    pub(super) fn open(own: &Walks) -> Result<LiveKernel, LinesError> {
        let peek = KernelPeek::load().map_err(LinesError::Kernel)?;
        let listed = read(Path::new("/proc/kallsyms"))?;
        let symbols = Rc::new(symbols_of(&listed)?);
        let whole = |path: &str| {
            std::fs::read(path).map_err(|source| LiveError::Read {
                path: Path::new(path).into(),
                source,
            })
        };
        let types = whole("/sys/kernel/btf/vmlinux")?;
        let build_id = build_id(&whole("/sys/kernel/notes")?).unwrap_or_default();
        // Without a cache only names are missing, in a report that is made later.
        let _ = KernelFiles::of(&build_id).keep(listed.as_bytes(), &types);
        let btf = BtfFile::parse(Bytes::new(types), None, "the kernel's BTF");
        let btf = btf.map_err(io::Error::other).map_err(LinesError::Types)?;
        let named = symbols.clone();
        let name_of = move |address| {
            let (name, into) = named.at(address)?;
            (into == 0).then(|| name.to_owned())
        };
        let mut kernel = LiveKernel {
            memory: LiveMemory(peek),
            flow: BtfFlow::new(btf, Architecture::HOST, Box::new(name_of)),
            symbols,
            build_id,
            cpu_count: online_cpus()?.len(),
            walks: own.clone().and(Walks::known()),
            own: own.clone(),
            accesses: BTreeMap::new(),
            functions: Functions::default(),
            looked_at: BTreeSet::new(),
            slabs: BTreeMap::new(),
            objects: BTreeMap::new(),
        };
        let current = kernel.symbols.address("bpf_get_current_task");
        if let Some(function) = current.and_then(|at| kernel.function(at)) {
            kernel.flow.set_current(kernel.functions.of(&function).code);
        }
        Ok(kernel)
    }

    /// Accesses for which it may stand that a thread was seen at an instruction of the kernel.
    pub(super) fn accesses(&mut self, seen: &Seen) -> Vec<SeenAccess> {
        if !self.accesses.contains_key(&seen.code) {
            if self.accesses.len() == KEPT_MAX {
                self.accesses.clear();
            }
            let found = self.decoded(seen.code);
            self.accesses.insert(seen.code, found);
        }
        let all = &self.accesses[&seen.code];
        all.iter().map(|may| SeenAccess::of(may, seen)).collect()
    }

    fn decoded(&mut self, address: u64) -> Vec<MayAccess> {
        if let Some(function) = self.function(address) {
            return self
                .functions
                .of(&function)
                .code
                .operands_in_function(address);
        }
        let begin = address.saturating_sub(CodeBytes::AROUND);
        let bytes = self.memory.read(begin, 2 * CodeBytes::AROUND);
        let bytes = &bytes.unwrap_or_default();
        CodeBytes { begin, bytes }.operands(address)
    }

    /// The function that holds an instruction, whose code is read; none when it is too long, or no function.
    fn function(&mut self, address: u64) -> Option<Function> {
        let (name, into) = self.symbols.at(address)?;
        let begin = address - into;
        if !self.functions.0.contains_key(&begin) {
            let length = self.symbols.next(address)? - begin;
            if length > FUNCTION_BYTES_MAX {
                return None;
            }
            let bytes = self.memory.read(begin, length).ok()?;
            if self.functions.0.len() == FUNCTIONS_MAX {
                self.functions.0.clear();
            }
            self.functions.0.insert(begin, bytes);
        }
        Some(Function {
            name: name.to_owned(),
            begin,
        })
    }

    /// Finds out what a line of the kernel is part of, once, by its memory and by the code that touches it. An object
    /// may be another one's memory later, so that this is for when the line was just seen.
    pub(super) fn look_at(&mut self, line: u64, touches: &[TouchRate]) {
        if !self.looked_at.insert(line) {
            return;
        }
        let types = std::mem::take(&mut self.walks.slab);
        let slab = self.walker().slab_of(line, &types);
        self.walks.slab = types;
        let is_typed = slab.as_ref().is_some_and(|slab| !slab.type_name.is_empty());
        let has_slab = slab.is_some();
        let slab = slab.and_then(kernel_records::slab);
        self.slabs
            .extend(slab.map(|region| (region.range.start(), region)));
        if is_typed || self.is_listed(line) {
            return;
        }
        let by_code = self.by_code(line, touches);
        let object = by_code.or_else(|| (!has_slab).then(|| without_name(line))?);
        self.objects
            .extend(object.map(|region| (region.range.start(), region)));
    }

    /// Returns true if the symbols name a line's variable, or its place the page that it describes.
    fn is_listed(&self, line: u64) -> bool {
        let has_variables = self.symbols.address("init_task").is_some();
        PAGE_DESCRIPTORS.contains(&line) || IMAGE.contains(&line) && has_variables
    }

    /// The largest object that the code says a line is part of.
    fn by_code(&mut self, line: u64, touches: &[TouchRate]) -> Option<Region> {
        let mut largest: Option<Region> = None;
        for rate in touches {
            let at = line + u64::from(rate.touch.offset);
            let found = self.object_of(rate.touch.code, at, &rate.callers);
            let has_line = |found: &Region| found.range.contains(at);
            let Some(found) = found.filter(has_line) else {
                continue;
            };
            if largest
                .as_ref()
                .is_none_or(|known| known.range.len() < found.range.len())
            {
                largest = Some(found);
            }
        }
        largest
    }

    /// The object to which an instruction's access at an address is, as its function knows it. A lock is a part of
    /// what the caller of its function has.
    fn object_of(&mut self, code: u64, at: u64, callers: &[u64]) -> Option<Region> {
        let function = self.function(code)?;
        let mut known = self.flow.access(&self.functions.of(&function), code)?;
        let mut start = at.wrapping_sub(known.offset);
        for caller in callers.iter().take(OWNERS_MAX) {
            if self.size_of(&known) > PART_BYTES_MAX {
                break;
            }
            let Some(owner) = self.first_argument(*caller) else {
                break;
            };
            start = start.wrapping_sub(owner.offset);
            known = owner;
        }
        let type_name = self.flow.name(&known).to_owned();
        let range = AddrRange::with_len(start, self.size_of(&known))?;
        let kind = RegionKind::Object {
            name: type_name.clone(),
            type_name,
        };
        Some(Region { range, kind })
    }

    /// The object that a call before an address is given.
    fn first_argument(&mut self, caller: u64) -> Option<AccessedType> {
        let function = self.function(caller)?;
        self.flow.argument(&self.functions.of(&function), caller, 0)
    }

    fn size_of(&mut self, known: &AccessedType) -> u64 {
        self.flow.btf().types().get(known.type_id).size.unwrap_or(0)
    }

    /// Forgets what lines were part of.
    pub(super) fn forget(&mut self) {
        self.looked_at.clear();
        self.slabs.clear();
        self.objects.clear();
    }

    fn walker(&mut self) -> Walker<'_> {
        Walker {
            symbols: &self.symbols,
            btf: self.flow.btf(),
            memory: &mut self.memory,
            cpu_count: self.cpu_count,
        }
    }

    /// The kernel's image, and what lines are part of.
    pub(super) fn records(&mut self) -> Vec<Record> {
        let image = kernel_records::image(&self.symbols, self.build_id.clone());
        let areas = self.walker().per_cpu_areas();
        let areas = areas.into_iter().filter_map(kernel_records::per_cpu);
        // Reports know the types of the other variables.
        let own = std::mem::take(&mut self.own);
        let variables = self.walker().variables(&own);
        self.own = own;
        let variables = variables.into_iter().filter_map(kernel_records::object);
        let slabs = self.slabs.values().cloned();
        let regions = slabs.chain(areas).chain(self.objects.values().cloned());
        let regions = regions.chain(variables);
        std::iter::once(image)
            .chain(regions.map(Record::Region))
            .collect()
    }
}

/// A line that only its address tells: in memory without an owner that is known, or among the variables of a kernel
/// that does not list them (without CONFIG_KALLSYMS_ALL).
fn without_name(line: u64) -> Option<Region> {
    let what = match IMAGE.contains(&line) {
        true => "variable of the kernel",
        false => "memory of the kernel",
    };
    let kind = RegionKind::Object {
        name: format!("{what} at {line:#x}"),
        type_name: String::new(),
    };
    let range = AddrRange::with_len(line, LINE_SIZE)?;
    Some(Region { range, kind })
}

/// The memory of the running kernel, as a walker reads it.
#[derive(Debug)]
struct LiveMemory(KernelPeek);

impl GuestMemory for LiveMemory {
    fn read(&mut self, address: u64, size: u64) -> io::Result<Vec<u8>> {
        match is_kernels(address) {
            true => self.0.read(address, size),
            false => Err(io::ErrorKind::InvalidInput.into()),
        }
    }
}
