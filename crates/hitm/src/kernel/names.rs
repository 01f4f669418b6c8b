//! From addresses of a recorded kernel to names.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;

use hitm_layout::layout_file::LayoutFile;
use hitm_layout::{BtfFile, LeafList, StructLayout, TypeId, TypeStore};
use hitm_trace::{Region, RegionKind};

use super::slabs::{PAGE_DESCRIPTOR, PAGE_DESCRIPTOR_BYTES, PAGE_DESCRIPTORS};
use super::store::KernelFiles;
use super::symbols::KernelSymbols;
use crate::advise::instance_at;
use crate::recording::{CodeLabel, DataLabel, element_name};
use crate::whatif::member_map::MemberMap;

/// Addresses at which objects with moved members are priced. A kernel without KASAN has nothing
/// here (Documentation/arch/x86/x86_64/mm.rst has its shadow memory there).
pub(crate) const MOVED: Range<u64> = 0xffff_ec00_0000_0000..0xffff_ed00_0000_0000;

/// Names of one kernel.
#[derive(Debug)]
pub(crate) struct KernelNames {
    symbols: KernelSymbols,
    /// Linked area of per-CPU variables: their symbols are relative to its start.
    per_cpu: Option<Range<u64>>,
    btf: Option<RefCell<BtfFile>>,
    /// Structures whose objects were priced in another layout, by name.
    moved: BTreeMap<String, MemberMap>,
}

impl KernelNames {
    /// Loads the kept names of the kernel with this build id; none when nothing is kept.
    pub(crate) fn load(build_id: &[u8], layouts: &[LayoutFile]) -> Option<KernelNames> {
        let files = KernelFiles::of(build_id);
        let kallsyms = files.kallsyms().ok()?;
        let symbols = KernelSymbols::parse(&String::from_utf8_lossy(&kallsyms));
        let btf = files.btf().ok().and_then(|btf| {
            let btf = BtfFile::parse(btf, None, "the kernel's BTF");
            btf.ok().map(RefCell::new)
        });
        let mut names = KernelNames {
            per_cpu: symbols.per_cpu(),
            symbols,
            btf,
            moved: BTreeMap::new(),
        };
        for wanted in layouts.iter().flat_map(|layout| &layout.structs) {
            let map = names.with_type(&wanted.name, |types, compiled| {
                MemberMap::new(types, compiled, wanted, layouts)
            });
            if let Some(Ok(map)) = map {
                names.moved.entry(wanted.name.clone()).or_insert(map);
            }
        }
        Some(names)
    }

    /// Calls `ask` with a structure; none when the types have none of this name.
    pub(crate) fn with_type<T>(
        &self,
        type_name: &str,
        ask: impl FnOnce(&TypeStore, &StructLayout) -> T,
    ) -> Option<T> {
        let type_id = self.type_id(type_name)?;
        let btf = self.btf.as_ref()?.borrow();
        let layout = btf.types().layout(type_id)?;
        Some(ask(btf.types(), layout))
    }

    /// Member at an offset of an object as it was priced: in another layout, if it has one.
    pub(crate) fn moved_member(&self, type_name: &str, offset: u64, size: u8) -> String {
        let moved = self.moved.get(type_name);
        let before = moved.map_or(offset, |map| map.before(offset));
        self.member(type_name, before..before + u64::from(size))
    }

    /// Function at a kernel address.
    pub(crate) fn code(&self, address: u64) -> Option<CodeLabel> {
        let (function, _) = self.symbols.in_image(address)?;
        Some(CodeLabel {
            function: function.to_owned(),
            ..CodeLabel::default()
        })
    }

    /// Variable of the kernel's image at an address, or the page whose descriptor is there.
    pub(crate) fn variable(&self, address: u64, size: u8) -> Option<DataLabel> {
        if PAGE_DESCRIPTORS.contains(&address) {
            let offset = (address - PAGE_DESCRIPTORS.start) % PAGE_DESCRIPTOR_BYTES;
            let number = (address - PAGE_DESCRIPTORS.start) / PAGE_DESCRIPTOR_BYTES;
            return Some(DataLabel {
                object: format!("{PAGE_DESCRIPTOR} {number:#x}"),
                object_addr: address - offset,
                object_size: PAGE_DESCRIPTOR_BYTES,
                member: self.member(PAGE_DESCRIPTOR, offset..offset + u64::from(size)),
                ..DataLabel::default()
            });
        }
        let (name, offset) = self.symbols.in_image(address)?;
        Some(DataLabel {
            object: name.to_owned(),
            object_addr: address - offset,
            object_size: 0,
            member: offset_text(offset),
            ..DataLabel::default()
        })
    }

