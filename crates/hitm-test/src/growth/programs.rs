//! Programs and kernels, as ELF files with DWARF and as BTF, of whose types and code one number grows.

use super::{Files, Input};
use crate::btf::{Assembler, kind};
use crate::elf::{Dwarf, Elf, LineProgram, Symbol, Value, attribute as at, tag};

const LIST: &str = "layout list -i x";
const LIST_JSON: &str = "layout list -i x --format json";
const MATCH: &str = "layout list -i x --match *s*9*0*";
const SHOW: &str = "layout show s -i x";
const SHOW_JSON: &str = "layout show s -i x --format json";
const SHOW_C: &str = "layout show s -i x --format c";
const EXPAND: &str = "layout show s -i x --expand";
const DIFF: &str = "layout diff x other s";
const CHECK: &str = "layout check x --rules rules.toml";
const REVIEW: &str = "review x other";
const ADVISE: &str = "layout advise s -i x -p profile.csv --machine milan-2s";

pub(super) const INPUTS: &[Input] = &[
    Input {
        number: "structures of debug information",
        size: 6000,
        make: |size| program(structures(size)),
        readers: &[LIST, LIST_JSON, MATCH, SHOW, CHECK, REVIEW],
    },
    Input {
        number: "members of a structure",
        size: 10_000,
        make: |size| program(members(size)),
        readers: &[LIST, SHOW, SHOW_JSON, SHOW_C, EXPAND, CHECK, REVIEW],
    },
    Input {
        number: "members that rules and a profile name",
        size: 200,
        make: |size| program(members(size)),
        readers: &[DIFF, ADVISE],
    },
    Input {
        number: "structures within each other",
        size: 10_000,
        make: |size| program(structures_within(size)),
        readers: &[LIST, SHOW, EXPAND],
    },
    Input {
        number: "structures that are members of each other",
        size: 10_000,
        make: |size| program(members_within(size)),
        readers: &[LIST, SHOW, EXPAND],
    },
    Input {
        number: "namespaces within each other",
        size: 20_000,
        make: |size| program(namespaces(size)),
        readers: &[LIST, SHOW],
    },
    Input {
        number: "typedefs of each other",
        size: 20_000,
        make: |size| program(typedefs(size)),
        readers: &[LIST, SHOW],
    },
    Input {
        number: "units of debug information",
        size: 4000,
        make: |size| program(units(size)),
        readers: &[LIST, SHOW],
    },
    Input {
        number: "structures of BTF",
        size: 10_000,
        make: |size| kernel(btf_structures(size)),
        readers: &[LIST, LIST_JSON, SHOW, CHECK, REVIEW],
    },
    Input {
        number: "members of a structure of BTF",
        size: 16_000,
        make: |size| kernel(btf_members(size)),
        readers: &[LIST, SHOW, SHOW_C, CHECK, REVIEW],
    },
    Input {
        number: "structures of BTF that are members of each other",
        size: 20_000,
        make: |size| kernel(btf_members_within(size)),
        readers: &[LIST],
    },
    Input {
        number: "typedefs of each other in BTF",
        size: 20_000,
        make: |size| kernel(btf_typedefs(size)),
        readers: &[LIST, SHOW],
    },
];

/// The address of the file's first byte.
pub(super) const FIRST: u64 = 0x1000;
pub(super) const CODE: u64 = 0x10_0000;
pub(super) const DATA: u64 = 0x800_0000;

/// Rules and a profile for all programs: `s` has members `m0`, `m1` and so on, `nr`.
fn beside(x: Vec<u8>, other: Vec<u8>) -> Files {
    let rules = "schema = 1\n[[rule]]\nstruct = \"s\"\nseparate = [[\"m0\"], [\"m1\"]]\n\
                 no_straddle = [\"m0\"]\nsize_max_bytes = 1\n";
    let profile = "# schema: 1\n# name: p\n# source: made\n# period_cycles: 1000000\n\
                   member,function,loads,stores,rmws,cpus\nm0,f,1000,10,0,1-3\nm1,g,10,1000,0,0\n";
    let file = |name: &str, bytes: Vec<u8>| (name.to_owned(), bytes);
    vec![
        file("x", x),
        file("other", other),
        file("rules.toml", rules.into()),
        file("profile.csv", profile.into()),
    ]
}

