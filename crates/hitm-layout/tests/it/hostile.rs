//! Bytes that no linker made: whatever they are, the answer is an error or a poorer name, soon.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use gimli::write::{Address, AttributeValue, Dwarf, EndianVec, LineProgram, Sections, UnitEntryId};
use gimli::{DwTag, Encoding, Format, LittleEndian};
use hitm_layout::{Bytes, Error, ObjectFile, TypeFault, Unread};
use proptest::prelude::*;

use crate::fixture::{Fixture, load};

/// Asks a file everything, at addresses that it has and at some that it has not.
fn ask_everything(bytes: Vec<u8>) {
    let begun = Instant::now();
    let Ok(mut file) = ObjectFile::parse(Bytes::from(bytes), "hostile") else {
        return;
    };
    file.attach_debug_files(&mut |_| Err(Unread::Missing));
    let mut addresses = vec![0, 1, 0x1000, u64::MAX];
    for segment in file.segments().iter().take(8) {
        let step = (segment.memory_size / 16).max(1);
        addresses.extend((0..16).map(|i| segment.vaddr.wrapping_add(i * step)));
    }
    for address in addresses {
        file.code_location(address);
        file.data_location(address, 8);
        file.members_in(address & !63..(address & !63).saturating_add(64));
        file.file_vaddr(address, address, address);
    }
    let _ = file.struct_layout("mixed");
    file.diagnostics();
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(20), "{took:?}");
}

static REAL: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let read = |flags: &[&str]| {
        let fixture = Fixture::compile("cc", "members.c", flags);
        load(fixture.program.to_str().unwrap()).unwrap().to_vec()
    };
    vec![
        read(&["-g", "-O2", "-gdwarf-4"]),
        read(&["-g", "-O2", "-gdwarf-5"]),
        read(&["-g", "-O0", "-gdwarf-5", "-gz"]),
        read(&["-g", "-gdwarf-4", "-fdebug-types-section"]),
    ]
});

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn arbitrary_bytes(mut bytes in proptest::collection::vec(any::<u8>(), 0..2000), header in any::<bool>()) {
        if header && bytes.len() > 64 {
            let real = &REAL[0];
            bytes[..64].copy_from_slice(&real[..64]);
        }
        ask_everything(bytes);
    }

    #[test]
    fn mutated_files(
        which in any::<prop::sample::Index>(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..40),
        cut in proptest::option::weighted(0.2, any::<prop::sample::Index>()),
    ) {
        let mut bytes = REAL[which.index(REAL.len())].clone();
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        ask_everything(bytes);
    }
}

#[test]
fn foreign_files_are_named() {
    let parse = |bytes: &[u8]| ObjectFile::parse(Bytes::from(bytes.to_vec()), "f").unwrap_err();
    assert_eq!(
        parse(b"#!/bin/sh\n").to_string(),
        "f: expected an ELF file, found 10 bytes that begin with [23, 21, 2f, 62]"
    );
    let mut other = REAL[0].clone();
    other[4] = 1;
    assert_eq!(
        parse(&other).to_string(),
        "f: expected 64-bit little-endian ELF (class 2, data 1), found class 1, data encoding 1"
    );
    other[4] = 2;
    other[18] = 8;
    assert_eq!(
        parse(&other).to_string(),
        "f: expected x86-64 or aarch64 (machine 62 or 183), found machine 8"
    );
}

