//! One BTF as a user of types meets it.

use std::sync::Arc;

use object::read::elf::ElfFile;
use object::{Object, ObjectSection};

use super::blob::{Blob, is_btf};
use super::name::name_of;
use super::names::NameIndex;
use super::read::{Known, Reader};
use super::record::Kind;
use crate::types::{StructLayout, TypeId, TypeStore};
use crate::{Bytes, Error};

/// The types of a kernel, of a module, or of an object for the kernel's BPF.
///
/// Parsing makes one pass over the records and notes where they begin. Names are indexed at the
/// first look-up, and a type is read once, on demand.
#[derive(Debug)]
pub struct BtfFile {
    file: String,
    pub(super) blob: Arc<Blob>,
    names: Option<Arc<NameIndex>>,
    pub(super) functions: Option<NameIndex>,
    store: TypeStore,
    known: Known,
    pointer_size: u64,
}

/// A variable that BTF describes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BtfVariable {
    /// Its name.
    pub name: String,
    /// The section that it is in, such as `.data..percpu`; none when no section lists it.
    pub section: Option<String>,
    /// Bytes from the section's start. In a kernel's own BTF that is the symbol's address less the
    /// section's; for per-CPU variables the offset in each CPU's area.
    pub offset: u64,
    /// Bytes that it takes in its section.
    pub size: u64,
    /// True if other objects see it.
    pub is_global: bool,
    /// The name of its type.
    pub type_name: String,
    /// The id of its record.
    id: u32,
}

/// A definition of a type, as [`BtfFile::definitions`] lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BtfDefinition {
    /// The name, without `struct` or `union`.
    pub name: String,
    /// The id of its record.
    pub(crate) id: u32,
}

/// Bytes that a compressed section may become, for each of its bytes and in all.
const MAX_EXPANSION: u64 = 1000;
const MAX_SECTION: u64 = 1 << 30;

/// The section of an ELF file that has BTF, and the one with the base that goes with it.
const SECTION: &str = ".BTF";
const BASE_SECTION: &str = ".BTF.base";

impl BtfFile {
    /// Parses BTF: the bytes of a BTF file, or of an ELF file with a section `.BTF`. `file` is used in
    /// messages. Split BTF, such as a module's, needs the base that it was split from, unless the
    /// ELF file brings its own.
    pub fn parse(bytes: Bytes, base: Option<&BtfFile>, file: &str) -> Result<BtfFile, Error> {
        let base = base.map(|base| base.blob.clone());
        if is_btf(&bytes) {
            let blob = Blob::parse(bytes, base, file)?;
            return Ok(BtfFile::new(blob, file));
        }
        let sections = elf_sections(&bytes, file)?;
        let base = match sections.base {
            Some(own) => Some(Arc::new(Blob::parse(own, None, file)?)),
            None => base,
        };
        let Some(own) = sections.own else {
            let expected = "BTF, or an ELF file with a section .BTF";
            let found = "an ELF file without it".to_owned();
            return Err(Error::not_supported(file, expected, found));
        };
        let blob = Blob::parse(own, base, file)?;
        Ok(BtfFile::new(blob, file))
    }

    /// Returns true if these are the bytes of BTF, as opposed to those of an ELF file or of
    /// something else.
    pub fn is_raw(bytes: &[u8]) -> bool {
        is_btf(bytes)
    }

    /// Returns true if these are the bytes of an ELF file with a section of BTF.
    pub fn is_in_elf(bytes: &[u8]) -> bool {
        elf_sections(bytes, "").is_ok_and(|sections| sections.own.is_some())
    }

    fn new(blob: Blob, file: &str) -> BtfFile {
        BtfFile {
            file: file.to_owned(),
            pointer_size: pointer_size(&blob),
            blob: Arc::new(blob),
            names: None,
            functions: None,
            store: TypeStore::default(),
            known: Known::default(),
        }
    }

    /// The name that was given to [`BtfFile::parse`].
    pub fn name(&self) -> &str {
        &self.file
    }

    /// Bytes of a pointer, as `long` has them.
    pub fn pointer_size(&self) -> u64 {
        self.pointer_size
    }

    /// The types that were read so far.
    pub fn types(&self) -> &TypeStore {
        &self.store
    }

    /// The layout of a structure or union by name: `rq`, `struct rq`, or a typedef of one. Of several
    /// with the name the first counts, and a module's before its base's.
    pub fn struct_layout(&mut self, name: &str) -> Result<Arc<StructLayout>, Error> {
        match self.find(name) {
            Some((id, type_id)) => self.layout_of(id, type_id),
            None => Err(Error::NoSuchType {
                file: self.file.clone(),
                name: name.to_owned(),
            }),
        }
    }

    /// The type of a name, a structure or any other that has a definition or typedef, or a variable.
    pub fn type_by_name(&mut self, name: &str) -> Option<TypeId> {
        self.find(name).map(|(_, type_id)| type_id)
    }

