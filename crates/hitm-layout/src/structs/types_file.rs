//! Sources of types: BTF, raw or in an ELF file, or DWARF.

use std::sync::Arc;

use super::StructsError;
use crate::Error;
use crate::{
    BtfFile, BtfVariable, Bytes, ObjectFile, SourceNames, StructLayout, TypeStore, Unread,
};

/// A file with types.
#[derive(Debug)]
pub struct TypesFile {
    types: Types,
}

#[derive(Debug)]
enum Types {
    Btf(Box<BtfFile>),
    Dwarf(Box<ObjectFile>),
}

impl TypesFile {
    /// Parses a file: BTF, an ELF file with BTF, or one with DWARF. BTF is preferred in an ELF file that has both.
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
        let is_btf = BtfFile::is_raw(&bytes) || BtfFile::is_in_elf(&bytes);
        if is_btf || !bytes.starts_with(b"\x7fELF") {
            let file = BtfFile::parse(bytes, base, name)?;
            return Ok(TypesFile {
                types: Types::Btf(Box::new(file)),
            });
        }
        let mut file = ObjectFile::parse(bytes, name)?;
        file.attach_debug_files(load);
        if !file.has_debug_info() {
            return Err(StructsError::NoTypes {
                file: name.to_owned(),
            });
        }
        Ok(TypesFile {
            types: Types::Dwarf(Box::new(file)),
        })
    }

    /// The name of the file.
    pub fn name(&self) -> &str {
        match &self.types {
            Types::Btf(file) => file.name(),
            Types::Dwarf(file) => file.name(),
        }
    }

    /// Returns the layout of a structure, class or union: `rq`, `struct rq`, `ns::Foo`, or a
    /// typedef of one.
    pub fn struct_layout(&mut self, name: &str) -> Result<Arc<StructLayout>, Error> {
        match &mut self.types {
            Types::Btf(file) => file.struct_layout(name),
            Types::Dwarf(file) => file.struct_layout(name),
        }
    }

    /// Types read so far, with those of a layout's members.
    pub fn types(&mut self) -> &TypeStore {
        match &mut self.types {
            Types::Btf(file) => file.types(),
            Types::Dwarf(file) => file.types(),
        }
    }

    /// Names in source of the types of a layout's members; none in BTF, whose names are C's.
    pub fn source_names(&mut self, layout: &StructLayout) -> SourceNames {
        match &mut self.types {
            Types::Btf(_) => SourceNames::default(),
            Types::Dwarf(file) => file.source_names(layout),
        }
    }

    /// Calls `take` with the name and the layout of each structure, class and union that the file
    /// defines, in its order. One may come several times.
    pub fn each_definition(
        &mut self,
        mut take: impl FnMut(&str, &TypeStore, Result<Arc<StructLayout>, Error>),
    ) {
        match &mut self.types {
            Types::Btf(file) => {
                for definition in file.definitions() {
                    let layout = file.definition_layout(&definition);
                    take(&definition.name, file.types(), layout);
                }
            }
            Types::Dwarf(file) => file.each_definition(take),
        }
    }

    /// Variables in BTF, a kernel's per-CPU ones; none for other files.
    pub fn btf_variables(&self) -> Vec<BtfVariable> {
        match &self.types {
            Types::Btf(file) => file.variables(),
            Types::Dwarf(_) => Vec::new(),
        }
    }

    /// Damaged and missing parts so far.
    pub fn diagnostics(&self) -> Vec<String> {
        match &self.types {
            Types::Btf(_) => Vec::new(),
            Types::Dwarf(file) => {
                let found = file.diagnostics();
                found.iter().map(ToString::to_string).collect()
            }
        }
    }
}
