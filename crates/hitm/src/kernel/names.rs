//! From addresses of a recorded kernel to names.

use std::cell::RefCell;

use hitm_layout::{BtfFile, Bytes, LeafList};

use super::store::KernelFiles;
use super::symbols::KernelSymbols;
use crate::recording::{CodeLabel, DataLabel};

/// Names of one kernel.
#[derive(Debug)]
pub(crate) struct KernelNames {
    symbols: KernelSymbols,
    btf: Option<RefCell<BtfFile>>,
}

impl KernelNames {
    /// The kept names of the kernel with this build id; none when nothing is kept.
    pub(crate) fn load(build_id: &[u8]) -> Option<KernelNames> {
        let files = KernelFiles::of(build_id);
        let kallsyms = files.kallsyms().ok()?;
        let symbols = KernelSymbols::parse(&String::from_utf8_lossy(&kallsyms));
        let btf = files.btf().ok().and_then(|btf| {
            let btf = BtfFile::parse(Bytes::new(btf), None, "the kernel's BTF");
            btf.ok().map(RefCell::new)
        });
        Some(KernelNames { symbols, btf })
    }

    /// The function at an address of the kernel's half.
    pub(crate) fn code(&self, address: u64) -> Option<CodeLabel> {
        let (function, _) = self.symbols.in_image(address)?;
        Some(CodeLabel {
            function: function.to_owned(),
            ..CodeLabel::default()
        })
    }

    /// The variable of the kernel's image at an address.
    pub(crate) fn variable(&self, address: u64) -> Option<DataLabel> {
        let (name, offset) = self.symbols.in_image(address)?;
        Some(DataLabel {
            object: name.to_owned(),
            object_addr: address - offset,
            object_size: 0,
            member: offset_text(offset),
            element: None,
        })
    }

    /// The member at an offset of an object of this type.
    pub(crate) fn member(&self, type_name: &str, range: std::ops::Range<u64>) -> String {
        let path = self.btf.as_ref().and_then(|btf| {
            let mut btf = btf.borrow_mut();
            let type_name = type_name.strip_prefix("struct ").unwrap_or(type_name);
            let type_id = btf.type_by_name(type_name)?;
            let size = btf.types().get(btf.types().resolve(type_id)).size?;
            let list = LeafList::find(btf.types(), type_id, size, range.clone(), true);
            list.leaves.first().map(|leaf| leaf.path.clone())
        });
        path.unwrap_or_else(|| offset_text(range.start))
    }
}

fn offset_text(offset: u64) -> String {
    match offset {
        0 => String::new(),
        _ => format!("+{offset:#x}"),
    }
}
