//! Names for the addresses of a process, from its mappings.

mod mappings;

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

pub use self::mappings::Mapping;
use self::mappings::Mappings;
use crate::error::Diagnostics;
use crate::{AccessedType, FrameAccess, MayAccess, ResultUse, TypeId};
use crate::{Bytes, CodeLocation, DataLocation, Diagnostic, LineMember, ObjectFile, Unread};

/// The name of an instruction.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CodeName {
    /// The path of the file that it is in, if it is in one.
    pub path: Option<String>,
    /// Function, file and line; empty for an unknown address.
    pub location: CodeLocation,
    /// `file+0x1234` (the file's virtual address), `[vdso]+0x10`, or the bare address.
    pub place: String,
}

impl fmt::Display for CodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let function = self.location.function.as_deref().unwrap_or(&self.place);
        match (&self.location.file, self.location.line) {
            (Some(file), Some(line)) => {
                let file = file.rsplit('/').next().unwrap_or(file);
                write!(f, "{function} {file}:{line}")
            }
            _ => f.write_str(function),
        }
    }
}

/// Name of the data at an address: file, object and member.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DataName {
    /// The path of the file that the object is in, if it is in one.
    pub path: Option<String>,
    /// The object and member; none on the heap, on stacks, and where no name is known.
    pub location: Option<DataLocation>,
    /// `file+0x1234` (the file's virtual address), `[heap]+0x10`, or the bare address.
    pub place: String,
}

impl fmt::Display for DataName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.location {
            Some(location) => location.fmt(f),
            None => f.write_str(&self.place),
        }
    }
}

/// Place of an address in a loaded file, or in the zero-filled memory behind its data.
struct Place {
    path: String,
    vaddr: u64,
}

/// A place with its file.
struct InFile<'s> {
    file: &'s mut ObjectFile,
    path: String,
    vaddr: u64,
}

/// Returns the bytes of a file by its path.
pub(crate) type Loader<'l> = dyn FnMut(&str) -> Result<Bytes, Unread> + 'l;

/// Says where copies of the file with a build id may lie.
type Copies<'l> = dyn Fn(&[u8]) -> Vec<String> + 'l;

/// Names runtime addresses. Files are loaded and indexed at the first question about an address in
/// them.
pub struct Symbolizer<'l> {
    mappings: Mappings,
    load: Box<Loader<'l>>,
    copies: Box<Copies<'l>>,
    files: BTreeMap<String, Option<Box<ObjectFile>>>,
    diagnostics: Diagnostics,
}

impl fmt::Debug for Symbolizer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Symbolizer")
            .field("mappings", &self.mappings.sorted.len())
            .field("files", &self.files.keys())
            .finish_non_exhaustive()
    }
}

