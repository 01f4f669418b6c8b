//! A file that is mapped into the program: its functions, and how its stack frames are unwound.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::OpenOptionsExt as _;

use gimli::{
    BaseAddresses, CfaRule, CieOrFde, EhFrame, EhFrameOffset, EndianSlice, LittleEndian,
    RegisterRule, UnwindContext, UnwindSection as _, UnwindTableRow,
};
use hitm_base::{AddrRange, GoTable};
use hitm_trace::Mapping;
use object::elf::{PF_X, PT_LOAD, SHN_UNDEF, STT_FUNC};
use object::read::elf::{ElfFile64, ProgramHeader as _};
use object::{Object as _, ObjectSection as _, ObjectSegment as _, ReadCache};

use crate::arch::UnwindRegisters;

use super::rules::Rule;

type Reader<'a> = EndianSlice<'a, LittleEndian>;

/// Bytes of a symbol table's entry (elf(5), `Elf64_Sym`).
const SYMBOL_BYTES: usize = 24;

/// The code of a file.
#[derive(Debug)]
pub(super) struct Module {
    /// Addresses at which it is mapped.
    pub(super) code: AddrRange,
    /// Distance of the mapped addresses from the file's own.
    bias: u64,
    symbols: [Symbols; 2],
    /// Go's table, where it is the only one, and its section.
    go: Option<(GoTable, Vec<u8>)>,
    frames: Option<Frames>,
}

/// A table of symbols, and its names.
#[derive(Debug, Default)]
struct Symbols {
    entries: Vec<u8>,
    names: Vec<u8>,
}

/// Unwind information: `.eh_frame`.
#[derive(Debug)]
struct Frames {
    data: Vec<u8>,
    bases: BaseAddresses,
    /// First address, end and entry of each function, in their order. Static programs have no index in the
    /// file.
    index: OnceCell<Vec<(u64, u64, EhFrameOffset)>>,
}

/// A caller's frame, from a place in its code: where its return address is and what becomes of the frame
/// pointer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Frame {
    /// The canonical frame address is this far from the frame pointer; otherwise from the stack pointer.
    pub(super) is_by_frame_pointer: bool,
    pub(super) offset: i64,
    /// Place of its caller's frame pointer, from the canonical frame address, if the function has kept it.
    pub(super) kept: Option<i64>,
}

impl Module {
    /// Reads what the file of a mapping says; none if the mapping has no code.
    pub(super) fn open(mapping: &Mapping) -> Option<Module> {
        // Another file may have taken the name, and a FIFO would wait for ever.
        let mut options = fs::OpenOptions::new();
        let file = options.read(true).custom_flags(libc::O_NONBLOCK);
        let file = file.open(&mapping.path).ok()?;
        file.metadata()
            .is_ok_and(|data| data.is_file())
            .then_some(())?;
        Module::read(&ReadCache::<File>::new(file), mapping)
    }

    fn read(file: &ReadCache<File>, mapping: &Mapping) -> Option<Module> {
        let file: ElfFile64<object::LittleEndian, _> = ElfFile64::parse(file).ok()?;
        let endian = object::LittleEndian;
        // QEMU maps code like data, so one mapping may have parts that the program maps apart.
        let end = mapping.file_offset.saturating_add(mapping.range.len());
        let has_code = |header: &&object::elf::ProgramHeader64<_>| {
            let (first, len) = header.file_range(endian);
            header.p_type(endian) == PT_LOAD
                && header.p_flags(endian) & PF_X != 0
                && first < end
                && mapping.file_offset < first.saturating_add(len)
        };
        let segment = file.elf_program_headers().iter().find(has_code)?;
        let address = segment
            .p_vaddr(endian)
            .wrapping_sub(segment.p_offset(endian))
            .wrapping_add(mapping.file_offset);
        let section = |name: &str| {
            let found = file.section_by_name(name)?;
            Some((found.address(), found.data().ok()?.to_vec()))
        };
        let symbols = |entries: &str, names: &str| {
            let tables = Option::zip(section(entries), section(names));
            tables.map_or(Symbols::default(), |((_, entries), (_, names))| Symbols {
                entries,
                names,
            })
        };
        let own = symbols(".symtab", ".strtab");
        let go = || {
            let (_, bytes) = GoTable::SECTIONS.into_iter().find_map(section)?;
            let text = file.section_by_name(".text").map(|text| text.address());
            let is_loaded = |at: u64| {
                let mut segments = file.segments();
                segments.any(|of| at.wrapping_sub(of.address()) < of.size())
            };
            Some((GoTable::read(&bytes, text, is_loaded)?, bytes))
        };
        Some(Module {
            code: mapping.range,
            bias: mapping.range.start().wrapping_sub(address),
            go: own.entries.is_empty().then(go).flatten(),
            symbols: [own, symbols(".dynsym", ".dynstr")],
            frames: section(".eh_frame").map(|(at, data)| Frames {
                data,
                bases: BaseAddresses::default().set_eh_frame(at),
                index: OnceCell::new(),
            }),
        })
    }

