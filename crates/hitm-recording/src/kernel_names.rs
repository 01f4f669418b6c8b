//! From addresses of a recorded kernel to names.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;

use hitm_kernel::{
    DIRECT_MAP, KernelSymbols, PAGE_BYTES, PAGE_CACHE_OF, PAGE_DESCRIPTOR, PAGE_DESCRIPTOR_BYTES,
    PAGE_DESCRIPTORS, PAGE_TABLE, Walks,
};
use hitm_layout::instance_at;
use hitm_layout::layout_file::LayoutFile;
use hitm_layout::member_map::MemberMap;
use hitm_layout::{BtfFile, LeafList, StructLayout, TypeId, TypeKind, TypeStore};
use hitm_trace::{Region, RegionKind};

use crate::kernel_code::KernelCode;
use crate::kernel_files::KernelFiles;
use crate::recording::{CodeLabel, DataLabel, element_name};

/// Addresses at which objects with moved members are priced. A kernel without KASAN has nothing
/// here (Documentation/arch/x86/x86_64/mm.rst has its shadow memory there).
pub const MOVED: Range<u64> = 0xffff_ec00_0000_0000..0xffff_ed00_0000_0000;

/// Names of one kernel.
#[derive(Debug)]
pub(crate) struct KernelNames {
    symbols: KernelSymbols,
    /// Linked area of per-CPU variables: their symbols are relative to its start.
    per_cpu: Option<Range<u64>>,
    btf: Option<RefCell<BtfFile>>,
    /// Types of variables of the image: BTF has those of per-CPU variables alone.
    variables: BTreeMap<String, String>,
    /// The code that says what it accesses, if it is kept.
    code: Option<KernelCode>,
    /// Structures whose objects were priced in another layout, by name.
    moved: BTreeMap<String, MemberMap>,
}

/// Lock of a page table, in its page's descriptor.
const PAGE_TABLE_LOCK: &str = "ptl";

/// Returns the address of the page whose descriptor is at `descriptor`, in the direct map.
pub(crate) fn page_of(descriptor: u64) -> Option<u64> {
    let offset = descriptor.checked_sub(PAGE_DESCRIPTORS.start)?;
    PAGE_DESCRIPTORS
        .contains(&descriptor)
        .then(|| DIRECT_MAP + offset / PAGE_DESCRIPTOR_BYTES * PAGE_BYTES)
}

/// End of the page's descriptor that holds the byte at an address.
pub(crate) fn descriptor_end(addr: u64) -> Option<u64> {
    let offset = addr.checked_sub(PAGE_DESCRIPTORS.start)?;
    PAGE_DESCRIPTORS
        .contains(&addr)
        .then(|| addr - offset % PAGE_DESCRIPTOR_BYTES + PAGE_DESCRIPTOR_BYTES)
}

/// A place in a variable of the image.
struct InVariable {
    /// Type of the variable, or of its elements.
    of: TypeId,
    /// Bytes from the start of the variable or element.
    offset: u64,
    /// Of an array: the element's number.
    index: Option<u64>,
}

/// A page's descriptor, by what the page is used for.
struct Descriptor {
    name: String,
    type_name: &'static str,
    is_page_table: bool,
}

impl Descriptor {
    /// The descriptor that holds the byte at an address, with the byte's offset in it.
    fn at(address: u64, content: Option<&Region>) -> Option<(Descriptor, u64)> {
        if !PAGE_DESCRIPTORS.contains(&address) {
            return None;
        }
        let into = address - PAGE_DESCRIPTORS.start;
        let page = Descriptor::of(into / PAGE_DESCRIPTOR_BYTES, content);
        Some((page, into % PAGE_DESCRIPTOR_BYTES))
    }

