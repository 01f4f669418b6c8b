//! Objects in simulated memory, and the places of their members.

use std::collections::BTreeMap;
use std::rc::Rc;

use hitm_base::CpuId;
use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;

use super::config::SimError;
use super::memory::{Opaque, Place};
use super::path::{Target, element_stride, group_stride, resolve};
use super::pool::ObjectPool;
use super::profile::MemberKey;
use super::run::Engine;
use super::slab::{Slabs, size_class};
use crate::layout::{Layouts, Member, Per, Storage, StructLayout};

/// An object in simulated memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    type_name: String,
    addr: u64,
    home: CpuId,
    /// In the order of allocation.
    number: usize,
}

impl Object {
    /// The struct that it is an object of.
    pub fn type_name(&self) -> &str {
        &self.type_name
    }
}

/// The places of one member of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Field {
    /// The pointer in the struct, when the value lies behind one.
    pub pointer: Option<Place>,
    /// The places by NUMA node or CPU, one group when the member exists once. In a group: the
    /// elements of an array, or the words of a bitmap.
    pub groups: Vec<Vec<Place>>,
}

impl Field {
    /// The place of a member that has one word.
    pub fn only(&self) -> Place {
        self.groups[0][0]
    }
}

/// Gives objects their addresses and members their places.
#[derive(Debug)]
pub struct Arena {
    engine: Rc<Engine>,
    layouts: Layouts,
    slabs: Slabs,
    fields: BTreeMap<(u64, String), Field>,
    /// Facts about a path, by struct and path: thousands of objects have it.
    known: FxIndexMap<String, FxIndexMap<String, Option<Plain>>>,
    /// The places of plain members, by object and number.
    plain: Vec<Vec<Option<Place>>>,
    pool_count: u64,
}

type FxIndexMap<K, V> = IndexMap<K, V, FxBuildHasher>;

/// The words of a member that lie at equal distances.
#[derive(Debug, Clone, Copy)]
struct Elements {
    count: u64,
    /// Bytes from one to the next.
    stride: u64,
}

/// A member of one word in the struct itself, as all objects of the struct have it.
#[derive(Debug, Clone, Copy)]
struct Plain {
    /// Among the known paths of the struct.
    number: u32,
    offset_bytes: u64,
    /// Index into the profile's members.
    member: u16,
}

impl Arena {
    /// An empty arena over the memory of `engine`.
    pub fn new(engine: Rc<Engine>, layouts: Layouts) -> Arena {
        Arena {
            engine,
            layouts,
            slabs: Slabs::new(),
            fields: BTreeMap::new(),
            known: FxIndexMap::default(),
            plain: Vec::new(),
            pool_count: 0,
        }
    }

    /// The engine whose memory it gives out.
    pub fn engine(&self) -> &Rc<Engine> {
        &self.engine
    }

    /// The layouts in use.
    pub fn layouts(&self) -> &Layouts {
        &self.layouts
    }

    /// A new object on the node of `home`.
    pub fn allocate(&mut self, type_name: &str, home: CpuId) -> Result<Object, SimError> {
        let layout = self.layout(type_name)?;
        let (size, align) = (layout.size_bytes, layout.align_bytes);
        self.engine.count_object(type_name);
        self.plain.push(Vec::new());
        Ok(Object {
            type_name: type_name.to_owned(),
            addr: self.allocate_bytes(size, align, home),
            home,
            number: self.plain.len() - 1,
        })
    }

    /// The places of the member at `path` (`a.b[3].c`); the same path gives the same places.
    pub fn field(&mut self, object: &Object, path: &str) -> Result<Field, SimError> {
        if let Some(plain) = self.plain(object, path)? {
            return Ok(Field {
                pointer: None,
                groups: vec![vec![self.plain_place(object, plain)]],
            });
        }
        let key = (object.addr, path.to_owned());
        if let Some(field) = self.fields.get(&key) {
            return Ok(field.clone());
        }
        let layouts = std::mem::take(&mut self.layouts);
        let field = resolve(&layouts, &object.type_name, path).and_then(|target| {
            self.check_bits(object, path, target.member)?;
            Ok(self.make_field(object, path, &target))
        });
        self.layouts = layouts;
        let field = field?;
        self.fields.insert(key, field.clone());
        Ok(field)
    }

