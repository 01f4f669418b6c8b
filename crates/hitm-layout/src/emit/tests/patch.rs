//! Sources that a patch rearranges, and those that it must leave alone.

use expect_test::{Expect, expect};

use super::super::*;
use super::visible;
use crate::advise::SubjectMember;

/// A structure `box` of `long` members, `a`, `b` and `c` at first, with the third and the first alone on
/// their lines then.
fn patched(file: &str, text: &str, style: Style) -> Result<String, EmitError> {
    patched_at(file, text, style, &Declaration::default())
}

/// The same where debug information says more of the declaration.
fn patched_at(
    file: &str,
    text: &str,
    style: Style,
    told: &Declaration,
) -> Result<String, EmitError> {
    let member = |name: &str, offset: u64| FileMember::plain(name, offset, 8);
    let now = [("a", 0), ("b", 8), ("c", 16)];
    let subject = Subject {
        name: "box".into(),
        size_bytes: 24,
        align_bytes: 8,
        members: now
            .iter()
            .map(|(name, offset)| SubjectMember {
                file: member(name, *offset),
                align: 8,
            })
            .collect(),
    };
    let layout = FileStruct {
        name: "box".into(),
        size_bytes: 128,
        align_bytes: Some(64),
        members: vec![member("c", 0), member("a", 64), member("b", 72)],
    };
    let emission = Emission::new(&subject, &layout, &[], style)?;
    match file.ends_with(".rs") {
        true => patch_rust(&emission, Source { file, text }),
        false => patch_struct(&emission, Source { file, text }, told),
    }
}

fn check(file: &str, text: &str, style: Style, expected: Expect) {
    let diff = patched(file, text, style).expect("it can be rearranged");
    expected.assert_eq(&visible(&diff));
}

/// Text behind a structure of C++ whose members are public is refused.
fn refused(style: Style, behind: &str) -> String {
    let text = format!("struct box {{\n\tlong a;\n\tlong b;\n\tlong c;\n}};\n{behind}\n");
    match patched("a.c", &text, style) {
        Ok(diff) => format!("not refused: {diff}"),
        Err(error) => error.to_string(),
    }
}

/// The same in a body.
fn refused_body(style: Style, body: &str) -> String {
    let answer = patched("a.c", &format!("struct box {{\n{body}\n}};\n"), style);
    answer.map_or_else(
        |error| error.to_string(),
        |diff| format!("not refused: {diff}"),
    )
}