    /// The descriptor of page `number`, with `content`. Its members have several uses in `struct page`, and one
    /// in the type for its use.
    fn of(number: u64, content: Option<&Region>) -> Descriptor {
        let of = |name: String, type_name| Descriptor {
            name,
            type_name,
            is_page_table: false,
        };
        let unknown = || of(format!("{PAGE_DESCRIPTOR} {number:#x}"), "folio");
        match content.map(|region| &region.kind) {
            Some(RegionKind::Slab { cache, .. }) => of(
                format!("{PAGE_DESCRIPTOR} {number:#x} of slab {cache}"),
                "slab",
            ),
            Some(RegionKind::Object { name, .. }) if name == PAGE_TABLE => Descriptor {
                is_page_table: true,
                ..of(
                    format!("{PAGE_DESCRIPTOR} {number:#x} of a page table"),
                    "ptdesc",
                )
            },
            Some(RegionKind::Object { name, .. }) => match name.strip_prefix(PAGE_CACHE_OF) {
                Some(file) => of(format!("{PAGE_DESCRIPTOR} of {file}"), "folio"),
                None => unknown(),
            },
            _ => unknown(),
        }
    }
}

impl KernelNames {
    /// Loads the kept names of the kernel with this build id, whose image was at `image`; none when nothing is kept.
    /// They may be of another boot, for which address randomisation chose another place.
    pub(crate) fn load(build_id: &[u8], image: u64, layouts: &[LayoutFile]) -> Option<KernelNames> {
        let files = KernelFiles::of(build_id);
        let kallsyms = files.kallsyms().ok()?;
        let symbols = KernelSymbols::parse(&String::from_utf8_lossy(&kallsyms));
        let listed = symbols.image().map_or(image, |listed| listed.start);
        let shift = image.wrapping_sub(listed);
        let types = files.btf().ok();
        let parse = || BtfFile::parse(types.clone()?, None, "the kernel's BTF").ok();
        let code = files.code().ok();
        let code = code.and_then(|code| KernelCode::new(symbols.clone(), shift, parse()?, code));
        let btf = parse().map(RefCell::new);
        let symbols = symbols.shifted(shift);
        let mut names = KernelNames {
            per_cpu: symbols.per_cpu(),
            symbols,
            btf,
            variables: Walks::known().variable,
            code,
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

    /// The code that says what it accesses, if it is kept.
    pub(crate) fn code_that_runs(&self) -> Option<&KernelCode> {
        self.code.as_ref()
    }

    /// Returns true if the byte at `offset` of a CPU's area is of a variable of the image; else it was given out while the
    /// kernel ran.
    pub(crate) fn is_in_per_cpu_image(&self, offset: u64) -> bool {
        let area = self.per_cpu.as_ref();
        area.is_some_and(|area| offset < area.end - area.start)
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
        let before = self.compiled_offset(type_name, offset);
        self.member(type_name, before..before + u64::from(size))
    }

    /// Offset in the compiled type of a byte of an object that was priced in another layout.
    pub(crate) fn compiled_offset(&self, type_name: &str, offset: u64) -> u64 {
        let moved = self.moved.get(type_name);
        moved.map_or(offset, |map| map.before(offset))
    }

    /// Function at a kernel address.
    pub(crate) fn code(&self, address: u64) -> Option<CodeLabel> {
        let (function, _) = self.symbols.in_image(address)?;
        Some(CodeLabel {
            function: function.to_owned(),
            ..CodeLabel::default()
        })
    }

    /// Variable of the kernel's image at an address, or the page whose descriptor is there; `content` is what that
    /// page holds.
    pub(crate) fn variable(
        &self,
        address: u64,
        size: u8,
        content: Option<&Region>,
    ) -> Option<DataLabel> {
        if let Some((page, offset)) = Descriptor::at(address, content) {
            let member = match self.table_lock(&page, offset) {
                Some(_) => format!(".{PAGE_TABLE_LOCK}"),
                None => {
                    let type_name = self.descriptor_type(&page);
                    self.member(type_name, offset..offset + u64::from(size))
                }
            };
            return Some(DataLabel {
                object: page.name,
                object_addr: address - offset,
                object_size: PAGE_DESCRIPTOR_BYTES,
                member,
                ..DataLabel::default()
            });
        }
        let (name, offset) = self.symbols.in_image(address)?;
        let member = match self.of_table(name, offset) {
            Some(place) => {
                let end = place.offset + u64::from(size);
                let index = place.index.map(|index| format!("[{index}]"));
                index.unwrap_or_default() + &self.member_of(place.of, place.offset..end)
            }
            None => offset_text(offset),
        };
        Some(DataLabel {
            object: name.to_owned(),
            object_addr: address - offset,
            object_size: 0,
            member,
            ..DataLabel::default()
        })
    }

    /// The object, or element, of a variable in the table that holds its byte at `offset`.
    fn of_table(&self, name: &str, offset: u64) -> Option<InVariable> {
        let known = self.variables.get(name)?;
        let element = known.strip_suffix("[]");
        let of = self.type_id(element.unwrap_or(known))?;
        let btf = self.btf.as_ref()?.borrow();
        let size = btf.types().get(btf.types().resolve(of)).size?;
        match element {
            Some(_) => Some(InVariable {
                of,
                offset: offset.checked_rem(size)?,
                index: Some(offset / size),
            }),
            None => (offset < size).then_some(InVariable {
                of,
                offset,
                index: None,
            }),
        }
    }

    /// The type of a page's descriptor, as far as this kernel has one for its use.
    fn descriptor_type(&self, page: &Descriptor) -> &'static str {
        match self.type_id(page.type_name) {
            Some(_) => page.type_name,
            None => PAGE_DESCRIPTOR,
        }
    }

    /// Offset and type of a page table's lock, if it holds the byte at `offset` of a descriptor.
    fn table_lock(&self, page: &Descriptor, offset: u64) -> Option<(u64, TypeId)> {
        let of = self.type_id(self.descriptor_type(page))?;
        let btf = self.btf.as_ref().filter(|_| page.is_page_table)?.borrow();
        let (start, lock) = find_member(btf.types(), of, PAGE_TABLE_LOCK)?;
        let size = btf.types().get(btf.types().resolve(lock)).size?;
        (start..start + size)
            .contains(&offset)
            .then_some((start, lock))
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
        if MOVED.contains(&start) {
            return match &region.kind {
                RegionKind::Object { type_name, .. } => (type_name == wanted).then_some(start),
                RegionKind::Slab {
                    type_name,
                    stride_bytes,
                    ..
                } => {
                    let offset = addr - start;
                    (type_name == wanted).then_some(addr - offset % (*stride_bytes).max(1))
                }
                _ => None,
            };
        }
        let inner = self.in_object(region, addr, |types, of, offset| {
            instance_at(types, of, wanted, offset).map(|inner| (inner, offset))
        });
        inner.map(|(inner, offset)| addr - offset + inner)
    }

    /// Address of the object of type `wanted` that holds the byte at `addr`, in or around a variable of the image or
    /// a page's descriptor; `content` is what that page holds.
    pub(crate) fn instance_in_variable(
        &self,
        addr: u64,
        content: Option<&Region>,
        wanted: &str,
    ) -> Option<u64> {
        // Types for a page's use lie over `struct page`, and do not hold it.
        if wanted == PAGE_DESCRIPTOR && self.type_id(wanted).is_some() {
            return descriptor_end(addr).map(|end| end - PAGE_DESCRIPTOR_BYTES);
        }
        self.in_variable(addr, content, |types, of, offset| {
            Some(addr - offset + instance_at(types, of, wanted, offset)?)
        })
    }

    /// Type of the variable of the image, or of the page's descriptor, that holds the byte at `addr`.
    pub(crate) fn image_type(&self, addr: u64, content: Option<&Region>) -> Option<String> {
        self.in_variable(addr, content, |types, of, _| Some(element_name(types, of)))
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
            _ if MOVED.contains(&start) => return None,
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

    /// Asks about the variable of the image, or the page's descriptor, that holds the byte at `addr`; `content` is
    /// what that page holds.
    pub(crate) fn in_variable<T>(
        &self,
        addr: u64,
        content: Option<&Region>,
        ask: impl FnOnce(&TypeStore, TypeId, u64) -> Option<T>,
    ) -> Option<T> {
        let Some((page, offset)) = Descriptor::at(addr, content) else {
            let (name, offset) = self.symbols.in_image(addr)?;
            let place = self.of_table(name, offset)?;
            return ask(self.btf.as_ref()?.borrow().types(), place.of, place.offset);
        };
        let of = self.type_id(self.descriptor_type(&page))?;
        let lock = self.table_lock(&page, offset);
        let (start, of) = lock.unwrap_or((0, of));
        let btf = self.btf.as_ref()?.borrow();
        ask(btf.types(), of, offset - start)
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
            let leaf = list.leaves.first().map(|leaf| leaf.path.clone());
            let flexible = || flexible_element(btf.types(), type_id, range.start);
            leaf.filter(|path| !path.is_empty() || range.start == 0)
                .or_else(flexible)
        });
        path.unwrap_or_else(|| offset_text(range.start))
    }
}

