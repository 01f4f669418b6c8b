//! BTF that no encoder makes: an error that names the type and the place, in bounded time and space.

use std::time::{Duration, Instant};

use expect_test::{Expect, expect};
use hitm_layout::structs::ShowOptions;
use hitm_layout::{BtfFile, Bytes, c_source};
use hitm_report::layouts::layout_text;
use hitm_test::btf::{Assembler, Info, kind};
use proptest::prelude::*;

use super::{every_kind, parse};

fn check(btf: &Assembler, name: &str, expected: Expect) {
    let error = parse(btf).struct_layout(name).unwrap_err();
    expected.assert_eq(&error.to_string());
}

#[test]
fn types_that_contain_themselves() {
    let mut btf = Assembler::new(false);
    let own = btf.next_id();
    btf.structure("own", 8, &[("again", own, 0)]);
    check(
        &btf,
        "own",
        expect!["made: type struct own (id 1, at byte 0x18): member again: contains itself"],
    );

    let mut btf = Assembler::new(false);
    let first = btf.next_id();
    btf.structure("first", 8, &[("second", first + 1, 0)]);
    btf.structure("second", 8, &[("first", first, 0)]);
    check(
        &btf,
        "first",
        expect!["made: type struct first (id 1, at byte 0x18): member second: contains itself"],
    );

    let mut btf = Assembler::new(false);
    let first = btf.next_id();
    btf.of(kind::TYPEDEF, "a", first + 1);
    btf.of(kind::TYPEDEF, "b", first);
    btf.structure("s", 8, &[("loop", first, 0)]);
    check(
        &btf,
        "a",
        expect!["made: type a (id 1, at byte 0x18): contains itself"],
    );
    check(
        &btf,
        "s",
        expect!["made: type struct s (id 3, at byte 0x30): member loop: contains itself"],
    );

    let mut btf = Assembler::new(false);
    let array = btf.next_id();
    btf.array(array, 2);
    btf.structure("s", 8, &[("endless", array, 0)]);
    check(
        &btf,
        "s",
        expect!["made: type struct s (id 2, at byte 0x30): member endless: contains itself"],
    );

    // Pointers may.
    let mut btf = Assembler::new(false);
    let list = btf.next_id();
    btf.structure("list", 8, &[("next", list + 1, 0)]);
    btf.of(kind::PTR, "", list);
    assert_eq!(parse(&btf).struct_layout("list").unwrap().size, 8);
    // And a pointer to itself, which has no name that ends.
    let mut btf = Assembler::new(false);
    let pointer = btf.next_id();
    btf.of(kind::PTR, "", pointer);
    btf.structure("s", 8, &[("p", pointer, 0)]);
    let layout = parse(&btf).struct_layout("s").unwrap();
    assert!(layout.members[0].type_name.starts_with("(…) ***"));
}

#[test]
fn members_that_cannot_be() {
    let mut btf = Assembler::new(false);
    let int = btf.int("int", 4);
    let fwd = btf.of(kind::FWD, "elsewhere", 0);
    let array = btf.array(int, u32::MAX);
    let far = btf.array(array, u32::MAX);
    let farther = btf.array(far, u32::MAX);
    let inner = btf.structure("overlap", 8, &[("a", int, 0), ("b", int, 24)]);
    btf.structure("outside", 8, &[("a", int, 0), ("b", int, 48)]);
    btf.structure("odd", 8, &[("a", int, 3)]);
    btf.structure("of_fwd", 8, &[("a", fwd, 0)]);
    btf.structure("of_void", 8, &[("a", 0, 0)]);
    btf.structure("of_none", 8, &[("a", 4711, 0)]);
    btf.structure("of_huge", 8, &[("a", farther, 0)]);
    btf.structure("of_bad", 8, &[("inner", inner, 0)]);
    let wide = [("a", int, 40 << 24)];
    btf.aggregate("wide", Info::new(kind::STRUCT, true, 0), 8, &wide);
    let faults = [
        (
            "overlap",
            "(id 6, at byte 0x7c): member b: overlaps the member before it",
        ),
        (
            "outside",
            "(id 7, at byte 0xa0): member b: outside of the structure",
        ),
        (
            "odd",
            "(id 8, at byte 0xc4): member a: outside of the structure",
        ),
        ("of_fwd", "(id 9, at byte 0xdc): member a: only declared"),
        (
            "of_void",
            "(id 10, at byte 0xf4): member a: no object has this type",
        ),
        (
            "of_none",
            "(id 11, at byte 0x10c): member a: no type has the id that it refers to",
        ),
        (
            "of_huge",
            "(id 12, at byte 0x124): member a: size does not fit in 63 bits",
        ),
        (
            "of_bad",
            "(id 13, at byte 0x13c): member inner: overlaps the member before it",
        ),
        (
            "wide",
            "(id 14, at byte 0x154): member a: damaged debug information",
        ),
    ];
    let mut file = parse(&btf);
    for (name, fault) in faults {
        let error = file.struct_layout(name).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("made: type struct {name} {fault}")
        );
    }
    let error = file.struct_layout("no_such").unwrap_err();
    assert_eq!(error.to_string(), "made: no definition of type no_such");
}

