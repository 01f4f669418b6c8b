//! Walks over a stopped kernel's memory: from symbols, through members and pointers, to objects.
//!
//! Bounds: a list ends after [`LIST_MAX`] elements, an expression after [`OBJECTS_MAX`] objects;
//! memory that cannot be read ends only the path that led to it. A pointer may have any value, so
//! addresses wrap.

use std::collections::BTreeMap;
use std::io;

use hitm_layout::{BtfFile, TypeId, TypeKind};

use super::expression::{Expression, Step, Target};
use super::symbols::KernelSymbols;
use super::walks::Walks;

/// Limit on the elements of one list.
pub(super) const LIST_MAX: usize = 100_000;
/// Limit on the bytes of one CPU's variables.
const PER_CPU_BYTES_MAX: u64 = 64 << 20;
/// Limit on the objects of one expression.
const OBJECTS_MAX: usize = 1_000_000;
/// Limit on the NUMA nodes of a kernel: `MAX_NUMNODES` of distributions.
const NODES_MAX: u64 = 1024;
const POINTER_BYTES: u64 = 8;

/// Memory of a stopped guest.
pub trait GuestMemory {
    /// Reads the bytes at a virtual address of the kernel.
    fn read(&mut self, address: u64, size: u64) -> io::Result<Vec<u8>>;
}

/// An object of a kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelObject {
    /// Its first byte.
    pub start: u64,
    /// Its bytes.
    pub size: u64,
    /// `runqueues[3]`, `root_domain`.
    pub name: String,
    /// Its type in the kernel's BTF; empty when it has none.
    pub type_name: String,
}

/// The variables of one CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PerCpuArea {
    /// Its first byte.
    pub start: u64,
    /// The byte behind it.
    pub end: u64,
    /// The CPU whose variables it has.
    pub cpu: u32,
}

/// An object or member on the way to an object.
#[derive(Debug, Clone)]
struct Place {
    address: u64,
    /// Its type; none for memory that only has a size.
    type_id: Option<TypeId>,
    size: u64,
    /// Last index on the way: of a CPU or an element.
    index: Option<usize>,
}

/// A walker over a stopped kernel.
#[expect(missing_debug_implementations, reason = "a guest's memory has none")]
pub struct Walker<'k> {
    /// The kernel's symbols.
    pub symbols: &'k KernelSymbols,
    /// Its types.
    pub btf: &'k mut BtfFile,
    /// Its memory.
    pub memory: &'k mut dyn GuestMemory,
    /// CPUs that it runs on.
    pub cpu_count: usize,
}

