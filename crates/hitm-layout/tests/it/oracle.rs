//! The addr2line crate reads the same debug information in another way: both must agree.

use std::collections::BTreeSet;

use addr2line::Context;
use gimli::{EndianSlice, LittleEndian, SectionId};
use hitm_layout::{CodeLocation, ObjectFile};
use object::{Object, ObjectSection, ObjectSymbol};

use crate::fixture::{Fixture, load};

type Reader<'a> = EndianSlice<'a, LittleEndian>;

/// Lines and depth of the chain of inlined calls, innermost first.
type Lines = Vec<Option<u32>>;

fn by_addr2line(context: &Context<Reader<'_>>, address: u64) -> Lines {
    let mut frames = context.find_frames(address).skip_all_loads().unwrap();
    let mut lines = Vec::new();
    while let Some(frame) = frames.next().unwrap() {
        lines.push(frame.location.and_then(|location| location.line));
    }
    if lines.is_empty() {
        // Nothing known is one frame without a line to us.
        lines.push(None);
    }
    lines
}

fn by_us(location: &CodeLocation) -> Lines {
    let callers = location.inlined_from.iter().map(|frame| frame.line);
    std::iter::once(location.line).chain(callers).collect()
}

/// Compares `count` addresses spread over the program's functions.
fn compare(path: &str, count: u64) {
    let bytes = load(path).unwrap();
    let parsed = object::File::parse(&*bytes).unwrap();
    let section = |id: SectionId| {
        let section = parsed.section_by_name(id.name());
        section
            .map(|section| section.uncompressed_data().unwrap())
            .unwrap_or_default()
    };
    let sections = gimli::DwarfSections::load(|id| Ok::<_, gimli::Error>(section(id))).unwrap();
    let context = sections.borrow(|bytes| EndianSlice::new(bytes, LittleEndian));
    let context = Context::from_dwarf(context).unwrap();
    let starts: BTreeSet<(u64, u64)> = parsed
        .symbols()
        .filter(|symbol| symbol.kind() == object::SymbolKind::Text && symbol.size() > 0)
        .map(|symbol| (symbol.address(), symbol.size()))
        .collect();
    let step = (starts.len() as u64 / count).max(1) as usize;
    let mut file = ObjectFile::parse(bytes.clone(), path).unwrap();
    let (mut compared, mut inlined) = (0, 0);
    for (start, size) in starts.into_iter().step_by(step) {
        for address in [start, start + size / 3, start + size - 1] {
            let location = file.code_location(address);
            let (ours, theirs) = (by_us(&location), by_addr2line(&context, address));
            assert_eq!(ours, theirs, "{path} {address:#x}: {location:?}");
            compared += 1;
            inlined += usize::from(ours.len() > 1);
        }
    }
    assert!(
        compared > 10 && inlined > 0,
        "{compared} compared, {inlined} inlined"
    );
}

#[test]
fn lines_and_inlined_calls() {
    let flags = ["-g", "-O2", "-gdwarf-5"];
    let fixture = Fixture::compile("cc", "members.c", &flags);
    compare(fixture.program.to_str().unwrap(), 1000);
    let flags = ["-Copt-level=2", "-Cdebuginfo=2", "--edition=2024"];
    let fixture = Fixture::compile("rustc", "statics.rs", &flags);
    compare(fixture.program.to_str().unwrap(), 500);
}

#[test]
fn this_test_itself() {
    let own = std::env::current_exe().unwrap();
    compare(own.to_str().unwrap(), 700);
}
