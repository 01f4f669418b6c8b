//! Debug information that no compiler writes: cycles through typedefs, sizes at the ends, entries
//! nested thousands deep, references to nothing.

use super::attribute as at;
use super::{Dwarf, Elf, LineProgram, Symbol, Value, tag};
use crate::Choices;

/// Limit on the entries of one unit.
const ENTRIES_MAX: usize = 300;
/// Names of types: callers look up `s`, `t` and `ns::t`, the others collide.
const NAMES: [&str; 8] = ["s", "t", "s", "t", "a", "s<int>", "\u{1b}[31m", ""];
/// Addresses at which callers look for code and data.
const CODE: u64 = 0x1100;
const DATA: u64 = 0x4000;
/// The deepest nesting of entries.
const DEEP: usize = 2000;

/// A file, and another one that it refers to.
#[derive(Debug, Clone, Default)]
pub struct Files {
    /// The program's ELF file.
    pub program: Vec<u8>,
    /// Its `.dwo` file, what dwz shares, or its separate debug information.
    pub other: Option<Vec<u8>>,
}

/// A program with symbols and debug information, and perhaps its other file.
pub fn made(choices: &mut Choices<'_>) -> Files {
    let mut elf = Elf::default();
    elf.is_aarch64 = choices.one_in(8);
    elf.loaded(".text", 4, CODE, vec![0x90; 64]);
    elf.loaded(".data", 1, DATA, vec![0; 64]);
    for _ in 0..choices.below(6) {
        elf.symbol(symbol(choices));
    }
    elf.section(".debug_line", lines(choices));
    elf.section(".debug_str", b"s\0t\0ns\0long name\0".to_vec());
    let other = match choices.below(8) {
        0 => split(choices, &mut elf),
        1 => shared(choices, &mut elf),
        2 => separate(choices, &mut elf),
        _ => {
            sections(choices, &mut elf, "");
            None
        }
    };
    let mut program = elf.finish();
    damage(choices, &mut program);
    Files { program, other }
}

/// Changes a few bytes of one file in eight.
fn damage(choices: &mut Choices<'_>, bytes: &mut [u8]) {
    if choices.one_in(8) {
        for _ in 0..choices.below(4) {
            let at = choices.word(2) as usize % bytes.len();
            bytes[at] ^= choices.byte();
        }
    }
}

fn symbol(choices: &mut Choices<'_>) -> Symbol {
    let is_code = choices.one_in(2);
    let near = choices.below(256) as u64;
    let address = match choices.below(4) {
        0 => choices.number(),
        _ => near + if is_code { CODE } else { DATA },
    };
    Symbol {
        name: match choices.one_in(4) {
            true => choices.text().replace('\0', ""),
            false => choices.pick(&NAMES).to_owned(),
        },
        info: if is_code { 0x12 } else { 0x11 },
        section: choices.pick(&[1, 2, 0, 0xfff1, u16::MAX]),
        address,
        size: size(choices),
    }
}

/// Rows for the code that callers look up, and rows at the ends.
fn lines(choices: &mut Choices<'_>) -> Vec<u8> {
    let mut program = LineProgram::default();
    program.files.extend(["s.c".into(), choices.text()]);
    for _ in 0..choices.below(4) {
        program.address(place(choices, CODE));
        for _ in 0..choices.below(8) {
            match choices.below(8) {
                0 => program.file(choices.number()),
                1 => program.raw(choices.bytes(3)),
                2 => program.row(choices.number(), choices.number() as i64),
                _ => program.row(choices.below(32) as u64, choices.below(9) as i64 - 3),
            }
        }
        if !choices.one_in(8) {
            program.end();
        }
    }
    program.finish()
}

/// Adds `.debug_info` and `.debug_abbrev` whose names end with `suffix`.
fn sections(choices: &mut Choices<'_>, elf: &mut Elf, suffix: &str) {
    let version = choices.pick(&[4, 5, 4, 5, 3]);
    let mut unit = Dwarf::new(version, tag::COMPILE_UNIT, root(choices));
    if version == 5 && choices.one_in(8) {
        let kind = choices.pick(&[2, 6, 3, 0x80]);
        unit.kind(kind, choices.number());
    }
    entries(choices, &mut unit);
    add(elf, &unit, suffix);
}