    /// The named structures and unions, and the typedefs of those that have no name of their own,
    /// in the order of the file. A module lists its own, without the kernel's.
    pub fn definitions(&self) -> Vec<BtfDefinition> {
        let ids = self.blob.own_ids();
        ids.filter_map(|id| self.definition(id)).collect()
    }

    fn definition(&self, id: u32) -> Option<BtfDefinition> {
        let record = self.blob.record(id)?;
        let is_definition = match record.kind {
            Kind::Struct | Kind::Union => true,
            Kind::Typedef => {
                let target = self.blob.record(record.size_or_type)?;
                let is_aggregate = matches!(target.kind, Kind::Struct | Kind::Union);
                is_aggregate && self.blob.name(target.name).is_none()
            }
            _ => false,
        };
        let name = self.blob.name(record.name).filter(|_| is_definition)?;
        Some(BtfDefinition {
            name: name.into_owned(),
            id,
        })
    }

    /// The layout of a definition of this file.
    pub fn definition_layout(
        &mut self,
        definition: &BtfDefinition,
    ) -> Result<Arc<StructLayout>, Error> {
        let type_id = self.read(definition.id);
        self.layout_of(definition.id, type_id)
    }

    /// The variables, in the order of the file; of a module its own. A kernel's BTF has its per-CPU
    /// variables.
    pub fn variables(&self) -> Vec<BtfVariable> {
        let mut placed = std::collections::BTreeMap::new();
        for id in self.blob.own_ids() {
            let Some(record) = self.blob.record(id) else {
                continue;
            };
            if record.kind == Kind::Datasec {
                for index in 0..record.part_count {
                    let entry = record.section_entry(index);
                    placed.entry(entry.variable).or_insert((record.name, entry));
                }
            }
        }
        let mut variables = Vec::new();
        for id in self.blob.own_ids() {
            let record = self.blob.record(id);
            let Some(record) = record.filter(|record| record.kind == Kind::Var) else {
                continue;
            };
            let place = placed.get(&id);
            let section = place.and_then(|(section, _)| self.blob.name(*section));
            let name = self.blob.name(record.name).unwrap_or_default();
            variables.push(BtfVariable {
                name: name.into_owned(),
                section: section.map(|section| section.into_owned()),
                offset: place.map_or(0, |(_, entry)| entry.offset.into()),
                size: place.map_or(0, |(_, entry)| entry.size.into()),
                is_global: record.linkage() == 1,
                type_name: name_of(&self.blob, record.size_or_type).text,
                id,
            });
        }
        variables
    }

    /// The type of a variable of this file.
    pub fn variable_type(&mut self, variable: &BtfVariable) -> TypeId {
        self.read(variable.id)
    }

    /// The type of this file's variable with a name; none when it has none.
    pub fn variable_type_by_name(&mut self, name: &str) -> Option<TypeId> {
        let blob = self.blob.clone();
        let own = blob.own_ids();
        let is_variable = |id: &u32| {
            let record = blob.record(*id);
            own.contains(id) && record.is_some_and(|record| record.kind == Kind::Var)
        };
        let id = self.names().find(&blob, name).find(is_variable)?;
        Some(self.read(blob.record(id)?.size_or_type))
    }

    /// The index of names, made at the first look-up.
    fn names(&mut self) -> Arc<NameIndex> {
        let blob = &self.blob;
        let is_wanted = |kind: Kind| kind.names_a_type() || kind == Kind::Var;
        let names = self
            .names
            .get_or_insert_with(|| Arc::new(NameIndex::new(blob, is_wanted)));
        names.clone()
    }

    /// The first id of a name whose type is a structure or union; else the first one.
    fn find(&mut self, name: &str) -> Option<(u32, TypeId)> {
        let (blob, index) = (self.blob.clone(), self.names());
        let mut first = None;
        for id in index.find(&blob, name) {
            let type_id = self.read(id);
            if self.store.layout(type_id).is_some() {
                return Some((id, type_id));
            }
            first = first.or(Some((id, type_id)));
        }
        first
    }

    /// The type that a pointer points at, behind typedefs and qualifiers of the pointer.
    pub(crate) fn pointee(&mut self, pointer: TypeId) -> Option<TypeId> {
        let pointer = self.store.resolve(pointer);
        let target = self.known.pointees.get(&pointer).copied()?;
        Some(self.read(target))
    }

    /// The type of an id.
    pub(crate) fn read(&mut self, id: u32) -> TypeId {
        let mut reader = Reader {
            blob: &self.blob,
            store: &mut self.store,
            known: &mut self.known,
            pointer_size: self.pointer_size,
            under_way: Vec::new(),
        };
        reader.read(id)
    }

