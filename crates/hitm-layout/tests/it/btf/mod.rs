//! BTF made here: every kind, both byte orders, split, old and new bit-fields, and what no encoder
//! makes.

mod hostile;
mod kernel;

use expect_test::{Expect, expect};
use hitm_layout::structs::ShowOptions;
use hitm_layout::{BtfFile, Bytes};
use hitm_report::layouts::layout_text;
use hitm_test::btf::{Assembler, Info, kind};

fn parse(assembler: &Assembler) -> BtfFile {
    BtfFile::parse(Bytes::from(assembler.finish()), None, "made").unwrap()
}

fn text(file: &mut BtfFile, name: &str) -> String {
    let options = ShowOptions {
        line_size: 64,
        expand: false,
    };
    match file.struct_layout(name) {
        Ok(layout) => layout_text(file.types(), &layout, name, &options).to_string(),
        Err(error) => error.to_string(),
    }
}

fn check(file: &mut BtfFile, name: &str, expected: Expect) {
    expected.assert_eq(&text(file, name));
}

/// A structure with members of every kind that can be one.
fn every_kind(big_endian: bool) -> Assembler {
    let mut btf = Assembler::new(big_endian);
    let int = btf.int("int", 4);
    let long = btf.int("long int", 8);
    let char = btf.int("char", 1);
    let double = btf.record("double", Info::of(kind::FLOAT), 8, &[]);
    let color = [btf.string("RED"), 0, btf.string("BLUE"), 7];
    let color = btf.record("color", Info::new(kind::ENUM, false, 2), 4, &color);
    let big = [btf.string("BIG"), u32::MAX, u32::MAX];
    let big = btf.record("big", Info::new(kind::ENUM64, true, 1), 8, &big);
    let unnamed = [btf.string("NONE"), u32::MAX, btf.string("SOME"), 1];
    let unnamed = btf.record("", Info::new(kind::ENUM, true, 2), 4, &unnamed);
    let fwd = btf.of(kind::FWD, "elsewhere", 0);
    let fwd_pointer = btf.of(kind::PTR, "", fwd);
    let fwd_union = btf.record("overlaid", Info::new(kind::FWD, true, 0), 0, &[]);
    let fwd_union = btf.of(kind::PTR, "", fwd_union);
    let const_char = btf.of(kind::CONST, "", char);
    let tagged = btf.of(kind::TYPE_TAG, "user", const_char);
    let string = btf.of(kind::PTR, "", tagged);
    let restricted = btf.of(kind::RESTRICT, "", string);
    let proto = btf.record(
        "",
        Info::new(kind::FUNC_PROTO, false, 2),
        int,
        &[0, string, 0, 0],
    );
    let callback = btf.of(kind::PTR, "", proto);
    let volatile = btf.of(kind::VOLATILE, "", int);
    let atomic = btf.structure("", 4, &[("counter", volatile, 0)]);
    let atomic = btf.of(kind::TYPEDEF, "atomic_t", atomic);
    let rows = btf.array(long, 2);
    let table = btf.array(rows, 3);
    let table_pointer = btf.of(kind::PTR, "", rows);
    let pair = btf.aggregate(
        "",
        Info::of(kind::UNION),
        8,
        &[("whole", long, 0), ("half", int, 0)],
    );
    let tail = btf.array(char, 0);
    let all = btf.structure(
        "all",
        176,
        &[
            ("i", int, 0),
            ("c", char, 32),
            ("d", double, 64),
            ("color", color, 128),
            ("big", big, 192),
            ("fwd", fwd_pointer, 256),
            ("overlaid", fwd_union, 320),
            ("name", restricted, 384),
            ("call", callback, 448),
            ("refs", atomic, 512),
            ("state", unnamed, 544),
            ("table", table, 576),
            ("row", table_pointer, 960),
            ("", pair, 1024),
            ("tail", tail, 1088),
        ],
    );
    let types = Declared {
        int,
        long,
        proto,
        all,
    };
    declare(&mut btf, types);
    btf
}

