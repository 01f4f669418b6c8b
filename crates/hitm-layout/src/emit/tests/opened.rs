//! Sources with anonymous structures whose members move among those of the structure around them.

use expect_test::{Expect, expect};

use super::super::anonymous::Anonymous;
use super::super::*;
use super::visible;
use crate::advise::SubjectMember;

/// A structure `box` of `long` members, each to be on a line of its own.
struct Case<'c> {
    members: &'c [&'c str],
    /// The members in their new order.
    wanted: &'c [&'c str],
    text: &'c str,
    style: Style,
    /// Alignment of the structure at first.
    align_bytes: u64,
    anonymous: Vec<Anonymous>,
}

fn patched(case: Case<'_>) -> Result<String, EmitError> {
    let members = case.members;
    let places = |names: &[&str], size: u64| -> Vec<FileMember> {
        let places = (0..).step_by(usize::try_from(size).unwrap());
        let members = names.iter().zip(places);
        members
            .map(|(name, offset)| FileMember::plain(*name, offset, 8))
            .collect()
    };
    let member = |file| SubjectMember { file, align: 8 };
    let subject = Subject {
        name: "box".into(),
        size_bytes: 8 * members.len() as u64,
        align_bytes: case.align_bytes,
        members: places(members, 8).into_iter().map(member).collect(),
    };
    let layout = FileStruct {
        name: "box".into(),
        size_bytes: 64 * members.len() as u64,
        align_bytes: Some(64),
        members: places(case.wanted, 64),
    };
    let emission = Emission::new(&subject, &layout, &[], case.style)?;
    let told = Declaration {
        anonymous: case.anonymous,
        ..Declaration::default()
    };
    let source = Source {
        file: "a.c",
        text: case.text,
    };
    patch_struct(&emission, source, &told)
}

/// The members `a` and `b` of an opened structure, and `c` behind it, which comes first then.
fn pair_case(text: &str, style: Style) -> Case<'_> {
    Case {
        members: &["a", "b", "c"],
        wanted: &["c", "a", "b"],
        text,
        style,
        align_bytes: 8,
        anonymous: vec![Anonymous::Opened(Vec::new())],
    }
}

fn pair(text: &str, style: Style) -> Result<String, EmitError> {
    patched(pair_case(text, style))
}

fn check(patch: Result<String, EmitError>, expected: Expect) {
    expected.assert_eq(&visible(&patch.expect("it can be rearranged")));
}

