//! Names in a recorded machine: the kernel's objects, its variables, and the program's memory.

use std::borrow::Cow;
use std::path::PathBuf;

use hitm_layout::{StructLayout, TypeStore};
use hitm_trace::{Region, RegionKind};

use super::labels::DataLabel;
use super::names::AddressNames;
use super::typed::{Code, Source, TypedPlace};
use crate::kernel_names::{MOVED, page_of};

/// Bytes of a page of the machines that can be recorded.
const PAGE_BYTES: u64 = 4096;

/// Bytes of a type that only says how its owner is guarded or counted: locks, counters, links.
pub const PART_BYTES_MAX: u64 = 40;

/// Beginning of the name of memory that a kernel mapped for itself, behind which the function that did stands.
pub const VMALLOC_AREA: &str = "vmalloc area of ";

/// Category of an address in a recorded machine, by what identifies it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum KnownAs {
    /// An object that a walk over the kernel's memory found.
    Object,
    /// A variable of the kernel, a CPU's copy of one, or a page's descriptor.
    Variable,
    /// An object whose type its slab cache says, or the code that uses it.
    Typed,
    /// An object of a slab cache, of which only the cache is known.
    Slab,
    /// Memory of the recorded program.
    Program,
}

/// Place of an access in an object of some type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TypePlace {
    /// Address of the object.
    pub base: u64,
    /// Bytes from there to the access, in the layout in which the object was priced.
    pub offset: u64,
    /// True if that is another layout than the compiled one (`hitm vm run --layout`).
    pub is_moved: bool,
}

