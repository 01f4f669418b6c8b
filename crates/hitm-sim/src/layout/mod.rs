//! Struct layouts as data: which member lies where in which struct.
//!
//! The simulator reads and writes members by name; where they lie comes from here. A table is built
//! in ([`Layouts::linux_6_12`]), made from a kernel's debug information or from a layout file by
//! the facade. One may be laid over another by struct name.

mod linux;

use std::collections::BTreeMap;

/// The part of a machine for each of which a member exists once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Per {
    /// One element for each CPU.
    Cpu,
    /// One element for each NUMA node.
    Node,
}

/// Place of a member's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Storage {
    /// In the struct.
    Inline,
    /// Behind a pointer in the struct; each element is allocated on its own.
    Pointer {
        /// Bytes of an element; 0 for what the element's nature says (a bitmap's size).
        element_bytes: u64,
        /// Its alignment, beside that of the allocator's size class.
        element_align_bytes: u64,
    },
}

/// One member of a struct.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Name in paths.
    pub name: String,
    /// Bytes from the start of the struct.
    pub offset_bytes: u64,
    /// Bytes that it takes there, all elements together.
    pub size_bytes: u64,
    /// The struct that it is, or its elements are, when the table has that struct.
    pub type_name: Option<String>,
    /// Elements of an array; 1 for a plain member.
    pub count: u64,
    /// Bytes from one element to the next; 0 for `size_bytes / count`.
    pub stride_bytes: u64,
    /// CPU or node, if it exists once for each.
    pub per: Option<Per>,
    /// Inline or behind a pointer.
    pub storage: Storage,
    /// True if each element is a bitmap with one bit per CPU.
    pub is_cpu_bits: bool,
}

impl Member {
    /// A plain member.
    pub fn plain(name: &str, offset_bytes: u64, size_bytes: u64) -> Member {
        Member {
            name: name.to_owned(),
            offset_bytes,
            size_bytes,
            type_name: None,
            count: 1,
            stride_bytes: 0,
            per: None,
            storage: Storage::Inline,
            is_cpu_bits: false,
        }
    }

    /// A member that is a struct of the table.
    pub fn nested(name: &str, offset_bytes: u64, size_bytes: u64, type_name: &str) -> Member {
        Member {
            type_name: Some(type_name.to_owned()),
            ..Member::plain(name, offset_bytes, size_bytes)
        }
    }

    /// Makes it an array.
    #[must_use]
    pub fn array(self, count: u64) -> Member {
        Member { count, ..self }
    }

    /// A pointer to a bitmap of the CPUs (a `cpumask_var_t` with `CONFIG_CPUMASK_OFFSTACK`).
    pub fn cpumask(name: &str, offset_bytes: u64) -> Member {
        Member {
            is_cpu_bits: true,
            ..Member::pointer(name, offset_bytes, 0)
        }
    }

    /// A pointer to elements of `element_bytes` each.
    pub fn pointer(name: &str, offset_bytes: u64, element_bytes: u64) -> Member {
        Member {
            storage: Storage::Pointer {
                element_bytes,
                element_align_bytes: 8,
            },
            ..Member::plain(name, offset_bytes, 8)
        }
    }
}

/// Layout of one struct.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StructLayout {
    /// Name that objects are allocated by.
    pub name: String,
    /// Bytes of an instance.
    pub size_bytes: u64,
    /// Instances start at a multiple of it.
    pub align_bytes: u64,
    /// Its members, in any order.
    pub members: Vec<Member>,
}

impl StructLayout {
    /// A struct.
    pub fn new(
        name: &str,
        size_bytes: u64,
        align_bytes: u64,
        members: Vec<Member>,
    ) -> StructLayout {
        StructLayout {
            name: name.to_owned(),
            size_bytes,
            align_bytes,
            members,
        }
    }

    /// The member of this name.
    pub fn member(&self, name: &str) -> Option<&Member> {
        self.members.iter().find(|member| member.name == name)
    }
}

/// The structs that a simulation knows, by name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Layouts {
    structs: BTreeMap<String, StructLayout>,
}

impl Layouts {
    /// A table of these structs; of two with one name the later stays.
    pub fn new(structs: impl IntoIterator<Item = StructLayout>) -> Layouts {
        let mut layouts = Layouts::default();
        layouts.overlay(structs);
        layouts
    }

    /// Lays structs over the table: those with a known name replace it. A member without a type keeps the table's, if
    /// it has the same bytes.
    pub fn overlay(&mut self, structs: impl IntoIterator<Item = StructLayout>) {
        for mut layout in structs {
            let before = self.structs.get(&layout.name);
            for member in &mut layout.members {
                let known = before.and_then(|before| before.member(&member.name));
                let same = known.filter(|known| known.size_bytes == member.size_bytes);
                if member.type_name.is_none() && member.count == 1 {
                    member.type_name = same.and_then(|known| known.type_name.clone());
                }
            }
            self.structs.insert(layout.name.clone(), layout);
        }
    }

    /// The struct of this name.
    pub fn get(&self, name: &str) -> Option<&StructLayout> {
        self.structs.get(name)
    }

    /// All structs, by name.
    pub fn iter(&self) -> impl Iterator<Item = &StructLayout> {
        self.structs.values()
    }
}