/// An ELF file of one segment at 0x1000, with these sections.
fn elf(sections: &[(&str, Vec<u8>)]) -> Vec<u8> {
    const HEADERS: usize = 64 + 56;
    let mut names = vec![0_u8];
    let mut contents: Vec<u8> = Vec::new();
    let mut table = vec![0_u8; 64];
    let mut add = |name: &str, kind: u32, bytes: &[u8], names: &mut Vec<u8>| {
        let name_offset = names.len() as u32;
        names.extend(name.bytes().chain([0]));
        table.extend(name_offset.to_le_bytes());
        table.extend(kind.to_le_bytes());
        table.extend([0; 16]);
        table.extend(((HEADERS + contents.len()) as u64).to_le_bytes());
        table.extend((bytes.len() as u64).to_le_bytes());
        table.extend([0; 24]);
        contents.extend(bytes);
    };
    for (name, bytes) in sections {
        add(name, 1, bytes, &mut names);
    }
    let mut all_names = names.clone();
    all_names.extend(b".shstrtab\0");
    add(".shstrtab", 3, &all_names, &mut names);
    let mut file = vec![0x7f, b'E', b'L', b'F', 2, 1, 1];
    file.resize(16, 0);
    file.extend([3, 0, 62, 0, 1, 0, 0, 0]);
    file.extend([0; 8]);
    file.extend(64_u64.to_le_bytes());
    file.extend(((HEADERS + contents.len()) as u64).to_le_bytes());
    file.extend([0, 0, 0, 0, 64, 0, 56, 0, 1, 0, 64, 0]);
    file.extend((sections.len() as u16 + 2).to_le_bytes());
    file.extend((sections.len() as u16 + 1).to_le_bytes());
    file.extend([1, 0, 0, 0, 6, 0, 0, 0]);
    for field in [0_u64, 0x1000, 0x1000, 0x10000, 0x10000, 0x1000] {
        file.extend(field.to_le_bytes());
    }
    file.extend(contents);
    file.extend(table);
    file
}

/// Debug information of one unit that `build` fills.
struct Debug {
    dwarf: Dwarf,
    unit: gimli::write::UnitId,
}

impl Debug {
    fn new() -> Debug {
        let encoding = Encoding {
            format: Format::Dwarf32,
            version: 4,
            address_size: 8,
        };
        let mut dwarf = Dwarf::new();
        let unit = gimli::write::Unit::new(encoding, LineProgram::none());
        let unit = dwarf.units.add(unit);
        Debug { dwarf, unit }
    }

    fn add(&mut self, parent: Option<UnitEntryId>, tag: DwTag, name: &str) -> UnitEntryId {
        let unit = self.dwarf.units.get_mut(self.unit);
        let parent = parent.unwrap_or(unit.root());
        let id = unit.add(parent, tag);
        let name = AttributeValue::String(name.as_bytes().to_vec());
        unit.get_mut(id).set(gimli::DW_AT_name, name);
        id
    }

    fn set(&mut self, entry: UnitEntryId, name: gimli::DwAt, value: AttributeValue) {
        let unit = self.dwarf.units.get_mut(self.unit);
        unit.get_mut(entry).set(name, value);
    }

    fn set_type(&mut self, entry: UnitEntryId, target: UnitEntryId) {
        self.set(entry, gimli::DW_AT_type, AttributeValue::UnitRef(target));
    }

    fn structure(
        &mut self,
        name: &str,
        size: u64,
        member_type: Option<UnitEntryId>,
    ) -> UnitEntryId {
        let id = self.add(None, gimli::DW_TAG_structure_type, name);
        self.set(id, gimli::DW_AT_byte_size, AttributeValue::Udata(size));
        if let Some(member_type) = member_type {
            let member = self.add(Some(id), gimli::DW_TAG_member, "m");
            self.set_type(member, member_type);
        }
        id
    }

    fn variable(&mut self, name: &str, type_of: UnitEntryId, address: u64) {
        let variable = self.add(None, gimli::DW_TAG_variable, name);
        let mut expression = gimli::write::Expression::new();
        expression.op_addr(Address::Constant(address));
        self.set_type(variable, type_of);
        let location = AttributeValue::Exprloc(expression);
        self.set(variable, gimli::DW_AT_location, location);
    }