    /// The place of a member that has one word.
    pub fn place(&mut self, object: &Object, path: &str) -> Result<Place, SimError> {
        match self.plain(object, path)? {
            Some(plain) => Ok(self.plain_place(object, plain)),
            None => Ok(self.field(object, path)?.only()),
        }
    }

    /// The member at `path`, whose content is not modelled.
    pub fn opaque(&mut self, object: &Object, path: &str) -> Result<Opaque, SimError> {
        let place = self.place(object, path)?;
        Ok(self.engine.opaque(place))
    }

    fn plain_place(&mut self, object: &Object, plain: Plain) -> Place {
        let places = &mut self.plain[object.number];
        let number = plain.number as usize;
        if places.len() <= number {
            let paths = self.known.get(&object.type_name).map_or(0, IndexMap::len);
            places.resize(paths.max(number + 1), None);
        }
        *places[number].get_or_insert_with(|| {
            let addr = object.addr + plain.offset_bytes;
            self.engine.place_as(addr, object.home, plain.member)
        })
    }

    /// The member at `path` if it is one word in the struct itself.
    fn plain(&mut self, object: &Object, path: &str) -> Result<Option<Plain>, SimError> {
        let known = self.known.get(&object.type_name);
        if let Some(plain) = known.and_then(|paths| paths.get(path)) {
            return Ok(*plain);
        }
        let target = resolve(&self.layouts, &object.type_name, path)?;
        let (member, index) = (target.member, target.index);
        let is_plain = member.storage == Storage::Inline
            && member.per.is_none()
            && !member.is_cpu_bits
            && (member.count <= 1 || index.is_some());
        let plain = is_plain.then(|| {
            let skipped = index.unwrap_or(0) * element_stride(member, 1);
            let offset_bytes = target.offset_bytes + skipped;
            Plain {
                number: known.map_or(0, IndexMap::len) as u32,
                offset_bytes,
                member: self
                    .engine
                    .member(MemberKey::new(&object.type_name, path, offset_bytes)),
            }
        });
        let paths = self.known.entry(object.type_name.clone()).or_default();
        paths.insert(path.to_owned(), plain);
        Ok(plain)
    }

    /// A pool of objects of a type, of which `paths` are used. Its objects take as many bytes each
    /// as the allocator's size class has.
    pub fn pool(&mut self, type_name: &str, paths: &[&str]) -> Result<ObjectPool, SimError> {
        let size = self.layout(type_name)?.size_bytes;
        let mut keys = Vec::new();
        for path in paths {
            let target = resolve(&self.layouts, type_name, path)?;
            keys.push(MemberKey::new(type_name, path, target.offset_bytes));
        }
        self.pool_count += 1;
        let (engine, number) = (Rc::clone(&self.engine), self.pool_count);
        Ok(ObjectPool::new(engine, number, size_class(size), keys))
    }

    /// A pool of arrays with one pointer for each CPU; member N is the line of the pointers of
    /// CPUs 8 N to 8 N + 7.
    pub fn pointer_arrays(&mut self, name: &str) -> ObjectPool {
        let cpus = self.engine.machine().topology.cpu_count() as u64;
        self.plain_pool(name, cpus * 8)
    }

    /// A pool of objects without members; member N is line N.
    pub fn plain_pool(&mut self, name: &str, bytes: u64) -> ObjectPool {
        let lines = bytes.div_ceil(hitm_base::LINE_SIZE);
        let key = |line| MemberKey::new(name, name, line * hitm_base::LINE_SIZE);
        let keys = (0..lines).map(key).collect();
        self.pool_count += 1;
        let (engine, number) = (Rc::clone(&self.engine), self.pool_count);
        ObjectPool::new(engine, number, bytes, keys)
    }

    /// One place for each CPU in the array that the pointer at `path` leads to. A layout that says
    /// nothing of the array, as debug information does, gets one of `element_bytes` a CPU.
    pub fn cpu_array(
        &mut self,
        object: &Object,
        path: &str,
        element_bytes: u64,
    ) -> Result<Vec<Place>, SimError> {
        let field = self.field(object, path)?;
        let cpus = self.engine.machine().topology.cpu_count();
        if field.groups.len() == cpus && cpus > 1 {
            return Ok(field.groups.iter().map(|group| group[0]).collect());
        }
        let bytes = element_bytes * cpus as u64;
        let addr = self.allocate_bytes(bytes, 8, object.home);
        let key = MemberKey::new(&object.type_name, &format!("{path}->"), 0);
        let elements = Elements {
            count: cpus as u64,
            stride: element_bytes,
        };
        Ok(self.places(key, addr, elements, object.home))
    }