impl<'l> Symbolizer<'l> {
    /// A symbolizer for a process with these mappings. `load` returns the bytes of a file by path,
    /// of separate debug files too. Mappings that overlap are
    /// searched from the one that begins last.
    pub fn new(
        mappings: Vec<Mapping>,
        load: impl FnMut(&str) -> Result<Bytes, Unread> + 'l,
    ) -> Symbolizer<'l> {
        Symbolizer {
            mappings: Mappings::new(mappings),
            load: Box::new(load),
            copies: Box::new(|_| Vec::new()),
            files: BTreeMap::new(),
            diagnostics: Diagnostics::default(),
        }
    }

    /// Adds caches of files by build id. They count where the file at a mapping's path is missing
    /// or is not the one that was recorded. The first of `copies` with the recorded build id takes
    /// its place.
    pub fn with_copies(self, copies: impl Fn(&[u8]) -> Vec<String> + 'l) -> Symbolizer<'l> {
        Symbolizer {
            copies: Box::new(copies),
            ..self
        }
    }

    /// Names the instruction at a runtime address.
    pub fn code(&mut self, address: u64) -> CodeName {
        match self.in_file(address) {
            Ok(InFile { file, path, vaddr }) => CodeName {
                location: file.code_location(vaddr),
                place: file_place(&path, vaddr),
                path: Some(path),
            },
            Err(place) => CodeName {
                place,
                ..CodeName::default()
            },
        }
    }

    /// Names the instruction at an address of a file, whether it is mapped or not. The address is
    /// as the file's own symbols have it.
    pub fn code_in_file(&mut self, path: &str, vaddr: u64) -> CodeName {
        self.load_file(path, None);
        let location = self.file(path).map(|file| file.code_location(vaddr));
        CodeName {
            place: file_place(path, vaddr),
            path: Some(path.to_owned()),
            location: location.unwrap_or_default(),
        }
    }

    /// Names what an access of `size` bytes at a runtime address touches.
    pub fn data(&mut self, address: u64, size: u64) -> DataName {
        match self.in_file(address) {
            Ok(InFile { file, path, vaddr }) => {
                let mut location = file.data_location(vaddr, size);
                if let Some(location) = &mut location {
                    location.object.start = address.wrapping_sub(location.offset);
                }
                DataName {
                    place: file_place(&path, vaddr),
                    path: Some(path),
                    location,
                }
            }
            Err(place) => DataName {
                place,
                ..DataName::default()
            },
        }
    }

    /// The object that the instruction at a runtime address accesses, and the path of the file that has its
    /// type ([`ObjectFile::accessed_type`]).
    pub fn accessed_type(&mut self, code: u64) -> Option<(String, AccessedType)> {
        let InFile { file, path, vaddr } = self.in_file(code).ok()?;
        Some((path, file.accessed_type(vaddr)?))
    }

    /// The place on its function's own stack that the instruction at a runtime address accesses, and the path of the file
    /// that it is in ([`ObjectFile::frame_access`]).
    pub fn frame_access(&mut self, code: u64) -> Option<(String, FrameAccess)> {
        let InFile { file, path, vaddr } = self.in_file(code).ok()?;
        Some((path, file.frame_access(vaddr)?))
    }

    /// The places on its function's own stack that the call which returns to a runtime address is given the address of,
    /// and the path of the file that it is in ([`ObjectFile::frame_arguments`]).
    pub fn frame_arguments(&mut self, code: u64) -> Option<(String, Vec<FrameAccess>)> {
        let InFile { file, path, vaddr } = self.in_file(code).ok()?;
        Some((path, file.frame_arguments(vaddr)))
    }

    /// The accesses for which a sample at a runtime address may stand: those of instructions that may have run
    /// just before, then those of the instruction there. An operand without registers is a runtime address.
    pub fn operands(&mut self, address: u64) -> Vec<MayAccess> {
        let Ok(InFile { file, vaddr, .. }) = self.in_file(address) else {
            return Vec::new();
        };
        let bias = address.wrapping_sub(vaddr);
        let mut accesses = file.operands(vaddr);
        for access in &mut accesses {
            access.code = access.code.wrapping_add(bias);
            if access.operand.is_address() {
                let place = &mut access.operand.offset;
                *place = place.wrapping_add_unsigned(bias);
            }
        }
        accesses
    }

    /// Returns true if a runtime address lies in a mapped file that can be read.
    pub fn is_in_file(&mut self, address: u64) -> bool {
        self.place(address).is_ok()
    }

    /// Returns true if a runtime address may be one that a call returns to: it is behind a call of a file, or in memory
    /// that is mapped and is no file's.
    pub fn is_call_site(&mut self, address: u64) -> bool {
        match self.in_file(address) {
            Ok(InFile { file, vaddr, .. }) => file.is_behind_call(vaddr),
            Err(_) => self.mappings.at(address).is_some(),
        }
    }

    /// The use of the result of the call that returns to a runtime address, and the path of the file that
    /// has the type.
    pub fn result_use(&mut self, code: u64) -> Option<(String, ResultUse)> {
        let InFile { file, path, vaddr } = self.in_file(code).ok()?;
        Some((path, file.result_use(vaddr)))
    }

    /// The type whose description Go's runtime has at a runtime address, and the path of the file that has the
    /// type.
    pub fn described_type(&mut self, at: u64) -> Option<(String, TypeId)> {
        let InFile { file, path, vaddr } = self.in_file(at).ok()?;
        Some((path, file.described_type(vaddr)?))
    }

    /// The parts of all objects in a range of runtime addresses that lies in one mapping, such as a
    /// cache line.
    pub fn members_in(&mut self, range: Range<u64>) -> Vec<LineMember> {
        let Ok(InFile { file, vaddr, .. }) = self.in_file(range.start) else {
            return Vec::new();
        };
        let bias = range.start.wrapping_sub(vaddr);
        let end = vaddr.saturating_add(range.end.saturating_sub(range.start));
        let mut members = file.members_in(vaddr..end);
        for member in &mut members {
            member.object.start = member.object.start.wrapping_add(bias);
        }
        members
    }

    /// The file behind a path, if it can be read: for its types and layouts.
    pub fn file(&mut self, path: &str) -> Option<&mut ObjectFile> {
        self.files.get_mut(path)?.as_deref_mut()
    }

    /// Messages about what was missing, damaged or not what was recorded, so far.
    pub fn diagnostics(&self) -> Vec<Diagnostic> {
        let mut all = self.diagnostics.to_vec();
        for file in self.files.values().flatten() {
            all.extend(file.diagnostics());
        }
        all
    }

    /// The file at an address, with the address in it; else the name of the place.
    fn in_file(&mut self, address: u64) -> Result<InFile<'_>, String> {
        let Place { path, vaddr } = self.place(address)?;
        let file = self.file(&path);
        let file = file.expect("a place in a file is in a loaded one");
        Ok(InFile { file, path, vaddr })
    }

    fn place(&mut self, address: u64) -> Result<Place, String> {
        let Some(index) = self.mappings.at(address) else {
            let sorted = &self.mappings.sorted;
            let after = sorted.partition_point(|mapping| mapping.start <= address);
            let place = self.place_behind(after, address);
            return place.ok_or_else(|| format!("{address:#x}"));
        };
        let mapping = &self.mappings.sorted[index];
        let into = address - mapping.start;
        let label = mapping.label().to_owned();
        if mapping.is_file() {
            let offset = mapping.file_offset.saturating_add(into);
            let place = self.place_in(index, address);
            return place.ok_or_else(|| format!("{label}+{offset:#x}"));
        }
        let place = self.place_behind(index, address);
        place.ok_or_else(|| format!("{label}+{into:#x}"))
    }

    /// The address as one of the last file that is mapped before `after`. The zero-filled end of a
    /// file's data is anonymous memory behind its last mapping.
    fn place_behind(&mut self, after: usize, address: u64) -> Option<Place> {
        let before = self.mappings.last_file_before(after)?;
        self.place_in(before, address)
    }

    /// The address as one of the file that is mapped there.
    fn place_in(&mut self, index: usize, address: u64) -> Option<Place> {
        self.load_mapped(index);
        let mapping = &self.mappings.sorted[index];
        let file = self.files.get(&mapping.path)?.as_ref()?;
        let anchor = self.mappings.anchor(index);
        let first = file.file_vaddr(anchor.start, anchor.file_offset, anchor.start)?;
        let bias = anchor.start.wrapping_sub(first);
        let mut vaddr = address.wrapping_sub(bias);
        let in_file = address < mapping.end || file.is_loaded(vaddr);
        if !file.is_loaded(vaddr) {
            // A program may map a part of a file once more, away from its head, as V8 does with its own code.
            let own = file.file_vaddr(mapping.start, mapping.file_offset, address);
            vaddr = own.filter(|own| file.is_loaded(*own)).unwrap_or(vaddr);
        }
        in_file.then(|| Place {
            path: mapping.path.clone(),
            vaddr,
        })
    }

    /// Loads the file of a mapping, once.
    fn load_mapped(&mut self, index: usize) {
        let mapping = &self.mappings.sorted[index];
        let (path, recorded) = (mapping.path.clone(), mapping.build_id.clone());
        self.load_file(&path, recorded);
    }

    fn load_file(&mut self, path: &str, recorded: Option<Vec<u8>>) {
        if self.files.contains_key(path) {
            return;
        }
        let own = self.open(path, path, recorded.as_deref());
        let file = own.or_else(|problem| self.open_copy(path, recorded, problem));
        let file = file.map_err(|problem| match problem {
            Problem::Data => {}
            Problem::Unusable(why) => self.diagnostics.push(path, why),
        });
        self.files.insert(path.to_owned(), file.ok().map(Box::new));
    }

    /// A copy of the file at `path`, which cannot be used for the reason given.
    fn open_copy(
        &mut self,
        path: &str,
        recorded: Option<Vec<u8>>,
        problem: Problem,
    ) -> Result<ObjectFile, Problem> {
        let Some(recorded) = recorded else {
            return Err(problem);
        };
        let copies = (self.copies)(&recorded);
        let mut files = copies
            .iter()
            .filter_map(|copy| self.open(copy, path, Some(&recorded)).ok());
        // A copy is known by its build id alone.
        let same = files.find(|file| file.build_id() == Some(&recorded));
        same.ok_or(problem)
    }

    /// The file at `from`, known as `path`, which messages and debug links are about.
    fn open(
        &mut self,
        from: &str,
        path: &str,
        recorded: Option<&[u8]>,
    ) -> Result<ObjectFile, Problem> {
        let bytes = (self.load)(from).map_err(|unread| match unread {
            Unread::Missing => "not found: its addresses stay file+offset".to_owned(),
            Unread::Refused(why) => format!("not read: {why}: its addresses stay file+offset"),
        });
        let bytes = bytes.map_err(Problem::Unusable)?;
        if !bytes.starts_with(&object::elf::ELFMAG) && recorded.is_none() {
            return Err(Problem::Data);
        }
        let mut file = ObjectFile::parse(bytes, path).map_err(|error| {
            let message = error.to_string();
            let own = message.strip_prefix(&format!("{path}: "));
            Problem::Unusable(own.unwrap_or(&message).to_owned())
        })?;
        match (recorded, file.build_id()) {
            (Some(recorded), Some(found)) if recorded != found => {
                return Err(Problem::Unusable(format!(
                    "build id {} was recorded, the file has {}: its addresses stay file+offset",
                    hex(recorded),
                    hex(found)
                )));
            }
            _ => {}
        }
        file.attach_debug_files(&mut self.load);
        Ok(file)
    }
}

/// A mapped file that gives no names.
enum Problem {
    /// It is no program: data that the program maps.
    Data,
    /// It should, and cannot be used.
    Unusable(String),
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn file_place(path: &str, vaddr: u64) -> String {
    let name = path.rsplit('/').next().unwrap_or(path);
    format!("{name}+{vaddr:#x}")
}
