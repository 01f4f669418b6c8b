//! The container: sections, symbols and one segment.

use hitm_base::Architecture;

/// Bytes before the first section: the file's header and one program header.
const HEADERS: usize = 64 + 56;
/// The address of the file's first byte.
const BASE: u64 = 0x1000;

/// A symbol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Symbol {
    /// Its name.
    pub name: String,
    /// `st_info`: binding and type; 0x12 is a global function, 0x11 a global object.
    pub info: u8,
    /// The section that it is in.
    pub section: u16,
    /// Its address.
    pub address: u64,
    /// Its size.
    pub size: u64,
}

/// A 64-bit little-endian file with one segment, which maps the whole of it at 0x1000.
#[derive(Debug, Clone, Default)]
pub struct Elf {
    sections: Vec<Section>,
    symbols: Vec<Symbol>,
    /// Set if it is for aarch64 instead of x86-64.
    pub is_aarch64: bool,
    /// Zeros in memory behind what is mapped of the file.
    pub zeros: u64,
}

#[derive(Debug, Clone)]
struct Section {
    name: String,
    /// `sh_type`, `sh_flags`, `sh_addr`.
    kind: u32,
    flags: u64,
    address: u64,
    bytes: Vec<u8>,
}

impl Elf {
    /// Adds a section of program data, which is not loaded.
    pub fn section(&mut self, name: &str, bytes: Vec<u8>) {
        self.sections.push(Section {
            name: name.to_owned(),
            kind: 1,
            flags: 0,
            address: 0,
            bytes,
        });
    }

    /// Adds a section that is loaded, with code or data.
    pub fn loaded(&mut self, name: &str, flags: u64, address: u64, bytes: Vec<u8>) {
        self.sections.push(Section {
            name: name.to_owned(),
            kind: 1,
            flags: flags | 2,
            address,
            bytes,
        });
    }

    /// Adds a note with a GNU build id.
    pub fn build_id(&mut self, id: &[u8]) {
        let mut bytes = Vec::new();
        for word in [4, id.len() as u32, 3] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(b"GNU\0");
        bytes.extend(id);
        self.section(".note.gnu.build-id", bytes);
        if let Some(note) = self.sections.last_mut() {
            note.kind = 7;
        }
    }

    /// Adds a symbol.
    pub fn symbol(&mut self, symbol: Symbol) {
        self.symbols.push(symbol);
    }

    /// The file.
    pub fn finish(mut self) -> Vec<u8> {
        let symbols = std::mem::take(&mut self.symbols);
        if !symbols.is_empty() {
            self.add_symbols(&symbols);
        }
        let mut names = vec![0];
        let mut contents = Vec::new();
        let mut table = vec![0; 64];
        let strings = self.sections.iter().position(|section| section.kind == 3);
        for section in &self.sections {
            let link = match section.kind {
                2 => strings.map_or(0, |place| place as u32 + 1),
                _ => 0,
            };
            table.extend((names.len() as u32).to_le_bytes());
            table.extend(section.kind.to_le_bytes());
            let at = (HEADERS + contents.len()) as u64;
            for word in [
                section.flags,
                section.address,
                at,
                section.bytes.len() as u64,
            ] {
                table.extend(word.to_le_bytes());
            }
            table.extend(link.to_le_bytes());
            table.extend(u32::from(section.kind == 2).to_le_bytes());
            table.extend(1u64.to_le_bytes());
            table.extend((if section.kind == 2 { 24u64 } else { 0 }).to_le_bytes());
            names.extend(section.name.bytes().chain([0]));
            contents.extend(&section.bytes);
        }
        let names_at = HEADERS + contents.len();
        table.extend([0, 0, 0, 0, 3, 0, 0, 0]);
        for word in [0, 0, names_at as u64, names.len() as u64, 0, 1, 0] {
            table.extend(word.to_le_bytes());
        }
        contents.extend(names);
        let count = self.sections.len() as u16 + 2;
        let mut file = header(&self, (HEADERS + contents.len()) as u64, count);
        file.extend(contents);
        file.extend(table);
        file
    }

    fn add_symbols(&mut self, symbols: &[Symbol]) {
        let mut names = vec![0u8];
        let mut table = vec![0u8; 24];
        for symbol in symbols {
            table.extend((names.len() as u32).to_le_bytes());
            table.extend([symbol.info, 0]);
            table.extend(symbol.section.to_le_bytes());
            table.extend(symbol.address.to_le_bytes());
            table.extend(symbol.size.to_le_bytes());
            names.extend(symbol.name.bytes().chain([0]));
        }
        for (name, kind, bytes) in [(".symtab", 2, table), (".strtab", 3, names)] {
            self.section(name, bytes);
            if let Some(section) = self.sections.last_mut() {
                section.kind = kind;
            }
        }
    }
}

/// The file's header, and the header of its segment.
fn header(elf: &Elf, table_at: u64, section_count: u16) -> Vec<u8> {
    let mut file = vec![0x7f, b'E', b'L', b'F', 2, 1, 1];
    file.resize(16, 0);
    let architecture = match elf.is_aarch64 {
        true => Architecture::Aarch64,
        false => Architecture::X86_64,
    };
    file.extend([3, 0]);
    file.extend(architecture.elf_machine().to_le_bytes());
    file.extend([1, 0, 0, 0]);
    for word in [0, 64, table_at] {
        file.extend(u64::to_le_bytes(word));
    }
    file.extend([0, 0, 0, 0, 64, 0, 56, 0, 1, 0, 64, 0]);
    file.extend(section_count.to_le_bytes());
    file.extend((section_count - 1).to_le_bytes());
    file.extend([1, 0, 0, 0, 7, 0, 0, 0]);
    for word in [0, BASE, BASE, 0x10000, 0x10000 + elf.zeros, 0x1000] {
        file.extend(u64::to_le_bytes(word));
    }
    file
}