/// Element of the array of any length at a structure's end that holds the byte at `offset`.
fn flexible_element(store: &TypeStore, of: TypeId, offset: u64) -> Option<String> {
    let last = store.layout(of)?.members.last()?;
    let TypeKind::Array { element, count } = store.get(store.resolve(last.type_id)).kind else {
        return None;
    };
    let size = store
        .get(store.resolve(element))
        .size
        .filter(|size| *size > 0)?;
    let inside = offset.checked_sub(last.byte_offset())?;
    let name = last.name.as_deref().filter(|_| count.unwrap_or(0) == 0)?;
    Some(format!(".{name}[{}]", inside / size))
}

/// Offset and type of a member, also one of an anonymous structure or union inside.
fn find_member(store: &TypeStore, of: TypeId, name: &str) -> Option<(u64, TypeId)> {
    store.layout(of)?.members.iter().find_map(|member| {
        let (offset, id) = match member.name.as_deref().unwrap_or_default() {
            "" => find_member(store, member.type_id, name)?,
            own if own == name => (0, member.type_id),
            _ => return None,
        };
        Some((member.byte_offset() + offset, id))
    })
}

fn offset_text(offset: u64) -> String {
    match offset {
        0 => String::new(),
        _ => format!("+{offset:#x}"),
    }
}