fn program(units: Vec<Dwarf>) -> Files {
    let x = elf(&units, None);
    beside(x.clone(), elf(&other_units(units), None))
}

/// A program with a structure `s` of so many members.
pub(super) fn with_members(count: usize) -> Vec<u8> {
    elf(&members(count), None)
}

/// The same units and one more, so that a comparison does not end at the first look.
fn other_units(mut units: Vec<Dwarf>) -> Vec<Dwarf> {
    let mut more = unit(Vec::new());
    structure(&mut more, 0, "another", 1);
    units.push(more);
    units
}

fn kernel(mut btf: Assembler) -> Files {
    let x = btf.finish();
    let int = btf.int("another", 4);
    btf.structure("other", 4, &[("m", int, 0)]);
    beside(x, btf.finish())
}

/// A file with these units, and lines.
fn elf(units: &[Dwarf], lines: Option<LineProgram>) -> Vec<u8> {
    let mut elf = Elf::default();
    elf.zeros = 2 * DATA;
    let (mut info, mut abbreviations) = (Vec::new(), Vec::new());
    for unit in units {
        let (mut one, of_one) = unit.finish();
        // A unit of version 4 begins with its length, its version and the place of its abbreviations.
        one[6..10].copy_from_slice(&(abbreviations.len() as u32).to_le_bytes());
        info.extend(one);
        abbreviations.extend(of_one);
    }
    elf.loaded(".text", 4, CODE, vec![0x90; 64]);
    elf.section(".debug_info", info);
    elf.section(".debug_abbrev", abbreviations);
    if let Some(lines) = lines {
        elf.section(".debug_line", lines.finish());
    }
    elf.symbol(Symbol {
        name: "code".to_owned(),
        info: 0x12,
        section: 1,
        address: CODE,
        size: 1,
    });
    elf.finish()
}

/// A unit whose entry 1 is `int`.
fn unit(mut attributes: Vec<(u16, Value)>) -> Dwarf {
    attributes.push((at::NAME, Value::Text("x.c".into())));
    attributes.push((at::LANGUAGE, Value::Data1(0x21)));
    let mut unit = Dwarf::new(4, tag::COMPILE_UNIT, attributes);
    let int = vec![
        (at::NAME, Value::Text("int".into())),
        (at::BYTE_SIZE, Value::Data1(4)),
        (at::ENCODING, Value::Data1(5)),
    ];
    unit.entry(0, tag::BASE, int);
    unit
}

/// A structure with so many members that are `int`, and room for more.
fn structure(unit: &mut Dwarf, parent: usize, name: &str, count: usize) -> usize {
    let attributes = vec![
        (at::NAME, Value::Text(name.into())),
        (at::BYTE_SIZE, Value::Data4(4 * count as u32)),
    ];
    let structure = unit.entry(parent, tag::STRUCTURE, attributes);
    for number in 0..count {
        member(unit, structure, &format!("m{number}"), 4 * number, 1);
    }
    structure
}

fn member(unit: &mut Dwarf, structure: usize, name: &str, offset: usize, entry: usize) {
    let attributes = vec![
        (at::NAME, Value::Text(name.into())),
        (at::TYPE, Value::Entry(entry)),
        (at::DATA_MEMBER_LOCATION, Value::Data4(offset as u32)),
    ];
    unit.entry(structure, tag::MEMBER, attributes);
}

fn structures(size: usize) -> Vec<Dwarf> {
    let mut unit = unit(Vec::new());
    for number in 0..size {
        structure(&mut unit, 0, &format!("s{number}"), 4);
    }
    structure(&mut unit, 0, "s", 2);
    vec![unit]
}

fn members(size: usize) -> Vec<Dwarf> {
    let mut unit = unit(Vec::new());
    structure(&mut unit, 0, "s", size.max(2));
    vec![unit]
}

