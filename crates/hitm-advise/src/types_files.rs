//! Files with types and rules that a user names, and the types of the running kernel.

use std::path::Path;

use hitm_files::input_file::{self, NamedBy};
use hitm_files::text_file::{self, TextFileError};
use hitm_layout::structs::{Rules, StructsError, TypesFile};
use hitm_layout::{BtfFile, Bytes};
use thiserror::Error;

/// Types of the running kernel.
pub const VMLINUX: &str = "/sys/kernel/btf/vmlinux";

/// Folder with the types of the running kernel and of its modules.
const KERNEL_BTF: &str = "/sys/kernel/btf/";

/// Limit on the bytes of a rules file.
const RULES_BYTES_MAX: u64 = 1 << 20;

/// Errors of reading types and rules.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TypesError {
    /// A file cannot be read.
    #[error("cannot read {path}: {cause}")]
    Read {
        /// The file.
        path: String,
        /// Error of the operating system.
        cause: std::io::Error,
    },
    /// The rules cannot be read.
    #[error(transparent)]
    RulesFile(#[from] TextFileError),
    /// No file was named, and this kernel has no BTF.
    #[error("this kernel has no BTF ({VMLINUX}: {cause}): name a file with -i")]
    NoKernelTypes {
        /// Error of the operating system.
        cause: std::io::Error,
    },
    /// The file, the type or the rules are wrong.
    #[error(transparent)]
    Structs(#[from] StructsError),
}

impl From<hitm_layout::Error> for TypesError {
    fn from(error: hitm_layout::Error) -> TypesError {
        TypesError::Structs(error.into())
    }
}

/// Opens a file: BTF, an ELF file with BTF, or one with DWARF; the running kernel's types when no file is named.
/// `base` is the base of split BTF, such as a module's; for the running kernel's modules it is the kernel's own.
///
/// # Errors
/// A file cannot be read, is damaged, or has no types.
pub fn open(input: Option<&Path>, base: Option<&Path>) -> Result<TypesFile, TypesError> {
    let path = input.unwrap_or(Path::new(VMLINUX));
    let name = path.display().to_string();
    let bytes = read(path).map_err(|error| match error {
        TypesError::Read { cause, .. } if input.is_none() => TypesError::NoKernelTypes { cause },
        other => other,
    })?;
    let is_module = name.starts_with(KERNEL_BTF) && name != VMLINUX;
    let base = base.or(is_module.then_some(Path::new(VMLINUX)));
    let has_btf = BtfFile::is_raw(&bytes) || BtfFile::is_in_elf(&bytes);
    let base = match base.filter(|_| has_btf || !bytes.starts_with(b"\x7fELF")) {
        Some(base) => Some(BtfFile::parse(
            read(base)?,
            None,
            &base.display().to_string(),
        )?),
        None => None,
    };
    Ok(TypesFile::parse(
        bytes,
        base.as_ref(),
        &name,
        &mut input_file::load,
    )?)
}

/// Reads a file of rules.
///
/// # Errors
/// The file cannot be read, or a rule is wrong.
pub fn rules(path: &Path) -> Result<Rules, TypesError> {
    let text = text_file::read(path, RULES_BYTES_MAX, "a file of rules")?;
    Ok(Rules::parse(&text, &path.display().to_string())?)
}

fn read(path: &Path) -> Result<Bytes, TypesError> {
    input_file::bytes(path, NamedBy::User).map_err(|cause| TypesError::Read {
        path: path.display().to_string(),
        cause,
    })
}