#[cfg(test)]
mod tests {
    use hitm_base::AddrRange;
    use hitm_test::btf::{Assembler, Info, kind};

    use super::*;

    /// A kernel with descriptors of pages, a lock and an array of any length.
    fn kernel() -> KernelNames {
        let mut btf = Assembler::new(false);
        let int = btf.int("int", 4);
        let word = btf.int("long", 8);
        let spinlock = btf.structure("spinlock", 4, &[("locked", int, 0)]);
        btf.of(kind::TYPEDEF, "spinlock_t", spinlock);
        let flags = ("flags", word, 0);
        btf.structure("page", 64, &[flags, ("private", word, 0x28 * 8)]);
        btf.structure("folio", 64, &[flags, ("_mapcount", int, 0x30 * 8)]);
        btf.structure("slab", 64, &[flags, ("freelist", word, 0x20 * 8)]);
        let members = [("pad", word, 0), ("ptl", spinlock, 0)];
        let lock_or_pad = btf.aggregate("", Info::of(kind::UNION), 8, &members);
        btf.structure("ptdesc", 64, &[flags, ("", lock_or_pad, 0x28 * 8)]);
        let nodes = btf.array(word, 0);
        btf.structure("group", 16, &[("id", int, 0), ("nodes", nodes, 64)]);
        let btf = BtfFile::parse(btf.finish().into(), None, "the kernel").unwrap();
        let symbols = "ffffffff81000000 T _text\nffffffff82000000 D a_lock\n\
                       ffffffff82000010 D other\nffffffff82000100 B _end\n";
        KernelNames {
            symbols: KernelSymbols::parse(symbols),
            per_cpu: None,
            btf: Some(RefCell::new(btf)),
            variables: BTreeMap::from([("a_lock".to_owned(), "spinlock_t".to_owned())]),
            code: None,
            moved: BTreeMap::new(),
        }
    }

    fn page(kind: RegionKind) -> Region {
        let range = AddrRange::new(DIRECT_MAP, DIRECT_MAP + PAGE_BYTES).unwrap();
        Region { range, kind }
    }

    fn object(name: &str) -> Region {
        page(RegionKind::Object {
            name: name.to_owned(),
            type_name: String::new(),
        })
    }