impl Walker<'_> {
    /// Objects that the walks find, each address once, by address.
    pub fn objects(&mut self, walks: &Walks) -> Vec<KernelObject> {
        let mut found: BTreeMap<u64, KernelObject> = BTreeMap::new();
        for walk in &walks.walks {
            for object in self.walk(&walk.name, &walk.objects) {
                found.entry(object.start).or_insert(object);
            }
        }
        found.into_values().collect()
    }

    /// Variables of the image whose types are in the table, as far as this kernel has both.
    pub fn variables(&mut self, walks: &Walks) -> Vec<KernelObject> {
        let mut found = Vec::new();
        for (name, type_name) in &walks.variable {
            let element = type_name.strip_suffix("[]");
            let of = element.unwrap_or(type_name);
            let Some(type_id) = self.btf.type_by_name(of) else {
                continue;
            };
            let Some(start) = self.symbols.address(name) else {
                continue;
            };
            let place = self.typed(start, type_id, None);
            let object = |start, name| KernelObject {
                start,
                size: place.size,
                name,
                type_name: of.to_owned(),
            };
            if element.is_none() {
                found.push(object(start, name.clone()));
                continue;
            }
            let room = self.symbols.next(start).map_or(0, |next| next - start);
            let count = room.checked_div(place.size).unwrap_or(0);
            let elements = 0..count.min(OBJECTS_MAX as u64);
            found.extend(
                elements
                    .map(|index| object(start + index * place.size, format!("{name}[{index}]"))),
            );
        }
        found
    }

    /// Each CPU's variables, with the rest of its area.
    pub fn per_cpu_areas(&mut self) -> Vec<PerCpuArea> {
        let (Some(linked), Some(offsets)) = (self.symbols.per_cpu(), self.per_cpu_offsets()) else {
            return Vec::new();
        };
        // An `int`: the upper half of the word is another variable.
        let unit = self.variable_word("pcpu_unit_size").unwrap_or(0) & u64::from(u32::MAX);
        let size = unit.clamp(linked.end - linked.start, PER_CPU_BYTES_MAX);
        let areas = offsets.iter().zip(0..).map(|(offset, cpu)| {
            let start = linked.start.wrapping_add(*offset);
            PerCpuArea {
                start,
                end: start.saturating_add(size),
                cpu,
            }
        });
        areas.collect()
    }

    /// Reads the eight bytes of a variable.
    pub(super) fn variable_word(&mut self, name: &str) -> Option<u64> {
        let address = self.symbols.address(name)?;
        self.pointer(address)
    }

    /// Offset of a member in a structure.
    pub(super) fn member_offset(&mut self, type_name: &str, member: &str) -> Option<u64> {
        let type_id = self.btf.type_by_name(type_name)?;
        self.find_member(type_id, member).map(|(offset, _)| offset)
    }

    /// Bytes of the structure with a name.
    pub(super) fn layout_bytes(&mut self, name: &str) -> Option<u64> {
        let type_id = self.btf.type_by_name(name)?;
        Some(self.btf.types().layout(type_id)?.size)
    }

    /// Returns true if a structure has this name.
    pub(super) fn has_layout(&mut self, name: &str) -> bool {
        self.layout_bytes(name).is_some()
    }

    fn walk(&mut self, name: &str, expression: &Expression) -> Vec<KernelObject> {
        let places = distinct(self.places(expression).unwrap_or_default());
        let is_alone = places.len() == 1;
        let objects = places.into_iter().enumerate().map(|(ordinal, place)| {
            let index = place.index.unwrap_or(ordinal);
            let name = match is_alone {
                true => name.to_owned(),
                false => format!("{name}[{index}]"),
            };
            let type_name = place.type_id.map(|id| {
                let name = &self.btf.types().get(id).name;
                name.strip_prefix("struct ").unwrap_or(name).to_owned()
            });
            KernelObject {
                start: place.address,
                size: place.size,
                name,
                type_name: type_name.unwrap_or_default(),
            }
        });
        objects.filter(|object| object.size > 0).collect()
    }

    fn places(&mut self, expression: &Expression) -> Option<Vec<Place>> {
        let address = self.symbols.address(&expression.symbol)?;
        let type_id = match &expression.type_name {
            Some(name) => Some(self.btf.type_by_name(name)?),
            // Most kernels' BTF has the types of per-CPU variables alone.
            None => self.btf.variable_type_by_name(&expression.symbol),
        };
        let place = |address, index| match type_id {
            Some(type_id) => self.typed(address, type_id, index),
            None => pointer_at(address, index),
        };
        let per_cpu = self.symbols.per_cpu();
        let is_per_cpu = per_cpu.is_some_and(|area| area.contains(&address));
        let mut steps = expression.steps.as_slice();
        let mut places = vec![place(address, None)];
        if is_per_cpu {
            steps = steps.strip_prefix(&[Step::Each])?;
            let type_id = type_id?;
            let offsets = self.per_cpu_offsets()?;
            let copies = offsets.iter().enumerate();
            places = copies
                .map(|(cpu, offset)| self.typed(address.wrapping_add(*offset), type_id, Some(cpu)))
                .collect();
        }
        for step in steps {
            let mut next = Vec::new();
            for place in &places {
                self.step(place, step, &mut next);
                if next.len() > OBJECTS_MAX {
                    return None;
                }
            }
            // All run queues lead to one root domain, which is walked over once.
            places = distinct(next);
        }
        Some(places)
    }

    /// Offset of each CPU's area from the symbols of per-CPU variables.
    fn per_cpu_offsets(&mut self) -> Option<Vec<u64>> {
        let table = self.symbols.address("__per_cpu_offset")?;
        let bytes = self.memory.read(table, self.cpu_count as u64 * 8).ok()?;
        Some(bytes.chunks_exact(8).map(word).collect())
    }

    fn step(&mut self, place: &Place, step: &Step, next: &mut Vec<Place>) {
        match step {
            Step::Each => self.each(place, next),
            Step::EachNode => self.each_node(place, next),
            Step::Member(name) => next.extend(self.member(place, name)),
            Step::List(member) => self.list(place, member, next),
            Step::ListOf(name, member) => self.list_of(place, name, member, next),
            Step::FollowEachCpu => self.each_cpu(place, next),
            Step::Follow(target) => next.extend(self.follow(place, *target)),
            Step::FollowTo(name) => next.extend(self.follow_to(place, name)),
            Step::FollowToEach(name, count) => self.follow_to_each(place, name, count, next),
        }
    }

    fn each(&mut self, place: &Place, next: &mut Vec<Place>) {
        let store = self.btf.types();
        let Some(id) = place.type_id.map(|id| store.resolve(id)) else {
            return;
        };
        let TypeKind::Array { element, count } = store.get(id).kind else {
            return;
        };
        let size = store.get(element).size.unwrap_or(0);
        for index in 0..count.unwrap_or(0).min(OBJECTS_MAX as u64) {
            let address = place.address.wrapping_add(index.wrapping_mul(size));
            next.push(self.typed(address, element, Some(index as usize)));
        }
    }

    /// The element of an array for each NUMA node; an array without a type is of pointers.
    fn each_node(&mut self, place: &Place, next: &mut Vec<Place>) {
        // An `int`: the upper half of the word is another variable.
        let count = self.variable_word("nr_node_ids").unwrap_or(1) & u64::from(u32::MAX);
        let store = self.btf.types();
        let array = place.type_id.map(|id| &store.get(store.resolve(id)).kind);
        let element = match array {
            Some(TypeKind::Array { element, .. }) => Some(*element),
            Some(_) => return,
            None => None,
        };
        for node in 0..count.min(NODES_MAX) {
            let at = |size: u64| place.address.wrapping_add(node.wrapping_mul(size));
            next.push(match element {
                Some(id) => {
                    let size = store.get(store.resolve(id)).size.unwrap_or(0);
                    self.typed(at(size), id, Some(node as usize))
                }
                None => pointer_at(at(POINTER_BYTES), Some(node as usize)),
            });
        }
    }

    /// Follows a pointer to a structure of this name.
    fn follow_to(&mut self, place: &Place, name: &str) -> Option<Place> {
        let type_id = self.btf.type_by_name(name)?;
        let address = self.pointer(place.address)?;
        (address >> 63 == 1).then(|| self.typed(address, type_id, place.index))
    }

    /// Follows a pointer to as many structures of this name as a variable says.
    fn follow_to_each(&mut self, place: &Place, name: &str, count: &str, next: &mut Vec<Place>) {
        // An `int`: the upper half of the word is another variable.
        let count = self.variable_word(count).unwrap_or(0) & u64::from(u32::MAX);
        let Some(first) = self.follow_to(place, name) else {
            return;
        };
        next.extend((0..count.min(LIST_MAX as u64)).map(|index| Place {
            address: first.address.wrapping_add(index.wrapping_mul(first.size)),
            index: Some(index as usize),
            ..first.clone()
        }));
    }

    /// Structures of this name that a list links, behind a head that is in none of them.
    fn list_of(&mut self, head: &Place, name: &str, member: &str, next: &mut Vec<Place>) {
        let Some(type_id) = self.btf.type_by_name(name) else {
            return;
        };
        let Some((offset, _)) = self.find_member(type_id, member) else {
            return;
        };
        let mut address = head.address;
        for _ in 0..LIST_MAX {
            let link = self.pointer(address).filter(|link| link >> 63 == 1);
            let Some(link) = link.filter(|link| *link != head.address) else {
                return;
            };
            next.push(self.typed(link.wrapping_sub(offset), type_id, None));
            address = link;
        }
    }

    /// Follows a pointer to a table of pointers, one for each CPU.
    fn each_cpu(&mut self, place: &Place, next: &mut Vec<Place>) {
        let Some(type_id) = self.pointed_type(place) else {
            return;
        };
        let Some(table) = self.pointer(place.address) else {
            return;
        };
        for cpu in 0..self.cpu_count {
            let address = self.pointer(table.wrapping_add(cpu as u64 * 8));
            if let Some(address) = address.filter(|address| address >> 63 == 1) {
                next.push(self.typed(address, type_id, Some(cpu)));
            }
        }
    }

    /// The structure behind a pointer, or behind a pointer to pointers.
    fn pointed_type(&mut self, place: &Place) -> Option<TypeId> {
        let store = self.btf.types();
        let pointer = store.get(store.resolve(place.type_id?));
        let name = pointer.name.strip_suffix('*')?.trim_end_matches(['*', ' ']);
        let name = name.strip_prefix("struct ").unwrap_or(name).to_owned();
        self.btf.type_by_name(&name)
    }

    /// Finds a member, also one of an anonymous structure inside.
    fn member(&mut self, place: &Place, name: &str) -> Option<Place> {
        let (offset, type_id) = self.find_member(place.type_id?, name)?;
        Some(self.typed(place.address.wrapping_add(offset), type_id, place.index))
    }

    fn find_member(&self, type_id: TypeId, name: &str) -> Option<(u64, TypeId)> {
        let layout = self.btf.types().layout(type_id)?.clone();
        for member in &layout.members {
            match member.name.as_deref() {
                Some(own) if own == name => return Some((member.byte_offset(), member.type_id)),
                None => {
                    if let Some((offset, id)) = self.find_member(member.type_id, name) {
                        return Some((member.byte_offset() + offset, id));
                    }
                }
                _ => {}
            }
        }
        None
    }

    fn list(&mut self, head: &Place, member: &str, next: &mut Vec<Place>) {
        let Some((offset, _)) = head.type_id.and_then(|id| self.find_member(id, member)) else {
            return;
        };
        let mut address = head.address;
        for _ in 0..LIST_MAX {
            // The head of a list may be a variable, in no object.
            let is_head = self.symbols.begins_at(address.wrapping_add(offset));
            if !is_head || address == head.address {
                next.push(Place {
                    address,
                    index: None,
                    ..head.clone()
                });
            }
            let Some(link) = self.pointer(address.wrapping_add(offset)) else {
                return;
            };
            address = link.wrapping_sub(offset);
            if address == head.address {
                return;
            }
        }
    }

    fn follow(&mut self, place: &Place, target: Target) -> Option<Place> {
        let address = self
            .pointer(place.address)
            .filter(|address| address >> 63 == 1)?;
        let cpu_count = self.cpu_count as u64;
        let size = match target {
            Target::OwnType => {
                let type_id = self.pointed_type(place)?;
                return Some(self.typed(address, type_id, place.index));
            }
            Target::CpuMask => cpu_count.div_ceil(64) * 8,
            Target::Bytes(bytes) => bytes,
            Target::PerCpu(bytes) => cpu_count * bytes,
        };
        Some(Place {
            address,
            type_id: None,
            size,
            index: place.index,
        })
    }

    pub(super) fn pointer(&mut self, address: u64) -> Option<u64> {
        self.memory.read(address, 8).ok().map(|bytes| word(&bytes))
    }

    fn typed(&self, address: u64, type_id: TypeId, index: Option<usize>) -> Place {
        Place {
            address,
            type_id: Some(type_id),
            size: self
                .btf
                .types()
                .get(self.btf.types().resolve(type_id))
                .size
                .unwrap_or(0),
            index,
        }
    }
}

