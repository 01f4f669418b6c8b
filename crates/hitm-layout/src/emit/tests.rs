mod opened;
mod patch;

use expect_test::{Expect, expect};

use super::*;
use crate::advise::SubjectMember;

/// A structure of members (name, declaration, size, alignment, offset now, offset then).
type Row = (&'static str, &'static str, u64, u64, u64, u64);

const CONTROL: [Row; 3] = [
    ("enabled", "volatile int enabled", 4, 4, 0, 64),
    ("reserved", "volatile int reserved", 4, 4, 4, 68),
    ("sequence_ctr", "volatile uint64_t sequence_ctr", 8, 8, 8, 0),
];

const SOURCE: &str = "\
#include <stdint.h>

struct control {
\tvolatile int enabled;
\t/* kept for later */
\tvolatile int reserved;
\tvolatile uint64_t sequence_ctr; /* one writer */
};

static struct control control;
";

fn built(rows: &[Row], size: u64) -> (Subject, FileStruct, Vec<String>) {
    let subject = Subject {
        name: "control".into(),
        size_bytes: 16,
        align_bytes: 8,
        members: rows
            .iter()
            .map(|(name, _, size, align, now, _)| SubjectMember {
                file: FileMember::plain(*name, *now, *size),
                align: *align,
            })
            .collect(),
    };
    let mut members: Vec<FileMember> = rows
        .iter()
        .map(|(name, _, size, _, _, then)| FileMember::plain(*name, *then, *size))
        .collect();
    members.sort_by_key(|member| member.offset_bytes);
    let layout = FileStruct {
        name: "control".into(),
        size_bytes: size,
        align_bytes: Some(64),
        members,
    };
    let declarations = rows.iter().map(|row| row.1.to_owned()).collect();
    (subject, layout, declarations)
}

