//! One ELF file with its debug information, wherever that lies.

mod by_name;
mod debug_files;
mod definitions;
mod flow;
mod frames;
mod go_types;
mod unnamed;

pub use by_name::Definition;
pub use frames::{FrameAccess, FrameVariable, FunctionRef};

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use self::unnamed::Unnamed;

use crate::data::{DataLocation, DataObject, LineMember, NameSource};
use crate::demangle::demangle;
use crate::dwarf::{
    CodeIndex, CodeLocation, DebugSections, DwarfFile, Naming, Variable, VariableIndex,
};
use crate::elf::Elf;
use crate::error::Diagnostics;
use crate::flow::{FlowIndex, OperandIndex};
use crate::path::{AccessPath, LeafList};
use crate::symbols::{MAX_GUESS, SymbolTable};
use crate::types::{MAX_SIZE, SourceNames, TypeReader, TypeStore};
use crate::{Bytes, Diagnostic, Error, Segment, StructLayout};

/// An executable or shared library.
///
/// Tables are made when first needed. Parsing reads headers only. Code addresses cost an index of
/// units and then the units that they lie in; data addresses cost one pass over the debug
/// information. Answers are cached, which is why questions take `&mut self`.
#[derive(Debug)]
pub struct ObjectFile {
    elf: Elf,
    /// The file that the debug information and symbols come from, when it is another one.
    debug_elf: Option<Elf>,
    supplement: Option<Elf>,
    symbols: Option<SymbolTable>,
    /// Sources of functions beside symbols, read when first needed.
    unnamed: Option<Unnamed>,
    debug: Option<Debug>,
    operands: OperandIndex,
    /// True if the caller let us look for what skeleton units leave to other files.
    split_looked_for: bool,
    diagnostics: Diagnostics,
}

/// Debug information and what was read from it.
#[derive(Debug)]
struct Debug {
    dwarf: DwarfFile,
    code: CodeIndex,
    variables: Option<VariableIndex>,
    types: TypeStore,
    go_types: go_types::GoTypes,
    flow: FlowIndex,
    /// Variables on the stacks of functions that were asked about.
    frames: BTreeMap<FunctionRef, Arc<[FrameVariable]>>,
}

impl ObjectFile {
    /// Parses the headers of an ELF file: 64-bit, little-endian, x86-64 or aarch64. `name` is used
    /// in messages, and to look for separate debug information beside the file.
    pub fn parse(bytes: Bytes, name: &str) -> Result<ObjectFile, Error> {
        Ok(ObjectFile::of_elf(Elf::parse(bytes, name)?))
    }

    /// Parses the headers of a file that is asked for types alone: it may be an object file that is not
    /// linked yet, or a kernel's module, whose code and data have no addresses.
    pub fn parse_types(bytes: Bytes, name: &str) -> Result<ObjectFile, Error> {
        Ok(ObjectFile::of_elf(Elf::parse_debug(bytes, name)?))
    }

    fn of_elf(elf: Elf) -> ObjectFile {
        ObjectFile {
            elf,
            debug_elf: None,
            supplement: None,
            symbols: None,
            unnamed: None,
            debug: None,
            operands: OperandIndex::default(),
            split_looked_for: false,
            diagnostics: Diagnostics::default(),
        }
    }

    /// The name that was given to [`ObjectFile::parse`].
    pub fn name(&self) -> &str {
        &self.elf.name
    }

    /// The build id, if the file has one.
    pub fn build_id(&self) -> Option<&[u8]> {
        self.elf.build_id.as_deref()
    }

    /// The loadable segments, in the order of the file.
    pub fn segments(&self) -> &[Segment] {
        &self.elf.segments
    }

    /// Returns true if there is debug information: here, or in an attached file.
    pub fn has_debug_info(&self) -> bool {
        let elf = self.info_elf();
        elf.section(".debug_info").is_some() || elf.section(".zdebug_info").is_some()
    }

    /// The file's virtual address of a runtime address that lies in a mapping of the file. The
    /// mapping begins at `mapping_start` in memory and at `file_offset` in the file.
    pub fn file_vaddr(&self, mapping_start: u64, file_offset: u64, address: u64) -> Option<u64> {
        let into = address.checked_sub(mapping_start)?;
        let offset = file_offset.checked_add(into)?;
        self.elf.vaddr_of_offset(file_offset, offset)
    }

    /// Returns true if a segment holds the virtual address, zero-filled parts included.
    pub fn is_loaded(&self, vaddr: u64) -> bool {
        self.elf.is_loaded(vaddr)
    }

    /// The virtual address of the symbol with this name, marks of the linker such as `_text` included.
    /// Looks at all symbols.
    pub fn symbol_address(&self, name: &str) -> Option<u64> {
        SymbolTable::address_of(self.symbol_elf(), name)
    }