    fn file(&mut self) -> ObjectFile {
        let mut written = Sections::new(EndianVec::new(LittleEndian));
        self.dwarf.write(&mut written).unwrap();
        let mut sections = Vec::new();
        written
            .for_each(|id, data| -> gimli::write::Result<()> {
                sections.push((id.name(), data.slice().to_vec()));
                Ok(())
            })
            .unwrap();
        ObjectFile::parse(Bytes::from(elf(&sections)), "made").unwrap()
    }
}

#[test]
fn types_that_no_compiler_makes() {
    let mut debug = Debug::new();
    let int = debug.add(None, gimli::DW_TAG_base_type, "int");
    debug.set(int, gimli::DW_AT_byte_size, AttributeValue::Udata(4));
    let alias = debug.add(None, gimli::DW_TAG_typedef, "int2");
    debug.set_type(alias, int);
    let own = debug.structure("own", 8, None);
    let member = debug.add(Some(own), gimli::DW_TAG_member, "again");
    debug.set_type(member, own);
    let first = debug.add(None, gimli::DW_TAG_typedef, "first");
    let second = debug.add(None, gimli::DW_TAG_typedef, "second");
    debug.set_type(first, second);
    debug.set_type(second, first);
    let array = debug.add(None, gimli::DW_TAG_array_type, "");
    debug.set_type(array, int);
    let range = debug.add(Some(array), gimli::DW_TAG_subrange_type, "");
    debug.set(range, gimli::DW_AT_count, AttributeValue::Udata(u64::MAX));
    let huge = debug.structure("huge", u64::MAX, Some(array));
    let mut deep = int;
    for level in 0..20_000 {
        deep = debug.structure(&format!("level{level}"), 4, Some(deep));
    }
    debug.variable("own_variable", own, 0x2000);
    debug.variable("deep_variable", deep, 0x3000);
    debug.variable("array_variable", array, 0x4000);
    debug.variable("huge_variable", huge, 0x5000);
    debug.variable("cyclic_variable", first, 0x6000);
    let mut file = debug.file();
    let name = |file: &mut ObjectFile, address| {
        let found = file.data_location(address, 4);
        found.map(|location| location.to_string())
    };
    // A member with a size is named; one that contains its own structure has none and is passed
    // over.
    assert_eq!(
        name(&mut file, 0x2004).as_deref(),
        Some("own_variable+4 (padding)")
    );
    assert!(
        name(&mut file, 0x3000)
            .unwrap()
            .starts_with("deep_variable.m.m")
    );
    assert_eq!(name(&mut file, 0x4000), None);
    assert_eq!(name(&mut file, 0x5000), None);
    assert_eq!(name(&mut file, 0x6000), None);
    let fault = |file: &mut ObjectFile, name: &str| match file.struct_layout(name) {
        Err(Error::BadType {
            name: of, cause, ..
        }) if of == name => cause,
        other => panic!("{other:?}"),
    };
    assert_eq!(fault(&mut file, "huge"), TypeFault::TooLarge);
    assert_eq!(fault(&mut file, "int2"), TypeFault::NotAggregate);
    let message = file.struct_layout("own").unwrap_err().to_string();
    assert_eq!(message, "made: type own: member again: contains itself");
    // The inside of a deep type is broken far down: the layout of its outside stands.
    assert_eq!(file.struct_layout("level19999").unwrap().size, 4);
}

#[test]
fn members_that_cannot_be_where_they_are() {
    let mut debug = Debug::new();
    let int = debug.add(None, gimli::DW_TAG_base_type, "int");
    debug.set(int, gimli::DW_AT_byte_size, AttributeValue::Udata(4));
    let over = debug.structure("over", 12, None);
    let outside = debug.structure("outside", 12, None);
    let far = debug.structure("far", 12, None);
    let apart = debug.structure("apart", 12, None);
    for (structure, name, at) in [
        (over, "first", 0),
        (over, "second", 2),
        (outside, "first", 4),
        (outside, "second", 9),
        (far, "first", 1 << 62),
        (apart, "first", 0),
        (apart, "second", 8),
    ] {
        let member = debug.add(Some(structure), gimli::DW_TAG_member, name);
        debug.set_type(member, int);
        let at = AttributeValue::Udata(at);
        debug.set(member, gimli::DW_AT_data_member_location, at);
    }
    let mut file = debug.file();
    let mut message = |name: &str| match file.struct_layout(name) {
        Ok(layout) => format!("{} members", layout.members.len()),
        Err(error) => error.to_string(),
    };
    assert_eq!(
        message("over"),
        "made: type over: member second: overlaps the member before it"
    );
    assert_eq!(
        message("outside"),
        "made: type outside: member second: outside of the structure"
    );
    assert_eq!(
        message("far"),
        "made: type far: member first: outside of the structure"
    );
    assert_eq!(message("apart"), "2 members");
}