fn add(elf: &mut Elf, unit: &Dwarf, suffix: &str) {
    let (info, abbreviations) = unit.finish();
    elf.section(&format!(".debug_info{suffix}"), info);
    elf.section(&format!(".debug_abbrev{suffix}"), abbreviations);
}

fn root(choices: &mut Choices<'_>) -> Vec<(u16, Value)> {
    vec![
        (at::NAME, Value::Text("s.c".into())),
        (
            at::LANGUAGE,
            Value::Data2(choices.pick(&[0x1d, 0x1a, 0x1c, 0x1f])),
        ),
        (at::STMT_LIST, Value::Section(0)),
        (at::LOW_PC, Value::Address(CODE)),
        (at::HIGH_PC, Value::Data8(0x100)),
    ]
}

/// A skeleton in the program, and the unit in a `.dwo` file.
fn split(choices: &mut Choices<'_>, elf: &mut Elf) -> Option<Vec<u8>> {
    let id = 0x1234;
    let version = choices.pick(&[4, 5]);
    let mut skeleton = root(choices);
    let mut other = Dwarf::new(version, tag::COMPILE_UNIT, Vec::new());
    let own_id = if choices.one_in(8) {
        choices.number()
    } else {
        id
    };
    let path = Value::Text("s.dwo".into());
    let unit = match version {
        4 => {
            skeleton.push((at::GNU_DWO_NAME, path));
            skeleton.push((at::GNU_DWO_ID, Value::Data8(id)));
            let attributes = vec![(at::GNU_DWO_ID, Value::Data8(own_id))];
            other = Dwarf::new(version, tag::COMPILE_UNIT, attributes);
            Dwarf::new(version, tag::COMPILE_UNIT, skeleton)
        }
        _ => {
            skeleton.push((at::DWO_NAME, path));
            skeleton.push((at::ADDR_BASE, Value::Section(8)));
            other.kind(5, own_id);
            let mut unit = Dwarf::new(version, tag::SKELETON_UNIT, skeleton);
            unit.kind(4, id);
            unit
        }
    };
    add(elf, &unit, "");
    elf.section(".debug_addr", vec![0x20; 64]);
    entries(choices, &mut other);
    let mut dwo = Elf::default();
    add(&mut dwo, &other, ".dwo");
    dwo.section(".debug_str.dwo", b"s\0t\0".to_vec());
    dwo.section(".debug_str_offsets.dwo", vec![0; 32]);
    let mut dwo = dwo.finish();
    damage(choices, &mut dwo);
    Some(dwo)
}

/// A unit in the program, and entries that dwz moved into another file.
fn shared(choices: &mut Choices<'_>, elf: &mut Elf) -> Option<Vec<u8>> {
    let mut link = b"shared.debug\0".to_vec();
    link.extend([7; 20]);
    elf.section(".gnu_debugaltlink", link);
    sections(choices, elf, "");
    let mut other = Elf::default();
    other.build_id(&[7; 20]);
    let mut unit = Dwarf::new(4, tag::PARTIAL_UNIT, Vec::new());
    entries(choices, &mut unit);
    add(&mut other, &unit, "");
    other.section(".debug_str", b"s\0t\0".to_vec());
    Some(other.finish())
}

/// A link in the program, and all debug information in another file.
fn separate(choices: &mut Choices<'_>, elf: &mut Elf) -> Option<Vec<u8>> {
    elf.build_id(&[9; 20]);
    let mut link = b"s.debug\0".to_vec();
    link.extend(choices.half().to_le_bytes());
    elf.section(".gnu_debuglink", link);
    let mut other = Elf::default();
    other.build_id(&[9; 20]);
    for _ in 0..choices.below(4) {
        other.symbol(symbol(choices));
    }
    other.section(".debug_line", lines(choices));
    sections(choices, &mut other, "");
    Some(other.finish())
}

/// An address near one that callers look up, or any.
fn place(choices: &mut Choices<'_>, near: u64) -> u64 {
    match choices.below(8) {
        7 => choices.number(),
        _ => near + choices.below(256) as u64,
    }
}