fn check(style: Style, emit: impl Fn(&Emission<'_>) -> String, expected: Expect) {
    let (subject, layout, declarations) = built(&CONTROL, 128);
    let emission = Emission {
        subject: &subject,
        layout: &layout,
        declarations: &declarations,
        style,
    };
    expected.assert_eq(&emit(&emission));
}

#[test]
fn c_says_which_members_begin_lines() {
    check(
        Style::C,
        |e| c_struct(e) + &c_asserts(e.layout, e.style),
        expect![[r#"
            struct control {
            	_Alignas(64) volatile uint64_t sequence_ctr;

            	/* line 1 */
            	_Alignas(64) volatile int enabled;
            	volatile int reserved;
            };
            _Static_assert(offsetof(struct control, sequence_ctr) == 0, "control.sequence_ctr moved");
            _Static_assert(offsetof(struct control, enabled) == 64, "control.enabled moved");
            _Static_assert(offsetof(struct control, reserved) == 68, "control.reserved moved");
            _Static_assert(sizeof(struct control) == 128, "control has another size");
        "#]],
    );
    check(
        Style::Kernel,
        |e| c_struct(e) + &kernel_asserts(e.layout),
        expect![[r#"
            struct control {
            	volatile uint64_t sequence_ctr ____cacheline_aligned_in_smp;

            	/* line 1 */
            	volatile int enabled ____cacheline_aligned_in_smp;
            	volatile int reserved;
            };
            /* Mark each group in the structure with __cacheline_group_begin(GROUP) and
             * __cacheline_group_end(GROUP). */
            CACHELINE_ASSERT_GROUP_MEMBER(struct control, line0, sequence_ctr);
            CACHELINE_ASSERT_GROUP_SIZE(struct control, line0, 64);
            CACHELINE_ASSERT_GROUP_MEMBER(struct control, line1, enabled);
            CACHELINE_ASSERT_GROUP_MEMBER(struct control, line1, reserved);
            CACHELINE_ASSERT_GROUP_SIZE(struct control, line1, 64);
        "#]],
    );
    check(
        Style::C,
        |e| clang_reorder_fields(e.layout, "a.c"),
        expect![
            "clang-reorder-fields -i --record-name=control --fields-order=sequence_ctr,enabled,reserved a.c --"
        ],
    );
}

/// Members that the source declares at these lines.
fn at(lines: &[Option<u32>]) -> Declaration {
    Declaration {
        lines: lines.to_vec(),
        ..Declaration::default()
    }
}

/// A patch with the blank of an empty context line shown, which an expectation cannot hold.
pub(super) fn visible(patch: &str) -> String {
    let lines = patch
        .lines()
        .map(|line| if line == " " { "·" } else { line });
    lines.map(|line| format!("{line}\n")).collect()
}

fn source(text: &str) -> Source<'_> {
    Source { file: "a.c", text }
}

#[test]
fn a_patch_moves_declarations_with_their_comments() {
    let lines = [Some(4), Some(6), Some(7)];
    check(
        Style::C,
        |e| visible(&patch_struct(e, source(SOURCE), &at(&lines)).unwrap()),
        expect![[r#"
            --- a.c
            +++ a.c
            @@ -1,10 +1,10 @@
             #include <stdint.h>
            ·
             struct control {
            -	volatile int enabled;
            -	/* kept for later */
            -	volatile int reserved;
            -	volatile uint64_t sequence_ctr; /* one writer */
            +	_Alignas(64) volatile uint64_t sequence_ctr; /* one writer */
            +	_Alignas(64) volatile int enabled;
            +	/* kept for later */
            +	volatile int reserved;
             };
            ·
             static struct control control;
        "#]],
    );
    let error = |text: &str, lines: &[Option<u32>]| {
        let (subject, layout, declarations) = built(&CONTROL, 128);
        let emission = Emission {
            subject: &subject,
            layout: &layout,
            declarations: &declarations,
            style: Style::C,
        };
        patch_struct(&emission, source(text), &at(lines))
            .unwrap_err()
            .to_string()
    };
    expect!["a.c:7: found sequence_ctr, which the debug information has at line 99, expected the file that the program was built from"]
    .assert_eq(&error(SOURCE, &[Some(4), Some(6), Some(99)]));
    expect![
        "a.c:5: found #else under a condition among the members, expected conditions without others inside and without alternatives"
    ]
    .assert_eq(&error(
        "struct control {\n int enabled;\n#ifdef B\n int reserved;\n#else\n#endif\n long sequence_ctr;\n};\n",
        &[Some(2), Some(4), Some(6)],
    ));
}

#[test]
fn what_alignment_does_not_reach_is_padded() {
    let rows = [("a", "char a", 1, 1, 0, 3), ("b", "int b", 4, 4, 4, 128)];
    let (subject, layout, declarations) = built(&rows, 192);
    let emission = Emission {
        subject: &subject,
        layout: &layout,
        declarations: &declarations,
        style: Style::Cpp,
    };
    expect![[r#"
        struct control {
        	char hitm_padding0[3];
        	char a;
        	char hitm_padding1[124];

        	/* line 2 */
        	int b;
        	char hitm_padding2[60];
        };
        static_assert(offsetof(control, a) == 3, "control.a moved");
        static_assert(offsetof(control, b) == 128, "control.b moved");
        static_assert(sizeof(control) == 192, "control has another size");
    "#]]
    .assert_eq(&(c_struct(&emission) + &c_asserts(&layout, Style::Cpp)));
}

#[test]
fn elements_of_an_array_get_lines_of_their_own() {
    let text = "static volatile uint64_t counters[8] __attribute__((aligned(64)));\n\nvoid f(long id)\n{\n\tcounters[id % 8]++;\n\tother_counters[1] = counters[a[2]] + counters[1];\n}\n";
    expect![[r#"
        --- a.c
        +++ a.c
        @@ -1,7 +1,7 @@
        -static volatile uint64_t counters[8] __attribute__((aligned(64)));
        +static struct { _Alignas(64) volatile uint64_t value; } counters[8] __attribute__((aligned(64)));
        ·
         void f(long id)
         {
        -	counters[id % 8]++;
        +	counters[id % 8].value++;
        -	other_counters[1] = counters[a[2]] + counters[1];
        +	other_counters[1] = counters[a[2]].value + counters[1].value;
         }
    "#]].assert_eq(&visible(&patch_array("counters", source(text), Style::C).unwrap()));
    let error = patch_array("missing", source(text), Style::C).unwrap_err();
    expect!["a.c:1: found no missing[...], expected the declaration of the array"]
        .assert_eq(&error.to_string());
}

#[test]
fn changes_far_apart_are_hunks_of_their_own() {
    let old: String = (0..30).map(|line| format!("line {line}\n")).collect();
    let change = |start: usize, count: usize, lines: &[&str]| Replacement {
        start,
        count,
        lines: lines.iter().map(|line| (*line).to_owned()).collect(),
    };
    let changes = [
        change(0, 1, &["first", "second"]),
        change(20, 2, &[]),
        change(25, 1, &["line 25"]),
    ];
    expect![[r#"
        --- a
        +++ a
        @@ -1,4 +1,5 @@
        -line 0
        +first
        +second
         line 1
         line 2
         line 3
        @@ -18,8 +19,6 @@
         line 17
         line 18
         line 19
        -line 20
        -line 21
         line 22
         line 23
         line 24
    "#]]
    .assert_eq(&unified_diff("a", &old, &changes));
    expect![[r#"
        --- a
        +++ a
        @@ -1,2 +1,2 @@
         x
        -y
        \ No newline at end of file
        +z
    "#]]
    .assert_eq(&unified_diff("a", "x\ny", &[change(1, 1, &["z"])]));
    assert_eq!(unified_diff("a", &old, &[change(25, 1, &["line 25"])]), "");
}