    fn layout(&self, type_name: &str) -> Result<&StructLayout, SimError> {
        self.layouts.get(type_name).ok_or_else(|| SimError::Layout {
            type_name: type_name.to_owned(),
            problem: "the model needs this struct and the table does not have it".to_owned(),
        })
    }

    /// A bitmap that lies in the struct has a bit for each CPU.
    fn check_bits(&self, object: &Object, path: &str, member: &Member) -> Result<(), SimError> {
        let cpus = self.engine.machine().topology.cpu_count() as u64;
        let groups = self.homes(object, member).len() as u64;
        let bits = 8 * group_stride(member, groups);
        if !member.is_cpu_bits || member.storage != Storage::Inline || bits >= cpus {
            return Ok(());
        }
        Err(SimError::Layout {
            type_name: object.type_name.clone(),
            problem: format!("{path} has {bits} bits, too few for {cpus} CPUs"),
        })
    }

    fn make_field(&mut self, object: &Object, path: &str, target: &Target<'_>) -> Field {
        let member = target.member;
        let addr = object.addr + target.offset_bytes;
        let homes = self.homes(object, member);
        let is_indexed_group = member.per.is_some() && target.index.is_some();
        let (pointer, element_bytes, element_align) = match member.storage {
            Storage::Inline => (None, 0, 0),
            Storage::Pointer {
                element_bytes,
                element_align_bytes,
            } => {
                let key = MemberKey::new(&object.type_name, path, target.offset_bytes);
                let place = self.engine.place(addr, object.home, key);
                (Some(place), element_bytes, element_align_bytes)
            }
        };
        let per_group = self.elements_of_group(member, target.index.is_some());
        // A pointer to one element for each CPU leads to an array.
        let array = (pointer.is_some() && member.per == Some(Per::Cpu)).then(|| {
            let bytes = homes.len() as u64 * element_bytes.next_multiple_of(element_align);
            self.allocate_bytes(bytes, element_align, object.home)
        });
        let mut groups = Vec::new();
        for (number, home) in homes.iter().enumerate() {
            let number = number as u64;
            if is_indexed_group && target.index != Some(number) {
                continue;
            }
            let group = if let (Some(array), Some(Per::Cpu)) = (pointer.and(array), member.per) {
                let key = MemberKey::new(&object.type_name, &format!("{path}->"), 0);
                let addr = array + number * element_bytes.next_multiple_of(element_align);
                self.places(key, addr, per_group, *home)
            } else if pointer.is_some() {
                let Elements { count, stride } = per_group;
                let bytes = if element_bytes == 0 {
                    count * stride
                } else {
                    element_bytes.max(count * stride.min(element_bytes))
                };
                let addr = self.allocate_bytes(bytes, element_align, *home);
                let key = MemberKey::new(&object.type_name, &format!("{path}->"), 0);
                self.places(key, addr, per_group, *home)
            } else {
                let first = if is_indexed_group {
                    0
                } else {
                    target.index.unwrap_or(0)
                };
                let skipped = number * group_stride(member, homes.len() as u64)
                    + first * element_stride(member, homes.len() as u64);
                let key = MemberKey::new(&object.type_name, path, target.offset_bytes + skipped);
                self.places(key, addr + skipped, per_group, *home)
            };
            groups.push(group);
        }
        Field { pointer, groups }
    }

    /// The words of a group.
    fn elements_of_group(&self, member: &Member, is_indexed: bool) -> Elements {
        let cpus = self.engine.machine().topology.cpu_count() as u64;
        if member.is_cpu_bits {
            return Elements {
                count: cpus.div_ceil(64),
                stride: 8,
            };
        }
        let groups = match member.per {
            None => 1,
            Some(Per::Cpu) => cpus,
            Some(Per::Node) => self.engine.machine().topology.node_count() as u64,
        };
        if member.count <= 1 || (is_indexed && member.per.is_none()) {
            return Elements {
                count: 1,
                stride: 8,
            };
        }
        Elements {
            count: member.count,
            stride: element_stride(member, groups),
        }
    }

