//! Sources of types: BTF, raw or in an ELF file, or DWARF.

use std::path::Path;
use std::sync::Arc;

use hitm_files::input_file::{self, NamedBy};
use hitm_layout::{BtfFile, BtfVariable, Bytes, ObjectFile, SourceNames, StructLayout, TypeStore};

use super::LayoutError;

/// Types of the running kernel.
pub const VMLINUX: &str = "/sys/kernel/btf/vmlinux";

/// Folder with the types of the running kernel and of its modules.
const KERNEL_BTF: &str = "/sys/kernel/btf/";

/// A file with types.
#[derive(Debug)]
pub struct LayoutFile {
    types: Types,
}

#[derive(Debug)]
enum Types {
    Btf(Box<BtfFile>),
    Dwarf(Box<ObjectFile>),
}

impl LayoutFile {
    /// Opens a file: BTF, an ELF file with BTF, or one with DWARF; the running kernel's types when
    /// no file is named. BTF is preferred in an ELF file that has both. `base` is the base of split
    /// BTF, such as a module's; for the running kernel's modules it is the kernel's own.
    pub fn open(input: Option<&Path>, base: Option<&Path>) -> Result<LayoutFile, LayoutError> {
        let path = input.unwrap_or(Path::new(VMLINUX));
        let name = path.display().to_string();
        let bytes = read(path).map_err(|error| match error {
            LayoutError::Read { cause, .. } if input.is_none() => {
                LayoutError::NoKernelTypes { cause }
            }
            other => other,
        })?;
        let is_module = name.starts_with(KERNEL_BTF) && name != VMLINUX;
        let base = base.or(is_module.then_some(Path::new(VMLINUX)));
        let is_btf = BtfFile::is_raw(&bytes) || BtfFile::is_in_elf(&bytes);
        if is_btf || !bytes.starts_with(b"\x7fELF") {
            let base = match base {
                Some(base) => {
                    let bytes = read(base)?;
                    Some(BtfFile::parse(bytes, None, &base.display().to_string())?)
                }
                None => None,
            };
            let file = BtfFile::parse(bytes, base.as_ref(), &name)?;
            return Ok(LayoutFile {
                types: Types::Btf(Box::new(file)),
            });
        }
        let mut file = ObjectFile::parse(bytes, &name)?;
        file.attach_debug_files(&mut input_file::load);
        if !file.has_debug_info() {
            return Err(LayoutError::NoTypes { file: name });
        }
        Ok(LayoutFile {
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
    pub fn struct_layout(&mut self, name: &str) -> Result<Arc<StructLayout>, LayoutError> {
        Ok(match &mut self.types {
            Types::Btf(file) => file.struct_layout(name)?,
            Types::Dwarf(file) => file.struct_layout(name)?,
        })
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
        mut take: impl FnMut(&str, &TypeStore, Result<Arc<StructLayout>, hitm_layout::Error>),
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

fn read(path: &Path) -> Result<Bytes, LayoutError> {
    input_file::bytes(path, NamedBy::User).map_err(|cause| LayoutError::Read {
        path: path.display().to_string(),
        cause,
    })
}