impl AddressNames<'_> {
    /// The kernel's memory that holds the byte at `addr`, as walks and caches tell it. Where they say no type, the object
    /// by the code that uses it.
    pub(super) fn kernel_region(&self, addr: u64) -> Option<Cow<'_, Region>> {
        let told = self.kernel_regions.at(addr);
        let voted = self.kernel_place(addr).and_then(|place| {
            let mut region = place.region()?;
            // A lock without its owner: others of the kind are other locks.
            if let RegionKind::Object { name, .. } = &mut region.kind
                && place.of.size <= PART_BYTES_MAX
            {
                *name = format!("{name} in {}", self.memory_at(place.base));
            }
            Some(region)
        });
        voted.map(Cow::Owned).or(told.map(Cow::Borrowed))
    }

    /// Words for the kernel's memory at an address, as far as walks and caches tell.
    fn memory_at(&self, addr: u64) -> String {
        let Some(region) = self.kernel_regions.at(addr) else {
            return format!("memory at {addr:#x}");
        };
        let offset = addr - region.range.start();
        match &region.kind {
            RegionKind::Slab {
                cache,
                stride_bytes,
                ..
            } => match offset % (*stride_bytes).max(1) {
                0 => format!("slab {cache}"),
                inside => format!("slab {cache}+{inside:#x}"),
            },
            RegionKind::PerCpu { cpu } => format!("memory of CPU {cpu}"),
            _ => self.region_label(region, addr).object,
        }
    }

    /// The object that holds the byte at `addr`, where only the kernel's code says its type.
    pub(super) fn kernel_place(&self, addr: u64) -> Option<TypedPlace> {
        let kernel = self.kernel.as_ref()?;
        let source = Source {
            statistics: self.statistics,
            code: Code::Kernel(kernel.code_that_runs()?),
            are_samples: self.is_sampled,
        };
        let Some(region) = self.kernel_regions.at(addr) else {
            let is_named = addr >> 63 == 0 || kernel.variable(addr, 1, None).is_some();
            return (!is_named).then(|| self.types.on_line(source, addr, None))?;
        };
        if let Some(object) = self.kernel_regions.untyped_at(addr) {
            return self.types.in_range(source, object, addr, || None);
        }
        let offset = addr - region.range.start();
        let is_untold = match &region.kind {
            RegionKind::PerCpu { .. } => !kernel.is_in_per_cpu_image(offset),
            RegionKind::Object { name, type_name } => {
                type_name.is_empty() && name.starts_with(VMALLOC_AREA)
            }
            _ => false,
        };
        is_untold.then(|| self.types.on_line(source, addr, Some(region.range)))?
    }

    /// Returns the label of an address in a region of a kernel.
    pub(super) fn kernel_label(&self, region: &Region, addr: u64, size: u8) -> DataLabel {
        let start = region.range.start();
        let offset = addr - start;
        let mut label = self.region_label(region, addr);
        let kernel = self.kernel.as_ref();
        let member = |type_name: &str, at: u64| match kernel.filter(|_| !type_name.is_empty()) {
            Some(kernel) if MOVED.contains(&start) => kernel.moved_member(type_name, at, size),
            Some(kernel) => kernel.member(type_name, at..at + u64::from(size)),
            None => format!("+{at:#x}"),
        };
        match &region.kind {
            RegionKind::Object { type_name, .. } => label.member = member(type_name, offset),
            RegionKind::Slab {
                cache,
                type_name,
                stride_bytes,
            } => {
                let stride = (*stride_bytes).max(1);
                label.object_addr = start + offset / stride * stride;
                label.object_size = stride;
                label.member = member(type_name, offset % stride);
                label.object = match type_name.is_empty() {
                    true => format!("slab {cache}"),
                    false => type_name.clone(),
                };
            }
            RegionKind::PerCpu { cpu } => {
                if let Some(own) = kernel.and_then(|kernel| kernel.per_cpu(*cpu, offset, size)) {
                    label = own;
                    label.object_addr = label.object_addr.wrapping_add(start);
                }
            }
            RegionKind::UserMemory { address } => {
                if let Some(own) = self.file_label(address + offset, size) {
                    return own;
                }
                label.object_addr = address & !(PAGE_BYTES - 1);
                label.member = format!("{:#x}", address + offset);
            }
            _ => {}
        }
        if let Some(place) = self.kernel_place(addr) {
            let memory = self.memory_at(place.base);
            label.origin = format!("{memory}, {}", place.tally);
        }
        label
    }

    /// The content of the page whose descriptor is at `addr`.
    pub(super) fn page_content(&self, addr: u64) -> Option<&Region> {
        self.kernel_regions.at(page_of(addr)?)
    }

    /// Asks the kernel's types about a structure; none when it has none of this name.
    pub fn with_kernel_type<T>(
        &self,
        type_name: &str,
        ask: impl FnOnce(&TypeStore, &StructLayout) -> T,
    ) -> Option<T> {
        self.kernel.as_ref()?.with_type(type_name, ask)
    }

    /// Bytes of a type in the kernel that was recorded, and where its types are kept; none when no
    /// kernel was recorded, or without such a type.
    pub fn kernel_size(&self, type_name: &str) -> Option<(u64, PathBuf)> {
        let size = self.with_kernel_type(type_name, |_, layout| layout.size)?;
        Some((size, self.kernel_types.clone()?))
    }

    /// True if a whole machine was recorded, and names of its kernel are kept.
    pub fn is_machine(&self) -> bool {
        self.kernel.is_some() && !self.is_sampled
    }

    /// Returns the category of an address of a recorded machine; none when nothing identifies it.
    pub fn known_as(&self, addr: u64) -> Option<KnownAs> {
        if self.kernel_place(addr).is_some() {
            return Some(KnownAs::Typed);
        }
        let Some(region) = self.kernel_regions.at(addr) else {
            let kernel = self.kernel.as_ref()?;
            return kernel.variable(addr, 1, None).map(|_| KnownAs::Variable);
        };
        Some(match &region.kind {
            RegionKind::Slab { type_name, .. } if type_name.is_empty() => KnownAs::Slab,
            RegionKind::Slab { .. } => KnownAs::Typed,
            RegionKind::PerCpu { .. } => KnownAs::Variable,
            RegionKind::UserMemory { .. } => KnownAs::Program,
            _ => KnownAs::Object,
        })
    }

    /// The object of type `wanted` that holds the byte at `addr`, also one inside another object.
    pub fn place_in_type(&self, addr: u64, size: u8, wanted: &str) -> Option<TypePlace> {
        let region = self.kernel_region(addr);
        let base = match region
            .as_deref()
            .map(|region| (&region.kind, region.range.start()))
        {
            Some((RegionKind::UserMemory { address }, start)) => {
                let own = address + (addr - start);
                let base = self.typed_instance(own, size, wanted)?;
                // By its address in the machine, as all others.
                addr.wrapping_sub(own - base)
            }
            Some(_) => self.instance_in_kernel(addr, wanted)?,
            None => match self.instance_in_kernel(addr, wanted) {
                Some(base) => base,
                None => self.typed_instance(addr, size, wanted)?,
            },
        };
        let offset = addr.wrapping_sub(base);
        Some(TypePlace {
            base,
            offset,
            is_moved: MOVED.contains(&base),
        })
    }

    /// The kernel's own object of type `wanted` that holds the byte at `addr`.
    pub(super) fn instance_in_kernel(&self, addr: u64, wanted: &str) -> Option<u64> {
        let kernel = self.kernel.as_ref()?;
        match self.kernel_region(addr) {
            Some(region) => kernel.instance(&region, addr, wanted),
            None => kernel.instance_in_variable(addr, self.page_content(addr), wanted),
        }
    }

    /// Offset in the compiled type of the byte at `addr`, in an object at `base`.
    pub fn compiled_offset(&self, addr: u64, base: u64, type_name: &str) -> u64 {
        let offset = addr.wrapping_sub(base);
        match &self.kernel {
            Some(kernel) if MOVED.contains(&base) => kernel.compiled_offset(type_name, offset),
            _ => offset,
        }
    }

    /// The type of the object that holds the byte at `addr`; of an array, that of its elements. None
    /// for memory whose type nothing says.
    pub fn type_of(&self, addr: u64, size: u8) -> Option<String> {
        let Some(region) = self.kernel_region(addr) else {
            let kernel = self.kernel.as_ref();
            let of_image = kernel.and_then(|known| known.image_type(addr, self.page_content(addr)));
            return of_image.or_else(|| self.file_type(addr, size));
        };
        let offset = addr - region.range.start();
        match &region.kind {
            RegionKind::Object { type_name, .. } | RegionKind::Slab { type_name, .. } => {
                (!type_name.is_empty()).then(|| type_name.clone())
            }
            RegionKind::PerCpu { .. } => self.kernel.as_ref()?.per_cpu_type(offset),
            RegionKind::UserMemory { address } => self.file_type(address + offset, size),
            _ => None,
        }
    }

    /// The member at a place in a kernel's type, by the layout of its object; none without a kernel.
    pub fn member_of_type(&self, type_name: &str, place: TypePlace, size: u8) -> Option<String> {
        let kernel = self.kernel.as_ref()?;
        let end = place.offset + u64::from(size);
        Some(match place.is_moved {
            true => kernel.moved_member(type_name, place.offset, size),
            false => kernel.member(type_name, place.offset..end),
        })
    }
}