    /// Messages about what was damaged or missing so far.
    pub fn diagnostics(&self) -> Vec<Diagnostic> {
        self.diagnostics.to_vec()
    }

    /// The types that were read so far.
    pub fn types(&mut self) -> &TypeStore {
        &self.debug().types
    }

    /// Names in source of the types of a structure that was read from this file.
    pub fn source_names(&mut self, layout: &StructLayout) -> SourceNames {
        let debug = self.debug();
        SourceNames::new(&debug.dwarf.view(), &debug.types, layout)
    }

    /// Locates the instruction at a virtual address in the source. Without debug information there,
    /// the symbol's name is the function; without a symbol nothing is known.
    pub fn code_location(&mut self, vaddr: u64) -> CodeLocation {
        self.prepare();
        let debug = self.debug.as_mut().expect("prepare() makes it");
        let (found, problems) = debug.code.find(&debug.dwarf.view(), vaddr);
        for problem in problems {
            self.note(format!("code at {vaddr:#x}: {problem}"));
        }
        let mut location = found.unwrap_or_default();
        if let Some((name, start)) = self.symbol_at(vaddr) {
            location.function.get_or_insert_with(|| name.clone());
            location.symbol = Some((name, vaddr - start));
        }
        location
    }

    /// The object that holds the byte at a virtual address, and the members that an access of `size`
    /// bytes touches. Bytes beyond the object are ignored.
    pub fn data_location(&mut self, vaddr: u64, size: u64) -> Option<DataLocation> {
        let object = self.data_object(vaddr)?;
        let offset = vaddr - object.start;
        let end = offset.saturating_add(size.max(1)).min(object.size);
        // One byte of a string is named by its index, several by where they begin.
        let whole_byte_arrays = end - offset > 1;
        let leaves = self.leaves(&object, offset..end, whole_byte_arrays);
        let path = AccessPath::new(&object.name, leaves, offset..end);
        Some(DataLocation {
            object,
            offset,
            path,
        })
    }

    /// The parts of all objects that overlap a range of virtual addresses, such as a cache line.
    pub fn members_in(&mut self, range: Range<u64>) -> Vec<LineMember> {
        /// More parts than a range of sensible size has bytes.
        const MAX_MEMBERS: usize = 1024;
        let mut members = Vec::new();
        let mut next = Some(range.start);
        while let Some(at) = next.filter(|at| *at < range.end && members.len() < MAX_MEMBERS) {
            let Some(object) = self.data_object(at) else {
                next = self.next_object_start(at);
                continue;
            };
            let first = range.start.saturating_sub(object.start);
            let last = range.end - object.start;
            let list = self.leaves(&object, first..last, true);
            next = (object.end() > at).then(|| object.end());
            members.extend(list.leaves.into_iter().map(|leaf| LineMember {
                object: object.clone(),
                leaf,
            }));
        }
        members
    }

    /// The object that holds the byte at a virtual address.
    pub fn data_object(&mut self, vaddr: u64) -> Option<DataObject> {
        self.prepare_variables();
        let symbols = self.symbols.as_ref().expect("prepare() makes it");
        let symbol = symbols.data(vaddr);
        let debug = self.debug.as_ref().expect("prepare() makes it");
        let variables = debug.variables.as_ref().expect("just prepared");
        if let Some(variable) = variables.nearest(vaddr) {
            let symbol_size = symbol
                .filter(|s| s.address == variable.address)
                .map(|s| s.size);
            let object = self.variable_object(variable, symbol_size.unwrap_or(0));
            if let Some(object) = object.filter(|object| vaddr < object.end()) {
                return Some(object);
            }
        }
        let symbol = symbol?;
        let symbols = self.symbols.as_ref().expect("prepare() makes it");
        let next = symbols.next_data_start(symbol.address);
        let size = match symbol.size {
            0 => next.map_or(MAX_GUESS, |next| (next - symbol.address).min(MAX_GUESS)),
            size => size.min(MAX_SIZE),
        };
        let is_inside = vaddr - symbol.address < size;
        is_inside.then(|| DataObject {
            name: demangle(&symbols.name(self.symbol_elf(), symbol)),
            start: symbol.address,
            size,
            type_id: None,
            type_name: None,
            source: NameSource::SymbolTable,
        })
    }

    /// The leaves of an object in a range of its bytes. An object without a type is one leaf.
    fn leaves(
        &mut self,
        object: &DataObject,
        range: Range<u64>,
        whole_byte_arrays: bool,
    ) -> LeafList {
        let types = &mut self.debug().types;
        let type_id = match object.type_id {
            Some(type_id) => type_id,
            None => types.unknown(),
        };
        LeafList::find(types, type_id, object.size, range, whole_byte_arrays)
    }

