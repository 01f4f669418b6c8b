//! Code whose instructions say what they access: of programs by their debug information, of a kernel by its BTF.

use std::cell::{RefCell, RefMut};
use std::sync::Arc;

use hitm_base::CodeAddr;
use hitm_layout::{AccessedType, Symbolizer, TypeId, TypeKind, TypeStore, structs};

use crate::kernel_code::KernelCode;
use crate::kernel_files::KERNEL_PATH;

/// A type that a file has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::recording) struct FileType {
    /// The path of the file.
    pub(in crate::recording) path: Arc<str>,
    /// The type, in the file's store.
    pub(in crate::recording) id: TypeId,
    /// Name of the type.
    pub(in crate::recording) name: Arc<str>,
    /// Bytes.
    pub(in crate::recording) size: u64,
    /// True if it has members. A number or a pointer votes for what is around it, and names nothing: `long` is no
    /// answer to what threads fight over.
    pub(in crate::recording) has_members: bool,
}

/// The code that votes.
#[derive(Debug, Clone, Copy)]
pub(in crate::recording) enum Code<'a> {
    /// Programs and their libraries.
    Programs(&'a RefCell<Symbolizer<'static>>),
    /// The kernel that was recorded.
    Kernel(&'a KernelCode),
}

impl<'a> Code<'a> {
    /// The type that an instruction accesses.
    pub(super) fn accessed(self, code: CodeAddr) -> Option<(FileType, AccessedType)> {
        match self {
            Code::Programs(symbolizer) => {
                let mut symbolizer = symbolizer.borrow_mut();
                let (path, accessed) = symbolizer.accessed_type(code.0)?;
                let of = file_type(&mut symbolizer, &path, accessed.type_id)?;
                Some((of, accessed))
            }
            Code::Kernel(kernel) => {
                let accessed = kernel.accessed(code.0)?;
                let of = kernel.with_types(|types| {
                    FileType::of(types, KERNEL_PATH, types.element_of(accessed.type_id))
                })?;
                Some((of, accessed))
            }
        }
    }

    /// Asks the types of the file at a path.
    pub(super) fn with_types<T>(self, path: &str, ask: impl FnOnce(&TypeStore) -> T) -> Option<T> {
        match self {
            Code::Programs(symbolizer) => Some(ask(symbolizer.borrow_mut().file(path)?.types())),
            Code::Kernel(kernel) => Some(kernel.with_types(ask)),
        }
    }

    /// The programs' files.
    pub(super) fn symbolizer(self) -> Option<RefMut<'a, Symbolizer<'static>>> {
        match self {
            Code::Programs(symbolizer) => Some(symbolizer.borrow_mut()),
            Code::Kernel(_) => None,
        }
    }
}

impl FileType {
    /// A type of the file at `path` with its name, if objects can be of it.
    fn of(store: &TypeStore, path: &str, id: TypeId) -> Option<FileType> {
        let size = store.get(id).size.filter(|size| *size > 1)?;
        let own_name = store.layout(id).and_then(|layout| layout.name.clone());
        let name = own_name.unwrap_or_else(|| Arc::from(bare(&store.get(id).name)));
        let is_named = !name.contains("(anonymous)") && !name.is_empty();
        let kind = &store.get(store.resolve(id)).kind;
        let is_memory = !matches!(kind, TypeKind::Broken(_));
        (is_named && is_memory).then(|| FileType {
            path: Arc::from(path),
            id,
            name,
            size,
            has_members: matches!(kind, TypeKind::Aggregate(_)),
        })
    }
}

/// A type of a program's file with its name, if objects can be of it.
pub(in crate::recording) fn file_type(
    symbolizer: &mut Symbolizer<'_>,
    path: &str,
    id: TypeId,
) -> Option<FileType> {
    let file = symbolizer.file(path)?;
    let element = file.types().element_of(id);
    let id = file.meant_type(element);
    FileType::of(file.types(), path, id)
}

/// A type's name without qualifiers and the word that says what it is made of.
fn bare(mut name: &str) -> &str {
    let words = ["const ", "volatile ", "_Atomic ", "enum "];
    while let Some(rest) = words.iter().find_map(|word| name.strip_prefix(word)) {
        name = rest;
    }
    structs::bare(name)
}