    /// The layout of what was read for an id. A fault is reported with the record's id and place.
    fn layout_of(&self, id: u32, type_id: TypeId) -> Result<Arc<StructLayout>, Error> {
        let file = self.file.clone();
        let place = self.blob.place(id).unwrap_or_default();
        let name = name_of(&self.blob, id).text;
        let name = format!("{name} (id {id}, at byte {place:#x})");
        match self.store.layout_or_fault(type_id) {
            Ok(layout) => layout.sound(&file, &name),
            Err(cause) => Err(Error::BadType { file, name, cause }),
        }
    }
}

/// The BTF in an ELF file, decompressed.
#[derive(Default)]
struct Sections {
    own: Option<Bytes>,
    base: Option<Bytes>,
}

fn elf_sections(bytes: &[u8], file: &str) -> Result<Sections, Error> {
    type Elf32<'a> = ElfFile<'a, object::elf::FileHeader32<object::Endianness>>;
    type Elf64<'a> = ElfFile<'a, object::elf::FileHeader64<object::Endianness>>;
    const EXPECTED: &str = "BTF or an ELF file";
    let refuse = |cause: object::Error| Error::not_supported(file, EXPECTED, cause.to_string());
    let is_elf = bytes.starts_with(&object::elf::ELFMAG);
    let class = bytes.get(4).copied().filter(|_| is_elf);
    match class {
        Some(object::elf::ELFCLASS32) => sections_of(&Elf32::parse(bytes).map_err(refuse)?, file),
        Some(_) => sections_of(&Elf64::parse(bytes).map_err(refuse)?, file),
        None => Err(Error::foreign(file, EXPECTED, bytes)),
    }
}

fn sections_of<'data>(elf: &impl Object<'data>, file: &str) -> Result<Sections, Error> {
    let mut sections = Sections::default();
    for section in elf.sections() {
        let place = match section.name_bytes() {
            Ok(name) if name == SECTION.as_bytes() => &mut sections.own,
            Ok(name) if name == BASE_SECTION.as_bytes() => &mut sections.base,
            _ => continue,
        };
        let bytes = section_bytes(&section);
        let bytes = bytes.map_err(|cause| Error::damaged(file, "section of BTF", cause))?;
        *place = Some(Bytes::from(bytes));
    }
    Ok(sections)
}

fn section_bytes<'data>(section: &impl ObjectSection<'data>) -> Result<Vec<u8>, String> {
    let data = section.compressed_data();
    let data = data.map_err(|cause| cause.to_string())?;
    let most = (data.data.len() as u64).saturating_mul(MAX_EXPANSION);
    if data.uncompressed_size > most.min(MAX_SECTION) {
        let (size, claimed) = (data.data.len(), data.uncompressed_size);
        return Err(format!("{size} bytes claim to be {claimed}"));
    }
    let bytes = data.decompress().map_err(|cause| cause.to_string())?;
    Ok(bytes.into_owned())
}

/// Bytes of a pointer: those of `long`, as compilers name it.
fn pointer_size(blob: &Blob) -> u64 {
    const NAMES: [&[u8]; 4] = [b"long int", b"long unsigned int", b"long", b"unsigned long"];
    for id in 1..blob.end_id() {
        let Some(record) = blob.record(id).filter(|record| record.kind == Kind::Int) else {
            continue;
        };
        let name = blob.name_bytes(record.name).unwrap_or_default();
        if NAMES.contains(&name) && matches!(record.size_or_type, 4 | 8) {
            return u64::from(record.size_or_type);
        }
    }
    8
}

#[cfg(test)]
mod tests {
    use hitm_test::btf::{Assembler, Info, kind};

    use super::*;

    /// A kernel has some 10,000 variables, and a report asks for one at each row of per-CPU data.
    #[test]
    fn a_variable_is_found_by_a_look_at_its_own_records() {
        const VARIABLES: u32 = 3000;
        let mut blob = Assembler::new(false);
        let int = blob.int("int", 4);
        blob.structure("v17", 8, &[("a", int, 0)]);
        for number in 0..VARIABLES {
            blob.record(&format!("v{number}"), Info::of(kind::VAR), int, &[1]);
        }
        let mut file = BtfFile::parse(blob.finish().into(), None, "made").unwrap();
        assert!(file.variable_type_by_name("v0").is_some());
        let before = file.blob.read_count();
        for number in 0..VARIABLES {
            assert!(file.variable_type_by_name(&format!("v{number}")).is_some());
        }
        let reads = file.blob.read_count() - before;
        assert!(reads <= 8 * u64::from(VARIABLES), "{reads} reads");
        // A type of the same name is no variable, nor is one that nobody declared.
        let of_variable = file.variable_type_by_name("v17");
        assert_eq!(of_variable, Some(file.read(int)));
        assert_eq!(file.variable_type_by_name("int"), None);
        assert_eq!(file.variable_type_by_name("v3000"), None);
    }
}