/// A size: a small one more often than not.
fn size(choices: &mut Choices<'_>) -> u64 {
    match choices.below(4) {
        0 => choices.number(),
        _ => choices.pick(&[4, 8, 16, 64, 1, 2, 128, 0]),
    }
}

/// A number in any form that holds numbers.
fn data(choices: &mut Choices<'_>, number: u64) -> Value {
    match choices.below(8) {
        0 => Value::Data1(number as u8),
        1 => Value::Data2(number as u16),
        2 => Value::Data4(number as u32),
        3 => Value::Data8(number),
        4 => Value::Signed(number as i64),
        _ => Value::Unsigned(number),
    }
}

/// A reference: to an entry before, to itself, to a later one, or to anything.
fn reference(choices: &mut Choices<'_>, unit: &Dwarf) -> Value {
    let next = unit.len();
    match choices.below(24) {
        23 => Value::Offset(choices.half()),
        22 => Value::Global(choices.half()),
        21 => Value::Shared(choices.below(80) as u32),
        20 => Value::Signature(choices.number()),
        19 => Value::Entry(next + choices.below(8)),
        18 => Value::Entry(next),
        _ => Value::Entry(next.saturating_sub(1 + choices.below(8))),
    }
}

fn name(choices: &mut Choices<'_>) -> (u16, Value) {
    let text = match choices.below(16) {
        15 => Value::Text(choices.text()),
        14 => Value::TextAt(choices.half()),
        13 => Value::SharedText(choices.below(8) as u32),
        12 => Value::TextIndex(choices.number()),
        _ => Value::Text(choices.pick(&NAMES).to_owned()),
    };
    (at::NAME, text)
}

fn entries(choices: &mut Choices<'_>, unit: &mut Dwarf) {
    let int = vec![
        (at::NAME, Value::Text("int".into())),
        (at::BYTE_SIZE, Value::Data1(4)),
        (at::ENCODING, Value::Data1(5)),
    ];
    unit.entry(0, tag::BASE, int);
    let namespace = unit.entry(
        0,
        tag::NAMESPACE,
        vec![(at::NAME, Value::Text("ns".into()))],
    );
    let mut count = 0;
    while !choices.is_empty() && count < ENTRIES_MAX && unit.len() < 6000 {
        let parent = choices.pick(&[0, 0, 0, namespace]);
        entry(choices, unit, parent);
        count += 1;
    }
}

fn entry(choices: &mut Choices<'_>, unit: &mut Dwarf, parent: usize) {
    match choices.below(20) {
        0 => {
            let size = size(choices);
            let attributes = vec![
                name(choices),
                (at::BYTE_SIZE, data(choices, size)),
                (at::ENCODING, Value::Data1(choices.byte())),
            ];
            unit.entry(parent, tag::BASE, attributes);
        }
        1..=6 => aggregate(choices, unit, parent),
        7 | 8 => array(choices, unit, parent),
        9..=11 => {
            let tags = [
                tag::TYPEDEF,
                tag::POINTER,
                tag::CONST,
                tag::VOLATILE,
                tag::REFERENCE,
                tag::ATOMIC,
                tag::SUBROUTINE_TYPE,
            ];
            let attributes = vec![name(choices), (at::TYPE, reference(choices, unit))];
            unit.entry(parent, choices.pick(&tags), attributes);
        }
        12 => enumeration(choices, unit, parent),
        13..=15 => variable(choices, unit, parent),
        16 | 17 => function(choices, unit, parent),
        18 => nest(choices, unit, parent),
        _ => {
            let tags = [
                tag::IMPORTED_UNIT,
                tag::VARIANT_PART,
                tag::MEMBER,
                0x4107,
                u16::MAX,
            ];
            let attributes = vec![
                (at::IMPORT, reference(choices, unit)),
                (at::SIGNATURE, Value::Signature(choices.number())),
            ];
            unit.entry(parent, choices.pick(&tags), attributes);
        }
    }
}

