//! Sources of types: BTF, raw or in an ELF file, or DWARF.

use std::sync::Arc;

use super::StructsError;
use crate::Error;
use crate::{BtfFile, Bytes, ObjectFile, SourceNames, StructLayout, TypeStore, Unread};

/// A file with types.
#[derive(Debug)]
pub enum TypesFile {
    /// Types of BTF.
    Btf(Box<BtfFile>),
    /// Types of DWARF.
    Dwarf(Box<ObjectFile>),
}

impl TypesFile {
    /// Parses a file: BTF, an ELF file with BTF, or one with DWARF, linked or not. BTF is preferred in an ELF file
    /// that has both, unless it is a module's and there is no base.
    /// `base` is the base of split BTF, such as a module's; `load` reads files with the rest of its debug information.
    ///
    /// # Errors
    /// The file is damaged, or has no types.
    pub fn parse(
        bytes: Bytes,
        base: Option<&BtfFile>,
        name: &str,
        load: &mut dyn FnMut(&str) -> Result<Bytes, Unread>,
    ) -> Result<TypesFile, StructsError> {
        let is_elf = bytes.starts_with(b"\x7fELF");
        let is_btf = BtfFile::is_raw(&bytes) || BtfFile::is_in_elf(&bytes);
        if is_btf || !is_elf {
            match BtfFile::parse(bytes.clone(), base, name) {
                Ok(file) => return Ok(TypesFile::Btf(Box::new(file))),
                // A module's BTF needs its kernel's; its DWARF, if it has any, is whole.
                Err(error) => match ObjectFile::parse_types(bytes.clone(), name) {
                    Ok(file) if is_elf && file.has_debug_info() => {}
                    _ => return Err(error.into()),
                },
            }
        }
        let mut file = ObjectFile::parse_types(bytes, name)?;
        file.attach_debug_files(load);
        if !file.has_debug_info() {
            return Err(StructsError::NoTypes {
                file: name.to_owned(),
            });
        }
        Ok(TypesFile::Dwarf(Box::new(file)))
    }

    /// The name of the file.
    pub fn name(&self) -> &str {
        match self {
            TypesFile::Btf(file) => file.name(),
            TypesFile::Dwarf(file) => file.name(),
        }
    }

    /// Returns the layout of a structure, class or union: `rq`, `struct rq`, `ns::Foo`, or a
    /// typedef of one.
    pub fn struct_layout(&mut self, name: &str) -> Result<Arc<StructLayout>, Error> {
        match self {
            TypesFile::Btf(file) => file.struct_layout(name),
            TypesFile::Dwarf(file) => file.struct_layout(name),
        }
    }

    /// Types read so far, with those of a layout's members.
    pub fn types(&mut self) -> &TypeStore {
        match self {
            TypesFile::Btf(file) => file.types(),
            TypesFile::Dwarf(file) => file.types(),
        }
    }

    /// Names in source of the types of a layout's members; none in BTF, whose names are C's.
    pub fn source_names(&mut self, layout: &StructLayout) -> SourceNames {
        match self {
            TypesFile::Btf(_) => SourceNames::default(),
            TypesFile::Dwarf(file) => file.source_names(layout),
        }
    }

    /// Calls `take` with the name and the layout of each structure, class and union that the file
    /// defines, in its order. One may come several times.
    pub fn each_definition(
        &mut self,
        mut take: impl FnMut(&str, &TypeStore, Result<Arc<StructLayout>, Error>),
    ) {
        match self {
            TypesFile::Btf(file) => {
                for definition in file.definitions() {
                    let layout = file.definition_layout(&definition);
                    take(&definition.name, file.types(), layout);
                }
            }
            TypesFile::Dwarf(file) => file.each_definition(take),
        }
    }

    /// Damaged and missing parts so far.
    pub fn diagnostics(&self) -> Vec<String> {
        match self {
            TypesFile::Btf(_) => Vec::new(),
            TypesFile::Dwarf(file) => {
                let found = file.diagnostics();
                found.iter().map(ToString::to_string).collect()
            }
        }
    }
}