/// Declared within each other.
fn structures_within(size: usize) -> Vec<Dwarf> {
    let mut unit = unit(Vec::new());
    let mut parent = structure(&mut unit, 0, "s", 2);
    for _ in 0..size {
        parent = structure(&mut unit, parent, "n", 1);
    }
    vec![unit]
}

/// Each has the one before as its last member.
fn members_within(size: usize) -> Vec<Dwarf> {
    let mut unit = unit(Vec::new());
    let mut inner = 1;
    for number in 0..=size {
        let name = match number == size {
            true => "s".to_owned(),
            false => format!("s{number}"),
        };
        let attributes = vec![
            (at::NAME, Value::Text(name)),
            (at::BYTE_SIZE, Value::Data4(8 + 4 * number as u32)),
        ];
        let outer = unit.entry(0, tag::STRUCTURE, attributes);
        member(&mut unit, outer, "m0", 0, 1);
        member(&mut unit, outer, "m1", 4, inner);
        inner = outer;
    }
    vec![unit]
}

fn namespaces(size: usize) -> Vec<Dwarf> {
    let mut unit = unit(Vec::new());
    structure(&mut unit, 0, "s", 2);
    let mut parent = 0;
    for _ in 0..size {
        let name = vec![(at::NAME, Value::Text("n".into()))];
        parent = unit.entry(parent, tag::NAMESPACE, name);
        structure(&mut unit, parent, "i", 1);
    }
    vec![unit]
}

fn typedefs(size: usize) -> Vec<Dwarf> {
    let mut unit = unit(Vec::new());
    let mut of = 1;
    for number in 0..size {
        let attributes = vec![
            (at::NAME, Value::Text(format!("t{number}"))),
            (at::TYPE, Value::Entry(of)),
        ];
        of = unit.entry(0, tag::TYPEDEF, attributes);
        let name = vec![
            (at::NAME, Value::Text(format!("s{number}"))),
            (at::BYTE_SIZE, Value::Data1(4)),
        ];
        let structure = unit.entry(0, tag::STRUCTURE, name);
        member(&mut unit, structure, "m", 0, of);
    }
    structure(&mut unit, 0, "s", 2);
    vec![unit]
}

fn units(size: usize) -> Vec<Dwarf> {
    let one = |number: usize| {
        let mut unit = unit(Vec::new());
        structure(&mut unit, 0, &format!("s{number}"), 4);
        unit
    };
    let mut last = unit(Vec::new());
    structure(&mut last, 0, "s", 2);
    (0..size).map(one).chain([last]).collect()
}

fn with_code(size: usize) -> Dwarf {
    unit(vec![
        (at::LOW_PC, Value::Address(CODE)),
        (at::HIGH_PC, Value::Unsigned(size as u64)),
        (at::STMT_LIST, Value::Section(0)),
    ])
}

/// Code from an address on, of so many bytes.
fn code(address: u64, size: usize) -> Vec<(u16, Value)> {
    vec![
        (at::LOW_PC, Value::Address(address)),
        (at::HIGH_PC, Value::Unsigned(size as u64)),
    ]
}

fn call(unit: &mut Dwarf, parent: usize, address: u64, size: usize, line: usize) -> usize {
    let mut attributes = code(address, size);
    attributes.push((at::ABSTRACT_ORIGIN, Value::Entry(2)));
    attributes.push((at::CALL_FILE, Value::Data1(1)));
    attributes.push((at::CALL_LINE, Value::Data4(line as u32)));
    unit.entry(parent, tag::INLINED_SUBROUTINE, attributes)
}

/// A unit whose entry 2 is a function to inline.
fn with_inline(size: usize) -> Dwarf {
    let mut unit = with_code(size);
    let name = vec![(at::NAME, Value::Text("inlined".into()))];
    unit.entry(0, tag::SUBPROGRAM, name);
    unit
}

fn function(unit: &mut Dwarf, name: String, address: u64, size: usize) -> usize {
    let mut attributes = code(address, size);
    attributes.push((at::NAME, Value::Text(name)));
    unit.entry(0, tag::SUBPROGRAM, attributes)
}