fn aggregate(choices: &mut Choices<'_>, unit: &mut Dwarf, parent: usize) {
    let count = choices.pick(&[2, 3, 0, 1, 4, 8, 40]);
    let size = match choices.one_in(8) {
        true => size(choices),
        false => 4 * count,
    };
    let mut attributes = vec![name(choices), (at::BYTE_SIZE, data(choices, size))];
    match choices.below(16) {
        0 => attributes.push((at::DECLARATION, Value::Present)),
        1 => attributes.push((at::SPECIFICATION, reference(choices, unit))),
        2 => attributes.push((at::ALIGNMENT, Value::Unsigned(choices.number()))),
        3 => attributes.push((at::SIGNATURE, Value::Signature(choices.number()))),
        _ => attributes.push((at::DECL_LINE, Value::Data1(3))),
    }
    let tags = [tag::STRUCTURE, tag::STRUCTURE, tag::UNION, tag::CLASS];
    let aggregate = unit.entry(parent, choices.pick(&tags), attributes);
    let mut offset = 0;
    for nth in 0..count {
        let target = match nth < 8 && choices.one_in(4) {
            true => reference(choices, unit),
            false => Value::Entry(1),
        };
        member(choices, unit, aggregate, offset, target);
        offset += 4;
    }
    if choices.one_in(8) {
        let part = unit.entry(
            aggregate,
            tag::VARIANT_PART,
            vec![(at::DISCR, reference(choices, unit))],
        );
        let value = choices.number();
        let variant = vec![(at::DISCR_VALUE, data(choices, value))];
        let variant = unit.entry(part, tag::VARIANT, variant);
        let target = reference(choices, unit);
        member(choices, unit, variant, 0, target);
    }
}

fn member(choices: &mut Choices<'_>, unit: &mut Dwarf, parent: usize, offset: u64, target: Value) {
    let mut attributes = vec![name(choices), (at::TYPE, target)];
    let offset = match choices.one_in(8) {
        true => choices.number(),
        false => offset,
    };
    let place = match choices.one_in(16) {
        true => Value::Expression(vec![0x23, offset as u8 & 0x7f]),
        false => data(choices, offset),
    };
    attributes.push((at::DATA_MEMBER_LOCATION, place));
    if choices.one_in(4) {
        let bits = choices.pick(&[1, 3, 9, 0, 32, 33, 64, 200]);
        attributes.push((at::BIT_SIZE, Value::Data1(bits)));
        let number = size(choices);
        let key = choices.pick(&[at::DATA_BIT_OFFSET, at::BIT_OFFSET]);
        attributes.push((key, data(choices, number)));
        if choices.one_in(4) {
            attributes.push((at::BYTE_SIZE, data(choices, number)));
        }
    }
    let tags = [tag::MEMBER, tag::MEMBER, tag::MEMBER, tag::INHERITANCE];
    unit.entry(parent, choices.pick(&tags), attributes);
}

/// An array, with bounds of each of its dimensions.
fn array(choices: &mut Choices<'_>, unit: &mut Dwarf, parent: usize) {
    let array = unit.entry(
        parent,
        tag::ARRAY,
        vec![(at::TYPE, reference(choices, unit))],
    );
    for _ in 0..choices.pick(&[1, 1, 2, 0, 3, 20]) {
        let count = size(choices);
        let key = choices.pick(&[at::COUNT, at::UPPER_BOUND, at::UPPER_BOUND]);
        let mut attributes = vec![(key, data(choices, count))];
        if choices.one_in(8) {
            let lower = choices.number();
            attributes.push((at::LOWER_BOUND, data(choices, lower)));
        }
        unit.entry(array, tag::SUBRANGE, attributes);
    }
}

fn enumeration(choices: &mut Choices<'_>, unit: &mut Dwarf, parent: usize) {
    let size = size(choices);
    let attributes = vec![name(choices), (at::BYTE_SIZE, data(choices, size))];
    let enumeration = unit.entry(parent, tag::ENUMERATION, attributes);
    for _ in 0..choices.below(5) {
        let number = choices.number();
        let attributes = vec![name(choices), (at::CONST_VALUE, data(choices, number))];
        unit.entry(enumeration, tag::ENUMERATOR, attributes);
    }
}