    /// First instructions of the functions that have a rule, by address. Symbols are needed once only.
    pub(super) fn take_functions(
        &mut self,
        rule_of: impl Fn(&str) -> Option<&'static Rule>,
        is_left_out: impl Fn(&str) -> bool,
    ) -> BTreeMap<u64, &'static Rule> {
        let mut functions = BTreeMap::new();
        let mut left_out = Vec::new();
        let symbols = std::mem::take(&mut self.symbols);
        let go = self.go.take();
        let named = symbols.iter().flat_map(Symbols::functions);
        let of_go = go.iter().flat_map(|(table, bytes)| table.functions(bytes));
        for (name, address) in named.chain(of_go) {
            let address = address.wrapping_add(self.bias);
            if is_left_out(name) {
                left_out.push(address);
            } else if let Some(rule) = rule_of(name) {
                functions.insert(address, rule);
            }
        }
        for address in left_out {
            functions.remove(&address);
        }
        functions
    }

    /// The frame of a function at `code`, an address in it.
    pub(super) fn frame_at(&self, code: u64, registers: UnwindRegisters) -> Option<Frame> {
        let address = code.wrapping_sub(self.bias);
        self.frames.as_ref()?.at(address, registers)
    }
}

impl Frames {
    fn at(&self, address: u64, registers: UnwindRegisters) -> Option<Frame> {
        let section = EhFrame::new(&self.data, LittleEndian);
        let index = self.index.get_or_init(|| self.index_of(&section));
        let after = index.partition_point(|(first, ..)| *first <= address);
        let (_, end, entry) = *index.get(after.checked_sub(1)?)?;
        (address < end).then_some(())?;
        let cie = EhFrame::<Reader>::cie_from_offset;
        let entry = section.fde_from_offset(&self.bases, entry, cie).ok()?;
        let mut context = UnwindContext::new();
        let row = entry.unwind_info_for_address(&section, &self.bases, &mut context, address);
        Frame::of(row.ok()?, registers)
    }

    /// Reads all entries up to the first that is damaged.
    fn index_of(&self, section: &EhFrame<Reader>) -> Vec<(u64, u64, EhFrameOffset)> {
        let mut entries = section.entries(&self.bases);
        let mut index = Vec::new();
        while let Ok(Some(entry)) = entries.next() {
            if let CieOrFde::Fde(partial) = entry
                && let Ok(entry) = partial.parse(EhFrame::<Reader>::cie_from_offset)
            {
                let first = entry.initial_address();
                let offset = EhFrameOffset(entry.offset());
                index.push((first, first.saturating_add(entry.len()), offset));
            }
        }
        index.sort_unstable_by_key(|(first, ..)| *first);
        index
    }
}

impl Symbols {
    fn functions(&self) -> impl Iterator<Item = (&str, u64)> {
        self.entries
            .chunks_exact(SYMBOL_BYTES)
            .filter_map(|entry| self.function(entry))
    }

    /// Name and address of an entry that is a function of this file.
    fn function(&self, entry: &[u8]) -> Option<(&str, u64)> {
        let name = u32::from_le_bytes(*entry.first_chunk()?);
        let section = u16::from_le_bytes(*entry[6..].first_chunk()?);
        let address = u64::from_le_bytes(*entry[8..].first_chunk()?);
        if entry[4] & 0xf != STT_FUNC || section == SHN_UNDEF {
            return None;
        }
        let name = self.names.get(name as usize..)?;
        let end = name.iter().position(|byte| *byte == 0)?;
        Some((std::str::from_utf8(&name[..end]).ok()?, address))
    }
}

impl Frame {
    /// The simple forms, which compilers write; none for the outermost function, which returns nowhere.
    fn of(row: &UnwindTableRow<usize>, registers: UnwindRegisters) -> Option<Frame> {
        let CfaRule::RegisterAndOffset { register, offset } = row.cfa() else {
            return None;
        };
        let is_by_frame_pointer = *register == registers.frame;
        let is_known = is_by_frame_pointer || *register == registers.stack;
        let returns = row.register(registers.return_address);
        if !is_known || !matches!(returns, RegisterRule::Offset(-8)) {
            return None;
        }
        Some(Frame {
            is_by_frame_pointer,
            offset: *offset,
            kept: match row.register(registers.frame) {
                RegisterRule::Offset(at) => Some(at),
                _ => None,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::x86_64::X86_64;

    fn this_program() -> Module {
        let own = crate::mappings::at(this_program as *const () as u64).unwrap();
        Module::open(&own).unwrap()
    }

    #[test]
    fn a_program_has_its_functions_where_they_are_mapped() {
        #[unsafe(no_mangle)]
        extern "C" fn hitm_qemu_module_test() {}
        static RULE: std::sync::OnceLock<&'static Rule> = std::sync::OnceLock::new();
        let rules = super::super::rules::Rules::new(&["x,size=1".into()], false);
        let rule = *RULE.get_or_init(|| rules.of("x", true).unwrap());
        let is_it = |name: &str| (name == "hitm_qemu_module_test").then_some(rule);
        let found = this_program().take_functions(is_it, |_| false);
        let addresses: Vec<u64> = found.into_keys().collect();
        assert_eq!(addresses, [hitm_qemu_module_test as *const () as u64]);
    }

    #[test]
    fn a_function_has_a_frame() {
        let code = this_program as *const () as u64;
        // Before its first instruction, the return address is at the stack pointer.
        let expected = Frame {
            is_by_frame_pointer: false,
            offset: 8,
            kept: None,
        };
        let registers = X86_64.unwinding.unwrap();
        assert_eq!(this_program().frame_at(code, registers), Some(expected));
    }
}