    /// Variable at `offset` in a CPU's area; its address is relative to the area.
    pub(crate) fn per_cpu(&self, cpu: u32, offset: u64, size: u8) -> Option<DataLabel> {
        let area = self.per_cpu.as_ref()?;
        let address = area.start.checked_add(offset)?;
        if !area.contains(&address) {
            return None;
        }
        let (name, inside) = self.symbols.at(address)?;
        let member = match self.variable_type(name) {
            Some(type_id) => self.member_of(type_id, inside..inside + u64::from(size)),
            None => offset_text(inside),
        };
        Some(DataLabel {
            object: format!("{name}[{cpu}]"),
            object_addr: offset.checked_sub(inside)?,
            object_size: 0,
            member,
            ..DataLabel::default()
        })
    }

    /// Type of the variable at `offset` in each CPU's area.
    pub(crate) fn per_cpu_type(&self, offset: u64) -> Option<String> {
        let address = self.per_cpu.as_ref()?.start.checked_add(offset)?;
        let (name, _) = self.symbols.at(address)?;
        let type_id = self.variable_type(name)?;
        let btf = self.btf.as_ref()?.borrow();
        Some(element_name(btf.types(), type_id))
    }

    /// Member at an offset of an object of this type.
    pub(crate) fn member(&self, type_name: &str, range: Range<u64>) -> String {
        match self.type_id(type_name) {
            Some(type_id) => self.member_of(type_id, range),
            None => offset_text(range.start),
        }
    }

    /// Address of the object of type `wanted` that holds the byte at `addr`, in or around this
    /// region.
    pub(crate) fn instance(&self, region: &Region, addr: u64, wanted: &str) -> Option<u64> {
        let start = region.range.start();
        if let RegionKind::Object { type_name, .. } = &region.kind
            && MOVED.contains(&start)
        {
            return (type_name == wanted).then_some(start);
        }
        let inner = self.in_object(region, addr, |types, of, offset| {
            instance_at(types, of, wanted, offset).map(|inner| (inner, offset))
        });
        inner.map(|(inner, offset)| addr - offset + inner)
    }

    /// Asks about the object in a region that holds the byte at `addr`: its type, and the byte's offset in it. Not
    /// about those with moved members.
    pub(crate) fn in_object<T>(
        &self,
        region: &Region,
        addr: u64,
        ask: impl FnOnce(&TypeStore, TypeId, u64) -> Option<T>,
    ) -> Option<T> {
        let start = region.range.start();
        let offset = addr - start;
        let (base, of) = match &region.kind {
            RegionKind::Object { .. } if MOVED.contains(&start) => return None,
            RegionKind::Object { type_name, .. } => (start, self.type_id(type_name)?),
            RegionKind::Slab {
                type_name,
                stride_bytes,
                ..
            } => {
                let stride = (*stride_bytes).max(1);
                (start + offset / stride * stride, self.type_id(type_name)?)
            }
            RegionKind::PerCpu { .. } => {
                let address = self.per_cpu.as_ref()?.start.checked_add(offset)?;
                let (name, inside) = self.symbols.at(address)?;
                (addr.checked_sub(inside)?, self.variable_type(name)?)
            }
            _ => return None,
        };
        let btf = self.btf.as_ref()?.borrow();
        ask(btf.types(), of, addr - base)
    }

    /// Asks about the page's descriptor that holds the byte at `addr`.
    pub(crate) fn in_page<T>(
        &self,
        addr: u64,
        ask: impl FnOnce(&TypeStore, TypeId, u64) -> Option<T>,
    ) -> Option<T> {
        if !PAGE_DESCRIPTORS.contains(&addr) {
            return None;
        }
        let of = self.type_id(PAGE_DESCRIPTOR)?;
        let btf = self.btf.as_ref()?.borrow();
        let offset = (addr - PAGE_DESCRIPTORS.start) % PAGE_DESCRIPTOR_BYTES;
        ask(btf.types(), of, offset)
    }

    fn type_id(&self, type_name: &str) -> Option<TypeId> {
        let type_name = type_name.strip_prefix("struct ").unwrap_or(type_name);
        let mut btf = self.btf.as_ref()?.borrow_mut();
        btf.type_by_name(type_name)
    }

    fn variable_type(&self, name: &str) -> Option<TypeId> {
        let mut btf = self.btf.as_ref()?.borrow_mut();
        btf.variable_type_by_name(name)
    }

    fn member_of(&self, type_id: TypeId, range: Range<u64>) -> String {
        let path = self.btf.as_ref().and_then(|btf| {
            let btf = btf.borrow();
            let size = btf.types().get(btf.types().resolve(type_id)).size?;
            let list = LeafList::find(btf.types(), type_id, size, range.clone(), true);
            list.leaves.first().map(|leaf| leaf.path.clone())
        });
        path.unwrap_or_else(|| offset_text(range.start))
    }
}

fn offset_text(offset: u64) -> String {
    match offset {
        0 => String::new(),
        _ => format!("+{offset:#x}"),
    }
}