#[test]
fn declarations_in_one_line_come_apart() {
    check(
        "a.c",
        "struct box { long a, b; /* of b */ long c; };\n",
        Style::C,
        expect![[r#"
            --- a.c
            +++ a.c
            @@ -1,1 +1,5 @@
            -struct box { long a, b; /* of b */ long c; };
            +struct box {
            +	/* of b */ _Alignas(64) long c;
            +	_Alignas(64) long a;
            +	long b;
            +};
        "#]],
    );
    check(
        "a.c",
        "typedef struct {\r\n    long a, *b; // both\r\n\r\n    /* above */\r\n    long c;\r\n} box;\r\n",
        Style::Kernel,
        expect![[r#"
            --- a.c
            +++ a.c
            @@ -1,6 +1,7 @@
             typedef struct {
            -    long a, *b; // both
            -
            -    /* above */
            -    long c;
            +
            +    /* above */
            +    long c ____cacheline_aligned_in_smp;
            +    long a ____cacheline_aligned_in_smp;
            +    long *b; // both
             } box;
        "#]],
    );
}

#[test]
fn members_take_their_condition_along() {
    // `b` and `c` are under a condition, and `a` comes between them.
    check(
        "a.c",
        "struct box {\n\tlong a;\n\n#ifdef B /* both */\n\t/*\n\t * Of b.\n\t */\n\tlong b;\n\tlong c; /* of c */\n#endif /* B */\n\t/* behind */\n};\n",
        Style::Kernel,
        expect![[r#"
            --- a.c
            +++ a.c
            @@ -1,12 +1,14 @@
             struct box {
            -	long a;
            -
            -#ifdef B /* both */
            -	/*
            -	 * Of b.
            -	 */
            -	long b;
            -	long c; /* of c */
            +#ifdef B /* both */
            +	long c ____cacheline_aligned_in_smp; /* of c */
            +#endif /* B */
            +	long a ____cacheline_aligned_in_smp;
            +
            +#ifdef B /* both */
            +	/*
            +	 * Of b.
            +	 */
            +	long b;
             #endif /* B */
             	/* behind */
             };
        "#]],
    );
    // A condition around a function and a type, and one without anything.
    check(
        "a.cpp",
        "struct box {\n#if DEBUG\n  void show();\n#endif\n  long a;\n#ifndef NONE\n#endif\n# if T\n  using T = long;\n  T b; // of b\n# endif\n  long c;\n};\n",
        Style::Cpp,
        expect![[r#"
            --- a.cpp
            +++ a.cpp
            @@ -1,13 +1,12 @@
             struct box {
             #if DEBUG
               void show();
            -#endif
            -  long a;
            -#ifndef NONE
            -#endif
            -# if T
            -  using T = long;
            -  T b; // of b
            -# endif
            -  long c;
            +# if T
            +  using T = long;
            +# endif
            +  alignas(64) long c;
            +  alignas(64) long a;
            +# if T
            +  T b; // of b
            +# endif
             };
        "#]],
    );
    let refused = patched(
        "a.c",
        "struct box {\n\tlong a;\n#ifdef B\n\tlong b;\n#endif\n\tlong c;\n};\nstruct box one = { 1, 2, 3 };\n",
        Style::C,
    );
    assert_eq!(
        refused.unwrap_err().to_string(),
        "a.c:3: found a condition among members that get values by their order, expected values with names \
         (.member = value)"
    );
}

#[test]
fn access_types_and_functions_stay_what_they_are() {
    check(
        "a.cpp",
        "class box {\n  public:\n    long a = 1; // first\n    box() : a(2), c{3} {}\n  private:\n    using T = long;\n    static int made;\n    T b;\n    T c;\n};\nbox::box(int x) : b(x),\n  c(4) {}\n",
        Style::Cpp,
        expect![[r#"
            --- a.cpp
            +++ a.cpp
            @@ -1,12 +1,13 @@
             class box {
            -  public:
            -    long a = 1; // first
            -    box() : a(2), c{3} {}
            -  private:
            -    using T = long;
            -    static int made;
            -    T b;
            -    T c;
            +    using T = long;
            +    static int made;
            +    alignas(64) T c;
            +  public:
            +    alignas(64) long a = 1; // first
            +  private:
            +    T b;
            +  public:
            +    box() : c{3}, a(2) {}
             };
            -box::box(int x) : b(x),
            +box::box(int x) : c(4),
            -  c(4) {}
            +  b(x) {}
        "#]],
    );
}

#[test]
fn a_header_says_that_others_may_have_values() {
    check(
        "a.h",
        "struct box {\n\tlong a;\n\tlong b;\n\tlong c;\n};\n",
        Style::C,
        expect![[r#"
            Values of box without names were looked for in a.h only: those in files that include it
            must be given names, or put into the new order.
            --- a.h
            +++ a.h
            @@ -1,5 +1,5 @@
             struct box {
            -	long a;
            -	long b;
            -	long c;
            +	_Alignas(64) long c;
            +	_Alignas(64) long a;
            +	long b;
             };
        "#]],
    );
}

#[test]
fn values_by_position_that_cannot_be_told_apart_are_refused() {
    let checked = |style, behind: &str| refused(style, behind);
    let all = [
        (Style::C, "struct box some[] = { 1, 2, 3, 4, 5, 6 };"),
        (Style::C, "struct box one = {\n#ifdef A\n1,\n#endif\n2 };"),
        (Style::C, "struct box one = { 1, 2, 3, 4 };"),
        (Style::C, "#define BOX(x) (struct box){ x, 1, 2 }"),
        (Style::Cpp, "box f() { return {1, 2, 3}; }"),
        (Style::Cpp, "std::vector<box> all = {{1, 2, 3}};"),
        (
            Style::Cpp,
            "void f(const box &);\nvoid g() { f({1, 2, 3}); }",
        ),
        (
            Style::Cpp,
            "std::vector<box> all;\nvoid g() { all.push_back({1, 2, 3}); }",
        ),
        (Style::Cpp, "box one;\nvoid g() { one = {1, 2, 3}; }"),
        (Style::Cpp, "box one;\nvoid g() { auto [x, y, z] = one; }"),
        (Style::Cpp, "box one{1, 2};"),
        (Style::Cpp, "auto one = std::make_unique<box>(1, 2, 3);"),
    ];
    let text: Vec<String> = all
        .iter()
        .map(|(style, behind)| checked(*style, behind))
        .collect();
    expect![[r#"
        a.c:6: found a value without braces, expected values with names (.member = value), as box has its members in another order now
        a.c:7: found a preprocessor line among values, expected values with names (.member = value), as box has its members in another order now
        a.c:6: found a value whose member is not clear, expected values with names (.member = value), as box has its members in another order now
        a.c:6: found values in a macro, expected values with names (.member = value), as box has its members in another order now
        a.c:6: found values whose type is written elsewhere, expected box{...} or names, as box has its members in another order now
        a.c:6: found values in a container, expected a value for each member, as box has its members in another order now
        a.c:7: found values whose type is written elsewhere, expected box{...} or names, as box has its members in another order now
        a.c:7: found values whose type is written elsewhere, expected box{...} or names, as box has its members in another order now
        a.c:7: found values whose type is written elsewhere, expected box{...} or names, as box has its members in another order now
        a.c:7: found names for members by their position, expected box{...} or names, as box has its members in another order now
        a.c:6: found no value for c, expected a value for each member, as box has its members in another order now
        a.c:6: found values in round brackets, expected box{...} or names, as box has its members in another order now"#]].assert_eq(&text.join("\n"));
}

#[test]
fn bodies_that_cannot_be_rearranged_are_refused() {
    let all = [
        (
            Style::C,
            "long a;\n#ifdef B\nlong b;\n#else\nint b;\n#endif\nlong c;",
        ),
        (
            Style::C,
            "long a;\n#ifdef B\n#if C\nlong b;\n#endif\n#endif\nlong c;",
        ),
        (
            Style::C,
            "long a;\n#ifdef B\nlong b;\n#endif\n#ifndef B\nint b;\n#endif\nlong c;",
        ),
        (Style::C, "long a;\n#ifdef B\nlong b, c;"),
        (
            Style::Cpp,
            "long a;\n#ifdef B\nprivate:\nlong b;\n#endif\nlong c;",
        ),
        (Style::C, "long a;\nMEMBERS(x)\nlong b; long c;"),
        (Style::C, "MEMBERS"),
        (Style::C, "long a; long b; MEMBERS(long c)"),
        (Style::C, "long a; long b; long c; long d;"),
        (Style::C, "long a; long b;"),
        (
            Style::C,
            "long a; long b; struct inner { int x; } c;\nstruct inner *d;",
        ),
        (Style::Cpp, "long a = 1;\nlong b = 2;\nlong c = a + 1;"),
        (
            Style::Cpp,
            "box(long x) : a(x), c(a) {}\nlong a; long b; long c;",
        ),
        (
            Style::Cpp,
            "long a; long b; long c;\nauto operator<=>(const box &) const = default;",
        ),
    ];
    let text: Vec<String> = all
        .iter()
        .map(|(style, body)| refused_body(*style, body))
        .collect();
    expect![[r#"
        a.c:5: found #else under a condition among the members, expected conditions without others inside and without alternatives
        a.c:4: found #if under a condition among the members, expected conditions without others inside and without alternatives
        a.c:7: found another declaration of b, expected one of each member
        a.c:3: found a condition without an end, expected #endif
        a.c:4: found an access specifier under a condition, expected one for all conditions
        a.c:3: found the macro MEMBERS, expected a declaration that names its member
        a.c:2: found the macro MEMBERS, expected a declaration that names its member
        a.c:2: found the macro MEMBERS, expected a declaration that names its member
        a.c:2: found the member d, expected only members that box has in the debug information
        a.c:1: found no declaration of c in box, expected each member that the debug information has
        a.c:3: found the member d, expected only members that box has in the debug information
        a.c:4: found c made of a, which would come behind it, expected a value that does not use a, or a layout that keeps a before c
        a.c:2: found c made of a, which would come behind it, expected a value that does not use a, or a layout that keeps a before c
        a.c:3: found a comparison that follows the order of members, expected one that is written out"#]].assert_eq(&text.join("\n"));
}

#[test]
fn what_is_not_one_declaration_is_refused() {
    let of = |text: &str| patched("a.c", text, Style::C).unwrap_err().to_string();
    let second = Declaration {
        lines: vec![Some(2); 3],
        ..Declaration::default()
    };
    let declared_at = |told: &Declaration, text: &str| {
        let answer = patched_at("a.c", text, Style::C, told);
        answer.unwrap_err().to_string()
    };
    expect![[r#"
        a.c:1: found no structure box with its members, expected its declaration in this file, not by a macro
        a.c:4: found another declaration of box, expected one in the lines that the debug information has
        a.c:1: found brackets that do not match, expected each bracket closed once
        a.c:4: found another declaration of box, which gets the same values by their order, expected values with names (.member = value)"#]].assert_eq(&[
        of("BOX(box, long a; long b; long c);\n"),
        of("#if A\nstruct box { long a; long b; long c; };\n#else\nstruct box { long a, b, c; };\n#endif\n"),
        of("struct box { long a; long b; long c;\n"),
        declared_at(&second, "#if A\nstruct box { long a; long b; long c; };\n#else\nstruct box { long a, b, c; };\n#endif\nstruct box one = { 1, 2, 3 };\n"),
    ].join("\n"));
}

#[test]
fn values_that_no_order_changes_stay() {
    for (style, behind) in [
        (
            Style::C,
            "struct box one = { .b = 1, .a = 2 }, *two = { 0 }, none = { 0 };",
        ),
        (
            Style::C,
            "int other[] = { 1, 2, 3 };\nvoid f(struct box *b) { int box[] = { 1, 2 }; }",
        ),
        (
            Style::C,
            "#define LOCK(box) do { lock(box); } while (0)\n#define OF(boxes) (int[]){ boxes }\nstruct many {\n#if A\nstruct box *b;\n#else\n#endif\n};\nstruct many m = { 0, 1 };",
        ),
        (
            Style::Cpp,
            "box one{}; box *two{nullptr};\nstd::vector<int> f() { return {1, 2, 3}; }",
        ),
        (
            Style::Cpp,
            "std::map<int, int> m;\nvoid g() { for (auto &[k, v] : m) h({k, v}); }",
        ),
    ] {
        let text = format!("struct box {{\n\tlong a;\n\tlong b;\n\tlong c;\n}};\n{behind}\n");
        let diff = patched("a.c", &text, style).expect("nothing hinders");
        let changes = |line: &&str| line.starts_with('+') && !line.starts_with("+++");
        assert_eq!(diff.lines().filter(changes).count(), 3, "{behind}: {diff}");
    }
}

#[test]
fn rust_literals_get_the_padding_and_patterns_leave_it_out() {
    check(
        "a.rs",
        "#[derive(Default, Debug)]\n#[repr(C)]\npub(crate) struct box<T: A<B = u8>> {\n    /// First.\n    #[serde(skip)]\n    pub a: T, // beside\n    b: Vec<(T, u8)>,\n    c: u64\n}\nimpl box<u8> {\n    fn new() -> box<u8> {\n        Self { a: 1, b: vec![], c: 2 }\n    }\n}\nfn f(x: box<u8>) {\n    let box { a, b, c } = x;\n    if let (box { a, .. }, 1) = y {}\n    match x {\n        box {\n            a: 1,\n            b,\n            c,\n        } => g(box::<u8> { a, ..x }),\n        _ => g(box {\n            a,\n            b: 1,\n            c,\n        }),\n    }\n}\n",
        Style::C,
        expect![[r#"
            Literals of box in other files need _padding0: ([0; 32], [0; 24]).
            What is derived for box shows its fields in their new order, with the padding.
            --- a.rs
            +++ a.rs
            @@ -1,30 +1,44 @@
             #[derive(Default, Debug)]
            -#[repr(C)]
            -pub(crate) struct box<T: A<B = u8>> {
            -    /// First.
            -    #[serde(skip)]
            -    pub a: T, // beside
            -    b: Vec<(T, u8)>,
            -    c: u64
            +#[repr(C, align(64))]
            +pub(crate) struct box<T: A<B = u8>> {
            +    // Line 0.
            +    // Alone on it, as crossbeam_utils::CachePadded<_> would have it:
            +    // that needs no padding by hand, and takes two lines on x86-64 and AArch64.
            +    c: u64,
            +    _padding0: ([u8; 32], [u8; 24]),
            +    // Line 1.
            +    /// First.
            +    #[serde(skip)]
            +    pub a: T, // beside
            +    b: Vec<(T, u8)>,
             }
            +
            +const _: () = {
            +    assert!(core::mem::offset_of!(box, c) == 0);
            +    assert!(core::mem::offset_of!(box, a) == 64);
            +    assert!(core::mem::offset_of!(box, b) == 72);
            +    assert!(size_of::<box>() == 128);
            +};
             impl box<u8> {
                 fn new() -> box<u8> {
            -        Self { a: 1, b: vec![], c: 2 }
            +        Self { a: 1, b: vec![], c: 2, _padding0: ([0; 32], [0; 24]) }
                 }
             }
             fn f(x: box<u8>) {
            -    let box { a, b, c } = x;
            +    let box { a, b, c, .. } = x;
                 if let (box { a, .. }, 1) = y {}
                 match x {
                     box {
                         a: 1,
                         b,
                         c,
            +            ..
                     } => g(box::<u8> { a, ..x }),
                     _ => g(box {
                         a,
                         b: 1,
                         c,
            +            _padding0: ([0; 32], [0; 24]),
                     }),
                 }
             }
        "#]],
    );
}

#[test]
fn rust_that_cannot_be_rearranged_is_refused() {
    let of = |text: &str| patched("a.rs", text, Style::C).unwrap_err().to_string();
    expect![[r#"
        a.rs:1: found no declaration of it, expected the declaration of struct box, not by a macro
        a.rs:1: found no named fields, expected a structure with named fields
        a.rs:1: found the field d, expected only fields that the debug information has
        a.rs:1: found no field c, expected each field that the debug information has
        a.rs:1: found #[repr(packed)], expected a structure that is not packed
        a.rs:1: found a derived order, which follows that of the fields, expected an order that is written out
        a.rs:2: found another struct box, expected one structure of that name in the file"#]].assert_eq(&[
        of("macro!(box);\n"),
        of("struct box(u64, u64, u64);\n"),
        of("struct box { a: u64, b: u64, c: u64, d: u64 }\n"),
        of("struct box { a: u64, b: u64 }\n"),
        of("#[repr(packed)]\nstruct box { a: u64, b: u64, c: u64 }\n"),
        of("#[derive(PartialOrd)]\nstruct box { a: u64, b: u64, c: u64 }\n"),
        of("mod x { struct box { a: u64 } }\nstruct box { a: u64, b: u64, c: u64 }\n"),
    ].join("\n"));
}

#[test]
fn text_of_any_kind_is_read_or_refused() {
    let text = "struct box {\n\tlong a, b; /* x */\npublic: [[x]] long c{1}; f(int) : a(1) {} };\nbox x = {1, {2}, .a = 3};\nauto [a, b] = x; // \u{e4}\n#define X {1\n";
    for end in (0..text.len()).filter(|end| text.is_char_boundary(*end)) {
        for start in (0..end)
            .step_by(3)
            .filter(|start| text.is_char_boundary(*start))
        {
            for style in [Style::C, Style::Cpp, Style::Kernel] {
                let _ = patched("a.c", &text[start..end], style);
            }
            let _ = patched("a.rs", &text[start..end], Style::C);
        }
    }
}
