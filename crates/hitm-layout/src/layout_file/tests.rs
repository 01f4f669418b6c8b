use expect_test::{Expect, expect};
use proptest::prelude::*;

use super::*;

/// The example of the format's description, which must stay a whole and valid file.
fn documented_example() -> &'static str {
    let document = include_str!("../../../../docs/formats/layout-file.md");
    let start = document
        .find("```toml\n")
        .expect("the document has an example")
        + 8;
    let length = document[start..].find("```").expect("the example ends");
    &document[start..start + length]
}

fn parsed(name: &str) -> LayoutFile {
    LayoutFile::parse(shipped(name).unwrap(), name).unwrap()
}

/// A file with one structure `s` of 64 bytes with these member lines.
fn with_members(members: &str) -> String {
    format!(
        "schema = 1\nname = \"n\"\ndescription = \"d\"\nsource = \"s\"\n\
         [[struct]]\nname = \"s\"\nsize_bytes = 64\nmembers = [\n{members}\n]\n"
    )
}

fn check_error(text: &str, expected: Expect) {
    let error = LayoutFile::parse(text, "x.toml").unwrap_err();
    expected.assert_eq(&error.to_string());
}

fn check_members(members: &str, expected: Expect) {
    check_error(&with_members(members), expected);
}

#[test]
fn every_shipped_file_fits_over_the_base() {
    let base = LayoutTable::new(&parsed("linux-6.12")).unwrap();
    let mut lines = String::new();
    for name in shipped_names() {
        let file = parsed(name);
        assert_eq!(file.name, name);
        let table = base.clone().overlay(&file).unwrap();
        let of = |name: &str| table.get(name).unwrap().cachelines(64);
        lines += &format!(
            "{name}: root_domain {} lines, cpupri {} lines\n",
            of("root_domain"),
            of("cpupri")
        );
    }
    expect![[r#"
        count-per-node+mask-per-node: root_domain 29 lines, cpupri 26 lines
        cpupri-mask-per-node: root_domain 29 lines, cpupri 26 lines
        cpupri-vec-line-each: root_domain 207 lines, cpupri 203 lines
        linux-6.12: root_domain 29 lines, cpupri 26 lines
        restructured+count-per-node: root_domain 31 lines, cpupri 26 lines
        restructured+count-per-node+mask-per-node: root_domain 31 lines, cpupri 26 lines
        restructured+mask-per-node: root_domain 31 lines, cpupri 26 lines
        restructured+vec-line-each: root_domain 208 lines, cpupri 203 lines
        restructured+vec-line-each+count-per-node: root_domain 208 lines, cpupri 203 lines
        restructured+vec-line-each+count-per-node+mask-per-node: root_domain 208 lines, cpupri 203 lines
        restructured+vec-line-each+mask-per-node: root_domain 208 lines, cpupri 203 lines
        root-domain-restructured: root_domain 31 lines, cpupri 26 lines
        rto-count-per-node: root_domain 29 lines, cpupri 26 lines
        vec-line-each+count-per-node: root_domain 207 lines, cpupri 203 lines
        vec-line-each+count-per-node+mask-per-node: root_domain 207 lines, cpupri 203 lines
        vec-line-each+mask-per-node: root_domain 207 lines, cpupri 203 lines
    "#]].assert_eq(&lines);
}

#[test]
fn every_file_survives_being_written_and_read() {
    for (name, text) in shipped_names()
        .map(|name| (name, shipped(name).unwrap()))
        .chain([("the example", documented_example())])
    {
        let file = LayoutFile::parse(text, name).unwrap();
        let again = LayoutFile::parse(&file.to_toml(), name).unwrap();
        assert_eq!(file, again, "{name}");
    }
}

#[test]
fn the_restructured_root_domain_is_what_its_description_says() {
    let file = parsed("root-domain-restructured");
    let root_domain = file.get("root_domain").unwrap();
    let members = root_domain.by_name();
    let line = |name: &str| members[name].offset_bytes / 64;
    let last = root_domain.cachelines(64) - 1;
    assert_eq!(last, 30);
    assert_eq!(line("rto_count"), 0);
    assert_eq!(line("rto_push_work"), 1);
    for name in ["rto_loop_start", "rto_loop_next", "rto_lock"] {
        assert_eq!(line(name), 2);
    }
    assert_eq!(members["cpupri"].offset_bytes, 3 * 64);
    assert_eq!([line("rto_mask"), line("pd")], [last - 1; 2]);
    assert_eq!([line("overloaded"), line("overutilized")], [last; 2]);
}

#[test]
fn variants_have_the_members_of_the_base() {
    let base = parsed("linux-6.12");
    for name in shipped_names() {
        for variant in &parsed(name).structs {
            let names = |of: &FileStruct| {
                let mut names: Vec<String> = of.members.iter().map(|m| m.name.clone()).collect();
                names.sort_unstable();
                names
            };
            assert_eq!(
                names(variant),
                names(base.get(&variant.name).unwrap()),
                "{name}"
            );
        }
    }
}

#[test]
fn places_go_through_nested_structures_and_arrays() {
    let base = LayoutTable::new(&parsed("linux-6.12")).unwrap();
    let place = |path| {
        let place = base.place("root_domain", path)?;
        Some((place.offset_bytes, place.size_bytes))
    };
    assert_eq!(place("cpupri.pri_to_cpu[0].count"), Some((184, 4)));
    assert_eq!(
        place("cpupri.pri_to_cpu[99].mask"),
        Some((184 + 99 * 16 + 8, 8))
    );
    assert_eq!(place("cpupri.pri_to_cpu"), Some((184, 1616)));
    assert_eq!(place("cpupri.pri_to_cpu[3]"), Some((184 + 48, 16)));
    for absent in [
        "cpupri.pri_to_cpu[101].count",
        "cpupri.pri_to_cpu.count",
        "pd.x",
        "",
        "pd[0]",
    ] {
        assert_eq!(place(absent), None, "{absent}");
    }
    // And back: every byte of the structure is in the member that its path leads to, or in a hole.
    let path = |offset| base.path_at("root_domain", offset);
    assert_eq!(path(187).as_deref(), Some("cpupri.pri_to_cpu[0].count"));
    assert_eq!(path(188).as_deref(), Some("cpupri.pri_to_cpu[0]"));
    assert_eq!(path(44), None);
    for offset in 0..1816 {
        if let Some(path) = path(offset) {
            let place = base.place("root_domain", &path).unwrap();
            let end = place.offset_bytes + place.size_bytes;
            assert!(
                (place.offset_bytes..end).contains(&offset),
                "{offset}: {path}"
            );
        }
    }
    let split = base.overlay(&parsed("rto-count-per-node")).unwrap();
    let place = split.place("root_domain", "rto_count").unwrap();
    assert_eq!(place.member.per, Some(Per::Node));
}

#[test]
fn mistakes_are_named_with_line_and_column() {
    check_error(
        "schema = 2",
        expect!["x.toml:1:10: schema: found 2, expected 1"],
    );
    check_error(
        "schema = 1\nname = ",
        expect![
            "x.toml:2:8: the file: found no TOML (string values must be quoted, expected literal string), expected a layout file as docs/formats/layout-file.md describes it"
        ],
    );
    check_error(
        &with_members("{ name = \"a\", offset_bytes = 0, size_bytes = 4, offset = 3 }"),
        expect![
            "x.toml:9:49: s.a.offset: found an unknown key, expected one of name, offset_bytes, size_bytes, bit_offset, bit_size, type, count, stride_bytes, per, storage, bits_of, element_bytes, element_align_bytes"
        ],
    );
    check_members(
        "{ name = \"a\", size_bytes = 4 }",
        expect![
            "x.toml:9:1: s.a.offset_bytes: found no such key, expected a whole number from 0 to 2147483648"
        ],
    );
    check_members(
        "{ name = \"ü\", offset_bytes = -1, size_bytes = 4 }",
        expect![
            "x.toml:9:30: s.ü.offset_bytes: found -1, expected a whole number from 0 to 2147483648"
        ],
    );
    check_members(
        "{ name = \"a\", offset_bytes = 62, size_bytes = 4 }",
        expect![
            "x.toml:9:47: s.a.size_bytes: found 4, which ends at byte 66, expected an end within the structure's 64 bytes"
        ],
    );
    check_members(
        "{ name = \"a\", offset_bytes = 0, size_bytes = 8 },\n\
         { name = \"b\", offset_bytes = 4, size_bytes = 4 }",
        expect![[
            r#"x.toml:10:30: s.b.offset_bytes: found bytes 4 to 8, inside "a", expected members that do not overlap: "a" has bytes 0 to 8"#
        ]],
    );
    check_members(
        "{ name = \"a\", offset_bytes = 0, size_bytes = 4 },\n\
         { name = \"a\", offset_bytes = 4, size_bytes = 4 }",
        expect![[
            r#"x.toml:10:10: s.members.name: found a second member "a", expected each name once in a structure"#
        ]],
    );
    check_members(
        "{ name = \"a\", offset_bytes = 0, size_bytes = 4, storage = \"heap\" }",
        expect![[r#"x.toml:9:59: s.a.storage: found "heap", expected "inline" or "pointer""#]],
    );
}

#[test]
fn members_that_contradict_themselves_are_named() {
    check_members(
        "{ name = \"a\", offset_bytes = 0, size_bytes = 8, storage = \"pointer\", element_align_bytes = 48 }",
        expect!["x.toml:9:92: s.a.element_align_bytes: found 48, expected a power of two"],
    );
    check_members(
        "{ name = \"a\", offset_bytes = 0, size_bytes = 12, count = 4, stride_bytes = 4 }",
        expect![
            "x.toml:9:76: s.a.stride_bytes: found 4 x 4 bytes, expected count x stride_bytes = size_bytes = 12"
        ],
    );
    check_members(
        "{ name = \"a\", offset_bytes = 0, size_bytes = 4, bit_offset = 30, bit_size = 3 }",
        expect![
            "x.toml:9:77: s.a.bit_size: found bits 30 to 33, expected bits within the 4 bytes of the storage unit"
        ],
    );
    check_members(
        "{ name = \"a\", offset_bytes = 0, size_bytes = 4, per = \"node\" }",
        expect![
            "x.toml:9:1: s.a.stride_bytes: found no such key, expected a whole number from 1 to 2147483648"
        ],
    );
    check_members(
        "{ name = \"a\", offset_bytes = 0, size_bytes = 64, type = \"s\" }",
        expect!["x.toml:6:8: s: found s > s, expected a structure that does not contain itself"],
    );
}

#[test]
fn bit_fields_share_a_unit_but_not_a_bit() {
    let unit = |b_offset| {
        with_members(&format!(
            "{{ name = \"a\", offset_bytes = 0, size_bytes = 4, bit_offset = 0, bit_size = 3 }},\n\
             {{ name = \"b\", offset_bytes = 0, size_bytes = 4, bit_offset = {b_offset}, bit_size = 5 }}"
        ))
    };
    assert!(LayoutFile::parse(&unit(3), "x.toml").is_ok());
    check_error(
        &unit(2),
        expect![[
            r#"x.toml:10:30: s.b.offset_bytes: found bits 2 to 7, inside "a", expected members that do not overlap: "a" has bits 0 to 3"#
        ]],
    );
}

#[test]
fn nested_structures_must_fit_their_members() {
    let nested = |size: u64, align: u64, member: &str| {
        format!(
            "{}[[struct]]\nname = \"t\"\nsize_bytes = {size}\nalign_bytes = {align}\n\
             members = [{{ name = \"x\", offset_bytes = 0, size_bytes = 4 }}]\n",
            with_members(&format!("{{ name = \"a\", {member}, type = \"t\" }}"))
        )
    };
    check_error(
        &nested(8, 8, "offset_bytes = 0, size_bytes = 4"),
        expect!["x.toml:9:46: s.a.size_bytes: found 4, expected the 8 bytes of t"],
    );
    check_error(
        &nested(8, 8, "offset_bytes = 4, size_bytes = 8"),
        expect![
            "x.toml:9:30: s.a.offset_bytes: found 4, and t is aligned to 8, expected a multiple of 8"
        ],
    );
    check_error(
        &nested(8, 16, "offset_bytes = 0, size_bytes = 8"),
        expect![
            "x.toml:9:56: s.a.type: found a structure aligned to 8 around one aligned to 16, expected align_bytes of s to be at least 16"
        ],
    );
    check_error(
        &nested(
            8,
            8,
            "offset_bytes = 0, size_bytes = 16, count = 4, stride_bytes = 4",
        ),
        expect!["x.toml:9:76: s.a.stride_bytes: found 4, expected at least the 8 bytes of t"],
    );
    check_error(
        &nested(
            8,
            8,
            "offset_bytes = 0, size_bytes = 8, storage = \"pointer\", element_bytes = 4",
        ),
        expect!["x.toml:9:86: s.a.element_bytes: found 4, expected at least the 8 bytes of t"],
    );
}

#[test]
fn an_overlay_that_does_not_fit_is_refused() {
    let base = LayoutTable::new(&parsed("linux-6.12")).unwrap();
    let mut variant = parsed("cpupri-vec-line-each");
    variant.structs.retain(|s| s.name == "cpupri_vec");
    let error = base.clone().overlay(&variant).unwrap_err();
    expect!["linux-6.12 + cpupri-vec-line-each: cpupri.pri_to_cpu.stride_bytes: found 16, expected at least the 128 bytes of cpupri_vec"].assert_eq(&error.to_string());
    let mut unknown = parsed("linux-6.12");
    unknown.structs.retain(|s| s.name == "root_domain");
    let error = LayoutTable::new(&unknown).unwrap_err();
    expect![[r#"linux-6.12: root_domain.cpupri: found type "cpupri", which no file has, expected a structure of this file or of the table below it"#]].assert_eq(&error.to_string());
}

proptest! {
    #[test]
    fn any_file_is_read_back_as_it_was_written(
        gaps in proptest::collection::vec((0u64..9, 0u64..40, 0usize..6), 1..30),
        words in "[a-z\"'\\\\ {}#]{1,20}",
    ) {
        let mut members = Vec::new();
        let mut at = 0;
        for (index, (gap, size, kind)) in gaps.into_iter().enumerate() {
            at += gap;
            let mut member = FileMember::plain(format!("{words}{index}"), at, size);
            match kind {
                1 if size > 0 => member.bits = Some(BitRange { offset: 0, size: size * 8 }),
                2 if size > 0 => member.array = Some(Array { count: size, stride_bytes: 1 }),
                3 if size > 0 => {
                    member.per = Some(Per::Cpu);
                    member.storage = Storage::Inline { stride_bytes: Some(size) };
                }
                4 => {
                    member.per = Some(Per::Node);
                    member.cpu_bitmap = true;
                    member.storage = Storage::Pointer { element_bytes: Some(size + 1), element_align_bytes: None };
                }
                _ => {}
            }
            members.push(member);
            at += size;
        }
        let file = LayoutFile {
            name: words.clone(),
            description: words.clone(),
            source: words,
            structs: vec![FileStruct { name: "s".into(), size_bytes: at.max(1), align_bytes: None, members }],
        };
        let mut sorted = file.clone();
        sorted.structs[0].members.sort_by_key(FileMember::bit_span);
        let read = LayoutFile::parse(&file.to_toml(), "written");
        prop_assert_eq!(read.unwrap(), sorted);
    }
}