#[test]
fn damaged_headers_and_records() {
    let check = |bytes: Vec<u8>, expected: Expect| {
        let error = BtfFile::parse(Bytes::from(bytes), None, "made").unwrap_err();
        expected.assert_eq(&error.to_string());
    };
    let mut btf = Assembler::new(false);
    btf.int("int", 4);
    let sound = btf.finish();
    check(
        b"#!/bin/sh".to_vec(),
        expect![
            "made: expected BTF or an ELF file, found 9 bytes that begin with [23, 21, 2f, 62]"
        ],
    );
    check(
        sound[..20].to_vec(),
        expect!["made: damaged BTF header: 20 bytes, version 1, expected version 1"],
    );
    let with = |at: usize, value: u8| {
        let mut bytes = sound.clone();
        bytes[at] = value;
        bytes
    };
    check(
        with(2, 9),
        expect!["made: damaged BTF header: 45 bytes, version 9, expected version 1"],
    );
    check(
        with(4, 200),
        expect![
            "made: damaged BTF types: header of 200 bytes, then offset 0 and size 16, in 45 bytes"
        ],
    );
    check(
        with(12, 17),
        expect!["made: damaged BTF types: type 2 at byte 0x28 goes on behind the end of the types"],
    );
    check(
        with(23, 255),
        expect![
            "made: damaged BTF strings: header of 24 bytes, then offset 16 and size 4278190085, in 45 bytes"
        ],
    );
    check(
        with(31, 30),
        expect!["made: damaged BTF types: type 1 at byte 0x18 has kind 30, expected 1 to 19"],
    );
    // The integer as a structure of 255 members.
    let mut bytes = with(31, 4);
    bytes[28] = 255;
    check(
        bytes,
        expect!["made: damaged BTF types: type 1 at byte 0x18 goes on behind the end of the types"],
    );
}

/// Asks a file everything. Answers how much text there was.
fn ask_everything(bytes: Vec<u8>) -> usize {
    let begun = Instant::now();
    let Ok(mut file) = BtfFile::parse(Bytes::from(bytes), None, "hostile") else {
        return 0;
    };
    let options = ShowOptions {
        line_size: 64,
        expand: true,
    };
    let mut length = 0;
    // The last ones are the largest.
    for definition in file.definitions().into_iter().rev().take(8) {
        if let Ok(layout) = file.definition_layout(&definition) {
            length += layout_text(file.types(), &layout, &definition.name, &options).len();
            length += c_source(file.types(), &layout, &definition.name).map_or(0, |c| c.len());
        }
        let _ = file.struct_layout(&definition.name);
    }
    for variable in file.variables() {
        file.variable_type(&variable);
    }
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(20), "{took:?}");
    length
}

#[test]
fn types_that_double_at_each_step() {
    let mut btf = Assembler::new(false);
    let mut inner = btf.int("int", 4);
    // Structures in structures: 2^26 members, if all were shown.
    for depth in 0..60 {
        let size = 1 << (depth + 3).min(28);
        let name = format!("s{depth}");
        inner = match depth < 26 {
            true => btf.structure(&name, size, &[("a", inner, 0), ("b", inner, size * 4)]),
            false => btf.structure(&name, size, &[("a", inner, 0)]),
        };
    }
    // Functions that take functions: names that would double, too.
    let mut function = 0;
    for _ in 0..60 {
        let extra = [0, function, 0, function];
        let proto = btf.record("", Info::new(kind::FUNC_PROTO, false, 2), 0, &extra);
        function = btf.of(kind::PTR, "", proto);
    }
    btf.structure("f", 8, &[("call", function, 0)]);
    let length = ask_everything(btf.finish());
    assert!(length > 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn mutated_files(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20),
        cut in proptest::option::weighted(0.1, any::<prop::sample::Index>()),
    ) {
        let mut bytes = every_kind(false).finish();
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