    fn next_object_start(&self, vaddr: u64) -> Option<u64> {
        let symbols = self.symbols.as_ref()?;
        let variables = self.debug.as_ref()?.variables.as_ref()?;
        let starts = [symbols.next_data_start(vaddr), variables.next_start(vaddr)];
        starts.into_iter().flatten().min()
    }

    fn variable_object(&mut self, variable: Variable, symbol_size: u64) -> Option<DataObject> {
        let debug = self.debug.as_mut()?;
        let view = debug.dwarf.view();
        let type_die = view.variable_type(variable)?;
        let type_id = TypeReader::new(&mut debug.types, &view).read(type_die);
        let found = debug.types.get(type_id);
        let symbol_size = symbol_size.min(MAX_SIZE);
        // A symbol may be larger: an initialised flexible array is not in the type's size.
        let size = found.size.unwrap_or(0).max(symbol_size);
        if size == 0 {
            return None;
        }
        let name = debug.variables.as_ref()?.name(&view, variable);
        let type_name = Some(found.name.to_string());
        let name = match name {
            // The namespace of a definition outside of it is only in the symbol.
            Some(name) if variable.has_scope() => name,
            name => self
                .qualified_symbol(variable.address)
                .or(name)
                .unwrap_or_default(),
        };
        Some(DataObject {
            name,
            start: variable.address,
            size,
            type_id: Some(type_id),
            type_name,
            source: NameSource::Dwarf,
        })
    }

    /// The name of the object symbol at an address, if it is mangled: then it has the namespaces.
    fn qualified_symbol(&self, address: u64) -> Option<String> {
        let symbols = self.symbols.as_ref()?;
        let symbol = symbols
            .data(address)
            .filter(|symbol| symbol.address == address)?;
        let raw = symbols.name(self.symbol_elf(), symbol);
        let name = demangle(&raw);
        (name != raw).then_some(name)
    }

    /// The file that debug information comes from.
    fn info_elf(&self) -> &Elf {
        self.debug_elf.as_ref().unwrap_or(&self.elf)
    }

    /// The file that symbols come from: a stripped file leaves them to its debug file.
    fn symbol_elf(&self) -> &Elf {
        match &self.debug_elf {
            Some(debug) if debug.section(".symtab").is_some() => debug,
            _ => &self.elf,
        }
    }

    fn debug(&mut self) -> &mut Debug {
        self.prepare();
        self.debug.as_mut().expect("prepare() makes it")
    }

    /// Makes the symbol table and the index of units.
    fn prepare(&mut self) {
        if self.symbols.is_none() {
            let symbols = SymbolTable::read(self.symbol_elf());
            if symbols.is_empty() && !self.has_debug_info() {
                self.note("neither symbols nor debug information: addresses stay file+offset");
            } else if !self.has_debug_info() {
                self.note("no debug information: names come from the symbol table");
            }
            self.symbols = Some(symbols);
        }
        if self.debug.is_none() {
            let mut problems = Vec::new();
            let sections = DebugSections::new(self.info_elf(), Naming::Main, &mut problems);
            let supplement = self.supplement.as_ref();
            let supplement =
                supplement.map(|elf| DebugSections::new(elf, Naming::Main, &mut problems));
            let dwarf = DwarfFile::new(sections, supplement, &mut problems);
            let skeletons = dwarf.skeletons().len();
            if skeletons > 0 && !self.split_looked_for {
                problems.push(format!(
                    "split debug information (.dwo) of {skeletons} units was not looked for: lines only"
                ));
            }
            self.debug = Some(Debug {
                dwarf,
                code: CodeIndex::default(),
                variables: None,
                types: TypeStore::default(),
                flow: FlowIndex::default(),
                frames: BTreeMap::new(),
                go_types: go_types::GoTypes::default(),
            });
            self.note_all(problems);
        }
    }

    fn prepare_variables(&mut self) {
        self.prepare();
        let elf = &self.elf;
        let Some(debug) = self
            .debug
            .as_mut()
            .filter(|debug| debug.variables.is_none())
        else {
            return;
        };
        let mut problems = Vec::new();
        let is_loaded = |address| elf.is_loaded(address);
        let view = debug.dwarf.view();
        let variables = VariableIndex::read(&view, is_loaded, &mut problems);
        debug.variables = Some(variables);
        self.note_all(problems);
    }

    fn note(&mut self, message: impl Into<String>) {
        self.diagnostics.push(&self.elf.name, message);
    }

    fn note_all(&mut self, messages: Vec<String>) {
        for message in messages {
            self.note(message);
        }
    }
}
