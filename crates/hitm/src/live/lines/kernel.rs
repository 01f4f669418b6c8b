//! The running kernel: accesses of its code, and names of its memory.
//!
//! A program in the kernel reads both for us ([`hitm_live::kernel`]), so that neither /proc/kcore nor debug
//! information is needed: code is decoded as it is, with what the kernel patched into it; an object's type is that of
//! its slab cache, which its page's descriptor leads to.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::path::Path;

use hitm_base::AddrRange;
use hitm_kernel::{GuestMemory, KernelSymbols, PAGE_DESCRIPTORS, Slab, Walker, Walks};
use hitm_layout::{BtfFile, Bytes, CodeBytes, MayAccess};
use hitm_live::kernel::KernelPeek;
use hitm_live::lines::{Seen, is_kernels};
use hitm_recording::{KERNEL_PATH, KernelFiles, build_id};
use hitm_trace::{Mapping, Record, Region, RegionKind};

use super::super::programs::SeenAccess;
use super::super::{LiveError, kernel_symbols, online_cpus, read};
use super::LinesError;

/// Bytes of a function that are read: longer ones are decoded around the sample.
const FUNCTION_BYTES_MAX: u64 = 64 << 10;
/// Instructions whose accesses are kept.
const KEPT_MAX: usize = 1 << 16;
/// Addresses that an image may have on x86-64 (Documentation/arch/x86/x86_64/mm.rst).
const IMAGE: Range<u64> = 0xffff_ffff_8000_0000..0xffff_ffff_c000_0000;
const LINE_BYTES: u64 = hitm_base::LINE_SIZE;

/// The running kernel.
pub(super) struct LiveKernel {
    memory: LiveMemory,
    symbols: KernelSymbols,
    btf: BtfFile,
    build_id: Vec<u8>,
    cpu_count: usize,
    walks: Walks,
    /// Accesses by the address of the sample.
    accesses: BTreeMap<u64, Vec<MayAccess>>,
    /// What lines are part of, by its first byte.
    regions: BTreeMap<u64, Region>,
}

impl LiveKernel {
    /// Gets ready to read the kernel's memory, and keeps its names for reports.
    ///
    /// # Errors
    /// This process may not, or the kernel does not describe itself.
    pub(super) fn open() -> Result<LiveKernel, LinesError> {
        let peek = KernelPeek::load().map_err(LinesError::Kernel)?;
        let symbols = kernel_symbols()?;
        let whole = |path: &str| {
            std::fs::read(path).map_err(|source| LiveError::Read {
                path: Path::new(path).into(),
                source,
            })
        };
        let types = whole("/sys/kernel/btf/vmlinux")?;
        let build_id = build_id(&whole("/sys/kernel/notes")?).unwrap_or_default();
        // Without a cache only names are missing, in a report that is made later.
        let listed = read(Path::new("/proc/kallsyms"))?;
        let _ = KernelFiles::of(&build_id).keep(listed.as_bytes(), &types);
        let btf = BtfFile::parse(Bytes::new(types), None, "the kernel's BTF");
        Ok(LiveKernel {
            memory: LiveMemory(peek),
            symbols,
            btf: btf.map_err(io::Error::other).map_err(LinesError::Types)?,
            build_id,
            cpu_count: online_cpus()?.len(),
            walks: Walks::known(),
            accesses: BTreeMap::new(),
            regions: BTreeMap::new(),
        })
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
        let (Some(function), Some(end)) = (self.start_of(address), self.symbols.next(address))
        else {
            return Vec::new();
        };
        let is_whole = end - function <= FUNCTION_BYTES_MAX;
        let around = address.saturating_sub(CodeBytes::AROUND)..address + CodeBytes::AROUND;
        let range = if is_whole { function..end } else { around };
        let bytes = self.memory.read(range.start, range.end - range.start);
        let code = CodeBytes {
            begin: range.start,
            bytes: &bytes.unwrap_or_default(),
        };
        match is_whole {
            true => code.operands_in_function(address),
            false => code.operands(address),
        }
    }

    /// First byte of the function that holds an instruction.
    fn start_of(&self, address: u64) -> Option<u64> {
        let (_, into) = self.symbols.at(address)?;
        Some(address - into)
    }

    /// Finds out what a line of the kernel is part of. An object may be another one's memory later, so that this is
    /// for when the line was just seen.
    pub(super) fn look_at(&mut self, line: u64) {
        let is_known = self.regions.range(..=line).next_back();
        if is_known.is_some_and(|(_, region)| region.range.contains(line)) {
            return;
        }
        let types = std::mem::take(&mut self.walks.slab);
        let slab = self.walker().slab_of(line, &types);
        self.walks.slab = types;
        let region = match slab {
            Some(slab) => of_slab(slab),
            None => self.without_name(line),
        };
        self.regions
            .extend(region.map(|region| (region.range.start(), region)));
    }

    fn walker(&mut self) -> Walker<'_> {
        Walker {
            symbols: &self.symbols,
            btf: &mut self.btf,
            memory: &mut self.memory,
            cpu_count: self.cpu_count,
        }
    }

    /// A line that only its address tells: in memory without an owner that is known, or among the variables of a kernel
    /// that does not list them (without CONFIG_KALLSYMS_ALL).
    fn without_name(&self, line: u64) -> Option<Region> {
        if PAGE_DESCRIPTORS.contains(&line) {
            // Its place tells the page.
            return None;
        }
        let is_listed = self.symbols.address("init_task").is_some();
        let what = match IMAGE.contains(&line) {
            true if is_listed => return None,
            true => "variable of the kernel",
            false => "memory of the kernel",
        };
        let kind = RegionKind::Object {
            name: format!("{what} at {line:#x}"),
            type_name: String::new(),
        };
        let range = AddrRange::with_len(line, LINE_BYTES)?;
        Some(Region { range, kind })
    }

    /// The kernel's image, and what lines are part of.
    pub(super) fn records(&mut self) -> Vec<Record> {
        let image = self.symbols.image().unwrap_or_default();
        let image = Record::Mapping(Mapping {
            range: AddrRange::new(image.start, image.end).unwrap_or_default(),
            file_offset: 0,
            path: KERNEL_PATH.into(),
            build_id: self.build_id.clone(),
            executable: true,
        });
        let areas = self.walker().per_cpu_areas();
        let areas = areas.into_iter().filter_map(|area| {
            Some(Region {
                range: AddrRange::new(area.start, area.end)?,
                kind: RegionKind::PerCpu { cpu: area.cpu },
            })
        });
        let regions = self.regions.values().cloned().chain(areas);
        std::iter::once(image)
            .chain(regions.map(Record::Region))
            .collect()
    }
}

fn of_slab(slab: Slab) -> Option<Region> {
    Some(Region {
        range: AddrRange::new(slab.start, slab.end)?,
        kind: RegionKind::Slab {
            cache: slab.cache,
            type_name: slab.type_name,
            stride_bytes: slab.stride_bytes,
        },
    })
}

/// The memory of the running kernel, as a walker reads it.
struct LiveMemory(KernelPeek);

impl GuestMemory for LiveMemory {
    fn read(&mut self, address: u64, size: u64) -> io::Result<Vec<u8>> {
        match is_kernels(address) {
            true => self.0.read(address, size),
            false => Err(io::ErrorKind::InvalidInput.into()),
        }
    }
}