    #[test]
    fn a_descriptor_is_named_by_what_its_page_holds() {
        let kernel = kernel();
        let name = |offset: u64, content: Option<&Region>| {
            let label = kernel.variable(PAGE_DESCRIPTORS.start + offset, 4, content);
            let label = label.unwrap();
            label.object + &label.member
        };
        assert_eq!(name(64 + 0x30, None), "page 0x1._mapcount");
        let file = object("page cache of a.out[7]");
        assert_eq!(name(0x30, Some(&file)), "page of a.out[7]._mapcount");
        let slab = page(RegionKind::Slab {
            cache: "dentry".to_owned(),
            type_name: String::new(),
            stride_bytes: 192,
        });
        assert_eq!(name(0x20, Some(&slab)), "page 0x0 of slab dentry.freelist");
        let table = object(PAGE_TABLE);
        assert_eq!(name(0x28, Some(&table)), "page 0x0 of a page table.ptl");
        assert_eq!(name(0, Some(&table)), "page 0x0 of a page table.flags");
        let lock_at = |offset, content| {
            let at = PAGE_DESCRIPTORS.start + offset;
            kernel.in_variable(at, content, |types, of, offset| {
                Some((types.get(of).name.to_string(), offset))
            })
        };
        let lock = ("struct spinlock".to_owned(), 0);
        assert_eq!(lock_at(0x28, Some(&table)), Some(lock));
        let instance = |content, wanted| {
            let found = kernel.instance_in_variable(PAGE_DESCRIPTORS.start + 0x74, content, wanted);
            found.map(|start| start - PAGE_DESCRIPTORS.start)
        };
        for content in [None, Some(&file), Some(&slab), Some(&table)] {
            assert_eq!(instance(content, "page"), Some(64), "{content:?}");
        }
        assert_eq!(instance(Some(&file), "folio"), Some(64));
        assert_eq!(instance(Some(&slab), "folio"), None);
        assert_eq!(lock_at(0x28, Some(&file)).unwrap().1, 0x28);
    }

    #[test]
    fn a_descriptor_leads_to_its_page() {
        assert_eq!(
            page_of(PAGE_DESCRIPTORS.start + 0x50),
            Some(DIRECT_MAP + PAGE_BYTES)
        );
        assert_eq!(page_of(PAGE_DESCRIPTORS.end), None);
        assert_eq!(page_of(0), None);
    }

    #[test]
    fn variables_of_the_image_have_the_types_of_the_table() {
        let kernel = kernel();
        let member = |address| kernel.variable(address, 4, None).unwrap().member;
        assert_eq!(member(0xffff_ffff_8200_0000), ".locked");
        assert_eq!(member(0xffff_ffff_8200_0008), "+0x8");
        assert_eq!(member(0xffff_ffff_8200_0014), "+0x4");
        let has_type = |address| kernel.in_variable(address, None, |_, _, at| Some(at));
        assert_eq!(has_type(0xffff_ffff_8200_0000), Some(0));
        assert_eq!(has_type(0xffff_ffff_8200_0008), None);
        assert_eq!(has_type(0xffff_ffff_8200_0010), None);
    }

    #[test]
    fn objects_are_found_in_variables_and_in_slabs_with_another_layout() {
        let kernel = kernel();
        let in_variable = |addr, wanted| kernel.instance_in_variable(addr, None, wanted);
        let lock = 0xffff_ffff_8200_0000;
        assert_eq!(in_variable(lock + 2, "spinlock"), Some(lock));
        assert_eq!(in_variable(lock + 2, "page"), None);
        assert_eq!(in_variable(lock + 8, "spinlock"), None);
        assert_eq!(kernel.image_type(lock, None).as_deref(), Some("spinlock_t"));
        let moved = Region {
            range: AddrRange::new(MOVED.start, MOVED.start + 0x1000).unwrap(),
            kind: RegionKind::Slab {
                cache: "groups".to_owned(),
                type_name: "group".to_owned(),
                stride_bytes: 128,
            },
        };
        let at = MOVED.start + 2 * 128 + 8;
        assert_eq!(kernel.instance(&moved, at, "group"), Some(at - 8));
        assert_eq!(kernel.instance(&moved, at, "page"), None);
    }

    #[test]
    fn an_array_of_any_length_has_elements() {
        assert_eq!(kernel().member("group", 0..4), ".id");
        assert_eq!(kernel().member("group", 8..16), ".nodes[0]");
        assert_eq!(kernel().member("group", 24..32), ".nodes[2]");
    }
}