/// A variable at an address that callers read, mostly with an expression that is an address.
fn variable(choices: &mut Choices<'_>, unit: &mut Dwarf, parent: usize) {
    let mut expression = vec![3];
    expression.extend(place(choices, DATA).to_le_bytes());
    match choices.below(8) {
        0 => expression.truncate(choices.below(9)),
        1 => expression.extend([0x23, 0xff, 0xff, 0xff, 0xff, 0x0f]),
        2 => expression = vec![0xa1, choices.byte() & 0x7f],
        _ => {}
    }
    let mut attributes = vec![name(choices), (at::TYPE, reference(choices, unit))];
    attributes.push((at::LOCATION, Value::Expression(expression)));
    if choices.one_in(8) {
        attributes.push((at::SPECIFICATION, reference(choices, unit)));
    }
    unit.entry(parent, tag::VARIABLE, attributes);
}

/// A function with calls that were inlined into it, and a variable of its own.
fn function(choices: &mut Choices<'_>, unit: &mut Dwarf, parent: usize) {
    let (low, size) = (place(choices, CODE), size(choices));
    let attributes = vec![
        name(choices),
        (at::LOW_PC, Value::Address(low)),
        (at::HIGH_PC, data(choices, size)),
        (at::DECL_FILE, Value::Data1(choices.byte())),
        (at::SPECIFICATION, reference(choices, unit)),
    ];
    let kept = if choices.one_in(4) { 5 } else { 4 };
    let attributes = attributes.into_iter().take(kept).collect();
    let mut inner = unit.entry(parent, tag::SUBPROGRAM, attributes);
    let depth = choices.count(DEEP);
    for nth in 0..choices.below(4) * depth {
        let origin = match nth < 4 {
            true => reference(choices, unit),
            false => Value::Entry(inner),
        };
        let attributes = vec![
            (at::ABSTRACT_ORIGIN, origin),
            (at::LOW_PC, Value::Address(low)),
            (at::HIGH_PC, Value::Unsigned(size)),
            (at::CALL_LINE, Value::Data4(nth as u32)),
        ];
        inner = unit.entry(inner, tag::INLINED_SUBROUTINE, attributes);
        if unit.len() > 6000 {
            break;
        }
    }
    if choices.one_in(4) {
        variable(choices, unit, inner);
    }
}

/// Scopes or structures inside each other, with a type or a variable in the innermost.
fn nest(choices: &mut Choices<'_>, unit: &mut Dwarf, parent: usize) {
    let tag = choices.pick(&[
        tag::NAMESPACE,
        tag::STRUCTURE,
        tag::LEXICAL_BLOCK,
        tag::UNION,
    ]);
    let mut inner = parent;
    for nth in 0..choices.count(DEEP) {
        let attributes = vec![
            (at::NAME, Value::Text("n".into())),
            (at::BYTE_SIZE, Value::Data1(8)),
            (at::TYPE, Value::Entry(unit.len() + nth % 2)),
        ];
        inner = unit.entry(inner, tag, attributes);
    }
    match choices.one_in(2) {
        true => variable(choices, unit, inner),
        false => {
            let target = reference(choices, unit);
            member(choices, unit, inner, 0, target);
        }
    }
}

#[cfg(test)]
mod tests {
    use hitm_layout::{Bytes, ObjectFile, Unread};

    use super::*;
    use crate::noise;

    #[test]
    fn most_files_parse_and_name_code_and_data() {
        let (mut files, mut named, mut structs) = (0, 0, 0);
        for seed in 0..200 {
            let bytes = noise(seed, 400);
            let made = made(&mut Choices::new(&bytes));
            assert_eq!(made.program, super::made(&mut Choices::new(&bytes)).program);
            let Ok(mut file) = ObjectFile::parse(Bytes::from(made.program), "made") else {
                continue;
            };
            let other = made.other;
            file.attach_debug_files(&mut |_| {
                let other = other.clone().map(Bytes::from);
                other.ok_or(Unread::Missing)
            });
            files += 1;
            let data = (DATA..DATA + 256).filter(|at| file.data_location(*at, 1).is_some());
            named += data.count();
            structs += usize::from(file.struct_layout("s").is_ok());
        }
        assert!(
            files > 150 && named > 1000 && structs > 30,
            "{files} files, {named} places, {structs} structures"
        );
    }
}