/// A row of the table of lines for each byte.
fn lines(size: usize) -> LineProgram {
    let mut lines = LineProgram::default();
    lines.files.push("x.c".to_owned());
    lines.address(CODE);
    (0..size).for_each(|_| lines.row(1, 1));
    lines.end();
    lines
}

/// Functions of one byte, each with a call that is inlined into it.
pub(super) fn functions(size: usize) -> Vec<u8> {
    let mut unit = with_inline(size);
    for number in 0..size {
        let address = CODE + number as u64;
        let function = function(&mut unit, format!("f{number}"), address, 1);
        call(&mut unit, function, address, 1, number);
    }
    elf(&[unit], Some(lines(size)))
}

/// A function of which each byte is a call that is inlined into it.
pub(super) fn inlined_calls(size: usize) -> Vec<u8> {
    let mut unit = with_inline(size);
    let function = function(&mut unit, "f".to_owned(), CODE, size);
    for number in 0..size {
        call(&mut unit, function, CODE + number as u64, 1, number);
    }
    elf(&[unit], Some(lines(size)))
}

/// A function with calls that are inlined into each other.
pub(super) fn nested_calls(size: usize) -> Vec<u8> {
    let mut unit = with_inline(size);
    let mut outer = function(&mut unit, "f".to_owned(), CODE, size);
    for number in 0..size {
        let address = CODE + number as u64;
        outer = call(&mut unit, outer, address, size - number, number);
    }
    elf(&[unit], Some(lines(size)))
}

/// Structures `s`, each a variable on a line of its own.
pub(super) fn variables(size: usize) -> Vec<u8> {
    let mut unit = with_code(size);
    let structure = structure(&mut unit, 0, "s", 16);
    for number in 0..size {
        let mut expression = vec![3];
        expression.extend((DATA + 64 * number as u64).to_le_bytes());
        let attributes = vec![
            (at::NAME, Value::Text(format!("v{number}"))),
            (at::TYPE, Value::Entry(structure)),
            (at::LOCATION, Value::Expression(expression)),
        ];
        unit.entry(0, tag::VARIABLE, attributes);
    }
    elf(&[unit], None)
}

fn btf_of(int_count: u32, btf: &mut Assembler) -> u32 {
    let int = btf.int("int", 4);
    let members: Vec<(String, u32, u32)> = (0..int_count)
        .map(|number| (format!("m{number}"), int, 32 * number))
        .collect();
    let members: Vec<(&str, u32, u32)> = members
        .iter()
        .map(|(name, of, place)| (name.as_str(), *of, *place))
        .collect();
    btf.structure("s", 4 * int_count, &members);
    int
}

fn btf_structures(size: usize) -> Assembler {
    let mut btf = Assembler::new(false);
    let int = btf_of(2, &mut btf);
    for number in 0..size {
        let members = [("a", int, 0), ("b", int, 64), ("c", int, 96)];
        btf.structure(&format!("s{number}"), 16, &members);
    }
    btf
}

fn btf_members(size: usize) -> Assembler {
    let mut btf = Assembler::new(false);
    btf_of(size.max(2) as u32, &mut btf);
    btf
}

fn btf_members_within(size: usize) -> Assembler {
    let mut btf = Assembler::new(false);
    let int = btf.int("int", 4);
    let mut inner = int;
    for number in 0..=size {
        let name = match number == size {
            true => "s".to_owned(),
            false => format!("s{number}"),
        };
        let members = [("m0", int, 0), ("m1", inner, 32)];
        inner = btf.structure(&name, 8 + 4 * number as u32, &members);
    }
    btf
}

fn btf_typedefs(size: usize) -> Assembler {
    let mut btf = Assembler::new(false);
    let int = btf_of(2, &mut btf);
    let mut of = int;
    for number in 0..size {
        of = btf.of(kind::TYPEDEF, &format!("t{number}"), of);
        btf.structure(&format!("s{number}"), 4, &[("m", of, 0)]);
    }
    btf
}