    /// A CPU of the node that each group lies on.
    fn homes(&self, object: &Object, member: &Member) -> Vec<CpuId> {
        let topology = &self.engine.machine().topology;
        match member.per {
            None => vec![object.home],
            Some(Per::Cpu) => topology.cpus().collect(),
            Some(Per::Node) => {
                let first = |node| topology.cpus().find(|cpu| topology.node_of(*cpu) == node);
                let nodes = 0..topology.node_count() as u16;
                nodes.filter_map(first).collect()
            }
        }
    }

    fn allocate_bytes(&mut self, size: u64, align: u64, home: CpuId) -> u64 {
        let node = self.engine.machine().topology.node_of(home);
        self.slabs.allocate(size, align, node)
    }

    fn places(&self, key: MemberKey, addr: u64, elements: Elements, home: CpuId) -> Vec<Place> {
        let member = self.engine.member(key);
        let place = |number| {
            self.engine
                .place_as(addr + number * elements.stride, home, member)
        };
        (0..elements.count).map(place).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::EngineConfig;

    /// Addresses of the lines and offsets of all words of a field on a machine of 480 CPUs in six
    /// nodes.
    fn field_of(members: Vec<Member>, path: &str) -> Field {
        let engine = Engine::new(&EngineConfig::at_rest("xeon-480"));
        let vector = StructLayout::new(
            "vector",
            16,
            8,
            vec![Member::plain("count", 0, 4), Member::cpumask("mask", 8)],
        );
        let layouts = Layouts::new([vector, StructLayout::new("thing", 512, 64, members)]);
        let mut arena = Arena::new(engine, layouts);
        let object = arena.allocate("thing", CpuId(0)).unwrap();
        arena.field(&object, path).unwrap()
    }

    fn shape(field: &Field) -> Vec<Vec<(usize, u8)>> {
        let groups = field.groups.iter();
        groups
            .map(|group| {
                let places = group.iter();
                places
                    .map(|place| (place.line().index(), place.offset()))
                    .collect()
            })
            .collect()
    }

    #[test]
    fn an_element_of_a_nested_array_lies_at_its_stride() {
        let vectors = Member::nested("vectors", 56, 16 * 20, "vector").array(20);
        let field = field_of(vec![vectors.clone()], "vectors[0].count");
        assert_eq!(shape(&field), [[(0, 56)]]);
        let field = field_of(vec![vectors], "vectors[3].count");
        assert_eq!(shape(&field), [[(0, 40)]]);
    }

    #[test]
    fn a_cpumask_is_a_pointer_and_eight_words_elsewhere() {
        let field = field_of(vec![Member::cpumask("mask", 48)], "mask");
        assert_eq!(field.pointer.map(|place| place.offset()), Some(48));
        let words: Vec<(usize, u8)> = (0..8).map(|word| (1, word * 8)).collect();
        assert_eq!(shape(&field), [words]);
    }

    #[test]
    fn a_member_per_node_has_a_group_for_each() {
        let count = Member {
            per: Some(Per::Node),
            stride_bytes: 64,
            ..Member::plain("count", 64, 6 * 64)
        };
        let field = field_of(vec![count], "count");
        let lines: Vec<Vec<(usize, u8)>> = (0..6).map(|node| vec![(node, 0)]).collect();
        assert_eq!(shape(&field), lines);
    }

    #[test]
    fn a_bitmap_in_the_struct_that_is_too_small_is_refused() {
        let engine = Engine::new(&EngineConfig::at_rest("xeon-480"));
        let mask = |bytes| Member {
            is_cpu_bits: true,
            ..Member::plain("mask", 0, bytes)
        };
        let problem = |bytes| {
            let layouts = Layouts::new([StructLayout::new("thing", 64, 8, vec![mask(bytes)])]);
            let mut arena = Arena::new(Rc::clone(&engine), layouts);
            let object = arena.allocate("thing", CpuId(0)).unwrap();
            let field = arena.field(&object, "mask");
            field.err().map(|problem| problem.to_string())
        };
        // As of a kernel built with CONFIG_NR_CPUS=256.
        let refused = "layout of struct thing: mask has 256 bits, too few for 480 CPUs";
        assert_eq!(problem(32).as_deref(), Some(refused));
        assert_eq!(problem(64), None);
    }
}