/// Types that declarations use.
struct Declared {
    int: u32,
    long: u32,
    proto: u32,
    all: u32,
}

/// Adds functions, variables and tags.
fn declare(btf: &mut Assembler, types: Declared) {
    btf.record("note", Info::of(kind::DECL_TAG), types.all, &[u32::MAX]);
    let function = btf.record("f", Info::new(kind::FUNC, false, 1), types.proto, &[]);
    btf.record("kfunc", Info::of(kind::DECL_TAG), function, &[u32::MAX]);
    let hidden = btf.record("hidden", Info::of(kind::VAR), types.int, &[0]);
    let shared = btf.record("shared", Info::of(kind::VAR), types.all, &[1]);
    btf.record("nowhere", Info::of(kind::VAR), types.long, &[1]);
    let entries = [hidden, 0, 4, shared, 64, 176];
    btf.record(
        ".data..percpu",
        Info::new(kind::DATASEC, false, 2),
        240,
        &entries,
    );
}

#[test]
fn every_kind_in_both_byte_orders() {
    let mut little = parse(&every_kind(false));
    check(
        &mut little,
        "all",
        expect![[r#"
        struct all {
        	int                        i;                    /*     0     4 */
        	char                       c;                    /*     4     1 */

        	/* XXX 3 bytes hole, try to pack */

        	double                     d;                    /*     8     8 */
        	enum color                 color;                /*    16     4 */

        	/* XXX 4 bytes hole, try to pack */

        	enum big                   big;                  /*    24     8 */
        	struct elsewhere *         fwd;                  /*    32     8 */
        	union overlaid *           overlaid;             /*    40     8 */
        	const char * restrict      name;                 /*    48     8 */
        	int                        (*call)(const char *, ...); /*    56     8 */
        	/* --- cacheline 1 boundary (64 bytes) --- */
        	atomic_t                   refs;                 /*    64     4 */
        	enum {
        		NONE = -1,
        		SOME = 1,
        	} state;                                         /*    68     4 */
        	long int                   table[3][2];          /*    72    48 */
        	long int                   (*row)[2];            /*   120     8 */
        	/* --- cacheline 2 boundary (128 bytes) --- */
        	union {
        		long int           whole;                /*   128     8 */
        		int                half;                 /*   128     4 */
        	};                                               /*   128     8 */
        	char                       tail[];               /*   136     0 */

        	/* size: 176, cachelines: 3, members: 15 */
        	/* sum members: 129, holes: 2, sum holes: 7 */
        	/* padding: 40 */
        	/* last cacheline: 48 bytes */
        };
    "#]],
    );
    let mut big = parse(&every_kind(true));
    assert_eq!(text(&mut big, "all"), text(&mut little, "all"));
    assert_eq!(big.variables(), little.variables());
    let variables: Vec<String> = little
        .variables()
        .iter()
        .map(|one| {
            let section = one.section.as_deref().unwrap_or("-");
            let place = format!("{section}+{} {} bytes", one.offset, one.size);
            format!("{} {} {place} {}\n", one.type_name, one.name, one.is_global)
        })
        .collect();
    expect![[r#"
        int hidden .data..percpu+0 4 bytes false
        struct all shared .data..percpu+64 176 bytes true
        long int nowhere -+0 0 bytes true
    "#]]
    .assert_eq(&variables.concat());
    let shared = little.variables().remove(1);
    let type_id = little.variable_type(&shared);
    assert_eq!(little.types().layout(type_id).unwrap().size, 176);
    let names: Vec<String> = little
        .definitions()
        .into_iter()
        .map(|one| one.name)
        .collect();
    assert_eq!(names, ["atomic_t", "all"]);
}

#[test]
fn bit_fields_as_new_and_as_old_encoders_write_them() {
    let mut btf = Assembler::new(false);
    let int = btf.int("unsigned int", 4);
    // Five bits, two of them further than the member says.
    let five = btf.record("unsigned int", Info::of(kind::INT), 4, &[2 << 16 | 5]);
    let members = [
        ("a", int, 3 << 24),
        ("b", int, 29 << 24 | 3),
        ("c", int, 1 << 24 | 32),
    ];
    btf.aggregate("new", Info::new(kind::STRUCT, true, 0), 8, &members);
    btf.structure("old", 8, &[("a", five, 0), ("b", int, 32)]);
    let mut file = parse(&btf);
    check(
        &mut file,
        "new",
        expect![[r#"
        struct new {
        	unsigned int               a:3;                  /*     0: 0  4 */
        	unsigned int               b:29;                 /*     0: 3  4 */
        	unsigned int               c:1;                  /*     4: 0  4 */

        	/* size: 8, cachelines: 1, members: 3 */
        	/* bit_padding: 31 bits */
        	/* last cacheline: 8 bytes */
        };
    "#]],
    );
    check(
        &mut file,
        "old",
        expect![[r#"
        struct old {

        	/* XXX 2 bits hole, try to pack */

        	unsigned int               a:5;                  /*     0: 2  4 */

        	/* XXX 25 bits hole, try to pack */

        	unsigned int               b;                    /*     4     4 */

        	/* size: 8, cachelines: 1, members: 2 */
        	/* sum members: 4 */
        	/* sum bitfield members: 5 bits, bit holes: 2, sum bit holes: 27 bits */
        	/* last cacheline: 8 bytes */
        };
    "#]],
    );
}

#[test]
fn a_module_goes_on_from_its_base() {
    for big_endian in [false, true] {
        let mut base = Assembler::new(big_endian);
        let long = base.int("long int", 8);
        let list = base.structure("list_head", 16, &[("next", long, 0), ("prev", long, 64)]);
        base.structure("twice", 8, &[("of_base", long, 0)]);
        let mut module = Assembler::split(&base);
        module.structure("device", 24, &[("list", list, 0), ("id", long, 128)]);
        module.structure("twice", 8, &[("of_module", long, 0)]);
        let base_file = parse(&base);
        let bytes = || Bytes::from(module.finish());
        let mut file = BtfFile::parse(bytes(), Some(&base_file), "module").unwrap();
        let device = file.struct_layout("device").unwrap();
        let list = &device.members[0];
        assert_eq!((&*list.type_name, list.bit_size), ("struct list_head", 128));
        assert_eq!(&*device.members[1].type_name, "long int");
        // A module's own come first, and only they are listed.
        let twice = file.struct_layout("twice").unwrap();
        assert_eq!(twice.members[0].name.as_deref(), Some("of_module"));
        assert_eq!(file.struct_layout("list_head").unwrap().size, 16);
        let names: Vec<String> = file.definitions().into_iter().map(|one| one.name).collect();
        assert_eq!(names, ["device", "twice"]);
        let alone = BtfFile::parse(bytes(), None, "module").unwrap_err();
        assert_eq!(
            alone.to_string(),
            "module: damaged BTF strings: they do not begin with an empty one: split BTF, to be \
             read with its base"
        );
    }
}

#[test]
fn a_pointer_is_as_wide_as_long() {
    let mut btf = Assembler::new(false);
    btf.int("long unsigned int", 4);
    let pointer = btf.of(kind::PTR, "", 0);
    btf.structure("s", 8, &[("p", pointer, 0), ("q", pointer, 32)]);
    let mut file = parse(&btf);
    assert_eq!(file.pointer_size(), 4);
    let layout = file.struct_layout("s").unwrap();
    assert_eq!(layout.members[1].bit_size, 32);
}

#[test]
fn names_say_which_kind_is_meant() {
    let mut btf = Assembler::new(false);
    let int = btf.int("int", 4);
    btf.structure("both", 4, &[("a", int, 0)]);
    btf.aggregate("both", Info::of(kind::UNION), 8, &[("b", int, 0)]);
    let array = btf.array(int, 4);
    btf.of(kind::TYPEDEF, "numbers", array);
    let mut file = parse(&btf);
    let mut size = |name: &str| file.struct_layout(name).map(|layout| layout.size);
    assert_eq!((size("both"), size("union both")), (Ok(4), Ok(8)));
    let refused = |error: hitm_layout::Error| error.to_string();
    assert_eq!(
        size("enum both").map_err(refused),
        Err("made: no definition of type enum both".to_owned())
    );
    assert_eq!(
        size("numbers").map_err(refused),
        Err("made: type numbers (id 5, at byte 0x70): not a structure, class or union".to_owned())
    );
}

/// An ELF file with these sections.
fn elf(class: u8, sections: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let wide = class == 2;
    let header_size: usize = if wide { 64 } else { 52 };
    let mut contents = Vec::new();
    let mut names = vec![0_u8];
    let mut entries = Vec::new();
    let mut all: Vec<(&str, Vec<u8>)> = sections.to_vec();
    all.push((".shstrtab", Vec::new()));
    let all_names: Vec<u8> = all
        .iter()
        .flat_map(|one| one.0.bytes().chain([0]))
        .collect();
    all.last_mut().unwrap().1 = [vec![0], all_names].concat();
    for (name, bytes) in &all {
        let kind = if *name == ".shstrtab" { 3 } else { 1 };
        entries.push((names.len(), kind, header_size + contents.len(), bytes.len()));
        names.extend(name.bytes().chain([0]));
        contents.extend(bytes);
    }
    let word = |value: usize| -> Vec<u8> {
        match wide {
            true => (value as u64).to_le_bytes().to_vec(),
            false => (value as u32).to_le_bytes().to_vec(),
        }
    };
    let half = |value: usize| (value as u16).to_le_bytes();
    let four = |value: usize| (value as u32).to_le_bytes();
    let entry_size = if wide { 64 } else { 40 };
    let mut file = vec![0x7f, b'E', b'L', b'F', class, 1, 1];
    file.resize(16, 0);
    file.extend([half(1), half(62)].concat());
    file.extend(four(1));
    file.extend([word(0), word(0), word(header_size + contents.len())].concat());
    file.extend(four(0));
    let count = entries.len() + 1;
    for value in [header_size, 0, 0, entry_size, count, count - 1] {
        file.extend(half(value));
    }
    file.extend(&contents);
    file.resize(file.len() + entry_size, 0);
    for (name, kind, offset, size) in entries {
        file.extend([four(name), four(kind)].concat());
        file.extend([word(0), word(0), word(offset), word(size)].concat());
        file.extend([four(0), four(0)].concat());
        file.extend([word(1), word(0)].concat());
    }
    file
}

#[test]
fn in_elf_files_of_both_classes() {
    let mut base = Assembler::new(false);
    let long = base.int("long int", 8);
    base.structure("s", 8, &[("a", long, 0)]);
    for class in [1, 2] {
        let bytes = elf(class, &[(".text", vec![0; 8]), (".BTF", base.finish())]);
        assert!(BtfFile::is_in_elf(&bytes) && !BtfFile::is_raw(&bytes));
        let mut file = BtfFile::parse(Bytes::from(bytes), None, "elf").unwrap();
        assert_eq!(file.struct_layout("s").unwrap().size, 8);
        // A module built outside of the kernel's tree brings what it needs of the base.
        let mut module = Assembler::split(&base);
        module.structure("m", 8, &[("b", long, 0)]);
        let both = [(".BTF", module.finish()), (".BTF.base", base.finish())];
        let mut file = BtfFile::parse(Bytes::from(elf(class, &both)), None, "ko").unwrap();
        assert_eq!(file.struct_layout("m").unwrap().members[0].bit_size, 64);
        let none = elf(class, &[(".text", vec![0; 8])]);
        let error = BtfFile::parse(Bytes::from(none), None, "elf").unwrap_err();
        assert_eq!(
            error.to_string(),
            "elf: expected BTF, or an ELF file with a section .BTF, found an ELF file without it"
        );
    }
}