#[test]
fn members_move_out_of_the_braces_with_their_comments() {
    let text = "struct box {\n\
                \t/* who counts */\n\
                \tstruct {\n\
                \t\tlong a; /* one writer */\n\
                \t\t/* read\n\
                \t\t * by all */\n\
                \t\tlong b;\n\
                \t\t/* no more of these */\n\
                \t} __attribute__((aligned(8))); /* end */\n\
                \n\
                \t// last\n\
                \tlong c;\n\
                };\n";
    check(
        pair(text, Style::Kernel),
        expect![[r#"
            --- a.c
            +++ a.c
            @@ -1,13 +1,12 @@
             struct box {
            -	/* who counts */
            -	struct {
            -		long a; /* one writer */
            -		/* read
            -		 * by all */
            -		long b;
            -		/* no more of these */
            -	} __attribute__((aligned(8))); /* end */
            -
            -	// last
            -	long c;
            +	/* no more of these */
            +	/* end */
            +
            +	// last
            +	long c ____cacheline_aligned_in_smp;
            +	/* who counts */
            +	long a ____cacheline_aligned_in_smp; /* one writer */
            +	/* read
            +	 * by all */
            +	long b ____cacheline_aligned_in_smp;
             };
        "#]],
    );
    let text = "struct box { struct { long a, b; }; long c; };\n";
    check(
        pair(text, Style::C),
        expect![[r#"
        --- a.c
        +++ a.c
        @@ -1,1 +1,5 @@
        -struct box { struct { long a, b; }; long c; };
        +struct box {
        +	_Alignas(64) long c;
        +	_Alignas(64) long a;
        +	_Alignas(64) long b;
        +};
    "#]],
    );
}

#[test]
fn braces_in_braces_go_together() {
    let text = "struct box {\n    struct {\n        struct {\n            long a;\n        };\n        long b;\n    };\n    long c;\n};\n\
                struct box one = { { { 1 }, 2 }, 3 };\n";
    let opened = Anonymous::Opened(vec![Anonymous::Opened(Vec::new())]);
    check(
        patched(Case {
            wanted: &["b", "c", "a"],
            anonymous: vec![opened],
            ..pair_case(text, Style::C)
        }),
        expect![[r#"
            --- a.c
            +++ a.c
            @@ -1,10 +1,6 @@
             struct box {
            -    struct {
            -        struct {
            -            long a;
            -        };
            -        long b;
            -    };
            -    long c;
            +    _Alignas(64) long b;
            +    _Alignas(64) long c;
            +    _Alignas(64) long a;
             };
            -struct box one = { { { 1 }, 2 }, 3 };
            +struct box one = { .a = 1, .b = 2, .c = 3 };
        "#]],
    );
}

#[test]
fn unions_and_randomized_structures_move_whole() {
    let text = "struct box {\n\
                \tstruct {\n\
                \t\tlong a;\n\
                \t\t/* either */\n\
                \t\tunion {\n\
                \t\t\tlong x; /* or */\n\
                \t\t\tlong y;\n\
                \t\t};\n\
                \t};\n\
                \t/* shuffled */\n\
                \tstruct {\n\
                \t\tlong z;\n\
                \t} __randomize_layout;\n\
                \tlong c;\n\
                };\n\
                struct box one = { .c = 1, .x = 2, .z = 3 };\n";
    let (either, shuffled) = ("(anonymous at 8)", "(anonymous at 16)");
    let inner = Anonymous::Opened(vec![Anonymous::Whole(1)]);
    check(
        patched(Case {
            members: &["a", either, shuffled, "c"],
            wanted: &["c", shuffled, "a", either],
            anonymous: vec![inner, Anonymous::Whole(2)],
            ..pair_case(text, Style::Kernel)
        }),
        expect![[r#"
            --- a.c
            +++ a.c
            @@ -1,16 +1,14 @@
             struct box {
            -	struct {
            -		long a;
            -		/* either */
            -		union {
            -			long x; /* or */
            -			long y;
            -		};
            -	};
            -	/* shuffled */
            -	struct {
            -		long z;
            -	} __randomize_layout;
            -	long c;
            +	long c ____cacheline_aligned_in_smp;
            +	/* shuffled */
            +	struct {
            +		long z;
            +	} __randomize_layout ____cacheline_aligned_in_smp;
            +	long a ____cacheline_aligned_in_smp;
            +	/* either */
            +	union {
            +		long x; /* or */
            +		long y;
            +	} ____cacheline_aligned_in_smp;
             };
             struct box one = { .c = 1, .x = 2, .z = 3 };
        "#]],
    );
}

const PAIR: &str = "struct box {\n\tstruct {\n\t\tlong a;\n\t\tlong b;\n\t};\n\tlong c;\n};\n";

/// Lines that take the place of `behind`, which comes after the seven lines of the structure.
fn values(style: Style, behind: &str) -> String {
    match pair(&format!("{PAIR}{behind}\n"), style) {
        Ok(diff) => {
            let lines = diff.lines().skip_while(|line| *line != " };").skip(1);
            let lines = lines.filter(|line| !line.starts_with('-'));
            lines.map(|line| line[1..].to_owned() + "\n").collect()
        }
        Err(error) => format!("{error}\n"),
    }
}

#[test]
fn values_lose_the_braces_of_an_opened_structure() {
    let all = [
        (Style::C, "struct box one = { { 1, 2 }, 3 };"),
        (Style::C, "struct box one = { 1, 2, 3 };"),
        (
            Style::C,
            "struct box all[] = { { { 1 }, 3 }, { { .b = 2, }, .c = 3 } };",
        ),
        (
            Style::C,
            "struct box one = {\n\t{\n\t\t.a = 1,\n\t},\n\t.c = 2,\n};",
        ),
        (
            Style::C,
            "struct box one = {\n\t{\n\t\t1,\n\t\t2 /* b */\n\t},\n\t3\n};",
        ),
        (Style::C, "struct box one = {\n\t{ 1,\n\t  2,\n\t}, 3\n};"),
        (
            Style::C,
            "struct box one = { .a = 1, .c = 3 }, none = { 0 };",
        ),
        (Style::Cpp, "box one{{1, 2}, 3};"),
        (Style::Cpp, "box one{1, 2, 3};"),
    ];
    let text: String = all.iter().map(|(style, of)| values(*style, of)).collect();
    expect![[r#"
        struct box one = { .a = 1, .b = 2, .c = 3 };
        struct box one = { .a = 1, .b = 2, .c = 3 };
        struct box all[] = { { .a = 1, .c = 3 }, { .b = 2, .c = 3 } };
        struct box one = {
        	.a = 1,
        	.c = 2,
        };
        struct box one = {
        	.a = 1,
        	.b = 2, /* b */
        	.c = 3
        };
        struct box one = {
        	.a = 1,
        	  .b = 2
        	, .c = 3
        };
        struct box one = { .a = 1, .c = 3 }, none = { 0 };
        box one{3, 1, 2};
        box one{3, 1, 2};
    "#]]
    .assert_eq(&text);
}

#[test]
fn values_whose_braces_cannot_go_are_refused() {
    let all = [
        (Style::C, "struct box one = { {}, 3 };"),
        (Style::C, "struct box one = { { 1, 2, 3 }, 4 };"),
        (
            Style::C,
            "struct box one = {\n\t{ 1,\n#ifdef A\n2\n#endif\n}, 3 };",
        ),
        (Style::Cpp, "box one{{1}, 3};"),
        (Style::Cpp, "box one{{.a = 1, .b = 2}, 3};"),
    ];
    let text: String = all.iter().map(|(style, of)| values(*style, of)).collect();
    expect![[r#"
        a.c:8: found no value for an anonymous structure, expected values with names (.member = value), as box has its members in another order now
        a.c:8: found a value whose member is not clear, expected values with names (.member = value), as box has its members in another order now
        a.c:10: found a preprocessor line among values, expected values with names (.member = value), as box has its members in another order now
        a.c:8: found a value behind one that is left out, expected a value for each member, as box has its members in another order now
        a.c:8: found names beside the braces of an anonymous structure, expected a value for each member, as box has its members in another order now
    "#]].assert_eq(&text);
}

#[test]
fn members_of_an_opened_structure_take_its_condition_along() {
    let text = "struct box {\n#ifdef B\n\tstruct {\n\t\tlong a; /* of a */\n\t\tlong b;\n\t};\n#endif\n\tlong c;\n};\n";
    let diff = pair(text, Style::C).expect("it can be opened");
    expect![[r#"
        --- a.c
        +++ a.c
        @@ -1,9 +1,7 @@
         struct box {
        -#ifdef B
        -	struct {
        -		long a; /* of a */
        -		long b;
        -	};
        -#endif
        -	long c;
        +	_Alignas(64) long c;
        +#ifdef B
        +	_Alignas(64) long a; /* of a */
        +	_Alignas(64) long b;
        +#endif
         };
    "#]]
    .assert_eq(&visible(&diff));
}

#[test]
fn structures_that_cannot_be_opened_are_refused() {
    let of = |text: &str| pair(text, Style::C).unwrap_err().to_string();
    let aligned = "struct box {\n\tstruct {\n\t\tlong a, b;\n\t} __aligned(128);\n\tlong c;\n};\n";
    let aligned = patched(Case {
        align_bytes: 128,
        ..pair_case(aligned, Style::Kernel)
    });
    expect![[r#"
        a.c:2: found a union, expected an anonymous structure, as the debug information has
        a.c:2: found const for an anonymous structure, expected it with each of the members
        a.c:1: found too few anonymous structures and unions, expected each that the debug information has
        a.c:3: found an anonymous structure or union, expected only those that the debug information has
        a.c:6: found #else under a condition among the members, expected conditions without others inside and without alternatives
        a.c:4: found attributes of an anonymous structure that is aligned to 128, expected the alignment on the structure around it"#]].assert_eq(
        &[
            of("struct box {\n\tunion {\n\t\tlong a, b;\n\t};\n\tlong c;\n};\n"),
            of("struct box {\n\tconst struct {\n\t\tlong a, b;\n\t};\n\tlong c;\n};\n"),
            of("struct box {\n\tlong a, b, c;\n};\n"),
            of("struct box {\n\tstruct { long a, b; };\n\tunion { int d; };\n\tlong c;\n};\n"),
            of("struct box {\n\tstruct {\n\t\tlong a;\n#ifdef B\n\t\tlong b;\n#else\n#endif\n\t};\n\tlong c;\n};\n"),
            aligned.unwrap_err().to_string(),
        ]
        .join("\n"),
    );
}

#[test]
fn text_of_any_kind_is_read_or_refused() {
    let text = "struct box { /* x */ struct {\n\tlong a; /* y */ long b; // z\n\t/* w */ } __packed;\n long c; };\nbox x = {{1, 2,}, .c = 3};\n";
    for end in 0..=text.len() {
        for start in (0..end).step_by(3) {
            for style in [Style::C, Style::Cpp, Style::Kernel] {
                let _ = pair(&text[start..end], style);
            }
        }
    }
}