/// A pointer whose type nothing says.
fn pointer_at(address: u64, index: Option<usize>) -> Place {
    Place {
        address,
        type_id: None,
        size: POINTER_BYTES,
        index,
    }
}

/// First of the places at each address, by address.
fn distinct(places: Vec<Place>) -> Vec<Place> {
    let mut by_address: BTreeMap<u64, Place> = BTreeMap::new();
    for place in places {
        by_address.entry(place.address).or_insert(place);
    }
    by_address.into_values().collect()
}

/// First eight bytes as a word; fewer are padded with zeros.
pub(super) fn word(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    let len = bytes.len().min(8);
    word[..len].copy_from_slice(&bytes[..len]);
    u64::from_le_bytes(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Memory in which every word is a pointer to one place.
    struct AllTo(u64);

    impl GuestMemory for AllTo {
        fn read(&mut self, _: u64, size: u64) -> io::Result<Vec<u8>> {
            Ok(self.0.to_le_bytes().repeat(size as usize / 8))
        }
    }

    #[test]
    fn a_hostile_kernel_ends_every_walk() {
        let mut btf = hitm_test::btf::Assembler::new(false);
        let word = btf.int("word", 8);
        let node = btf.next_id();
        let pointer = btf.of(hitm_test::btf::kind::PTR, "", node + 2);
        let table = btf.array(pointer, 8);
        let members = [
            ("list", word, 0),
            ("next", pointer, 64),
            ("table", table, 128),
        ];
        btf.structure("node", 80, &members);
        let mut btf = BtfFile::parse(btf.finish().into(), None, "the kernel").unwrap();
        let symbols = KernelSymbols::parse("ffffffffffffff00 D head\n");
        // The end of the address space, an odd place before it, and a list's own element.
        for target in [u64::MAX, u64::MAX - 0x21, 0xffff_ffff_ffff_ff00, 0] {
            let mut walker = Walker {
                symbols: &symbols,
                btf: &mut btf,
                memory: &mut AllTo(target),
                cpu_count: 4,
            };
            for objects in [
                "head(node){list}",
                "head(node){next}.next->.table[*]->.next->",
                "head(node).next->{list}.table[*]",
                "head(node).next->(each cpu){next}",
                "head[nodes]->(struct node).table[nodes]->",
                "head->(node of head){node.next}",
            ] {
                let expression = objects.parse::<Expression>().unwrap();
                let found = walker.walk("x", &expression);
                assert!(found.len() <= LIST_MAX, "{target:#x}: {objects}");
            }
        }
    }

    /// Words by their addresses; others are 0.
    struct Words(BTreeMap<u64, u64>);

    impl GuestMemory for Words {
        fn read(&mut self, address: u64, _: u64) -> io::Result<Vec<u8>> {
            let word = self.0.get(&address).copied().unwrap_or(0);
            Ok(word.to_le_bytes().to_vec())
        }
    }

    #[test]
    fn each_node_has_an_object() {
        let mut btf = hitm_test::btf::Assembler::new(false);
        let word = btf.int("word", 8);
        btf.structure("node", 16, &[("a", word, 0)]);
        let mut btf = BtfFile::parse(btf.finish().into(), None, "the kernel").unwrap();
        let (table, count) = (0xffff_ffff_8200_0000, 0xffff_ffff_8200_0100);
        let symbols = "ffffffff82000000 D table\nffffffff82000100 D nr_node_ids\n";
        let first = 0xffff_8880_0000_0000_u64;
        let words = [
            (table, first),
            (table + 8, first + 64),
            (table + 16, first + 128),
            // The upper half is another variable.
            (count, 7 << 32 | 2),
        ];
        let mut walker = Walker {
            symbols: &KernelSymbols::parse(symbols),
            btf: &mut btf,
            memory: &mut Words(BTreeMap::from(words)),
            cpu_count: 4,
        };
        let expression = "table[nodes]->(struct node)".parse().unwrap();
        let found = walker.walk("node", &expression);
        let found: Vec<(&str, u64, u64)> = found
            .iter()
            .map(|object| (&*object.name, object.start, object.size))
            .collect();
        assert_eq!(found, [("node[0]", first, 16), ("node[1]", first + 64, 16)]);
    }

    #[test]
    fn lists_of_a_table_are_walked_from_heads_outside_of_objects() {
        const TABLE: u64 = 0xffff_8000_0000_1000;
        const CHUNKS: [u64; 3] = [TABLE + 0x1000, TABLE + 0x2000, TABLE + 0x3000];
        let mut btf = hitm_test::btf::Assembler::new(false);
        let word = btf.int("word", 8);
        btf.structure("list_head", 16, &[("next", word, 0), ("prev", word, 64)]);
        btf.structure("chunk", 40, &[("bytes", word, 0), ("list", word, 64)]);
        let mut btf = BtfFile::parse(btf.finish().into(), None, "the kernel").unwrap();
        let symbols = "ffffffff80000000 d lists\nffffffff80000010 d count\n";
        let symbols = KernelSymbols::parse(symbols);
        let link = |chunk: usize| CHUNKS[chunk] + 8;
        let mut memory = Words(BTreeMap::from([
            (0xffff_ffff_8000_0000, TABLE),
            // Four lists; another variable is in the upper half.
            (0xffff_ffff_8000_0010, 7 << 32 | 4),
            // Two chunks, none, one, and a list that nobody has set up.
            (TABLE, link(2)),
            (link(2), link(0)),
            (link(0), TABLE),
            (TABLE + 0x10, TABLE + 0x10),
            (TABLE + 0x20, link(1)),
            (link(1), TABLE + 0x20),
            (TABLE + 0x30, 0),
        ]));
        let mut walker = Walker {
            symbols: &symbols,
            btf: &mut btf,
            memory: &mut memory,
            cpu_count: 2,
        };
        let expression = "lists->(list_head of count){chunk.list}".parse().unwrap();
        let found = walker.walk("chunk", &expression);
        let found: Vec<_> = found
            .iter()
            .map(|object| (object.start, object.size, object.name.as_str()))
            .collect();
        let [first, second, third] = CHUNKS;
        let expected = [
            (first, 40, "chunk[0]"),
            (second, 40, "chunk[1]"),
            (third, 40, "chunk[2]"),
        ];
        assert_eq!(found, expected);
        // A kernel without the variable has none.
        let expression = "lists->(list_head of nothing){chunk.list}".parse().unwrap();
        assert_eq!(walker.walk("chunk", &expression), []);
    }
}