#[test]
fn compressed_sections_that_lie() {
    let real = Fixture::compile("cc", "members.c", &["-g", "-gdwarf-5"]);
    let path = real.program.to_str().unwrap();
    for format in ["zlib", "zstd"] {
        let packed = format!("{path}.{format}");
        let status = hitm_test::process::Command::new("objcopy")
            .arg(format!("--compress-debug-sections={format}"))
            .args([path, &packed])
            .status();
        assert!(status.unwrap().success(), "objcopy {format}");
        let bytes = load(&packed).unwrap().to_vec();
        let mut file = ObjectFile::parse(Bytes::from(bytes.clone()), "sound").unwrap();
        assert_eq!(file.struct_layout("mixed").unwrap().members.len(), 8);
        assert_eq!(file.diagnostics(), []);
        // The compression header says 1 = zlib or 2 = zstd, and how many bytes there will be.
        let kind = if format == "zlib" { 1_u32 } else { 2 };
        let header: Vec<usize> = (0..bytes.len() - 24)
            .filter(|at| bytes[*at..*at + 4] == kind.to_le_bytes())
            .filter(|at| {
                bytes[*at + 4..*at + 8] == [0; 4]
                    && bytes[*at + 16..*at + 24] == [1, 0, 0, 0, 0, 0, 0, 0]
            })
            .collect();
        assert!(header.len() > 3, "{format}: {header:?}");
        for claim in [1, 1 << 10, 1 << 40, u64::MAX] {
            let mut lying = bytes.clone();
            for at in &header {
                lying[*at + 8..*at + 16].copy_from_slice(&claim.to_le_bytes());
            }
            let mut file = ObjectFile::parse(Bytes::from(lying), "lying").unwrap();
            assert!(file.struct_layout("mixed").is_err());
            let message = file.diagnostics()[0].to_string();
            assert!(message.contains("left out: "), "{message}");
        }
    }
}

#[test]
fn inlined_calls_nested_without_end() {
    // gimli's writer needs the stack, the reader under test does not.
    let writer = std::thread::Builder::new().stack_size(1 << 28);
    let mut file = writer.spawn(nested_calls).unwrap().join().unwrap();
    let location = file.code_location(0x2010);
    assert_eq!(location.function.as_deref(), Some("g"));
    assert!(location.inlined_from.len() > 100);
}

fn nested_calls() -> ObjectFile {
    let mut debug = Debug::new();
    let function = debug.add(None, gimli::DW_TAG_subprogram, "f");
    let mut inner = function;
    for _ in 0..20_000 {
        let low = AttributeValue::Address(Address::Constant(0x2000));
        debug.set(inner, gimli::DW_AT_low_pc, low);
        debug.set(inner, gimli::DW_AT_high_pc, AttributeValue::Udata(0x100));
        inner = debug.add(Some(inner), gimli::DW_TAG_inlined_subroutine, "g");
    }
    let unit = debug.dwarf.units.get_mut(debug.unit);
    let root = unit.root();
    let low = AttributeValue::Address(Address::Constant(0x1000));
    debug.set(root, gimli::DW_AT_low_pc, low);
    debug.set(root, gimli::DW_AT_high_pc, AttributeValue::Udata(0x8000));
    debug.file()
}
